"""The demonstration: a made-up stock exchange, four queries over it, and what they find as it comes."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

import bridge
from bridge.cli.errors import exit_on_error

SYMBOLS = {"ACME": 100.0, "GLOBEX": 60.0, "INITECH": 30.0}
"""The shares and the prices they start with."""

STEP = 100
"""Milliseconds between two events; every share trades once in `STEP * len(SYMBOLS)`."""

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
"""A filter, an average over a window, a correlation of two streams, and a pattern: two steps down, two up."""

_COLORS = {"block": "cyan", "swing": "yellow", "reaction": "magenta", "dip": "bold green"}
_DIP = (0.965, 0.965, 1.035, 1.035)
_HEADLINES = ("misses its forecast", "recalls a product", "loses a lawsuit", "changes its chief")


def exchange(seed: int, trades: int) -> Iterator[tuple[str, dict[str, Any], int]]:
    """(stream, payload, timestamp) of a random walk with news now and then, each followed by a V-shaped dip.

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


@click.command()
@click.option("--seed", default=7, show_default=True, help="The same seed, the same events.")
@click.option("--events", default=400, show_default=True, type=click.IntRange(1), help="How many trades.")
@click.option("--speed", default=1.0, show_default=True, type=click.FloatRange(0), help="2: twice as fast; 0: at once.")
@click.option("--db", default="sqlite://", show_default=True, help="The database: duckdb://, or any SQLAlchemy URL.")
def demo(seed: int, events: int, speed: float, db: str) -> None:
    """Watch four queries over a made-up stock exchange, for some eight seconds.

    SQLite is the fastest database for events one at a time; --db duckdb:// gives the same results.
    """
    with exit_on_error():
        show(seed, events, speed, db)


def show(seed: int, trades: int, speed: float, database: str) -> None:
    """Runs it: prints each result as it comes, then the numbers, and how to go on."""
    from bridge.history.script import Script

    script = Script.of(SCRIPT)
    tell, counts = _teller(), dict.fromkeys(script.queries, 0)
    with bridge.connect(database) as cep:
        script.install(cep, {})
        for name in script.queries:
            cep.add_output_processor(name, _counted(name, counts, tell))
        tell(None, f"{', '.join(SYMBOLS)}: {trades} trades; the queries are {', '.join(script.queries)}")
        events = _paced(exchange(seed, trades), speed)
        pushed = sum(1 for event in events if cep.push_event(*event) is None)
    found = ", ".join(f"{name} {count}" for name, count in counts.items())
    tell(None, f"{pushed} events, results: {found}")
    tell(None, _MORE)


def _counted(name: str, counts: dict[str, int], tell: Callable[[str | None, str], None]) -> Callable[[Any], None]:
    def take(event: bridge.Event) -> None:
        counts[name] += 1
        values = "  ".join(f"{key} {_shown(value)}" for key, value in event.payload.items())
        tell(name, f"{event.timestamp / 1000:6.1f} s  {name:<8}  {values}")

    return take


def _shown(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _paced(events: Iterator[Any], speed: float) -> Iterator[Any]:
    """The events at their times, `speed` × 5 as fast as their timestamps say; at once for 0."""
    started = time.monotonic()
    for event in events:
        wait = started + event[2] / 1000 / (5 * speed) - time.monotonic() if speed else 0
        if wait > 0:
            time.sleep(wait)
        yield event


def _teller() -> Callable[[str | None, str], None]:
    """Prints lines: plain, or colored by query on a terminal."""
    if not sys.stdout.isatty():
        return lambda _, line: click.echo(line)
    from rich.console import Console

    console = Console(highlight=False)
    return lambda name, line: console.print(line, style=_COLORS.get(name or "", "dim"), markup=False, overflow="fold")


_MORE = """
Another day, at once:            cepbridge demo --seed 8 --speed 0
Your queries over your events:   cepbridge run queries.sql --events trades.csv
These queries:                   python -c "import bridge.cli.demo; print(bridge.cli.demo.SCRIPT)"
"""
