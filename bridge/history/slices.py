"""A replay on all cores: bridges compute slices of time in parallel, and the results are put in order.

A result that looks back for a bounded time depends only on the events of that time. So each slice is pushed after the
events that its results look back at, and only the results of its own time are taken (`bridge.history.pieces`).
"""

from __future__ import annotations

import collections
import copy
import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa

from bridge.engine.bridge import Bridge
from bridge.engine.history_push import HistoryEvents
from bridge.engine.session import session_of
from bridge.errors import BridgeError
from bridge.history.pieces import look_back
from bridge.query.nodes import walk
from bridge.query.scripts import IntoTable, ReadSQL, UpdateSQL
from bridge.sources.merge import BYTES, Chunk, drop_before, row_count
from bridge.sources.relations import create_relation, whole_table
from nfa.arrays.compiled import cores
from nfa.errors import BudgetError, ExhaustedError
from windows.databases import open_database
from windows.schema import Schema

if TYPE_CHECKING:
    from bridge.history.script import ReplayScript

EVENTS = 400_000
"""A slice ends when it has this many events, or `BYTES` of them."""

QUEUE = 2
"""A new worker starts when every other one has this many slices. For cheap queries, where reading takes longest, one
worker suffices.
"""

COPIED = 2**26
"""Relations up to this number of bytes are copied for each worker."""


class Slice(Protocol):
    """The events from `first` to `until`, both included, and the earlier events that their results look back at.

    `first` is None for the first slice. `until` is None for the slice at which reading ended; that is the `last` one
    unless reading failed.
    """

    @property
    def first(self) -> int | None: ...
    @property
    def until(self) -> int | None: ...
    @property
    def last(self) -> bool: ...

    def overlaps(self) -> bool:
        """Whether it looks back at so many events that it should continue where the previous slice ended."""

    def chunks(self, cep: Bridge, begin: int | None) -> Iterator[Chunk]:
        """The events of the slice after earlier ones, from the timestamp `begin`.

        Raises StateNeeded where that is impossible.
        """

    def whole(self, cep: Bridge) -> HistoryEvents | None:
        """All of these events at once, for the statements of this bridge; None if there are none."""


class ChunkSlice(NamedTuple):
    """A slice of chunks that have been read. `streams`: the order of events with equal timestamps."""

    streams: Sequence[str]
    before: list[Chunk]
    events: list[Chunk]
    first: int | None
    until: int | None
    last: bool = False

    def overlaps(self) -> bool:
        return 2 * sum(map(row_count, self.before)) > sum(map(row_count, self.events))

    def chunks(self, cep: Bridge, begin: int | None) -> Iterator[Chunk]:
        if begin is not None:
            yield from drop_before(self.before, begin)
        yield from self.events

    def whole(self, cep: Bridge) -> HistoryEvents | None:
        parts = [*self.before, *self.events]
        found = {name: [part[name] for part in parts if name in part] for name in self.streams}
        tables = {name: pa.concat_tables(rows) for name, rows in found.items() if rows}
        return session_of(cep).numbered(tables) if tables else None


def is_pure(cep: Bridge, script: ReplayScript) -> bool:
    """Whether results depend only on events, and no query writes."""
    if script.tables or script.graphs or not script.queries:
        return False
    catalogue = session_of(cep).catalogue
    nodes = [below for name in script.queries for below in walk(catalogue.query_entry(name).resolved.node)]
    return not any(isinstance(node, (IntoTable, ReadSQL, UpdateSQL)) for node in nodes)


def script_look_back(cep: Bridge, script: ReplayScript) -> int | None:
    """How far the results of all queries look back, in milliseconds; None: without bound."""
    catalogue = session_of(cep).catalogue
    backs = [look_back(name, catalogue) for name in script.queries]
    return None if None in backs else max(back for back in backs if back is not None)


def workers_for(
    cep: Bridge,
    script: ReplayScript,
    inferred: Mapping[str, Schema],
    relations: Mapping[str, Any],
    take: Callable[[str, pa.Table], None],
) -> Workers | None:
    """Workers for a script that is installed in `cep`, a bridge in memory; None if it has to be computed in one piece.

    `inferred`: the schemas of streams that the script does not declare. `take(query, table)` receives the results.
    """
    if not is_pure(cep, script):
        return None
    back = script_look_back(cep, script)
    copied = sum(whole_table(name, data).nbytes for name, data in relations.items()) if back is not None else 0
    if (back is not None and cores() == 1) or copied > COPIED:
        return None

    own = copy.deepcopy(script)  # threads must not share trees that the first bridge still renders

    def new_bridge() -> Bridge:
        other = Bridge(open_database())
        for name, data in relations.items():
            create_relation(other.database, name, data)
        with session_of(other).of_replay():
            copy.deepcopy(own).install(other, inferred)
        return other

    workers = Workers(cep, script.queries, back, new_bridge, take)
    if back is None and not workers.without_state:
        workers.close()
        return None
    return workers


