"""What it costs to create queries, to group their statements, and to start, in CPU time of this process."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import bridge

QUERIES = {
    "filter": ("sql", "SELECT symbol, price FROM trades WHERE price > {}"),
    "AVG by symbol": (
        "sql",
        "SELECT symbol, AVG(price) AS mean FROM trades WINDOW(RANGE {} S) GROUP BY symbol",
    ),
    "MATCH_RECOGNIZE": (
        "sql",
        "SELECT * FROM trades MATCH_RECOGNIZE (PARTITION BY symbol MEASURES A.price AS a, B.price AS b "
        "PATTERN (A B) WITHIN 10 S DEFINE A AS price > {}, B AS price < A.price)",
    ),
    "EPL `every a -> b`": (
        "epl",
        "select a.price as a, b.price as b from pattern [every a=trades(price > {}) -> b=trades(symbol = a.symbol)]",
    ),
}
"""A query of each kind, with a place for a number: each is created with many numbers."""

MIXED = "mixed"
START = "import time; began = time.process_time(); import bridge; print(time.process_time() - began)"


class Creation(NamedTuple):
    """Milliseconds per query: to create it, and to let one event reach it after one more query has been created."""

    database: str
    kind: str
    count: int
    create: float
    first_push: float
    next_push: float


def measure(databases: Sequence[str], count: int, runs: int, report: Callable[[str], object]) -> Iterator[Creation]:
    """The cost of `count` queries of each kind, and of all kinds in turns, in one bridge: medians of the runs."""
    for database in databases:
        for kind in (*QUERIES, MIXED):
            found = []
            for run in range(1, runs + 1):
                report(f"{database}: {count} × {kind}, run {run}")
                found.append(_created(database, kind, count))
            create, first, following = (statistics.median(part) for part in zip(*found, strict=True))
            yield Creation(database, kind, count, create, first, following)


def _created(database: str, kind: str, count: int) -> tuple[float, float, float]:
    kinds = list(QUERIES.values()) if kind == MIXED else [QUERIES[kind]]
    with bridge.connect(database, durable=False) as cep:
        cep.register_stream("trades", "symbol VARCHAR, price DOUBLE")

        def create(number: int) -> None:
            language, text = kinds[number % len(kinds)]
            cep.create_query(f"q{number}", text.format(number + 1), language=language)
            cep.add_output_processor(f"q{number}", lambda event: None)

        def push(ts: int) -> None:
            cep.push_event("trades", ["A", 0.5], ts)

        created = _milliseconds(lambda: [create(number) for number in range(count)])
        first = _milliseconds(lambda: push(1))
        push(2)  # what the event before has postponed
        create(count)
        return created / count, first / count, _milliseconds(lambda: push(3)) / count


def _milliseconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return (time.process_time() - began) * 1000


def seconds_of_import(runs: int) -> float:
    """CPU seconds of `import bridge` in a new process, its compiled files being there: the least of the runs."""
    run = [sys.executable, "-c", START]
    return min(float(subprocess.run(run, check=True, capture_output=True, text=True).stdout) for _ in range(runs + 1))


def markdown(found: Sequence[Creation], start: float) -> str:
    """A table of the kinds, and a line on the start."""
    lines = [
        "| database | queries | to create one, ms | first push, ms per query | push after one more, ms per query |",
        "|---|---|--:|--:|--:|",
    ]
    lines += [
        f"| {each.database} | {each.count} × {each.kind} | {each.create:.1f} | {each.first_push:.1f} | {each.next_push:.2f} |"
        for each in found
    ]
    return "\n".join([*lines, "", f"`import bridge`: {start:.2f} s"])
