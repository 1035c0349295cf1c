"""`cepbridge demo`: four queries over a simulated stock exchange, with their results as they are reported."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

import bridge
from bridge.cli import options
from bridge.cli.errors import exit_on_error

SYMBOLS = {"ACME": 100.0, "GLOBEX": 60.0, "INITECH": 30.0}
"""The initial price of each share."""

STEP = 100
"""The milliseconds between two trades. Each share trades once per `STEP * len(SYMBOLS)`."""

SCRIPT = """
CREATE STREAM trades (symbol VARCHAR, price DOUBLE, volume INTEGER);
CREATE STREAM news (symbol VARCHAR, headline VARCHAR);

CREATE QUERY block AS
  SELECT symbol, price, volume FROM trades WHERE volume > 980;

CREATE QUERY swing AS
  SELECT symbol, AVG(price) AS mean, MAX(price) / MIN(price) AS swing
  FROM trades WINDOW(RANGE 3 S) GROUP BY symbol HAVING MAX(price) / MIN(price) > 1.08;

CREATE QUERY reaction AS
  SELECT n.symbol, n.headline, t.price, t.volume
  FROM news WINDOW(RANGE 2 S) n, trades WINDOW(NOW) t WHERE n.symbol = t.symbol AND t.volume > 800;

CREATE QUERY dip AS
  SELECT share, top, bottom, back FROM trades MATCHING (
    PARTITION BY symbol
    PATTERN adeuv WITHIN 3 S
    MEASURES share: VARCHAR, top: DOUBLE, low: DOUBLE, bottom: DOUBLE, half: DOUBLE, back: DOUBLE
    DEFINE a AS true DO share = symbol, top = price,
           d AS price < top * 0.98 DO low = price,
           e AS price < low * 0.98 DO bottom = price,
           u AS price > bottom * 1.02 DO half = price,
           v AS price > half * 1.02 DO back = price);
"""
"""A filter, an average over a window, a correlation of two streams, and a pattern: two falls, then two rises."""

_COLORS = {"block": "cyan", "swing": "yellow", "reaction": "magenta", "dip": "bold green"}
_DIP = (0.965, 0.965, 1.035, 1.035)
_HEADLINES = ("misses its forecast", "recalls a product", "loses a lawsuit", "changes its chief")


def exchange(seed: int, trades: int) -> Iterator[tuple[str, dict[str, Any], int]]:
    """(stream, payload, timestamp) of random walks of prices. Some shares have news, followed by a V-shaped dip.

    >>> list(exchange(seed=1, trades=1))[0][0]
    'trades'
    """
    chance = random.Random(seed)
    prices, dips = dict(SYMBOLS), {symbol: iter(()) for symbol in SYMBOLS}  # type: dict[str, float], dict[str, Any]
    for number in range(trades):
        symbol, ts = list(SYMBOLS)[number % len(SYMBOLS)], number * STEP
        step = next(dips[symbol], None)
        if step is None and chance.random() < 0.025:
            yield "news", {"symbol": symbol, "headline": chance.choice(_HEADLINES)}, ts
            dips[symbol] = iter(_DIP)
        prices[symbol] *= step or 1 + chance.gauss(0, 0.004)
        volume = chance.randint(1, 1000)
        yield "trades", {"symbol": symbol, "price": round(prices[symbol], 2), "volume": volume}, ts


@click.command(epilog=options.epilog("cepbridge demo --seed 8 --speed 0", "README.md (Command line)"))
@click.option("--seed", default=7, show_default=True, metavar="NUMBER", help="The same seed gives the same events.")
@click.option("--events", default=400, show_default=True, type=click.IntRange(1), metavar="NUMBER",
              help="The number of trades.")  # fmt: skip
@click.option("--speed", default=1.0, show_default=True, type=click.FloatRange(0), metavar="FACTOR",
              help="2 is twice as fast; 0 does not wait between events.")  # fmt: skip
@options.db_option("The database that computes the results: duckdb://, or any SQLAlchemy URL.", "sqlite://")
def demo(seed: int, events: int, speed: float, db: str) -> None:
    """Watch four queries over a simulated stock exchange.

    It takes about eight seconds. SQLite is the fastest database for single events; with --db duckdb:// the results are the same.
    """
    with exit_on_error():
        show(seed, events, speed, db)


def show(seed: int, trades: int, speed: float, database: str) -> None:
    """Runs the queries over `trades` trades. Prints each result on arrival, then the number of results per query."""
    from bridge.history.script import ReplayScript

    script = ReplayScript.of(SCRIPT)
    write, counts = _writer(), dict.fromkeys(script.queries, 0)
    with bridge.connect(database, durable=False) as cep:
        script.install(cep, {})
        for name in script.queries:
            cep.add_output_processor(name, _printer(name, counts, write))
        write(None, f"{', '.join(SYMBOLS)}: {trades} trades; the queries are {', '.join(script.queries)}")
        events = _paced(exchange(seed, trades), speed)
        pushed = sum(1 for event in events if cep.push_event(*event) is None)
    results = ", ".join(f"{name} {count}" for name, count in counts.items())
    write(None, f"{pushed} events, results: {results}")
    write(None, _MORE)


def _printer(name: str, counts: dict[str, int], write: Callable[[str | None, str], None]) -> Callable[[Any], None]:
    """A processor that counts and prints the results of a query."""

    def process(event: bridge.Event) -> None:
        counts[name] += 1
        values = "  ".join(f"{key} {_text(value)}" for key, value in event.payload.items())
        write(name, f"{event.timestamp / 1000:6.1f} s  {name:<8}  {values}")

    return process


def _text(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _paced(events: Iterator[Any], speed: float) -> Iterator[Any]:
    """The events, each at its time: `speed` × 5 times as fast as their timestamps; without waiting if `speed` is 0."""
    started = time.monotonic()
    for event in events:
        wait = started + event[2] / 1000 / (5 * speed) - time.monotonic() if speed else 0
        if wait > 0:
            time.sleep(wait)
        yield event


def _writer() -> Callable[[str | None, str], None]:
    """A function that prints a line for a query, on a terminal in the query's colour."""
    if not sys.stdout.isatty():
        return lambda _, line: click.echo(line)
    from rich.console import Console

    console = Console(highlight=False)
    return lambda name, line: console.print(line, style=_COLORS.get(name or "", "dim"), markup=False, overflow="fold")


_MORE = """
Other events, without waiting:   cepbridge demo --seed 8 --speed 0
Your queries over your events:   cepbridge run queries.sql --events trades.csv
The queries of this demo:        python -c "import bridge.cli.demo; print(bridge.cli.demo.SCRIPT)"
"""
