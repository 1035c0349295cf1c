"""The paper's four queries in EPL: on this bridge, in batches on DuckDB and event by event on SQLite, and on Esper.

Esper reports an aggregate also when events leave its window. So the aggregation selects the timestamp of the event, too, and
then reports one row per event, like the paper's. The pattern is a match_recognize with `all matches`.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bridge.bench.experiment import CHECKED, first_difference
from bridge.bench.peers import Peer
from bridge.bench.systems import BridgeSystem, LocalSystem, RefusedError, ResultRows, measure_in_turns
from bridge.bench.workloads import WORKLOADS, Workload, window
from bridge.errors import BridgeError

SYSTEMS = (BridgeSystem("duckdb://", 100_000), BridgeSystem("sqlite://", 1))
"""The bridge in batches, and event by event."""


def sigma(i: int, count: int) -> str:
    return f"select a, b from stream(a - b = {i})"


def join(i: int, count: int) -> str:
    size = f"#time({window(i, count)} msec)"
    return f"select l.a as a, r.b as b from stream1{size} as l, stream2{size} as r where l.a - r.b = {i + 1}"


def alpha(i: int, count: int) -> str:
    return f"select count(*) as n, current_timestamp as at from stream#time({window(i, count)} msec)"


def rho(i: int, count: int) -> str:
    return f"""select z1, z2, z3 from stream match_recognize (
        measures x.a as z1, y.a as z2, u.a as z3 all matches after match skip to next row pattern (x y u)
        define y as y.a - x.a = {i}, u as u.a - y.a = {i} and u.ts - x.ts < {window(i, count)})"""


def in_epl() -> Iterator[tuple[Workload, Workload]]:
    """Each workload of the paper, and the same in EPL."""
    texts: dict[str, Callable[[int, int], str]] = {"sigma": sigma, "join": join, "alpha": alpha, "rho": rho}
    for workload in WORKLOADS:
        yield workload, dataclasses.replace(workload, texts=(texts[workload.key],), language="epl")


@dataclasses.dataclass(frozen=True)
class EplFigure:
    """Events per second in EPL, in the bridge's SQL, and on Esper: medians. `side` is the name of the system."""

    name: str
    count: int
    side: str
    epl: float
    sql: float
    esper: float | None


def check(workload: Workload, in_epl: Workload, count: int, system: LocalSystem) -> None:
    """Raises BridgeError unless both report the same: query, timestamp, and the columns of the paper's query."""
    timestamps = range(CHECKED - 100, CHECKED)
    expected = SYSTEMS[0].rows(workload, count, timestamps)
    rows = system.rows(in_epl, count, timestamps)
    if difference := first_difference(expected, _without_extra_columns(rows, expected), timestamps):
        raise BridgeError(f"{workload.name} in EPL, Count = {count}, {system.database}: {difference}")


def _without_extra_columns(results: ResultRows, expected: ResultRows) -> ResultRows:
    widths = {name: len(rows[0]) if rows else 0 for name, rows in expected.items()}
    return {name: sorted(row[: widths[name]] if rows else row for row in rows) for name, rows in results.items()}


def measure(
    counts: Sequence[int], seconds: float, runs: int, esper: Peer | None, progress: Callable[[str], None]
) -> Iterator[EplFigure]:
    """The figures. EPL and SQL take turns, so that other load of the machine affects both."""
    for workload, translated in in_epl():
        for count in counts:
            progress(f"{workload.name} × {count}")
            esper_rate = _esper(esper, workload, count, seconds, runs)
            for system in SYSTEMS:
                check(workload, translated, count, system)
                epl, sql = _rates(system, (translated, workload), count, seconds, runs)
                yield EplFigure(workload.name, count, f"{system.database} {system.name}", epl, sql, esper_rate)


def _rates(system: BridgeSystem, workloads: Sequence[Workload], count: int, seconds: float, runs: int) -> list[float]:
    systems = [_WithWorkload(system, workload) for workload in workloads]
    return [statistics.median(timing.rates) for timing in measure_in_turns(systems, workloads[0], count, seconds, runs)]


@dataclasses.dataclass(frozen=True)
class _WithWorkload(LocalSystem):
    """A system that runs another workload than the one it is given."""

    system: BridgeSystem
    workload: Workload

    @property
    def database(self) -> str:  # type: ignore[override]
        return self.system.database

    def open(self, workload: Workload, count: int, collect: Callable[[str, Any], None]) -> Any:
        return self.system.open(self.workload, count, collect)


def _esper(peer: Peer | None, workload: Workload, count: int, seconds: float, runs: int) -> float | None:
    if peer is None:
        return None
    try:
        return statistics.median(peer.measure(workload, count, seconds, runs).rates)
    except RefusedError as error:
        print(f"Esper, {workload.name} × {count}: {error}", file=sys.stderr)
        return None


def markdown(figures: Sequence[EplFigure]) -> str:
    """The figures as a table."""
    lines = ["| queries | Count | side | EPL | SQL | Esper |", "|---|--:|---|--:|--:|--:|"]
    for one in figures:
        esper_rate = "" if one.esper is None else f"{one.esper:,.0f}"
        lines.append(f"| {one.name} | {one.count} | {one.side} | {one.epl:,.0f} | {one.sql:,.0f} | {esper_rate} |")
    return "\n".join(lines)
