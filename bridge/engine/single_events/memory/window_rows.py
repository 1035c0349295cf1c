"""The rows of a window table in memory, for aggregates and earlier rows that this process reads."""

from __future__ import annotations

import bisect
import collections
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from bridge.engine.single_events.computed import Compute, Row
from windows.databases import Database
from windows.sql import column, number, table

MOST_ROWS = 65_536
"""The greatest number of rows of a window that are held in memory."""

SWEEP = 1_000
"""The number of rows that arrive between two searches for keys without rows."""

FEW_ROWS = 64
"""The average number of rows per key up to which Python computes a thousand events faster than a statement does."""

RETRY = 4_096
"""The number of events that the database computes after there were too many rows, before the memory is tried again."""


class KeyRows:
    """The rows of one key: their times, and a list per column of values."""

    __slots__ = ("_counts", "columns", "nulls", "times")

    def __init__(self, width: int) -> None:
        self.times: list[int] = []
        self.columns: list[list[Any]] = [[] for _ in range(width)]
        self.nulls = False
        self._counts: dict[int, collections.Counter[Any]] = {}
        """The number of rows per value, for the columns (by place) whose values have been counted."""

    def add(self, ts: int, values: Sequence[Any]) -> None:
        self.times.append(ts)
        for own, value in zip(self.columns, values, strict=True):
            own.append(value)
            self.nulls |= value is None
        for place, counts in self._counts.items():
            counts[values[place]] += 1

    def expire(self, until: int) -> None:
        """Removes the rows up to this time."""
        self.remove(bisect.bisect_right(self.times, until))

    def remove(self, count: int) -> None:
        """Removes the oldest rows."""
        if count > 0:
            for place, counts in self._counts.items():
                for value in self.columns[place][:count]:
                    counts[value] -= 1
                    if not counts[value]:
                        del counts[value]
            del self.times[:count]
            for own in self.columns:
                del own[:count]

    def count_distinct(self, place: int) -> int:
        """The number of distinct values of the column at a place, without NULL; counted row by row from now on."""
        counts = self._counts.get(place)
        if counts is None:
            counts = self._counts[place] = collections.Counter(self.columns[place])
        return len(counts) - (None in counts)


