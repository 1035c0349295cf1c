"""The systems under test: this bridge, with one or many events per push, and the paper's algorithm.

`peers` has others.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from bridge.bench.paper import PaperBridge
from bridge.bench.workloads import LONGEST, SCHEMAS, Workload, columns, table, triples
from bridge.engine.bridge import Bridge
from bridge.engine.connect import connect
from bridge.engine.event import Event
from windows.databases.urls import is_in_memory

ResultRows = dict[str, list[tuple[Any, ...]]]
"""The results by query, as sorted rows (ts, values …); systems may order results of one timestamp differently."""

Push = Callable[[], int]
"""Pushes events that were made before, and returns their number."""

TimedPushes = Sequence[tuple[int, float]]
"""The events and the seconds of each push."""

WARM = LONGEST + 50
"""The milliseconds of events that fill every window before measuring starts."""

LONGEST_PATTERN = 5
"""A number of events greater than the length of the experiment's pattern."""


FIRST_DRIVE = 1_000
"""The number of events in the first push, which is not measured.

Its time determines how many events a push may have.
"""


class RefusedError(Exception):
    """Raised if a system does not take part in a workload; the message tells why."""


class System(Protocol):
    """A system that runs the queries. Raises RefusedError if it cannot."""

    @property
    def name(self) -> str: ...

    @property
    def database(self) -> str:
        """The URL of the database; the name of the engine if it has none."""

    def rows(self, workload: Workload, count: int, checked: range) -> ResultRows:
        """The results with timestamps in `checked`, for the events from 0 to the end of `checked`."""

    def measure(self, workload: Workload, count: int, seconds: float, runs: int) -> Timing:
        """Measures `runs` runs, of about `seconds` seconds in total. Windows are full from the start."""


@dataclasses.dataclass(frozen=True)
class Latency:
    """The median and the 99th percentile of the latency of a push, in milliseconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        """The latency of pushes that took these numbers of seconds.

        >>> Latency.of([0.002] * 98 + [0.5, 0.7])
        Latency(p50=2.0, p99=500.0)
        """
        return cls(percentile(seconds, 50) * 1e3, percentile(seconds, 99) * 1e3)


def percentile(values: Sequence[float], percent: float) -> float:
    """A percentile of the values, by the nearest rank; it is one of the values.

    >>> percentile([3, 1, 2, 4], 50), percentile([3, 1, 2, 4], 99)
    (2, 4)
    """
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


@dataclasses.dataclass(frozen=True)
class Timing:
    """The events per second of each run, the number of events per push, and the latency over all runs, if known.

    If the number is 1, a push has one event of each stream, and the latency is the mean of these events.
    """

    rates: tuple[float, ...]
    batch: int = 1
    latency: Latency | None = None


class EventRun(abc.ABC):
    """Queries on a database, to which events are pushed."""

    @abc.abstractmethod
    def close(self) -> None: ...

    @abc.abstractmethod
    def warm_up(self) -> None:
        """Fills the windows."""

    @abc.abstractmethod
    def next(self, most: int) -> Push:
        """The next push, of at most `most` events, but at least of the next event or the next millisecond."""

    def batch(self, most: int) -> int:
        """The number of events of such a push."""
        return 1


class WorkloadRun(EventRun):
    """The queries of a workload. Events have increasing timestamps, from 0 on."""

    def __init__(self, workload: Workload, count: int) -> None:
        self.workload, self.count, self.now = workload, count, 0

    def advance(self, milliseconds: int) -> range:
        """The next timestamps; each is used only once."""
        start, self.now = self.now, self.now + milliseconds
        return range(start, self.now)

    def warm_up(self) -> None:
        self.fill(WARM)

    @abc.abstractmethod
    def fill(self, milliseconds: int) -> None:
        """Pushes the next events in the fastest way."""


class LocalSystem(abc.ABC):
    """A system that runs in this process."""

    database: str

    @abc.abstractmethod
    def open(self, workload: Workload, count: int, collect: Callable[[str, Any], None]) -> WorkloadRun:
        """Starts the queries. `collect(query, results)` receives events or Arrow tables."""

    def rows(self, workload: Workload, count: int, checked: range) -> ResultRows:
        results_by_query: ResultRows = {name: [] for name in workload.queries(count)}

        def collect(name: str, results: Any) -> None:
            results_by_query[name] += (row for row in rows_of(results) if row[0] in checked)

        with contextlib.closing(self.open(workload, count, collect)) as run:
            run.fill(checked.start)
            while run.now < checked.stop:
                run.next((checked.stop - run.now) * len(workload.streams))()
        return {name: sorted(rows) for name, rows in results_by_query.items()}

    def measure(self, workload: Workload, count: int, seconds: float, runs: int) -> Timing:
        (timing,) = measure_in_turns([self], workload, count, seconds, runs)
        return timing


class HasDatabase(Protocol):
    """A system on a database."""

    @property
    def database(self) -> str: ...


OnDatabase = TypeVar("OnDatabase", bound=HasDatabase)


def groups_in_turns(systems: Sequence[OnDatabase]) -> Iterator[list[OnDatabase]]:
    """Groups of systems that can be measured in turns. Systems that would share a database are in different groups."""
    for database, group in itertools.groupby(systems, lambda system: system.database):
        if is_in_memory(database):
            yield list(group)
        else:
            yield from ([system] for system in group)


def measure_in_turns(
    systems: Sequence[LocalSystem], workload: Workload, count: int, seconds: float, runs: int
) -> list[Timing]:
    """Measures systems in turns, so that other load on the machine affects all of them."""
    return measure_runs([functools.partial(system.open, workload, count, drop) for system in systems], seconds, runs)


def measure_runs(starts: Sequence[Callable[[], EventRun]], seconds: float, runs: int) -> list[Timing]:
    """Starts runs, and measures them in turns."""
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(contextlib.closing(start())) for start in starts]
        most = [_warm_up(run, seconds, runs) for run in running]
        rounds = [
            [timed_pushes(run, each, seconds / runs) for run, each in zip(running, most, strict=True)]
            for _ in range(runs)
        ]
        batches = [run.batch(each) for run, each in zip(running, most, strict=True)]
    return [timing_of(each, batch) for each, batch in zip(zip(*rounds, strict=True), batches, strict=True)]


def timing_of(runs: Sequence[TimedPushes], batch: int) -> Timing:
    """The timing of runs of pushes of `batch` events."""
    seconds = [spent / events if batch == 1 else spent for pushes in runs for events, spent in pushes]
    return Timing(tuple(map(_rate_of, runs)), batch, Latency.of(seconds))


def _warm_up(run: EventRun, seconds: float, runs: int) -> int:
    """Fills the windows and prepares statements.

    Returns the number of events that a push can have without taking too long.
    """
    run.warm_up()
    slow = rate(run, FIRST_DRIVE, seconds / runs / 4)
    return FIRST_DRIVE if slow * seconds < FIRST_DRIVE else int(slow * seconds)


def drop(name: str, results: Any) -> None:
    """Drops the results, as only their delivery is measured."""


def rows_of(results: Any) -> Iterator[tuple[Any, ...]]:
    """The rows (ts, values …) of an event or an Arrow table."""
    if isinstance(results, Event):
        return iter([(results.timestamp, *results.payload.values())])
    return zip(*(column.to_pylist() for column in results.columns), strict=True)


def timed_pushes(run: EventRun, most: int, seconds: float) -> TimedPushes:
    """Pushes for `seconds` seconds, or one push if that takes longer. The time to make the events does not count."""
    pushes: list[tuple[int, float]] = []
    spent = 0.0
    while not pushes or spent < seconds:
        push = run.next(most)
        start = time.perf_counter()
        events = push()
        pushes.append((events, time.perf_counter() - start))
        spent += pushes[-1][1]
    return pushes


def rate(run: EventRun, most: int, seconds: float) -> float:
    """The number of events per second of such pushes."""
    return _rate_of(timed_pushes(run, most, seconds))


def _rate_of(pushes: TimedPushes) -> float:
    return sum(events for events, _ in pushes) / sum(seconds for _, seconds in pushes)


# The paper's algorithm ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class PaperSystem(LocalSystem):
    """The paper's algorithm, the baseline, which only takes single events."""

    database: str
    name: str = "paper"

    def open(self, workload: Workload, count: int, collect: Callable[[str, Any], None]) -> WorkloadRun:
        cep = PaperBridge(self.database)
        _install(cep, workload, count, collect)
        return PaperRun(workload, count, cep)


