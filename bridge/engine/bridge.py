"""The bridge itself: the JEPC interface (paper, Table 1) and its extensions."""

from __future__ import annotations

import logging
import os
from typing import Any

from bridge.engine.event import Event, LateEvent
from bridge.engine.methods.definitions import Definitions
from bridge.engine.methods.destinations import Destinations
from bridge.engine.methods.inspection import Inspection
from bridge.engine.methods.pushes import Pushes
from bridge.engine.methods.watching import Watching
from bridge.engine.namespace import use_namespace
from bridge.engine.queue.gathering import SIZE, Gathering
from bridge.engine.resume import discard_state
from bridge.errors import BridgeError, Closed, DatabaseError, SchemaError
from windows.databases import Database, Refused


class Bridge(Definitions, Destinations, Pushes, Watching, Inspection):
    """Event processing on one database; `bridge.connect` opens one.

    The rules of time and order are in docs/semantics.md. A bridge may be used by several threads, one call at a time,
    in the process that opened it.

    Args:
        database: The open connection; `cep.database.execute(sql)` and `cep.database.fetch(sql)` run statements of your own.
        lateness: How late events may come: milliseconds, or a text such as "5 S" (rule T2).
        clock: "system": time passes by the wall clock, which also stamps events without a timestamp (rule T4).
        durable: Keep the state in the database, if that is a file or a server, and continue from it (rules D1, D2).
            False: the state belongs to this object alone, and is removed when it is closed.
        fresh: Remove the state of an earlier bridge first.
        event_ids: How many ids of events are remembered, or for how long, such as "7 D"; by default 100,000 (rule D4).
        standby: Wait while another bridge is at work in the database, and continue where it ends (rule D9).
        name: The name of the bridge, if several have their state in one database.
        schema: The schema of the bridge's tables (MariaDB: a database).
        linger: How long an event may wait for others, to be pushed in one transaction with them: milliseconds, or a
            text such as "5 MS" (rule T7). `push_event` then returns at once. None: it returns after the push.
        batch: With `linger`, how many events are pushed together without waiting longer.

    Raises:
        DatabaseError: Another bridge is at work in the database.
        SchemaError: `lateness`, `clock`, `name`, `schema`, `linger` or `batch` is wrong.

    >>> from windows.databases import open_database
    >>> cep = Bridge(open_database())
    >>> cep.register_stream("trades", {"symbol": "VARCHAR", "price": "DOUBLE"})
    >>> cep.create_query("high", "SELECT symbol, price FROM trades WHERE price > 10")
    >>> handle = cep.add_output_processor("high", lambda event: print(event.timestamp, event.payload))
    >>> cep.push_event("trades", {"symbol": "A", "price": 11.0}, 1000)
    1000 {'symbol': 'A', 'price': 11.0}
    >>> cep.close()
    """

    def __init__(
        self,
        database: Database,
        lateness: Any = 0,
        clock: str | None = None,
        *,
        durable: bool = True,
        fresh: bool = False,
        event_ids: int | str | None = None,
        standby: bool = False,
        name: str | None = None,
        schema: str | None = None,
        linger: Any = None,
        batch: int = SIZE,
    ) -> None:
        use_namespace(database, name, schema)
        super().__init__(database, lateness, event_ids, durable, fresh, standby, is_live=clock is not None)
        if linger is not None:
            self._gathering = Gathering(self._runner, self._pushes, self._push_waiting, linger, batch)
        self._keeps_state = self._runner.is_durable
        self._is_void = False
        """Whether the catalogue still has definitions that were undone: then no time passes until it is closed."""
        self._clock = self._system_clock(clock)

    def __repr__(self) -> str:
        """The database without its password, and the numbers of streams and queries.

        >>> import bridge
        >>> with bridge.connect("sqlite://") as cep:
        ...     cep.register_stream("s", "a INTEGER")
        ...     cep
        <Bridge on SQLite sqlite://: 1 streams, 0 queries, now None>
        """
        known = self._catalogue
        there = (
            "closed" if self._closed else f"{len(known.streams)} streams, {len(self.queries)} queries, now {self.now}"
        )
        return f"<Bridge on {repr(self._runner.database)[1:-1]}: {there}>"

    def close(self, final: bool = False) -> None:
        """Ends the bridge and closes the connection. Closing twice does nothing.

        The state of a durable bridge stays in the database; the next `bridge.connect` continues from it, and `drop` removes it.
        Without a file or server, or with `durable=False`, the tables are dropped.

        In a process forked from the one that opened the bridge, this does nothing: both belong to the other process.

        Args:
            final: Call `finish` first, so that everything that waits for later events is decided.

        Raises:
            DatabaseError: The database refuses a statement.
            ProcessorError: A processor raised when it got results that an interruption had left.
            BridgeError: As for `flush`.

        >>> import bridge
        >>> cep = bridge.connect()
        >>> cep.close()
        >>> cep.query("SELECT 1")
        Traceback (most recent call last):
            ...
        bridge.errors.Closed: the bridge is closed
        """
        if os.getpid() != self._process:
            return
        if final and not self._closed:
            self.finish()
        with self._lock:
            if self._closed:
                return
            if self._gathering is not None:
                self._gathering.close()
                self._gathering.push_waiting()
            self._closed = self._pushes.closed = True
            try:
                self._pushes.calls.deliver()  # results left by an interruption
            finally:
                self._end()
        if self._clock is not None:
            self._clock.stop()
        if self._gathering is not None:
            self._gathering.raise_failure()

    def drop(self) -> None:
        """Ends the bridge and removes its state from the database: all its tables except result tables and late events.

        Raises:
            Closed: The bridge is closed, and its state is kept: another bridge has to drop it.
            DatabaseError: The database refuses a statement.

        >>> import bridge
        >>> cep = bridge.connect()
        >>> cep.drop()
        """
        with self._lock:
            if self._closed and self._keeps_state:
                raise Closed("the bridge is closed, and its state is kept: bridge.connect(…).drop() removes it")
            self._keeps_state = False
        self.close()  # outside the lock: the clock's thread may wait for it

    def _end(self) -> None:
        """Drops the tables unless the state is kept, and closes the connection; if that was lost, the tables stay."""
        try:
            if self._resumption is None:
                self._catalogue.outbox.deliver()
            self._catalogue.stores.close()
            if self._keeps_state:
                self._runner.leave()
            elif self._resumption is None:
                self._watcher.drop_triggers()
                self._runner.drop()
            else:
                self._runner.leave()
                discard_state(self._runner.database)
        except Refused as error:
            if self._runner.database.answers():
                raise DatabaseError(str(error)) from None
            logging.getLogger("bridge").warning(
                "the connection was lost: the tables of the bridge stay (%s)", error.reason
            )
        finally:
            self._runner.database.close()

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.close()
        except BridgeError:
            if kind is None:
                raise
            logging.getLogger("bridge").exception("while the bridge was closed after an error")

    def _system_clock(self, clock: str | None) -> Any:
        if clock is None:
            return None
        if clock != "system":
            raise SchemaError(f'clock is None or "system", not {clock!r}')
        from bridge.engine.queue.clock import SystemClock

        return SystemClock(self._pass_time)

    def _pass_time(self, ts: int) -> int | None:
        """Advances time to the clock's, unless events were ahead of the clock; returns when something is due next."""
        with self._lock:  # otherwise an event may come between reading `now` and advancing to it
            if not (self._closed or self._is_void) and self._resumption is None:
                return self._tick(ts)
        return None


__all__ = ["Bridge", "Event", "LateEvent"]
