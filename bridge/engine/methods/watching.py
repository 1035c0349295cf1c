"""The methods of a bridge that read watched tables."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bridge.engine.delivery import ProcessorFailure, failure, raised_by
from bridge.engine.methods.access import Access, locked
from bridge.engine.queue.push_queue import RETRIES
from bridge.errors import ProcessorError, SchemaError
from windows.databases import Database, Refused
from windows.times import duration

if TYPE_CHECKING:
    from windows.databases.listener import Listener

POLL = 20
"""Milliseconds between two readings of tables that do not change."""

STOP_INTERVAL = 0.1
"""Seconds between two checks, within a pause, whether `run` was stopped."""

RETRY = 10.0
"""Seconds between two attempts to listen for NOTIFY."""

SHORTEST_PAUSE = 1.0
"""Milliseconds before the first reading after rows were read. Each later pause is longer, up to `POLL`."""


class Pauses:
    """How long `run` waits before it reads again. Raises `SchemaError` for a value that is not a duration.

    >>> pauses = Pauses("20 MS")
    >>> [pauses.after(rows) for rows in (5, 0, 0)]
    [0.0, 0.001, 0.0015]
    """

    def __init__(self, poll: Any) -> None:
        try:
            self._longest = duration(poll) / 1_000
        except ValueError as error:
            raise SchemaError(f"poll: {error}") from None
        self._pause = 0.0

    def after(self, rows: int) -> float:
        """The seconds to wait after a reading that has found this number of rows."""
        self._pause = 0.0 if rows else min(self._longest, max(SHORTEST_PAUSE / 1_000, self._pause * 1.5))
        return self._pause


def log_errors(errors: list[ProcessorFailure]) -> None:
    """Logs the errors of processors."""
    for raised in errors:
        logging.getLogger("bridge").error("%s", raised, exc_info=raised.error)


class StopFlag:
    """Whether `run` is to end. It has no lock, as a signal handler may set it while `run` is at any point."""

    def __init__(self) -> None:
        self.is_set = False


class Sleeper:
    """Sleeps between two readings of tables, until `is_stopped` or, on PostgreSQL, until NOTIFY comes."""

    def __init__(self, database: Database, is_stopped: Callable[[], bool]) -> None:
        self._is_stopped = is_stopped
        self._database = database
        self._listener: Listener | None = None
        self._tried = -RETRY

    def sleep(self, seconds: float) -> None:
        """Sleeps for at most `seconds`, or until NOTIFY comes.

        It listens in long pauses only, and briefly each time, as nothing wakes it when `is_stopped` becomes true. When
        it begins to listen, it does not sleep first: rows may have been committed after the last reading.
        """
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._is_stopped():
            if seconds > STOP_INTERVAL and self._begin_to_listen():
                return
            if self._listener is None:
                time.sleep(min(left, STOP_INTERVAL))
                continue
            try:
                if self._listener.wait(min(left, STOP_INTERVAL)):
                    return
            except Refused:
                self.close()

    def _begin_to_listen(self) -> bool:
        if self._listener is None and time.monotonic() - self._tried > RETRY:
            self._tried = time.monotonic()
            with contextlib.suppress(Refused):
                self._listener = self._database.listener()
                return self._listener is not None
        return False

    def close(self) -> None:
        """Ends listening."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None


class Watching(Access):
    """Reads the tables that are the sources of streams (`register_stream(…, table=…)`)."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._stopped = StopFlag()

    def poll(self) -> int:
        """Reads and pushes the rows of all tables that were committed and not read yet; it does not wait for rows.

        Tables are merged by time. Each transaction contains its events, results, and the position of each table, so a
        row is an event exactly once, however the process ends (rule D4).

        Returns:
            The number of rows.

        Raises:
            DatabaseError: A table no longer exists, or the database does not answer.
            ProcessorError: An output processor raised; the rows were pushed nevertheless.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.database.execute("CREATE TABLE orders (id BIGINT, amount DOUBLE, created_at TIMESTAMP)")
        ...     cep.register_stream("orders", table="orders", position="id", timestamp="created_at")
        ...     cep.create_query("high", "SELECT id FROM orders WHERE amount > 100")
        ...     handle = cep.add_output_processor("high", print)
        ...     cep.database.execute("INSERT INTO orders VALUES (1, 50, '1970-01-01 00:00:01'), (2, 200, '1970-01-01 00:00:02')")
        ...     cep.poll()
        Event(payload={'id': 2}, timestamp=2000)
        2
        """
        count = 0
        errors: list[ProcessorFailure] = []
        while True:
            read = self._step(errors)
            count += read
            if not read:
                break
        if errors:
            raise failure(errors) from errors[0].error
        return count

    def run(self, poll: Any = POLL) -> None:
        """Reads the tables until `stop` is called, by another thread, a processor or a signal handler.

        Errors of processors are logged, and a lost connection is opened again.

        Args:
            poll: Milliseconds between two readings of tables that do not change, or a text such as "50 MS". They are
                read sooner after rows were read, and on PostgreSQL after `NOTIFY cep_bridge`, which the triggers of
                CHANGES send.

        Raises:
            DatabaseError: A table no longer exists, or the database does not answer.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.database.execute("CREATE TABLE orders (id BIGINT)")
        ...     cep.register_stream("orders", table="orders", position="id", since="beginning")
        ...     cep.create_query("all_orders", "SELECT id FROM orders")
        ...     handle = cep.add_output_processor("all_orders", lambda event: (print(event.payload), cep.stop()))
        ...     cep.database.execute("INSERT INTO orders VALUES (1)")
        ...     cep.run()
        {'id': 1}
        """
        pauses = Pauses(poll)
        try:
            if not self._stopped.is_set:
                self._warn_without_tables()
            with contextlib.closing(Sleeper(self._runner.database, lambda: self._stopped.is_set)) as sleeper:
                while not self._stopped.is_set:
                    errors: list[ProcessorFailure] = []
                    pause = pauses.after(self._step(errors))
                    log_errors(errors)
                    sleeper.sleep(pause)
        finally:
            self._stopped.is_set = False

    def stop(self) -> None:
        """Ends `run` after the rows that it is pushing. If `run` is not active, this ends the next one.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.stop()
        ...     cep.run()
        """
        self._stopped.is_set = True

    @locked
    def _warn_without_tables(self) -> None:
        """Warns that `run` has nothing to read, unless another thread or task declares a table."""
        if not self._watcher.tables:
            logging.getLogger("bridge").warning(
                "no stream reads a table, so run waits for stop(): register_stream(name, table=…, position=…) declares one"
            )

    def _step(self, errors: list[ProcessorFailure]) -> int:
        """Reads and pushes some rows; returns their number. Errors of processors are added to `errors`."""
        try:
            return self._read_some()
        except ProcessorError as error:
            errors += raised_by(error)
            return 1

    @locked
    def _read_some(self) -> int:
        try:
            return self._watcher.step()
        except Refused:
            if not self._pushes.reopen_if_lost(RETRIES):
                raise
            return self._watcher.step()
