"""Tables that other programs write, as streams."""

from __future__ import annotations

import pathlib
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

import bridge
from bridge.engine.watch.gaps import GAPS, LOWEST, GapChange, Gaps, between
from tests.support import writers
from tests.support.databases import DATABASES, Database, one_of

shared = one_of([database for database in DATABASES if database.name != "duckdb"])
"""The databases that other programs write at the same time."""


class Shop:
    """A database with a bridge, and a connection of another program."""

    def __init__(self, database: Database, folder: pathlib.Path) -> None:
        self.url = database.durable(folder)
        waits = {"connect_args": {"timeout": 30}} if database.name == "sqlite" else {}
        self.engine = sa.create_engine(self.url, pool_size=10, **waits)

    def do(self, *statements: str) -> None:
        """Runs statements in one transaction of the other program."""
        with self.engine.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))

    def connect(self, **options: Any) -> Any:
        return bridge.connect(self.url, **options)


@pytest.fixture
def shop(shared: Database, tmp_path: pathlib.Path) -> Iterator[Shop]:
    made = Shop(shared, tmp_path)
    yield made
    made.engine.dispose()


def rows(cep: Any, table: str, columns: str) -> list[Any]:
    return [tuple(row) for row in cep.database.fetch(f"SELECT {columns} FROM {table}")]


class TestGaps:
    def test_any_order_of_commits_reads_each_position_once(self) -> None:
        for seed in range(200):
            rng = random.Random(seed)
            numbers = list(range(1, 40))
            committed = rng.sample(numbers, 30)
            gaps, read = Gaps(), list[int]()
            while committed:
                some = sorted(committed[: rng.randint(1, 5)])
                committed = committed[len(some) :]
                fresh = [number for number in some if gaps.contains(number)]
                assert fresh == some
                gaps.apply(gaps.change(fresh), 0.0)
                read += fresh
                assert not any(gaps.contains(number) for number in read)
            inside = {number for first, last in gaps.ranges for number in range(max(first, 0), last + 1)}
            assert inside | set(read) == set(range(max(read) + 1))

    def test_old_gaps_are_asked_ever_more_seldom(self) -> None:
        gaps = Gaps()
        gaps.apply(GapChange(10, [], [(3, 4)]), 0.0)
        asked = [second / 10 for second in range(36_000) if gaps.due(second / 10)]
        assert len([one for one in asked if one < 2]) == 20
        assert 20 < len([one for one in asked if one >= 2]) < 40

    def test_what_remains_of_a_gap_is_as_old_as_the_gap(self) -> None:
        gaps = Gaps()
        gaps.apply(GapChange(10, [], [(3, 9)]), 0.0)
        gaps.apply(gaps.change([5]), 100.0)
        assert gaps.due(100.0) == [(3, 4), (6, 9)]
        assert gaps.due(110.0) == []

    def test_the_oldest_gaps_are_too_many(self) -> None:
        gaps = Gaps(2 * GAPS + 10, [(2 * number, 2 * number) for number in range(GAPS + 3)])
        assert gaps.surplus() == [0, 2, 4]

    def test_between(self) -> None:
        assert list(between([])) == list(between([7])) == []
        assert LOWEST == -(2**63) + 1


def test_rows_are_events_once(shop: Shop) -> None:
    writers.create(shop.engine, "orders")
    shop.do("INSERT INTO orders (writer, amount) VALUES ('before', 1)")
    cep = shop.connect()
    cep.register_stream("orders", table="orders", position="id", timestamp="created_at")
    cep.create_query("seen", "SELECT writer, amount FROM orders", into="results")
    assert cep.poll() == 0
    shop.do(
        "INSERT INTO orders (writer, amount) VALUES ('a', 2)", "INSERT INTO orders (writer, amount) VALUES ('b', 3)"
    )
    assert cep.poll() == 2
    assert cep.poll() == 0
    cep.close()
    shop.do("INSERT INTO orders (writer, amount) VALUES ('c', 4)")
    cep = shop.connect()
    assert cep.poll() == 1
    assert rows(cep, "results", "writer, amount") == [("a", 2), ("b", 3), ("c", 4)]
    assert cep.position("orders") == 4
    cep.close()


@pytest.mark.parametrize(("since", "expected"), [("beginning", [1, 2, 3]), ("now", [3]), (1, [2, 3])])
def test_where_a_stream_begins(shop: Shop, since: Any, expected: list[int]) -> None:
    writers.create(shop.engine, "orders")
    shop.do("INSERT INTO orders (amount) VALUES (1)", "INSERT INTO orders (amount) VALUES (2)")
    with shop.connect() as cep:
        cep.register_stream("orders", table="orders", position="id", since=since)
        cep.create_query("seen", "SELECT amount FROM orders", into="results")
        shop.do("INSERT INTO orders (amount) VALUES (3)")
        assert cep.poll() == len(expected)
        assert [amount for (amount,) in rows(cep, "results", "amount")] == expected


