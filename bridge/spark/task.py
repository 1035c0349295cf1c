"""The task of an executor: a bridge on an embedded DuckDB, into which the events of a piece of the history are pushed.

So the results of a piece are those of the continuous query. The events are Arrow batches, in order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.check.scope import Field
from bridge.engine.bridge import Bridge
from bridge.engine.catalogue import QueryEntry
from bridge.engine.intake import interleaved
from bridge.engine.result_set import arrow_table
from bridge.engine.session import session_of
from bridge.errors import QueryError, SourceError
from bridge.history.results import file_name
from bridge.query.nodes import Node, Stream, walk
from bridge.rewrite.tables.read_store import Read
from bridge.rewrite.write_requests import PLACE as REQUEST_PLACE
from bridge.rewrite.write_requests import SEQ, VALUE
from bridge.sources.arrays import Unfit
from bridge.sources.layout import Layout
from bridge.sources.relations import copy_table
from bridge.spark.bounded import ROWS, BoundedQuery
from bridge.spark.columns import AT_THE_END, BY_TIME, EVENT_ID, FIRST_ID, ORDER, PLACE, STREAM_BITS, TIME
from bridge.stores.statement import dumped
from nfa.errors import ExhaustedError
from windows.databases import open_database
from windows.schema import Schema

CHUNK = 100_000
"""The number of events that are pushed at once."""

WRITE_REQUEST: dict[str, Any] = {
    "ts": pa.int64(), "seq": pa.int64(), "writer": pa.int64(), "place": pa.int64(), "row": pa.string(),
}  # fmt: skip
"""The columns of write requests: the row that they belong to, the number of the writer, and the values as JSON."""


@dataclasses.dataclass(frozen=True)
class StreamFeed:
    """One stream among the events of a task.

    `columns`: the columns of the events that hold the columns of `layout`. `number`: the number of the stream.
    `has_id`: whether the stream has EVENT_ID as attributes.
    """

    name: str
    schema: Schema
    layout: Layout
    columns: tuple[str, ...]
    number: int
    has_id: bool = False

    def table(self, events: pa.Table) -> pa.Table:
        """The events of the stream as the bridge takes them: `ts`, then the attributes. Raises SourceError."""
        raw = pa.Table.from_arrays([events.column(name) for name in self.columns], names=self.layout.columns)
        try:
            table = self.layout.conform(raw)
        except Unfit as error:
            raise SourceError(f"the events of {self.name!r}: {error}") from None
        if not self.has_id:
            return table
        return table.append_column(EVENT_ID[0], events.column(TIME)).append_column(PLACE, events.column(PLACE))

    def with_place(self, events: pa.Table) -> pa.Table:
        """The events of this stream among those of several, with PLACE as the last column."""
        own = events.filter(pa.array(events.column(PLACE).to_numpy() >> STREAM_BITS == self.number))
        table = self.table(own)
        return table if self.has_id else table.append_column(PLACE, own.column(PLACE))


@dataclasses.dataclass(frozen=True)
class PieceTask:
    """The computation of some queries over each piece.

    Args:
        feeds: The streams.
        queries: The queries to create, in their order.
        schemas: The queries to report, with the columns of their results.
        relations: Tables that queries read.
        now: The newest timestamp of the whole history.
        bounds: For slices of time: the first timestamp of each slice, and the timestamp after the last slice.
        open_end: Whether events may follow, so that the end decides nothing.
        bounded: The queries that can be computed over all rows of a piece at once.
        stores: The URLs of the data stores that queries read.
        before: For slices and write requests: the number of events before each slice.
    """

    feeds: tuple[StreamFeed, ...]
    queries: tuple[tuple[str, Node], ...]
    schemas: Mapping[str, pa.Schema]
    relations: Mapping[str, pa.Table]
    now: int
    bounds: tuple[int, ...] | None = None
    open_end: bool = False
    bounded: Mapping[str, BoundedQuery] = dataclasses.field(default_factory=dict)
    stores: Mapping[str, str] = dataclasses.field(default_factory=dict)
    before: tuple[int, ...] = ()

    @property
    def in_order(self) -> bool:
        """Whether results are in order, piece by piece; otherwise they have the columns of ORDER to sort by."""
        return not any(ORDER[0] in schema.names for schema in self.schemas.values())

    @contextlib.contextmanager
    def bridge(self, numbered: bool) -> Iterator[Bridge]:
        """A bridge with the streams and queries, on a DuckDB with one thread. `numbered`: results have numbers."""
        import duckdb

        with duckdb.connect(config={"threads": 1}) as connection, Bridge(open_database(connection)) as cep:
            if numbered:
                session_of(cep).number_results()
            for name, relation in self.relations.items():
                copy_table(cep.database, name, relation)
            for name, url in self.stores.items():
                cep.register_datastore(name, url)
            for feed in self.feeds:
                cep.register_stream(feed.name, feed.schema)
            with session_of(cep).expecting(node for _, node in self.queries):
                for name, node in self.queries:
                    cep.create_query(name, node)
            yield cep

    def results(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, str, pa.Table]]:
        """(piece, query, results in order), piece by piece."""
        for piece, events in pieces(batches):
            yield from self._bounded_results(piece, events) if self.bounded else self._push(piece, events)

    def _push(self, piece: int, events: Iterable[pa.Table]) -> Iterator[tuple[int, str, pa.Table]]:
        with PieceRun(self, piece) as run:
            for chunk in events:
                yield from run.push(chunk)
            yield from run.end()

    def _bounded_results(self, piece: int, events: Iterator[pa.Table]) -> Iterator[tuple[int, str, pa.Table]]:
        """Computes bounded queries over the whole piece, and the other queries by pushing its events."""
        tables: list[pa.Table] = []
        while sum(table.num_rows for table in tables) <= ROWS and (following := next(events, None)) is not None:
            tables.append(following)
        left = dict(self.schemas)
        if sum(table.num_rows for table in tables) <= ROWS:
            for name, query in self.bounded.items():
                feed = next(feed for feed in self.feeds if feed.name.lower() == query.stream.lower())
                table = pa.concat_tables([feed.with_place(chunk) for chunk in tables])
                with contextlib.suppress(QueryError, ExhaustedError):
                    yield piece, name, query.results(feed.schema, table, self.now)
                    del left[name]
        if left:
            others = dataclasses.replace(self, schemas=left, bounded={}, queries=needed_queries(self.queries, left))
            yield from others._push(piece, itertools.chain(tables, events))

    def frame(self, name: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """A function for `mapInArrow` that returns the results of one query."""

        def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _, _, table in self.results(batches):
                yield from self.cast(name, table).combine_chunks().to_batches()

        return rows

    def write_requests(
        self, writers: Mapping[str, int]
    ) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """A function for `mapInArrow` that returns the write requests of queries. `writers`: their numbers."""

        def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _, name, table in self.results(batches):
                values = [table.column(c).to_pylist() for c in table.column_names if c.startswith(VALUE)]
                rows_as_json = [dumped(row) for row in zip(*values, strict=True)] or ["[]"] * table.num_rows
                writer = pa.array([writers[name]] * table.num_rows, pa.int64())
                row, place = pa.array(rows_as_json, pa.string()), table.column(REQUEST_PLACE)
                columns: list[Any] = [table.column("ts"), table.column(SEQ), writer, place, row]
                whole = pa.Table.from_arrays(columns, schema=pa.schema(WRITE_REQUEST))
                yield from whole.combine_chunks().to_batches()

        return rows

    def cast(self, name: str, table: pa.Table) -> pa.Table:
        """The columns of a query's results, in their types."""
        schema = self.schemas[name]
        return table.select(schema.names).cast(schema)


