"""Continuous queries on Structured Streaming, which provides state, checkpoints, and sinks that write exactly once.

Events wait until the watermark has reached their time, as in a bridge with `lateness`. Then they are pushed, in order,
into the bridge of their piece. The bridge's state afterwards is stored in Spark's state, with the events that
still wait, so that any process can compute the next step.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bridge.engine.session import BridgeSession
from bridge.errors import BridgeError
from bridge.history.pieces import key_description
from bridge.history.script import ReplayScript
from bridge.sources.arrow import EARLIEST
from bridge.sources.options import HistoryOptions
from bridge.spark.columns import FILE_BITS, PIECE, PLACE, STREAM_BITS, TIME, spark_schema
from bridge.spark.piecewise import Replay
from bridge.spark.task import CHUNK, PieceRun, PieceTask
from bridge.spark.writes import refuse, refuse_tables
from windows.times import duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PACKED = "piece int, at timestamp, rows binary"
"""The columns of packed events: their piece, their newest timestamp, and the events in Arrow's format."""

STATE = "cut string, reached long, waiting binary, known binary"
"""The state of a piece: how the stream is cut, the timestamp that the bridge has reached, the waiting events, and the
state of the bridge.
"""


def stream(
    source: Mapping[str, Any],
    queries: Any,
    *,
    language: str = "sql",
    lateness: Any = 0,
    pieces: int | None = None,
    timestamp: str | Mapping[str, str] | None = None,
    timestamp_unit: str | Mapping[str, str] | None = None,
    **options: Any,
) -> dict[str, DataFrame]:
    """`bridge.stream`; see there for the arguments.

    `pieces`: the number of parts of the state; 1 for a query without a key.
    """
    script = ReplayScript.of(queries, language=language)
    refuse(script, "which a stream on Spark does not support")
    refuse_tables(script)
    replay = Replay(source, script, open_end=True, reading=HistoryOptions(timestamp, timestamp_unit), **options)
    return {name: _stream_of(replay, name, lateness, pieces) for name in replay.job.script.queries}


def _stream_of(replay: Replay, name: str, lateness: Any, pieces: int | None) -> DataFrame:
    from pyspark.sql.streaming.state import GroupStateTimeout

    keys = replay.plan.comparable_keys(replay.job.partitionings[name].unordered_keys)
    count = (pieces or replay.job.cores) if keys else 1
    task, events = replay.unbounded(name, keys, count)
    late = 0 if lateness == 0 else duration(lateness)
    # Spark also drops events at the watermark; a bridge drops only earlier ones
    packed = events.mapInArrow(_packed_events, PACKED).withWatermark("at", f"{late + 1} milliseconds")
    results = packed.groupBy("piece").applyInPandasWithState(
        StreamPiece(task, name, f"pieces={count}, {key_description(keys)}").run,
        "rows binary",
        STATE,
        "append",
        GroupStateTimeout.EventTimeTimeout,
    )
    return results.mapInArrow(_unpacked(task.schemas[name]), spark_schema(task.schemas[name]))


