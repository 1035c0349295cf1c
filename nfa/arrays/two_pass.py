"""All matches in linear time and in numpy, where what a row can be does not depend on the rows matched before it.

Two passes of deterministic automata. The backward pass finds for each row which instructions can take it and still
come to a match. With that known the forward pass never has to try: the next instruction is the first in preference
order that can come to a match.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nfa.arrays import lockstep
from nfa.arrays.lockstep import Grid, Ints, Table, flat, gridded, is_better_alone, shape
from nfa.arrays.matches import Codes, Found, Letters, Rows, joined, offsets, partitions
from nfa.arrays.skip_chain import STARTS_AT_ONCE, chain, check_result
from nfa.errors import BudgetError
from nfa.program import Program
from nfa.skip import Skip, past_last_row, to_next_row
from nfa.threads.transitions import Closures, mask

SET_LIMIT = 10_000
"""The most sets of instructions of the backward pass."""

WORK_LIMIT = 20_000_000
"""The most instructions looked at to find these sets."""

NARROW_SYMBOLS = 7
"""Up to so many symbols, a letter and the mark of a last row fit into one byte."""

PIECE = 64
"""How many rows of a match that is followed alone are read at first."""

Flags: TypeAlias = NDArray[np.bool_]

NONE, EMPTY = -1, -2


def scan(
    program: Program, letters: Letters, ends: Rows, skip: Skip = past_last_row, *, lanes: int | None = None
) -> Found:
    """What `find_all` gives for each partition; `letters` has bit s of a row set when it can be symbol number s.

    Symbols are numbered as by `symbols(tree)`; the partitions lie one after the other and end before the rows `ends`.
    Raises SkipError as `find_all`, BudgetError for patterns that only the thread machine can run.

    >>> from nfa import compile_program, parse_pattern
    >>> program = compile_program(parse_pattern("A B+"))
    >>> found = scan(program, np.array([1, 2, 2, 1, 2], np.uint8), np.array([3, 5]))
    >>> found.starts.tolist(), found.lengths.tolist(), found.codes.tolist()
    ([0, 3], [3, 2], [0, 1, 1, 0, 1])
    """
    return Scan(program, letters, ends, lanes).found(skip)


class Sets:
    """The automaton of the backward pass: sets of instructions, as bits, that can take a row and come to a match.

    Set 1 is the one beyond a partition's end. A letter is the class of the row's own, and one bit above these marks
    the last row of a partition.
    """

    def __init__(self, closures: Closures, letters: list[int]) -> None:
        self._classes = len(letters)
        self._after = {
            number: (mask(after), after[-1:] == (closures.done,), any(map(closures.ends, after)))
            for number in closures.bits
            for after in [closures.after(number)]
        }
        self._takers = [[n for n, bit in closures.bits.items() if letter & bit] for letter in letters]
        self.sets = [0, 0]
        self._numbers = {0: 1}
        self._work = 0
        self.table = Table(2 * self._classes, self._step)

    def _step(self, state: int, letter: int) -> int:
        is_last, letter = divmod(letter, self._classes)
        self._work += len(self._takers[letter])
        ahead, found = self.sets[state], 0
        for number in self._takers[letter]:
            after, done, ends = self._after[number]
            if ends if is_last else done or after & ahead:
                found |= 1 << number
        return self._number(found)

    def _number(self, found: int) -> int:
        number = self._numbers.setdefault(found, len(self.sets))
        if number == len(self.sets):
            self.sets.append(found)
            if number > SET_LIMIT or self._work > WORK_LIMIT:
                raise BudgetError(
                    f"the pattern needs more than {SET_LIMIT} sets of instructions or is too long for them"
                )
        return number


class Transducer:
    """The automaton of the forward pass. What it reads is the set before each row, twice: the second half for rows
    that are the first of a partition. A state tells which instruction takes the row, and whether a match begins there.
    """

    def __init__(self, closures: Closures, sets: list[int]) -> None:
        self._closures, self.sets = closures, sets
        self._begin = [closures.begin(at_start) for at_start in (False, True)]
        self.states = [(NONE, False), (NONE, False)]
        self._numbers = {(NONE, False): 1}
        self._told = np.zeros(0, np.int32), np.zeros(0, np.bool_), np.zeros(0, np.bool_)
        self.table = Table(2 * len(sets), self._step)

    def _step(self, state: int, letter: int) -> int:
        is_first, number = divmod(letter, len(self.sets))
        found, begins = NONE, False
        if not is_first and self.states[state][0] >= 0:
            found = self._first(self._closures.after(self.states[state][0]), number)
        if found < 0:
            found, begins = self._first(self._begin[is_first], number), True
        return self._number((found, begins and found != NONE))

    def _first(self, waiting: tuple[int, ...], number: int) -> int:
        able = self.sets[number]
        for place in waiting:
            if place == self._closures.done:
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
    def goes_on(self) -> Flags:
        """For each state whether it takes a row of a match that began before."""
        return self._arrays()[2]

    def _arrays(self) -> tuple[Codes, Flags, Flags]:
        if len(self._told[0]) < len(self.states):
            codes = np.array([code for code, _ in self.states], np.int32)
            begins = np.array([begins for _, begins in self.states], np.bool_)
            self._told = codes, begins, (codes >= 0) & ~begins
        return self._told


class Scan:
    """The rows of all partitions after the backward pass."""

    def __init__(self, program: Program, letters: Letters, ends: Rows, lanes: int | None = None) -> None:
        self.closures = Closures(program)
        self.firsts, self._ends = partitions(ends)
        self.count = int(self._ends[-1]) if len(self._ends) else 0
        # One row more than there are stands for what is beyond the end.
        self._steps, self._lanes = shape(self.count + 1, lanes)
        sets, number_of = self._backward(letters[: self.count])
        self.transducer = Transducer(self.closures, sets)
        self._read = self._marked(number_of, len(sets))

    def found(self, skip: Skip) -> Found:
        """The matches."""
        if skip is past_last_row:
            return self._past_last_row()
        if skip is to_next_row:
            return self._to_next_row()
        return chain(self, self.candidates(), skip)

    def _backward(self, letters: Letters) -> tuple[list[int], Grid]:
        values, word = _classes(letters, len(self.closures.symbols), self._steps * self._lanes)
        word[self._ends - 1] += len(values)
        word[self.count :] = len(values)
        sets = Sets(self.closures, values)
        number_of = lockstep.run(sets.table, gridded(word, self._steps, self._lanes), 1, backward=True)
        return sets.sets, number_of

    def _marked(self, number_of: Grid, sets: int) -> Grid:
        read = number_of.astype(_narrowest(2 * sets))
        first = np.append(self.firsts, self.count)
        read[first % self._steps, first // self._steps] += sets
        return read

    def _past_last_row(self) -> Found:
        ran = lockstep.run(self.transducer.table, self._read, 1)
        states = flat(ran.astype(_narrowest(len(self.transducer.states))))[: self.count]
        taken = (self.transducer.codes >= 0).take(states)
        starts = np.flatnonzero(self.transducer.begins.take(states))
        counts = np.cumsum(taken, dtype=np.int32)  # no match goes on behind the start of the next one
        before = counts[starts] - taken[starts]
        lengths = np.diff(before, append=counts[-1:]).astype(np.int64)
        return Found(starts, lengths, self.transducer.codes.take(np.compress(taken, states)))

    def candidates(self) -> Rows:
        """The rows where a match begins, if none has to wait for another to end."""
        states = self._begun[: self.count] // self._width
        return np.flatnonzero(self.transducer.begins.take(states))

    def able(self, number: int) -> Flags:
        """For each row whether this instruction can take it and come to a match."""
        sets = self.transducer.sets
        takes = np.array([found >> number & 1 for found in sets], np.bool_)
        return np.concatenate([takes, takes]).take(self._word[: self.count])

    def ends(self, starts: Rows, patient: bool) -> tuple[Rows, Rows]:
        """The end of the match from each of these candidates, and the rows looked at, which are just its own."""
        lengths = self._followed(starts)[0]
        return starts + lengths, lengths

    def codes(self, starts: Rows, ends: Rows) -> Codes:
        """The codes of the matches from these candidates."""
        return self._found(starts).codes

    @property
    def _width(self) -> int:
        return self.transducer.table.width

    @cached_property
    def _word(self) -> Grid:
        return flat(self._read)

    @cached_property
    def _begun(self) -> Ints:
        # The state of each row as a start: state 1 comes from outside any match.
        table = self.transducer.table
        present = np.flatnonzero(np.bincount(self._word, minlength=table.width))
        known = np.zeros(table.width, np.intp)
        known[present] = table.look(table.offset(1) + present)
        begun: Ints = known.take(self._word)
        return begun

    def _to_next_row(self) -> Found:
        starts, total, parts = self.candidates(), 0, []
        for first in range(0, len(starts), STARTS_AT_ONCE):
            parts.append(self._found(starts[first : first + STARTS_AT_ONCE]))
            total += len(parts[-1].codes)
            check_result(total)
        return joined(parts)

    def _found(self, starts: Rows) -> Found:
        """The matches from all these starts, overlapping or not."""
        lengths, steps, tails = self._followed(starts)
        places = offsets(lengths)
        codes = np.empty(int(places[-1]), np.int32)
        code_of = self.transducer.codes
        for depth, (lanes, state) in enumerate(steps):
            codes[places[lanes] + depth] = code_of[state // self._width]
        for lane, tail in tails.items():
            codes[places[lane] + len(steps) : places[lane + 1]] = tail
        return Found(starts, lengths, codes)

    def _followed(self, starts: Rows) -> tuple[Rows, list[tuple[Ints, Ints]], dict[int, list[int]]]:
        """The lengths of the matches; for each step the starts under way and their states; codes of those left over."""
        state: Ints = self._begun[starts]
        lengths, total = np.zeros(len(starts), np.int64), 0
        steps: list[tuple[Ints, Ints]] = []
        active = np.flatnonzero(self.transducer.codes[state // self._width] >= 0)
        state = state[active]
        while not is_better_alone(len(active), depth := len(steps)):
            steps.append((active, state))
            check_result(total := total + len(active))
            state = self.transducer.table.look(state + self._word.take(starts[active] + depth + 1))
            goes_on = self.transducer.goes_on[state // self._width]
            lengths[active[~goes_on]] = depth + 1
            active, state = active[goes_on], state[goes_on]
        rows = (starts[active] + depth).tolist()
        tails = dict(zip(active.tolist(), map(self._tail, rows, state.tolist()), strict=True))
        lengths[active] = [depth + len(tail) for tail in tails.values()]
        return lengths, steps, tails

    def _tail(self, row: int, state: int) -> list[int]:
        """The codes of a match from this row on, where it is in this state."""
        found: list[int] = []
        table, piece = self.transducer.table, PIECE
        while True:
            read = self._word[row + 1 : row + 1 + piece].tolist()
            ahead = np.array([state, *table.walk(read, state)])
            stops = np.flatnonzero(~self.transducer.goes_on[ahead[1:] // self._width])
            last = int(stops[0]) + 1 if len(stops) else len(read)
            found += self.transducer.codes[ahead[:last] // self._width].tolist()
            check_result(len(found))
            if len(stops):
                return found
            row, state, piece = row + last, int(ahead[-1]), min(2 * piece, lockstep.SMALL)


def _classes(letters: Letters, symbols: int, length: int) -> tuple[list[int], Grid]:
    """The distinct letters, letter 0 first, and the class of each row's letter, with room for more rows."""
    used = (1 << symbols) - 1
    if symbols <= NARROW_SYMBOLS:
        word = np.zeros(length, np.uint8)
        np.bitwise_and(letters, np.array(used, letters.dtype), out=word[: len(letters)], casting="unsafe")
        return list(range(used + 1)), word
    limit = np.array(min(used, np.iinfo(letters.dtype).max), letters.dtype)
    values, number_of = np.unique(np.append(letters & limit, np.zeros(1, letters.dtype)), return_inverse=True)
    word = np.zeros(length, _narrowest(2 * len(values)))
    word[: len(letters)] = number_of[:-1]
    return [int(value) for value in values], word


def _narrowest(count: int) -> np.dtype[Any]:
    return np.min_scalar_type(count)
