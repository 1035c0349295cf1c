"""Reads rows of a table as events: their positions, their times, and the values of the stream's attributes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from bridge.check.types import UNKNOWN
from bridge.engine.catalogue import StreamEntry
from bridge.engine.clock import wall_clock
from bridge.engine.conform import cast_column
from bridge.engine.watch.batches import ArrowBatch, TableRow
from bridge.engine.watch.gaps import FEW
from bridge.errors import SchemaError, nearest
from bridge.query.table_source import TableSource
from bridge.stores.statement import converted
from windows.arrow import arrow_type
from windows.databases import Database
from windows.schema import Attribute, Schema, TypeMismatch, is_reserved
from windows.sql import table_of
from windows.types import quoted

if TYPE_CHECKING:
    import pyarrow as pa


class TableReader:
    """The statements that read the rows of a table for a stream."""

    def __init__(self, database: Database, entry: StreamEntry) -> None:
        source = entry.reads or entry.source
        assert source is not None
        self._database, self._entry, self.source = database, entry, source
        self._decoders = [database.decoder(attribute.type) for attribute in entry.schema]
        known = columns_of(self.source, database)
        self._position = self._column(known[position_of(self.source).lower()].name)
        instants = {name.lower(): text for name, text in database.in_utc(self.source.table).items()}
        columns = [self._position, self._time(known, instants)]
        for attribute in entry.schema:
            if attribute.name.lower() not in known:
                raise SchemaError(
                    f"{source.table} has no column {attribute.name!r} any more, which the stream {entry.name!r} has: "
                    "remove_stream and register_stream with the columns of now"
                )
            column = self._column(known[attribute.name.lower()].name)
            columns.append(reading(attribute, known, instants, database).replace("{}", column))
        listed = ", ".join(f"{column} AS {database.quoted(f'c{place}')}" for place, column in enumerate(columns))
        self.head = f"SELECT {listed} FROM {self._table}"
        """The SELECT without its conditions."""

    def statement(self, after: int | None, count: int) -> str:
        """The statement that reads the next `count` rows after a position; None: from the beginning."""
        where = "" if after is None else f" WHERE {self._position} > {after}"
        return f"{self.head}{where} ORDER BY {self._position} LIMIT {count}"

    def rows_after(self, after: int | None, count: int) -> list[TableRow]:
        """The next rows after a position, `count` at most, in the order of their positions."""
        return self._events(self._database.fetch(self.statement(after, count)))

    def arrow_after(self, after: int | None, count: int) -> ArrowBatch | None:
        """The next rows after a position, `count` at most, as Arrow; None where a value needs to be looked at by itself."""
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
        """The rows of a statement; None where the database's types and Arrow's differ."""
        import pyarrow as pa

        database, kinds = self._database, [attribute.type for attribute in self._entry.schema]
        if all(map(database.is_exact_in_arrow, kinds)) and (table := database.fetch_arrow(sql)) is not None:
            return table
        rows = database.fetch(sql)
        if not rows:
            return None
        position, times, *columns = zip(*rows, strict=True)
        decoded = [
            [value if value is None else decode(value) for value in values] if decode is not None else values
            for values, decode in zip(columns, self._decoders, strict=True)
        ]
        try:
            typed = [pa.array(values, arrow_type(kind)) for values, kind in zip(decoded, kinds, strict=True)]
            names = [f"c{place}" for place in range(len(typed) + 2)]
            return pa.Table.from_arrays([pa.array(position, pa.int64()), pa.array(times), *typed], names=names)
        except (pa.ArrowException, OverflowError):
            return None

    def rows_in(self, ranges: Sequence[tuple[int, int]]) -> Iterator[TableRow]:
        """The rows whose positions are in these ranges, in order."""
        for start in range(0, len(ranges), FEW):
            some = ranges[start : start + FEW]
            singles = [str(first) for first, last in some if first == last]
            parts = [f"{self._position} BETWEEN {first} AND {last}" for first, last in some if first < last]
            parts += [f"{self._position} IN ({', '.join(singles)})"] if singles else []
            sql = f"{self.head} WHERE {' OR '.join(parts)} ORDER BY {self._position}"
            yield from self._events(self._database.fetch(sql))

    def newest(self, count: int) -> list[int]:
        """The `count` greatest positions, in order."""
        sql = f"SELECT {self._position} FROM {self._table} WHERE {self._position} IS NOT NULL ORDER BY {self._position} DESC"
        return sorted(int(position) for (position,) in self._database.fetch(f"{sql} LIMIT {count}"))

    def count(self, most: int) -> int:
        """The number of rows, `most` at most."""
        sql = f"SELECT COUNT(*) FROM (SELECT {self._position} FROM {self._table} LIMIT {most}) AS r"
        return int(self._database.fetch(sql)[0][0])

    @property
    def _table(self) -> str:
        """The table as an item of FROM."""
        return (
            f"{table_of(self.source.table).sql(self._database.dialect, identify=True)} AS {self._database.quoted('t')}"
        )

    def _column(self, name: str) -> str:
        """A column of the table, with its table: SQLite reads a quoted name that is not a column as a text."""
        return f"{self._database.quoted('t')}.{self._database.quoted(name)}"

    def _time(self, known: dict[str, Attribute], instants: dict[str, str]) -> str:
        column = self.source.timestamp
        if column is None:
            return "NULL"
        found = known[column.lower()]
        return instants.get(found.name.lower(), "{}").replace("{}", self._column(found.name))

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
            return TableRow(position, ts, self._entry.row(list(converted(row[2:], self._decoders))))
        except (SchemaError, TypeMismatch, ValueError, TypeError) as error:
            return TableRow(position, ts, list(row[2:]), str(error))

    def _times(self, values: list[Any]) -> Sequence[int | str]:
        """The times in milliseconds; of a value that is not a time, why."""
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


def columns_of(source: TableSource, database: Database) -> dict[str, Attribute]:
    """The columns of the table by their names in lower case. Raises `SchemaError` where something is not as it should be."""
    found = database.relation(source.table)
    if found is None:
        raise SchemaError(f"there is no table {source.table!r} in the database that could be read as a stream")
    known = {column.name.lower(): column for column in found}
    for what, column in (("position", source.position), ("timestamp", source.timestamp)):
        if column is not None and column.lower() not in known:
            hint = nearest(column, [each.name for each in found])
            raise SchemaError(f"{source.table} has no column {column!r} for the {what}{hint}")
    kind = known[position_of(source).lower()].type if source.position is not None else "BIGINT"
    if kind not in ("SMALLINT", "INTEGER", "BIGINT", "DECIMAL(20, 0)"):
        raise SchemaError(
            f"the position {source.position!r} of {source.table} is {_shown(kind)}, and must be a whole number, as of a sequence "
            f"or AUTO_INCREMENT: CREATE STREAM … FROM CHANGES OF {source.table} reads a table without one"
        )
    return known


def position_of(source: TableSource) -> str:
    """The column of positions."""
    assert source.position is not None
    return source.position


def schema_of(source: TableSource, declared: Schema | None, database: Database) -> tuple[Schema, list[str]]:
    """The attributes of the stream, and why columns were left out; all columns of known types unless some are declared."""
    known = columns_of(source, database)
    if declared is not None:
        for attribute in declared:
            if attribute.name.lower() not in known:
                hint = nearest(attribute.name, [each.name for each in known.values()])
                raise SchemaError(f"{source.table} has no column {attribute.name!r}{hint}")
        return declared, []
    instants = {name.lower() for name in database.in_utc(source.table)}
    attributes, left_out = list[Attribute](), list[str]()
    for column in known.values():
        kind = "TIMESTAMP" if column.name.lower() in instants else column.type
        if is_reserved(column.name):
            left_out.append(f"{column.name} (the name is the bridge's own)")
        elif kind == UNKNOWN:
            left_out.append(f"{column.name} (its type)")
        else:
            attributes.append(Attribute(column.name, kind))
    if not attributes:
        raise SchemaError(
            f"{source.table} has no column that could be an attribute: left out are {', '.join(left_out)}"
        )
    return Schema(tuple(attributes)), left_out


def declaration(name: str, schema: Schema, source: TableSource) -> str:
    """The statement that declares a stream with its columns.

    >>> print(declaration("orders", Schema.of("id BIGINT"), TableSource("orders", "id")))
    CREATE STREAM orders (id BIGINT) FROM TABLE orders (POSITION id, SINCE NOW)
    """
    return f"CREATE STREAM {quoted(name)} ({schema}) FROM {source}"


def reading(attribute: Attribute, known: dict[str, Attribute], instants: dict[str, str], database: Database) -> str:
    """SQL that reads a column as an attribute, with {} for the column: cast where it is declared to be of another type."""
    column = known[attribute.name.lower()]
    if attribute.type == "TIMESTAMP" and (text := instants.get(column.name.lower())):
        return text
    if attribute.type == column.type or (kind := database.value_type(attribute)) is None:
        return "{}"
    hole = "cep_column"
    cast = exp.Cast(this=exp.column(hole, quoted=True), to=exp.DataType.build(kind, dialect=database.dialect, udt=True))
    return database.render(cast).replace(database.quoted(hole), "{}")


def _whole(value: Any, source: TableSource) -> int:
    try:
        if int(value) == value:
            return int(value)
    except (TypeError, ValueError):
        pass
    raise SchemaError(
        f"the position {source.position!r} of {source.table} is {value!r} in a row: it must be a whole number"
    )


def _shown(kind: str) -> str:
    return "of a type that is unknown" if kind == UNKNOWN else kind
