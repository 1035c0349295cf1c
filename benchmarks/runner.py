"""Runs workloads: checks that every database and drive reports the same, then measures how fast each one is."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import bridge
from benchmarks.workloads import LONGEST, MIXED, MIXED_COUNT, SCHEMAS, WORKLOADS, Workload, table, triples

WARM = LONGEST + 50
"""So many milliseconds of events fill every window before the clock starts."""

CHECKED = 1500
"""So many milliseconds of events each check takes, the last `SINGLY` of them event by event where that is the drive."""

SINGLY = 25

Tell = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure, and for how long."""

    databases: Sequence[str] = ("duckdb://", "sqlite://")
    counts: Sequence[int] = (1, 80)
    drives: Sequence[int] = (1, 1_000, 100_000)
    seconds: float = 3.0
    runs: int = 3

    def workloads(self) -> Iterator[tuple[Workload, int]]:
        """Each workload with each Count; the mixed one has its own."""
        yield from ((workload, count) for workload in WORKLOADS for count in self.counts)
        yield MIXED, MIXED_COUNT


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Events a second of a workload on a database, pushed `drive` at a time, or `batch` where that takes too long."""

    workload: str
    count: int
    database: str
    drive: int
    batch: int
    rates: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


class DifferenceError(Exception):
    """Two databases or drives do not report the same."""


class Session:
    """A bridge with a workload's queries, its windows not yet filled, and the number of rows that came out so far."""

    def __init__(self, url: str, workload: Workload, count: int, drive: int) -> None:
        self.workload, self.count, self.drive = workload, count, drive
        self.now = 0
        self.rows: dict[str, int] = {}
        self.cep = bridge.connect(url)
        for stream in workload.streams:
            self.cep.register_stream(stream, SCHEMAS[stream])
        for name, text in workload.queries(count).items():
            self.rows[name] = 0
            self.cep.create_query(name, text)
            self.cep.add_output_processor(name, self._counter(name), batch=drive > 1)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.cep.close()

    def _counter(self, name: str) -> Callable[[object], None]:
        def one(_: object) -> None:
            self.rows[name] += 1

        def many(results: object) -> None:
            self.rows[name] += results.num_rows  # type: ignore[attr-defined]

        return many if self.drive > 1 else one

    def batch(self, milliseconds: int) -> Callable[[], int]:
        """The next events, ready to be pushed at once; the call gives their number."""
        start, self.now = self.now, self.now + milliseconds
        tables = {stream: table(stream, start, self.now, self.count) for stream in self.workload.streams}
        if len(tables) > 1:
            return lambda: self.cep.push_tables(tables)
        return lambda: self.cep.push_events(*next(iter(tables.items())))

    def single(self) -> Callable[[], int]:
        """The events of the next millisecond, ready to be pushed one by one."""
        start, self.now = self.now, self.now + 1
        events = triples(self.workload.streams, start, self.now, self.count)

        def push() -> int:
            for event in events:
                self.cep.push_event(*event)
            return len(events)

        return push

    def next(self, events: int) -> Callable[[], int]:
        """So many events ready to be pushed, or a moment's for a drive of one by one."""
        return self.single() if self.drive == 1 else self.batch(max(1, events // len(self.workload.streams)))


def check(settings: Settings, tell: Tell) -> None:
    """Raises `DifferenceError` unless all databases and drives report the same number of rows for every query."""
    for workload, count in settings.workloads():
        first: dict[str, int] | None = None
        for url in settings.databases:
            for drive in settings.drives:
                tell(f"check {workload.name} × {count}, {url}, {drive} at a time")
                found = _rows(url, workload, count, drive)
                first = first or found
                if found != first:
                    name = next(name for name in found if found[name] != first[name])
                    raise DifferenceError(
                        f"{workload.name}, Count = {count}: {name} gives {found[name]} rows on {url} pushed {drive} at "
                        f"a time, {first[name]} on {settings.databases[0]} pushed {settings.drives[0]} at a time"
                    )


def _rows(url: str, workload: Workload, count: int, drive: int) -> dict[str, int]:
    with Session(url, workload, count, drive) as session:
        if drive == 1:
            session.batch(CHECKED - SINGLY)()
        while session.now < CHECKED:
            left = (CHECKED - session.now) * len(workload.streams)
            session.next(min(drive, left))()
        return session.rows


def measure(settings: Settings, tell: Tell) -> Iterator[Measurement]:
    """The measurements, one after the other."""
    for workload, count in settings.workloads():
        for url in settings.databases:
            rate = 0.0
            for drive in sorted(settings.drives):
                tell(f"{workload.name} × {count}, {url}, {drive:,} at a time")
                batch = _affordable(drive, rate, settings.seconds)
                with Session(url, workload, count, batch) as session:
                    session.batch(WARM)()
                    session.next(min(batch, 1_000))()
                    rates = [_rate(session, settings.seconds / settings.runs) for _ in range(settings.runs)]
                found = Measurement(workload.name, count, url, drive, batch, tuple(rates))
                rate = found.median
                yield found


def _affordable(drive: int, rate: float, seconds: float) -> int:
    """The drive, or fewer events at once where, at the rate seen with a smaller drive, one batch takes too long."""
    if drive <= 1_000 or rate * seconds >= drive:
        return drive
    return max(1_000, int(rate * seconds) // 1_000 * 1_000)


def _rate(session: Session, seconds: float) -> float:
    """Events a second over so many seconds, at least over one batch; making the events is not counted."""
    events, spent = 0, 0.0
    while not events or spent < seconds:
        push = session.next(session.drive)
        began = time.perf_counter()
        events += push()
        spent += time.perf_counter() - began
    return events / spent
