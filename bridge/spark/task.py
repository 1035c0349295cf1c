"""What runs on an executor: the bridge itself, on an embedded DuckDB, over the events of one piece of the history.

So a piece gives the very rows that the live query gives. Its events come in order, as Arrow, and go through in batches.
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
from bridge.engine.rows import arrow_table
from bridge.engine.session import session_of
from bridge.errors import QueryError, SourceError
from bridge.history.results import file_name
from bridge.query.nodes import Node, Stream, walk
from bridge.rewrite.tables.read_store import Read
from bridge.rewrite.write_requests import PLACE as LETTER_PLACE
from bridge.rewrite.write_requests import SEQ, VALUE
from bridge.sources.convert import Unfit
from bridge.sources.layout import Layout
from bridge.sources.relations import copy_table
from bridge.spark.bounded import ROWS, Bounded
from bridge.spark.columns import AT_THE_END, BY_TIME, FIRST, MOMENT, ORDER, PLACE, STREAM_BITS, TIME
from bridge.stores.statement import dumped
from nfa.errors import ExhaustedError
from windows.schema import Schema

CHUNK = 100_000
"""So many events go through at once."""

LETTER: dict[str, Any] = {
    "ts": pa.int64(), "seq": pa.int64(), "writer": pa.int64(), "place": pa.int64(), "row": pa.string(),
}  # fmt: skip
"""What is to be written: for which row, by which of the script's writers, and the values, as JSON."""


@dataclasses.dataclass(frozen=True)
class Feed:
    """One stream of a task: `columns` of the task's events hold what `layout` reads; `placed`: it has MOMENT as attributes."""

    name: str
    schema: Schema
    layout: Layout
    columns: tuple[str, ...]
    number: int
    placed: bool = False

    def table(self, events: pa.Table) -> pa.Table:
        """Its events as the bridge takes them: `ts`, then the attributes."""
        raw = pa.Table.from_arrays([events.column(name) for name in self.columns], names=self.layout.columns)
        try:
            table = self.layout.conform(raw)
        except Unfit as error:
            raise SourceError(f"the events of {self.name!r}: {error}") from None
        if not self.placed:
            return table
        return table.append_column(MOMENT[0], events.column(TIME)).append_column(PLACE, events.column(PLACE))

    def with_place(self, events: pa.Table) -> pa.Table:
        """The same with PLACE, whether it is an attribute or not, of events of several streams."""
        own = events.filter(pa.array(events.column(PLACE).to_numpy() >> STREAM_BITS == self.number))
        table = self.table(own)
        return table if self.placed else table.append_column(PLACE, own.column(PLACE))


