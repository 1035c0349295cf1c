"""Tables as streams: history that is caught up, the time from a commit to the result, and the load of the watcher.

    python -m benchmarks.watch --db postgresql+psycopg://user@host/db --rows 1000000

The tables `watched_rows` and those of the bridge are made anew, and dropped at the end.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from typing import Any

import click
import sqlalchemy as sa

import bridge

TABLE = "watched_rows"

COLUMNS = {
    "postgresql": "id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at TIMESTAMPTZ DEFAULT clock_timestamp()",
    "mariadb": "id BIGINT AUTO_INCREMENT PRIMARY KEY, at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)",
    "sqlite": "id INTEGER PRIMARY KEY, at TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))",
}
NUMBERS = {
    "postgresql": "SELECT TIMESTAMPTZ '2026-01-01 00:00:00+00' + i * INTERVAL '1 ms', i % 100, i % 1000 "
    "FROM generate_series(1, {}) AS g(i)",
    "mariadb": "SELECT TIMESTAMP '2026-01-01 00:00:00' + INTERVAL seq * 1000 MICROSECOND, seq % 100, seq % 1000 FROM seq_1_to_{}",
    "sqlite": "WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < {}) "
    "SELECT strftime('%Y-%m-%d %H:%M:%f', 1767225600.0 + i / 1000.0, 'unixepoch'), i % 100, i % 1000 FROM g",
}

FILTER = f"SELECT id, amount FROM {TABLE} WHERE amount > 990"
AVERAGE = (
    f"SELECT customer, AVG(amount) AS mean FROM {TABLE} WINDOW(RANGE 1 S) GROUP BY customer HAVING AVG(amount) > 900"
)


@contextlib.contextmanager
def table(url: str) -> Any:
    """The engine, with an empty table; both the table and the bridge's are dropped at the end."""
    engine = sa.create_engine(url, **({"connect_args": {"timeout": 60}} if "sqlite" in url else {}))
    name = engine.dialect.name
    try:
        with engine.begin() as connection:
            connection.execute(sa.text(f"DROP TABLE IF EXISTS {TABLE}"))
            connection.execute(sa.text(f"CREATE TABLE {TABLE} ({COLUMNS[name]}, customer BIGINT, amount BIGINT)"))
        yield engine
    finally:
        with contextlib.suppress(bridge.BridgeError):
            bridge.connect(url, fresh=True).drop()
        with engine.begin() as connection:
            connection.execute(sa.text(f"DROP TABLE {TABLE}"))
        engine.dispose()


def watching(url: str, since: str) -> Any:
    cep = bridge.connect(url, fresh=True)
    cep.register_stream(TABLE, table=TABLE, position="id", timestamp="at", since=since)
    return cep


def history(url: str, rows: int) -> str:
    """Reads a table that has rows already, and pushes the same rows as Arrow."""
    import numpy as np
    import pyarrow as pa

    with table(url) as engine:
        with engine.begin() as connection:
            fill = f"INSERT INTO {TABLE} (at, customer, amount) {NUMBERS[engine.dialect.name].format(rows)}"
            connection.execute(sa.text(fill))
        with watching(url, "beginning") as cep:
            cep.create_query("high", FILTER)
            cep.create_query("means", AVERAGE)
            begun = time.perf_counter()
            assert cep.poll() == rows
            read = time.perf_counter() - begun
    numbers = np.arange(1, rows + 1)
    times = numbers + 1_767_225_600_000
    events = pa.table(
        {"ts": times, "id": numbers, "at": pa.array(times * 1000, pa.timestamp("us")), "customer": numbers % 100,
         "amount": numbers % 1000}
    )  # fmt: skip
    with bridge.connect(url, fresh=True) as cep:
        cep.register_stream(TABLE, "id BIGINT, at TIMESTAMP, customer BIGINT, amount BIGINT")
        cep.create_query("high", FILTER)
        cep.create_query("means", AVERAGE)
        begun = time.perf_counter()
        cep.push_events(TABLE, events)
        pushed = time.perf_counter() - begun
        cep.drop()
    return f"{rows:,} rows of history: {rows / read:,.0f} a second, pushed as Arrow {rows / pushed:,.0f} ({read / pushed:.2f} x)"


