"""Reads rows of a table as events: their positions, their times, and the values of the stream's attributes."""

from __future__ import annotations

import decimal
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bridge.engine.catalogue import StreamEntry
from bridge.engine.conform import cast_column
from bridge.engine.queue.clock import wall_clock
from bridge.engine.watch.batches import ArrowBatch, TableRow
from bridge.engine.watch.columns import INTEGERS, TableColumns, missing_column
from bridge.engine.watch.gaps import FEW, LOWEST
from bridge.errors import SchemaError
from bridge.query.table_source import TableSource
from windows.arrow import arrow_type, columns_of_rows
from windows.databases import Database, Refused
from windows.databases.base import Convert
from windows.schema import Attribute, TypeMismatch
from windows.sql import table_of

if TYPE_CHECKING:
    import pyarrow as pa


class RowReader:
    """The statements that read the rows of a watched table for a stream."""

    def __init__(self, database: Database, entry: StreamEntry) -> None:
        source = entry.reads or entry.source
        assert source is not None and source.position is not None
        self._database, self._entry, self.source = database, entry, source
        self._decoders = [database.decoder(attribute.type) for attribute in entry.schema]
        known = TableColumns(source, database)
        self._position = self._column(known[source.position].name)
        columns, texts = [self._position, self._time(known)], [self._position, self._as_text(self._time(known))]
        for attribute in entry.schema:
            if attribute.name not in known:
                raise missing_column(source, entry.name, attribute.name)
            columns.append(known.value(attribute).replace("{}", self._column(known[attribute.name].name)))
            texts.append(self._as_text(columns[-1]) if attribute.type in ("DATE", "TIMESTAMP") else columns[-1])
        self.head = self._select(columns)
        """The SELECT without conditions."""
        self._head_of_texts = self._select(texts)
        """The same with times as texts, as drivers may lack times of their database, such as PostgreSQL's infinity."""

    def _select(self, columns: Sequence[str]) -> str:
        listed = ", ".join(f"{column} AS {self._database.quoted(f'c{place}')}" for place, column in enumerate(columns))
        return f"SELECT {listed} FROM {self._table}"

    def _as_text(self, value: str) -> str:
        kind = self._database.value_type(Attribute("text", "VARCHAR"))
        return value if value == "NULL" or kind is None else f"CAST({value} AS {kind})"

    def _fetch(self, sql: str) -> list[Any]:
        """The rows of a statement that begins with the head; times are texts if the driver cannot read them."""
        try:
            return self._database.fetch(sql)
        except Refused as error:
            try:
                return self._database.fetch(self._head_of_texts + sql.removeprefix(self.head))
            except Refused:
                raise error from None

    def statement(self, after: int | None, count: int) -> str:
        """The statement that reads the next `count` rows after a position; None: from the beginning."""
        condition = "IS NOT NULL" if after is None else f"> {after}"
        return f"{self.head} WHERE {self._position} {condition} ORDER BY {self._position} LIMIT {count}"

    def rows_after(self, after: int | None, count: int) -> list[TableRow]:
        """The next rows after a position, at most `count`, in the order of their positions."""
        return self._events(self._fetch(self.statement(after, count)))

    def arrow_after(self, after: int | None, count: int) -> ArrowBatch | None:
        """The next rows after a position, at most `count`, as Arrow; None if values have to be examined one by one."""
        import numpy as np
        import pyarrow as pa

        from bridge.sources.arrays import Unfit
        from bridge.sources.times import TimeUnit

        table = self._in_arrow(self.statement(after, count))
        if table is None or table.num_rows == 0:
            return None
        try:
            positions = table.column(0).cast(pa.int64()).to_numpy()
            if (positions[1:] == positions[:-1]).any():
                return None
            times = (
                np.full(len(positions), wall_clock())
                if self.source.timestamp is None
                else (TimeUnit(self.source.unit).to_times(table.column(1)).to_numpy())
            )
            columns = [
                cast_column(column, attribute, 0)
                for column, attribute in zip(table.columns[2:], self._entry.schema, strict=True)
            ]
        except (Unfit, SchemaError, TypeMismatch, pa.ArrowException):
            return None
        names = [f"c{place}" for place in range(len(columns))]
        return ArrowBatch.of(positions, times, pa.Table.from_arrays(columns, names=names))

    def _in_arrow(self, sql: str) -> pa.Table | None:
        """The rows of a statement as Arrow; None if the database's types and Arrow's differ."""
        import pyarrow as pa

        database, kinds = self._database, [attribute.type for attribute in self._entry.schema]
        try:
            if all(map(database.is_exact_in_arrow, kinds)) and (table := database.fetch_arrow(sql)) is not None:
                return table
            rows = database.fetch(sql)
            if not rows:
                return None
            position, times, *columns = columns_of_rows(rows, len(rows[0]))
            decoded = [
                values if decode is None else [_decoded(value, attribute, decode) for value in values]
                for values, attribute, decode in zip(columns, self._entry.schema, self._decoders, strict=True)
            ]
            typed = [_array(values, kind) for values, kind in zip(decoded, kinds, strict=True)]
            names = [f"c{place}" for place in range(len(typed) + 2)]
            return pa.Table.from_arrays([pa.array(position, pa.int64()), pa.array(times), *typed], names=names)
        except (Refused, SchemaError, pa.ArrowException, OverflowError):  # then each row is examined by itself
            return None

    def rows_in(self, ranges: Sequence[tuple[int, int]]) -> Iterator[TableRow]:
        """The rows whose positions are in these ranges, in order."""
        for start in range(0, len(ranges), FEW):
            some = ranges[start : start + FEW]
            singles = [str(first) for first, last in some if first == last]
            parts = [f"{self._position} BETWEEN {first} AND {last}" for first, last in some if first < last]
            parts += [f"{self._position} IN ({', '.join(singles)})"] if singles else []
            sql = f"{self.head} WHERE {' OR '.join(parts)} ORDER BY {self._position}"
            yield from self._events(self._fetch(sql))

    def newest(self, count: int) -> list[int]:
        """The `count` greatest positions, in order."""
        sql = f"SELECT {self._position} FROM {self._table} WHERE {self._position} IS NOT NULL ORDER BY {self._position} DESC"
        return sorted(int(position) for (position,) in self._database.fetch(f"{sql} LIMIT {count}"))

    def has_rows_without_position(self) -> bool:
        """Whether a row has NULL as its position."""
        return bool(self._database.fetch(f"SELECT 1 FROM {self._table} WHERE {self._position} IS NULL LIMIT 1"))

    def count(self, most: int) -> int:
        """The number of rows, counted up to `most`."""
        sql = f"SELECT COUNT(*) FROM (SELECT {self._position} FROM {self._table} LIMIT {most}) AS r"
        return int(self._database.fetch(sql)[0][0])

    @property
    def _table(self) -> str:
        """The table as an item of FROM."""
        return (
            f"{table_of(self.source.table).sql(self._database.dialect, identify=True)} AS {self._database.quoted('t')}"
        )

    def _column(self, name: str) -> str:
        """A column with its table's name, as SQLite reads an unknown quoted name as a text."""
        return f"{self._database.quoted('t')}.{self._database.quoted(name)}"

    def _time(self, known: TableColumns) -> str:
        name = self.source.timestamp
        return "NULL" if name is None else known.time(name).replace("{}", self._column(known[name].name))

    def _events(self, rows: list[Any]) -> list[TableRow]:
        if not rows:
            return []
        positions = [_whole(row[0], self.source) for row in rows]
        if any(one == other for one, other in itertools.pairwise(positions)):
            raise SchemaError(
                f"the stream {self._entry.name!r} cannot be read: {self.source.position!r} of {self.source.table} is the same "
                "in several rows, and a position identifies one: name a column that is unique, such as the primary key"
            )
        times = self._times([row[1] for row in rows])
        return [self._event(*found) for found in zip(positions, times, rows, strict=True)]

    def _event(self, position: int, ts: int | str, row: Any) -> TableRow:
        if isinstance(ts, str):
            return TableRow(position, 0, list(row[2:]), f"{self.source.timestamp}: {ts}")
        try:
            values = map(_decoded, row[2:], self._entry.schema, self._decoders)
            return TableRow(position, ts, self._entry.row(list(values)))
        except (SchemaError, TypeMismatch, ValueError, TypeError) as error:
            return TableRow(position, ts, list(row[2:]), str(error))

    def _times(self, values: list[Any]) -> Sequence[int | str]:
        """The times in milliseconds; for a value that is not a time, the reason."""
        if self.source.timestamp is None:
            return [wall_clock()] * len(values)
        import pyarrow as pa

        from bridge.sources.arrays import Unfit
        from bridge.sources.times import TimeUnit

        try:
            times: list[int] = TimeUnit(self.source.unit).to_times(pa.array(values)).to_pylist()
            return times
        except (Unfit, pa.ArrowException) as error:
            if len(values) == 1:
                return [str(error)]
        return [found for value in values for found in self._times([value])]


