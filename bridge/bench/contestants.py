"""Who takes part in the experiment: this bridge in each drive, the paper's algorithm; other engines are in `peers`."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from bridge.bench.paper import Paper
from bridge.bench.workloads import LONGEST, SCHEMAS, Workload, columns, table, triples
from bridge.engine.bridge import Bridge
from bridge.engine.connect import connect
from bridge.engine.event import Event

Rows = dict[str, list[tuple[Any, ...]]]
"""Results by query, (ts, values …) each, sorted: sides need not agree on the order of results of one instant."""

Push = Callable[[], int]
"""Pushes what was made ready and gives the number of events."""

WARM = LONGEST + 50
"""So many milliseconds of events fill every window before the clock starts."""

LONGEST_PATTERN = 5
"""More events than a match of the experiment's pattern has."""


TRIED = 1_000
"""A drive of more events is tried with so many first; with fewer than it says where one push took too long."""


class RefusedError(Exception):
    """A side does not take part in a workload, and why."""


class Side(Protocol):
    """One way to run the queries. Raises RefusedError where it cannot."""

    @property
    def name(self) -> str: ...

    @property
    def database(self) -> str:
        """The URL, or the name of the engine where there is no database."""

    def rows(self, workload: Workload, count: int, checked: range) -> Rows:
        """The results of the queries whose timestamps are in `checked`, over events from 0 to its end."""

    def measure(self, workload: Workload, count: int, seconds: float, runs: int) -> Timing:
        """The runs together take about so many seconds; windows are full from the start."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """Events a second of each run; `batch`: how many events went in at once."""

    rates: tuple[float, ...]
    batch: int = 1


class Session(abc.ABC):
    """A workload's queries on their database. Each event is at a later millisecond than the ones before, from 0 on."""

    def __init__(self, workload: Workload, count: int) -> None:
        self.workload, self.count, self.now = workload, count, 0

    def advance(self, milliseconds: int) -> range:
        """The moments that come next; they count as past."""
        start, self.now = self.now, self.now + milliseconds
        return range(start, self.now)

    @abc.abstractmethod
    def close(self) -> None: ...

    @abc.abstractmethod
    def fill(self, milliseconds: int) -> None:
        """The next events at once, however that is fast."""

    @abc.abstractmethod
    def next(self, most: int) -> Push:
        """The next push of this drive, of at most so many events, but at least a millisecond's."""

    def batch(self, most: int) -> int:
        """So many events are pushed at once then."""
        return 1


class Sided(abc.ABC):
    """A side that runs in this process, over sessions."""

    database: str

    @abc.abstractmethod
    def opened(self, workload: Workload, count: int, collect: Callable[[str, Any], None]) -> Session:
        """A new session whose results go to `collect` with their query: events, or Arrow tables."""

    def rows(self, workload: Workload, count: int, checked: range) -> Rows:
        found: Rows = {name: [] for name in workload.queries(count)}

        def collect(name: str, results: Any) -> None:
            found[name] += (row for row in _rows(results) if row[0] in checked)

        with contextlib.closing(self.opened(workload, count, collect)) as session:
            session.fill(checked.start)
            while session.now < checked.stop:
                session.next((checked.stop - session.now) * len(workload.streams))()
        return {name: sorted(rows) for name, rows in found.items()}

    def measure(self, workload: Workload, count: int, seconds: float, runs: int) -> Timing:
        (timing,) = in_turns([self], workload, count, seconds, runs)
        return timing

    @property
    def alone(self) -> bool:
        """Whether nobody else can be in its database: it is in memory."""
        return self.database.partition("?")[0] in ("duckdb://", "duckdb:///:memory:", "sqlite://", "sqlite:///:memory:")


def in_turns(sides: Sequence[Sided], workload: Workload, count: int, seconds: float, runs: int) -> list[Timing]:
    """Sides whose runs take turns, so that what else the machine does meets all of them."""
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(contextlib.closing(side.opened(workload, count, _drop))) for side in sides]
        most = [_warmed(session, seconds, runs) for session in sessions]
        rounds = [
            [rate(session, each, seconds / runs) for session, each in zip(sessions, most, strict=True)]
            for _ in range(runs)
        ]
        batches = [session.batch(each) for session, each in zip(sessions, most, strict=True)]
    return [Timing(rates, batch) for rates, batch in zip(zip(*rounds, strict=True), batches, strict=True)]


