"""The rows of matches as arrays: finds, for all matches at once, the member of a match at a place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from bridge.patterns.arrays import Bools, Ints
from bridge.patterns.values import Place
from nfa.arrays.matches import Matches
from nfa.program import MatchSymbol, Program

ABSENT = -1
"""The number of a missing member."""

COMPARED = 4
"""The greatest number of instructions for which comparing is faster than a lookup."""

_Symbols = TypeVar("_Symbols")
_Result = TypeVar("_Result")


def _cached(compute: Callable[[Members, _Symbols], _Result]) -> Callable[[Members, _Symbols], _Result]:
    """A method whose results are cached in its object per argument, for as long as the object exists."""

    @functools.wraps(compute)
    def cached_method(members: Members, symbols: _Symbols) -> _Result:
        key = compute.__name__, symbols
        if key not in members.cache:
            members.cache[key] = compute(members, symbols)
        return cast("_Result", members.cache[key])

    return cached_method


class Members:
    """All members of matches. A member is one row of one match; members are numbered through all matches, in order."""

    def __init__(self, found: Matches, program: Program, ends: Ints) -> None:
        self.found = found
        self.offsets = found.offsets
        self.ends = ends
        self.cache: dict[object, object] = {}
        code = program.instructions
        self.names = sorted({line.name for line in code if isinstance(line, MatchSymbol)})
        numbers = [self.names.index(line.name) if isinstance(line, MatchSymbol) else -1 for line in code]
        self._symbol_of = np.array(numbers, np.int16)
        self._excluded = np.array([isinstance(line, MatchSymbol) and line.excluded for line in code], bool)

    def __len__(self) -> int:
        return len(self.found.codes)

    @property
    def matches(self) -> int:
        return len(self.found.starts)

    @functools.cached_property
    def symbols(self) -> NDArray[np.int16]:
        """For each member the number of its symbol in `names`."""
        return self._symbol_of.take(self.found.codes)

    @functools.cached_property
    def excluded(self) -> Bools:
        """Whether each member is inside `{- -}`."""
        return self._excluded.take(self.found.codes)

    @functools.cached_property
    def match(self) -> Ints:
        """For each member the number of its match."""
        return np.repeat(np.arange(self.matches), self.found.lengths)

    def rows(self, members: Ints, match: Ints) -> Ints:
        """The input rows of members of these matches; ABSENT stays ABSENT."""
        if not len(self):
            return np.full(len(members), ABSENT)
        rows = (self.found.starts - self.offsets[:-1])[match] + members
        return np.where(members < 0, ABSENT, rows)

    @functools.cached_property
    def numbers(self) -> Ints:
        """MATCH_NUMBER() of each match."""
        return match_numbers(self.found.starts, self.ends)

    def at_end(self, place: Place) -> Ints:
        """For each match the member at a place of the whole match."""
        if place.symbols is None:
            counts, firsts = self.found.lengths, self.offsets[:-1]
            return _picked(None, firsts, counts, place)
        where, before = self._of(place.symbols)
        return _picked(where, before[:-1], np.diff(before), place)

    def so_far(self, place: Place, members: Ints) -> Ints:
        """For each of these members, the member at a place among its match's rows so far."""
        if not len(self):
            return np.full(len(members), ABSENT)
        known = np.maximum(members, 0)
        match = self.match[known]
        if place.symbols is None:
            firsts = self.offsets[match]
            found = _picked(None, firsts, known - firsts + 1, place)
        else:
            where, before = self._of(place.symbols)
            counts = self._count_of(place.symbols)[known] - before[match]
            found = _picked(where, before[match], counts, place)
        return np.where(members < 0, ABSENT, found)

    def count_at_end(self, symbols: tuple[str, ...] | None) -> Ints:
        """The number of members of each match that are one of the symbols."""
        if symbols is None:
            return self.found.lengths
        return np.diff(self._before(symbols))

    def count_so_far(self, symbols: tuple[str, ...] | None, members: Ints) -> Ints:
        """For each of these members, the number of its match's members up to it that are one of the symbols."""
        match = self.match[members] if len(self) else members
        if symbols is None or not len(self):
            return members - self.offsets[match] + 1
        return self._count_of(symbols)[members] - self._of(symbols)[1][match]

    def shifted(self, members: Ints, match: Ints, by: int) -> Ints:
        """For each of these members, the member `by` rows after it; ABSENT if that is not in the same match."""
        if not len(self):
            return members
        moved = members + by
        inside = (members >= 0) & (moved >= self.offsets[match]) & (moved < self.offsets[match + 1])
        return np.where(inside, moved, ABSENT)

    @_cached
    def is_one_of(self, symbols: tuple[str, ...] | None) -> Bools:
        """Whether each member is one of the symbols."""
        if symbols is None:
            return np.ones(len(self), bool)
        wanted = np.array([name in symbols for name in self.names] + [False])[self._symbol_of]
        codes = np.flatnonzero(wanted)
        if len(codes) > COMPARED:
            return wanted.take(self.found.codes)
        found = np.zeros(len(self), bool)
        for code in codes:
            found |= self.found.codes == code
        return found

    @_cached
    def _of(self, symbols: tuple[str, ...]) -> tuple[Ints, Ints]:
        """The members that are one of the symbols, and the number of them before each match."""
        return np.flatnonzero(self.is_one_of(symbols)), self._before(symbols)

    @_cached
    def _before(self, symbols: tuple[str, ...]) -> Ints:
        """The number of members before each match, and of all members, that are one of the symbols."""
        before = np.zeros(len(self.offsets), np.int64)
        there = self.offsets > 0
        before[there] = self._count_of(symbols)[self.offsets[there] - 1]
        return before

    @_cached
    def _count_of(self, symbols: tuple[str, ...]) -> Ints:
        """For each member, the number of members up to and including it that are one of the symbols."""
        # Narrow integers are added faster.
        kind = np.int32 if len(self) < 2**31 else np.int64
        return np.cumsum(self.is_one_of(symbols), dtype=kind)


def match_numbers(starts: Ints, ends: Ints) -> Ints:
    """MATCH_NUMBER() of the matches from these rows on: 1, 2, … in each partition; empty matches count.

    >>> match_numbers(np.array([0, 2, 7]), np.array([5, 9])).tolist()
    [1, 2, 1]
    """
    partition = np.searchsorted(ends, starts, side="right")
    return np.arange(len(starts)) - np.searchsorted(partition, partition, side="left") + 1


def _picked(where: Ints | None, firsts: Ints, counts: Ints, place: Place) -> Ints:
    """The member at the place among `counts` members from `firsts` on, which index `where` if that is given."""
    there = counts > place.offset
    chosen = firsts + place.offset if place.first else firsts + counts - 1 - place.offset
    if where is None:
        return np.where(there, chosen, ABSENT)
    if len(where) == 0:
        return np.full(len(firsts), ABSENT, np.int64)
    return np.where(there, where[np.where(there, chosen, 0)], ABSENT)
