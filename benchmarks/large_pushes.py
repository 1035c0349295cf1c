"""How the cost of one push grows with its events: aggregates over every kind of window.

    python -m benchmarks.growth                                  # DuckDB in memory
    python -m benchmarks.growth sqlite:// --sizes 1000,4000 --window "SESSION" --aggregate "COUNT(*)"

The figures are seconds of CPU time of this process per push; the last one says how many times as much the largest push takes
as the one before. A window that is full costs the same per event, so with sizes that grow fourfold 4 is linear, and 16 quadratic.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Iterator

import click
import pyarrow

import bridge
from bridge.errors import QueryError

WINDOWS = (
    "RANGE 500 MS", "RANGE 500 MS STEP 100 MS", "RANGE 500 MS SLIDE 500 MS", "RANGE 500 MS SLIDE 100 MS", "UNBOUNDED", "NOW",
    "ROWS 100", "PARTITION BY k ROWS 100", "PARTITION BY u ROWS 1", "ROWS 100 SLIDE 100", "PARTITION BY k ROWS 100 SLIDE 50",
    "SESSION 50 MS", "PARTITION BY k SESSION 50 MS", "ROWS 10 ORDER BY v", "PARTITION BY k ROWS 100 ORDER BY v DESC",
    "FIRST ROWS 1000000", "PARTITION BY u FIRST ROWS 1", "FIRST RANGE 1 H", "TRAILING 500 MS", "PARTITION BY k TRAILING 500 MS",
    "TUMBLING 500 MS OF t", "START v > 900 STOP v < 100", "PARTITION BY k START v > 900 STOP v < 100",
)  # fmt: skip
AGGREGATES = ("COUNT(*)", "SUM(v)", "MIN(v)", "COUNT(DISTINCT v)", "MEDIAN(v)", "LAST(v)")
EMITS = ("", " EMIT ON CHANGE", " EMIT ON EVERY CHANGE")
SCHEMA = {"k": "BIGINT", "u": "BIGINT", "v": "BIGINT", "t": "BIGINT"}


@dataclasses.dataclass(frozen=True)
class PushGrowth:
    """The seconds of CPU time of pushes of each size; fewer than asked for where they would take too long."""

    query: str
    seconds: tuple[float, ...]

    @property
    def factor(self) -> float:
        """How many times as much the largest push takes as the one before."""
        return self.seconds[-1] / self.seconds[-2] if len(self.seconds) > 1 else 0.0


def queries(windows: tuple[str, ...], aggregates: tuple[str, ...]) -> Iterator[str]:
    """All combinations of windows and aggregates, with and without groups, as the window changes and as rows enter."""
    for window in windows:
        for aggregate in aggregates:
            for key, groups in (("", ""), ("k, ", " GROUP BY k")):
                for emit in EMITS:
                    yield f"SELECT {key}{aggregate} AS x FROM s WINDOW({window}){groups}{emit}"


def some_events(count: int) -> pyarrow.Table:
    """One event per millisecond, of 10 keys and 1,000 values, with a pause of 200 ms after each 400."""
    draw, ts, rows = random.Random(1), 0, []
    for number in range(count):
        ts += draw.randrange(3) if number % 400 else 200
        rows.append((ts, draw.randrange(10), draw.randrange(1_000), draw.randrange(1_000), ts))
    return pyarrow.table(dict(zip(("ts", *SCHEMA), map(list, zip(*rows, strict=True)), strict=True)))


def measure(url: str, query: str, tables: list[pyarrow.Table], limit: float) -> PushGrowth:
    """The cost of one push per table, each into a bridge of its own; until the next would take more than `limit` seconds."""
    seconds: list[float] = []
    for events in tables:
        if seconds and seconds[-1] * (len(events) / len(tables[len(seconds) - 1])) ** 2 > limit * 4:
            break
        with bridge.connect(url) as cep:
            cep.register_stream("s", SCHEMA)
            cep.create_query("q", query)
            cep.add_output_processor("q", lambda rows: None, batch=True)
            before = time.process_time()
            cep.push_events("s", events)
            seconds.append(time.process_time() - before)
    return PushGrowth(query, tuple(seconds))


@click.command()
@click.argument("url", default="duckdb://")
@click.option("--sizes", default="2000,8000,32000", show_default=True, help="The numbers of events of a push.")
@click.option("--window", multiple=True, help="A window. Repeatable. Default: every kind.")
@click.option("--aggregate", multiple=True, help="An aggregate. Repeatable. Default: six.")
@click.option("--limit", default=10.0, show_default=True, help="Seconds of CPU time that a push may take, about.")
def main(url: str, sizes: str, window: tuple[str, ...], aggregate: tuple[str, ...], limit: float) -> None:
    """Measure how the cost of a push grows with its events."""
    counts = [int(size) for size in sizes.split(",")]
    tables = [some_events(count) for count in counts]
    click.echo(f"| seconds per push, by its events | {' | '.join(map('{:,}'.format, counts))} | growth |")
    click.echo(f"|---|{'---:|' * (len(counts) + 1)}")
    for query in queries(window or WINDOWS, aggregate or AGGREGATES):
        try:
            found = measure(url, query, tables, limit)
        except QueryError:
            continue  # EMIT ON CHANGE is refused for most windows, and databases lack some aggregates
        cells = [f"{each:.3f}" for each in found.seconds] + ["–"] * (len(counts) - len(found.seconds))
        click.echo(f"| `{query}` | {' | '.join(cells)} | {found.factor:.1f} |")


if __name__ == "__main__":
    main()
