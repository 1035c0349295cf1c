"""A bridge for asyncio: its methods are awaited, and run one after the other in a thread of the bridge."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from bridge.engine.bridge import Bridge
from bridge.engine.catalogue import Processor, function_name
from bridge.engine.connect import IN_MEMORY
from bridge.engine.connect import connect as connect_here
from bridge.engine.delivery import ProcessorFailure, failure, raised_by
from bridge.engine.methods.watching import POLL, STOP_INTERVAL, Pauses, Sleeper, log_errors
from bridge.engine.on_demand.local_frames import frames_of_caller, with_frames
from bridge.errors import ProcessorError

PLAIN = ("streams", "queries", "now")
"""Attributes that are read without waiting."""

ON_DEMAND = ("query", "explain", "why")
"""Methods whose SELECT may name frames among the caller's variables."""


class AsyncBridge:
    """A bridge whose methods are awaited; `connect` opens one.

    It has all methods of `Bridge`, with the same arguments, results and errors. Events that several tasks push at the same time
    are pushed in the order of their calls. Output processors may be coroutine functions; these are awaited in the order of the
    results, and may push events themselves. The call that produced the results awaits them, unless another call already does.
    """

    def __init__(self, cep: Bridge, executor: concurrent.futures.Executor) -> None:
        self._cep, self._executor = cep, executor
        self._undelivered: collections.deque[tuple[Processor, Any]] = collections.deque()
        self._delivering = False
        self._stopped = asyncio.Event()
        self._is_closed = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._cep, name)
        if name in PLAIN or not callable(found):
            return found

        @functools.wraps(found)
        async def call(*arguments: Any, **options: Any) -> Any:
            if name not in ON_DEMAND:
                return await self._run(found, *arguments, **options)
            text = arguments[0] if arguments else options.get("sql", options.get("query"))
            return await self._run(with_frames, frames_of_caller(text), found, *arguments, **options)

        return call

    async def push_event(self, stream: str, payload: Any, timestamp: Any = None, *, event_id: Any = None) -> None:
        """`Bridge.push_event`, awaited until the event is pushed; with `linger`, tasks share a transaction."""
        gathering = self._cep._gathering
        if gathering is None:
            await self._run(self._cep.push_event, stream, payload, timestamp, event_id=event_id)
            return
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        push = self._cep._gather(gathering, stream, payload, timestamp, event_id, waits=False)
        push.add_done_callback(lambda _: loop.call_soon_threadsafe(_settle, done))
        try:
            await done
            push.result()
        finally:
            await self._deliver()

    async def add_output_processor(
        self, query: str, function: Callable[[Any], Any], batch: bool = False, *, name: str | None = None
    ) -> Any:
        """`Bridge.add_output_processor` for a function or a coroutine function.

        The bridge waits for a coroutine function with a `name`, because it stores how far the processor has come. So this
        function must not use the bridge itself.
        """
        if not inspect.iscoroutinefunction(function):
            return await self._run(self._cep.add_output_processor, query, function, batch, name=name)
        loop = asyncio.get_running_loop()
        if name is None:
            processor = Processor(query, function)
            plain: Callable[[Any], Any] = lambda result: self._undelivered.append((processor, result))  # noqa: E731
        else:
            plain = lambda result: asyncio.run_coroutine_threadsafe(function(result), loop).result()  # noqa: E731
        plain.__qualname__ = function_name(function)
        return await self._run(self._cep.add_output_processor, query, plain, batch, name=name)

    async def run(self, poll: Any = POLL) -> None:
        """`Bridge.run`, during which other tasks may use the bridge. `await cep.stop()` or a cancellation ends it."""
        pauses = Pauses(poll)
        try:
            if not self._stopped.is_set():
                await self._run(self._cep._warn_without_tables)
            with contextlib.closing(Sleeper(self._cep._runner.database, self._stopped.is_set)) as sleeper:
                while not self._stopped.is_set():
                    errors: list[ProcessorFailure] = []
                    rows = 1
                    try:
                        rows = await self._run(self._cep._step, errors)
                    except ProcessorError as error:  # raised by a coroutine function
                        errors += raised_by(error)
                    log_errors(errors)
                    await self._sleep(sleeper, pauses.after(rows))
        finally:
            self._stopped.clear()

    async def _sleep(self, sleeper: Sleeper, seconds: float) -> None:
        """Sleeps for this time or until `stop`. A long sleep is in a thread; a cancellation waits for its end."""
        if seconds <= STOP_INTERVAL:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), seconds)
            return
        sleeping = asyncio.ensure_future(asyncio.to_thread(sleeper.sleep, seconds))
        try:
            await asyncio.shield(sleeping)
        except asyncio.CancelledError:
            self._stopped.set()  # ends the sleep, until `run` ends
            await sleeping
            raise

    async def stop(self) -> None:
        """Ends `run` after the rows that it is pushing. If `run` is not active, this ends the next one."""
        self._stopped.set()

    async def _run(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if self._is_closed:  # the bridge itself refuses the calls that are no longer possible
            return function(*arguments, **options)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, functools.partial(function, *arguments, **options))
        finally:
            await self._deliver()

    async def _deliver(self) -> None:
        """Awaits the processors for all results so far. Raises `ProcessorError` at the end if one of them raised."""
        if self._delivering:
            return
        self._delivering = True
        errors: list[ProcessorFailure] = []
        try:
            while self._undelivered:
                processor, result = self._undelivered.popleft()
                try:
                    await processor.function(result)
                except Exception as error:
                    errors.append(ProcessorFailure(error, str(processor)))
        finally:
            self._delivering = False
        if errors:
            raise failure(errors) from errors[0].error

    async def __aenter__(self) -> AsyncBridge:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._run(self._cep.__exit__, kind, error, traceback)
        finally:
            self._is_closed = True
            self._executor.shutdown(wait=False)


