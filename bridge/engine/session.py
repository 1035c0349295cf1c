"""The parts of a bridge that replays need beyond its public methods: the catalogue, and pushes without delivery."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bridge.engine.delivery import deliver, deliveries
from bridge.engine.durable import LoggedCall
from bridge.engine.execution.runner import Runner
from bridge.engine.history_push import HistoryEvents, HistoryPush
from bridge.engine.intake import ChunkSizes, EventBatch, merged_chunks
from bridge.engine.results import Results
from bridge.engine.resume import apply
from bridge.engine.watch.watched_table import TableStatus
from bridge.errors import BridgeError
from bridge.query.nodes import Node
from bridge.rewrite.settings import Settings
from bridge.rewrite.state_tables import CLOCK
from windows.databases import Refused
from windows.times import BEGINNING

if TYPE_CHECKING:
    import pyarrow as pa

    from bridge.engine.bridge import Bridge


class Reading(NamedTuple):
    """How far a bridge has read its watched tables.

    events: The number of the newest event. now: Its time, in milliseconds. caught_up_to: The time by the clock up to
    which committed rows were pushed; None without watched tables. tables: The status of each table, by stream. stopped:
    The queries that an error has stopped, with the error.
    """

    events: int
    now: int | None
    caught_up_to: int | None
    tables: dict[str, TableStatus]
    stopped: dict[str, str]


class BridgeSession:
    """A bridge for the engines of a replay; `session_of(cep)` gives it.

    >>> from bridge.engine.connect import connect
    >>> with connect() as cep:
    ...     cep.register_stream("s", "a INTEGER")
    ...     session_of(cep).seq
    0
    """

    def __init__(self, cep: Bridge, runner: Runner) -> None:
        self._cep, self._runner = cep, runner
        self.catalogue = runner.catalogue
        self.database = runner.database

    @property
    def now(self) -> int:
        """The newest time seen, in milliseconds; `BEGINNING` before the first event."""
        return self._runner.now

    @property
    def seq(self) -> int:
        """The number of the newest event; the first is 1."""
        return self._runner.seq

    @property
    def lost(self) -> tuple[str, ...]:
        """Descriptions of the operators whose state the latest replacement of a query has not kept."""
        return self._runner.lost

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """A context whose definitions take effect in one transaction. After an error in it the bridge must be closed.

        Other threads, such as one that reads the status, wait for its end.
        """
        with self._cep._lock:
            try:
                with self._runner.transaction():
                    yield
            except BaseException:
                self._cep._is_void = True
                raise

    def define(self, definition: LoggedCall) -> None:
        """Executes the definition of a query from the catalogue of a durable bridge."""
        apply(definition, self._runner, self._cep._pushes.calls.named)

    @property
    def settings(self) -> Settings:
        """The thresholds for choosing between equivalent methods. A change affects later statements and pushes."""
        return self._runner.network.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._runner.network.settings = settings

    @property
    def sizes(self) -> ChunkSizes:
        """The numbers of events per transaction."""
        return self._cep._pushes.sizes

    @property
    def reorders(self) -> bool:
        """Whether events wait in a reorder buffer (`lateness`)."""
        return self._cep._pushes.reorder is not None

    def expecting(self, trees: Iterable[Node]) -> contextlib.AbstractContextManager[None]:
        """A context to create queries that belong together, one of which may read a table that a later one writes."""
        return self._runner.expecting(trees)

    @contextlib.contextmanager
    def of_replay(self) -> Iterator[None]:
        """A context in which all queries are created: neither further queries nor on-demand queries may follow.

        So tables that only on-demand queries would read are dropped.
        """
        self.settings = dataclasses.replace(self.settings, is_replay=True)
        yield
        self._runner.drop_unread()

    def number_results(self) -> None:
        """From now on results begin with `ts` and `seq`, the number of their event."""
        self._runner.leading_columns = ("ts", "seq")

    def push(self, batches: Sequence[EventBatch], count: int, ts: int, final: bool = False) -> Results:
        """Runs a push in a transaction of its own, without delivery: `count` events up to the time `ts`."""
        with self._runner.transaction_of_push(count):
            return self._runner.run(batches, count, ts, final)

    def history_push(self, queries: Iterable[str], is_sequence: bool) -> HistoryPush | None:
        """The statements of queries over a history without state; None if these or other queries need state.

        `is_sequence`: each slice of the history continues from the one before it.
        """
        is_encoded = any(any(entry.encoders) for entry in self.catalogue.streams.values())
        is_limited = any(entry.limits is not None for entry in self.catalogue.queries.values())
        if is_encoded or is_limited or self.reorders or not self.database.temporary_views:
            return None
        try:
            return HistoryPush(self._runner, queries, is_sequence)
        except NotImplementedError:
            return None

    def numbered(self, tables: Mapping[str, pa.Table]) -> HistoryEvents:
        """The events of several streams, merged by time, and numbered as in a push into a new bridge.

        Each table has the column `ts` and the attributes; at least one of the tables has rows.
        """
        entries = [(self.catalogue.stream_entry(name), rows) for name, rows in tables.items()]
        (chunk,) = merged_chunks(entries, "ts", sum(map(len, tables.values())))
        batches, count, first, last = chunk(0)
        named = [(batch.stream.name, batch.named()) for batch in batches]
        return HistoryEvents({name: rows for name, rows in named if rows is not None}, count, first, last)

    def push_history(self, push: HistoryPush, events: HistoryEvents, until: int | None, is_last: bool) -> None:
        """Delivers the results of these events, after which time passes to `until`. `is_last`: no events follow."""

        def run() -> None:
            results = push.run(events, events.last if until is None else max(until, events.last), is_last)
            deliver(collections.deque(deliveries(results)), [])

        self._cep._call(run)

    def operators(self) -> Sequence[Any]:
        """The operators of all queries, inputs before their readers."""
        return self._runner.network.operators

    @contextlib.contextmanager
    def receiving_history(self) -> Iterator[None]:
        """A context in which the bridge's clock stands still. After an error its new streams and queries are removed.

        The time of the bridge stays at the events that were pushed. Raises `BridgeError` for a bridge with a clock that
        already has queries or events, as their time cannot go back to a history.
        """
        cep = self._cep
        with cep._lock:
            if cep._clock is not None:
                if cep.queries or self.seq:
                    raise BridgeError(
                        "a bridge whose time is the clock's takes a history only before its first query and event: replay "
                        "into it first, or into one without clock="
                    )
                self._runner.resume(BEGINNING, 0)
            before = {*cep.queries, *cep.streams}
            try:
                yield
            except BaseException:
                self._remove_all_but(before)
                raise

    def _remove_all_but(self, names: set[str]) -> None:
        """Removes queries, the newest first, and then streams."""
        for remove, there in (self._cep.remove_query, self._cep.queries), (self._cep.remove_stream, self._cep.streams):
            for name in reversed([name for name in there if name not in names]):
                with contextlib.suppress(BridgeError):
                    remove(name)

    def reading(self, seconds: float) -> Reading | None:
        """How far watched tables have been read; None if the bridge is busy for `seconds`, or closed."""
        cep = self._cep
        if not cep._lock.acquire(timeout=seconds):
            return None
        try:
            if cep._closed:
                return None
            now = None if self.now == BEGINNING else self.now
            queries = self.catalogue.queries.values()
            stopped = {entry.name: entry.stopped for entry in queries if entry.stopped and not entry.is_internal}
            return Reading(self.seq, now, cep._watcher.horizon, cep._watcher.status(), stopped)
        except Refused:
            return None
        finally:
            cep._lock.release()

    # State -------------------------------------------------------------------------------------------------------------

    def state_tables(self) -> list[str]:
        """The tables that one push leaves for the next: the clock, and the operators' tables without their inboxes."""
        operators = self.operators()
        inboxes = {inbox for operator in operators for inbox in operator.inboxes}
        tables = (made.name for operator in operators for made in operator.tables)
        return [self.database.own_name(CLOCK), *(name for name in tables if name not in inboxes)]

    def purge(self) -> None:
        """Removes expired rows from the state."""
        self._runner.purge()

    @contextlib.contextmanager
    def replacing_state(self, now: int, seq: int) -> Iterator[None]:
        """A context in which the caller writes the state's tables. `now`, `seq`: time and number of the newest event.

        Steps forget what they have in memory, so that they read the tables again.
        """
        with self._runner.transaction_of_push():
            yield
        self._runner.resume(now, seq)


def session_of(cep: Bridge) -> BridgeSession:
    """The session of a bridge."""
    return BridgeSession(cep, cep._runner)
