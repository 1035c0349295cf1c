"""A durable bridge under many events with keys that never come again: what its state, its memory and a restart take.

    python -m benchmarks.soak sqlite:///soak.db 50000000 --plot docs/soak.png

Every 2 % it notes the rows of state, the resident memory, the size of the file and the events per second. Every 10 % the
bridge is closed and opened again, and the seconds until it takes the next event are noted.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

import bridge

BATCH = 10_000
"""Events per push, one per millisecond."""

QUERIES = {
    "by_key": (
        "sql",
        "SELECT k, COUNT(*) AS n, SUM(a) AS total FROM s WINDOW(RANGE 10 S) GROUP BY k HAVING COUNT(*) > 1",
    ),
    "per_minute": ("sql", "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 1 MIN SLIDE 1 MIN)"),
    "rising": (
        "sql",
        "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.a AS x, B.a AS y ONE ROW PER MATCH "
        "PATTERN (A B) WITHIN INTERVAL '5' SECOND DEFINE A AS A.a > 95, B AS B.a > A.a) AS m",
    ),
    "unpaid": (
        "epl",
        "select x.k as k from pattern [every x=s(a > 990) -> (timer:interval(5 sec) and not s(k = x.k, a < 10))]",
    ),
}
"""Windows, a row pattern and an absence, all by keys; `per_minute` has a table of results."""


def open_bridge(url: str, **options: Any) -> bridge.Bridge:
    """The bridge with its queries, as a program opens it each time."""
    cep = bridge.connect(url, **options)
    cep.register_stream("s", "k BIGINT, a INTEGER")
    for name, (language, text) in QUERIES.items():
        into = {"into": "per_minute_rows", "keep": "1 H"} if name == "per_minute" else {}
        cep.create_query(name, text, language=language, **into)
        cep.add_output_processor(name, lambda table: None, batch=True)
    return cep


def values_of(number: int) -> tuple[int, int]:
    """The key and the value of an event: each key comes three times within thirty events, and never again."""
    return number // 30 * 10 + number % 10, number * 7_919 % 1_000


def events(first: int) -> pa.Table:
    """A batch of events, one per millisecond."""
    numbers = range(first, first + BATCH)
    keys, values = zip(*map(values_of, numbers), strict=True)
    return pa.table({"ts": list(numbers), "k": keys, "a": pa.array(values, pa.int32())})


def resident_megabytes() -> float:
    """The resident memory of this process."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def soak(url: str, count: int, seconds: float) -> Iterator[dict[str, float]]:
    """Pushes `count` events, for at most `seconds`, and measures now and then."""
    cep, began = open_bridge(url, fresh=True), time.monotonic()
    step, path = max(BATCH, count // 50 // BATCH * BATCH), pathlib.Path(url.split("///", 1)[-1])
    at, since = time.monotonic(), 0
    for first in range(0, count, BATCH):
        cep.push_events("s", events(first), source="soak", position=first + BATCH)
        done = first + BATCH
        if done % step == 0:
            rate = (done - since) / (time.monotonic() - at)
            rows = sum(query.state_rows for query in cep.status().queries.values())
            found = {"events": done, "rows": rows, "memory": resident_megabytes(), "rate": rate}
            if path.exists():
                found["file"] = path.stat().st_size / 2**20
            if done % (5 * step) == 0:
                cep.close()
                restarted = time.monotonic()
                cep = open_bridge(url)
                cep.push_event("s", [-1, 0], done)
                found["restart"] = time.monotonic() - restarted
            yield found
            if time.monotonic() - began > seconds:
                break
            at, since = time.monotonic(), done
    cep.drop()


def printed(measurements: Iterable[dict[str, float]]) -> list[dict[str, float]]:
    """Prints each measurement as JSON when it comes; returns all of them."""
    found = []
    for each in measurements:
        found.append(each)
        print(json.dumps({name: round(value, 3) for name, value in each.items()}), flush=True)
    return found


def plot(found: list[dict[str, float]], path: str) -> None:
    """One panel for each measure over the number of events."""
    from bridge.bench.plot import pyplot

    titles = {
        "rows": "rows of state",
        "memory": "resident memory, MB",
        "rate": "events per second",
        "restart": "restart, s",
    }
    figure, axes = pyplot().subplots(1, len(titles), figsize=(13, 3), layout="constrained")
    for axis, (name, title) in zip(axes, titles.items(), strict=True):
        points = [(each["events"] / 1e6, each[name]) for each in found if name in each]
        axis.plot(*zip(*points, strict=True), marker="." if name == "restart" else None, color="black")
        axis.set_title(title, fontsize=10)
        axis.set_ylim(0, 1.15 * max(value for _, value in points))
        axis.set_xlabel("million events")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Prints each measurement as JSON, and draws them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("events", type=int)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--plot")
    options = parser.parse_args()
    found = printed(soak(options.url, options.events, options.seconds))
    if options.plot:
        plot(found, options.plot)


if __name__ == "__main__":
    main()
