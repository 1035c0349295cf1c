"""What pushes of different sizes cost: single events, and small batches.

    python -m benchmarks.pushes                          # DuckDB and SQLite in memory
    python -m benchmarks.pushes sqlite:// --sizes 1,10 --query "A B"
    python -m benchmarks.pushes duckdb:////tmp/bench.db --into    # a durable bridge, with a table of results

The figures are events per second of CPU time of this process, for databases that run in it, else of wall time. What a
bridge has stored in the database is removed before and after each query.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import statistics
import time
import warnings
from collections.abc import Iterator

import click

import bridge

SYMBOLS = 100
SIZES = (1, 2, 5, 10, 50, 150, 1_000)
QUERIES = {
    "filter": ("sql", "SELECT symbol, price FROM trades WHERE price > 990"),
    "AVG by key": ("sql", "SELECT symbol, AVG(price) AS mean FROM trades WINDOW(RANGE 1 S) GROUP BY symbol"),
    "SUM jumping": (
        "sql",
        "SELECT symbol, SUM(price) AS total FROM trades WINDOW(RANGE 1 S SLIDE 1 S) GROUP BY symbol",
    ),
    "COUNT DISTINCT": ("sql", "SELECT COUNT(DISTINCT symbol) AS n FROM trades WINDOW(RANGE 1 S)"),
    "SUM by key, changes": ("epl", "select symbol, sum(price) as total from trades#time(1 sec) group by symbol"),
    "SUM by key, last": (
        "epl",
        "select symbol, sum(price) as total from trades#time(1 sec) group by symbol output last every 1 sec",
    ),
    "A B": (
        "sql",
        "SELECT * FROM trades MATCH_RECOGNIZE (PARTITION BY symbol MEASURES A.price AS a, B.price AS b PATTERN (A B) "
        "WITHIN 1 S DEFINE A AS A.price > 900, B AS B.price < 100)",
    ),
    "A NOT B": (
        "epl",
        "select a.symbol as symbol from pattern [every a=trades(price > 900) -> "
        "(timer:interval(1 sec) and not trades(symbol = a.symbol, price < 100))]",
    ),
    "every a -> b": (
        "epl",
        "select a.symbol as symbol from pattern [every a=trades(price > 900) -> b=trades(symbol = a.symbol, price < 100) "
        "where timer:within(1 sec)]",
    ),
    "irstream of time": ("epl", "select irstream symbol, price from trades#time(1 sec)"),
    "rstream of rows": ("epl", "select rstream symbol, price from trades#length(100)"),
    "SUM by key, irstream": (
        "epl",
        "select irstream symbol, sum(price) as total from trades#length(100) group by symbol",
    ),
    "SUM by key, first": (
        "epl",
        "select symbol, sum(price) as total from trades#time(1 sec) group by symbol output first every 1 sec",
    ),
    "difference of prices": (
        "epl",
        "select symbol, price - prev(1, price) as difference from trades#length(100)",
    ),
    "newest price": (
        "sql",
        "SELECT symbol, LAST(price) AS newest, COUNT(*) AS n FROM trades WINDOW(RANGE 1 S) GROUP BY symbol",
    ),
    "newest of a symbol": ("epl", "select symbol, price from trades#unique(symbol) having count(*) > 3"),
    "greatest prices": ("epl", "select min(price) as least, count(*) as n from trades#sort(100, price desc)"),
    "greatest prices, irstream": ("epl", "select irstream symbol, price from trades#sort(100, price desc)"),
    "SUM by key, trailing": (
        "epl",
        "select symbol, sum(price) as total from trades#ext_timed(current_timestamp, 1 sec) group by symbol",
    ),
    "sessions, irstream": ("epl", "select irstream symbol, price from trades#groupwin(symbol)#time_accum(200 msec)"),
    "SUM of all by key, first": (
        "epl",
        "select symbol, sum(price) as total from trades group by symbol output first every 1 sec",
    ),
    "SUM of all by key, last": (
        "epl",
        "select symbol, sum(price) as total from trades group by symbol output last every 1000 events",
    ),
    "A B of EPL": (
        "epl",
        "select * from trades match_recognize (partition by symbol measures A.price as a, B.price as b pattern (A B) "
        "define A as A.price > 900, B as B.price < 100)",
    ),
    "prices in a range": (
        "sql",
        "SELECT t.symbol, q.price FROM trades WINDOW(RANGE 1 S) t, trades WINDOW(ROWS 500) q "
        "WHERE t.price < q.price AND t.price > q.price - 1",
    ),
    "quotes that change": (
        "epl",
        "select irstream symbol, stddev(price) as deviation from quotes#length(100) group by symbol",
    ),
    "quotes that expire": (
        "epl",
        "select symbol, max(price * 2) as most from quotes#time(1 hour) group by symbol output first every 1 hour",
    ),
    "timers": ("epl", "select count(*) as n from pattern [every timer:interval(1 sec)]"),
    "prices above a variable": ("epl", "select symbol, price from trades where price > least"),
    "SUM by key above a variable": (
        "epl",
        "select symbol, sum(price) as total from trades(price > least)#length(100) group by symbol",
    ),
    "SUM by key, having a variable": (
        "epl",
        "select symbol, sum(price) as total from trades#length(100) group by symbol having sum(price) > least",
    ),
    "AVG by key, beside a table": (
        "sql",
        "SELECT symbol, AVG(price) AS mean FROM trades WINDOW(RANGE 1 S) GROUP BY symbol",
    ),
}
"""The language and the text of each query. Two read quotes, of which none comes any more while trades are measured."""

_VARIABLE = ("create variable double least = 990", "on trades(price > 998) set least = price - 8")
BEFORE = {
    "prices above a variable": _VARIABLE,
    "SUM by key above a variable": _VARIABLE,
    "SUM by key, having a variable": _VARIABLE,
    "AVG by key, beside a table": (
        "create table T (symbol string primary key, n count(*))",
        "into table T select symbol, count(*) as n from quotes group by symbol",
        "select q.symbol as symbol, T.n as n from quotes as q unidirectional, T where T.symbol = q.symbol",
    ),
}
"""The statements of EPL before a query. Those of the last one share a table, but read no trades."""


@dataclasses.dataclass(frozen=True)
class PushCost:
    """The median over the runs of the seconds per push of `size` events."""

    database: str
    query: str
    size: int
    seconds: float


def measure(
    url: str, query: str, sizes: tuple[int, ...], seconds: float, runs: int, into: str | None = None
) -> Iterator[PushCost]:
    """The cost of a push of each size. The sizes take turns, as other load of the machine then affects all of them.

    `into`: the table that gets the results; without one a function does.
    """
    clock = time.process_time if url.startswith(("duckdb", "sqlite")) else time.perf_counter
    with _bridge(url, into) as cep, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for stream in ("trades", "quotes"):
            cep.register_stream(stream, "symbol VARCHAR, price DOUBLE")
        for place, statement in enumerate(BEFORE.get(query, ())):
            cep.create_query(f"before{place}", statement, language="epl")
        language, text = QUERIES[query]
        cep.create_query("q", text, language=language, into=into)
        if into is None:
            cep.add_output_processor("q", lambda event: None)
        events, found = _events(), dict[int, list[float]]()
        cep.push_events("quotes", [next(events) for _ in range(1_000)])
        _push(cep, events, 1_000, 1)  # the window is full from the start
        for _ in range(runs):
            for size in sizes:
                before, pushes, end = clock(), 0, time.perf_counter() + seconds / runs
                while pushes < 5 or time.perf_counter() < end:
                    _push(cep, events, 1, size)
                    pushes += 1
                found.setdefault(size, []).append((clock() - before) / pushes)
        for size, times in found.items():
            yield PushCost(url, query, size, statistics.median(times))


@contextlib.contextmanager
def _bridge(url: str, into: str | None) -> Iterator[bridge.Bridge]:
    cep = bridge.connect(url, fresh=True)
    try:
        if into is not None:
            cep.database.execute(f"DROP TABLE IF EXISTS {into}")
        yield cep
    finally:
        cep.drop()


def _push(cep: bridge.Bridge, events: Iterator[tuple[tuple[str, float], int]], pushes: int, size: int) -> None:
    for _ in range(pushes):
        if size == 1:
            cep.push_event("trades", *next(events))
        else:
            cep.push_events("trades", [next(events) for _ in range(size)])


def _events() -> Iterator[tuple[tuple[str, float], int]]:
    """One trade per millisecond."""
    draw, ts = random.Random(1), 0
    while True:
        ts += 1
        yield (f"S{draw.randrange(SYMBOLS)}", float(draw.randrange(1_000))), ts


def _numbers(context: click.Context, option: click.Parameter, text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


@click.command()
@click.argument("urls", nargs=-1)
@click.option("--sizes", default=",".join(map(str, SIZES)), callback=_numbers, help="The numbers of events of a push.")
@click.option("--query", multiple=True, type=click.Choice(list(QUERIES)), help="A query. Repeatable. Default: all.")
@click.option("--seconds", default=1.0, show_default=True, help="Seconds per figure, shared by its runs.")
@click.option("--runs", default=3, show_default=True, help="Runs per figure.")
@click.option("--into", is_flag=True, help="Write the results into a table, pushes_results.")
def main(
    urls: tuple[str, ...], sizes: tuple[int, ...], query: tuple[str, ...], seconds: float, runs: int, into: bool
) -> None:
    """Measure what pushes of different sizes cost, for one query at a time."""
    click.echo(f"| events per second, by events per push | {' | '.join(map('{:,}'.format, sizes))} |")
    click.echo(f"|---|{'---:|' * len(sizes)}")
    for url in urls or ("duckdb://", "sqlite://"):
        for name in query or QUERIES:
            costs = measure(url, name, sizes, seconds, runs, "pushes_results" if into else None)
            rates = [f"{cost.size / cost.seconds:,.0f}" for cost in costs]
            click.echo(f"| {url}: {name} | {' | '.join(rates)} |")


if __name__ == "__main__":
    main()
