"""A process that reads tables is killed while others write them: every committed row is an event once."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

import bridge
from tests.support import runs, writers
from tests.support.databases import DATABASES, Database, one_of

shared = one_of([database for database in DATABASES if database.name != "duckdb"])

SUMS = "SELECT writer, SUM(amount) AS total, MAX(id) AS id FROM orders WINDOW(ROWS 20) GROUP BY writer"


def engine_of(url: str) -> sa.Engine:
    return sa.create_engine(url, pool_size=10, **({"connect_args": {"timeout": 30}} if "sqlite" in url else {}))


def create(url: str) -> None:
    """Makes the table, and closes the connection."""
    engine = engine_of(url)
    writers.create(engine, "orders")
    engine.dispose()


def opened(url: str, **source: Any) -> Any:
    """The bridge as each run of the process opens it."""
    cep = bridge.connect(url, lateness="20 S", standby=True)
    cep.register_stream("orders", timestamp="created_at" if "table" in source else None, **source)
    if "table" in source:
        cep.create_query("seen", "SELECT id FROM orders", into="seen_rows")
        cep.create_query("sums", SUMS, into="sums_of_writers")
    else:
        cep.create_query("seen", "SELECT operation, id, amount, old_amount FROM orders", into="seen_rows")
    return cep


def work(url: str, **source: Any) -> None:
    cep = opened(url, **source)
    runs.phase[0] = runs.PUSHING
    cep.run(poll="2 MS")


def kill_again_and_again(url: str, write: Callable[[], object], most: int, **source: Any) -> int:
    """Runs the process, and kills it after a random time, as long as another one writes; gives how often.

    This process has no connection open, as a process with one of SQLite must not be forked.
    """
    opened(url, **source).close()
    writer = runs.forked(write)
    kills = 0
    while kills < most and not runs.has_ended(writer):
        kills += 1
        runs.killed(lambda: work(url, **source), kills, 0.4, True)
    assert os.waitpid(writer, 0)[1] == 0
    return kills


@pytest.mark.parametrize("kills", [2, pytest.param(200, marks=pytest.mark.long)])
def test_rows_of_eight_writers(shared: Database, tmp_path: pathlib.Path, kills: int) -> None:
    url = shared.durable(tmp_path)
    create(url)

    def write() -> None:
        with writers.Writers(engine_of(url), "orders", 8, 100 * kills, kills, pause=0.02):
            pass

    source = {"table": "orders", "position": "id"}
    assert kill_again_and_again(url, write, kills, **source) >= kills / 2
    with opened(url, **source) as cep:
        cep.poll()
        cep.finish()
        seen = [tuple(row) for row in cep.database.fetch("SELECT id FROM seen_rows")]
        live = cep.database.fetch("SELECT ts, writer, total, id FROM sums_of_writers")
        late = cep.database.fetch("SELECT COUNT(*) FROM late_events")[0][0]
    engine = engine_of(url)
    assert sorted(seen) == writers.rows_of(engine, "orders")
    assert late == 0
    with bridge.connect(url, fresh=True) as cep:
        cep.register_stream("orders", table="orders", position="id", timestamp="created_at", since="beginning")
        cep.create_query("sums", SUMS, into="sums_of_a_replay")
        cep.poll()
        replayed = cep.database.fetch("SELECT ts, writer, total, id FROM sums_of_a_replay")
    assert sorted(live) == sorted(replayed)


class Changes:
    """Threads that insert, update and delete rows, in transactions of which some are rolled back."""

    def __init__(self, engine: sa.Engine, number: int, count: int) -> None:
        self._engine, self._count = engine, count
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(number)]

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        rng = random.Random(number)
        for step in range(self._count):
            with (
                contextlib.suppress(sa.exc.OperationalError, sqlite3.OperationalError),
                self._engine.connect() as connection,
            ):
                what = rng.choice(["INSERT", "INSERT", "UPDATE", "DELETE"])
                one = f"(SELECT MAX(id) FROM (SELECT id FROM orders WHERE writer = 'w{number}') AS own)"
                statement = {
                    "INSERT": f"INSERT INTO orders (writer, amount) VALUES ('w{number}', {step})",
                    "UPDATE": f"UPDATE orders SET amount = {step} WHERE id = {one}",
                    "DELETE": f"DELETE FROM orders WHERE id = {one}",
                }[what]
                connection.execute(sa.text(statement))
                if rng.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.long)])
def test_changes_of_a_table(shared: Database, tmp_path: pathlib.Path, kills: int) -> None:
    url = shared.durable(tmp_path)
    create(url)
    kill_again_and_again(url, lambda: Changes(engine_of(url), 4, 150 * kills).run(), kills, changes_of="orders")
    with opened(url, changes_of="orders") as cep:
        cep.poll()
        cep.finish()
        found = cep.database.fetch("SELECT operation, id, amount, old_amount FROM seen_rows")
        assert cep.database.fetch("SELECT COUNT(*) FROM late_events")[0][0] == 0
        cep.drop()
    table: dict[int, int] = {}
    for operation, number, amount, before in found:
        if operation == "insert":
            assert number not in table
        else:
            assert table[number] == before
        if operation == "delete":
            del table[number]
        else:
            table[number] = amount
    with engine_of(url).connect() as connection:
        there = {row[0]: row[1] for row in connection.execute(sa.text("SELECT id, amount FROM orders"))}
    assert table == there