def _packed_events(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row per piece: its events in Arrow's format, which preserves all values, and their newest timestamp."""
    from pyspark import TaskContext

    context, done = TaskContext.get(), 0
    part = 0 if context is None else context.partitionId()
    for batch in batches:
        table = with_place(pa.Table.from_batches([batch]), part, done)
        done += batch.num_rows
        pieces = table.column(PIECE).to_numpy()
        for piece in np.unique(pieces).tolist():
            rows = table.filter(pa.array(pieces == piece))
            newest = max(1, int(rows.column(TIME).to_numpy().max()))  # Spark's watermark begins in 1970
            at = pa.array([newest * 1000], pa.timestamp("us", "UTC"))
            arrays: list[Any] = [pa.array([piece], pa.int32()), at, pa.array([to_bytes(rows)])]
            yield pa.RecordBatch.from_arrays(arrays, names=["piece", "at", "rows"])


def with_place(events: pa.Table, part: int, first: int) -> pa.Table:
    """Events with their PLACE in this step: the stream, Spark's partition, and the row in it."""
    streams = events.column(PLACE).to_numpy() >> STREAM_BITS << STREAM_BITS
    rows = np.arange(first, first + events.num_rows)
    at = events.column_names.index(PLACE)
    return events.set_column(at, PLACE, pa.array(streams + (part << FILE_BITS) + rows))


def _unpacked(schema: pa.Schema) -> Any:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.to_pylist():
                yield from from_bytes(packed["rows"]).cast(schema).combine_chunks().to_batches()

    return rows


@dataclasses.dataclass(frozen=True)
class StreamPiece:
    """The computation of one query over one piece, at each step of the stream.

    `cut`: a description of how it is cut.
    """

    task: PieceTask
    name: str
    cut: str

    def run(self, key: Any, batches: Iterator[Any], state: Any) -> Iterator[Any]:
        """Takes the new events of a step, and returns the results up to the watermark."""
        import pandas

        cut, reached, waiting, known = state.get if state.exists else (self.cut, EARLIEST, None, None)
        if cut != self.cut:
            raise BridgeError(f"the checkpoint of {self.name!r} was made with {cut}, not with {self.cut}")
        fresh = [] if state.hasTimedOut else [from_bytes(rows) for batch in batches for rows in batch["rows"]]
        watermark = state.getCurrentWatermarkMs()
        reached = max(reached, watermark + 1 if watermark else EARLIEST)  # 0: there is no watermark yet
        events = in_order(None if waiting is None else from_bytes(waiting), fresh, reached)
        ready, later = split_at(events, reached)
        packed: list[bytes] = []
        if ready is not None and (ready.num_rows or known is not None):
            results, known = self.step(ready, known, reached)
            packed = [to_bytes(table) for table in results]
        state.update((cut, reached, None if later is None else to_bytes(later), known))
        state.setTimeoutTimestamp(max(watermark, 0) + 1)
        yield pandas.DataFrame({"rows": packed})

    def step(self, ready: pa.Table, known: bytes | None, now: int) -> tuple[list[pa.Table], bytes]:
        """The results of these events and of the time up to `now`, and the state of the bridge afterwards."""
        with PieceRun(dataclasses.replace(self.task, now=now), 0) as run:
            if known is not None:
                restore(run.session, known)
            results = [table for at in range(0, ready.num_rows, CHUNK) for table in run.push(ready.slice(at, CHUNK))]
            results += run.end()
            return [self.task.cast(self.name, table) for _, _, table in results], dump(run.session)


def in_order(waiting: pa.Table | None, fresh: Iterable[pa.Table], reached: int) -> pa.Table | None:
    """Waiting events and new events that are not late, ordered by timestamp, then by stream, then by arrival."""
    tables = [*([] if waiting is None else [waiting]), *_not_late(fresh, reached)]
    if not tables:
        return None
    whole = pa.concat_tables(tables)
    streams = whole.column(PLACE).to_numpy() >> STREAM_BITS
    return whole.take(np.lexsort((streams, whole.column(TIME).to_numpy())))


def _not_late(fresh: Iterable[pa.Table], reached: int) -> Iterator[pa.Table]:
    """The new events that are not late, in the order of their PLACE, which does not depend on how Spark sends them."""
    tables = list(fresh)
    if tables:
        whole = pa.concat_tables(tables)
        in_time = whole.filter(pa.array(whole.column(TIME).to_numpy() >= reached))
        yield in_time.take(np.argsort(in_time.column(PLACE).to_numpy(), kind="stable"))


def split_at(events: pa.Table | None, reached: int) -> tuple[pa.Table | None, pa.Table | None]:
    """The events up to the timestamp `reached`, and the later events."""
    if events is None:
        return None, None
    ready = events.column(TIME).to_numpy() <= reached
    return events.filter(pa.array(ready)), events.filter(pa.array(~ready))


NUMBERS = b"cep:numbers"
"""The key of a state's metadata: the timestamp and the number of the newest event."""


def dump(session: BridgeSession) -> bytes:
    """The state of a bridge between two pushes, without expired rows: its tables, from which steps restore their memory."""
    session.purge()
    tables = {name: rows for name in session.state_tables() if (rows := _rows(session, name)).num_rows}
    numbers = json.dumps({"now": session.now, "seq": session.seq})
    columns: list[Any] = [pa.array(tables, pa.string()), pa.array(map(to_bytes, tables.values()), pa.binary())]
    return to_bytes(pa.table(columns, ["name", "rows"]).replace_schema_metadata({NUMBERS: numbers}))


def restore(session: BridgeSession, state: bytes) -> None:
    """Restores a state in a new bridge with the same queries. Raises BridgeError for other queries."""
    whole = from_bytes(state)
    tables = {row["name"]: from_bytes(row["rows"]) for row in whole.to_pylist()}
    if unknown := tables.keys() - session.state_tables():
        raise BridgeError(f"the state belongs to other queries: this bridge has no table {min(unknown)!r}")
    numbers = json.loads(whole.schema.metadata[NUMBERS])
    with session.replacing_state(numbers["now"], numbers["seq"]):
        for name in session.state_tables():
            session.database.execute(f"DELETE FROM {session.database.quoted(name)}")
        for name, rows in tables.items():
            session.database.append(session.database.quoted(name), rows)


def to_bytes(table: pa.Table) -> bytes:
    """A table in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(rows: bytes) -> pa.Table:
    """The table that `to_bytes` wrote."""
    table: pa.Table = pa.ipc.open_stream(rows).read_all()
    return table


def _rows(session: BridgeSession, name: str) -> pa.Table:
    """The rows of a table. Sums are texts, because Arrow has no integers of 128 bits."""
    quoted = session.database.quoted
    kinds = session.database.fetch(f"DESCRIBE {quoted(name)}")
    columns = (f"{quoted(c)}::VARCHAR AS {quoted(c)}" if kind == "HUGEINT" else quoted(c) for c, kind, *_ in kinds)
    rows = session.database.fetch_arrow(f"SELECT {', '.join(columns)} FROM {quoted(name)}")
    assert rows is not None  # it is a DuckDB
    return rows
