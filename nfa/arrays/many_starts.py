"""All matches in numpy, where a row's symbol set depends on the row that starts the match, or where time bounds matches.

Many searches advance together, row by row, each in a state of a deterministic automaton. The preferred match of a start
does not depend on AFTER MATCH SKIP, which is applied to the ends in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nfa.arrays.lazy_dfa import ENDS_HERE, IS_MATCH, IS_SETTLED, LazyDFA
from nfa.arrays.lockstep import SMALL, Ints, count_alone, is_better_alone
from nfa.arrays.matches import Codes, Matches, Rows, SymbolSets, offsets, partitions
from nfa.arrays.skip_chain import chain
from nfa.program import Program
from nfa.skip import Skip, past_last_row
from nfa.threads.transitions import Transitions

PIECE = 64
"""The rows that a single search requests at first."""

CODES_AT_ONCE = 4_000_000
"""The number of rows of matches whose instructions are found together."""

PATIENCE = 1 << 20
"""The number of row visits that may be in vain, as AFTER MATCH SKIP may skip starts that are searched together."""

PATIENCE_WITHIN = 1 << 24
"""The same where every search ends within NEAR rows, so that few visits can be useless."""

NEAR = 1024
"""The number of rows up to which the end of a search is near."""

PATIENCE_ALONE = 1 << 14
"""The same for searches that run one by one."""

PATIENCE_CHECKS = {1 << power for power in range(6, 63)}
"""The depths at which the visits are compared with the patience."""

SymbolSetsAt: TypeAlias = Callable[[Rows, Rows, int], SymbolSets]
"""A function that returns, for some starts and a row of each, the symbol set of the row in the match from that start.

