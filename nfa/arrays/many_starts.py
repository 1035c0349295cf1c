"""All matches in numpy where what a row can be depends on the row that begins the match, or where time bounds matches.

Many starts advance together, row by row, each in a state of the thread machine made deterministic. The preferred
match of a start does not depend on AFTER MATCH SKIP, which is applied to the ends in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nfa.arrays.lazy_dfa import ENDS_HERE, IS_MATCH, IS_SETTLED, Determined
from nfa.arrays.lockstep import SMALL, Ints, how_many_alone, is_better_alone
from nfa.arrays.matches import Codes, Found, Letters, Rows, offsets, partitions
from nfa.arrays.skip_chain import chain
from nfa.program import Program
from nfa.skip import Skip, past_last_row
from nfa.threads.transitions import Closures

PIECE = 64
"""How many rows of a start that is followed alone are asked for at first."""

CODES_AT_ONCE = 4_000_000
"""How many rows of matches are gone back over together."""

PATIENCE = 1 << 20
"""How many starts times rows are looked at together without knowing whether the search comes to these starts."""

PATIENCE_WITHIN = 1 << 24
"""The same where none of them can go far: then little can be in vain."""

NEAR = 1024
"""So many rows from its start is not far."""

PATIENCE_ALONE = 1 << 14
"""The same, of those that are followed alone."""

CHECKPOINTS = {1 << power for power in range(6, 63)}
"""The depths at which patience is looked after."""

LettersAt: TypeAlias = Callable[[Rows, Rows, int], Letters]
"""For some starts and a row of each: the letter of the row in the match that begins at the start.

