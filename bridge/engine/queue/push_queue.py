"""Pushes, one after the other: in chunks, through the reorder buffer; their results go to the output processors."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bridge.engine.catalogue import StreamEntry
from bridge.engine.delivery import ProcessorFailure, failure, raised_by
from bridge.engine.event import LateEvent
from bridge.engine.exactly_once import EventIds, Position, SourcePositions
from bridge.engine.execution.runner import Runner
from bridge.engine.execution.stream_tables import BUFFER
from bridge.engine.execution.transactions import Receipt
from bridge.engine.failures import Failures, Run
from bridge.engine.intake import Chunk, ChunkSizes, EventBatch, chunk_sizes, count_events, flag_last, without_first
from bridge.engine.late_events import DUPLICATE, LateEvents
from bridge.engine.processor_calls import ProcessorCalls
from bridge.engine.queue.reorder import Reorder
from bridge.engine.queue.watermark import Watermark
from bridge.engine.refusal import as_bridge_error, going_back
from bridge.engine.results import Results
from bridge.errors import Closed, DatabaseError, ProcessorError, SchemaError
from windows.databases import Refused
from windows.times import BEGINNING, NEVER, duration

RETRIES = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""The seconds between attempts to reopen a lost connection."""


class PushQueue:
    """Brings events to the runner and results to the processors. `reorder`: the buffer of events, if there is one."""

    def __init__(self, runner: Runner, lateness: Any, event_ids: Any = None, is_live: bool = False) -> None:
        self._runner = runner
        self.calls = ProcessorCalls(runner)
        self._lateness, self._is_live = _milliseconds(lateness), is_live
        self.late_events = LateEvents(runner, self._lateness, lambda: self.watermark)
        self.reorder: Reorder | None = None
        if self._lateness:
            self._reorder_events()
        self.ids, self.positions = EventIds(runner, event_ids), SourcePositions(runner)
        self.on_reopened: Callable[[], object] = lambda: None
        """Called after a lost connection is reopened, to read the rest from the tables."""
        self.duplicates = 0
        """The number of events that were dropped because their id, or a later position of their source, was known."""
        self.closed = self._finished = False
        self._failures = Failures(runner)
        self.resumed_at = BEGINNING
        """The newest timestamp in the state that an earlier bridge has left."""

    @property
    def watermark(self) -> int:
        """The time before which no event is accepted."""
        return self._runner.now if self.reorder is None else self.reorder.watermark

    def follow_streams(self) -> None:
        """Follows a change of the streams or of the rules for their times. Not inside a transaction."""
        streams = self._runner.catalogue.streams
        if self.reorder is None and any(any(entry.rules) for entry in streams.values()):
            self._reorder_events()
        if self.reorder is not None:
            waits = {name: entry.rules.idle_after for name, entry in streams.items()}
            self.reorder.time.waits = {name: after for name, after in waits.items() if after is not None}

    def _reorder_events(self) -> None:
        """Lets events come out of order from now on."""
        self.late_events.create()
        self.reorder = Reorder(
            self._runner, Watermark(self._runner, self._lateness, self._is_live), self.late_events, self.calls
        )
        self.catch_up()

    def catch_up(self) -> None:
        """Follows a resumption: moves time to the newest event of the state; earlier events are not waited for."""
        self.resumed_at = self._runner.now
        if self.reorder is not None and self._runner.now > self.reorder.watermark:
            self.reorder.time.pass_all(self._runner.now)

    def drop_duplicate(self, stream: StreamEntry, ts: int, values: Sequence[Any]) -> None:
        """Counts an event whose id is known."""
        self.duplicates += 1
        self.note([self.late_receipt([self.late_events.event(stream, ts, values, DUPLICATE)])])
        self.calls.call_late_processors()

    def resume(self) -> None:
        """Continues with the events that wait in the reorder buffer of the state in the database."""
        self.ids.resume()
        self.positions.resume()
        self.calls.named.resume()
        if self.reorder is not None:
            self.reorder.resume()
        elif waiting := [
            name for name in self._runner.catalogue.streams if self._runner.stream_tables.exist(BUFFER, name)
        ]:
            raise DatabaseError(
                f"events of {', '.join(map(repr, waiting))} may wait in the reorder buffer of the state in this database: "
                'open it with lateness="…", as before, or begin anew with fresh=True'
            )

    @property
    def sizes(self) -> ChunkSizes:
        """The sizes of chunks."""
        return chunk_sizes(self._runner.database, self._runner.catalogue.queries.values())

    def push_from(self, source: str | None, position: Position | None, chunks: Iterator[Chunk]) -> int:
        """`push_chunks` of events from a source, which is at this position after them; known events are dropped.

        Returns the number of new events.
        """
        if source is None and position is None:
            return self.push_chunks(chunks)
        if source is None or position is None:
            raise SchemaError(
                "source= and position= belong together: the name of the source, and where it is after the events"
            )
        known = self.positions.events_in(source, position)
        if known is None:
            self.duplicates += 1
            return 0
        self.duplicates += known
        is_last = [False]
        rest = flag_last(without_first(chunks, known), is_last)

        def receipts(done: int) -> list[Receipt]:
            """The position, with the last events; before that, the number of events pushed so far."""
            return [self.positions.receipt(source, position, None if is_last[0] else known + done)]

        accepted = self.push_chunks(rest, receipts)
        if not is_last[0]:  # without events
            self.note([self.positions.receipt(source, position)])
        return accepted

    def note(self, receipts: Sequence[Receipt]) -> None:
        """Writes receipts without a push of events."""
        with self._runner.transaction():
            for receipt in receipts:
                receipt.write()
        self._remember([], receipts)

    def push_chunks(
        self, chunks: Iterator[Chunk], receipts: Callable[[int], Sequence[Receipt]] = lambda done: ()
    ) -> int:
        """Pushes chunk after chunk and returns the number of events; errors say how many events have been pushed.

        `receipts`: gives the receipts stored with a chunk, from the number of events pushed after it.
        """
        accepted = 0
        failed: list[ProcessorFailure] = []
        try:
            for chunk in chunks:
                batches, count, first, last = chunk(self._runner.seq)
                try:
                    self.push(batches, count, first, last, receipts(accepted + count))
                except ProcessorError as raised:  # the events of this chunk are pushed, so the others follow
                    failed += raised_by(raised)
                accepted += count
        except Exception as problem:
            error = as_bridge_error(problem)
            if error is None:
                raise
            error.accepted = accepted
            if accepted:
                error.add_note(f"{accepted} events before this chunk were pushed")
            if failed:
                error.add_note(str(failure(failed)))
            raise error from None
        if failed:
            error = failure(failed)
            error.accepted = accepted
            raise error from failed[0].error
        return accepted

    def push(
        self, batches: Sequence[EventBatch], count: int, first: int, last: int, receipts: Sequence[Receipt] = ()
    ) -> None:
        """Pushes `count` events with timestamps from `first` to `last`, all or none; delivers the results."""
        if self.closed or self._finished:
            self._refuse_as_closed()
        reorder = self.reorder
        if reorder is None:
            self._refuse_going_back(first)
        run = self._runner.run_push if reorder is None else reorder.run_push
        before = self._reached()
        try:
            results = run(batches, count, last, receipts)
        except Exception as error:
            if self._runner.has_committed:
                self._note_interrupted(reorder, batches, receipts)
                raise
            results, receipts = self._recover(error, before, receipts, lambda all_: run(batches, count, last, all_))
        except BaseException:
            if self._runner.has_committed:
                self._note_interrupted(reorder, batches, receipts)
            raise
        if count == 1 and reorder is None and not receipts:
            batches[0].stream.events += 1
        else:
            self._remember([] if reorder is not None else batches, receipts)
        self._deliver(results)

    def _note_interrupted(
        self, reorder: Reorder | None, batches: Sequence[EventBatch], receipts: Sequence[Receipt]
    ) -> None:
        """Counts a push that took effect before it was interrupted, and keeps its results for later delivery."""
        self._remember([] if reorder is not None else batches, receipts)
        self.calls.add(self._runner.uncommitted)

    def _remember(self, batches: Sequence[EventBatch], receipts: Sequence[Receipt]) -> None:
        """Counts the events of a push that has taken effect, and remembers its receipts."""
        count_events(batches)
        for receipt in receipts:
            receipt.remember()

    def _recover(
        self, error: Exception, before: tuple[int, ...], receipts: Sequence[Receipt], run: Run
    ) -> tuple[Results, Sequence[Receipt]]:
        """The results of a failed push, run again, and the receipts to remember.

        It is run again if the connection was lost before its commit took effect, or if a query may be left out.
        """
        if isinstance(error, Refused) and self.reopen_if_lost(RETRIES):
            logging.getLogger("bridge").warning("the connection was lost and opened again (%s)", error.reason)
            return (run(receipts) if self._reached() == before else self._runner.uncommitted), receipts
        noted: list[Receipt] = []

        def run_with(more: Sequence[Receipt]) -> Results:
            noted[:] = [*receipts, *more]
            return run(noted)

        return self._failures.run_without(error, run_with), noted

    def _reached(self) -> tuple[int, ...]:
        """The time and the numbers of events, which change when a push takes effect."""
        return (self._runner.now, self._runner.seq, *(self.reorder.arrivals if self.reorder is not None else ()))

    def reopen_if_lost(self, retries: Sequence[float] = ()) -> bool:
        """Reopens a lost connection of a durable bridge, and continues from the tables; returns whether it did.

        `retries`: the seconds to wait before each further attempt. Raises `DatabaseError` where another bridge has taken over.
        """
        database = self._runner.database
        if not self._runner.is_durable or database.answers():
            return False
        seq = self._runner.seq
        for seconds in (0.0, *retries):
            time.sleep(seconds)
            try:
                database.reopen()
                database.acquire_lock()
            except Refused:
                continue
            self._read_again()
            if self._runner.seq < seq:
                raise DatabaseError("the connection was lost, and another bridge has begun anew in this database")
            return True
        return False

    def _read_again(self) -> None:
        """Reads the state in memory from the tables again."""
        self._runner.resume_from_tables()
        if self.reorder is not None:
            self.reorder.resume()
        self.ids.resume()
        self.positions.resume()
        self.calls.named.resume()
        self.on_reopened()

    def advance(self, ts: int, stream: StreamEntry | None = None) -> None:
        """Advances time to `ts`, on one stream or on all."""
        if self.reorder is None:
            self.push([], 0, ts, ts)
        elif stream is not None:
            self._move(lambda time: time.see(stream.name, ts))
        else:
            self._refuse_going_back(ts)
            self._move(lambda time: time.pass_all(ts))

    def tick(self, present: int) -> None:
        """Advances time to the wall clock, as far as no event is waited for."""
        if self.reorder is None:
            self.advance(max(present, self._runner.now))
        else:
            self._move(lambda time: time.reach(time.by_clock(present)))

    def next_deadline(self) -> int | None:
        """The next time at which something may be reported without an event; None if nothing is due."""
        if self._runner.now != BEGINNING and self._runner.awaits_push and not self._finished:
            self.stand_still()
        waiting = None if self.reorder is None else self.reorder.next_ts
        due = (self._runner.next_deadline(), waiting)
        return min((each for each in due if each is not None), default=None)

    def stand_still(self) -> None:
        """Runs a push without events in which time does not move."""
        if self.reorder is None:
            self.push([], 0, self._runner.now, self._runner.now)
        else:
            self._move(lambda time: None)

    def next_instant(self) -> int | None:
        """When the wall clock will reach `next_deadline`, if known; the time of events is behind it by the lateness."""
        due = None if self._runner.awaits_push else self.next_deadline()
        return None if due is None else due + self._lateness

    def _move(self, moves: Callable[[Watermark], None]) -> None:
        """Runs a push without events in which time moves."""
        if self.closed or self._finished:
            self._refuse_as_closed()
        reorder, before = self.reorder, self._reached()
        assert reorder is not None
        try:
            results = reorder.run_push([], moves=moves)
        except BaseException as error:
            if self._runner.has_committed:
                self._note_interrupted(reorder, [], ())
            if self._runner.has_committed or not isinstance(error, Exception):
                raise
            results, receipts = self._recover(
                error, before, (), lambda all_: reorder.run_push([], receipts=all_, moves=moves)
            )
            self._remember([], receipts)
        self._deliver(results)

    def finish(self) -> None:
        """Decides all events and matches that wait for later events; no event is accepted after that."""
        reorder = self.reorder
        remembered = reorder.begin([]) if reorder is not None else ()
        try:
            with self._runner.transaction_of_push(0 if reorder is None else None):
                batches, count = list[EventBatch](), 0
                if reorder is not None:
                    reorder.time.reach(NEVER)
                    batches, count = reorder.release()
                    reorder.store_events()
                results = self._runner.run(batches, count, self._newest(batches), final=True)
                self._runner.uncommitted = results
        except BaseException:
            self._finished = self._runner.has_committed
            if self._finished:
                self._note_interrupted(reorder, [], ())
            elif reorder is not None:
                reorder.restore(remembered)
            raise
        self._finished = True
        self._deliver(results)

    def _newest(self, batches: Sequence[EventBatch]) -> int:
        """The newest timestamp, these events included."""
        times: list[int] = [row[0] for batch in batches for row in batch.rows]
        return max([self._runner.now, *times])

    def _refuse_as_closed(self) -> None:
        raise Closed(
            "the bridge is closed" if self.closed else "finish() has ended the streams: no event is accepted after it"
        )

    def _refuse_going_back(self, ts: int) -> None:
        if ts < self._runner.now:
            raise going_back(ts, self._runner.now, self.resumed_at)

    def _deliver(self, results: Results) -> None:
        """Delivers results. When a processor pushes, the new results wait until all processors have the earlier ones.

        A delivery that a lost connection has interrupted continues here.
        """
        if not (results or self.calls.may_be_due or self._runner.catalogue.outbox.waiting):
            return
        self.calls.add(results)
        try:
            self._runner.catalogue.outbox.deliver()
            self.calls.deliver()
        except Refused:
            if not self.reopen_if_lost(RETRIES):
                raise
            self.calls.deliver()
        finally:
            self.calls.call_late_processors()

    def late_receipt(self, late: list[LateEvent]) -> Receipt:
        """Notes late events. Late processors get them with the push's results, or in `calls.call_late_processors`."""
        self.late_events.create()

        return Receipt(functools.partial(self.late_events.store, late), lambda: self.calls.add_late(late))


def _milliseconds(lateness: Any) -> int:
    try:
        return 0 if lateness == 0 else duration(lateness)
    except ValueError as error:
        raise SchemaError(f"lateness: {error}") from None