The third argument has the bits of the requested symbols; the other bits of the result may be anything.
"""


def scan_starts(
    program: Program,
    symbol_sets_at: SymbolSetsAt,
    ends: Rows,
    skip: Skip = past_last_row,
    *,
    limits: Rows | None = None,
    candidates: Rows | None = None,
) -> Matches:
    """The matches of `find_all` in each partition, where the symbol set of a row depends on the start of the match.

    Args:
        limits: For each row, the row before which a match that begins there must end. Default: the partition's end.
        candidates: The rows at which a match can begin, ascending. Default: all.
        symbol_sets_at: Is called for starts and rows from the start to before its limit.

    Raises:
        SkipError, BudgetError: As `nfa.arrays.two_pass.scan`.

    >>> from nfa import compile_program, parse_pattern
    >>> values = np.array([3, 1, 2, 4, 1])
    >>> def symbol_sets_at(starts, rows, requested):  # A is any row, B one below the first
    ...     return 1 + 2 * (values[rows] < values[starts]).astype(np.uint8)
    >>> matches = scan_starts(compile_program(parse_pattern("A B+")), symbol_sets_at, np.array([5]))
    >>> matches.starts.tolist(), matches.lengths.tolist(), matches.codes.tolist()
    ([0, 3], [3, 2], [0, 1, 1, 0, 1])
    """
    count = int(ends[-1]) if len(ends) else 0
    every = np.arange(count) if candidates is None else candidates
    return chain(StartSearch(program, symbol_sets_at, ends, limits), every, skip)


class StartSearch:
    """Finds the preferred match of any start; an engine of `nfa.arrays.skip_chain`.

    The arguments are those of `scan_starts`.

    >>> from nfa import compile_program, parse_pattern
    >>> values = np.array([3, 1, 2, 4, 1])
    >>> def symbol_sets_at(starts, rows, requested):  # A is any row, B one below the first
    ...     return 1 + 2 * (values[rows] < values[starts]).astype(np.uint8)
    >>> search = StartSearch(compile_program(parse_pattern("A B+")), symbol_sets_at, np.array([5]))
    >>> starts = np.array([0, 1, 3])
    >>> ends, steps = search.ends(starts)
    >>> ends.tolist(), search.codes(starts[[0, 2]], ends[[0, 2]]).tolist()
    ([3, -1, 5], [0, 1, 1, 0, 1])
    """

    def __init__(self, program: Program, symbol_sets_at: SymbolSetsAt, ends: Rows, limits: Rows | None = None) -> None:
        self.transitions = Transitions(program)
        self.machine = LazyDFA(self.transitions)
        self.firsts, self.partition_ends = partitions(ends)
        self._symbol_sets_at, self._limits = symbol_sets_at, limits
        self._waiting = frozenset({*self.transitions.begin(at_start=False), *self.transitions.begin(at_start=True)})
        self._symbols_at = [self._bits()]

    def end_of_partition(self, starts: Rows) -> Rows:
        """The end of the partition of each row."""
        return self.partition_ends.take(np.searchsorted(self.partition_ends, starts, "right"))

    def ends(self, starts: Rows, patient: bool = True) -> tuple[Rows, Rows]:
        """The end of the preferred match from each start, or -1, and the number of rows visited for each.

        If not `patient` the ends may be those of the first starts only, where the others would take long.
        """
        batch = self._run(starts, patient)
        return batch.best[: batch.done], batch.steps

    def visits(self, starts: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """The number of rows visited from each start, and whether no later row matters; perhaps of the first starts only."""
        batch = self._run(starts, patient=False)
        return batch.steps[: batch.done], batch.settled[: batch.done]

    def _run(self, starts: Rows, patient: bool) -> _SearchBatch:
        batch = _SearchBatch(self, starts, patient)
        while not is_better_alone(len(batch.active), batch.depth):
            batch.step()
        batch.finish_alone()
        return batch

    def codes(self, starts: Rows, ends: Rows) -> Codes:
        """The codes of the matches from these starts, with the ends that `ends` returned."""
        places = offsets(ends - starts)
        codes = np.empty(int(places[-1]), np.int32)
        first = 0
        while first < len(starts):
            after = int(np.searchsorted(places, places[first] + CODES_AT_ONCE, "right")) - 1
            after = max(after, first + 1)
            self._fill(starts[first:after], ends[first:after], codes[places[first] : places[after]])
            first = after
        return codes

    def limits(self, starts: Rows) -> Rows:
        """For each start the row before which its match must end."""
        return self.end_of_partition(starts) if self._limits is None else self._limits[starts]

    def first_states(self, starts: Rows) -> Ints:
        """The state before each start."""
        place = np.searchsorted(self.firsts, starts, "right") - 1
        general, at_first_row = self.machine.start_offsets
        return np.where(self.firsts[place] == starts, at_first_row, general)

    def classes(self, starts: Rows, rows: Rows, depth: int = -1) -> Ints:
        """The class of each row's symbol set in the match from its start, `depth` rows after it (-1: anywhere)."""
        return self.machine.classes.of(self._symbol_sets_at(starts, rows, self._symbols(depth)))

    def _symbols(self, depth: int) -> int:
        """The bits of the symbols that a row can be taken as `depth` rows after a start."""
        while len(self._symbols_at) <= depth:
            self._waiting = frozenset(n for number in self._waiting for n in self._after(number))
            self._symbols_at.append(self._bits())
        return self._symbols_at[depth] if depth >= 0 else -1

    def _after(self, number: int) -> tuple[int, ...]:
        return self.transitions.after(number) if number in self.transitions.bits else ()

    def _bits(self) -> int:
        return sum({self.transitions.bits.get(n, 0) for n in self._waiting})

    def end_alone(self, start: int, depth: int, limit: int, closes: bool, state: int) -> tuple[int, int, bool]:
        """Continues a search, whose state is `state` after `depth` rows, to its end.

        Returns:
            The end of the preferred match (-1: none from here on), the rows visited, and whether no later row matters.
        """
        best, row, piece = -1, start + depth, PIECE
        while True:
            rows = np.arange(row, min(row + piece, limit))
            states = [state, *self._walk(start, rows, state)]
            flags = self.machine.flags.take(np.array(states))
            settled = np.flatnonzero(flags & IS_SETTLED)
            last = int(settled[0]) if len(settled) else len(rows)
            matches = np.flatnonzero(flags[: last + 1] & IS_MATCH)
            best = row + int(matches[-1]) if len(matches) else best
            row, state, piece = row + last, states[last], min(2 * piece, SMALL)
            if row == limit and closes and flags[last] & ENDS_HERE:
                best = limit
            if row == limit or len(settled):
                return best, row - start, len(settled) > 0

    def _walk(self, start: int, rows: Rows, state: int) -> list[int]:
        if not len(rows):
            return []
        return self.machine.table.walk(self.classes(np.full(len(rows), start), rows).tolist(), state)

    def _fill(self, starts: Rows, ends: Rows, codes: Codes) -> None:
        lengths = ends - starts
        places = offsets(lengths)
        order = np.argsort(-lengths, kind="stable")
        at_end = self.end_of_partition(starts) == ends
        alone = count_alone(lengths[order])
        for match in order[:alone].tolist():
            start, end = int(starts[match]), int(ends[match])
            codes[places[match] : places[match + 1]] = self._codes_alone(start, end, bool(at_end[match]))
        order = order[alone:]
        self._fill_in_lockstep(starts[order], lengths[order], at_end[order], places[order], codes)

    def _codes_alone(self, start: int, end: int, at_end: bool) -> list[int]:
        state, cells = int(self.first_states(np.array([start]))[0]), []
        for row in range(start, end, SMALL):
            rows = np.arange(row, min(row + SMALL, end))
            classes = self.classes(np.full(len(rows), start), rows).tolist()
            states = [state, *self.machine.table.walk(classes, state)]
            cells += [at + number for at, number in zip(states, classes, strict=False)]
            state = states[-1]
        place, codes = self.machine.last_place(state, at_end), []
        for cell in reversed(cells):
            thread = self.machine.base(cell) + place
            codes.append(self.machine.codes[thread])
            place = self.machine.parents[thread]
        return codes[::-1]

    def _fill_in_lockstep(
        self, starts: Rows, lengths: Rows, at_end: NDArray[np.bool_], places: Rows, codes: Codes
    ) -> None:
        """Fills in the codes of many matches, the longest first, one row of each at a time."""
        if not len(starts):
            return
        # The number of matches with a row at each depth.
        counts = np.searchsorted(-lengths, -np.arange(int(lengths[0])), "left").tolist()
        state, cells = self.first_states(starts), []
        for depth, count in enumerate(counts):
            cells.append(state[:count] + self.classes(starts[:count], starts[:count] + depth, depth))
            state[:count] = self.machine.table.look(cells[-1])
        place = self._last_places(state, at_end)
        bases, parents, code_of = self.machine.bases(), np.array(self.machine.parents), np.array(self.machine.codes)
        for depth in range(len(counts) - 1, -1, -1):
            thread = bases.take(cells[depth]) + place[: counts[depth]]
            codes[places[: counts[depth]] + depth] = code_of.take(thread)
            place[: counts[depth]] = parents.take(thread)

    def _last_places(self, state: Ints, at_end: NDArray[np.bool_]) -> Ints:
        numbers = state // self.machine.width
        lengths = np.array([len(threads) for threads in self.machine.threads])
        return np.where(at_end, np.array(self.machine.closing).take(numbers), lengths.take(numbers) - 1)