def test_a_row_committed_below_newer_ones(shop: Shop) -> None:
    """Also after the process has ended, and with SINCE NOW while its transaction was open."""
    if shop.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    writers.create(shop.engine, "orders")
    with shop.engine.connect() as one, shop.engine.connect() as other, shop.engine.connect() as third:
        insert = "INSERT INTO orders (writer) VALUES ('{}')"
        one.execute(sa.text(insert.format("before the stream")))
        other.execute(sa.text(insert.format("rolled back")))
        shop.do(insert.format("old"))
        cep = shop.connect()
        cep.register_stream("orders", table="orders", position="id")
        cep.create_query("seen", "SELECT id, writer FROM orders", into="results")
        third.execute(sa.text(insert.format("late")))
        shop.do(insert.format("new"))
        assert cep.poll() == 1
        cep.close()
        one.commit()
        other.rollback()
        third.commit()
        cep = shop.connect()
        assert cep.poll() == 2
        assert cep.poll() == 0
        assert rows(cep, "results", "id, writer") == [(5, "new"), (1, "before the stream"), (4, "late")]
        cep.close()


@pytest.mark.parametrize("seed", range(2))
def test_writers_at_the_same_time(shop: Shop, seed: int) -> None:
    writers.create(shop.engine, "orders")
    with shop.connect() as cep:
        cep.register_stream("orders", table="orders", position="id", timestamp="created_at")
        cep.create_query("seen", "SELECT id FROM orders", into="results")
        with writers.Writers(shop.engine, "orders", 8, 100, seed) as at_work:
            while at_work.are_at_work:
                cep.poll()
        cep.poll()
        assert sorted(rows(cep, "results", "id")) == writers.rows_of(shop.engine, "orders")


def test_as_one_replay_over_the_table(shop: Shop) -> None:
    """With a lateness, in the order of time, then of positions, whatever the order of the commits."""
    writers.create(shop.engine, "orders")
    query = "SELECT writer, SUM(amount) AS total, MAX(id) AS id FROM orders WINDOW(ROWS 20) GROUP BY writer"
    with shop.connect(lateness="1 S") as cep:
        cep.register_stream("orders", table="orders", position="id", timestamp="created_at")
        cep.create_query("seen", query, into="results")
        with writers.Writers(shop.engine, "orders", 6, 60, 7) as at_work:
            while at_work.are_at_work:
                cep.poll()
        cep.poll()
        cep.finish()
        live = rows(cep, "results", "ts, writer, total, id")
    with shop.connect(fresh=True) as cep:
        cep.register_stream("orders", table="orders", position="id", timestamp="created_at", since="beginning")
        cep.create_query("seen", query, into="again")
        cep.poll()
        assert rows(cep, "again", "ts, writer, total, id") == live


def test_two_tables_are_merged_by_time(shop: Shop) -> None:
    kind = "TEXT" if shop.engine.dialect.name == "sqlite" else "VARCHAR(20)"
    shop.do(
        f"CREATE TABLE orders (id INTEGER PRIMARY KEY, at BIGINT, customer {kind})",
        "CREATE TABLE payments (id INTEGER PRIMARY KEY, at BIGINT, order_id INTEGER)",
    )
    for number in range(1, 2_501):
        if number % 500 == 1:
            shop.do(*(f"INSERT INTO orders VALUES ({n}, {n * 10}, 'c')" for n in range(number, number + 500)))
            shop.do(
                *(f"INSERT INTO payments VALUES ({n}, {n * 10 + 5}, {n})" for n in range(number, number + 500) if n % 3)
            )
    with shop.connect() as cep:
        cep.register_stream("orders", table="orders", position="id", timestamp="at", since="beginning")
        cep.register_stream("payments", table="payments", position="id", timestamp="at", since="beginning")
        cep.create_query(
            "paid",
            "SELECT o.id AS id FROM orders WINDOW(RANGE 6 MS) AS o, payments WINDOW(RANGE 6 MS) AS p WHERE o.id = p.order_id",
            into="results",
        )
        assert cep.poll() == 2_500 + 1_667
        assert sorted(rows(cep, "results", "id")) == [(n,) for n in range(1, 2_501) if n % 3]


