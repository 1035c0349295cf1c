"""Rows added to tables of results, at an event or as time passes, that this process computes for SELECTs over these.

Such a SELECT filters, renames, numbers or sorts rows, or is a union of several. Or it gives rows with values of earlier
rows, or the first rows after pauses.
"""

from __future__ import annotations

import abc
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bridge.engine.single_events.computed import Compute, Row
from bridge.engine.single_events.memory.window_aggregates import WindowAggregate
from bridge.engine.single_events.memory.window_changes import EvictionChanges, WindowChanges
from bridge.engine.single_events.memory.window_rows import MOST_ROWS, SWEEP, WindowRows
from bridge.rewrite.computable import AfterPauses, EarlierValue
from windows.databases import Database


class UnknownRowsError(Exception):
    """Only the database can compute the rows."""


class Moment(NamedTuple):
    """An event, or (`row` is None) a timestamp without one, and the rows that it has added to tables of results so far.

    Rows that left a window up to `until`, and have not been reported, are reported first.
    """

    row: Row | None
    until: int
    tables: dict[str, list[Row]]


class RowSource(abc.ABC):
    """The rows of a SELECT. `columns`: the names of its columns in order, with their types where known."""

    def __init__(self, columns: Mapping[str, str | None]) -> None:
        self.columns = dict(columns)
        self.places = {name: place for place, name in enumerate(columns)}

    @abc.abstractmethod
    def of(self, moment: Moment) -> list[Row]:
        """The rows; raises UnknownRowsError where only the database knows them."""


class Memory(abc.ABC):
    """Rows of a table in memory."""

    @abc.abstractmethod
    def load(self, database: Database, ts: int, seq: int) -> bool:
        """Reads the table, which has the rows up to the event `seq`; returns whether they are in memory then."""

    @abc.abstractmethod
    def forget(self) -> None:
        """Forgets the rows, as the table was changed in another way."""


def computed_rows(compute: Compute, row: Row) -> list[Row]:
    """The rows that a function gives; raises UnknownRowsError where the database has to compute them."""
    if (found := compute(row)) is None:
        raise UnknownRowsError
    return found


class EventRows(RowSource):
    """The event itself, as a row."""

    def __init__(self, columns: Mapping[str, str | None], compute: Compute) -> None:
        super().__init__(columns)
        self._compute = compute

    def of(self, moment: Moment) -> list[Row]:
        return [] if moment.row is None else computed_rows(self._compute, moment.row)


class TableRows(RowSource):
    """The rows that the event has added to a table of results."""

    def __init__(self, table: str, columns: Mapping[str, str | None]) -> None:
        super().__init__(columns)
        self._table = table

    def of(self, moment: Moment) -> list[Row]:
        return moment.tables.get(self._table, [])


class UnionRows(RowSource):
    """The rows of several SELECTs, with the same columns."""

    def __init__(self, columns: Mapping[str, str | None], parts: Sequence[RowSource]) -> None:
        super().__init__(columns)
        self._parts = parts

    def of(self, moment: Moment) -> list[Row]:
        return [row for part in self._parts for row in part.of(moment)]


class ChosenRows(RowSource):
    """Columns of the rows of another SELECT, computed for each row."""

    def __init__(
        self, columns: Mapping[str, str | None], source: RowSource, choose: Callable[[Row], list[Row]]
    ) -> None:
        super().__init__(columns)
        self._source, self._choose = source, choose

    def of(self, moment: Moment) -> list[Row]:
        return [found for row in self._source.of(moment) for found in self._choose(row)]


class AcceptedRows(RowSource):
    """Rows, if each of them is accepted. Otherwise only the database can compute them."""

    def __init__(self, source: RowSource, accept: Callable[[Row], bool]) -> None:
        super().__init__(source.columns)
        self._source, self._accept = source, accept

    def of(self, moment: Moment) -> list[Row]:
        rows = self._source.of(moment)
        if not all(map(self._accept, rows)):
            raise UnknownRowsError
        return rows


class NumberedRows(RowSource):
    """Rows with a further column: the number of each among the rows of equal values, in the order of whole numbers."""

    def __init__(self, source: RowSource, name: str, keys: Sequence[str], order: Sequence[str]) -> None:
        super().__init__({**source.columns, name: "BIGINT"})
        self._source = source
        self._key, self._order = values_of(source, keys), values_of(source, order)

    def of(self, moment: Moment) -> list[Row]:
        rows, numbers = self._source.of(moment), dict[Row, int]()
        if len(rows) == 1:
            return [(*rows[0], 1)]
        placed: list[tuple[int, Row]] = []
        for place in sorted(range(len(rows)), key=lambda place: self._order(rows[place])):
            key = self._key(rows[place])
            numbers[key] = number = numbers.get(key, 0) + 1
            placed.append((place, (*rows[place], number)))
        return [row for _, row in sorted(placed, key=operator.itemgetter(0))]


class RowsInOrder(RowSource):
    """Rows, ordered by columns of whole numbers."""

    def __init__(self, source: RowSource, order: Sequence[str]) -> None:
        super().__init__(source.columns)
        self._source, self._order = source, values_of(source, order)

    def of(self, moment: Moment) -> list[Row]:
        return sorted(self._source.of(moment), key=self._order)


def values_of(source: RowSource, names: Sequence[str]) -> Callable[[Row], Row]:
    """A function that gives these columns of a row."""
    places = [source.places[name] for name in names]
    return lambda row: tuple([row[place] for place in places])


class AggregatedRows(RowSource):
    """The results of an aggregate over a window, at an event."""

    def __init__(self, columns: Mapping[str, str | None], aggregate: WindowAggregate) -> None:
        super().__init__(columns)
        self._aggregate = aggregate

    def of(self, moment: Moment) -> list[Row]:
        return [] if moment.row is None else computed_rows(self._aggregate.take, moment.row)