class _SearchBatch:
    """Searches that have all visited `depth` rows; if not `patient` only the first `done` of them are finished."""

    def __init__(self, search: StartSearch, starts: Rows, patient: bool) -> None:
        self._search, self._starts, self._patient = search, starts, patient
        self._limits = search.limits(starts)
        self._closes = self._limits == search.end_of_partition(starts)
        near = len(starts) > 0 and int((self._limits - starts).max()) <= NEAR
        self._patience = PATIENCE_WITHIN if near else PATIENCE
        self.best, self.steps = np.full(len(starts), -1, np.int64), np.zeros(len(starts), np.int64)
        self.settled = np.zeros(len(starts), np.bool_)
        self.state, self.depth, self.done = search.first_states(starts), 0, len(starts)
        # Of the open searches: their numbers, first rows, current rows and limits.
        self.active: Ints = np.arange(len(starts))
        self._firsts, self._rows, self._ends = starts, starts.copy(), self._limits

    def step(self) -> None:
        """Records the matches that end here, drops the searches that are decided, and moves the others one row on."""
        machine = self._search.machine
        stops = self._record(machine.flags.take(self.state))
        if self.depth in PATIENCE_CHECKS and not self._patient:
            self.done = min(self.done, max(self._patience // self.depth, 1))
            stops = np.union1d(stops, np.flatnonzero(self.active >= self.done))
        if len(stops):
            self.steps[self.active.take(stops)] = self.depth
            self._drop(stops)
        self.state += self._search.classes(self._firsts, self._rows, self.depth)
        self.state = machine.table.look(self.state)
        self._rows += 1
        self.depth += 1

    def _record(self, flags: NDArray[np.uint8]) -> Ints:
        """Records the matches that end here; returns the places of the searches that are decided."""
        at_limit = self._rows == self._ends
        places = np.flatnonzero((flags != 0) | at_limit)
        if not len(places):
            return places
        active, rows, flags = self.active.take(places), self._rows.take(places), flags.take(places)
        at_limit = at_limit.take(places)
        matches = (flags & IS_MATCH > 0) | (at_limit & self._closes.take(active) & (flags & ENDS_HERE > 0))
        self.best[active[matches]] = rows[matches]
        settled = flags & IS_SETTLED > 0
        self.settled[active] = settled
        decided: Ints = places[at_limit | settled]
        return decided

    def _drop(self, places: Ints) -> None:
        is_open = np.ones(len(self.active), np.bool_)
        is_open[places] = False
        rest = np.flatnonzero(is_open)
        self.active, self.state = self.active.take(rest), self.state.take(rest)
        self._firsts, self._rows, self._ends = (of.take(rest) for of in (self._firsts, self._rows, self._ends))

    def finish_alone(self) -> None:
        """Finishes the open searches one by one."""
        visits = 0
        for number, state in zip(self.active.tolist(), self.state.tolist(), strict=True):
            self.steps[number] = self.depth
            if number < self.done:
                start, limit, closes = int(self._starts[number]), int(self._limits[number]), bool(self._closes[number])
                end, self.steps[number], self.settled[number] = self._search.end_alone(
                    start, self.depth, limit, closes, state
                )
                self.best[number] = max(end, self.best[number])
                visits += int(self.steps[number]) - self.depth
                if visits > PATIENCE_ALONE and not self._patient:
                    self.done = number + 1