class WindowRows:
    """The rows of a window table in memory, grouped by key, with the columns that an aggregate reads.

    They are read from the table after two small pushes, and forgotten when rows are added in another way. `kinds`: the
    Python types of keys and columns. `span`: the length of the window in milliseconds; `count`: the greatest number of
    rows per key; None: without this bound.
    """

    _rows: dict[Any, KeyRows]
    _order: Sequence[str] = ("seq",)
    """The columns that order the rows of the table."""

    def __init__(
        self, name: str, keys: Sequence[str], columns: Sequence[str], kinds: Sequence[type],
        span: int | None, count: int | None = None,
    ) -> None:  # fmt: skip
        self._kinds = kinds
        self._name, self._names, self._keys = name, [*keys, *columns], len(keys)
        self._span, self._count = span, count
        self._empty()
        self._newest = 0
        self._wait = 1
        self._added = 0
        self._rows_of_key = 0.0
        self.is_loaded = False

    @property
    def has_few_rows(self) -> bool:
        """Whether the keys have few rows, as far as known; a window without keys has many."""
        return self._keys > 0 and self._rows_of_key <= FEW_ROWS

    def forget(self) -> None:
        """Forgets the rows, as others have come or gone."""
        if self.is_loaded:
            self._give_up(1)

    def _give_up(self, wait: int) -> None:
        self._empty()
        self._wait, self.is_loaded = wait, False

    def _empty(self) -> None:
        self._rows = {}

    def prepare(self, database: Database, ts: int, seq: int) -> None:
        """Reads the rows of the table after enough single events; the table has the rows up to the event `seq`."""
        self._wait -= 1
        if self._wait < 0:
            self.load(database, ts, seq)

    def load(self, database: Database, ts: int, seq: int) -> bool:
        """Reads the rows of the table, up to the event `seq`; returns whether they are in memory then."""
        self._empty()
        self.is_loaded = self._load(database, ts, seq)
        if not self.is_loaded:
            self._give_up(RETRY)
            return False
        self._newest = seq
        self._rows_of_key = self._size() / max(1, self._count_keys())
        return True

    def _load(self, database: Database, ts: int, seq: int) -> bool:
        """Reads the rows of the table; False where there are too many, or rows that were not pushed."""
        names = ("ts", "seq", *self._names)
        select = exp.select(*map(column, names)).from_(table(self._name)).order_by(*map(column, self._order))
        select = select.limit(MOST_ROWS + 1)
        if self._span is not None:
            select = select.where(exp.GT(this=column("ts"), expression=number(ts - self._span)))
        rows = database.fetch(database.render(select))
        if len(rows) > MOST_ROWS or not self._are_as_pushed(rows, ts, seq):
            return False
        for row in rows:
            self._add(row[0], row[2:])
        return True

    def _are_as_pushed(self, rows: Sequence[Row], ts: int, seq: int) -> bool:
        """Whether rows are of events up to this one, in order and without NaN; a program may have changed the table."""
        if not all(type(row[0]) is int and type(row[1]) is int for row in rows):
            return False
        times = [row[0] for row in rows]
        if times != sorted(times) or (rows and (times[-1] > ts or rows[-1][1] > seq)):
            return False
        return all(
            value is None or (type(value) is kind and value == value)
            for row in rows
            for value, kind in zip(row[2:], self._kinds, strict=True)
        )

    def add(self, seq: int, ts: int, rows: Sequence[Row]) -> None:
        """Adds the rows of the event `seq`, unless they are in memory already."""
        if seq <= self._newest:
            return
        self._newest = seq
        for row in rows:
            self._add(ts, row)
        self._added += len(rows)
        if self._added >= SWEEP:
            self._sweep(ts)

    def _add(self, ts: int, row: Sequence[Any]) -> None:
        key = row[: self._keys]
        own = self._rows.get(key)
        if own is None:
            own = self._rows[key] = KeyRows(len(self._names) - self._keys)
        own.add(ts, row[self._keys :])

    def _sweep(self, ts: int) -> None:
        self._added = 0
        if self._span is not None:
            until = ts - self._span
            self._rows = {key: own for key, own in self._rows.items() if own.times and own.times[-1] > until}
        size = self._size()
        self._rows_of_key = size / max(1, self._count_keys())
        if size > MOST_ROWS:
            self._give_up(RETRY)

    def _size(self) -> int:
        return sum(len(own.times) for own in self._rows.values())

    def _count_keys(self) -> int:
        return len(self._rows)

    def of(self, key: Row, ts: int) -> KeyRows | None:
        """The rows of a key that are in the window at a time; None where there are none."""
        own = self._rows.get(key)
        if own is not None and self._span is not None:
            own.expire(ts - self._span)
        if own is not None and self._count is not None:
            own.remove(len(own.times) - self._count)
        return own if own is not None and own.times else None


class ExpiringRows(WindowRows):
    """The rows of a window of `span` milliseconds, which also knows the keys that lose rows as time passes."""

    _queue: collections.deque[tuple[int, Row]]
    """The times and keys of the rows, in order, that `expired` has not returned yet."""

    def _empty(self) -> None:
        super()._empty()
        self._queue = collections.deque()

    def _add(self, ts: int, row: Sequence[Any]) -> None:
        super()._add(ts, row)
        self._queue.append((ts, tuple(row[: self._keys])))

    def expired(self, until: int) -> dict[int, dict[Row, None]]:
        """The keys that have lost rows since the last call and up to `until`, by the time of the expiry."""
        assert self._span is not None
        found: dict[int, dict[Row, None]] = {}
        queue, newest = self._queue, until - self._span
        while queue and queue[0][0] <= newest:
            ts, key = queue.popleft()
            found.setdefault(ts + self._span, {})[key] = None
        return found


class SessionRows(WindowRows):
    """The rows of the latest session of each value of the keys at `places`.

    `gap`: a session ends after this many milliseconds without a row.
    """

    _sessions: dict[Any, tuple[int, dict[Any, KeyRows]]]
    """The time of the newest row of each session, and its rows by their keys."""

    def __init__(
        self, name: str, keys: Sequence[str], columns: Sequence[str], kinds: Sequence[type], places: Sequence[int], gap: int
    ) -> None:  # fmt: skip
        super().__init__(name, keys, columns, kinds, None)
        self._places, self._gap = places, gap

    def _empty(self) -> None:
        self._sessions = {}

    def _open(self, key: Row, ts: int) -> dict[Any, KeyRows] | None:
        """The rows of the open session that a key belongs to, by key; None where the session has ended."""
        newest, rows = self._sessions.get(self._of(key), (0, None))
        return rows if rows is not None and ts - newest < self._gap else None

    def _of(self, key: Row) -> Row:
        return tuple([key[place] for place in self._places])

    def _add(self, ts: int, row: Sequence[Any]) -> None:
        key = tuple(row[: self._keys])
        rows = self._open(key, ts)
        rows = {} if rows is None else rows
        self._sessions[self._of(key)] = ts, rows
        own = rows.get(key)
        if own is None:
            own = rows[key] = KeyRows(len(self._names) - self._keys)
        own.add(ts, row[self._keys :])

    def _sweep(self, ts: int) -> None:
        self._sessions = {key: each for key, each in self._sessions.items() if ts - each[0] < self._gap}
        super()._sweep(ts)

    def _size(self) -> int:
        return sum(len(own.times) for _, rows in self._sessions.values() for own in rows.values())

    def _count_keys(self) -> int:
        return sum(len(rows) for _, rows in self._sessions.values())

    def of(self, key: Row, ts: int) -> KeyRows | None:
        rows = self._open(key, ts)
        return None if rows is None else rows.get(key)