class PaperRun(WorkloadRun):
    """A workload in the paper's algorithm."""

    def __init__(self, workload: Workload, count: int, cep: PaperBridge) -> None:
        super().__init__(workload, count)
        self.cep = cep

    def close(self) -> None:
        self.cep.close()

    def fill(self, milliseconds: int) -> None:
        timestamps = self.advance(max(0, milliseconds - LONGEST_PATTERN))
        last = timestamps[-WARM:]
        if last:
            for stream in self.workload.streams:
                values = columns(stream, last.start, last.stop, self.count)
                self.cep.fill(stream, list(zip(*(column.tolist() for column in values.values()), strict=True)))
        for _ in range(milliseconds - len(timestamps)):
            self.next(1)()

    def next(self, most: int) -> Push:
        return _next_events(self, self.cep.push_event)


# This bridge ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BridgeSystem(LocalSystem):
    """This bridge, with `drive` events of all streams per push."""

    database: str
    drive: int

    @property
    def name(self) -> str:
        return f"{self.drive:,} at a time"

    def open(self, workload: Workload, count: int, collect: Callable[[str, Any], None]) -> WorkloadRun:
        cep = connect(self.database, durable=False)
        _install(cep, workload, count, collect, **({"batch": True} if self.drive > 1 else {}))
        return BridgeRun(workload, count, cep, self.drive)


class BridgeRun(WorkloadRun):
    """A workload in this bridge."""

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
            return _next_events(self, self.cep.push_event)
        return self._batch(max(1, self.batch(most) // len(self.workload.streams)))

    def batch(self, most: int) -> int:
        return min(most, self.drive)

    def _batch(self, milliseconds: int) -> Push:
        timestamps = self.advance(milliseconds)
        names = self.workload.streams
        tables = {stream: table(stream, timestamps.start, timestamps.stop, self.count) for stream in names}
        if len(tables) > 1:
            return lambda: self.cep.push_tables(tables)
        return lambda: self.cep.push_events(*next(iter(tables.items())))


def _install(cep: Any, workload: Workload, count: int, collect: Callable[[str, Any], None], **options: bool) -> None:
    for stream in workload.streams:
        cep.register_stream(stream, SCHEMAS[stream])
    language = (
        {} if workload.language == "sql" else {"language": workload.language}
    )  # the baseline has no such parameter
    for name, text in workload.queries(count).items():
        cep.create_query(name, text, **language)
        cep.add_output_processor(name, lambda results, name=name: collect(name, results), **options)


def _next_events(run: WorkloadRun, push_event: Callable[..., object]) -> Push:
    """A push of the events of the next millisecond, one by one."""
    timestamps = run.advance(1)
    events = triples(run.workload.streams, timestamps.start, timestamps.stop, run.count)

    def push() -> int:
        for event in events:
            push_event(*event)
        return len(events)

    return push
