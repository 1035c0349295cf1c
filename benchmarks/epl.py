"""The paper's four queries written in EPL: here, in batches on DuckDB and event by event on SQLite, and on Esper.

Esper reports an aggregate also as events leave its window, so the aggregation asks for the event's own time beside the
count: then it tells one row an event, as the paper's does. The pattern is a match_recognize with `all matches`.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bridge.bench.contestants import Ours, RefusedError, Rows, Sided, in_turns
from bridge.bench.experiment import CHECKED, first_difference
from bridge.bench.peers import Peer
from bridge.bench.workloads import WORKLOADS, Workload, window
from bridge.errors import BridgeError

SIDES = (Ours("duckdb://", 100_000), Ours("sqlite://", 1))
"""In batches, and event by event."""


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
class Figure:
    """Events a second in EPL, in the bridge's own SQL, and on Esper, each the median of its runs."""

    name: str
    count: int
    side: str
    epl: float
    sql: float
    esper: float | None


def check(workload: Workload, written: Workload, count: int, side: Sided) -> None:
    """Raises BridgeError unless both tell the same: query, time, and the columns of the paper's."""
    moments = range(CHECKED - 100, CHECKED)
    expected = SIDES[0].rows(workload, count, moments)
    found = side.rows(written, count, moments)
    if difference := first_difference(expected, _narrowed(found, expected), moments):
        raise BridgeError(f"{workload.name} in EPL, Count = {count}, {side.database}: {difference}")


def _narrowed(found: Rows, expected: Rows) -> Rows:
    widths = {name: len(rows[0]) if rows else 0 for name, rows in expected.items()}
    return {name: sorted(row[: widths[name]] if rows else row for row in rows) for name, rows in found.items()}


def measure(
    counts: Sequence[int], seconds: float, runs: int, esper: Peer | None, tell: Callable[[str], None]
) -> Iterator[Figure]:
    """The figures; ours in EPL and in SQL take turns, so that what else the machine does meets both."""
    for workload, written in in_epl():
        for count in counts:
            tell(f"{workload.name} × {count}")
            theirs = _esper(esper, workload, count, seconds, runs)
            for side in SIDES:
                check(workload, written, count, side)
                epl, sql = _rates(side, (written, workload), count, seconds, runs)
                yield Figure(workload.name, count, f"{side.database} {side.name}", epl, sql, theirs)


def _rates(side: Ours, workloads: Sequence[Workload], count: int, seconds: float, runs: int) -> list[float]:
    sides = [_Asked(side, workload) for workload in workloads]
    return [statistics.median(timing.rates) for timing in in_turns(sides, workloads[0], count, seconds, runs)]


@dataclasses.dataclass(frozen=True)
class _Asked(Sided):
    """A side that is asked a workload of its own."""

    side: Ours
    workload: Workload

    @property
    def database(self) -> str:  # type: ignore[override]
        return self.side.database

    def opened(self, workload: Workload, count: int, collect: Callable[[str, Any], None]) -> Any:
        return self.side.opened(self.workload, count, collect)


def _esper(peer: Peer | None, workload: Workload, count: int, seconds: float, runs: int) -> float | None:
    if peer is None:
        return None
    try:
        return statistics.median(peer.measure(workload, count, seconds, runs).rates)
    except RefusedError as error:
        print(f"Esper, {workload.name} × {count}: {error}", file=sys.stderr)
        return None


def markdown(figures: Sequence[Figure]) -> str:
    """A table, a line a figure."""
    lines = ["| queries | Count | side | EPL | SQL | Esper |", "|---|--:|---|--:|--:|--:|"]
    for one in figures:
        theirs = "" if one.esper is None else f"{one.esper:,.0f}"
        lines.append(f"| {one.name} | {one.count} | {one.side} | {one.epl:,.0f} | {one.sql:,.0f} | {theirs} |")
    return "\n".join(lines)
