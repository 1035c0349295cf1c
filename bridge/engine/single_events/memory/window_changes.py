"""Aggregates that report also when rows leave their window (EMIT ON CHANGE), computed in this process per event.

A row expires from a window of time at a timestamp that an event of any stream may be the first to pass. From a window
of last rows, a newer row evicts it.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from bridge.engine.single_events.computed import Compute, Row
from bridge.engine.single_events.memory.window_aggregates import WindowAggregate
from bridge.engine.single_events.memory.window_rows import EvictedKeys, ExpiringRows, KeyRows, WindowRows
from bridge.rewrite.aggregates.on_change import ExitReports


class WindowChanges(WindowAggregate):
    """An aggregate that reports the group that an event changes, and the groups that lose rows.

    `leaving`: how the groups that lose rows are reported. `finish_leaving`: computes their results from an event's
    values, of which only time and key are read, and the aggregates. `widths`: the number of an event's own values, and
    of all values in its row.
    """

    def __init__(
        self, leaving: ExitReports, finish_leaving: Compute, widths: tuple[int, int], rows: WindowRows, *others: Any
    ) -> None:
        super().__init__(rows, *others)
        self._leaving, self._finish_leaving = leaving, finish_leaving
        self._own, self._width = widths

    @abc.abstractmethod
    def begin(self, before: int) -> None:
        """Marks the rows that left up to this time as reported."""

    @abc.abstractmethod
    def leave(self, until: int) -> list[Row] | None:
        """The results for the rows that leave up to a time; None where the database has to compute them."""

    def _without_rows(self, keys: Iterable[Row], time: int, more: Row = ()) -> list[Row] | None:
        """The results of keys that have lost rows; None where the database has to compute them.

        `more`: the values that follow the own values of the event at which they leave.
        """
        found: list[Row] = []
        groups = self._groups(keys, time)
        for key, own in groups or ():
            values = self._aggregated(own)
            results = None if values is None else self._finish_leaving((*self._of_group(key, time, more), *values))
            if results is None:
                return None
            found += results
        return None if groups is None else found

    def _groups(self, keys: Iterable[Row], time: int) -> list[tuple[Row, KeyRows]] | None:
        """The reported groups with their remaining rows, in order; None where their order is not known."""
        found = [(key, self.rows.of(key, time)) for key in keys]
        width = len(self._columns)
        groups = [
            (key, own or KeyRows(width)) for key, own in found if own is not None or self._leaving.is_empty_reported
        ]
        if self._leaving.by_oldest_left and len(groups) > 1:
            groups.sort(key=lambda group: group[1].times[:1])
            oldest = [own.times[:1] for _, own in groups]
            if any(one == other for one, other in itertools.pairwise(oldest)):
                return None  # rows of equal time are ordered by their numbers, which are not in memory
        return groups

    def _of_group(self, key: Row, time: int, more: Row) -> Sequence[Any]:
        """The values of a group at a time, in the form of an event's row."""
        values: list[Any] = [*[None] * (self._width - len(more)), *more]
        values[:2] = time, 0
        for place, value in zip(self._key, key, strict=True):
            values[place] = value
        return values


class ExpiryChanges(WindowChanges):
    """The same over a window of time: rows expire before the event of the same timestamp is added."""

    rows: ExpiringRows

    def begin(self, before: int) -> None:
        self.rows.expired(before)

    def take(self, row: Row) -> list[Row] | None:
        left = self.leave(row[0])
        own = None if left is None else super().take(row)
        return None if left is None or own is None else [*left, *own]

    def leave(self, until: int) -> list[Row] | None:
        found: list[Row] = []
        for time, keys in self.rows.expired(until).items() if self.is_loaded else ():
            if (results := self._without_rows(keys, time)) is None:
                return None
            found += results
        return found if self.is_loaded else None


class EvictionChanges(WindowChanges):
    """The same over a window of last rows, or one that trails an event: the event that comes evicts rows."""

    rows: EvictedKeys

    def begin(self, before: int) -> None:
        pass  # time alone evicts nothing

    def take(self, row: Row) -> list[Row] | None:
        self.rows.evicted()  # an eviction by an event that was stored in another way
        own = super().take(row)
        if own is None:
            return None
        entered = tuple([row[place] for place in self._key])
        losing = dict.fromkeys(self.rows.evicted())
        others = [key for key in losing if key != entered]
        if not own and entered in losing and self.rows.of(entered, row[0]) is None:
            others.insert(0, entered)  # its row has left as it arrived, so only the loss is reported
        left = self._without_rows(others, row[0], row[self._own :]) if others else []
        return None if left is None else [*own, *left]

    def leave(self, until: int) -> list[Row] | None:
        return [] if self.is_loaded else None
