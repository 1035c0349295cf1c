"""Sources with types: Parquet files, Arrow tables and frames, and (payload, timestamp) pairs."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from bridge.errors import BridgeError, SourceError, first_line
from bridge.sources.arrays import Array
from bridge.sources.arrow import milliseconds
from bridge.sources.block import Block, Fault
from bridge.sources.layout import Layout, attribute_type
from windows.arrow import arrow_type
from windows.schema import Reader as RowReader
from windows.schema import Schema, TypeMismatch

ROWS = 100_000
"""The largest number of rows in a table of events."""

WIDE, MOST = 2**24, 500_000
"""The largest number of bytes and of rows in a batch of a Parquet file."""

PAIRS = 10_000
"""The number of pairs that are read at a time."""


UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What pyarrow raises for a damaged Parquet file; the last one is of a column's name."""


class ParquetReader:
    """A Parquet file. Only the columns of the layout are read, batch by batch."""

    typed = True
    waits = False

    def __init__(self, path: str) -> None:
        self.file = path
        if os.path.exists(path) and os.path.getsize(path) == 0:
            raise SourceError(f"{path} is empty: this is not a Parquet file")
        import pyarrow.parquet as pq

        try:
            self._parquet = pq.ParquetFile(path)
        except FileNotFoundError:
            raise SourceError(f"the file {path} does not exist") from None
        except UNREADABLE as error:
            raise SourceError(f"{path} is not a complete Parquet file: {first_line(error)}") from None
        schema = self._parquet.schema_arrow
        self.columns = _columns_by_name(path, schema.names, schema.types)
        self._read = 0

    @property
    def fraction(self) -> float | None:
        """The part of the rows that has been read."""
        return self._read / max(1, self._parquet.metadata.num_rows)

    def blocks(self, layout: Layout) -> Iterator[Block]:
        """The batches of the file."""
        batches = self._parquet.iter_batches(batch_size=self._batch(), columns=layout.columns)
        while True:
            try:
                batch = next(batches, None)
            except UNREADABLE as error:
                place = f"after row {self._read}"
                raise SourceError(f"{self.file} is damaged {place}: {first_line(error)}") from None
            if batch is None:
                return
            yield TableBlock(layout, pa.Table.from_batches([batch]), self._read)
            self._read += batch.num_rows

    def table(self) -> pa.Table:
        """The whole file. Raises SourceError where it is damaged."""
        try:
            return self._parquet.read()
        except UNREADABLE as error:
            raise SourceError(f"{self.file} is damaged: {first_line(error)}") from None

    def _batch(self) -> int:
        """The number of rows per batch: many if they are narrow, for few calls.

        Few if they are wide, for little memory.
        """
        groups = map(self._parquet.metadata.row_group, range(self._parquet.num_row_groups))
        size = sum(group.total_byte_size for group in groups) // max(1, self._parquet.metadata.num_rows)
        return max(1, min(MOST, WIDE // max(1, size)))

    def close(self) -> None:
        """Closes the file."""
        self._parquet.close()


class TableReader:
    """Arrow tables of one schema, one after the other."""

    typed = True
    waits = False

    def __init__(self, name: str, tables: Iterator[pa.Table]) -> None:
        self.file = name
        first = next(tables, None)
        self._tables = itertools.chain([] if first is None else [first], tables)
        self.columns = {} if first is None else _columns_by_name(name, first.schema.names, first.schema.types)
        self.fraction = None

    def blocks(self, layout: Layout) -> Iterator[Block]:
        """Slices of the tables."""
        done = 0
        for table in self._tables:
            for start in range(0, table.num_rows, ROWS):
                yield TableBlock(layout, table.slice(start, ROWS), done + start)
            done += table.num_rows

    def close(self) -> None:
        """Does nothing: no file is open."""


class TableBlock(Block):
    """Rows of an Arrow table, after `before` other rows."""

    unit = "row"

    def __init__(self, layout: Layout, table: pa.Table, before: int) -> None:
        self.layout, self._table, self._before = layout, table, before

    @property
    def size(self) -> int:
        return int(self._table.num_rows)

    def values(self, column: str, start: int, stop: int) -> Array:
        return self._table.column(column).slice(start, stop - start)

    def line(self, number: int) -> int:
        return self._before + number + 1

    def raw(self, number: int) -> str:
        return str(self._table.slice(number, 1).to_pylist()[0])

    def text(self, number: int, column: str) -> str:
        return repr(self._table.column(column)[number].as_py())


class PairsReader:
    """(payload, timestamp) pairs, checked as in `push_event`.

    Without a schema, it is inferred from the first payloads.
    """

    typed = False
    waits = True

    def __init__(self, name: str, pairs: Iterable[tuple[Any, Any]], schema: Schema | None) -> None:
        self.file = name
        self.fraction = None
        parts = _batches(iter(pairs))
        first = next(parts, [])
        self._parts = itertools.chain([first], parts)
        self.schema = _infer_schema(name, first) if schema is None else schema
        self.columns = {"ts": pa.int64(), **{a.name: arrow_type(a.type) for a in self.schema}}

    def blocks(self, layout: Layout) -> Iterator[Block]:
        """The pairs, PAIRS at a time."""
        done = 0
        for part in self._parts:
            if part:
                yield PairsBlock(layout, self.schema, part, done)
            done += len(part)

    def close(self) -> None:
        """Does nothing: no file is open."""


class PairsBlock(Block):
    """(payload, timestamp) pairs, after `before` other pairs."""

    unit = "event"

    def __init__(self, layout: Layout, schema: Schema, pairs: list[Any], before: int) -> None:
        self.layout, self._pairs, self._before = layout, pairs, before
        self._faults: dict[int, Fault] = {}
        rows = list(self._rows(RowReader.of(schema).row))
        columns = zip(*rows, strict=True) if rows else itertools.repeat(())
        types = [("ts", pa.int64()), *((attribute.name, arrow_type(attribute.type)) for attribute in schema)]
        self._columns = {name: pa.array(values, kind) for (name, kind), values in zip(types, columns, strict=False)}

    def _rows(self, values_of: Callable[[Any], tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        for number, pair in enumerate(self._pairs):
            try:
                payload, timestamp = pair
            except (TypeError, ValueError):
                self._faults[number] = Fault(None, f"an event is a pair (payload, timestamp), not {pair!r}")
                continue
            try:
                yield milliseconds(timestamp), *values_of(payload)
            except (TypeMismatch, BridgeError) as error:
                self._faults[number] = Fault(None, str(error))

    @property
    def size(self) -> int:
        return len(self._pairs) - len(self._faults)

    @property
    def malformed(self) -> Mapping[int, Fault]:
        return self._faults

    def values(self, column: str, start: int, stop: int) -> Array:
        return self._columns[column].slice(start, stop - start)

    def line(self, number: int) -> int:
        return self._before + number + 1

    def raw(self, number: int) -> str:
        return repr(self._pairs[number])

    def text(self, number: int, column: str) -> str:
        return repr(self._pairs[number])


def _batches(pairs: Iterator[Any]) -> Iterator[list[Any]]:
    while part := list(itertools.islice(pairs, PAIRS)):
        yield part


def _infer_schema(name: str, pairs: list[Any]) -> Schema:
    """The schema of the first payloads, which must be mappings; of only the first one if they differ."""
    for sample in (pairs, pairs[:1]):
        with contextlib.suppress(AttributeError, TypeError, ValueError, pa.ArrowException):
            table = pa.Table.from_pylist([payload for payload, _ in sample])
            if table.num_columns:
                return Schema.of({field.name: attribute_type(field.type) for field in table.schema})
    raise SourceError(
        f"the schema of {name!r} cannot be inferred from its events: declare it with CREATE STREAM or schemas="
    )


def _columns_by_name(file: str, names: list[str], types: list[pa.DataType]) -> dict[str, pa.DataType]:
    for name in names:
        if names.count(name) > 1:
            raise SourceError(f"{file}: two columns are called {name!r}")
    return dict(zip(names, types, strict=True))
