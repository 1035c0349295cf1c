"""Continuous queries on Structured Streaming: the state is in Spark, so are checkpoints and sinks that write exactly once.

Events wait until the watermark has reached their time, as in a bridge with `lateness`; then they go, in order, through the
bridge of their piece. What it knows afterwards (`state`) is in Spark's state, with the events that still wait: the next
step goes on from there, in whatever process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bridge.errors import BridgeError
from bridge.history.pieces import key_description
from bridge.history.script import Script
from bridge.sources.arrow import EARLIEST
from bridge.spark.columns import FILE_BITS, PIECE, PLACE, STREAM_BITS, TIME, spark_schema
from bridge.spark.pieces import Replay
from bridge.spark.state import read, restore, saved, written
from bridge.spark.task import CHUNK, Run, Task
from bridge.spark.writes import refuse, refuse_tables
from windows.times import duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PACKED = "piece int, at timestamp, rows binary"
STATE = "cut string, reached long, waiting binary, known binary"


def stream(
    source: Mapping[str, Any],
    queries: Any,
    *,
    language: str = "sql",
    lateness: Any = 0,
    pieces: int | None = None,
    **options: Any,
) -> dict[str, DataFrame]:
    """Unbounded frames of the queries' results over unbounded frames of events, by query, for `writeStream`.

    An event may come up to `lateness` behind the newest one before; what comes later still is left out. Results come when
    the watermark has passed them, those of one key in their order. The options are those of a replay on Spark. `pieces`
    are the keys' parts of the state, the same at each start; without a key there is one. Raises BridgeError for scripts
    with tables or data stores.
    """
    script = Script.of(queries, language=language)
    refuse(script, "which is done where the bridge is: a stream of Spark is not supported")
    refuse_tables(script)
    replay = Replay(source, script, open_end=True, **options)
    return {name: _streamed(replay, name, lateness, pieces) for name in replay.script.queries}


def _streamed(replay: Replay, name: str, lateness: Any, pieces: int | None) -> DataFrame:
    from pyspark.sql.streaming.state import GroupStateTimeout

    keys = replay.usable(replay.partitionings[name].unordered_keys)
    count = (pieces or replay.cores) if keys else 1
    task, events = replay.unbounded(name, keys, count)
    late = 0 if lateness == 0 else duration(lateness)
    # Spark leaves out what is at the watermark, a bridge what is before it
    packed = events.mapInArrow(_pack, PACKED).withWatermark("at", f"{late + 1} milliseconds")
    results = packed.groupBy("piece").applyInPandasWithState(
        Piece(task, name, f"pieces={count}, {key_description(keys)}").run,
        "rows binary",
        STATE,
        "append",
        GroupStateTimeout.EventTimeTimeout,
    )
    return results.mapInArrow(_unpacked(task.wanted[name]), spark_schema(task.wanted[name]))


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row a piece: its events as Arrow, which loses nothing, with their newest time."""
    from pyspark import TaskContext

    context, done = TaskContext.get(), 0
    part = 0 if context is None else context.partitionId()
    for batch in batches:
        table = placed(pa.Table.from_batches([batch]), part, done)
        done += batch.num_rows
        pieces = table.column(PIECE).to_numpy()
        for piece in np.unique(pieces).tolist():
            rows = table.filter(pa.array(pieces == piece))
            newest = max(1, int(rows.column(TIME).to_numpy().max()))  # Spark's watermark begins in 1970
            moment = pa.array([newest * 1000], pa.timestamp("us", "UTC"))
            arrays: list[Any] = [pa.array([piece], pa.int32()), moment, pa.array([written(rows)])]
            yield pa.RecordBatch.from_arrays(arrays, names=["piece", "at", "rows"])


def placed(events: pa.Table, part: int, first: int) -> pa.Table:
    """Events with their PLACE in this step: by the stream, the part of it that Spark reads, and the row there."""
    streams = events.column(PLACE).to_numpy() >> STREAM_BITS << STREAM_BITS
    rows = np.arange(first, first + events.num_rows)
    at = events.column_names.index(PLACE)
    return events.set_column(at, PLACE, pa.array(streams + (part << FILE_BITS) + rows))


def _unpacked(schema: pa.Schema) -> Any:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.to_pylist():
                yield from read(packed["rows"]).cast(schema).combine_chunks().to_batches()

    return rows


@dataclasses.dataclass(frozen=True)
class Piece:
    """What is done with the events of some keys, or with all, at each step of the stream. `cut`: into which pieces."""

    task: Task
    name: str
    cut: str

    def run(self, key: Any, batches: Iterator[Any], state: Any) -> Iterator[Any]:
        """Takes the new events, and gives the results up to the watermark."""
        import pandas

        cut, reached, waiting, known = state.get if state.exists else (self.cut, EARLIEST, None, None)
        if cut != self.cut:
            raise BridgeError(f"the checkpoint of {self.name!r} was made with {cut}, and this is {self.cut}")
        fresh = [] if state.hasTimedOut else [read(rows) for batch in batches for rows in batch["rows"]]
        watermark = state.getCurrentWatermarkMs()
        reached = max(reached, watermark + 1 if watermark else EARLIEST)  # 0 where there is none yet
        events = in_order(None if waiting is None else read(waiting), fresh, reached)
        ready, later = parted(events, reached)
        found: list[bytes] = []
        if ready is not None and (ready.num_rows or known is not None):
            results, known = self.step(ready, known, reached)
            found = [written(table) for table in results]
        state.update((cut, reached, None if later is None else written(later), known))
        state.setTimeoutTimestamp(max(watermark, 0) + 1)
        yield pandas.DataFrame({"rows": found})

    def step(self, ready: pa.Table, known: bytes | None, now: int) -> tuple[list[pa.Table], bytes]:
        """The results of these events and of the time until `now`, and what is known then."""
        with Run(dataclasses.replace(self.task, now=now), 0) as run:
            if known is not None:
                restore(run.session, known)
            found = [table for at in range(0, ready.num_rows, CHUNK) for table in run.push(ready.slice(at, CHUNK))]
            found += run.end()
            return [self.task.shown(self.name, table) for _, _, table in found], saved(run.session)


def in_order(waiting: pa.Table | None, fresh: Iterable[pa.Table], reached: int) -> pa.Table | None:
    """What waited and what is new and not too late, in the order of time; equal times by stream, then as they came."""
    tables = [*([] if waiting is None else [waiting]), *_not_late(fresh, reached)]
    if not tables:
        return None
    whole = pa.concat_tables(tables)
    streams = whole.column(PLACE).to_numpy() >> STREAM_BITS
    return whole.take(np.lexsort((streams, whole.column(TIME).to_numpy())))


def _not_late(fresh: Iterable[pa.Table], reached: int) -> Iterator[pa.Table]:
    """The new events in the order of their places: the same, however they were sent here."""
    tables = list(fresh)
    if tables:
        whole = pa.concat_tables(tables)
        in_time = whole.filter(pa.array(whole.column(TIME).to_numpy() >= reached))
        yield in_time.take(np.argsort(in_time.column(PLACE).to_numpy(), kind="stable"))


def parted(events: pa.Table | None, reached: int) -> tuple[pa.Table | None, pa.Table | None]:
    """The events up to a time, and those after it."""
    if events is None:
        return None, None
    ready = events.column(TIME).to_numpy() <= reached
    return events.filter(pa.array(ready)), events.filter(pa.array(~ready))