def _array(values: Sequence[Any], kind: str) -> pa.Array[Any]:
    """The values as Arrow. Raises `pa.ArrowException` if one is of another type; Arrow itself cuts 14.5 to 14."""
    import pyarrow as pa

    array: pa.Array[Any] = pa.array(values, None if kind in INTEGERS else arrow_type(kind))
    return pa.array(values, arrow_type(kind)) if pa.types.is_boolean(array.type) else array.cast(arrow_type(kind))


def _decoded(value: Any, attribute: Attribute, decode: Convert | None) -> Any:
    """The Python value of an attribute. Raises SchemaError for a value of another kind, which SQLite may store."""
    if value is None or decode is None:
        return value
    try:
        if attribute.type == "BOOLEAN" and isinstance(value, str):  # otherwise 'false' would be true
            raise TypeError
        found = decode(value)
        is_exact = attribute.type in INTEGERS or (
            isinstance(value, decimal.Decimal) and attribute.type.startswith("DECIMAL")
        )
        if is_exact and found != value:  # int would cut 14.5 to 14, and accept the text '14'
            raise TypeError
        return found
    except (ValueError, TypeError, ArithmeticError):
        message = f"attribute {attribute.name!r} is {attribute.type}: {value!r} ({type(value).__name__}) does not fit"
        raise SchemaError(message) from None


def _whole(value: Any, source: TableSource) -> int:
    try:
        if int(value) == value and LOWEST <= value < 2**63:
            return int(value)
    except (TypeError, ValueError):
        pass
    raise SchemaError(
        f"the position {source.position!r} of {source.table} is {str(value)!r} in a row: it must be a whole number of 64 bits"
    )