def _warmed(session: Session, seconds: float, runs: int) -> int:
    """Fills the windows and lets statements be prepared; gives how many events can go in at once without taking long."""
    session.fill(WARM)
    slow = rate(session, TRIED, seconds / runs / 4)
    return TRIED if slow * seconds < TRIED else int(slow * seconds)


def _drop(name: str, results: Any) -> None:
    """A result was handed out: that is all that counts."""


def _rows(results: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(results, Event):
        return iter([(results.timestamp, *results.payload.values())])
    return zip(*(column.to_pylist() for column in results.columns), strict=True)


def rate(session: Session, most: int, seconds: float) -> float:
    """Events a second over so many seconds, at least over one push; making the events is not counted."""
    events, spent = 0, 0.0
    while not events or spent < seconds:
        push = session.next(most)
        began = time.perf_counter()
        events += push()
        spent += time.perf_counter() - began
    return events / spent


# The paper's algorithm ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Baseline(Sided):
    """The paper's algorithm, which knows single events alone."""

    database: str
    name: str = "paper"

    def opened(self, workload: Workload, count: int, collect: Callable[[str, Any], None]) -> Session:
        cep = Paper(self.database)
        _install(cep, workload, count, collect)
        return PaperSession(workload, count, cep)


class PaperSession(Session):
    def __init__(self, workload: Workload, count: int, cep: Paper) -> None:
        super().__init__(workload, count)
        self.cep = cep

    def close(self) -> None:
        self.cep.close()

    def fill(self, milliseconds: int) -> None:
        moments = self.advance(max(0, milliseconds - LONGEST_PATTERN))
        last = moments[-WARM:]
        if last:
            for stream in self.workload.streams:
                found = columns(stream, last.start, last.stop, self.count)
                self.cep.fill(stream, list(zip(*(column.tolist() for column in found.values()), strict=True)))
        for _ in range(milliseconds - len(moments)):
            self.next(1)()

    def next(self, most: int) -> Push:
        return _singly(self, self.cep.push_event)


# This bridge ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Ours(Sided):
    """This bridge: events pushed one by one (`drive` 1), or `drive` events of all streams together at once."""

    database: str
    drive: int

    @property
    def name(self) -> str:
        return f"{self.drive:,} at a time"

    def opened(self, workload: Workload, count: int, collect: Callable[[str, Any], None]) -> Session:
        cep = connect(self.database)
        _install(cep, workload, count, collect, **({"batch": True} if self.drive > 1 else {}))
        return OurSession(workload, count, cep, self.drive)


class OurSession(Session):
    def __init__(self, workload: Workload, count: int, cep: Bridge, drive: int) -> None:
        super().__init__(workload, count)
        self.cep, self.drive = cep, drive

    def close(self) -> None:
        self.cep.close()

    def fill(self, milliseconds: int) -> None:
        if milliseconds:
            self._batch(milliseconds)()

    def next(self, most: int) -> Push:
        if self.drive == 1:
            return _singly(self, self.cep.push_event)
        return self._batch(max(1, self.batch(most) // len(self.workload.streams)))

    def batch(self, most: int) -> int:
        return min(most, self.drive)

    def _batch(self, milliseconds: int) -> Push:
        moments = self.advance(milliseconds)
        names = self.workload.streams
        tables = {stream: table(stream, moments.start, moments.stop, self.count) for stream in names}
        if len(tables) > 1:
            return lambda: self.cep.push_tables(tables)
        return lambda: self.cep.push_events(*next(iter(tables.items())))


def _install(cep: Any, workload: Workload, count: int, collect: Callable[[str, Any], None], **options: bool) -> None:
    for stream in workload.streams:
        cep.register_stream(stream, SCHEMAS[stream])
    language = {} if workload.language == "sql" else {"language": workload.language}  # the baseline knows one
    for name, text in workload.queries(count).items():
        cep.create_query(name, text, **language)
        cep.add_output_processor(name, lambda results, name=name: collect(name, results), **options)


def _singly(session: Session, push_event: Callable[..., object]) -> Push:
    """The events of the next millisecond, one by one."""
    moments = session.advance(1)
    events = triples(session.workload.streams, moments.start, moments.stop, session.count)

    def push() -> int:
        for event in events:
            push_event(*event)
        return len(events)

    return push
