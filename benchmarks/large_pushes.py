"""The cost of one push of thousands of events, by their number, for aggregates over every kind of window.

    python -m benchmarks.large_pushes                                  # DuckDB in memory
    python -m benchmarks.large_pushes sqlite:// --sizes 1000,4000 --window "SESSION 50 MS" --aggregate "COUNT(*)"

The figures are seconds of CPU time of this process per push. The last column is the ratio of the largest push to the one before.
With sizes that grow fourfold, a ratio of 4 means that the cost is linear in the number of events, and 16 that it is quadratic.
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
class LargePushCost:
    """The seconds of CPU time per push, by size; sizes that would take too long are left out at the end."""

    query: str
    seconds: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The cost of the largest push divided by that of the one before; 0 if there is only one."""
        return self.seconds[-1] / self.seconds[-2] if len(self.seconds) > 1 else 0.0


def queries(windows: tuple[str, ...], aggregates: tuple[str, ...]) -> Iterator[str]:
    """All combinations of windows and aggregates, with and without groups, with each EMIT clause."""
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


def measure(url: str, query: str, tables: list[pyarrow.Table], limit: float) -> LargePushCost:
    """The cost of one push per table, each into a new bridge. Ends when the next push may take more than `limit` seconds."""
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
    return LargePushCost(query, tuple(seconds))


@click.command()
@click.argument("url", default="duckdb://")
@click.option(
    "--sizes", default="2000,8000,32000", show_default=True, help="Numbers of events per push, separated by commas."
)
@click.option("--window", multiple=True, help="The text in WINDOW( … ). Repeatable. Default: every kind.")
@click.option("--aggregate", multiple=True, help="An aggregate over the columns k, u, v, t. Repeatable. Default: six.")
@click.option(
    "--limit", default=10.0, show_default=True, help="Leave out pushes that may take more seconds of CPU time."
)
def main(url: str, sizes: str, window: tuple[str, ...], aggregate: tuple[str, ...], limit: float) -> None:
    """Measure the cost of one push by its number of events."""
    counts = [int(size) for size in sizes.split(",")]
    tables = [some_events(count) for count in counts]
    click.echo(f"| query, seconds per push of | {' | '.join(map('{:,}'.format, counts))} | ratio |")
    click.echo(f"|---|{'---:|' * (len(counts) + 1)}")
    for query in queries(window or WINDOWS, aggregate or AGGREGATES):
        try:
            found = measure(url, query, tables, limit)
        except QueryError:
            continue  # EMIT ON CHANGE is refused for most windows, and databases lack some aggregates
        cells = [f"{each:.3f}" for each in found.seconds] + ["–"] * (len(counts) - len(found.seconds))
        click.echo(f"| `{query}` | {' | '.join(cells)} | {found.ratio:.1f} |")


if __name__ == "__main__":
    main()
