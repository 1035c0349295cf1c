"""Continuous queries on Structured Streaming: the state is in Spark, so are checkpoints and sinks that write exactly once.

State is what results look back at: the newest events, as Arrow. Each time that the watermark moves on, the events it has
passed go through the bridge behind those, and only the results of the new time come out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bridge.errors import QueryError
from bridge.intake import EARLIEST
from bridge.replay import Script
from bridge.spark.order import PIECE, TIME
from bridge.spark.pieces import Replay
from bridge.spark.schemas import spark_schema
from bridge.spark.task import Task
from bridge.spark.writes import refuse
from windows.window import duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PACKED = "piece int, at timestamp, rows binary"
STATE = "done long, rows binary"


def stream(
    source: Mapping[str, Any], queries: Any, *, lateness: Any = 0, pieces: int | None = None, **options: Any
) -> dict[str, DataFrame]:
    """Unbounded frames of the queries' results over unbounded frames of events, by query, for `writeStream`.

    An event may come up to `lateness` behind the newest one before; what comes later still is left out. Results come in
    the order of time, when the watermark has passed them. The options are those of a replay on Spark. Queries must look
    back a bounded while (QueryError). `pieces` are the keys' parts of the state; without a key there is one.
    """
    script = Script.of(queries)
    refuse(script, "which is done where the bridge is: a stream of Spark is not supported")
    replay = Replay(source, script, open_end=True, **options)
    return {name: _streamed(replay, name, lateness, pieces) for name in replay.script.queries}


def _streamed(replay: Replay, name: str, lateness: Any, pieces: int | None) -> DataFrame:
    from pyspark.sql.streaming.state import GroupStateTimeout

    way = replay.fanouts[name]
    if way.back is None:
        raise QueryError(
            f"{name!r} looks back without bound, so its state in Spark would never end: give its windows a RANGE, "
            "or use a bridge, whose state is in a database"
        )
    keys = replay.usable(way.keys)
    task, events = replay.unbounded(name, keys, (pieces or replay.cores) if keys else 1)
    late = 0 if lateness == 0 else duration(lateness)
    packed = events.mapInArrow(_pack, PACKED).withWatermark("at", f"{late} milliseconds")
    run = _Piece(task, name, way.back).run
    results = packed.groupBy("piece").applyInPandasWithState(
        run, "rows binary", STATE, "append", GroupStateTimeout.EventTimeTimeout
    )
    return results.mapInArrow(_unpacked(task.wanted[name]), spark_schema(task.wanted[name]))


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row a piece: its events as Arrow, which loses nothing, with their newest time."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        pieces = table.column(PIECE).to_numpy()
        for piece in np.unique(pieces).tolist():
            rows = table.filter(pa.array(pieces == piece))
            newest = int(rows.column(TIME).to_numpy().max())
            moment = pa.array([newest * 1000], pa.timestamp("us", "UTC"))
            arrays: list[Any] = [pa.array([piece], pa.int32()), moment, pa.array([_written(rows)])]
            yield pa.RecordBatch.from_arrays(arrays, names=["piece", "at", "rows"])


def _unpacked(schema: pa.Schema) -> Any:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.to_pylist():
                yield from _read(packed["rows"]).cast(schema).combine_chunks().to_batches()

    return rows


@dataclasses.dataclass(frozen=True)
class _Piece:
    """What is done with one piece of a query at each step of the stream."""

    task: Task
    name: str
    back: int

    def run(self, key: Any, batches: Iterator[Any], state: Any) -> Iterator[Any]:
        """Takes the new events, and gives the results up to the watermark."""
        import pandas

        done, held = state.get if state.exists else (EARLIEST, None)
        fresh = [] if state.hasTimedOut else [_read(rows) for batch in batches for rows in batch["rows"]]
        watermark = state.getCurrentWatermarkMs() or EARLIEST  # 0 where there is none yet
        events = _in_order(None if held is None else _read(held), fresh, done)
        found: list[bytes] = []
        if watermark > done and events is not None:
            found = [_written(rows) for rows in self._results(events, done, watermark)]
        reached = max(watermark, done)
        kept = None if events is None else _later(events, reached - self.back - 2)
        state.update((reached, None if kept is None else _written(kept)))
        state.setTimeoutTimestamp(max(watermark, 0) + 1)
        yield pandas.DataFrame({"rows": found})

    def _results(self, events: pa.Table, done: int, watermark: int) -> Iterator[pa.Table]:
        ready = events.filter(pa.array(events.column(TIME).to_numpy() <= watermark))
        ready = ready.set_column(0, PIECE, pa.array(np.zeros(ready.num_rows, np.int32)))
        task = dataclasses.replace(self.task, bounds=(done + 1, watermark + 1), now=watermark)
        for _, _, table in task.results(iter(ready.combine_chunks().to_batches())):
            yield task.shown(self.name, table)


def _in_order(held: pa.Table | None, fresh: list[pa.Table], done: int) -> pa.Table | None:
    """What was held and what is new and not too late, in the order of time; equal times as they came."""
    tables = [*([] if held is None else [held]), *(_later(table, done) for table in fresh)]
    if not tables:
        return None
    whole = pa.concat_tables(tables)
    return whole.take(np.argsort(whole.column(TIME).to_numpy(), kind="stable"))


def _later(events: pa.Table, than: int) -> pa.Table:
    return events.filter(pa.array(events.column(TIME).to_numpy() > than))


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _read(rows: bytes) -> pa.Table:
    table: pa.Table = pa.ipc.open_stream(rows).read_all()
    return table