def needed_queries(queries: Iterable[tuple[str, Node]], names: Iterable[str]) -> tuple[tuple[str, Node], ...]:
    """The queries with these names and all queries that they read, in order."""
    result: list[tuple[str, Node]] = []
    reads = {name.lower() for name in names}
    for name, node in reversed(list(queries)):
        if name.lower() in reads:
            reads |= {below.name.lower() for below in walk(node) if isinstance(below, Stream)}
            result.append((name, node))
    return tuple(reversed(result))


class PieceRun:
    """The computation of one piece in a bridge of its own, which is closed at the end of the block."""

    def __init__(self, task: PieceTask, piece: int) -> None:
        self.task, self.piece = task, piece
        self._opened = contextlib.ExitStack()
        self.cep = self._opened.enter_context(task.bridge(numbered=True))
        self.session = session_of(self.cep)
        for name in task.schemas:
            self.cep.add_output_processor(name, _nothing, batch=True)
        self._turn = 0
        self._first = 0
        self._places = np.array([], np.int64)
        self._looked_back = 0
        """The number of events so far that belong to earlier slices."""

    def __enter__(self) -> PieceRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def push(self, events: pa.Table) -> Iterator[tuple[int, str, pa.Table]]:
        """Pushes the next events, which are in order, and returns the results."""
        parts = []
        for feed in self.task.feeds:
            ranks = self._ranks(events, feed)
            if len(ranks):
                mine = events if len(ranks) == events.num_rows else events.take(pa.array(ranks))
                parts.append((self.session.catalogue.stream_entry(feed.name), feed.table(mine), ranks))
        if self.task.before and self.task.bounds is not None:
            self._looked_back += int((events.column(TIME).to_numpy() < self.task.bounds[self.piece]).sum())
        batches, count, _, last = interleaved(parts)(self.session.seq)
        self._first, self._places = self.session.seq + 1, events.column(PLACE).to_numpy()
        yield from self._take(batches, count, last)

    def end(self) -> Iterator[tuple[int, str, pa.Table]]:
        """The results reported without an event until the end of this piece, or at the end of the history."""
        bounds = self.task.bounds
        last_of_all = bounds is None or self.piece == len(bounds) - 2
        until = self.task.now if last_of_all or bounds is None else min(self.task.now, bounds[self.piece + 1] - 1)
        if until > self.session.now:
            yield from self._take([], 0, until)
        if last_of_all and not self.task.open_end:
            yield from self._take([], 0, max(until, self.session.now), final=True)

    def _ranks(self, events: pa.Table, feed: StreamFeed) -> Any:
        if len(self.task.feeds) == 1:
            return np.arange(events.num_rows)
        return np.flatnonzero(events.column(PLACE).to_numpy() >> STREAM_BITS == feed.number)

    def _take(self, batches: Sequence[Any], count: int, ts: int, final: bool = False) -> Iterator[Any]:
        results = self.session.push(list(batches), count, ts, final)
        self._raise_for_stores()
        for entry, rows in results:
            table = self._own(self._ordered(entry, rows, final))
            if table.num_rows:
                yield self.piece, entry.name, table

    def _raise_for_stores(self) -> None:
        """Raises SourceError for a data store that does not answer, or refuses, as a piece cannot wait for it."""
        for letter in self.cep.dead_letters() if self.task.stores else ():
            raise SourceError(f"the data store {letter.store!r}: {letter.reason}")
        steps = (step for operator in self.session.operators() for step in operator.steps)
        reads = [step for step in steps if isinstance(step, Read) and step.waiting] if self.task.stores else []
        for read in reads:
            if self.cep.database.fetch(f"SELECT 1 FROM {read.waiting} LIMIT 1"):
                raise SourceError(f"the data store {read.node.store!r} does not answer")

    def _own(self, table: pa.Table) -> pa.Table:
        """The results of this slice's own time, without results of events that it only looks back at."""
        if self.task.bounds is None:
            return table
        if self.task.before and SEQ in table.column_names:
            table = self._numbered(table)
        first, after = self.task.bounds[self.piece], self.task.bounds[self.piece + 1]
        at = table.column(0).to_numpy()
        return table.filter(pa.array((at >= first) & (at < after)))

    def _numbered(self, table: pa.Table) -> pa.Table:
        """Write requests with the numbers of their events in the whole history; 0 without an event."""
        numbers = table.column(SEQ).to_numpy()
        whole = np.where(numbers > 0, numbers + (self.task.before[self.piece] - self._looked_back), 0)
        return table.set_column(table.column_names.index(SEQ), SEQ, pa.array(whole))

    def _ordered(self, entry: QueryEntry, rows: Any, final: bool) -> pa.Table:
        """The results, with the columns of ORDER first."""
        whole = arrow_table([Field("seq", "BIGINT"), *entry.fields], rows)
        at, seq, own = whole.column(0), whole.column(1).to_numpy(), whole.columns[2:]
        place = np.full(len(seq), AT_THE_END if final else BY_TIME)
        if not final and len(self._places):
            of_events = seq >= self._first
            place[of_events] = self._places[seq[of_events] - self._first]
        columns_by_name = dict(zip(entry.names, own, strict=True))
        event_id = {c: columns_by_name.pop(c) for c in EVENT_ID if c in columns_by_name}
        first = [columns_by_name.pop(c) for c in FIRST_ID if c in columns_by_name] or [
            pa.array(np.full(len(seq), BY_TIME))
        ] * 2
        if event_id:
            first = [pc.coalesce(own, event_id[c]) for own, c in zip(first, EVENT_ID, strict=True)]
        turn = np.arange(self._turn, self._turn + len(seq))
        self._turn += len(seq)
        columns = [at, pa.array(place), *first, pa.array(turn), at, *columns_by_name.values()]
        return pa.Table.from_arrays(columns, names=[*ORDER, "ts", *columns_by_name])


def pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[pa.Table]]]:
    """The events piece by piece, in tables of about CHUNK rows."""
    reader = _PieceReader(batches)
    while (piece := reader.next_piece()) is not None:
        yield piece, reader.tables(piece)


class _PieceReader:
    """Regroups record batches by piece."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._head: pa.RecordBatch | None = None

    def next_piece(self) -> int | None:
        """The piece of the next row; None at the end."""
        while self._head is None or not self._head.num_rows:
            self._head = next(self._batches, None)
            if self._head is None:
                return None
        return int(self._head.column(0)[0].as_py())

    def tables(self, piece: int) -> Iterator[pa.Table]:
        """The rows of the next piece, in tables of about CHUNK rows."""
        rows: list[pa.RecordBatch] = []
        while self.next_piece() == piece:
            assert self._head is not None
            count = int(np.searchsorted(self._head.column(0).to_numpy(), piece, side="right"))
            rows.append(self._head.slice(0, count))
            self._head = self._head.slice(count)
            if sum(batch.num_rows for batch in rows) >= CHUNK:
                yield pa.Table.from_batches(rows)
                rows = []
        if rows:
            yield pa.Table.from_batches(rows)


def _nothing(rows: pa.Table) -> None:
    """Does nothing: results are taken from the push."""


@dataclasses.dataclass(frozen=True)
class PieceWriter:
    """Writes the results of a task as Parquet, one file per query and piece."""

    task: PieceTask
    directory: str

    COLUMNS = "piece int, query string, path string, rows long, seconds double"

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the results, and returns the files, for `mapInArrow`.

        Raises OSError if the directory is missing, because its run died and was removed.
        """
        import uuid

        import pyarrow.parquet as pq
        from pyarrow import fs

        system, base = fs.FileSystem.from_uri(self.directory)
        start = time.monotonic()
        files: dict[tuple[int, str], tuple[str, pq.ParquetWriter, list[int]]] = {}
        attempt = uuid.uuid4().hex[:12]
        try:
            for piece, name, table in self.task.results(batches):
                if (piece, name) not in files:
                    folder = f"{base}/{folder_of(name)}"
                    system.create_dir(folder, recursive=False)
                    path = f"{folder}/part-{piece:05d}-{attempt}.parquet"
                    writer = pq.ParquetWriter(path, self.task.schemas[name], filesystem=system)
                    files[piece, name] = path, writer, [0]
                _, writer, rows = files[piece, name]
                writer.write_table(self.task.cast(name, table))
                rows[0] += table.num_rows
        finally:
            for _, writer, _ in files.values():
                writer.close()
        seconds = time.monotonic() - start
        lines = [(piece, name, path, rows[0], seconds) for (piece, name), (path, _, rows) in files.items()]
        columns = list(zip(*lines, strict=True)) or [()] * 5
        kinds = [pa.int32(), pa.string(), pa.string(), pa.int64(), pa.float64()]
        arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["piece", "query", "path", "rows", "seconds"])


def folder_of(name: str) -> str:
    """The name of the directory of a query's files."""
    return file_name(name, "parquet")
