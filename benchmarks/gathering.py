"""Single pushes from several threads, with `linger` and without."""

from __future__ import annotations

import dataclasses
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import bridge
from benchmarks.pushes import QUERIES

THREADS = 8


@dataclasses.dataclass
class Rate:
    """Events per second of one query: of each run, without and with `linger`."""

    database: str
    query: str
    alone: list[float] = dataclasses.field(default_factory=list)
    together: list[float] = dataclasses.field(default_factory=list)


def measure(
    databases: Sequence[str], seconds: float, runs: int, linger: str, report: Callable[[str], object]
) -> Iterator[Rate]:
    """The rates of all queries on each database, both ways in turns."""
    for database in databases:
        for name, (language, text) in QUERIES.items():
            rate = Rate(database, name)
            for run in range(1, runs + 1):
                report(f"{database}: {name}, run {run}")
                rate.alone.append(events_per_second(database, language, text, seconds))
                rate.together.append(events_per_second(database, language, text, seconds, linger=linger))
            yield rate


def events_per_second(database: str, language: str, text: str, seconds: float, **options: Any) -> float:
    """The rate at which the threads push events for so many seconds, and until all of them are in."""
    with bridge.connect(database, clock="system", durable=False, **options) as cep:
        cep.register_stream("trades", "symbol VARCHAR, price DOUBLE")
        cep.create_query("q", text, language=language)
        cep.add_output_processor("q", lambda event: None)
        counts = [0] * THREADS
        began = time.perf_counter()

        def push(thread: int) -> None:
            place = thread
            while time.perf_counter() - began < seconds:
                cep.push_event("trades", [f"S{place * 7 % 100}", float(place * 7919 % 1000)])
                place += THREADS
                counts[thread] += 1

        threads = [threading.Thread(target=push, args=(thread,)) for thread in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cep.flush()
        return sum(counts) / (time.perf_counter() - began)


def markdown(rates: Sequence[Rate]) -> str:
    """A table of medians, with the range of the runs."""
    lines = [
        f"| database | query | one by one, events/s | with `linger`, {THREADS} threads | ratio |",
        "|---|---|--:|--:|--:|",
    ]
    for rate in rates:
        alone, together = statistics.median(rate.alone), statistics.median(rate.together)
        lines.append(
            f"| {rate.database} | {rate.query} | {_spread(rate.alone)} | {_spread(rate.together)} | {together / alone:.1f} |"
        )
    return "\n".join(lines)


def _spread(rates: Sequence[float]) -> str:
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"
