"""The positions of a watched table that have been read, and the gaps among them.

Transactions do not commit in the order in which they take numbers from a sequence, so a row may appear below rows that
were already read. Hence a position alone does not tell which rows were read. The gaps do: the numbers below the newest
that no row had. They are read again, often at first and less often later, as most belong to transactions that were
rolled back.
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
"""The number of gaps that are remembered; beyond it the oldest are forgotten."""

FEW = 500
"""The number of gaps that one statement reads. Up to this number, all gaps are read each time."""

FRESH = 2.0
"""The age in seconds up to which a gap is read each time, if there are more gaps."""

AGE_FACTOR = 1.25
"""An older gap is read again when its age has grown by this factor."""

Range = tuple[int, int]
"""The first and the last number of a gap."""


class GapChange(NamedTuple):
    """The changes by reading some rows: the newest position, the gaps removed (by first number), the gaps added."""

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
        """The time at which each gap was noticed, in seconds, by its first number."""
        self._due = [(0.0, first) for first in self._firsts]
        """A heap of the times at which gaps are to be read again; it still contains removed gaps."""

    @property
    def ranges(self) -> list[Range]:
        """All gaps, in order."""
        return [(first, self._lasts[first]) for first in self._firsts]

    def change(self, positions: Sequence[int]) -> GapChange:
        """The changes after reading rows at these positions, which are distinct, in order, and not read before."""
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
        """Applies a change at the time `now`, in seconds."""
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
        """The first numbers of the gaps beyond the number to be remembered: those with the lowest numbers."""
        return self._firsts[: max(0, len(self._firsts) - GAPS)]

    def due(self, now: float) -> list[Range]:
        """The gaps to read at the time `now`, in seconds: all if there are few. Schedules when they are read again."""
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
    """The parts of a gap that remain without these positions, which are in order."""
    first, last = gap
    for position in positions:
        if first < position:
            yield first, position - 1
        first = position + 1
    if first <= last:
        yield first, last


def between(positions: Sequence[int]) -> Iterator[Range]:
    """The gaps between positions, which are in order.

    >>> list(between([3, 4, 7]))
    [(5, 6)]
    """
    for one, other in itertools.pairwise(positions):
        if one + 1 < other:
            yield one + 1, other - 1
