"""ReadSQL: events enriched from a table of as many rows, compared with the JOIN of the two tables.

    python -m benchmarks.enrichment                 # 1,000,000 events and rows on DuckDB
    python -m benchmarks.enrichment 100000 sqlite:// duckdb:// --store

With `--store` the table is in a data store of its own (SQLite), so its rows pass through Python.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

import bridge
from windows.databases import Database, open_database

TURNS = 9
"""The runs of each way. They take turns, so that other load of the machine affects all of them."""

SCRIPT = """
CREATE STREAMSCHEMA calls WITH caller integer, duration integer;
CREATE SQL plan_of{store} AS SELECT plan, a_second FROM plans WHERE id = ?;
INSERT INTO planned SELECT caller, duration, plan, a_second FROM calls ON SQL plan_of, p, caller, plan, a_second
"""
PLAIN = "SELECT e.ts, e.caller, e.duration, p.plan, p.a_second FROM events e JOIN plans p ON p.id = e.caller"


def tables(rows: int) -> tuple[pa.Table, pa.Table]:
    """The events and the plans. Each event has one plan."""
    callers = np.random.default_rng(1).permutation(rows)
    events = pa.table({"ts": np.arange(rows), "caller": callers, "duration": callers % 100})
    names = pa.array([f"plan {number % 50}" for number in range(rows)])
    return events, pa.table({"id": np.arange(rows), "plan": names, "a_second": np.arange(rows) % 9})


def fill(database: Database, name: str, columns: str, rows: pa.Table) -> None:
    """Creates a table with these rows."""
    database.begin()
    database.execute(f"CREATE TABLE {name} ({columns})")
    database.append(name, rows)
    database.commit()


def seconds(do: Callable[[], object]) -> float:
    """The seconds that a call takes."""
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def measure(url: str, rows: int, in_store: bool) -> tuple[list[float], list[float], list[float], int]:
    """The seconds of each run of the JOIN, of the JOIN in the order of time, and of the query; and the number of results."""
    events, plans = tables(rows)
    with bridge.connect(url) as cep:
        database = cep.database
        home = open_database("sqlite://") if in_store else database
        fill(home, "plans", "id BIGINT PRIMARY KEY, plan VARCHAR(20), a_second BIGINT", plans)
        fill(database, "events", "ts BIGINT, caller BIGINT, duration BIGINT", events)
        if in_store:
            cep.register_datastore("crm", home)
            fill(database, "plans", "id BIGINT PRIMARY KEY, plan VARCHAR(20), a_second BIGINT", plans)
        cep.create_query("script", SCRIPT.format(store=" ON crm" if in_store else ""), language="cpl")
        counts: list[int] = []
        cep.add_output_processor("planned", lambda table: counts.append(table.num_rows), batch=True)
        times: tuple[list[float], ...] = ([], [], [])
        for turn in range(TURNS):
            pushed = events.set_column(0, "ts", pa.array(np.arange(rows) + turn * rows))
            ways = (
                partial(fetch, database, PLAIN),
                partial(fetch, database, f"{PLAIN} ORDER BY e.ts"),
                partial(cep.push_events, "calls", pushed),
            )
            for taken, way in zip(times, ways, strict=True):
                taken.append(seconds(way))
        plain, ordered, ours = times
        return plain, ordered, ours, sum(counts)


def fetch(database: Database, sql: str) -> object:
    """The rows of a statement, as Arrow if the database can."""
    rows = database.fetch_arrow(sql)
    return database.fetch(sql) if rows is None else rows


def main() -> None:
    options = sys.argv[1:]
    in_store = "--store" in options
    numbers = [int(option) for option in options if option.isdigit()] or [1_000_000]
    urls = [option for option in options if "://" in option] or ["duckdb://"]
    for url in urls:
        for rows in numbers:
            plain, ordered, ours, count = measure(url, rows, in_store)
            times = ", ".join(
                f"{name} {statistics.median(taken):.2f} s"
                for name, taken in (("JOIN", plain), ("in order", ordered), ("ReadSQL", ours))
            )
            ratio = statistics.median(b / a for a, b in zip(plain, ours, strict=True))
            print(f"{url} {rows} events, {TURNS} turns: {times}, {ratio:.1f} times the JOIN; {count} results")


if __name__ == "__main__":
    main()
