"""The methods of a bridge that push events and let time pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bridge.engine.execution.transactions import Receipt
from bridge.engine.intake import EventBatch, batches_of, chunks, merged_chunks
from bridge.engine.methods.access import Access, is_owned, locked
from bridge.engine.queue.clock import wall_clock
from bridge.errors import SchemaError
from bridge.sources.arrow import milliseconds

if TYPE_CHECKING:
    from bridge.engine.queue.clock import SystemClock
    from bridge.engine.queue.gathering import Gathering, Push


class Pushes(Access):
    """Events of a bridge and its time. Timestamps are milliseconds since 1970 or aware datetimes (rule T1)."""

    _clock: SystemClock | None = None

    def push_event(
        self,
        stream: str,
        payload: Mapping[str, Any] | Sequence[Any],
        timestamp: Any = None,
        *,
        event_id: Any = None,
    ) -> Push | None:
        """Pushes one event, and delivers the results before it returns; with `linger` it returns at once.

        Args:
            stream: The name of a registered stream.
            payload: The attributes by name, or all of them in the order of the schema.
            timestamp: Milliseconds or an aware datetime, not before the newest time seen (rule T2); None for the present
                with `clock="system"`.
            event_id: An identifier of the event in its stream. An event with a known id is dropped, so a producer that
                does not know whether its push has taken effect can repeat it (rule D4).

        Returns:
            None; with `linger` (rule T7) the push, whose `result()` waits for it, and raises the errors that this call
            raises without `linger`. An event that an output processor pushes does not wait, so it returns None.

        Raises:
            SchemaError: The payload does not fit the schema, or the timestamp is missing.
            OrderError: The timestamp goes back.
            ProcessorError: An output processor raised; the event was pushed nevertheless, and all other processors ran.
            UnknownName: There is no such stream.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.register_stream("trades", "symbol VARCHAR, price DOUBLE")
        ...     cep.create_query("high", "SELECT symbol FROM trades WHERE price > 10")
        ...     handle = cep.add_output_processor("high", print)
        ...     cep.push_event("trades", {"symbol": "ACME", "price": 11.5}, 1000)
        ...     cep.push_event("trades", ["ACME", 9.5], 2000)
        Event(payload={'symbol': 'ACME'}, timestamp=1000)
        """
        if self._gathering is not None and not is_owned(self._lock):
            return self._gather(self._gathering, stream, payload, timestamp, event_id)
        self._push_event(stream, payload, timestamp, event_id)
        return None

    def _gather(
        self, gathering: Gathering, stream: str, payload: Any, timestamp: Any, event_id: Any, waits: bool = True
    ) -> Push:
        """Lets an event wait for others. `waits`: whether the caller may wait in turn while very many events wait."""
        self._refuse_other_process()
        self._refuse_if_not_ready("push_event")
        try:
            entry = self._catalogue.stream_entry(stream)
            ts = milliseconds(timestamp) if timestamp is not None else None if self._clock else self._present()
            values = tuple(entry.row(payload))
        except Exception as error:
            own = self._noted(error)
            if own is None or own is error:
                raise
            raise own from None
        return gathering.add(entry, ts, values, event_id, waits=waits)

    @locked
    def flush(self) -> None:
        """With `linger`: pushes the waiting events now (rule T7).

        Raises:
            BridgeError: The first error of a `push_event` since the last call whose `result()` nobody has called.

        >>> import bridge
        >>> with bridge.connect("sqlite://", linger="5 MS") as cep:
        ...     cep.create_query("high", "SELECT a FROM s[a: INTEGER] WHERE a > 5")
        ...     handle = cep.add_output_processor("high", print)
        ...     for a in (3, 7):
        ...         push = cep.push_event("s", [a], 1000)
        ...     cep.flush()
        Event(payload={'a': 7}, timestamp=1000)
        """
        if self._gathering is not None:
            self._gathering.raise_failure()

    @locked
    def _push_waiting(self) -> None:
        """Does nothing but take the lock: every method that takes the lock first pushes the waiting events."""

    @locked
    def _push_event(self, stream: str, payload: Any, timestamp: Any, event_id: Any) -> None:
        entry = self._catalogue.stream_entry(stream)
        ts = self._present() if timestamp is None else milliseconds(timestamp)
        row = (ts, self._runner.seq + 1, *entry.row(payload))
        queue = self._pushes
        receipts: tuple[Receipt, ...] = ()
        if event_id is not None:
            if queue.ids.is_known(entry.name, event_id):
                queue.drop_duplicate(entry, ts, row[2:])
                return
            receipts = (queue.ids.receipt(entry.name, event_id, ts),)
        queue.push([EventBatch(entry, rows=[row])], 1, ts, ts, receipts)

    def position(self, source: str) -> int | str | None:
        """The position at which a source continues: that of its last push; None before the first (rule D4).

        Args:
            source: The name that was given to the pushes.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.register_stream("trades", "price DOUBLE")
        ...     cep.push_events("trades", [([9.5], 1000), ([11.5], 2000)], source="feed", position=2)
        ...     cep.push_events("trades", [([9.5], 1000), ([11.5], 2000)], source="feed", position=2)
        ...     cep.position("feed")
        2
        0
        2
        """
        return self._pushes.positions.of(source)

    @locked
    def push_events(
        self,
        stream: str,
        events: Any,
        timestamp: str = "ts",
        *,
        source: str | None = None,
        position: int | str | None = None,
    ) -> int:
        """Pushes many events of one stream, with the same results as one by one.

        Args:
            stream: The name of a registered stream.
            events: An Arrow table or batches, a pandas or polars frame, or an iterable of (payload, timestamp) pairs.
            timestamp: The column of the timestamps in a table or frame.
            source: The name of the origin of the events, such as a topic or a file, if a push may be repeated.
            position: The position of the source after these events: a number that grows, or a text. Events at or before
                the stored position are dropped, also a part of them if the process has ended within the push;
                `position(source)` returns where to continue (rule D4).

        Returns:
            The number of events, without those that were pushed before.

        Raises:
            SchemaError: An event does not fit the schema.
            OrderError: A timestamp goes back.
            ProcessorError: An output processor raised; all events were pushed nevertheless.

        Each chunk of events is one transaction: no event of a chunk with a wrong event is pushed, and `error.accepted`
        is the number of events before the chunk.

        >>> import bridge, pyarrow
        >>> with bridge.connect() as cep:
        ...     cep.register_stream("trades", "price DOUBLE")
        ...     cep.push_events("trades", [([9.5], 1000), ([11.5], 2000)])
        ...     cep.push_events("trades", pyarrow.table({"ts": [2000, 3000], "price": [9.0, 8.5]}))
        2
        2
        """
        entry = self._catalogue.stream_entry(stream)
        queue = self._pushes
        numbered = chunks(entry, events, timestamp, queue.sizes, queue.reorder is None)
        return queue.push_from(source, position, numbered)

    @locked
    def push_all(
        self, events: Iterable[tuple[str, Any, Any]], *, source: str | None = None, position: int | str | None = None
    ) -> int:
        """Pushes events of several streams.

        Args:
            events: (stream, payload, timestamp) triples in the order of time.
            source: As for `push_events`.
            position: As for `push_events`.

        Returns:
            The number of events, without those that were pushed before.

        Raises:
            SchemaError, OrderError, ProcessorError, UnknownName: As for `push_events`.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.register_stream("trades", "price DOUBLE")
        ...     cep.register_stream("quotes", "ask DOUBLE")
        ...     cep.push_all([("trades", [9.5], 1000), ("quotes", [9.0], 1000), ("trades", [9.4], 1500)])
        3
        """
        queue = self._pushes
        numbered = batches_of(events, self._catalogue.stream_entry, queue.sizes.rows, queue.reorder is None)
        return queue.push_from(source, position, numbered)

    @locked
    def push_tables(
        self,
        tables: Mapping[str, Any],
        timestamp: str = "ts",
        *,
        source: str | None = None,
        position: int | str | None = None,
    ) -> int:
        """Pushes tables of several streams, merged by time; rows of equal time are in the order of the mapping.

        The results are those of `push_all` with the rows, at the speed of `push_events`.

        Args:
            tables: Arrow tables or frames by the names of their streams.
            timestamp: The column of the timestamps.
            source: As for `push_events`.
            position: As for `push_events`.

        Returns:
            The number of events, without those that were pushed before.

        Raises:
            SchemaError, OrderError, ProcessorError, UnknownName: As for `push_events`.

        >>> import bridge, pyarrow
        >>> with bridge.connect() as cep:
        ...     cep.register_stream("trades", "price DOUBLE")
        ...     cep.register_stream("quotes", "ask DOUBLE")
        ...     trades = pyarrow.table({"ts": [1000, 1500], "price": [9.5, 9.4]})
        ...     cep.push_tables({"trades": trades, "quotes": pyarrow.table({"ts": [1000], "ask": [9.0]})})
        3
        """
        if not isinstance(tables, Mapping):
            raise SchemaError(f"push_tables takes a mapping of tables by the names of their streams, not {tables!r}")
        entries = [(self._catalogue.stream_entry(name), events) for name, events in tables.items()]
        return self._pushes.push_from(source, position, merged_chunks(entries, timestamp, self._pushes.sizes.arrow))

    @locked
    def advance_time(self, timestamp: Any, stream: str | None = None) -> None:
        """Lets time pass without an event (rule T3): rows expire, boundaries and deadlines are reached, buffers drain.

        Args:
            timestamp: Milliseconds or an aware datetime, not before the newest time seen.
            stream: The stream on which time has passed, as if an event of it had come (rule T5). None: on all streams.

        Raises:
            OrderError: The timestamp goes back.
            UnknownName: There is no such stream.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.create_query("n", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(RANGE 5 S SLIDE 5 S)")
        ...     handle = cep.add_output_processor("n", print)
        ...     cep.push_event("s", [7], 1000)
        ...     cep.advance_time(5000)
        Event(payload={'n': 1}, timestamp=5000)
        """
        entry = None if stream is None else self._catalogue.stream_entry(stream)
        self._pushes.advance(milliseconds(timestamp), entry)

    @locked
    def next_deadline(self) -> int | None:
        """The next time at which a result may come without an event; `advance_time` to it then reports what is due.

        It is the end of a window or of an absence, an expiry, a periodic report, or the time of an event in the reorder
        buffer. Nothing is reported earlier without an event.

        Returns:
            Milliseconds since 1970; None if nothing is due.

        Raises:
            DatabaseError: The database refuses a statement.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.create_query("n", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(RANGE 5 S SLIDE 5 S)")
        ...     handle = cep.add_output_processor("n", print)
        ...     cep.push_event("s", [7], 1000)
        ...     due = cep.next_deadline()
        ...     cep.advance_time(due)
        ...     print(due, cep.next_deadline())
        Event(payload={'n': 1}, timestamp=5000)
        5000 None
        """
        return self._pushes.next_deadline()

    @locked
    def _tick(self, present: int) -> int | None:
        """Follows the wall clock to `present`; returns the time of the clock at which something is due next.

        Time passes only as far as the rows of all watched tables have been read.
        """
        horizon = self._watcher.horizon
        self._pushes.tick(present if horizon is None else max(self._runner.now, min(present, horizon)))
        return self._pushes.next_instant()

    @locked
    def purge(self) -> None:
        """Removes expired rows from the tables now; otherwise this happens after a fixed number of events.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.create_query("n", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(RANGE 5 S)")
        ...     cep.push_events("s", [([7], 1000), ([8], 9000)])
        ...     cep.purge()
        ...     cep.database.fetch("SELECT ts, a FROM cep_window_s")
        2
        [(9000, 8)]
        """
        self._runner.purge()

    @locked
    def finish(self) -> None:
        """Declares that no event will follow: what waits for later events is decided, and results are delivered.

        Events in the reorder buffer are pushed first. After that the bridge accepts no event.

        >>> import bridge
        >>> with bridge.connect(lateness=5000) as cep:
        ...     cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
        ...     handle = cep.add_output_processor("q", print)
        ...     cep.push_event("s", [7], 1000)
        ...     cep.finish()
        Event(payload={'a': 7}, timestamp=1000)
        """
        self._pushes.finish()

    def _present(self) -> int:
        """The clock's time, or the newest time seen if events were ahead of the clock."""
        if self._clock is None:
            raise SchemaError(
                'an event needs its timestamp (or connect(clock="system"), which sets it to the present time)'
            )
        return max(wall_clock(), self._runner.now)
