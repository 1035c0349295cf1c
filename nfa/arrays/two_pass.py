"""All matches in numpy and in linear time, where a row's symbol set does not depend on the rows matched before it.

Two passes of deterministic automata. The backward pass finds for each row the instructions that can take it and still
reach a match. So the forward pass never backtracks: the next instruction is the first in preference order that can reach a
match.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nfa.arrays import lockstep
from nfa.arrays.lockstep import Grid, Ints, Table, is_better_alone, shape, to_grid, to_word
from nfa.arrays.matches import Codes, Matches, Rows, SymbolSets, concatenate, offsets, partitions
from nfa.arrays.skip_chain import STARTS_AT_ONCE, chain, check_result
from nfa.errors import BudgetError
from nfa.program import Program
from nfa.skip import Skip, past_last_row, to_next_row
from nfa.threads.transitions import Transitions, mask

SET_LIMIT = 10_000
"""The most sets of instructions of the backward pass."""

WORK_LIMIT = 20_000_000
"""The most instructions visited to find these sets."""

NARROW_SYMBOLS = 7
"""The most symbols for which a symbol set and the mark of a last row fit into one byte."""

PIECE = 64
"""The rows of a match read at first when it is followed alone."""

Flags: TypeAlias = NDArray[np.bool_]

NONE, EMPTY = -1, -2


def scan(
    program: Program, symbol_sets: SymbolSets, ends: Rows, skip: Skip = past_last_row, *, segments: int | None = None
) -> Matches:
    """The matches of `find_all` in each partition.

    Args:
        symbol_sets: For each row the bits of the symbols that it can be, numbered as by `symbols(tree)`.
        ends: The numbers of the rows after each partition's last; partitions lie one after the other.
        segments: The number of segments of `lockstep`; by default it is chosen by the number of rows.

    Raises:
        SkipError: As `find_all`.
        BudgetError: Only the thread machine can run the pattern.

    >>> from nfa import compile_program, parse_pattern
    >>> program = compile_program(parse_pattern("A B+"))
    >>> matches = scan(program, np.array([1, 2, 2, 1, 2], np.uint8), np.array([3, 5]))
    >>> matches.starts.tolist(), matches.lengths.tolist(), matches.codes.tolist()
    ([0, 3], [3, 2], [0, 1, 1, 0, 1])
    """
    return Scan(program, symbol_sets, ends, segments).matches(skip)


class BackwardAutomaton:
    """The automaton of the backward pass: its states are the sets, as bits, of instructions that take a row and reach a match.

    State 1 is the one beyond a partition's end. An input is the class of a row's symbol set, plus the number of classes if
    the row is the last of its partition.
    """

    def __init__(self, transitions: Transitions, symbol_sets: list[int]) -> None:
        self._classes = len(symbol_sets)
        self._after = {
            number: (mask(after), after[-1:] == (transitions.done,), any(map(transitions.ends, after)))
            for number in transitions.bits
            for after in [transitions.after(number)]
        }
        self._takers = [[n for n, bit in transitions.bits.items() if symbol_set & bit] for symbol_set in symbol_sets]
        self.sets = [0, 0]
        self._numbers = {0: 1}
        self._work = 0
        self.table = Table(2 * self._classes, self._step)

    def _step(self, state: int, symbol: int) -> int:
        is_last, row_class = divmod(symbol, self._classes)
        self._work += len(self._takers[row_class])
        ahead, able = self.sets[state], 0
        for number in self._takers[row_class]:
            after, done, ends = self._after[number]
            if ends if is_last else done or after & ahead:
                able |= 1 << number
        return self._number(able)

    def _number(self, able: int) -> int:
        number = self._numbers.setdefault(able, len(self.sets))
        if number == len(self.sets):
            self.sets.append(able)
            if number > SET_LIMIT or self._work > WORK_LIMIT:
                raise BudgetError(
                    f"the pattern needs more than {SET_LIMIT} sets of instructions or is too long for them"
                )
        return number


class Transducer:
    """The automaton of the forward pass.

    An input is the number of the backward pass's set before a row, plus the number of sets if the row is the first of its
    partition. A state says which instruction takes the row, and whether a match begins there.
    """

    def __init__(self, transitions: Transitions, sets: list[int]) -> None:
        self._transitions, self.sets = transitions, sets
        self._begin = [transitions.begin(at_start) for at_start in (False, True)]
        self.states = [(NONE, False), (NONE, False)]
        self._numbers = {(NONE, False): 1}
        self._columns = np.zeros(0, np.int32), np.zeros(0, np.bool_), np.zeros(0, np.bool_)
        self.table = Table(2 * len(sets), self._step)

    def _step(self, state: int, symbol: int) -> int:
        is_first, number = divmod(symbol, len(self.sets))
        code, begins = NONE, False
        if not is_first and self.states[state][0] >= 0:
            code = self._first(self._transitions.after(self.states[state][0]), number)
        if code < 0:
            code, begins = self._first(self._begin[is_first], number), True
        return self._number((code, begins and code != NONE))

    def _first(self, waiting: tuple[int, ...], number: int) -> int:
        able = self.sets[number]
        for place in waiting:
            if place == self._transitions.done:
                return EMPTY
            if able >> place & 1:
                return place
        return NONE

    def _number(self, state: tuple[int, bool]) -> int:
        number = self._numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
        return number

    @property
    def codes(self) -> Codes:
        """For each state the instruction that takes the row, or a negative number."""
        return self._arrays()[0]

    @property
    def begins(self) -> Flags:
        """For each state whether a match begins, perhaps an empty one."""
        return self._arrays()[1]

    @property
    def continues(self) -> Flags:
        """For each state whether it takes a row of a match that began before."""
        return self._arrays()[2]

    def _arrays(self) -> tuple[Codes, Flags, Flags]:
        if len(self._columns[0]) < len(self.states):
            codes = np.array([code for code, _ in self.states], np.int32)
            begins = np.array([begins for _, begins in self.states], np.bool_)
            self._columns = codes, begins, (codes >= 0) & ~begins
        return self._columns


class Scan:
    """The search in all partitions, after its backward pass; an engine of `nfa.arrays.skip_chain`."""

    def __init__(self, program: Program, symbol_sets: SymbolSets, ends: Rows, segments: int | None = None) -> None:
        self.transitions = Transitions(program)
        self.firsts, self._ends = partitions(ends)
        self.count = int(self._ends[-1]) if len(self._ends) else 0
        # An additional row stands for the place beyond the end.
        self._steps, self._segments = shape(self.count + 1, segments)
        sets, number_of = self._backward(symbol_sets[: self.count])
        self.transducer = Transducer(self.transitions, sets)
        self._read = self._forward_inputs(number_of, len(sets))

    def matches(self, skip: Skip) -> Matches:
        """The matches."""
        if skip is past_last_row:
            return self._past_last_row()
        if skip is to_next_row:
            return self._to_next_row()
        return chain(self, self.candidates(), skip)

    def _backward(self, symbol_sets: SymbolSets) -> tuple[list[int], Grid]:
        values, word = _classes(symbol_sets, len(self.transitions.symbols), self._steps * self._segments)
        word[self._ends - 1] += len(values)
        word[self.count :] = len(values)
        sets = BackwardAutomaton(self.transitions, values)
        number_of = lockstep.run(sets.table, to_grid(word, self._steps, self._segments), 1, backward=True)
        return sets.sets, number_of

    def _forward_inputs(self, number_of: Grid, sets: int) -> Grid:
        read = number_of.astype(_narrowest(2 * sets))
        first = np.append(self.firsts, self.count)
        read[first % self._steps, first // self._steps] += sets
        return read

    def _past_last_row(self) -> Matches:
        grid = lockstep.run(self.transducer.table, self._read, 1)
        states = to_word(grid.astype(_narrowest(len(self.transducer.states))))[: self.count]
        taken = (self.transducer.codes >= 0).take(states)
        starts = np.flatnonzero(self.transducer.begins.take(states))
        counts = np.cumsum(taken, dtype=np.int32)  # a match ends before the next one starts
        before = counts[starts] - taken[starts]
        lengths = np.diff(before, append=counts[-1:]).astype(np.int64)
        return Matches(starts, lengths, self.transducer.codes.take(np.compress(taken, states)))

    def candidates(self) -> Rows:
        """The rows at which a match begins if all matches may overlap."""
        states = self._start_states[: self.count] // self._width
        return np.flatnonzero(self.transducer.begins.take(states))

    def able(self, number: int) -> Flags:
        """For each row whether this instruction can take it and reach a match."""
        sets = self.transducer.sets
        takes = np.array([able >> number & 1 for able in sets], np.bool_)
        return np.concatenate([takes, takes]).take(self._word[: self.count])

    def ends(self, starts: Rows, patient: bool) -> tuple[Rows, Rows]:
        """The end of the match from each of these candidates, and the number of rows visited: the rows of the match."""
        lengths = self._follow(starts)[0]
        return starts + lengths, lengths

    def codes(self, starts: Rows, ends: Rows) -> Codes:
        """The codes of the matches from these candidates."""
        return self._matches_from(starts).codes

    @property
    def _width(self) -> int:
        return self.transducer.table.width

    @cached_property
    def _word(self) -> Grid:
        return to_word(self._read)

    @cached_property
    def _start_states(self) -> Ints:
        # The state after each row as a start: state 1 is the one outside of matches.
        table = self.transducer.table
        present = np.flatnonzero(np.bincount(self._word, minlength=table.width))
        after = np.zeros(table.width, np.intp)
        after[present] = table.look(table.offset(1) + present)
        states: Ints = after.take(self._word)
        return states

    def _to_next_row(self) -> Matches:
        starts, total, parts = self.candidates(), 0, []
        for first in range(0, len(starts), STARTS_AT_ONCE):
            parts.append(self._matches_from(starts[first : first + STARTS_AT_ONCE]))
            total += len(parts[-1].codes)
            check_result(total)
        return concatenate(parts)

    def _matches_from(self, starts: Rows) -> Matches:
        """The matches from all these starts, overlapping or not."""
        lengths, steps, tails = self._follow(starts)
        places = offsets(lengths)
        codes = np.empty(int(places[-1]), np.int32)
        code_of = self.transducer.codes
        for depth, (active, state) in enumerate(steps):
            codes[places[active] + depth] = code_of[state // self._width]
        for match, tail in tails.items():
            codes[places[match] + len(steps) : places[match + 1]] = tail
        return Matches(starts, lengths, codes)

    def _follow(self, starts: Rows) -> tuple[Rows, list[tuple[Ints, Ints]], dict[int, list[int]]]:
        """Follows the matches from these starts together, and the longest one by one in the end.

        Returns:
            The lengths of the matches; for each common step the matches still open, with their states; for each match
            followed alone the codes of its remaining rows.
        """
        state: Ints = self._start_states[starts]
        lengths, total = np.zeros(len(starts), np.int64), 0
        steps: list[tuple[Ints, Ints]] = []
        active = np.flatnonzero(self.transducer.codes[state // self._width] >= 0)
        state = state[active]
        while not is_better_alone(len(active), depth := len(steps)):
            steps.append((active, state))
            check_result(total := total + len(active))
            state = self.transducer.table.look(state + self._word.take(starts[active] + depth + 1))
            continues = self.transducer.continues[state // self._width]
            lengths[active[~continues]] = depth + 1
            active, state = active[continues], state[continues]
        rows = (starts[active] + depth).tolist()
        tails = dict(zip(active.tolist(), map(self._tail, rows, state.tolist()), strict=True))
        lengths[active] = [depth + len(tail) for tail in tails.values()]
        return lengths, steps, tails

    def _tail(self, row: int, state: int) -> list[int]:
        """The codes of a match from this row on, in this state."""
        codes: list[int] = []
        table, piece = self.transducer.table, PIECE
        while True:
            read = self._word[row + 1 : row + 1 + piece].tolist()
            ahead = np.array([state, *table.walk(read, state)])
            stops = np.flatnonzero(~self.transducer.continues[ahead[1:] // self._width])
            last = int(stops[0]) + 1 if len(stops) else len(read)
            codes += self.transducer.codes[ahead[:last] // self._width].tolist()
            check_result(len(codes))
            if len(stops):
                return codes
            row, state, piece = row + last, int(ahead[-1]), min(2 * piece, lockstep.SMALL)


def _classes(symbol_sets: SymbolSets, symbols: int, length: int) -> tuple[list[int], Grid]:
    """The distinct symbol sets, the empty one first, and the class of each row's set, padded to `length` rows."""

    used = (1 << symbols) - 1
    if symbols <= NARROW_SYMBOLS:
        word = np.zeros(length, np.uint8)
        np.bitwise_and(symbol_sets, np.array(used, symbol_sets.dtype), out=word[: len(symbol_sets)], casting="unsafe")
        return list(range(used + 1)), word
    limit = np.array(min(used, np.iinfo(symbol_sets.dtype).max), symbol_sets.dtype)
    values, number_of = np.unique(np.append(symbol_sets & limit, np.zeros(1, symbol_sets.dtype)), return_inverse=True)
    word = np.zeros(length, _narrowest(2 * len(values)))
    word[: len(symbol_sets)] = number_of[:-1]
    return [int(value) for value in values], word


def _narrowest(count: int) -> np.dtype[Any]:
    return np.min_scalar_type(count)