def slices(chunks: Iterator[Chunk], streams: Iterable[str], back: int) -> Iterator[ChunkSlice]:
    """The history in slices, cut between two timestamps. An error of reading is raised after the slice before it.

    `streams`: the order of events with equal timestamps.

    >>> def chunk(*times):
    ...     return {"s": pa.table({"ts": times})}
    >>> cut = list(slices(iter([chunk(*range(EVENTS)), chunk(EVENTS + 5, EVENTS + 6)]), "s", back=10))
    >>> [(each.first, each.until, each.last) for each in cut]
    [(None, 400004, False), (400005, None, True)]
    >>> cut[1].before[0]["s"]["ts"].to_pylist()
    [399994, 399995, 399996, 399997, 399998, 399999]
    """
    order = list(streams)
    before: list[Chunk] = []
    events: list[Chunk] = []
    first: int | None = None
    rows = size = 0
    stop: BaseException | None = None
    try:
        for chunk in chunks:
            start = min(_time(table, 0) for table in chunk.values())
            if (rows >= EVENTS or size >= BYTES) and start > max(_time(table, -1) for table in events[-1].values()):
                yield ChunkSlice(order, before, events, first, start - 1)
                before = list(drop_before([*before, *events], start - back - 1))
                events, first, rows, size = [], start, 0, 0
            events.append(chunk)
            rows += row_count(chunk)
            size += sum(table.nbytes for table in chunk.values())
    except Exception as error:
        stop = error
    yield ChunkSlice(order, before, events, first, None, last=stop is None)
    if stop is not None:
        raise stop


class End(NamedTuple):
    """The end of a history: the `time` of the end, if given, and the last call for its bridge."""

    time: int | None
    finish: Callable[[Bridge], None]


class StateNeeded(Exception):
    """Raised if a slice can neither be computed at once, nor be pushed without the state of all earlier events."""


class SliceResult(NamedTuple):
    """The results of a slice by query, and the error that stopped it."""

    results: dict[str, list[pa.Table]]
    stop: Exception | None


class Worker:
    """A bridge with a thread of its own, which computes one slice after the other."""

    def __init__(self, cep: Bridge, queries: Iterable[str], back: int | None) -> None:
        self.cep = cep
        self._back = back or 0
        self._thread = ThreadPoolExecutor(1, "replay")
        self._tasks: list[Future[SliceResult]] = []
        self._pushed_until: int | None = None
        """All events up to this timestamp are in the bridge, as far as later results look back at them."""
        self._results: dict[str, list[pa.Table]] = {name: [] for name in queries}
        self._handles = [
            cep.add_output_processor(name, tables.append, batch=True) for name, tables in self._results.items()
        ]
        self._lacks_state = False
        """Whether a slice could not be continued, so that later slices cannot be computed either."""
        self.history = session_of(cep).history_push(self._results, back is None)
        """Computes a slice at once, without tables of state; None if that is impossible."""

    def submit(self, part: Slice, end: End) -> Future[SliceResult]:
        """Queues a slice. The bridge is finished after the last one."""
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(self._thread.submit(self._run, part, end))
        return self._tasks[-1]

    @property
    def queued(self) -> int:
        """The number of slices that are not finished."""
        return sum(not task.done() for task in self._tasks)

    def close(self) -> None:
        """Ends the thread after its current slice."""
        self._thread.shutdown(cancel_futures=True)
        while self._handles:
            self.cep.remove_output_processor(self._handles.pop())

    def _run(self, part: Slice, end: End) -> SliceResult:
        stop: Exception | None = None
        try:
            if self._lacks_state:
                raise StateNeeded
            if not self._compute(part, end):
                self._push(part)
            if part.last:
                end.finish(self.cep)
        except Exception as error:
            self._lacks_state = isinstance(error, StateNeeded)
            stop = error
        results = {name: [_within(part, table) for table in tables] for name, tables in self._results.items()}
        for tables in self._results.values():
            tables.clear()
        return SliceResult(results, stop)

    def _compute(self, part: Slice, end: End) -> bool:
        """Computes a slice at once, without state, if it does not depend on the previous one.

        Returns whether it did.
        """
        if self.history is None or part.overlaps():
            return False
        until = end.time if part.last else part.until
        try:
            events = part.whole(self.cep)
            if events is not None:
                session_of(self.cep).push_history(self.history, events, until, part.last)
        except (BridgeError, BudgetError, ExhaustedError):
            return False  # a push in chunks tells which event was wrong
        return events is not None

    def _push(self, part: Slice) -> None:
        begin = None if part.first is None else part.first - self._back - 1
        if begin is not None and self._pushed_until is not None:
            begin = max(begin, self._pushed_until + 1)
        for chunk in part.chunks(self.cep, begin):
            self.cep.push_tables(chunk)
        if part.until is not None and self.cep.now != part.until:
            self.cep.advance_time(part.until)
        self._pushed_until = part.until