def test_rows_that_are_no_events(shop: Shop) -> None:
    """They are late events, and hold nothing up."""
    shop.do("CREATE TABLE readings (id INTEGER PRIMARY KEY, taken VARCHAR(30), value VARCHAR(10))")
    shop.do(
        "INSERT INTO readings VALUES (1, '2026-01-01 00:00:01', '7')",
        "INSERT INTO readings VALUES (2, NULL, '8')",
        "INSERT INTO readings VALUES (3, 'yesterday', '9')",
        "INSERT INTO readings VALUES (4, '2026-01-01 00:00:02', '10')",
    )
    with shop.connect() as cep:
        cep.register_stream("readings", table="readings", position="id", timestamp="taken", since="beginning")
        cep.create_query("seen", "SELECT value FROM readings", into="results")
        late: list[Any] = []
        cep.add_late_processor(late.append)
        assert cep.poll() == 4
        assert rows(cep, "results", "value") == [("7",), ("10",)]
        assert [(one.kind, one.payload["id"]) for one in late] == [("wrong", 2), ("wrong", 3)]
        assert len(rows(cep, "late_events", "reason")) == 2
        shop.do("DROP TABLE readings")


def test_changes(shop: Shop) -> None:
    writers.create(shop.engine, "orders")
    cep = shop.connect()
    cep.register_stream("changes", changes_of="orders")
    cep.create_query("seen", "SELECT operation, id, amount, old_amount FROM changes", into="results")
    shop.do("INSERT INTO orders (amount) VALUES (1)", "UPDATE orders SET amount = 2", "DELETE FROM orders")
    assert cep.poll() == 3
    cep.close()
    shop.do("INSERT INTO orders (amount) VALUES (5)")
    cep = shop.connect()
    assert cep.poll() == 1
    assert rows(cep, "results", "operation, amount, old_amount") == [
        ("insert", 1, None), ("update", 2, 1), ("delete", 2, 2), ("insert", 5, None)
    ]  # fmt: skip
    assert rows(cep, "cep_changes_changes", "*") == []
    cep.drop()
    shop.do("INSERT INTO orders (amount) VALUES (6)")


@pytest.mark.parametrize("way", ["remove", "drop", "fresh"])
def test_triggers_go_with_the_stream(shop: Shop, way: str) -> None:
    writers.create(shop.engine, "orders")
    cep = shop.connect()
    cep.register_stream("changes", changes_of="orders")
    if way == "remove":
        cep.remove_stream("changes")
    elif way == "drop":
        cep.drop()
    cep.close()
    if way == "fresh":
        shop.connect(fresh=True).close()
    shop.do("INSERT INTO orders (amount) VALUES (1)")


def test_changes_of_writers_at_the_same_time(shop: Shop) -> None:
    writers.create(shop.engine, "orders")
    with shop.connect() as cep:
        cep.register_stream("changes", changes_of="orders")
        cep.create_query("seen", "SELECT operation, id FROM changes", into="results")
        with writers.Writers(shop.engine, "orders", 6, 50, 3) as at_work:
            while at_work.are_at_work:
                cep.poll()
        cep.poll()
        seen = rows(cep, "results", "operation, id")
        assert sorted((number,) for _, number in seen) == writers.rows_of(shop.engine, "orders")
        cep.drop()


def test_run_until_it_is_stopped(shop: Shop) -> None:
    writers.create(shop.engine, "orders")
    with shop.connect() as cep:
        cep.register_stream("orders", table="orders", position="id")
        cep.create_query("seen", "SELECT amount FROM orders")
        got: list[int] = []

        def receive(event: Any) -> None:
            got.append(event.payload["amount"])
            if event.payload["amount"] == 3:
                raise RuntimeError("logged")
            if event.payload["amount"] == 5:
                cep.stop()

        cep.add_output_processor("seen", receive)
        thread = threading.Thread(target=cep.run, daemon=True)
        thread.start()
        for amount in range(1, 6):
            shop.do(f"INSERT INTO orders (amount) VALUES ({amount})")
            time.sleep(0.01)
        thread.join(20)
        assert not thread.is_alive()
        assert got == [1, 2, 3, 4, 5]


def test_time_does_not_pass_rows_that_are_not_read(shop: Shop) -> None:
    """The clock may be far ahead of the rows, as after a pause of the process."""
    writers.create(shop.engine, "orders")
    with shop.connect(clock="system") as cep:
        cep.register_stream("orders", table="orders", position="id", timestamp="created_at")
        times: list[int] = []
        cep.create_query("seen", "SELECT id FROM orders")
        cep.add_output_processor("seen", lambda event: times.append(event.timestamp))
        shop.do("INSERT INTO orders (amount) VALUES (1)")
        time.sleep(0.3)
        assert cep.now is None
        cep.poll()
        (ts,) = times
        shop.do("INSERT INTO orders (amount) VALUES (2)")
        cep.poll()
        cep.poll()
        deadline = time.monotonic() + 5
        while cep.now <= ts and time.monotonic() < deadline:
            time.sleep(0.02)
        assert cep.now > ts
