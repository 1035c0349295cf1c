"""A replay on all cores: slices of time go through bridges of their own at once, and their results come in order.

A result that looks back a bounded while is the same in every history with the same events in that while. So a slice is
pushed after the events that its results look back at, and only what it tells of its own time counts (`bridge.history.pieces`).
"""

from __future__ import annotations

import collections
import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from bridge.engine.bridge import Bridge
from bridge.engine.session import session_of
from bridge.history.pieces import reach_back
from bridge.query.nodes import walk
from bridge.query.scripts import IntoTable, ReadSQL, UpdateSQL
from bridge.sources.merge import BYTES, Chunk, drop_before, row_count
from bridge.sources.relations import create_relation, whole_table
from nfa.arrays.compiled import cores
from windows.databases import open_database
from windows.schema import Schema

if TYPE_CHECKING:
    from bridge.history.script import Script

EVENTS = 400_000
"""A slice ends when it has so many events, or `BYTES` of them."""

AHEAD = 2
"""So many slices wait for a bridge before another one is made: of cheap queries reading is the most, and one is enough."""

COPIED = 2**26
"""Relations of so many bytes at most are copied for each bridge."""


class Slice(NamedTuple):
    """The events of a while, `first` and `until` included, after those that their results look back at.

    `until` is None where the reading ended; `last`: nothing comes after it.
    """

    before: list[Chunk]
    events: list[Chunk]
    first: int | None
    until: int | None
    last: bool = False

    def overlaps(self) -> bool:
        """Whether it is better begun where the slice before it ended: it looks back at many events."""
        return 2 * sum(map(row_count, self.before)) > sum(map(row_count, self.events))


def look_back(cep: Bridge, script: Script) -> int | None:
    """How many milliseconds the results of all queries look back; None where one does without bound, or writes."""
    if script.tables or script.graphs or not script.queries:
        return None
    catalogue = session_of(cep).catalogue
    nodes = [below for name in script.queries for below in walk(catalogue.query_entry(name).resolved.node)]
    if any(isinstance(node, (IntoTable, ReadSQL, UpdateSQL)) for node in nodes):
        return None
    backs = [reach_back(name, catalogue) for name in script.queries]
    return None if None in backs else max(back for back in backs if back is not None)


def lanes(
    cep: Bridge,
    script: Script,
    inferred: Mapping[str, Schema],
    relations: Mapping[str, Any],
    take: Callable[[str, pa.Table], None],
) -> Lanes | None:
    """What replays a script that is installed on a database in memory; None where it has to be in one piece."""
    back = look_back(cep, script) if cores() > 1 else None
    if back is None or sum(whole_table(name, data).nbytes for name, data in relations.items()) > COPIED:
        return None

    own = copy.deepcopy(script)  # what the first bridge still renders is not shared with a thread

    def twin() -> Bridge:
        other = Bridge(open_database())
        for name, data in relations.items():
            create_relation(other.database, name, data)
        copy.deepcopy(own).install(other, inferred)
        return other

    return Lanes(cep, script.queries, back, twin, take)


def slices(stretches: Iterator[Chunk], back: int) -> Iterator[Slice]:
    """The history cut between instants; what reading it raises comes after the slice that precedes it.

    >>> def stretch(*times):
    ...     return {"s": pa.table({"ts": times})}
    >>> found = list(slices(iter([stretch(*range(EVENTS)), stretch(EVENTS + 5, EVENTS + 6)]), back=10))
    >>> [(each.first, each.until, each.last) for each in found]
    [(None, 400004, False), (400005, None, True)]
    >>> found[1].before[0]["s"]["ts"].to_pylist()
    [399994, 399995, 399996, 399997, 399998, 399999]
    """
    before: list[Chunk] = []
    events: list[Chunk] = []
    first: int | None = None
    rows = size = 0
    stop: BaseException | None = None
    try:
        for stretch in stretches:
            start = min(_time(table, 0) for table in stretch.values())
            if (rows >= EVENTS or size >= BYTES) and start > max(_time(table, -1) for table in events[-1].values()):
                yield Slice(before, events, first, start - 1)
                before = list(drop_before([*before, *events], start - back - 1))
                events, first, rows, size = [], start, 0, 0
            events.append(stretch)
            rows += row_count(stretch)
            size += sum(table.nbytes for table in stretch.values())
    except Exception as error:
        stop = error
    yield Slice(before, events, first, None, last=stop is None)
    if stop is not None:
        raise stop


class Told(NamedTuple):
    """What a slice tells: its results by query, and the error that stopped it."""

    results: dict[str, list[pa.Table]]
    stop: Exception | None


