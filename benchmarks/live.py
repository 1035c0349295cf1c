"""The cost of an event in a continuous MATCH_RECOGNIZE as its history grows. It is constant while the number of open runs is.

There are two patterns: one whose runs are always short, and one whose runs stay open for a fixed time.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

import bridge
from bridge.bench.systems import percentile

SYMBOLS = 100
BATCH = 10_000

SHORT = """SELECT * FROM trades MATCH_RECOGNIZE (
    PARTITION BY symbol MEASURES FIRST(price) AS top, LAST(DOWN.price) AS bottom, LAST(UP.price) AS back
    PATTERN (STRT DOWN+ UP+) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))"""
OPEN = """SELECT * FROM trades MATCH_RECOGNIZE (
    PARTITION BY symbol MEASURES A.ts AS since, COUNT(*) AS n
    PATTERN (A Z*? B) WITHIN 5 S DEFINE A AS price > 990, B AS price > 995)"""
QUERIES = {"short runs": SHORT, "runs open for 5 s": OPEN}


@dataclasses.dataclass(frozen=True)
class LiveCost:
    """The microseconds per event after `events` events, over the batches since the point before: median and 99th percentile."""

    query: str
    events: int
    microseconds: float
    p99: float


def measure(url: str, most: int, progress: Callable[[str], None] = lambda text: None) -> list[LiveCost]:
    """The points of each query, three per power of ten, from 10,000 events on."""
    return [point for name, text in QUERIES.items() for point in _costs(url, name, text, most, progress)]


def _costs(url: str, name: str, text: str, most: int, progress: Callable[[str], None]) -> Iterator[LiveCost]:
    with bridge.connect(url) as cep, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cep.register_stream("trades", "symbol VARCHAR, price DOUBLE")
        cep.create_query("q", text)
        cep.add_output_processor("q", lambda rows: None, batch=True)
        costs: list[float] = []
        sizes = _sizes(most)
        for start in range(0, most, BATCH):
            batch = _events(start, BATCH)
            before = time.perf_counter()
            cep.push_events("trades", batch)
            costs.append((time.perf_counter() - before) / BATCH * 1e6)
            if start + BATCH >= sizes[0]:
                yield LiveCost(name, start + BATCH, statistics.median(costs), percentile(costs, 99))
                progress(f"{name}: {start + BATCH:,} events, {statistics.median(costs):.1f} µs each")
                costs.clear()
                sizes.pop(0)


def _sizes(most: int) -> list[int]:
    powers = (step * 10**power for power in range(4, 8) for step in (1, 2, 5))
    return [*(size for size in powers if size < most), most]


def _events(start: int, count: int) -> pa.Table:
    """One tick per millisecond, whose values depend on its number only."""
    places = range(start, start + count)
    mixed = [(place * 2654435761 + 12345) % 2**32 for place in places]
    return pa.table(
        {
            "ts": pa.array(places, pa.int64()),
            "symbol": pa.array([f"S{(value >> 8) % SYMBOLS}" for value in mixed]),
            "price": pa.array([float((value >> 16) % 1000) for value in mixed]),
        }
    )


def draw(points: list[LiveCost], path: Path) -> None:
    """Plots the costs over the number of events; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name in dict.fromkeys(point.query for point in points):
        own = [point for point in points if point.query == name]
        axes.plot([p.events for p in own], [p.microseconds for p in own], marker="o", label=name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("events before")
    axes.set_ylabel("microseconds per event")
    axes.set_title("Continuous MATCH_RECOGNIZE: cost of an event over its history")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=130)
