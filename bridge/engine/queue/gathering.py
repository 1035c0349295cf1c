"""Gathering: single pushes of several threads are processed in batches (`connect(linger=…)`, rule T7).

Events wait in batches, in the order of their pushes. A batch is pushed when it is full, or when its first event has waited for
the linger time. Any other call of the bridge first pushes all batches, so it sees every event that was pushed before it.
Results are those of single pushes. A batch that is refused is pushed again in halves, so that only the push of the event
that caused the error raises it.
"""

from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from bridge.engine.catalogue import StreamEntry
from bridge.engine.execution.runner import Runner
from bridge.engine.execution.transactions import Receipt
from bridge.engine.intake import EventBatch
from bridge.engine.queue.clock import wall_clock
from bridge.engine.queue.push_queue import PushQueue
from bridge.engine.refusal import as_bridge_error, going_back
from bridge.errors import BridgeError, Closed, DatabaseError, ProcessorError, SchemaError, UnknownName
from windows.times import duration

SIZE = 1_000
"""The number of events in a batch, unless `batch` says otherwise."""

WAITING_BATCHES = 16
"""The number of full batches that may wait; a further push waits until one of them has been pushed."""


class Push:
    """An event that was pushed to a bridge with `linger`, and may still wait.

    Its methods are those of a `concurrent.futures.Future` without a result.

    >>> import bridge
    >>> with bridge.connect("sqlite://", linger="5 MS") as cep:
    ...     cep.register_stream("s", "a INTEGER")
    ...     push = cep.push_event("s", [7], 1000)
    ...     late = cep.push_event("s", [8], 900)
    ...     push.result()
    ...     print(push.done(), type(late.exception()).__name__)
    True OrderError
    """

    __slots__ = ("_batch", "_error", "_is_asked")

    def __init__(self, batch: PushBatch) -> None:
        self._batch = batch
        self._error: BaseException | None = None
        self._is_asked = False

    def done(self) -> bool:
        """Whether the event has been taken or refused."""
        return self._batch.is_done.is_set()

    def result(self, timeout: float | None = None) -> None:
        """Waits until the event has been taken, at most `timeout` seconds.

        Raises:
            BridgeError: What `push_event` raises without `linger`. A `ProcessorError` of a batch is raised by all its pushes.
            TimeoutError: The event has not been taken yet.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits as `result` does; returns the error instead of raising it, or None without an error.

        Raises:
            TimeoutError: The event has not been taken yet.
        """
        self._is_asked = True
        if not self._batch.is_done.wait(timeout):
            raise TimeoutError(f"the event is not committed after {timeout} seconds")
        return self._error

    def add_done_callback(self, function: Callable[[Push], Any]) -> None:
        """Calls a function with this push when it is done, in the thread that pushes it; at once if it is done."""
        self._is_asked = True
        with self._batch.lock:
            if not self.done():
                self._batch.callbacks.append((function, self))
                return
        function(self)


class PushedEvent(NamedTuple):
    """An event that waits."""

    push: Push
    stream: StreamEntry
    ts: int
    values: tuple[Any, ...]
    event_id: Any


class PushBatch:
    """Events that are pushed in one transaction."""

    def __init__(self) -> None:
        self.events: list[PushedEvent] = []
        self.since = time.monotonic()
        self.is_done = threading.Event()
        self.lock = threading.Lock()
        self.callbacks: list[tuple[Callable[[Push], Any], Push]] = []

    def end(self) -> None:
        """Marks the batch as done: each event has been taken or refused."""
        with self.lock:
            self.is_done.set()
        for function, push in self.callbacks:
            try:
                function(push)
            except Exception:
                logging.getLogger("bridge").exception("a callback of a push raised")