class Lane:
    """A bridge that gets some of the slices, one after the other, in a thread of its own."""

    def __init__(self, cep: Bridge, queries: Iterable[str], back: int) -> None:
        self.cep = cep
        self._back = back
        self._thread = ThreadPoolExecutor(1, "replay")
        self._begun: list[Future[Told]] = []
        self._seen: int | None = None
        """All events up to this instant that its next results could look back at are in."""
        self._found: dict[str, list[pa.Table]] = {name: [] for name in queries}
        self._handles = [cep.add_output_processor(name, self._found[name].append, batch=True) for name in self._found]

    def begin(self, part: Slice, end: Callable[[Bridge], None]) -> Future[Told]:
        """Starts with a slice, when it is through with the one before; `end` is done after the last."""
        self._begun = [told for told in self._begun if not told.done()]
        self._begun.append(self._thread.submit(self._run, part, end))
        return self._begun[-1]

    @property
    def waiting(self) -> int:
        """How many slices it has begun with and is not through with."""
        return sum(not told.done() for told in self._begun)

    def close(self) -> None:
        """Ends the thread, when it is through with what it has begun."""
        self._thread.shutdown(cancel_futures=True)
        for handle in self._handles:
            self.cep.remove_output_processor(handle)

    def _run(self, part: Slice, end: Callable[[Bridge], None]) -> Told:
        stop: Exception | None = None
        try:
            self._push(part)
            if part.last:
                end(self.cep)
        except Exception as error:
            stop = error
        told = {name: [_within(part, table) for table in tables] for name, tables in self._found.items()}
        for tables in self._found.values():
            tables.clear()
        return Told(told, stop)

    def _push(self, part: Slice) -> None:
        if part.first is not None:
            begin = part.first - self._back - 1
            for stretch in drop_before(part.before, begin if self._seen is None else max(begin, self._seen + 1)):
                self.cep.push_tables(stretch)
        for stretch in part.events:
            self.cep.push_tables(stretch)
        if part.until is not None and self.cep.now != part.until:
            self.cep.advance_time(part.until)
        self._seen = part.until


class Lanes:
    """Bridges with the same queries, at most as many as there are cores: `cep`, and what `twin` makes when it is needed.

    Of results, `take(query, table)` is told in their order; `back` is what `look_back` says.
    """

    def __init__(
        self,
        cep: Bridge,
        queries: Iterable[str],
        back: int,
        twin: Callable[[], Bridge],
        take: Callable[[str, pa.Table], None],
    ) -> None:
        self._queries, self._back, self._twin, self._take = list(queries), back, twin, take
        self._lanes = [Lane(cep, self._queries, back)]
        self._last = self._lanes[0]
        self._waiting: collections.deque[Future[Told]] = collections.deque()

    def feed(self, stretches: Iterator[Chunk], end: Callable[[Bridge], None]) -> None:
        """Runs it all, and does `end` to the bridge that has the end of the history.

        What cannot be read, or refuses an event, is raised after the results before it were taken.
        """
        try:
            for part in slices(stretches, self._back):
                self._waiting.append(self._lane(part).begin(part, end))
                if len(self._waiting) > cores():
                    self._settle()
        finally:
            while self._waiting:
                self._settle()

    def _settle(self) -> None:
        """Has the results of the next slice taken; nothing that follows is, where not all of it was."""
        told = self._waiting[0].result()
        try:
            for name, tables in told.results.items():
                for table in tables:
                    self._take(name, table)
            if told.stop is not None:
                raise told.stop
        except BaseException:
            self._waiting.clear()
            raise
        self._waiting.popleft()

    def _lane(self, part: Slice) -> Lane:
        """What a slice goes to: the one that has least to do, which may be a new one."""
        if part.first is None or part.overlaps():
            return self._last
        found = min(self._lanes, key=lambda lane: (lane.waiting, lane is not self._last))
        if found.waiting >= AHEAD and len(self._lanes) < cores():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its queries was warned before
                found = Lane(self._twin(), self._queries, self._back)
            self._lanes.append(found)
        self._last = found
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self._lanes:
            lane.close()
        for lane in self._lanes[1:]:
            lane.cep.close()


def _within(part: Slice, table: pa.Table) -> pa.Table:
    """The results of a slice's own time: others are of events that it only looks back at."""
    times = table.column(0).to_numpy()
    kept = np.ones(len(times), np.bool_) if part.first is None else times >= part.first
    kept &= True if part.until is None else times <= part.until
    return table if kept.all() else table.filter(pa.array(kept))


def _time(table: pa.Table, row: int) -> int:
    ts: int = table.column(0)[row].as_py()
    return ts
