"""The rows that leave a window, at an event or as time passes, from the rows of the window in memory."""

from __future__ import annotations

import abc
import collections
import operator
from collections.abc import Callable, Sequence
from typing import Any

from bridge.engine.single_events.computed import Compute, Row
from bridge.engine.single_events.memory.derived_rows import (
    Memory,
    Moment,
    RowSource,
    UnknownRowsError,
    computed_rows,
    numbered,
)
from bridge.engine.single_events.memory.evicting_rows import EvictingRows
from bridge.engine.single_events.memory.window_rows import MOST_ROWS, WindowRows
from windows.databases import Database


class LeavingRows(WindowRows, Memory):
    """The rows of a window in memory, which returns the rows that leave."""

    def _empty(self) -> None:
        super()._empty()
        self._left: list[Row] = []

    def _load(self, database: Database, ts: int, seq: int) -> bool:
        is_loaded = super()._load(database, ts, seq)
        self._left.clear()
        return is_loaded

    def _sweep(self, ts: int) -> None:
        self._added = 0
        if self._size() > MOST_ROWS:
            self.forget()

    def evicted(self) -> list[Row]:
        """The rows that newer ones have evicted since the last call, each with the time of its arrival in front."""
        left, self._left = self._left, []
        return left

    @abc.abstractmethod
    def expired(self, until: int) -> list[tuple[int, Row]]:
        """The rows that have expired since the last call, as `evicted` has them, each with the time of its expiry."""


class QueuedRows(LeavingRows):
    """The rows of a window in order of arrival: all of a window of time, or the latest `count` rows of each key."""

    _queues: dict[Any, collections.deque[Row]]

    def _empty(self) -> None:
        super()._empty()
        self._queues = {}

    def _add(self, ts: int, row: Sequence[Any]) -> None:
        queue = self._queues.setdefault(tuple(row[: self._keys]), collections.deque())
        queue.append((ts, *row))
        if self._count is not None and len(queue) > self._count:
            self._left.append(queue.popleft())

    def _size(self) -> int:
        return sum(map(len, self._queues.values()))

    def _count_keys(self) -> int:
        return len(self._queues)

    def expired(self, until: int) -> list[tuple[int, Row]]:
        if self._span is None:
            return []
        found: list[tuple[int, Row]] = []
        for queue in self._queues.values():  # a window of time has one
            while queue and queue[0][0] <= until - self._span:
                row = queue.popleft()
                found.append((row[0] + self._span, row))
        return found


class OpenSessionRows(LeavingRows):
    """The rows of the open session of each key, in order of arrival. A session ends `gap` milliseconds after its newest row."""

    _sessions: dict[Any, list[tuple[int, Row]]]
    """The rows of each open session, with their places in the order of arrival."""

    def __init__(self, gap: int, *others: Any) -> None:
        self._gap = gap
        self._number = 0
        super().__init__(*others)

    def _empty(self) -> None:
        super()._empty()
        self._sessions = {}

    def _add(self, ts: int, row: Sequence[Any]) -> None:
        key = tuple(row[: self._keys])
        session = self._sessions.get(key)
        if session is None or self._end(session) <= ts:  # an earlier one has been reported
            session = self._sessions[key] = []
        self._number += 1
        session.append((self._number, (ts, *row)))

    def _end(self, session: Sequence[tuple[int, Row]]) -> int:
        end: int = session[-1][1][0] + self._gap
        return end

    def _load(self, database: Database, ts: int, seq: int) -> bool:
        is_loaded = super()._load(database, ts, seq)
        self.expired(ts)
        return is_loaded

    def _size(self) -> int:
        return sum(map(len, self._sessions.values()))

    def _count_keys(self) -> int:
        return len(self._sessions)

    def expired(self, until: int) -> list[tuple[int, Row]]:
        found: list[tuple[int, int, Row]] = []
        for key, session in list(self._sessions.items()):
            if (end := self._end(session)) <= until:
                found += [(end, place, row) for place, row in self._sessions.pop(key)]
        return [(end, row) for end, _, row in sorted(found, key=operator.itemgetter(0, 1))]


class EvictedByStep(EvictingRows, LeavingRows):
    """The rows of a window whose evictions a step computes; the columns by which it does so follow the others."""

    def _leave(self, row: Row) -> None:
        self._left.append(row[: 1 + self._own])

    def expired(self, until: int) -> list[tuple[int, Row]]:
        return []


class DepartedRows(RowSource):
    """The rows that leave a window, numbered, each with the time and the number of the event at which it leaves.

    `arrive` computes the row that an event adds to the window, `choose` the columns of a row that leaves.
    """

    def __init__(
        self, columns: dict[str, str | None], memory: LeavingRows, arrive: Compute, choose: Callable[[Row], list[Row]]
    ) -> None:
        super().__init__({"ts": "BIGINT", "seq": "BIGINT", **columns, "_place": "BIGINT"})
        self._memory, self._arrive, self._choose = memory, arrive, choose

    def of(self, moment: Moment) -> list[Row]:
        memory, found = self._memory, list[Row]()
        for end, row in memory.expired(moment.until):
            found += [(end, 0, *chosen) for chosen in self._choose(row[1:])]
        if moment.row is not None:
            ts, seq = moment.row[:2]
            memory.add(seq, ts, computed_rows(self._arrive, moment.row))
            for row in memory.evicted():
                found += [(ts, seq, *chosen) for chosen in self._choose(row[1:])]
            if not memory.is_loaded:
                raise UnknownRowsError
        return numbered(found)