class Gathering:
    """The events that wait to be pushed together.

    Args:
        runner: The runner of the bridge.
        queue: The queue that brings the events to the runner.
        push_waiting: A function that calls the method of this name while it holds the lock of the bridge.
        linger: The time that an event waits for others: milliseconds, or a text such as "5 MS".
        batch: The number of events that are pushed at once, without waiting longer.

    Raises:
        SchemaError: `linger` or `batch` is wrong.
    """

    def __init__(
        self, runner: Runner, queue: PushQueue, push_waiting: Callable[[], object], linger: Any, batch: Any
    ) -> None:
        try:
            self._linger = duration(linger) / 1000
        except ValueError as error:
            raise SchemaError(f"linger: {error}") from None
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise SchemaError(f"batch is a positive number of events, not {batch!r}")
        self._runner, self._queue, self._size = runner, queue, batch
        self._push_waiting = push_waiting
        lock = threading.Lock()
        self._filled, self._emptied = threading.Condition(lock), threading.Condition(lock)
        self._batches: collections.deque[PushBatch] = collections.deque()
        self._newest_present = 0
        self._is_pushing = self._closed = False
        self._failed: list[Push] = []
        self._thread: threading.Thread | None = None

    def add(
        self, stream: StreamEntry, ts: int | None, values: tuple[Any, ...], event_id: Any, *, waits: bool = True
    ) -> Push:
        """Lets an event wait; `ts` None means the present.

        `waits`: whether the caller waits while very many events wait.
        """
        with self._filled:
            while waits and len(self._batches) > WAITING_BATCHES and not self._closed:
                self._emptied.wait()
            if self._closed:
                raise Closed("the bridge is closed")
            if ts is None:
                ts = self._newest_present = max(wall_clock(), self._runner.now, self._newest_present)
            batch = self._batches[-1] if self._batches else None
            if batch is None or len(batch.events) >= self._size:
                batch = PushBatch()
                self._batches.append(batch)
            push = Push(batch)
            batch.events.append(PushedEvent(push, stream, ts, values, event_id))
            if len(batch.events) in (1, self._size):
                self._filled.notify()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="cep-bridge-gathering", daemon=True)
                    self._thread.start()
        return push

    def push_waiting(self) -> None:
        """Pushes the events that wait; the caller holds the lock of the bridge.

        Events that an interruption has kept from being pushed wait again.
        """
        if self._is_pushing:  # an output processor calls the bridge
            return
        self._is_pushing = True
        try:
            for _ in range(len(self._batches)):
                with self._filled:
                    batch = self._batches.popleft()
                    self._emptied.notify_all()
                try:
                    self._push_batch(batch)
                except BaseException:
                    if self._runner.has_committed:
                        batch.end()
                    else:
                        with self._filled:
                            self._batches.appendleft(batch)
                    raise
                batch.end()
        finally:
            self._is_pushing = False

    def raise_failure(self) -> None:
        """Raises the first error of the pushes since the last call that nobody has asked for."""
        failed, self._failed = self._failed, []
        if unseen := [push for push in failed if not push._is_asked]:
            error = unseen[0].exception()
            assert error is not None
            if len(unseen) > 1:
                error.add_note(f"{len(unseen) - 1} more pushes have failed since the last flush()")
            raise error

    def close(self) -> None:
        """Takes no more events and ends the thread; the events that still wait are to be pushed by the caller."""
        with self._filled:
            self._closed = True
            self._filled.notify_all()
            self._emptied.notify_all()

    def _run(self) -> None:
        """Pushes each batch when it is full or has waited long enough."""
        while self._wait():
            try:
                self._push_waiting()
            except Closed:
                return
            except Exception:
                logging.getLogger("bridge").exception("while events were pushed together")
                time.sleep(self._linger)

    def _wait(self) -> bool:
        """Waits for a batch that is to be pushed; returns whether there may be one."""
        with self._filled:
            while not self._batches and not self._closed:
                self._filled.wait()
            while not self._closed and self._batches and len(self._batches[0].events) < self._size:
                left = self._batches[0].since + self._linger - time.monotonic()
                if left <= 0:
                    break
                self._filled.wait(left)
            return not self._closed

    def _push_batch(self, batch: PushBatch) -> None:
        self._push_part(batch.events)
        if failed := [each for each in batch.events if each.push._error is not None]:
            self._note_failed(failed)

    def _note_failed(self, failed: Sequence[PushedEvent]) -> None:
        self._failed = [*self._failed, *(each.push for each in failed)][-self._size :]
        first = failed[0]
        logging.getLogger("bridge").warning(
            "%d of the events pushed together have an error; the first is of %r at %d: %s",
            len(failed), first.stream.name, first.ts, first.push._error,
        )  # fmt: skip

    def _accepted(self, events: Sequence[PushedEvent]) -> Iterator[PushedEvent]:
        """The events to push, without duplicates, events that go back in time, and events of removed streams."""
        now, ids = self._runner.now, set[tuple[str, str]]()
        for event in events:
            if event.push._error is not None:
                continue
            try:
                if not self._runner.catalogue.has_stream(event.stream):
                    raise UnknownName(f"the stream {event.stream.name!r} was removed before the event was pushed")
                if self._queue.reorder is None and event.ts < now:
                    raise going_back(event.ts, now, self._queue.resumed_at)
                if event.event_id is not None:
                    name = (event.stream.name, str(event.event_id))
                    if name in ids or self._queue.ids.is_known(*name):
                        self._queue.drop_duplicate(event.stream, event.ts, event.values)
                        continue
                    ids.add(name)
            except BridgeError as error:
                event.push._error = error
                continue
            now = max(now, event.ts)
            yield event

    def _push_part(self, events: Sequence[PushedEvent]) -> None:
        """Pushes events in one transaction; if that fails, pushes each half in its own."""
        events = list(self._accepted(events))
        if not events:
            return
        try:
            self._queue.push(*self._numbered(events))
        except Exception as problem:
            error = as_bridge_error(problem) or problem
            if isinstance(error, DatabaseError):
                self._queue.reopen_if_lost()
            is_in = isinstance(error, ProcessorError) or self._runner.has_committed
            if is_in or len(events) == 1 or isinstance(error, Closed) or not self._runner.database.answers():
                for event in events:
                    event.push._error = error
                return
            middle = len(events) // 2
            self._push_part(events[:middle])
            self._push_part(events[middle:])

    def _numbered(self, events: Sequence[PushedEvent]) -> tuple[list[EventBatch], int, int, int, list[Receipt]]:
        """The arguments of `PushQueue.push` for these events."""
        batches: dict[str, EventBatch] = {}
        receipts: list[Receipt] = []
        for seq, event in enumerate(events, self._runner.seq + 1):
            batch = batches.setdefault(event.stream.name, EventBatch(event.stream))
            batch.rows.append((event.ts, seq, *event.values))
            if event.event_id is not None:
                receipts.append(self._queue.ids.receipt(event.stream.name, event.event_id, event.ts))
        return list(batches.values()), len(events), events[0].ts, events[-1].ts, receipts
