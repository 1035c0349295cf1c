"""Runs the experiment: first all sides must report the same rows, then each is measured."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence

from bridge.bench.contestants import Baseline, Ours, RefusedError, Rows, Side, Sided, Timing, in_turns
from bridge.bench.workloads import MIXED, MIXED_COUNT, WORKLOADS, Workload
from bridge.errors import BridgeError

CHECKED = 1_000
"""So many milliseconds of events each check takes."""

Tell = Callable[[str, float], None]
"""Is told what is being done, and how much of all is done, from 0 to 1."""


@dataclasses.dataclass(frozen=True)
class ExperimentSettings:
    """What to measure, and for how long."""

    databases: Sequence[str] = ("duckdb://", "sqlite://")
    counts: Sequence[int] = (1, 10, 80)
    drives: Sequence[int] = (1, 1_000, 100_000)
    operators: Sequence[str] = (*(each.key for each in WORKLOADS), MIXED.key)
    seconds: float = 3.0
    runs: int = 5
    peers: Sequence[Side] = ()

    @property
    def workloads(self) -> list[tuple[Workload, int]]:
        """Each workload with each Count; the mixed one has its own."""
        found = [(workload, count) for workload in WORKLOADS for count in self.counts]
        return [pair for pair in [*found, (MIXED, MIXED_COUNT)] if pair[0].key in self.operators]

    @property
    def sides(self) -> list[Side]:
        """All that are measured, those of each database after its baseline."""
        return [*(side for url in self.databases for side in self._sides(url)), *self.peers]

    def _sides(self, url: str) -> list[Side]:
        return [Baseline(url), *(Ours(url, drive) for drive in self.drives)]


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Events a second of a workload on one side; `refused` says why there are none."""

    operator: str
    count: int
    database: str
    side: str
    rates: tuple[float, ...] = ()
    batch: int = 1
    refused: str | None = None

    @property
    def median(self) -> float | None:
        return statistics.median(self.rates) if self.rates else None


class DifferenceError(BridgeError):
    """Two sides do not report the same rows."""


def check(settings: ExperimentSettings, tell: Tell) -> None:
    """Raises DifferenceError unless all sides report the same rows: query, timestamp and values."""
    places = [(workload, count, side) for workload, count in settings.workloads for side in settings.sides]
    expected: dict[tuple[str, int], Rows] = {}
    for done, (workload, count, side) in enumerate(places):
        tell(f"check {workload.name} × {count}, {side.database} {side.name}", done / len(places))
        whole = range(CHECKED)
        if (workload.key, count) not in expected:
            expected[workload.key, count] = Ours(settings.databases[0], CHECKED).rows(workload, count, whole)
        checked = _last(count) if _is_slow(side) else whole
        try:
            found = side.rows(workload, count, checked)
        except RefusedError:
            continue
        if difference := first_difference(expected[workload.key, count], found, checked):
            raise DifferenceError(f"{workload.name}, Count = {count}, {side.database} {side.name}: {difference}")


def _is_slow(side: Side) -> bool:
    return isinstance(side, Baseline) or (isinstance(side, Ours) and side.drive == 1)


def _last(count: int) -> range:
    """The moments that are checked event by event: windows are full, and it does not take minutes."""
    return range(CHECKED - max(20, min(200, 400 // count)), CHECKED)


def first_difference(expected: Rows, found: Rows, checked: range) -> str | None:
    """What is wrong first in the rows of the moments checked.

    >>> first_difference({"q": [(1, 7), (2, 8)]}, {"q": [(2, 9)]}, range(2, 3))
    'q reports (2, 9) instead of (2, 8)'
    >>> first_difference({"q": [(1, 7), (2, 8)]}, {"q": [(2, 8)]}, range(2, 3))
    """
    for name, rows in expected.items():
        wanted = [row for row in rows if row[0] in checked]
        if wanted != found[name]:
            at = next(
                (at for at, (one, other) in enumerate(zip(wanted, found[name], strict=False)) if one != other), None
            )
            if at is not None:
                return f"{name} reports {found[name][at]} instead of {wanted[at]}"
            return f"{name} reports {len(found[name])} rows instead of {len(wanted)}"
    return None


def measure(settings: ExperimentSettings, tell: Tell) -> Iterator[Measurement]:
    """The measurements, a workload after the other."""
    places = [(workload, count, sides) for workload, count in settings.workloads for sides in _groups(settings.sides)]
    for done, (workload, count, sides) in enumerate(places):
        tell(f"{workload.name} × {count}, {sides[0].database}", done / len(places))
        yield from _measured(sides, workload, count, settings)


def _groups(sides: Sequence[Side]) -> Iterator[list[Side]]:
    """Sides that can be measured in turns, as each has a database of its own; the others by themselves."""
    for (_, alone), group in itertools.groupby(sides, lambda side: (side.database, _is_alone(side))):
        if alone:
            yield list(group)
        else:
            yield from ([side] for side in group)


def _is_alone(side: Side) -> bool:
    return isinstance(side, Sided) and side.alone


def _measured(
    sides: Sequence[Side], workload: Workload, count: int, settings: ExperimentSettings
) -> Iterator[Measurement]:
    try:
        timings = _timings(sides, workload, count, settings)
    except RefusedError as error:
        for side in sides:
            yield Measurement(workload.name, count, side.database, side.name, refused=str(error))
        return
    for side, timing in zip(sides, timings, strict=True):
        yield Measurement(workload.name, count, side.database, side.name, timing.rates, timing.batch)


def _timings(sides: Sequence[Side], workload: Workload, count: int, settings: ExperimentSettings) -> list[Timing]:
    ours = [side for side in sides if isinstance(side, Sided)]
    if len(ours) == len(sides):
        return in_turns(ours, workload, count, settings.seconds, settings.runs)
    return [side.measure(workload, count, settings.seconds, settings.runs) for side in sides]
