"""What an event costs as something grows: the history, an aggregate's window, the number of a correlation's results."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bridge.bench.contestants import TRIED, WARM, Ours, Session, rate
from bridge.bench.plot import STYLES, pyplot, save
from bridge.bench.report import shown
from bridge.bench.workloads import WORKLOADS, Workload

HISTORY = "events before"
WINDOW = "rows in the window of an aggregate"
RESULTS = "results an event of a correlation"
CHUNK = 100_000
"""So many milliseconds of events at once, where the past is filled."""

ALIKE = (50_000, 5_000, 500, 50, 5)
"""One pair of events in so many has the same value."""

PATIENCE = 1e6
"""Windows grow until a push takes so many microseconds."""


@dataclasses.dataclass(frozen=True)
class Point:
    """The cost of an event on a database, in microseconds, where `grows` has come to `size`."""

    database: str
    grows: str
    line: str
    drive: int
    size: float
    microseconds: float


@dataclasses.dataclass(frozen=True)
class Scale:
    """On which database, how many events at a time, up to how many events, for how many seconds a point."""

    database: str
    drive: int
    most: int
    seconds: float

    @property
    def powers(self) -> list[int]:
        return [10**power for power in range(2, 8) if 10**power <= self.most]

    def point(self, grows: str, line: str, size: float, session: Session) -> Point:
        rate(session, TRIED, self.seconds / 4)
        return Point(shown(self.database), grows, line, self.drive, size, 1e6 / rate(session, self.drive, self.seconds))


def measure(scale: Scale, of: Sequence[str]) -> Iterator[Point]:
    """The points of those of `KINDS` that are asked for, line by line."""
    return itertools.chain.from_iterable(KINDS[kind](scale) for kind in of)


def history(scale: Scale) -> Iterator[Point]:
    """The operators of Listing 1, Count 1: flat, as no window grows."""
    for workload in WORKLOADS:
        with _opened(scale, workload) as session:
            for size in scale.powers[1:]:
                _fill(session, size)
                yield scale.point(HISTORY, workload.name, size, session)


def window(scale: Scale) -> Iterator[Point]:
    """One that is kept up to date by what comes and goes, and one that is not."""
    for line in ("COUNT(*)", "MAX(a)"):
        for size in scale.powers:
            with _opened(scale, _aggregation(line, size)) as session:
                _fill(session, size)
                point = scale.point(WINDOW, line, size, session)
            yield point
            if point.microseconds * point.drive > PATIENCE:
                break


def results(scale: Scale) -> Iterator[Point]:
    """Windows of 500 ms; what grows is the share of the pairs that are alike."""
    for alike in ALIKE:
        with _opened(scale, _correlation(alike)) as session:
            _fill(session, WARM)
            yield scale.point(RESULTS, "⋈", 500 / alike, session)


KINDS = {"history": history, "window": window, "results": results}
"""What may grow."""


def _aggregation(aggregate: str, size: int) -> Workload:
    def alpha(i: int, count: int) -> str:
        return f"SELECT {aggregate} AS result FROM stream WINDOW(RANGE {size} MS)"

    return Workload("alpha", aggregate, ("stream",), (alpha,))


def _correlation(alike: int) -> Workload:
    def join(i: int, count: int) -> str:
        return f"""SELECT * FROM stream1 WINDOW(RANGE 500 MS), stream2 WINDOW(RANGE 500 MS)
                   WHERE a % {alike} = b % {alike}"""

    return Workload("join", "correlation", ("stream1", "stream2"), (join,))


def _opened(scale: Scale, workload: Workload) -> contextlib.closing[Session]:
    return contextlib.closing(Ours(scale.database, scale.drive).opened(workload, 1, lambda name, rows: None))


def _fill(session: Session, until: int) -> None:
    """Events up to this time; the clock goes on from where it is."""
    while session.now < until:
        session.fill(min(CHUNK, until - session.now))


# Reports --------------------------------------------------------------------------------------------------------------


HEAD = "| database | what grows | to | of | events at a time | µs an event |\n|---|---|--:|---|--:|--:|"


def row(point: Point) -> str:
    """Of a table under `HEAD`."""
    return f"| {point.database} | {point.grows} | {point.size:,g} | {point.line} | {point.drive:,} | {point.microseconds:.1f} |"


def draw(points: list[Point], path: Path) -> None:
    """A row for each database, a panel for each thing that grows, a line for each of its queries and drives."""
    databases = list(dict.fromkeys(point.database for point in points))
    kinds = list(dict.fromkeys(point.grows for point in points))
    size = (5 * len(kinds), 1 + 3.5 * len(databases))
    figure, rows = pyplot().subplots(len(databases), len(kinds), figsize=size, sharey=True, sharex="col", squeeze=False)
    for panels, database in zip(rows, databases, strict=True):
        for axes, kind in zip(panels, kinds, strict=True):
            _panel(axes, [point for point in points if (point.database, point.grows) == (database, kind)])
        panels[0].set_ylabel(f"{database}: microseconds an event")
    for axes, kind in zip(rows[-1], kinds, strict=True):
        axes.set_xlabel(kind)
        axes.legend(fontsize=8, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    figure.tight_layout()
    save(figure, path)


def _panel(axes: Any, points: list[Point]) -> None:
    """Queries differ by colour, drives by the kind of line."""
    lines = list(dict.fromkeys(point.line for point in points))
    drives = list(dict.fromkeys(point.drive for point in points))
    styles = STYLES[1:]  # without the baseline's
    for line, drive in dict.fromkeys((point.line, point.drive) for point in points):
        mine = [point for point in points if (point.line, point.drive) == (line, drive)]
        costs = [point.microseconds for point in mine]
        kind = {"color": f"C{lines.index(line)}", "linestyle": styles[drives.index(drive) % len(styles)]}
        axes.plot([point.size for point in mine], costs, marker="o", label=f"{line}, {drive:,} at a time", **kind)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(alpha=0.3)
