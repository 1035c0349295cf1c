"""AFTER MATCH SKIP over preferred matches that are found for many starts at once.

Without MATCH_NUMBER in a condition the preferred match of a start does not depend on the mode, so starts may be searched
before it is known whether an earlier match skips them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nfa.arrays.lockstep import alone_price, price
from nfa.arrays.matches import Codes, Matches, Rows, offsets
from nfa.errors import ExhaustedError
from nfa.match import Membership, PatternMatch
from nfa.program import MatchSymbol
from nfa.skip import Skip, past_last_row, search_on, to_first, to_next_row
from nfa.threads.transitions import Transitions

STARTS_AT_ONCE = 262_144
"""The most starts that are searched together."""

FIRST_STARTS = 256
"""The number of starts that are searched together at first."""

RESULT_LIMIT = 200_000_000
"""The most rows of all matches together, some 5 GB; only overlapping matches can have that many."""


class Engine(Protocol):
    """Finds the preferred match of each start."""

    transitions: Transitions
    firsts: Rows

    def ends(self, starts: Rows, patient: bool) -> tuple[Rows, Rows]:
        """The end of the match from each start, or -1, and the number of rows visited for each.

        If not `patient` the ends may be those of the first starts only, where the others would take long.
        """

    def codes(self, starts: Rows, ends: Rows) -> Codes:
        """The codes of matches with these ends."""


Spans: TypeAlias = tuple[Rows, Rows]
Selection: TypeAlias = tuple[list[int], list[int]]
"""The places of the starts whose matches follow one another, and for each match the row to continue at."""


def chain(engine: Engine, candidates: Rows, skip: Skip) -> Matches:
    """The matches of all partitions; `candidates` are the rows at which a match can begin, ascending."""
    if skip is to_next_row:
        return _with_codes(engine, _overlapping(engine, candidates))
    if skip is past_last_row:
        windows = _windows(engine, candidates, _disjoint)
        return _with_codes(engine, ((starts[hits], ends[hits]) for starts, ends, hits in windows))
    return _SkipToSymbol(engine, skip).matches(candidates)


def check_result(total: int) -> None:
    """Raises ExhaustedError for more than RESULT_LIMIT rows."""
    if total > RESULT_LIMIT:
        raise ExhaustedError(
            f"the matches have more than {RESULT_LIMIT:,} rows together: AFTER MATCH SKIP PAST LAST ROW, WITHIN or an upper "
            "bound of a quantifier keeps them fewer"
        )


def _with_codes(engine: Engine, spans: Iterator[Spans]) -> Matches:
    several, total = [(np.zeros(0, np.int64), np.zeros(0, np.int64))], 0
    for starts, ends in spans:
        total += int((ends - starts).sum())
        check_result(total)
        several.append((starts, ends))
    starts, ends = (np.concatenate(both) for both in zip(*several, strict=True))
    return Matches(starts, ends - starts, engine.codes(starts, ends))


def _overlapping(engine: Engine, candidates: Rows) -> Iterator[Spans]:
    for first in range(0, len(candidates), STARTS_AT_ONCE):
        starts = candidates[first : first + STARTS_AT_ONCE]
        ends, _ = engine.ends(starts, patient=True)
        yield starts[ends >= 0], ends[ends >= 0]


def _windows(
    engine: Engine, candidates: Rows, choose: Callable[[Rows, Rows], Selection]
) -> Iterator[tuple[Rows, Rows, list[int]]]:
    """Starts, their ends, and the places of those whose matches follow one another, window by window.

    Searches from starts inside matches are useless. So a window grows as long as that is estimated to be faster than searching
    one by one, and shrinks where matches are long.
    """
    width, at = FIRST_STARTS, 0
    while at < len(candidates):
        starts = candidates[at : at + width]
        ends, steps = engine.ends(starts, patient=False)
        starts = starts[: len(ends)]
        hits, after = choose(starts, ends)
        yield starts, ends, hits
        at += len(starts)
        widest = min(STARTS_AT_ONCE, max(len(candidates) - at, 1)) if len(ends) == len(steps) else 1
        faster = price(steps, max(widest / len(steps), 1.0)) <= alone_price(
            steps[: len(ends)][_needed(starts, hits, after)]
        )
        width = min(2 * len(ends), STARTS_AT_ONCE) if faster else max(width // 4, 1)
        if after:
            at = max(at, int(np.searchsorted(candidates, after[-1])))


def _needed(starts: Rows, hits: list[int], after: list[int]) -> NDArray[np.bool_]:
    # All starts but those between a match's start and the row to continue at.
    change = np.zeros(len(starts) + 2, np.int64)
    change[np.array(hits, np.intp) + 1] += 1
    np.subtract.at(change, np.maximum(np.searchsorted(starts, after), np.array(hits, np.intp) + 1), 1)
    needed: NDArray[np.bool_] = np.cumsum(change)[: len(starts)] == 0
    return needed


def _disjoint(starts: Rows, ends: Rows) -> Selection:
    places = np.flatnonzero(ends >= 0)
    if not len(places):
        return [], []
    after = np.maximum(ends, starts + 1).take(places)
    following = np.searchsorted(starts.take(places), after).tolist()
    hits, at = [], 0
    while at < len(places):
        hits.append(at)
        at = following[at]
    return places.take(hits).tolist(), after.take(hits).tolist()


class _SkipToSymbol:
    """Applies the modes that depend on the rows of each match."""

    def __init__(self, engine: Engine, skip: Skip) -> None:
        self._engine = engine
        self._next_start = next_start(skip, engine.transitions)
        self._row = self._number = self._total = 0
        self._partition = -1
        self._codes: list[Codes] = [np.zeros(0, np.int32)]

    def matches(self, candidates: Rows) -> Matches:
        parts = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for starts, ends, hits in _windows(self._engine, candidates, self._choose):
            parts.append((starts[hits], ends[hits]))
        starts, ends = (np.concatenate(both) for both in zip(*parts, strict=True))
        return Matches(starts, ends - starts, np.concatenate(self._codes))

    def _choose(self, starts: Rows, ends: Rows) -> Selection:
        places = np.flatnonzero(ends >= 0)
        codes = self._engine.codes(starts[places], ends[places]).tolist()
        partitions = (np.searchsorted(self._engine.firsts, starts[places], "right") - 1).tolist()
        bounds = offsets(ends[places] - starts[places]).tolist()
        hits, after = [], []
        chosen: list[int] = []
        for n, (place, start) in enumerate(zip(places.tolist(), starts[places].tolist(), strict=True)):
            if start >= self._row:
                match = codes[bounds[n] : bounds[n + 1]]
                hits.append(place)
                after.append(self._continue(partitions[n], start, match))
                chosen += match
        self._add(chosen)
        return hits, after

    def _continue(self, partition: int, start: int, codes: list[int]) -> int:
        self._number = self._number + 1 if partition == self._partition else 1
        self._partition = partition
        first = int(self._engine.firsts[partition])
        self._row = first + self._next_start(self._number, start - first, codes)
        return self._row

    def _add(self, codes: list[int]) -> None:
        self._codes.append(np.array(codes, np.int32))
        self._total += len(codes)
        check_result(self._total)


# The modes of `nfa.skip` over matches as instruction numbers

NextStart: TypeAlias = Callable[[int, int, Sequence[int]], int]
"""A function from a match's number, first row and codes to the row to continue at, counted in the partition."""


