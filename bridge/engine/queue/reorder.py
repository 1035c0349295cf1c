"""Events out of order (rule T2): a bounded reorder buffer, and a table for events that cannot be put in order.

Events wait until the watermark has reached their ts. Then they are pushed in the order of (ts, arrival), so queries see
an ordered stream. Rows of watched tables with equal ts are pushed in the order of their positions, whenever they were
committed. The buffer is a table, like all state.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bridge.engine.catalogue import StreamEntry
from bridge.engine.event import LateEvent
from bridge.engine.execution.runner import Runner
from bridge.engine.execution.stream_tables import BUFFER, stored_events
from bridge.engine.execution.transactions import Receipt
from bridge.engine.intake import EventBatch, count_events
from bridge.engine.late_events import AHEAD, LATE, LateEvents
from bridge.engine.processor_calls import ProcessorCalls
from bridge.engine.queue.watermark import Watermark
from bridge.engine.results import Results


@dataclasses.dataclass(order=True)
class Waiting:
    """An event in the buffer.

    `rank` and `position` order rows of watched tables: the rank of the stream, and the position of the row; else 0.
    """

    ts: int
    rank: int
    position: int
    arrival: int
    stream: StreamEntry = dataclasses.field(compare=False)
    values: tuple[Any, ...] = dataclasses.field(compare=False)


class Reorder:
    """The reorder buffer of one bridge."""

    def __init__(self, runner: Runner, time: Watermark, late_events: LateEvents, calls: ProcessorCalls) -> None:
        self.runner = runner
        self.time = time
        self._late_events, self._calls = late_events, calls
        self._heap: list[Waiting] = []
        self._arrivals = 0
        self._new: list[Waiting] = []
        """The events of the current push."""
        self._released: list[Waiting] = []
        """The events that have left the buffer in the current push."""

    @property
    def watermark(self) -> int:
        """The time before which no event is accepted."""
        return self.time.watermark

    @property
    def count(self) -> int:
        """The number of events in the buffer."""
        return len(self._heap)

    @property
    def next_ts(self) -> int | None:
        """The timestamp of the oldest event in the buffer."""
        return self._heap[0].ts if self._heap else None

    def resume(self) -> None:
        """Continues with the watermark and the waiting events of the state in the database."""
        database = self.runner.database
        self.time.resume()
        self._heap.clear()
        for stream in self.runner.catalogue.streams.values():
            if self.runner.stream_tables.exist(BUFFER, stream.name):
                for ts, arrival, position, *values in stored_events(self._table(stream.name), 3, stream, database):
                    waiting = Waiting(ts, stream.rank, position, arrival, stream, tuple(values))
                    heapq.heappush(self._heap, waiting)
                    self._arrivals = max(self._arrivals, waiting.arrival)

    @property
    def arrivals(self) -> tuple[int, int]:
        """The number of events that have entered the buffer, and the watermark."""
        return self._arrivals, self.watermark

    def run_push(
        self,
        batches: Sequence[EventBatch],
        count: int = 0,
        last: int = 0,
        receipts: Sequence[Receipt] = (),
        moves: Callable[[Watermark], None] = lambda time: None,
    ) -> Results:
        """The transaction of a push: events enter the buffer, and those that the watermark has reached are pushed."""
        remembered, pending = self.begin(batches), self._calls.late
        try:
            with self.runner.transaction_of_push():
                late = self.sift(batches)
                moves(self.time)
                ready, count = self.release()
                results = self.runner.run(ready, count, max(self.runner.now, self.watermark))
                self.runner.uncommitted, self._calls.late = results, [*pending, *late]
                self.store_events()
                self.time.store()
                for receipt in receipts:
                    receipt.write()
        except BaseException:
            if self.runner.has_committed:  # interrupted since then
                count_events(ready)
            else:
                self.restore(remembered)
                self._calls.late = pending
            raise
        count_events(ready)
        return results

    def sift(self, batches: Iterable[EventBatch]) -> list[LateEvent]:
        """Puts the events of a push into the buffer; returns those that are not taken, stored as late events."""
        late: list[LateEvent] = []
        rows = (
            (batch.stream, row, position)
            for batch in batches
            for row, position in zip(batch.tuples(), batch.positions or itertools.repeat(0), strict=False)
        )
        for stream, (ts, _, *values), position in sorted(rows, key=lambda found: found[1][1]):
            if ts < self.watermark:
                late.append(self._late_events.event(stream, ts, values, LATE, self.watermark - ts))
            elif ahead := self.time.too_far_ahead(stream, ts):
                late.append(self._late_events.event(stream, ts, values, AHEAD, ahead))
            else:
                self._wait(stream, ts, tuple(values), position)
                self.time.see(stream.name, ts)
        self._late_events.store(late)
        return late

    def release(self) -> tuple[list[EventBatch], int]:
        """Removes the events that the watermark has reached; returns them, numbered in order, and their count."""
        batches: dict[str, EventBatch] = {}
        while self._heap and self._heap[0].ts <= self.watermark:
            event = heapq.heappop(self._heap)
            self._released.append(event)
            batch = batches.setdefault(event.stream.name, EventBatch(event.stream))
            batch.rows.append((event.ts, self.runner.seq + len(self._released), *event.values))
        return list(batches.values()), len(self._released)

    def store_events(self) -> None:
        """Stores which events are in the buffer, inside the transaction of the push."""
        first = self._new[0].arrival if self._new else self._arrivals + 1
        for name in dict.fromkeys(event.stream.name for event in self._released if event.arrival < first):
            self.runner.database.execute(f"DELETE FROM {self._table(name)} WHERE ts <= {self.watermark}")
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for event in self._new:
            if event.ts > self.watermark:
                rows.setdefault(event.stream.name, []).append((event.ts, event.arrival, event.position, *event.values))
        for name, waiting in rows.items():
            self.runner.database.insert(self._table(name), len(waiting[0]), waiting)

    def begin(self, batches: Iterable[EventBatch]) -> tuple[Any, ...]:
        """Begins a push of these events; returns the state to `restore` if its transaction fails.

        Tables are created before the transaction, as not every database can roll back their creation.
        """
        self._new, self._released = [], []
        for batch in batches:
            self._table(batch.stream.name)
        return self._arrivals, self.time.saved_state()

    def restore(self, remembered: tuple[Any, ...]) -> None:
        """Undoes the changes of this push."""
        self._arrivals, times = remembered
        self.time.restore(times)
        known = (*self._heap, *self._released)
        self._heap = [event for event in known if event.arrival <= self._arrivals]
        heapq.heapify(self._heap)

    def waiting(self, stream: str) -> int:
        """The number of events of a stream in the buffer."""
        return sum(event.stream.name == stream for event in self._heap)

    def _wait(self, stream: StreamEntry, ts: int, values: tuple[Any, ...], position: int) -> None:
        self._arrivals += 1
        event = Waiting(ts, stream.rank, position, self._arrivals, stream, values)
        self._new.append(event)
        heapq.heappush(self._heap, event)

    def _table(self, stream: str) -> str:
        """The quoted name of the stream's buffer table, which is created when it is first needed."""
        tables = self.runner.stream_tables
        known = tables.own_name(BUFFER, stream)
        if known is None:
            with self.runner.transaction():
                known = tables.create(BUFFER, stream, ("ts", "seq", "_position"))
        return known
