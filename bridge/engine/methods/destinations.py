"""The methods of a bridge for the destinations of results, late events and rows for data stores."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from bridge.engine.catalogue import Processor
from bridge.engine.event import LateEvent
from bridge.engine.methods.access import Access, locked
from bridge.errors import ProcessorError, UnknownName
from bridge.stores.outbox import DeadLetter


class Destinations(Access):
    """Output processors and data stores of a bridge."""

    @locked
    def add_output_processor(
        self, query: str, function: Callable[[Any], Any], batch: bool = False, *, name: str | None = None
    ) -> Processor:
        """Delivers the results of a query to a function, from now on.

        With a `name` each result is delivered at least once, in order, even after the process has ended: the results
        are stored in the transaction of their push, and the processor's position moves when its function has returned
        (rule D5). A processor that raises gets the same result again at the next push.

        Args:
            query: The name of the query.
            function: Called as `function(Event(payload, timestamp))` for each result.
            batch: Call it once per push instead, with an Arrow table of the results: `ts`, then the query's columns.
            name: The name of the processor in this and later processes. Its function is called with `Result(payload,
                timestamp, id)`. A processor that existed before gets the results it has missed, at once.

        Returns:
            The handle for `remove_output_processor`.

        Raises:
            UnknownName: There is no such query.
            NameTaken: The query has a processor of this name.
            ProcessorError: `function` is not a function, or is an `async def`, or a named one raised.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.create_query("high", "SELECT a FROM s[a: INTEGER] WHERE a > 5")
        ...     handle = cep.add_output_processor("high", print)
        ...     handle = cep.add_output_processor("high", lambda table: print(table.num_rows, "row"), batch=True)
        ...     cep.push_event("s", [7], 1000)
        Event(payload={'a': 7}, timestamp=1000)
        1 row
        """
        entry = self._catalogue.query_entry(query)
        _check_processor(function)
        if name is not None:
            if not isinstance(name, str) or not name:
                raise ProcessorError(f"the name of a processor is a text, not {name!r}", [])
            handle = self._pushes.calls.named.add(entry, function, batch, name)
            self._pushes.calls.deliver()
            return handle
        handle = Processor(entry.name, function, batch)
        entry.processors.append(handle)
        self._runner.results.outdate()
        return handle

    @locked
    def remove_output_processor(self, handle: Processor) -> None:
        """Removes an output processor.

        Args:
            handle: The handle that `add_output_processor` has returned.

        Raises:
            UnknownName: The processor does not exist, or was removed.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
        ...     handle = cep.add_output_processor("q", print)
        ...     cep.remove_output_processor(handle)
        ...     cep.push_event("s", [7], 1000)
        """
        if isinstance(handle, Processor) and self._pushes.calls.named.remove(handle):
            return
        for entry in self._catalogue.queries.values():
            if handle in entry.processors:
                entry.processors.remove(handle)
                self._runner.results.outdate()
                return
        raise UnknownName("this output processor does not exist, or was removed")

    @locked
    def add_late_processor(self, function: Callable[[LateEvent], Any]) -> None:
        """Delivers events that are refused as too late, too far ahead or duplicate; they are also in `late_events`.

        Args:
            function: Called as `function(LateEvent(stream, payload, timestamp, watermark, reason, kind, milliseconds))`.

        Raises:
            ProcessorError: `function` is not a function, or is an `async def`.

        >>> import bridge
        >>> with bridge.connect(lateness=5) as cep:
        ...     cep.register_stream("s", "a INTEGER")
        ...     cep.add_late_processor(lambda late: print(late.payload, late.reason))
        ...     cep.push_events("s", [([1], 20), ([2], 14)])
        {'a': 2} 1 ms before the watermark (lateness 5 ms)
        2
        """
        _check_processor(function)
        self._pushes.calls.late_processors.append(function)

    @locked
    def register_datastore(self, name: str, target: Any) -> None:
        """Registers a data store, which scripts read by ReadSQL and write by UpdateSQL.

        It must answer now. Later it may be away for a while: rows to be read then wait, rows to be written are kept.

        Args:
            name: The name that scripts use.
            target: A URL as `bridge.connect` takes it, or an SQLAlchemy engine.

        Raises:
            DatabaseError: The store does not answer.
            NameTaken: A data store has this name.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.register_datastore("crm", "sqlite://")
        ...     cep.deliver()
        0
        """
        self._catalogue.stores.add(name, target)
        self._catalogue.outbox.resume()
        self._continue_resumption()

    @locked
    def dead_letters(self) -> list[DeadLetter]:
        """The rows that a data store has refused for good, the oldest first; also in the table `dead_letters`.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.dead_letters()
        []
        """
        return self._catalogue.outbox.dead_letters()

    @locked
    def deliver(self) -> int:
        """Tries at once to write the rows that wait for data stores.

        Each push does so, too, but pauses for a store that did not answer.

        Returns:
            The number of rows that still wait.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.deliver()
        0
        """
        for store in self._catalogue.stores.known.values():
            store.wake()
        return self._catalogue.outbox.deliver()


def _check_processor(function: Any) -> None:
    """Raises ProcessorError for an object that is not a function, and for a coroutine function, which needs `aio`."""
    if not callable(function):
        raise ProcessorError(f"an output processor is a function, not {function!r}", [])
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        name = getattr(function, "__name__", "f")
        raise ProcessorError(
            f"an output processor is a plain function, and {name!r} is an async def, which nothing would await: "
            "bridge.aio.connect opens a bridge that awaits it, and "
            f"lambda event: asyncio.run_coroutine_threadsafe({name}(event), loop) runs it in your loop",
            [],
        )