def _settle(done: asyncio.Future[None]) -> None:
    if not done.done():  # it may have been cancelled
        done.set_result(None)


class Opening:
    """The result of `connect`: it opens a bridge when it is awaited or entered by `async with`."""

    def __init__(self, open_bridge: Callable[[], Bridge]) -> None:
        self._open = open_bridge
        self._bridge: AsyncBridge | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"the bridge is not open yet: async with connect(…) as cep, or cep = await connect(…), has {name!r}"
        )

    def __enter__(self) -> NoReturn:
        raise TypeError("a bridge for asyncio is opened by async with: async with connect(…) as cep")

    def __exit__(self, *_: object) -> None: ...

    def __await__(self) -> Any:
        return self._opened().__await__()

    async def _opened(self) -> AsyncBridge:
        executor = concurrent.futures.ThreadPoolExecutor(1, "cep-bridge")
        self._bridge = AsyncBridge(await asyncio.get_running_loop().run_in_executor(executor, self._open), executor)
        return self._bridge

    async def __aenter__(self) -> AsyncBridge:
        return await self._opened()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._bridge is not None
        await self._bridge.__aexit__(kind, error, traceback)


def connect(database: Any = IN_MEMORY, **options: Any) -> Opening:
    """Opens a bridge for asyncio, with the arguments of `bridge.connect`.

    Returns:
        An object that opens an `AsyncBridge` when it is awaited or entered by `async with`.

    >>> async def main():
    ...     async with connect() as cep:
    ...         await cep.register_stream("s", "a INTEGER")
    ...         await cep.create_query("high", "SELECT a FROM s WHERE a > 5")
    ...         async def mail(event):
    ...             await asyncio.sleep(0)
    ...             print(event.payload)
    ...         await cep.add_output_processor("high", mail)
    ...         await cep.push_event("s", [7], 1000)
    >>> asyncio.run(main())
    {'a': 7}
    """
    return Opening(functools.partial(connect_here, database, **options))
