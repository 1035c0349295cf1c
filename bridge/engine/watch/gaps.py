"""The positions of a table that have been read, and the gaps among them.

Transactions do not commit in the order in which they take numbers from a sequence, so a row may appear below rows that were
read before. Hence a position alone does not say what has been read. The gaps do: numbers below the newest one that no row had.
They are asked again, often at first and then ever more seldom, for most belong to transactions that were rolled back.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

LOWEST = -(2**63) + 1
"""The lowest position: one more than the lowest of 64 bits, which PostgreSQL reads as a NUMERIC."""

GAPS = 100_000
"""Gaps that are remembered; beyond that the oldest are forgotten."""

FEW = 500
"""Gaps that one statement asks. So many are asked each time."""

FRESH = 2.0
"""Seconds for which a gap is asked each time, where there are more."""

AGE_FACTOR = 1.25
"""After that a gap is asked when its age has grown by this factor."""

Range = tuple[int, int]
"""The first and the last number of a gap."""


class GapChange(NamedTuple):
    """The changes by reading some rows: the newest position, the gaps (by their first numbers) that go, and those that come."""

    newest: int
    removed: list[int]
    added: list[Range]


class Gaps:
    """The gaps below `newest`, the greatest position that was read; None before the first row.

    >>> gaps = Gaps()
    >>> gaps.apply(gaps.change([1, 2, 5]), 0.0)
    >>> gaps.newest, gaps.ranges
    (5, [(-9223372036854775807, 0), (3, 4)])
    >>> gaps.apply(gaps.change([4]), 0.0)
    >>> gaps.ranges
    [(-9223372036854775807, 0), (3, 3)]
    """

    def __init__(self, newest: int | None = None, ranges: Iterable[Range] = ()) -> None:
        self.newest = newest
        self._lasts = dict(sorted(ranges))
        self._firsts = list(self._lasts)
        self._noticed = dict.fromkeys(self._firsts, -FRESH)
        """When each gap was noticed, in seconds, by its first number."""
        self._due = [(0.0, first) for first in self._firsts]
        """A heap of when gaps are to be asked again; gaps that have gone are in it, too."""

    @property
    def ranges(self) -> list[Range]:
        """All gaps, in order."""
        return [(first, self._lasts[first]) for first in self._firsts]

    def change(self, positions: Sequence[int]) -> GapChange:
        """The changes by reading rows at these positions. The positions are different, in order, and were not read before."""
        filled: dict[int, list[int]] = {}
        added: list[Range] = []
        newest = self.newest
        for position in positions:
            if newest is not None and position < newest:
                filled.setdefault(self._firsts[bisect.bisect_right(self._firsts, position) - 1], []).append(position)
                continue
            first = LOWEST if newest is None else newest + 1
            if first < position:
                added.append((first, position - 1))
            newest = position
        assert newest is not None
        pieces = [piece for first, inside in filled.items() for piece in _outside((first, self._lasts[first]), inside)]
        return GapChange(newest, list(filled), pieces + added)

    def apply(self, change: GapChange, now: float) -> None:
        """Carries out a change at the time `now`, in seconds."""
        noticed = min((self._noticed[first] for first in change.removed), default=now)
        for first in change.removed:
            del self._lasts[first], self._noticed[first]
            del self._firsts[bisect.bisect_left(self._firsts, first)]
        for first, last in change.added:
            is_new = self.newest is None or first > self.newest
            bisect.insort(self._firsts, first)
            self._lasts[first] = last
            self._noticed[first] = now if is_new else noticed
            heapq.heappush(self._due, (now, first))
        self.newest = change.newest

    def surplus(self) -> list[int]:
        """The gaps, by their first numbers, that are too many to be remembered: those of the lowest numbers."""
        return self._firsts[: max(0, len(self._firsts) - GAPS)]

    def due(self, now: float) -> list[Range]:
        """The gaps that are to be asked at the time `now`, in seconds: all where there are few; they are asked again later."""
        if len(self._firsts) <= FEW:
            return self.ranges
        found: dict[int, int] = {}
        while self._due and self._due[0][0] <= now:
            _, first = heapq.heappop(self._due)
            if first in self._lasts:
                found[first] = self._lasts[first]
        for first in found:
            age = now - self._noticed[first]
            heapq.heappush(self._due, (now if age < FRESH else now + age * (AGE_FACTOR - 1), first))
        return sorted(found.items())

    def contains(self, position: int) -> bool:
        """Whether a row at this position has not been read."""
        if self.newest is None or position > self.newest:
            return True
        place = bisect.bisect_right(self._firsts, position) - 1
        return place >= 0 and self._lasts[self._firsts[place]] >= position


def _outside(gap: Range, positions: Iterable[int]) -> Iterator[Range]:
    """The parts of a gap that remain without these positions inside it, which are in order."""
    first, last = gap
    for position in positions:
        if first < position:
            yield first, position - 1
        first = position + 1
    if first <= last:
        yield first, last


def between(positions: Sequence[int]) -> Iterator[Range]:
    """The gaps between positions in order.

    >>> list(between([3, 4, 7]))
    [(5, 6)]
    """
    for one, other in itertools.pairwise(positions):
        if one + 1 < other:
            yield one + 1, other - 1
