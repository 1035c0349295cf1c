"""The experiment: first all systems must report the same rows, then each of them is measured."""

from __future__ import annotations

import dataclasses
import operator
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bridge.bench.systems import (
    BridgeSystem,
    Latency,
    LocalSystem,
    PaperSystem,
    RefusedError,
    ResultRows,
    System,
    Timing,
    groups_in_turns,
    measure_in_turns,
)
from bridge.bench.workloads import MIXED, MIXED_COUNT, WORKLOADS, Workload
from bridge.errors import BridgeError

CHECKED = 1_000
"""The milliseconds of events in each check."""

Progress = Callable[[str, float], None]
"""Called with a description of the current work, and the part that is done, from 0 to 1."""


@dataclasses.dataclass(frozen=True)
class ExperimentSettings:
    """The settings of the experiment. `seconds` and `runs` are per figure; `drives`: the numbers of events per push."""

    databases: Sequence[str] = ("duckdb://", "sqlite://")
    counts: Sequence[int] = (1, 10, 80)
    drives: Sequence[int] = (1, 1_000, 100_000)
    operators: Sequence[str] = (*(each.key for each in WORKLOADS), MIXED.key)
    seconds: float = 3.0
    runs: int = 5
    peers: Sequence[System] = ()

    @property
    def workloads(self) -> list[tuple[Workload, int]]:
        """Each workload with each number of queries; the mixed workload has its own number."""
        pairs = [(workload, count) for workload in WORKLOADS for count in self.counts]
        return [pair for pair in [*pairs, (MIXED, MIXED_COUNT)] if pair[0].key in self.operators]

    @property
    def systems(self) -> list[System]:
        """All systems: per database the baseline, then this bridge; then the peers."""
        return [*(system for url in self.databases for system in self._systems(url)), *self.peers]

    def _systems(self, url: str) -> list[System]:
        return [PaperSystem(url), *(BridgeSystem(url, drive) for drive in self.drives)]


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Events per second of a workload on one system, whose name is `side`; `refused`: the reason if there are none.

    `batch`: the number of events per push. `latency`: the latency of a push, if known.
    """

    operator: str
    count: int
    database: str
    side: str
    rates: tuple[float, ...] = ()
    batch: int = 1
    refused: str | None = None
    latency: Latency | None = None

    @property
    def median(self) -> float | None:
        """The median of the rates."""
        return statistics.median(self.rates) if self.rates else None


class DifferenceError(BridgeError):
    """Two systems do not report the same rows."""


def check(settings: ExperimentSettings, progress: Progress) -> None:
    """Raises DifferenceError unless all systems report the same rows: query, timestamp and values."""
    cases = [(workload, count, system) for workload, count in settings.workloads for system in settings.systems]
    expected: dict[tuple[str, int], ResultRows] = {}
    for done, (workload, count, system) in enumerate(cases):
        progress(f"check {workload.name} × {count}, {system.database} {system.name}", done / len(cases))
        whole = range(CHECKED)
        if (workload.key, count) not in expected:
            expected[workload.key, count] = BridgeSystem(settings.databases[0], CHECKED).rows(workload, count, whole)
        checked = _last(count) if _is_slow(system) else whole
        try:
            rows = system.rows(workload, count, checked)
        except RefusedError:
            continue
        if difference := first_difference(expected[workload.key, count], rows, checked):
            raise DifferenceError(f"{workload.name}, Count = {count}, {system.database} {system.name}: {difference}")


def _is_slow(system: System) -> bool:
    return isinstance(system, PaperSystem) or (isinstance(system, BridgeSystem) and system.drive == 1)


def _last(count: int) -> range:
    """The timestamps that are checked event by event: a few at the end, when windows are full."""
    return range(CHECKED - max(20, min(200, 400 // count)), CHECKED)


def first_difference(
    expected: ResultRows,
    actual: ResultRows,
    checked: range | None = None,
    are_equal: Callable[[Any, Any], object] = operator.eq,
) -> str | None:
    """The first difference between results; None if there is none.

    `checked`: the timestamps of the expected rows that count; None for all. `are_equal`: compares two values.

    >>> first_difference({"q": [(1, 7), (2, 8)]}, {"q": [(2, 9)]}, range(2, 3))
    'q reports (2, 9) instead of (2, 8)'
    >>> first_difference({"q": [(1, 7), (2, 8)]}, {"q": [(2, 8)]}, range(2, 3))
    """
    for name, rows in expected.items():
        right = rows if checked is None else [row for row in rows if row[0] in checked]
        found = actual[name]
        for one, other in zip(right, found, strict=False):
            if not all(map(are_equal, one, other)):
                return f"{name} reports {other} instead of {one}"
        if len(right) != len(found):
            return f"{name} reports {len(found)} rows instead of {len(right)}"
    return None


def measure(settings: ExperimentSettings, progress: Progress) -> Iterator[Measurement]:
    """Measures all workloads, one after the other."""
    cases = [
        (workload, count, systems)
        for workload, count in settings.workloads
        for systems in groups_in_turns(settings.systems)
    ]
    for done, (workload, count, systems) in enumerate(cases):
        progress(f"{workload.name} × {count}, {systems[0].database}", done / len(cases))
        yield from _measure(systems, workload, count, settings)


def _measure(
    systems: Sequence[System], workload: Workload, count: int, settings: ExperimentSettings
) -> Iterator[Measurement]:
    try:
        timings = _time(systems, workload, count, settings)
    except RefusedError as error:
        for system in systems:
            yield Measurement(workload.name, count, system.database, system.name, refused=str(error))
        return
    for system, timing in zip(systems, timings, strict=True):
        name, place = workload.name, (system.database, system.name)
        yield Measurement(name, count, *place, timing.rates, timing.batch, latency=timing.latency)


def _time(systems: Sequence[System], workload: Workload, count: int, settings: ExperimentSettings) -> list[Timing]:
    local = [system for system in systems if isinstance(system, LocalSystem)]
    if len(local) == len(systems):
        return measure_in_turns(local, workload, count, settings.seconds, settings.runs)
    return [system.measure(workload, count, settings.seconds, settings.runs) for system in systems]
