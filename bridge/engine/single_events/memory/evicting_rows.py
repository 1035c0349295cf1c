"""The rows in memory of a window whose evictions a step computes, such as a sorted window."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from bridge.engine.single_events.computed import Row
from bridge.engine.single_events.memory.window_rows import MOST_ROWS, RETRY, EvictedKeys, KeyRows, WindowRows
from bridge.rewrite.computable import Evict, OpenWindow
from windows.databases import Database

MOST_EVICTING = 1_024
"""The greatest number of rows of a window whose rows may leave in any order."""


class StepRows(WindowRows):
    """The rows of a window table whose evictions a step computes; the columns that `evict` needs follow the others.

    `windows`: the columns whose values each have a window of their own. `values`: the further columns that `evict`
    needs.
    """

    def __init__(
        self, name: str, keys: Sequence[str], columns: Sequence[str], kinds: Sequence[type], windows: Sequence[str],
        values: Sequence[str], evict: Evict,
    ) -> None:  # fmt: skip
        super().__init__(name, keys, [*columns, *windows, *values], kinds, None)
        self._own, self._evict = len(keys) + len(columns), evict
        self._by = self._own + len(windows)

    def _window_of(self, row: Sequence[Any]) -> Row:
        """The values of a row that tell its window."""
        return tuple(row[self._own : self._by])


class EvictingRows(StepRows):
    """Such rows where any row may leave; they are found by their numbers in the order of arrival."""

    _most = 0
    """The number of rows of the largest window."""

    _windows: dict[Row, tuple[OpenWindow, dict[int, Row]]]
    """Each window, with its rows by number: time, keys, columns, and what `evict` needs."""

    _number = 0
    """The number of the newest row."""

    def _empty(self) -> None:
        super()._empty()
        self._windows = collections.defaultdict(lambda: (self._evict.window(), {}))

    def _add(self, ts: int, row: Sequence[Any]) -> None:
        self._number += 1
        window, rows = self._windows[self._window_of(row)]
        rows[self._number] = (ts, *row)
        for number in sorted(window.add(self._number, tuple(row[self._by :]))):
            self._leave(rows.pop(number))
        if not self._evict.evicts_oldest:
            self._most = max(self._most, len(rows))

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
        return sum(len(rows) for _, rows in self._windows.values())

    def _count_keys(self) -> int:
        return len(self._windows)

    def of(self, key: Row, ts: int) -> KeyRows | None:
        numbers = [
            each for _, rows in self._windows.values() for each in rows.items() if each[1][1 : 1 + self._keys] == key
        ]
        if not numbers:
            return None
        ordered = [own for _, own in sorted(numbers)]
        found = KeyRows(0)
        found.times = [row[0] for row in ordered]
        found.columns = [[row[1 + place] for row in ordered] for place in range(self._keys, self._own)]
        found.nulls = any(None in own for own in found.columns)
        return found


class TrailingRows(StepRows, EvictedKeys):
    """Such rows where only the oldest rows of a window leave, and all rows of a key are in one window."""

    _windows: dict[Row, OpenWindow]
    """The windows, in which the keys of a row stand for it."""

    def _empty(self) -> None:
        super()._empty()
        self._windows = collections.defaultdict(lambda: self._evict.window())

    def _add(self, ts: int, row: Sequence[Any]) -> None:
        super()._add(ts, row)
        self._evicted = self._windows[self._window_of(row)].add(tuple(row[: self._keys]), tuple(row[self._by :]))
        for key in self._evicted:
            rows = self._rows[key]
            rows.remove(1)  # its oldest row
            if not rows.times:
                del self._rows[key]