@dataclasses.dataclass(frozen=True)
class Task:
    """What is done with each piece. `queries`: all in their order, those `wanted` give rows.

    `bounds`: the first instant of each slice of time and the one after all, where pieces are slices. `now`: the newest
    time of the whole history. `open_end`: what waits for later events is not decided in the end.
    `bounded`: queries that all rows of some keys can answer at once. `stores`: the data stores that are read, by URL.
    `before`: how many events there are before each slice, where letters are among the queries.
    """

    feeds: tuple[Feed, ...]
    queries: tuple[tuple[str, Node], ...]
    wanted: Mapping[str, pa.Schema]
    relations: Mapping[str, pa.Table]
    now: int
    bounds: tuple[int, ...] | None = None
    open_end: bool = False
    bounded: Mapping[str, Bounded] = dataclasses.field(default_factory=dict)
    stores: Mapping[str, str] = dataclasses.field(default_factory=dict)
    before: tuple[int, ...] = ()

    @property
    def in_order(self) -> bool:
        """Whether the results come in their order, piece by piece; else they have ORDER's columns, to be sorted by."""
        return not any(ORDER[0] in schema.names for schema in self.wanted.values())

    def results(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, str, pa.Table]]:
        """Of each piece in turn: its number, a query, and rows of it in their order."""
        for piece, events in pieces(batches):
            yield from self._at_once(piece, events) if self.bounded else self._live(piece, events)

    def _live(self, piece: int, events: Iterable[pa.Table]) -> Iterator[tuple[int, str, pa.Table]]:
        with Run(self, piece) as run:
            for chunk in events:
                yield from run.push(chunk)
            yield from run.end()

    def _at_once(self, piece: int, events: Iterator[pa.Table]) -> Iterator[tuple[int, str, pa.Table]]:
        """The bounded queries over the whole piece; those that cannot be told so, and the others, as they run live."""
        held: list[pa.Table] = []
        while sum(table.num_rows for table in held) <= ROWS and (following := next(events, None)) is not None:
            held.append(following)
        left = dict(self.wanted)
        if sum(table.num_rows for table in held) <= ROWS:
            for name, asked in self.bounded.items():
                feed = next(feed for feed in self.feeds if feed.name.lower() == asked.stream.lower())
                table = pa.concat_tables([feed.with_place(chunk) for chunk in held])
                with contextlib.suppress(QueryError, ExhaustedError):
                    yield piece, name, asked.results(feed.schema, table, self.now)
                    del left[name]
        if left:
            live = dataclasses.replace(self, wanted=left, bounded={}, queries=needed(self.queries, left))
            yield from live._live(piece, itertools.chain(held, events))

    def frame(self, name: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """The rows of one query, as `mapInArrow` wants them."""

        def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _, _, table in self.results(batches):
                yield from self.shown(name, table).combine_chunks().to_batches()

        return rows

    def letters(self, writers: Mapping[str, int]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """What is written, of queries of letters with the numbers of their writers, as `mapInArrow` wants it."""

        def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _, name, table in self.results(batches):
                values = [table.column(c).to_pylist() for c in table.column_names if c.startswith(VALUE)]
                told = [dumped(row) for row in zip(*values, strict=True)] or ["[]"] * table.num_rows
                writer = pa.array([writers[name]] * table.num_rows, pa.int64())
                row, place = pa.array(told, pa.string()), table.column(LETTER_PLACE)
                columns: list[Any] = [table.column("ts"), table.column(SEQ), writer, place, row]
                whole = pa.Table.from_arrays(columns, schema=pa.schema(LETTER))
                yield from whole.combine_chunks().to_batches()

        return rows

    def shown(self, name: str, table: pa.Table) -> pa.Table:
        """The columns wanted of a query, in their types."""
        wanted = self.wanted[name]
        return table.select(wanted.names).cast(wanted)


def needed(queries: Iterable[tuple[str, Node]], wanted: Iterable[str]) -> tuple[tuple[str, Node], ...]:
    """The queries wanted and those they read, in their order."""
    kept: list[tuple[str, Node]] = []
    names = {name.lower() for name in wanted}
    for name, node in reversed(list(queries)):
        if name.lower() in names:
            names |= {below.name.lower() for below in walk(node) if isinstance(below, Stream)}
            kept.append((name, node))
    return tuple(reversed(kept))


class Run:
    """One piece under way, in a bridge of its own, which ends with the block."""

    def __init__(self, task: Task, piece: int) -> None:
        import duckdb

        from windows.databases.duckdb import DuckDB

        self.task, self.piece = task, piece
        self._connection = duckdb.connect(config={"threads": 1})
        self.cep = Bridge(DuckDB(self._connection))
        self.session = session_of(self.cep)
        self.session.number_results()
        for name, relation in task.relations.items():
            copy_table(self.cep.database, name, relation)
        for name, url in task.stores.items():
            self.cep.register_datastore(name, url)
        for feed in task.feeds:
            self.cep.register_stream(feed.name, feed.schema)
        with self.session.expecting(node for _, node in task.queries):
            for name, node in task.queries:
                self.cep.create_query(name, node)
        for name in task.wanted:
            self.cep.add_output_processor(name, _nothing, batch=True)
        self._turn = 0
        self._first = 0
        self._places = np.array([], np.int64)
        self._looked_back = 0
        """So many events were of slices before."""

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.cep.close()
        self._connection.close()

    def push(self, events: pa.Table) -> Iterator[tuple[int, str, pa.Table]]:
        """The results of the next events, which stand in their order."""
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
        """What time alone still brings in this piece, and in the end what waits for more."""
        bounds = self.task.bounds
        last_of_all = bounds is None or self.piece == len(bounds) - 2
        until = self.task.now if last_of_all or bounds is None else min(self.task.now, bounds[self.piece + 1] - 1)
        if until > self.session.now:
            yield from self._take([], 0, until)
        if last_of_all and not self.task.open_end:
            yield from self._take([], 0, max(until, self.session.now), final=True)

    def _ranks(self, events: pa.Table, feed: Feed) -> Any:
        if len(self.task.feeds) == 1:
            return np.arange(events.num_rows)
        return np.flatnonzero(events.column(PLACE).to_numpy() >> STREAM_BITS == feed.number)

    def _take(self, batches: Sequence[Any], count: int, ts: int, final: bool = False) -> Iterator[Any]:
        results = self.session.push(list(batches), count, ts, final)
        self._refuse_silence()
        for entry, rows in results:
            table = self._own(self._ordered(entry, rows, final))
            if table.num_rows:
                yield self.piece, entry.name, table

    def _refuse_silence(self) -> None:
        """A data store that does not answer, or refuses, ends the piece: nothing waits for it here."""
        for letter in self.cep.dead_letters() if self.task.stores else ():
            raise SourceError(f"the data store {letter.store!r}: {letter.reason}")
        steps = (step for operator in self.session.operators() for step in operator.steps)
        reads = [step for step in steps if isinstance(step, Read) and step.waiting] if self.task.stores else []
        for read in reads:
            if self.cep.database.fetch(f"SELECT 1 FROM {read.waiting} LIMIT 1"):
                raise SourceError(f"the data store {read.node.store!r} does not answer")

    def _own(self, table: pa.Table) -> pa.Table:
        """The rows of this slice: those before it were of events that it only looks back at."""
        if self.task.bounds is None:
            return table
        if self.task.before and SEQ in table.column_names:
            table = self._numbered(table)
        first, after = self.task.bounds[self.piece], self.task.bounds[self.piece + 1]
        at = table.column(0).to_numpy()
        return table.filter(pa.array((at >= first) & (at < after)))

    def _numbered(self, table: pa.Table) -> pa.Table:
        """Letters with the numbers that their events have in the whole history; what time alone brings has 0."""
        numbers = table.column(SEQ).to_numpy()
        whole = np.where(numbers > 0, numbers + (self.task.before[self.piece] - self._looked_back), 0)
        return table.set_column(table.column_names.index(SEQ), SEQ, pa.array(whole))

    def _ordered(self, entry: QueryEntry, rows: Any, final: bool) -> pa.Table:
        """The rows with ORDER's columns before their own."""
        whole = arrow_table([Field("seq", "BIGINT"), *entry.fields], rows)
        at, seq, own = whole.column(0), whole.column(1).to_numpy(), whole.columns[2:]
        place = np.full(len(seq), AT_THE_END if final else BY_TIME)
        if not final and len(self._places):
            placed = seq >= self._first
            place[placed] = self._places[seq[placed] - self._first]
        shown = dict(zip(entry.names, own, strict=True))
        alone = {c: shown.pop(c) for c in MOMENT if c in shown}
        first = [shown.pop(c) for c in FIRST if c in shown] or [pa.array(np.full(len(seq), BY_TIME))] * 2
        if alone:
            first = [pc.coalesce(own, alone[c]) for own, c in zip(first, MOMENT, strict=True)]
        turn = np.arange(self._turn, self._turn + len(seq))
        self._turn += len(seq)
        columns = [at, pa.array(place), *first, pa.array(turn), at, *shown.values()]
        return pa.Table.from_arrays(columns, names=[*ORDER, "ts", *shown])


def pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[pa.Table]]]:
    """The events piece by piece, each in tables of some CHUNK rows."""
    waiting = _Tables(batches)
    while (piece := waiting.next_piece()) is not None:
        yield piece, waiting.tables(piece)


