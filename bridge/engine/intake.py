"""Intake of events: they are checked, put in order of time, numbered, and divided into chunks, one per transaction."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bridge.engine.catalogue import QueryEntry, StreamEntry
from bridge.engine.conform import _conformed
from bridge.errors import OrderError, SchemaError
from bridge.sources.arrow import as_arrow, milliseconds
from windows.arrow import values_of
from windows.databases import Database
from windows.schema import TypeMismatch

if TYPE_CHECKING:
    import pyarrow as pa


Chunk = Callable[[int], "tuple[list[EventBatch], int, int, int]"]
"""A function from the newest event's number to batches, the number of events, and the first and last ts."""


JOINED = 20_000
"""The greatest number of events in a chunk where an event may have many results, as in a join."""


class ChunkSizes(NamedTuple):
    """The greatest number of events in a chunk: of Python rows, and of Arrow tables."""

    rows: int
    arrow: int


def chunk_sizes(database: Database, queries: Collection[QueryEntry]) -> ChunkSizes:
    """The sizes of chunks for these queries: the fewer queries and rows an event concerns, the larger.

    Where queries report as time passes, the time of a push may grow faster than its number of events: chunks are small.
    """
    many = 0 if any(entry.timed for entry in queries) else database.arrow_chunk_size
    if all(entry.is_linear(joins_by_range=False) for entry in queries):
        many = max(many, database.frames_chunk_size)
    elif database.index_range_joins and all(entry.is_linear(joins_by_range=True) for entry in queries):
        many = max(many, min(database.frames_chunk_size, JOINED))
    many //= max(1, len(queries))
    return ChunkSizes(database.chunk_size, max(database.chunk_size, many))


@dataclasses.dataclass
class EventBatch:
    """Numbered rows (ts, seq, attributes…) of one stream: tuples, or an Arrow table."""

    stream: StreamEntry
    rows: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)
    table: pa.Table | None = None
    positions: Sequence[int] = ()
    """The position of each row, for rows of a watched table."""

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.rows if self.table is None else self.table)

    @property
    def first(self) -> int:
        """The time of the first row, which is the oldest."""
        ts: int = self.rows[0][0] if self.table is None else self.table.column(0)[0].as_py()
        return ts

    def tuples(self) -> list[tuple[Any, ...]]:
        """The rows as tuples."""
        if self.table is None:
            return self.rows
        return list(zip(*map(values_of, self.table.columns), strict=True))

    def named(self) -> pa.Table | None:
        """The Arrow table with the inbox's column names; None for a batch of tuples."""
        if self.table is None:
            return None
        return self.table.rename_columns(["ts", "seq", *self.stream.schema.names])

    def insert(self, database: Database, inbox: str) -> None:
        if self.table is not None:
            database.append(inbox, self.table)
        elif self.rows:
            database.insert(inbox, len(self.rows[0]), self.rows)


def count_events(batches: Iterable[EventBatch]) -> None:
    """Adds the numbers of events in a push to the counts of their streams."""
    for batch in batches:
        batch.stream.events += batch.count


def chunks(
    stream: StreamEntry, events: Any, timestamp: str, sizes: ChunkSizes, ordered: bool = True
) -> Iterator[Chunk]:
    """The chunks of the argument of `push_events`; if they need not be `ordered`, row by row."""
    tables = as_arrow(events)
    if tables is not None and ordered:
        return _arrow_chunks(stream, tables, timestamp, sizes.arrow)
    pairs = events if tables is None else _pairs_of(stream, tables, timestamp)
    return batches_of(_named(stream.name, pairs), lambda _: stream, sizes.rows, ordered)


def without_first(chunks: Iterator[Chunk], count: int) -> Iterator[Chunk]:
    """The chunks without their first `count` events."""
    for chunk in chunks:
        if count == 0:
            yield chunk
            continue
        batches, size, _, last = chunk(0)
        if size <= count:
            count -= size
            continue
        yield _ChunkTail(batches, size, count, last).numbered
        count = 0


def flag_last(chunks: Iterator[Chunk], is_last: list[bool]) -> Iterator[Chunk]:
    """The chunks. `is_last[0]` tells whether each is the last. An error in reading the next one is raised after it."""
    following = next(chunks, None)
    while (current := following) is not None:
        problem: Exception | None = None
        try:
            following = next(chunks, None)
        except Exception as error:
            problem = error
        is_last[0] = following is None and problem is None
        yield current
        if problem is not None:
            raise problem