class ChangedGroups(RowSource):
    """The results of an aggregate that reports every change of its window, numbered within each event or timestamp.

    `kept`: the places of the columns; the first two are the time and the number of the event.
    """

    def __init__(self, columns: Mapping[str, str | None], changes: WindowChanges, kept: Sequence[int]) -> None:
        super().__init__({**columns, "_place": "BIGINT"})
        self._changes, self._kept = changes, kept

    def of(self, moment: Moment) -> list[Row]:
        changes = self._changes
        found = changes.leave(moment.until) if moment.row is None else changes.take(moment.row)
        if found is None:
            raise UnknownRowsError
        rows = [tuple([row[place] for place in self._kept]) for row in found]
        if moment.row is not None and isinstance(changes, EvictionChanges):
            rows = [(row[0], moment.row[1], *row[2:]) for row in rows]  # the event evicts
        return numbered(rows)


def numbered(rows: Sequence[Row]) -> list[Row]:
    """Rows, each with its place among the rows of its time and number, which are the first two columns."""
    found: list[Row] = []
    for _, group in itertools.groupby(rows, key=operator.itemgetter(0, 1)):
        found += [(*row, place) for place, row in enumerate(group, 1)]
    return found


class EarlierRows(WindowRows, Memory):
    """The latest rows of each key in a table of results, to which rows may also be added as time passes."""

    def __init__(self, order: Sequence[str], *others: Any) -> None:
        self._order = order
        super().__init__(*others)

    def append(self, ts: int, row: Row) -> None:
        """Adds a row: keys, then columns."""
        self._add(ts, row)
        self._added += 1
        if self._added >= SWEEP:
            for own in self._rows.values():
                own.remove(len(own.times) - (self._count or 0))
            self._sweep(ts)


class RowsWithEarlier(RowSource):
    """Rows with values of earlier rows of the same key. `stored`: the columns in memory in addition to the keys."""

    def __init__(
        self, source: RowSource, memory: EarlierRows, keys: Sequence[str], order: Sequence[str], stored: Sequence[str],
        values: Mapping[str, EarlierValue],
    ) -> None:  # fmt: skip
        super().__init__({**source.columns, **{name: source.columns[each.column] for name, each in values.items()}})
        self._source, self._memory = source, memory
        self._key, self._order, self._stored = (values_of(source, names) for names in (keys, order, stored))
        self._values = [(stored.index(each.column), each.back, each.within) for each in values.values()]

    def of(self, moment: Moment) -> list[Row]:
        found: list[Row] = []
        for row in sorted(self._source.of(moment), key=self._order):
            key, ts = self._key(row), row[0]
            own = self._memory.of(key, ts)
            earlier: list[Any] = []
            for place, back, within in self._values:
                is_there = own is not None and back <= len(own.times)
                if not is_there or own is None or (within is not None and own.times[-back] <= ts - within):
                    earlier.append(None)
                else:
                    earlier.append(own.columns[place][-back])
            found.append((*row, *earlier))
            self._memory.append(ts, (*key, *self._stored(row)))
        if not self._memory.is_loaded:
            raise UnknownRowsError
        return found


class LastByKey(Memory):
    """For each key its last number, which `text` reads: the number of the last row of its last reported match."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.last: dict[Row, int] = {}

    def load(self, database: Database, ts: int, seq: int) -> bool:
        self.last = {tuple(key): last for *key, last in database.fetch(self._text)}
        return len(self.last) <= MOST_ROWS and all(type(last) is int for last in self.last.values())

    def forget(self) -> None:
        self.last = {}


class LastReports(LastByKey):
    """For each key the time of its last reported row; the next is reported after a pause of `time` milliseconds."""

    def __init__(self, text: str, time: int) -> None:
        super().__init__(text)
        self._time, self._sweep_at = time, SWEEP

    def report(self, key: Row, ts: int) -> bool:
        """Whether a row is the first of its key after a pause; then its timestamp is stored."""
        last = self.last.get(key)
        if last is not None and ts - last < self._time:
            return False
        self.last[key] = ts
        if len(self.last) > self._sweep_at:
            self.last = {key: last for key, last in self.last.items() if ts - last < self._time}
            self._sweep_at = len(self.last) + SWEEP
        return True


class RowsAfterPauses(RowSource):
    """For each key, the rows that come at least a given time after the last such row."""

    def __init__(self, source: RowSource, memory: LastReports, mark: AfterPauses) -> None:
        super().__init__(source.columns)
        self._source, self._memory = source, memory
        self._key, self._order = values_of(source, mark.keys), values_of(source, mark.order)

    def of(self, moment: Moment) -> list[Row]:
        rows = sorted(self._source.of(moment), key=self._order)
        return [row for row in rows if self._memory.report(self._key(row), row[0])]


class RowsWithoutOverlap(RowSource):
    """For each key, the matches that begin after the last one reported; each is a row, with its first as `_first`."""

    def __init__(self, source: RowSource, memory: LastByKey, keys: Sequence[str]) -> None:
        super().__init__(source.columns)
        self._source, self._memory = source, memory
        self._key, self._match = values_of(source, keys), values_of(source, ("seq", "_first"))

    def of(self, moment: Moment) -> list[Row]:
        found, last = [], self._memory.last
        for row in sorted(self._source.of(moment), key=self._match):
            key, (end, first) = self._key(row), self._match(row)
            if first > last.get(key, -1):
                last[key] = end
                found.append(row)
        if len(last) > MOST_ROWS:
            raise UnknownRowsError
        return found