def latency(url: str, rows: int) -> str:
    """Milliseconds from the COMMIT of a row to the call of a processor of its result, one row every 20 ms."""
    came: dict[int, float] = {}
    committed: dict[int, float] = {}
    with table(url) as engine, watching(url, "now") as cep:
        cep.create_query("all_rows", f"SELECT amount FROM {TABLE}", into="watched_results")
        cep.add_output_processor(
            "all_rows", lambda event: came.setdefault(event.payload["amount"], time.perf_counter())
        )
        thread = threading.Thread(target=cep.run, daemon=True)
        thread.start()
        time.sleep(0.5)
        with engine.connect() as connection:
            for number in range(rows):
                connection.execute(sa.text(f"INSERT INTO {TABLE} (amount) VALUES ({number})"))
                connection.commit()
                committed[number] = time.perf_counter()
                time.sleep(0.02)
        time.sleep(1)
        cep.stop()
        thread.join()
        cep.database.execute("DROP TABLE watched_results")
    found = sorted((came[number] - committed[number]) * 1_000 for number in range(rows))
    return (
        f"latency from COMMIT to the result: median {statistics.median(found):.1f} ms, 90 % {found[int(rows * 0.9)]:.1f}, "
        f"99 % {found[int(rows * 0.99)]:.1f}"
    )


def write(url: str, seconds: float, rate: float, batch: int, out: Any) -> None:
    """Inserts `batch` rows per transaction and `rate` rows per second; puts their number and the median time into `out`."""
    engine = sa.create_engine(url)
    values = ", ".join(f"({number % 100}, {number % 1000})" for number in range(batch))
    statement = sa.text(f"INSERT INTO {TABLE} (customer, amount) VALUES {values}")
    taken: list[float] = []
    end = time.perf_counter() + seconds
    with engine.connect() as connection:
        due = time.perf_counter()
        while time.perf_counter() < end:
            begun = time.perf_counter()
            connection.execute(statement)
            connection.commit()
            taken.append(time.perf_counter() - begun)
            due += batch / rate
            time.sleep(max(0.0, due - time.perf_counter()))
    out.put((len(taken) * batch, statistics.median(taken) * 1_000))


def run_writers(url: str, seconds: float, rate: float) -> tuple[int, float]:
    """The rows of four writers, and the median of the milliseconds of a transaction of 25 rows."""
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    writers = [context.Process(target=write, args=(url, seconds, rate / 4, 25, out)) for _ in range(4)]
    for writer in writers:
        writer.start()
    found = [out.get() for _ in writers]
    for writer in writers:
        writer.join()
    return sum(rows for rows, _ in found), statistics.median(each for _, each in found)


def load(url: str, seconds: float, rate: float) -> str:
    """What the watcher, with 20 queries, costs the writers, and whether it keeps up."""
    with table(url):
        alone, before = run_writers(url, seconds, rate)
    with table(url), watching(url, "now") as cep:
        for number in range(10):
            cep.create_query(f"high_{number}", f"SELECT id FROM {TABLE} WHERE amount > {980 + number}")
            cep.create_query(
                f"mean_{number}",
                f"SELECT customer, COUNT(*) AS n FROM {TABLE} WINDOW(RANGE 1 S) GROUP BY customer "
                f"HAVING COUNT(*) > {9_000 + number}",
            )
        stopped = threading.Event()
        result: list[tuple[int, float]] = []

        def writing() -> None:
            result.append(run_writers(url, seconds, rate))
            stopped.set()

        thread = threading.Thread(target=writing)
        thread.start()
        read = 0
        while not stopped.is_set():
            read += cep.poll()
            time.sleep(0.005)
        behind = cep.poll()
        thread.join()
    rows, during = result[0]
    assert read + behind == rows
    return (
        f"four writers, {alone / seconds:,.0f} rows a second without the watcher ({before:.2f} ms a transaction), "
        f"{rows / seconds:,.0f} with it and 20 queries ({during:.2f} ms, {during / before:.2f} x); {behind:,} behind at the end"
    )


@click.command(help=__doc__)
@click.option(
    "--db", default=None, help="The URL of a server or of a file of SQLite. Default: a temporary file of SQLite."
)
@click.option("--rows", default=200_000, show_default=True, help="Rows of history.")
@click.option("--seconds", default=15.0, show_default=True, help="How long the writers are at work.")
@click.option("--rate", default=10_000.0, show_default=True, help="Rows that are inserted per second.")
def main(db: str | None, rows: int, seconds: float, rate: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = db or f"sqlite:///{os.path.join(folder, 'watch.db')}"
        click.echo(url.split("@")[-1].split("?")[0])
        click.echo(latency(url, 300))
        click.echo(history(url, rows))
        click.echo(load(url, seconds, rate))


if __name__ == "__main__":
    main()
