"""The rows in memory of a window whose evictions a step computes, such as a sorted window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bridge.engine.single_events.computed import Row
from bridge.engine.single_events.window_rows import MOST_ROWS, RETRY, KeyRows, WindowRows
from windows.databases import Database

MOST_EVICTING = 256
"""The greatest number of rows of a window for which all rows are visited at every event."""

Evict = Callable[[Sequence[tuple[Any, Any, Any]]], Sequence[tuple[Any, Any]]]


class EvictingRows(WindowRows):
    """The rows of a window table that are not marked as evicted; the columns that `evict` needs follow the others.

    `windows`: the columns whose values each have a window of their own. `values`: the further columns that `evict`
    needs.
    """

    _most = 0
    """The number of rows of the largest window."""

    _windows: dict[Row, dict[int, Row]]
    """The rows of each window by their numbers in the order of arrival: time, keys, columns, and what `evict` needs."""

    def __init__(
        self, name: str, keys: Sequence[str], columns: Sequence[str], kinds: Sequence[type], windows: Sequence[str],
        values: Sequence[str], evict: Evict,
    ) -> None:  # fmt: skip
        super().__init__(name, keys, [*columns, *windows, *values], kinds, None)
        self._own, self._evict = len(keys) + len(columns), evict
        self._by = self._own + len(windows)
        self._number = 0

    def _empty(self) -> None:
        self._windows = {}

    def _add(self, ts: int, row: Sequence[Any]) -> None:
        self._number += 1
        window = self._windows.setdefault(tuple(row[self._own : self._by]), {})
        window[self._number] = (ts, *row)
        evicted = self._evict([(number, (), own[1 + self._by :]) for number, own in window.items()])
        for number in sorted(number for number, _ in evicted):
            self._leave(window.pop(number))
        self._most = max(self._most, len(window))

    def _leave(self, row: Row) -> None:
        """Takes a row that has left, in order of arrival."""

    def _load(self, database: Database, ts: int, seq: int) -> bool:
        """Adds all rows of the table: each was in the window at the last purge or came later, so evictions agree."""
        self._most = 0
        return super()._load(database, ts, seq) and self._most <= MOST_EVICTING

    def _sweep(self, ts: int) -> None:
        self._added = 0
        if self._most > MOST_EVICTING or self._size() > MOST_ROWS:
            self._give_up(RETRY)

    def _size(self) -> int:
        return sum(map(len, self._windows.values()))

    def _count_keys(self) -> int:
        return len(self._windows)

    def of(self, key: Row, ts: int) -> KeyRows | None:
        numbers = [
            each for window in self._windows.values() for each in window.items() if each[1][1 : 1 + self._keys] == key
        ]
        if not numbers:
            return None
        rows = [own for _, own in sorted(numbers)]
        found = KeyRows(0)
        found.times = [row[0] for row in rows]
        found.columns = [[row[1 + place] for row in rows] for place in range(self._keys, self._own)]
        found.nulls = any(None in own for own in found.columns)
        return found