def next_start(skip: Skip, transitions: Transitions) -> NextStart:
    """The mode as a function of codes, which raises the same errors."""
    if isinstance(skip, partial) and skip.func is getattr(to_first(), "func", None):
        return _to_symbol(skip, transitions)
    return lambda number, start, codes: search_on(skip, match_of(transitions, number, start, codes))


def match_of(transitions: Transitions, number: int, start: int, codes: Sequence[int]) -> PatternMatch:
    """The match as the thread machine gives it."""
    return PatternMatch(
        number, start, tuple(_member(transitions, code, start + place) for place, code in enumerate(codes))
    )


def _member(transitions: Transitions, code: int, row: int) -> Membership:
    line = transitions.code[code]
    assert isinstance(line, MatchSymbol)
    return Membership(line.name, row, line.excluded)


def _to_symbol(skip: partial[int], transitions: Transitions) -> NextStart:
    names, last = skip.keywords["symbols"], skip.keywords["place"] == -1
    takers = {n for n, line in enumerate(transitions.code) if isinstance(line, MatchSymbol) and line.name in names}

    def continue_at(number: int, start: int, codes: Sequence[int]) -> int:
        places = range(len(codes) - 1, 0, -1) if last else range(len(codes))
        place = next((place for place in places if codes[place] in takers), 0)
        # The mode itself handles the rest: no such row, or an empty match.
        return start + place if place else search_on(skip, match_of(transitions, number, start, codes))

    return continue_at
