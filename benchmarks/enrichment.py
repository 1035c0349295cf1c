"""ReadSQL: so many events enriched from a table of so many rows, beside the plain JOIN of the same two tables.

    python -m benchmarks.enrichment                 # 1,000,000 events and rows on DuckDB
    python -m benchmarks.enrichment 100000 sqlite:// duckdb:// --store

`--store`: the table is in a data store of its own (SQLite), so the rows come through Python.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import bridge
from windows.databases import Database, open_database

SCRIPT = """
CREATE STREAMSCHEMA calls WITH caller integer, duration integer;
CREATE SQL plan_of{store} AS SELECT plan, a_second FROM plans WHERE id = ?;
INSERT INTO planned SELECT caller, duration, plan, a_second FROM calls ON SQL plan_of, p, caller, plan, a_second
"""
PLAIN = "SELECT e.ts, e.caller, e.duration, p.plan, p.a_second FROM events e JOIN plans p ON p.id = e.caller"


def tables(rows: int) -> tuple[pa.Table, pa.Table]:
    """The events and the plans; every event has one plan."""
    callers = np.random.default_rng(1).permutation(rows)
    events = pa.table({"ts": np.arange(rows), "caller": callers, "duration": callers % 100})
    names = pa.array([f"plan {number % 50}" for number in range(rows)])
    return events, pa.table({"id": np.arange(rows), "plan": names, "a_second": np.arange(rows) % 9})


def fill(database: Database, name: str, columns: str, rows: pa.Table) -> None:
    database.begin()
    database.execute(f"CREATE TABLE {name} ({columns})")
    database.append(name, rows)
    database.commit()


def seconds(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def best(database: Database, sql: str) -> float:
    """Seconds of a statement, the best of three."""
    return min(seconds(lambda: database.arrow(sql) or database.fetch(sql)) for _ in range(3))


def measured(url: str, rows: int, in_store: bool) -> tuple[float, float, float, int]:
    """Seconds of the plain JOIN, of the same in the order of time, and of the query, and the number of its results."""
    events, plans = tables(rows)
    with bridge.connect(url) as cep:
        database = cep.database
        home = open_database("sqlite://") if in_store else database
        fill(home, "plans", "id BIGINT PRIMARY KEY, plan VARCHAR(20), a_second BIGINT", plans)
        fill(database, "events", "ts BIGINT, caller BIGINT, duration BIGINT", events)
        if in_store:
            cep.register_datastore("crm", home)
            fill(database, "plans", "id BIGINT PRIMARY KEY, plan VARCHAR(20), a_second BIGINT", plans)
        plain, ordered = (best(database, sql) for sql in (PLAIN, f"{PLAIN} ORDER BY e.ts"))
        cep.create_query("script", SCRIPT.format(store=" ON crm" if in_store else ""), language="cpl")
        counts: list[int] = []
        cep.add_output_processor("planned", lambda table: counts.append(table.num_rows), batch=True)
        took = seconds(lambda: cep.push_events("calls", events))
        return plain, ordered, took, sum(counts)


def main() -> None:
    options = sys.argv[1:]
    in_store = "--store" in options
    numbers = [int(option) for option in options if option.isdigit()] or [1_000_000]
    urls = [option for option in options if "://" in option] or ["duckdb://"]
    for url in urls:
        for rows in numbers:
            plain, ordered, took, count = measured(url, rows, in_store)
            told = f"JOIN {plain:.2f} s, in order {ordered:.2f} s, ReadSQL {took:.2f} s, {count} results"
            print(f"{url} {rows} events: {told}")


if __name__ == "__main__":
    main()
