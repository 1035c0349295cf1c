"""Events out of order (rule T2): a bounded reorder buffer, and a table for events that are later still.

Events wait until the watermark (the newest ts seen, less the lateness) has reached their ts; then they are pushed in the
order of (ts, arrival), so queries see an ordered stream. The buffer is a table, like all state.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
from collections.abc import Iterable
from typing import Any

from bridge.engine.catalogue import StreamEntry
from bridge.engine.event import LateEvent
from bridge.engine.intake import EventBatch
from bridge.engine.runner import Runner
from bridge.stores.statement import converted
from windows.schema import Schema
from windows.times import BEGINNING

LATE_EVENTS, WATERMARK = "late_events", "cep_watermark"
_COLUMNS = (
    ("stream", "VARCHAR"),
    ("payload", "VARCHAR"),
    ("ts", "BIGINT"),
    ("watermark", "BIGINT"),
    ("reason", "VARCHAR"),
)


@dataclasses.dataclass(order=True)
class Waiting:
    """An event in the buffer."""

    ts: int
    arrival: int
    stream: StreamEntry = dataclasses.field(compare=False)
    values: tuple[Any, ...] = dataclasses.field(compare=False)


class Reorder:
    """The reorder buffer of one bridge; `watermark` never moves back."""

    def __init__(self, runner: Runner, lateness: int) -> None:
        self.runner = runner
        self.lateness = lateness
        self.watermark = BEGINNING
        self._heap: list[Waiting] = []
        self._arrivals = 0
        self._tables: dict[str, str] = {}
        with runner.transaction():
            words = [f"{name} {'BIGINT' if kind == 'BIGINT' else 'TEXT'}" for name, kind in _COLUMNS]
            runner.database.execute(f"CREATE TABLE IF NOT EXISTS {LATE_EVENTS} ({', '.join(words)})")
            if runner.is_durable and runner.create_own(WATERMARK, Schema.of("watermark BIGINT")):
                runner.database.insert(WATERMARK, 1, [(BEGINNING,)])
        self._stored = self.watermark

    @property
    def count(self) -> int:
        """The number of events that wait."""
        return len(self._heap)

    def resume(self) -> None:
        """Goes on with the watermark and the waiting events of the state in the database."""
        database = self.runner.database
        self._heap.clear()
        ((watermark,),) = database.fetch(f"SELECT watermark FROM {WATERMARK}")
        self.watermark = self._stored = int(watermark)
        for stream in self.runner.catalogue.streams.values():
            if self.runner.has_buffer(stream.name):
                for ts, arrival, *stored in database.fetch(f"SELECT * FROM {self._table(stream.name)}"):
                    values = converted(stored, [database.decoder(attribute.type) for attribute in stream.schema])
                    waiting = Waiting(int(ts), int(arrival), stream, tuple(converted(values, stream.encoders)))
                    heapq.heappush(self._heap, waiting)
                    self._arrivals = max(self._arrivals, waiting.arrival)

    @property
    def arrivals(self) -> tuple[int, int]:
        """The number of events that have come into the buffer, and the watermark."""
        return self._arrivals, self.watermark

    def store_watermark(self) -> None:
        """Stores the watermark, inside the transaction of the push."""
        if self.runner.is_durable and self.watermark != self._stored:
            self.runner.database.execute(f"UPDATE {WATERMARK} SET watermark = {self.watermark}")
            self._stored = self.watermark

    def sift(self, batches: Iterable[EventBatch]) -> list[LateEvent]:
        """Puts the events of a push into the buffer; gives those that are too late, after storing them in their table."""
        late: list[LateEvent] = []
        rows = ((batch.stream, row) for batch in batches for row in batch.tuples())
        for stream, (ts, _, *values) in sorted(rows, key=lambda pair: pair[1][1]):
            if ts < self.watermark:
                late.append(self._late(stream, ts, values))
            else:
                self._wait(stream, ts, tuple(values))
                self.watermark = max(self.watermark, ts - self.lateness)
        if late:
            stored = [(e.stream, json.dumps(e.payload, default=str), e.timestamp, e.watermark, e.reason) for e in late]
            self.runner.database.insert(LATE_EVENTS, len(_COLUMNS), stored)
        return late

    def release(self, watermark: int) -> tuple[list[EventBatch], int]:
        """Removes the events that the watermark has reached; gives them in order and numbered, and their count."""
        self.watermark = max(self.watermark, watermark)
        batches: dict[str, EventBatch] = {}
        count = 0
        while self._heap and self._heap[0].ts <= self.watermark:
            event = heapq.heappop(self._heap)
            count += 1
            batch = batches.setdefault(event.stream.name, EventBatch(event.stream))
            batch.rows.append((event.ts, self.runner.seq + count, *event.values))
        for name in batches:
            self.runner.database.execute(f"DELETE FROM {self._table(name)} WHERE ts <= {self.watermark}")
        return list(batches.values()), count

    def remembered(self) -> tuple[Any, ...]:
        """The state to `restore` if the transaction fails."""
        return list(self._heap), self._arrivals, self.watermark, dict(self._tables)

    def restore(self, remembered: tuple[Any, ...]) -> None:
        self._heap, self._arrivals, self.watermark, self._tables = remembered
        self._stored = BEGINNING

    def waiting(self, stream: str) -> int:
        """The number of events of a stream in the buffer."""
        return sum(event.stream.name == stream for event in self._heap)

    def _late(self, stream: StreamEntry, ts: int, values: list[Any]) -> LateEvent:
        reason = f"{self.watermark - ts} ms before the watermark (lateness {self.lateness} ms)"
        return LateEvent(stream.name, dict(zip(stream.schema.names, values, strict=True)), ts, self.watermark, reason)

    def _wait(self, stream: StreamEntry, ts: int, values: tuple[Any, ...]) -> None:
        self._arrivals += 1
        heapq.heappush(self._heap, Waiting(ts, self._arrivals, stream, values))
        row = (ts, self._arrivals, *values)
        self.runner.database.insert(self._table(stream.name), len(row), [row])

    def _table(self, stream: str) -> str:
        """The quoted name of the stream's buffer table, which is created when it is first needed."""
        if stream not in self._tables:
            self._tables[stream] = self.runner.add_buffer(stream)
        return self._tables[stream]
