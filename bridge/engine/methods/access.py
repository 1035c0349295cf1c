"""The base class of a bridge: connection and runner, one call at a time, in the process that opened it."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from bridge.engine.execution.runner import Runner
from bridge.engine.named_processors import NamedProcessors
from bridge.engine.queue.gathering import Gathering
from bridge.engine.queue.push_queue import PushQueue
from bridge.engine.refusal import as_bridge_error
from bridge.engine.resume import Resumption, discard_state, refuse_other_state
from bridge.engine.shared_connection import SharedConnection
from bridge.engine.status import Times
from bridge.engine.watch.watcher import Watcher
from bridge.errors import BridgeError, Closed, DatabaseError, InUse
from windows.databases import Database, Refused
from windows.databases.tracing import log_statements
from windows.databases.urls import without_password
from windows.schema import TypeMismatch

STANDBY = 0.05
"""The seconds between two attempts of a bridge that stands by."""

P = ParamSpec("P")
R = TypeVar("R")


def locked(method: Callable[P, R]) -> Callable[P, R]:
    """A method that runs alone, on an open bridge, after the events that were pushed before the call.

    Errors of a database or library are raised as errors of the bridge.
    """

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        self: Any = args[0]
        self._refuse_other_process()
        with self._lock:
            self._refuse_if_not_ready(method.__name__)
            try:
                if self._gathering is not None:
                    self._gathering.push_waiting()
                return method(*args, **kwargs)
            except Exception as error:
                own = self._noted(error)
                if isinstance(own, DatabaseError):
                    self._pushes.reopen_if_lost()  # for the next call
                if own is None or own is error:
                    raise
                raise own from (None if isinstance(error, (Refused, TypeMismatch)) else error)

    return call


def is_owned(lock: Any) -> bool:
    """Whether the current thread holds a lock, as it does where an output processor calls the bridge."""
    return bool(lock._is_owned())


class Access:
    """A bridge's connection, its runner and catalogue, the queue of its pushes, and the lock around its methods."""

    def __init__(
        self,
        database: Database,
        lateness: Any,
        event_ids: Any,
        durable: bool,
        fresh: bool,
        standby: bool,
        is_live: bool,
    ) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._gathering: Gathering | None = None
        """With `linger`, the events that wait to be pushed together."""
        self._closed = False
        self._last_error: str | None = None
        self._times: Times | None = None
        log_statements(database)
        self._resumption: Resumption | None = None
        _acquire_lock(database, standby)
        if database.is_durable:
            if fresh:
                discard_state(database)
            elif not durable:
                refuse_other_state(database)
        self._runner = Runner(database, durable and database.is_durable)
        self._catalogue = self._runner.catalogue
        self._pushes = PushQueue(self._runner, lateness, event_ids, is_live)
        self._watcher = Watcher(self._runner, self._pushes)
        self._pushes.on_reopened = self._watcher.resume
        if self._runner.stored_clock is not None:
            self._resumption = Resumption(self._runner, self._pushes.calls.named)
            self._continue_resumption()

    @property
    def database(self) -> Database:
        """The connection, for your own statements.

        Rows that are only in memory are written into their tables first, and your changes count from the next push on.
        If you ask for the driver's own connection or begin a transaction, each push does both from then on, and single
        events on DuckDB and SQLite in memory take longer.

        Raises:
            DatabaseError: The database refuses a statement.
            Closed: A statement is to be run after the bridge was closed.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.create_query("n", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(RANGE 5 S)")
        ...     cep.push_event("s", [7], 1000)
        ...     cep.database.fetch("SELECT ts, a FROM cep_window_s")
        [(1000, 7)]
        """
        if not self._runner.has_connection_alone:
            return self._runner.database
        return cast(Database, SharedConnection(self._runner.database, self._before_statement, self._lock))

    def _before_statement(self, is_last: bool) -> None:
        """Writes all rows into their tables, as the program is about to read or change them."""
        if self._closed:
            raise Closed("the bridge is closed, and so is its connection")
        if os.getpid() != self._process:
            return
        with self._lock:
            try:
                self._runner.share_connection(is_last)
            except Refused as error:
                raise DatabaseError(str(error)) from None

    def _continue_resumption(self) -> None:
        """Carries out the definitions of the state in the database, up to one that waits for a data store."""
        if self._resumption is not None:
            self._resumption.go_on()
            if not self._resumption.waiting_for:
                self._pushes.follow_streams()
                self._pushes.resume()
                self._watcher.resume()
                self._resumption.end()
                self._pushes.catch_up()
                self._resumption = None

    def _refuse_if_not_ready(self, method: str) -> None:
        if self._closed:
            raise Closed("the bridge is closed")
        if self._resumption is not None and method not in ("register_datastore", "drop"):
            raise BridgeError(self._resumption.waiting_for)

    def _noted(self, error: Exception) -> BridgeError | None:
        """The bridge's error for an error of a call, or None; `status` shows it as the latest error."""
        self._last_error = without_password(f"{type(error).__name__}: {error}")
        return as_bridge_error(error)

    def _refuse_other_process(self) -> None:
        """Raises an error in a forked process, which shares the connection and may have a lock that nobody releases."""
        if os.getpid() != self._process:
            raise Closed(
                f"this bridge belongs to process {self._process}, which opened it, and this is process {os.getpid()}: "
                "call bridge.connect here, after the fork"
            )

    def _with_named_processors(self, action: Callable[[Runner, NamedProcessors], R]) -> R:
        """The result of an action on subscriptions, with the bridge's runner and named processors."""
        found: R = self._call(lambda: action(self._runner, self._pushes.calls.named))
        return found

    @locked
    def _call(self, action: Callable[[], Any]) -> Any:
        return action()

    def _refuse_if_read(self, name: str) -> None:
        if readers := self._catalogue.readers(name):
            raise InUse(f"{name!r} is read by {', '.join(map(repr, readers))}: remove that first")


def _acquire_lock(database: Database, standby: bool) -> None:
    """Takes the lock of the database. `standby`: waits while another bridge has it."""
    while True:
        try:
            database.acquire_lock()
            return
        except Refused:
            if not standby or not database.answers():
                raise
            time.sleep(STANDBY)