class EvictedKeys(WindowRows):
    """The rows of a window in which a new row evicts others, whose keys it knows until the next row comes."""

    _evicted: list[Row]
    """The keys of the rows that the newest row has evicted, until `evicted` returns them."""

    def _empty(self) -> None:
        super()._empty()
        self._evicted = []

    def evicted(self) -> list[Row]:
        """The keys of the rows that the newest row has evicted, if this is the first call since then."""
        keys, self._evicted = self._evicted, []
        return keys


class LatestRows(EvictedKeys):
    """The rows of a window of the latest `count` rows per value of the columns `evicting`, which are not the keys.

    So a row of one key may evict rows of another.
    """

    _latest: dict[Any, dict[int, Sequence[Any]]]
    """The rows of each key, by number; each is its time and values."""

    _queues: dict[Any, collections.deque[tuple[Any, int]]]
    """The keys and numbers of the rows, in one queue per value of `evicting`."""

    def __init__(
        self, name: str, keys: Sequence[str], evicting: Sequence[str], columns: Sequence[str], kinds: Sequence[type],
        count: int,
    ) -> None:  # fmt: skip
        super().__init__(name, [*keys, *evicting], columns, kinds, None)
        self._by, self._most = len(keys), count
        self._number = 0
        self._has_nulls = False

    def _empty(self) -> None:
        super()._empty()
        self._latest, self._queues = {}, {}

    def _add(self, ts: int, row: Sequence[Any]) -> None:
        key, evicting, values = row[: self._by], row[self._by : self._keys], row[self._keys :]
        self._number += 1
        self._evicted = []
        self._has_nulls |= None in values
        self._latest.setdefault(key, {})[self._number] = (ts, *values)
        queue = self._queues.setdefault(evicting, collections.deque())
        queue.append((key, self._number))
        if len(queue) > self._most:
            other, number = queue.popleft()
            self._evicted = [other]
            rows = self._latest[other]
            del rows[number]
            if not rows:
                del self._latest[other]

    def _size(self) -> int:
        return sum(map(len, self._latest.values()))

    def _count_keys(self) -> int:
        return len(self._latest)

    def of(self, key: Row, ts: int) -> KeyRows | None:
        own = self._latest.get(key)
        if own is None:
            return None
        found = KeyRows(0)
        found.times = [row[0] for row in own.values()]
        # Comprehensions, not zip: zip makes an iterator per row, which sets off the garbage collector.
        found.columns = [[row[place] for row in own.values()] for place in range(1, len(self._names) - self._keys + 1)]
        found.nulls = self._has_nulls
        return found


class MaintainedRows:
    """Rows of a window table in memory. `arrive` computes the rows that an event adds to the table."""

    def __init__(self, rows: WindowRows, arrive: Compute) -> None:
        self.rows, self._arrive = rows, arrive

    @property
    def is_loaded(self) -> bool:
        """Whether the rows are in memory."""
        return self.rows.is_loaded

    def add(self, row: Row) -> bool:
        """Adds the rows of the event; returns whether the rows are in memory then: the new ones may not be known."""
        if not self.rows.is_loaded:
            return False
        if (rows := self._arrive(row)) is None:
            self.rows.forget()
        else:
            self.rows.add(row[1], row[0], rows)
        return self.rows.is_loaded

    def prepare(self, database: Database, rows: Sequence[Row]) -> None:
        """Adds the events that the database has processed, or reads the table; inside their transaction."""
        if not self.is_loaded:
            self.rows.prepare(database, rows[-1][0], rows[-1][1])
            return
        for row in rows:
            self.add(row)

    def forget(self) -> None:
        """Forgets the rows, as the table was changed in another way."""
        self.rows.forget()