@dataclasses.dataclass
class _ChunkTail:
    """A chunk, numbered from 1, without its first `skipped` events."""

    batches: list[EventBatch]
    size: int
    skipped: int
    last: int

    def numbered(self, seq: int) -> tuple[list[EventBatch], int, int, int]:
        shift = seq - self.skipped
        found: list[EventBatch] = []
        for batch in self.batches:
            if batch.table is None:
                rows = [(ts, number + shift, *values) for ts, number, *values in batch.rows if number > self.skipped]
                found += [EventBatch(batch.stream, rows=rows)] if rows else []
            else:
                import pyarrow as pa

                numbers = batch.table.column(1).to_numpy()
                table = batch.table.filter(pa.array(numbers > self.skipped))
                table = table.set_column(1, "seq", pa.array(numbers[numbers > self.skipped] + shift))
                found += [EventBatch(batch.stream, table=table)] if table.num_rows else []
        return found, self.size - self.skipped, min(batch.first for batch in found), self.last


def _named(name: str, events: Any) -> Iterator[tuple[str, Any, Any]]:
    if not isinstance(events, Iterable):
        raise SchemaError(f"push_events takes a table, a frame or (payload, timestamp) pairs, not {events!r}")
    for event in events:
        yield name, *_pair(event)


def _pairs_of(stream: StreamEntry, tables: Iterable[pa.Table], timestamp: str) -> Iterator[tuple[Sequence[Any], int]]:
    """The rows of tables whose times may go back, with the values that ordered tables would give."""
    before = 0
    for whole in tables:
        checked = _conformed(stream, whole, timestamp, before, ordered=False)
        before += whole.num_rows
        for ts, *values in zip(*map(values_of, checked.columns), strict=True):
            yield values, ts


def batches_of(
    events: Iterable[tuple[str, Any, Any]], entry: Callable[[str], StreamEntry], size: int, ordered: bool = True
) -> Iterator[Chunk]:
    """Chunks of (stream, payload, timestamp) triples."""
    try:
        iterator = map(_triple, iter(events))
    except TypeError:
        raise SchemaError(f"events are a table, a frame or an iterable, not {events!r}") from None
    before = 0
    while part := list(itertools.islice(iterator, size)):
        yield _EventList(part, entry, ordered, before).numbered
        before += len(part)


@dataclasses.dataclass
class _EventList:
    events: list[tuple[str, Any, Any]]
    entry: Callable[[str], StreamEntry]
    ordered: bool
    before: int
    """The number of events of the push before this chunk."""

    def numbered(self, seq: int) -> tuple[list[EventBatch], int, int, int]:
        batches: dict[str, EventBatch] = {}
        first = last = milliseconds(self.events[0][2])
        for place, (name, payload, timestamp) in enumerate(self.events, 1):
            stream = self.entry(name)
            try:
                ts, values = milliseconds(timestamp), stream.row(payload)
            except (TypeMismatch, SchemaError) as error:
                raise SchemaError(f"event {self.before + place} of the push: {error}") from None
            if ts < last and self.ordered:
                raise OrderError(
                    f"event {self.before + place} of the push: time does not go back: {ts} is before {last}"
                )
            last = ts
            batches.setdefault(stream.name, EventBatch(stream)).rows.append((ts, seq + place, *values))
        return list(batches.values()), len(self.events), first, last


def _triple(event: Any) -> tuple[str, Any, Any]:
    if not isinstance(event, Sequence) or len(event) != 3:
        raise SchemaError(f"an event is a triple (stream, payload, timestamp), not {event!r}")
    return event  # type: ignore[return-value]


def _pair(event: Any) -> tuple[Any, Any]:
    try:
        payload, timestamp = event
    except (TypeError, ValueError):
        raise SchemaError(f"an event is a pair (payload, timestamp), not {event!r}") from None
    return payload, timestamp


# Arrow -----------------------------------------------------------------------------------------------------------------


def _arrow_chunks(stream: StreamEntry, tables: Iterable[pa.Table], timestamp: str, size: int) -> Iterator[Chunk]:
    before = 0
    for whole in tables:
        checked = _conformed(stream, whole, timestamp, before)
        before += whole.num_rows
        yield from _sliced(stream, checked, size)