Only the symbols whose bits are in the third are asked about; of the others the letter may say what it will.
"""


def scan_lanes(
    program: Program,
    letters_at: LettersAt,
    ends: Rows,
    skip: Skip = past_last_row,
    *,
    limits: Rows | None = None,
    candidates: Rows | None = None,
) -> Found:
    """What `find_all` gives for each partition, where the letter of a row depends on the start of the match.

    `limits` tells for each row how far a match that begins there may go, `candidates` where one can begin at all, in
    ascending order; without them to the partition's end, and everywhere. `letters_at` may be asked for any start and
    a row from it to before its limit. Raises as `nfa.arrays.two_pass.scan`.

    >>> from nfa import compile_program, parse_pattern
    >>> values = np.array([3, 1, 2, 4, 1])
    >>> def letters_at(starts, rows, asked):  # A is any row, B one below the first
    ...     return 1 + 2 * (values[rows] < values[starts]).astype(np.uint8)
    >>> found = scan_lanes(compile_program(parse_pattern("A B+")), letters_at, np.array([5]))
    >>> found.starts.tolist(), found.lengths.tolist(), found.codes.tolist()
    ([0, 3], [3, 2], [0, 1, 1, 0, 1])
    """
    count = int(ends[-1]) if len(ends) else 0
    every = np.arange(count) if candidates is None else candidates
    return chain(Lanes(program, letters_at, ends, limits), every, skip)


class Lanes:
    """The preferred match of any start; the arguments are those of `scan_lanes`.

    >>> from nfa import compile_program, parse_pattern
    >>> values = np.array([3, 1, 2, 4, 1])
    >>> def letters_at(starts, rows, asked):  # A is any row, B one below the first
    ...     return 1 + 2 * (values[rows] < values[starts]).astype(np.uint8)
    >>> lanes = Lanes(compile_program(parse_pattern("A B+")), letters_at, np.array([5]))
    >>> starts = np.array([0, 1, 3])
    >>> ends, steps = lanes.ends(starts)
    >>> ends.tolist(), lanes.codes(starts[[0, 2]], ends[[0, 2]]).tolist()
    ([3, -1, 5], [0, 1, 1, 0, 1])
    """

    def __init__(self, program: Program, letters_at: LettersAt, ends: Rows, limits: Rows | None = None) -> None:
        self.closures = Closures(program)
        self.machine = Determined(self.closures)
        self.firsts, self.partition_ends = partitions(ends)
        self._letters_at, self._limits = letters_at, limits
        self._waiting = frozenset({*self.closures.begin(at_start=False), *self.closures.begin(at_start=True)})
        self._asked_at = [self._bits()]

    def end_of_partition(self, starts: Rows) -> Rows:
        """The end of the partition of each row."""
        return self.partition_ends.take(np.searchsorted(self.partition_ends, starts, "right"))

    def ends(self, starts: Rows, patient: bool = True) -> tuple[Rows, Rows]:
        """The end of the preferred match from each start, or -1, and how many rows were looked at for each.

        When not patient the ends may be those of the first few starts only, if the others would take long.
        """
        run = self._ran(starts, patient)
        return run.best[: run.kept], run.steps

    def searched(self, starts: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """How many rows were looked at for each start, and whether no later one matters; perhaps of the first few only."""
        run = self._ran(starts, patient=False)
        return run.steps[: run.kept], run.settled[: run.kept]

    def _ran(self, starts: Rows, patient: bool) -> _Run:
        run = _Run(self, starts, patient)
        while not is_better_alone(len(run.active), run.depth):
            run.step()
        run.finish_alone()
        return run

    def codes(self, starts: Rows, ends: Rows) -> Codes:
        """The codes of the matches from these starts, which end there as `ends` has told."""
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
        """How far a match from each start may go."""
        return self.end_of_partition(starts) if self._limits is None else self._limits[starts]

    def begun(self, starts: Rows) -> Ints:
        """The state before each start."""
        place = np.searchsorted(self.firsts, starts, "right") - 1
        return np.where(self.firsts[place] == starts, self.machine.begun[True], self.machine.begun[False])

    def classes(self, starts: Rows, rows: Rows, depth: int = -1) -> Ints:
        """The class of the letter of each row in the match that begins at the start, all `depth` rows away from it."""
        return self.machine.classes.of(self._letters_at(starts, rows, self._asked(depth)))

    def _asked(self, depth: int) -> int:
        """The bits of the symbols that a row so far behind its start can be taken as, whatever came between."""
        while len(self._asked_at) <= depth:
            self._waiting = frozenset(n for taken in self._waiting for n in self._onward(taken))
            self._asked_at.append(self._bits())
        return self._asked_at[depth] if depth >= 0 else -1

    def _onward(self, taken: int) -> tuple[int, ...]:
        return self.closures.after(taken) if taken in self.closures.bits else ()

    def _bits(self) -> int:
        return sum({self.closures.bits.get(n, 0) for n in self._waiting})

    def end_alone(self, start: int, depth: int, limit: int, closes: bool, state: int) -> tuple[int, int, bool]:
        """The end of the preferred match from this start on, -1 if there is none further on, the rows it took, and
        whether no later one matters."""
        best, row, piece = -1, start + depth, PIECE
        while True:
            rows = np.arange(row, min(row + piece, limit))
            states = [state, *self._walked(start, rows, state)]
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

    def _walked(self, start: int, rows: Rows, state: int) -> list[int]:
        if not len(rows):
            return []
        return self.machine.table.walk(self.classes(np.full(len(rows), start), rows).tolist(), state)

    def _fill(self, starts: Rows, ends: Rows, codes: Codes) -> None:
        lengths = ends - starts
        places = offsets(lengths)
        order = np.argsort(-lengths, kind="stable")
        at_end = self.end_of_partition(starts) == ends
        alone = how_many_alone(lengths[order])
        for lane in order[:alone].tolist():
            start, end = int(starts[lane]), int(ends[lane])
            codes[places[lane] : places[lane + 1]] = self._codes_alone(start, end, bool(at_end[lane]))
        order = order[alone:]
        self._fill_together(starts[order], lengths[order], at_end[order], places[order], codes)

    def _codes_alone(self, start: int, end: int, at_end: bool) -> list[int]:
        state, cells = int(self.begun(np.array([start]))[0]), []
        for row in range(start, end, SMALL):
            rows = np.arange(row, min(row + SMALL, end))
            letters = self.classes(np.full(len(rows), start), rows).tolist()
            states = [state, *self.machine.table.walk(letters, state)]
            cells += [at + letter for at, letter in zip(states, letters, strict=False)]
            state = states[-1]
        place, found = self.machine.last_place(state, at_end), []
        for cell in reversed(cells):
            at = self.machine.base(cell) + place
            found.append(self.machine.codes[at])
            place = self.machine.parents[at]
        return found[::-1]

    def _fill_together(
        self, starts: Rows, lengths: Rows, at_end: NDArray[np.bool_], places: Rows, codes: Codes
    ) -> None:
        """The longest match comes first, so those under way are always the first so many."""
        if not len(starts):
            return
        # How many matches have a row at each depth.
        counts = np.searchsorted(-lengths, -np.arange(int(lengths[0])), "left").tolist()
        state, cells = self.begun(starts), []
        for depth, count in enumerate(counts):
            cells.append(state[:count] + self.classes(starts[:count], starts[:count] + depth, depth))
            state[:count] = self.machine.table.look(cells[-1])
        place = self._last_places(state, at_end)
        bases, parents, code_of = self.machine.bases(), np.array(self.machine.parents), np.array(self.machine.codes)
        for depth in range(len(counts) - 1, -1, -1):
            at = bases.take(cells[depth]) + place[: counts[depth]]
            codes[places[: counts[depth]] + depth] = code_of.take(at)
            place[: counts[depth]] = parents.take(at)

    def _last_places(self, state: Ints, at_end: NDArray[np.bool_]) -> Ints:
        numbers = state // self.machine.width
        lengths = np.array([len(threads) for threads in self.machine.threads])
        return np.where(at_end, np.array(self.machine.closing).take(numbers), lengths.take(numbers) - 1)


class _Run:
    """Starts under way, with their states, at the same depth each; when not `patient` only the first `kept` count."""

    def __init__(self, lanes: Lanes, starts: Rows, patient: bool) -> None:
        self._lanes, self._starts, self._patient = lanes, starts, patient
        self._limits = lanes.limits(starts)
        self._closes = self._limits == lanes.end_of_partition(starts)
        near = len(starts) > 0 and int((self._limits - starts).max()) <= NEAR
        self._patience = PATIENCE_WITHIN if near else PATIENCE
        self.best, self.steps = np.full(len(starts), -1, np.int64), np.zeros(len(starts), np.int64)
        self.settled = np.zeros(len(starts), np.bool_)
        self.state, self.depth, self.kept = lanes.begun(starts), 0, len(starts)
        # Of those under way: which they are, their first row, the row at hand, and how far each may go.
        self.active: Ints = np.arange(len(starts))
        self._firsts, self._rows, self._ends = starts, starts.copy(), self._limits

    def step(self) -> None:
        """Note the matches that end here; drop the starts that are decided, and move the others one row on."""
        machine = self._lanes.machine
        stops = self._note(machine.flags.take(self.state))
        if self.depth in CHECKPOINTS and not self._patient:
            self.kept = min(self.kept, max(self._patience // self.depth, 1))
            stops = np.union1d(stops, np.flatnonzero(self.active >= self.kept))
        if len(stops):
            self.steps[self.active.take(stops)] = self.depth
            self._drop(stops)
        self.state += self._lanes.classes(self._firsts, self._rows, self.depth)
        self.state = machine.table.look(self.state)
        self._rows += 1
        self.depth += 1

    def _note(self, flags: NDArray[np.uint8]) -> Ints:
        """Note the matches that end here, and give the places of the starts that are decided."""
        at_limit = self._rows == self._ends
        told = np.flatnonzero((flags != 0) | at_limit)
        if not len(told):
            return told
        active, rows, flags = self.active.take(told), self._rows.take(told), flags.take(told)
        at_limit = at_limit.take(told)
        matches = (flags & IS_MATCH > 0) | (at_limit & self._closes.take(active) & (flags & ENDS_HERE > 0))
        self.best[active[matches]] = rows[matches]
        settled = flags & IS_SETTLED > 0
        self.settled[active] = settled
        decided: Ints = told[at_limit | settled]
        return decided

    def _drop(self, places: Ints) -> None:
        left = np.ones(len(self.active), np.bool_)
        left[places] = False
        kept = np.flatnonzero(left)
        self.active, self.state = self.active.take(kept), self.state.take(kept)
        self._firsts, self._rows, self._ends = (of.take(kept) for of in (self._firsts, self._rows, self._ends))

    def finish_alone(self) -> None:
        """Follow each of the starts that are left."""
        spent = 0
        for lane, state in zip(self.active.tolist(), self.state.tolist(), strict=True):
            self.steps[lane] = self.depth
            if lane < self.kept:
                start, limit, closes = int(self._starts[lane]), int(self._limits[lane]), bool(self._closes[lane])
                end, self.steps[lane], self.settled[lane] = self._lanes.end_alone(
                    start, self.depth, limit, closes, state
                )
                self.best[lane] = max(end, self.best[lane])
                spent += int(self.steps[lane]) - self.depth
                if spent > PATIENCE_ALONE and not self._patient:
                    self.kept = lane + 1