class _Tables:
    """Record batches regrouped: those of one piece together, in tables of some CHUNK rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._head: pa.RecordBatch | None = None

    def next_piece(self) -> int | None:
        """The piece of the next row."""
        while self._head is None or not self._head.num_rows:
            self._head = next(self._batches, None)
            if self._head is None:
                return None
        return int(self._head.column(0)[0].as_py())

    def tables(self, piece: int) -> Iterator[pa.Table]:
        held: list[pa.RecordBatch] = []
        while self.next_piece() == piece:
            assert self._head is not None
            count = int(np.searchsorted(self._head.column(0).to_numpy(), piece, side="right"))
            held.append(self._head.slice(0, count))
            self._head = self._head.slice(count)
            if sum(batch.num_rows for batch in held) >= CHUNK:
                yield pa.Table.from_batches(held)
                held = []
        if held:
            yield pa.Table.from_batches(held)


def _nothing(rows: pa.Table) -> None:
    """Results are taken before they are delivered."""


@dataclasses.dataclass(frozen=True)
class Writer:
    """Writes what a task gives into files of Parquet, one a query and piece, and tells which."""

    task: Task
    directory: str

    COLUMNS = "piece int, query string, path string, rows long, seconds double"

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The files written, as `mapInArrow` wants them.

        The directory is there, or else the run that this belongs to has died and been cleared away: an OSError.
        """
        import uuid

        import pyarrow.parquet as pq
        from pyarrow import fs

        system, base = fs.FileSystem.from_uri(self.directory)
        began = time.monotonic()
        files: dict[tuple[int, str], tuple[str, pq.ParquetWriter, list[int]]] = {}
        attempt = uuid.uuid4().hex[:12]
        try:
            for piece, name, table in self.task.results(batches):
                if (piece, name) not in files:
                    folder = f"{base}/{folder_of(name)}"
                    system.create_dir(folder, recursive=False)
                    path = f"{folder}/part-{piece:05d}-{attempt}.parquet"
                    made = pq.ParquetWriter(path, self.task.wanted[name], filesystem=system)
                    files[piece, name] = path, made, [0]
                _, writer, rows = files[piece, name]
                writer.write_table(self.task.shown(name, table))
                rows[0] += table.num_rows
        finally:
            for _, writer, _ in files.values():
                writer.close()
        seconds = time.monotonic() - began
        told = [(piece, name, path, rows[0], seconds) for (piece, name), (path, _, rows) in files.items()]
        columns = list(zip(*told, strict=True)) or [()] * 5
        kinds = [pa.int32(), pa.string(), pa.string(), pa.int64(), pa.float64()]
        arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["piece", "query", "path", "rows", "seconds"])


def folder_of(name: str) -> str:
    """The folder of a query's files."""
    return file_name(name, "parquet")
