"""The cost of an event as something grows: the history, the window of an aggregate, or the results of a correlation."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bridge.bench.plot import STYLES, pyplot, save
from bridge.bench.report import without_password
from bridge.bench.systems import FIRST_DRIVE, WARM, BridgeSystem, WorkloadRun, rate
from bridge.bench.workloads import WORKLOADS, Workload

HISTORY = "events before"
WINDOW = "rows in the window of an aggregate"
RESULTS = "results per event of a correlation"
CHUNK = 100_000
"""Milliseconds of events per push while windows are filled."""

EQUAL = (50_000, 5_000, 500, 50, 5)
"""One pair of events in each of these numbers has the same value."""

PATIENCE = 1e6
"""Windows grow until a push takes this many microseconds."""


@dataclasses.dataclass(frozen=True)
class ScalingCost:
    """The microseconds per event on a database when `grows` has the size `size`. `line` is the query."""

    database: str
    grows: str
    line: str
    drive: int
    size: float
    microseconds: float


@dataclasses.dataclass(frozen=True)
class Scale:
    """A series of points on a database, with `drive` events per push, up to `most` events, and `seconds` per point."""

    database: str
    drive: int
    most: int
    seconds: float

    @property
    def powers(self) -> list[int]:
        return [10**power for power in range(2, 8) if 10**power <= self.most]

    def point(self, grows: str, line: str, size: float, run: WorkloadRun) -> ScalingCost:
        rate(run, FIRST_DRIVE, self.seconds / 4)
        return ScalingCost(
            without_password(self.database),
            grows,
            line,
            self.drive,
            size,
            1e6 / rate(run, self.drive, self.seconds),
        )


def measure(scale: Scale, of: Sequence[str]) -> Iterator[ScalingCost]:
    """The points of some of `KINDS`, line by line."""
    return itertools.chain.from_iterable(KINDS[kind](scale) for kind in of)


def history(scale: Scale) -> Iterator[ScalingCost]:
    """The operators of Listing 1 with one query. The cost is constant, as no window grows."""
    for workload in WORKLOADS:
        with _running(scale, workload) as run:
            for size in scale.powers[1:]:
                _fill(run, size)
                yield scale.point(HISTORY, workload.name, size, run)


def window(scale: Scale) -> Iterator[ScalingCost]:
    """An aggregate that is updated by rows that enter and leave, and one that is not."""
    for line in ("COUNT(*)", "MAX(a)"):
        for size in scale.powers:
            with _running(scale, _aggregation(line, size)) as run:
                _fill(run, size)
                point = scale.point(WINDOW, line, size, run)
            yield point
            if point.microseconds * point.drive > PATIENCE:
                break


def results(scale: Scale) -> Iterator[ScalingCost]:
    """Windows of 500 ms. What grows is the part of pairs with equal values."""
    for one_in in EQUAL:
        with _running(scale, _correlation(one_in)) as run:
            _fill(run, WARM)
            yield scale.point(RESULTS, "⋈", 500 / one_in, run)


KINDS = {"history": history, "window": window, "results": results}
"""The functions for what may grow."""


def _aggregation(aggregate: str, size: int) -> Workload:
    def alpha(i: int, count: int) -> str:
        return f"SELECT {aggregate} AS result FROM stream WINDOW(RANGE {size} MS)"

    return Workload("alpha", aggregate, ("stream",), (alpha,))


def _correlation(one_in: int) -> Workload:
    def join(i: int, count: int) -> str:
        return f"""SELECT * FROM stream1 WINDOW(RANGE 500 MS), stream2 WINDOW(RANGE 500 MS)
                   WHERE a % {one_in} = b % {one_in}"""

    return Workload("join", "correlation", ("stream1", "stream2"), (join,))


def _running(scale: Scale, workload: Workload) -> contextlib.closing[WorkloadRun]:
    return contextlib.closing(BridgeSystem(scale.database, scale.drive).open(workload, 1, lambda name, rows: None))


def _fill(run: WorkloadRun, until: int) -> None:
    """Pushes events up to this timestamp."""
    while run.now < until:
        run.fill(min(CHUNK, until - run.now))


# Reports --------------------------------------------------------------------------------------------------------------


HEAD = "| database | what grows | to | of | events at a time | µs per event |\n|---|---|--:|---|--:|--:|"


def row(point: ScalingCost) -> str:
    """A row of the table under `HEAD`."""
    return f"| {point.database} | {point.grows} | {point.size:,g} | {point.line} | {point.drive:,} | {point.microseconds:.1f} |"


def draw(points: list[ScalingCost], path: Path) -> None:
    """Plots one row per database, one panel per thing that grows, and one line per query and drive."""
    databases = list(dict.fromkeys(point.database for point in points))
    kinds = list(dict.fromkeys(point.grows for point in points))
    size = (5 * len(kinds), 1 + 3.5 * len(databases))
    figure, rows = pyplot().subplots(len(databases), len(kinds), figsize=size, sharey=True, sharex="col", squeeze=False)
    for panels, database in zip(rows, databases, strict=True):
        for axes, kind in zip(panels, kinds, strict=True):
            _panel(axes, [point for point in points if (point.database, point.grows) == (database, kind)])
        panels[0].set_ylabel(f"{database}: microseconds per event")
    for axes, kind in zip(rows[-1], kinds, strict=True):
        axes.set_xlabel(kind)
        axes.legend(fontsize=8, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    figure.tight_layout()
    save(figure, path)


def _panel(axes: Any, points: list[ScalingCost]) -> None:
    """Colours are queries, line styles are drives."""
    lines = list(dict.fromkeys(point.line for point in points))
    drives = list(dict.fromkeys(point.drive for point in points))
    styles = STYLES[1:]  # without the baseline's
    for line, drive in dict.fromkeys((point.line, point.drive) for point in points):
        own = [point for point in points if (point.line, point.drive) == (line, drive)]
        costs = [point.microseconds for point in own]
        kind = {"color": f"C{lines.index(line)}", "linestyle": styles[drives.index(drive) % len(styles)]}
        axes.plot([point.size for point in own], costs, marker="o", label=f"{line}, {drive:,} at a time", **kind)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(alpha=0.3)