def _sliced(stream: StreamEntry, table: pa.Table, size: int) -> Iterator[Chunk]:
    step = even_size(table.num_rows, size)
    for start in range(0, table.num_rows, step):
        yield _StreamTable(stream, table.slice(start, step)).numbered


def even_size(count: int, size: int) -> int:
    """The size of the parts of `count` rows: as few parts as possible, of about equal size, at most `size`.

    >>> even_size(500_004, 500_000), even_size(7, 10)
    (250002, 7)
    """
    return -(-count // -(-count // size)) if count else size


def batch_of(stream: StreamEntry, table: pa.Table) -> EventBatch:
    """The batch of a table of `ts`, `seq` and the attributes; as tuples if the driver takes other values than Arrow."""
    if not any(stream.encoders):
        return EventBatch(stream, table=table)
    columns = list(map(values_of, table.columns))
    for place, encode in enumerate(stream.encoders, 2):
        if encode is not None:
            columns[place] = [value if value is None else encode(value) for value in columns[place]]
    return EventBatch(stream, rows=list(zip(*columns, strict=True)))


@dataclasses.dataclass
class _StreamTable:
    """Rows of one stream. `ranks`: their places, from 0, in a chunk of several streams."""

    stream: StreamEntry
    table: pa.Table
    ranks: Any = None

    def numbered(self, seq: int) -> tuple[list[EventBatch], int, int, int]:
        import numpy as np
        import pyarrow as pa

        count = self.table.num_rows
        times = self.table.column(0)
        first, last = times[0].as_py(), times[count - 1].as_py()
        first_number = seq + 1
        numbers = np.arange(first_number, first_number + count) if self.ranks is None else self.ranks + first_number
        table = self.table.add_column(1, "seq", pa.array(numbers))
        return [batch_of(self.stream, table)], count, first, last

    def within(self, start: int, stop: int) -> _StreamTable | None:
        """The rows with ranks from `start` up to but without `stop`, ranked from 0; None if there are none."""
        first, last = self.ranks.searchsorted([start, stop])
        if first == last:
            return None
        return _StreamTable(self.stream, self.table.slice(first, last - first), self.ranks[first:last] - start)


def merged_chunks(streams: list[tuple[StreamEntry, Any]], timestamp: str, size: int) -> Iterator[Chunk]:
    """The chunks of tables or frames of several streams, merged by time; equal times are in the order of the list."""
    import numpy as np
    import pyarrow as pa

    tables = []
    for stream, events in streams:
        parts = as_arrow(events)
        if parts is None:
            raise SchemaError(
                f"the events of {stream.name!r} are an Arrow table or a frame, not {type(events).__name__}"
            )
        tables.append((stream, _conformed(stream, pa.concat_tables(list(parts)), timestamp)))
    if len(tables) == 1:
        yield from _sliced(*tables[0], size)
        return
    times = np.concatenate([np.array([], "int64"), *(table.column(0).to_numpy() for _, table in tables)])
    ranks = np.empty(len(times), "int64")
    ranks[np.argsort(times, kind="stable")] = np.arange(len(times))
    firsts = np.cumsum([0, *(table.num_rows for _, table in tables)])
    whole = [_StreamTable(*part, ranks[a:b]) for part, a, b in zip(tables, firsts[:-1], firsts[1:], strict=True)]
    step = even_size(len(times), size)
    for start in range(0, len(times), step):
        yield _MergedTables(
            [part for part in (columns.within(start, start + step) for columns in whole) if part]
        ).numbered


def interleaved(parts: list[tuple[StreamEntry, pa.Table, Any]]) -> Chunk:
    """One chunk of several streams: per stream a table (`ts`, then the attributes) and the places of its rows, from 0."""
    return _MergedTables([_StreamTable(*part) for part in parts]).numbered


@dataclasses.dataclass
class _MergedTables:
    """The rows of several streams in one chunk."""

    parts: list[_StreamTable]

    def numbered(self, seq: int) -> tuple[list[EventBatch], int, int, int]:
        done = [part.numbered(seq) for part in self.parts]
        batches = [batch for found, *_ in done for batch in found]
        counts, firsts, lasts = zip(*(rest for _, *rest in done), strict=True)
        return batches, sum(counts), min(firsts), max(lasts)