class Workers:
    """Workers with the same queries, at most one per core: the first has the bridge `cep`, the others `new_bridge()`.

    `take(query, table)` receives the results in order. `back`: that of `script_look_back`; if it is None, the first
    worker continues from slice to slice.
    """

    def __init__(
        self,
        cep: Bridge,
        queries: Iterable[str],
        back: int | None,
        new_bridge: Callable[[], Bridge],
        take: Callable[[str, pa.Table], None],
    ) -> None:
        self.back = back
        self._queries, self._new_bridge, self._take = list(queries), new_bridge, take
        self._taken = dict.fromkeys(self._queries, 0)
        self._workers = [Worker(cep, self._queries, back)]
        self._latest = self._workers[0]
        self._pending: collections.deque[tuple[Slice, Future[SliceResult]]] = collections.deque()

    @property
    def without_state(self) -> bool:
        """Whether slices are computed at once, without tables of state."""
        return self._latest.history is not None

    def feed(
        self,
        parts: Iterable[Slice],
        end: End,
        most: int | None = None,
        taken: Callable[[Slice], None] = lambda part: None,
    ) -> None:
        """Computes the whole history, and finishes the bridge that has its end.

        `most`: the largest number of workers; None: one per core. `taken` is called with each slice after its results
        were taken. An error of reading or of a push is raised after earlier results were taken.
        """
        try:
            for part in parts:
                self._pending.append((part, self._worker_for(part, most or cores()).submit(part, end)))
                if len(self._pending) > cores():
                    taken(self._take_next())
        finally:
            while self._pending:
                taken(self._take_next())

    def take_rest(self) -> None:
        """Takes the results of the first bridge as they come, without the number that were taken before."""
        for name in self._queries:
            self._workers[0].cep.add_output_processor(name, functools.partial(self._take_later, name), batch=True)

    def _take_later(self, name: str, table: pa.Table) -> None:
        known = min(self._taken[name], table.num_rows)
        self._taken[name] -= known
        if known < table.num_rows:
            self._take(name, table.slice(known))

    def _take_next(self) -> Slice:
        """Takes the results of the next slice. After an error, the results of later slices are dropped."""
        part, future = self._pending[0]
        result = future.result()
        try:
            for name, tables in result.results.items():
                for table in tables:
                    self._taken[name] += table.num_rows
                    self._take(name, table)
            if result.stop is not None:
                raise result.stop
        except BaseException:
            self._pending.clear()
            raise
        self._pending.popleft()
        return part

    def _worker_for(self, part: Slice, most: int) -> Worker:
        """The worker with the fewest slices; it may be a new one."""
        if part.first is None or part.overlaps():
            return self._latest
        worker = min(self._workers, key=lambda each: (each.queued, each is not self._latest))
        if worker.queued >= QUEUE and len(self._workers) < most:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the first bridge has warned about the same queries
                worker = Worker(self._new_bridge(), self._queries, self.back)
            self._workers.append(worker)
        self._latest = worker
        return worker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the threads after their current slices, and closes all bridges except the first."""
        for worker in self._workers:
            worker.close()
        for worker in self._workers[1:]:
            worker.cep.close()


def _within(part: Slice, table: pa.Table) -> pa.Table:
    """The results of a slice's own time, without results of the events that it only looks back at."""
    times = table.column(0).to_numpy()
    own = np.ones(len(times), np.bool_) if part.first is None else times >= part.first
    own &= True if part.until is None else times <= part.until
    return table if own.all() else table.filter(pa.array(own))


def _time(table: pa.Table, row: int) -> int:
    ts: int = table.column(0)[row].as_py()
    return ts
