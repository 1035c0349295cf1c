"""Tables that other programs write, as streams."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

import bridge
from bridge.engine.methods.watching import STOP_INTERVAL, Sleeper
from bridge.engine.watch.gaps import FEW, GAPS, LOWEST, GapChange, Gaps, between
from tests.support import writers
from tests.support.databases import DATABASES, Database, one_of, refuse_missing
from windows.databases import Refused

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
        gaps.apply(GapChange(10_000, [], [(2 * number, 2 * number) for number in range(FEW + 1)]), 0.0)
        asked = [second / 10 for second in range(36_000) if gaps.due(second / 10)]
        assert len([one for one in asked if one < 2]) == 20
        assert 20 < len([one for one in asked if one >= 2]) < 40

    def test_what_remains_of_a_gap_is_as_old_as_the_gap(self) -> None:
        gaps = Gaps()
        others = [(20 + 2 * number, 20 + 2 * number) for number in range(FEW)]
        gaps.apply(GapChange(10_000, [], [(3, 9), *others]), 0.0)
        gaps.apply(gaps.change([5]), 100.0)
        assert gaps.due(100.0)[:2] == [(3, 4), (6, 9)]
        assert gaps.due(110.0) == []
        assert Gaps(10, [(3, 4)]).due(0.0) == [(3, 4)]

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


@pytest.mark.parametrize("seed", range(1))
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


def test_a_table_that_is_joined_with_is_not_locked(shop: Shop) -> None:
    """Neither does the bridge wait for a transaction that has changed a row of it, nor that one for the bridge."""
    kind = shop.engine.dialect.name
    shop.do(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY)", "CREATE TABLE customers (id INTEGER PRIMARY KEY, age INTEGER)",
        "INSERT INTO customers VALUES (1, 30), (2, 40)", "INSERT INTO orders VALUES (1), (2)",
    )  # fmt: skip
    with shop.connect() as cep:
        if kind == "mariadb":
            cep.database.execute("SET innodb_lock_wait_timeout = 1")
        cep.register_stream("orders", table="orders", position="id", since="beginning")
        query = "SELECT o.id, c.age FROM orders WINDOW(NOW) o, customers c WHERE o.id = c.id"
        cep.create_query("seen", query, into="results")
        with contextlib.ExitStack() as ended:
            if kind != "sqlite":  # which has one writer at a time
                other = ended.enter_context(shop.engine.connect())
                other.execute(sa.text("UPDATE customers SET age = 31 WHERE id = 1"))
            assert cep.poll() == 2
        assert sorted(rows(cep, "results", "id, age")) == [(1, 30), (2, 40)]


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


UNFIT = {
    "sqlite": (
        "id INTEGER PRIMARY KEY, at DATETIME, day DATE, ok BOOLEAN",
        ["1, 'x', '2026-01-01', 1", "2, '2026-01-01', 20260101, 1", "3, '2026-01-01', '2026-01-01', 'false'", "4, 5, 6, 7"],
    ),
    "postgresql": (
        "id INTEGER PRIMARY KEY, at TIMESTAMPTZ, day DATE, ok BOOLEAN",
        ["1, 'infinity', '2026-01-01', true", "2, '2026-01-01', 'infinity', true", "3, '2026-01-01', '0044-03-15 BC', true",
         "4, '2026-01-01', '-infinity', true"],
    ),
}  # fmt: skip
"""Columns, and rows with values that a driver has no value for, or that are of another kind, as SQLite stores any."""


@pytest.mark.parametrize("history", [0, 2_000])
def test_values_that_do_not_fit_hold_nothing_up(shop: Shop, history: int) -> None:
    kind = shop.engine.dialect.name
    if kind not in UNFIT:
        pytest.skip("its columns take no such values")
    columns, unfit = UNFIT[kind]
    shop.do(f"CREATE TABLE readings ({columns})")
    right = [f"{number}, '2026-01-01 10:00:00', '2026-01-01', true" for number in range(5, 7 + history)]
    values = [row.replace("true", "1") for row in [*unfit, *right]] if kind == "sqlite" else [*unfit, *right]
    shop.do(f"INSERT INTO readings VALUES ({'), ('.join(values)})")
    with shop.connect() as cep:
        cep.register_stream("readings", table="readings", position="id", timestamp="at", since="beginning")
        cep.create_query("seen", "SELECT id FROM readings WHERE ok AND day = '2026-01-01'", into="results")
        assert cep.poll() == len(values)
        assert rows(cep, "results", "id") == [(number,) for number in range(5, 7 + history)]
        assert sorted(cep.query("SELECT kind FROM late_events").to_pandas()["kind"]) == 4 * ["wrong"]
    shop.do("DROP TABLE readings")


@pytest.mark.parametrize("history", [0, 300])
def test_a_value_between_whole_numbers_is_not_cut(shop: Shop, history: int) -> None:
    """As SQLite stores any, and elsewhere after the type of the column has changed."""
    kind = shop.engine.dialect.name
    shop.do("CREATE TABLE readings (id INTEGER PRIMARY KEY, a INTEGER)")
    with shop.connect() as cep:
        cep.register_stream("readings", table="readings", position="id", since="beginning")
        cep.create_query("seen", "SELECT id, a FROM readings", into="results")
        shop.do("INSERT INTO readings VALUES (1, 5)")
        change = {"mysql": "MODIFY", "mariadb": "MODIFY", "postgresql": "ALTER"}.get(kind)
        if change is not None:
            assert cep.poll() == 1
            shop.do(f"ALTER TABLE readings {change} a {'TYPE ' if change == 'ALTER' else ''}NUMERIC(10, 2)")
        more = [f"({number}, {number})" for number in range(4, 4 + history)]
        shop.do(f"INSERT INTO readings VALUES {', '.join(['(2, 14.5)', '(3, 6)', *more])}")
        assert cep.poll() == 2 + history + (change is None)
        assert rows(cep, "results", "id, a")[:2] == [(1, 5), (3, 6)]
        ((reason,),) = rows(cep, "late_events", "reason")
        assert reason.startswith("attribute 'a' is INTEGER: ")
    shop.do("DROP TABLE readings")


@pytest.mark.parametrize("way", ["remove", "drop", "fresh"])
def test_a_stream_of_changes_can_be_removed_when_a_column_has_gone(shop: Shop, way: str) -> None:
    shop.do("CREATE TABLE things (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)")
    cep = shop.connect()
    cep.register_stream("changes", changes_of="things")
    shop.do("ALTER TABLE things RENAME COLUMN b TO c")
    if way == "fresh":
        cep.close()
        shop.connect(fresh=True).close()
    elif way == "drop":
        cep.drop()
    else:
        cep.remove_stream("changes")
        cep.register_stream("changes", changes_of="things")
        shop.do("INSERT INTO things VALUES (1, 2, 3)")
        assert cep.poll() == 1
        cep.drop()
    shop.do("INSERT INTO things VALUES (2, 3, 4)", "DROP TABLE things")


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


def test_the_changes_of_a_row_are_in_the_order_in_which_they_were_made(shop: Shop) -> None:
    """Also of a statement that has waited for the row while another transaction changed it again."""
    if shop.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    shop.do("CREATE TABLE orders (id INTEGER PRIMARY KEY, step INTEGER)", "INSERT INTO orders VALUES (1, 0)")
    with shop.connect() as cep:
        cep.register_stream("changes", changes_of="orders")
        cep.create_query("seen", "SELECT old_step, step FROM changes", into="results")
        with shop.engine.connect() as one:
            one.execute(sa.text("UPDATE orders SET step = 1"))
            other = threading.Thread(target=shop.do, args=("UPDATE orders SET step = 3",), daemon=True)
            other.start()
            time.sleep(0.3)
            one.execute(sa.text("UPDATE orders SET step = 2"))
            one.commit()
            other.join(20)
        assert cep.poll() == 3
        assert rows(cep, "results", "old_step, step") == [(0, 1), (1, 2), (2, 3)]
        now = time.time() * 1_000
        assert all(now - 20_000 < ts <= now for (ts,) in rows(cep, "results", "ts"))
        cep.drop()


def test_replaced_rows_are_deleted_rows_where_sqlite_runs_triggers_for_them(tmp_path: pathlib.Path) -> None:
    shop = Shop(DATABASES[1], tmp_path)
    shop.do("CREATE TABLE orders (id INTEGER PRIMARY KEY, code INTEGER UNIQUE)")
    with shop.connect() as cep:
        cep.register_stream("changes", changes_of="orders")
        cep.create_query("seen", "SELECT operation, id, code FROM changes", into="results")
        shop.do("INSERT INTO orders VALUES (1, 10), (2, 20)")
        shop.do("PRAGMA recursive_triggers = ON", "INSERT OR REPLACE INTO orders VALUES (1, 20)")
        cep.poll()
        assert rows(cep, "results", "operation, id, code")[2:] == [
            ("delete", 1, 10), ("delete", 2, 20), ("insert", 1, 20)
        ]  # fmt: skip
    shop.engine.dispose()


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


def test_a_table_that_is_not_there_any_more(shop: Shop) -> None:
    """The bridge still opens, and the error says what to do."""
    shop.do("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER, note INTEGER)")
    with shop.connect() as cep:
        cep.register_stream("orders", table="orders", position="id")
    shop.do("DROP TABLE orders")
    with shop.connect() as cep:
        with pytest.raises(bridge.SchemaError, match="there is no table 'orders'"):
            cep.poll()
        assert cep.status().tables["orders"].behind == 0
    shop.do("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)")
    with shop.connect() as cep:
        with pytest.raises(bridge.SchemaError, match=r"no column 'note' any more.*remove_stream"):
            cep.poll()
        cep.remove_stream("orders")
        cep.register_stream("orders", table="orders", position="id", since="beginning")
        cep.create_query("seen", "SELECT amount FROM orders", into="results")
        shop.do("INSERT INTO orders VALUES (1, 7)")
        assert cep.poll() == 1
        shop.do("ALTER TABLE orders RENAME COLUMN amount TO price")
        shop.do("INSERT INTO orders VALUES (2, 8)")
        with pytest.raises(bridge.SchemaError, match="no column 'amount' any more"):
            cep.poll()
        shop.do("ALTER TABLE orders RENAME COLUMN price TO amount")
        assert cep.poll() == 1
        assert rows(cep, "results", "amount") == [(7,), (8,)]


@pytest.mark.parametrize("gaps", [1, FEW + 1])
def test_after_a_pause_the_rows_in_gaps_are_read_before_newer_ones(shop: Shop, gaps: int) -> None:
    """Else the newer ones, of which there may be many, would make them late."""
    shop.do("CREATE TABLE orders (id BIGINT PRIMARY KEY, at BIGINT)", "INSERT INTO orders VALUES (1, 1000)")
    numbers = range(2, 2 * gaps + 2, 2)
    with shop.connect(lateness="1 S") as cep:
        cep.register_stream("orders", table="orders", position="id", timestamp="at", since="beginning")
        cep.create_query("seen", "SELECT id FROM orders", into="results")
        shop.do(*(f"INSERT INTO orders VALUES ({number + 1}, 1500)" for number in numbers))
        cep.poll()
    shop.do(*(f"INSERT INTO orders VALUES ({number}, 1200)" for number in numbers))
    shop.do("INSERT INTO orders VALUES (10000, 3000)", "INSERT INTO orders VALUES (10001, 9000)")
    with shop.connect(lateness="1 S") as cep:
        cep.poll()
        cep.finish()
        assert rows(cep, "late_events", "ts") == []
        assert [number for (number,) in rows(cep, "results", "id")] == [
            1, *numbers, *(number + 1 for number in numbers), 10_000, 10_001
        ]  # fmt: skip


def test_numbers_that_begin_anew_are_warned_of(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.do("CREATE TABLE orders (id INTEGER PRIMARY KEY)", "INSERT INTO orders VALUES (100)")
    with shop.connect() as cep:
        cep.register_stream("orders", table="orders", position="id", since="beginning")
        assert cep.poll() == 1
        shop.do("DELETE FROM orders", "INSERT INTO orders VALUES (200)")
        assert cep.poll() == 1
    shop.do("DELETE FROM orders", "INSERT INTO orders VALUES (1)")
    with shop.connect() as cep:
        assert cep.poll() == 1  # in a gap
        assert cep.poll() == 0
    assert "has the position 1, and 200 was read before" in caplog.text


def test_status_and_explain_say_how_a_table_is_read(shop: Shop) -> None:
    shop.do("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)")
    with shop.connect() as cep:
        cep.register_stream("orders", table="orders", position="id", since="beginning")
        cep.create_query("seen", "SELECT amount FROM orders")
        shop.do("INSERT INTO orders VALUES (1, 7)", "INSERT INTO orders VALUES (4, 7)")
        assert cep.status().tables["orders"].behind == 4
        cep.poll()
        known = cep.status().tables["orders"]
        assert (known.position, known.behind, known.gaps) == (4, 0, 2)
        assert "read to 4, 0 behind, 2 gaps" in str(cep.status())
        text = cep.explain("seen")
        assert "-- stream orders, rows of TABLE orders (POSITION id, SINCE BEGINNING)" in text
        assert "LIMIT 1000" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "orders"}, "needs position="),
        ({"table": "nowhere", "position": "id"}, "no table 'nowhere'"),
        ({"table": "elsewhere.orders", "position": "id"}, "no table 'elsewhere.orders'"),
        ({"table": "orders", "position": "idd"}, "no column 'idd' for the position; did you mean 'id'"),
        ({"table": "orders", "position": "note"}, "must be a whole number"),
        ({"table": "orders", "position": "id", "timestamp": "at"}, "no column 'at' for the timestamp"),
        ({"table": "orders", "position": "id", "since": "yesterday"}, "since is"),
        ({"table": "orders", "position": "id", "timestamp_unit": "s"}, "timestamp_unit= is the unit"),
        ({"table": "orders", "changes_of": "orders"}, "exclude each other"),
        ({"changes_of": "orders", "position": "id"}, "no position="),
        ({"position": "id"}, "belongs to a stream of a table"),
        ({"table": "orders", "position": "id", "schema": "id BIGINT, other DOUBLE"}, "no column 'other'"),
        ({"table": 7, "position": "id"}, "table is a name"),
    ],
)
def test_wrong_sources_are_refused(shop: Shop, options: dict[str, Any], message: str) -> None:
    shop.do("CREATE TABLE orders (id INTEGER PRIMARY KEY, note VARCHAR(10))")
    with shop.connect() as cep:
        with pytest.raises(bridge.SchemaError, match=message):
            cep.register_stream("orders", **options)
        assert cep.streams == {}
        cep.register_stream("orders", table="orders", position="id")


def test_rows_without_a_position_are_warned_of(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """Also if they are there from the beginning: they hold nothing up."""
    shop.do("CREATE TABLE orders (id INTEGER, n INTEGER)", "INSERT INTO orders VALUES (NULL, 1), (7, 2)")
    with shop.connect() as cep:
        cep.register_stream("orders", table="orders", position="id", since="beginning")
        cep.create_query("seen", "SELECT n FROM orders", into="results")
        assert cep.poll() == 1
        shop.do("INSERT INTO orders VALUES (NULL, 3), (8, 4)")
        assert cep.poll() == 1
        assert rows(cep, "results", "n") == [(2,), (4,)]
    assert "orders has rows whose position id is NULL: they are not read" in caplog.text


@pytest.mark.parametrize("source", ["table", "changes"])
def test_a_program_that_declares_its_stream_again_keeps_the_columns(
    shop: Shop, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After the table has got a further column."""
    shop.do("CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER)")
    options = {"table": "orders", "position": "id"} if source == "table" else {"changes_of": "orders"}
    for start in range(2):
        with shop.connect() as cep:
            cep.register_stream("orders_in", **options)
            cep.create_query("seen", "SELECT n FROM orders_in", into="results")
            if start == 0:
                names = cep.streams["orders_in"].names
                shop.do("ALTER TABLE orders ADD COLUMN further INTEGER")
            shop.do(f"INSERT INTO orders (id, n) VALUES ({start}, {start})")
            assert cep.poll() == 1
            assert cep.streams["orders_in"].names == names
    assert "the columns of orders have changed, the stream orders_in keeps the earlier ones: " in caplog.text
    shop.do("ALTER TABLE orders DROP COLUMN further")
    with shop.connect() as cep:
        assert rows(cep, "results", "n") == [(0,), (1,)]
        if shop.engine.dialect.name != "sqlite":  # which refuses to drop a column that a trigger names
            cep.remove_query("seen")
            cep.remove_stream("orders_in")
            cep.register_stream("orders_in", **options)
        cep.drop()


class TestVersion:
    """Where the database has a version, tables are not read as long as it stays the same."""

    @pytest.fixture
    def shop(self, tmp_path: pathlib.Path) -> Iterator[Shop]:
        made = Shop(DATABASES[1], tmp_path)
        made.do(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER)", "CREATE TABLE others (id INTEGER PRIMARY KEY)"
        )
        yield made
        made.engine.dispose()

    def test_tables_are_read_after_commits_alone(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bridge.engine.watch.watcher.LONGEST", 1_000.0)
        with shop.connect() as cep:
            for name in ("orders", "others"):
                cep.register_stream(name, table=name, position="id")
            statements: list[str] = []
            cep.add_tracer(lambda sql, seconds, rows: statements.append(sql))
            for insert in (
                lambda: shop.do("INSERT INTO orders VALUES (7, 1)"),
                lambda: shop.do("INSERT INTO orders VALUES (3, 1)"),  # in a gap
                lambda: cep.database.execute("INSERT INTO others VALUES (1)"),
            ):
                insert()
                assert cep.poll() == 1
                statements.clear()
                assert cep.poll() == 0
                assert len(statements) == 1
                assert "pragma_data_version" in statements[0]
            cep.database.execute("ALTER TABLE others RENAME TO gone")
            with pytest.raises(bridge.SchemaError, match="there is no table 'others'"):
                cep.poll()

    def test_tables_are_read_after_a_while_anyway(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        """A view may show a row later than it was committed."""
        monkeypatch.setattr("bridge.engine.watch.watcher.LONGEST", 0.2)
        shop.do("CREATE VIEW shown AS SELECT * FROM orders WHERE n < STRFTIME('%s', 'now') * 1000")
        with shop.connect() as cep:
            cep.register_stream("shown", table="shown", position="id")
            shop.do(f"INSERT INTO orders VALUES (1, {int(time.time() * 1_000) + 1_000})")
            assert cep.poll() == 0
            deadline = time.monotonic() + 10
            while cep.poll() == 0:
                assert time.monotonic() < deadline
                time.sleep(0.05)


def test_changes_of_a_database_without_triggers() -> None:
    with bridge.connect() as cep:
        cep.database.execute("CREATE TABLE orders (id BIGINT)")
        with pytest.raises(
            bridge.SchemaError, match=r"by triggers, which DuckDB does not have: FROM TABLE reads its new rows"
        ):
            cep.register_stream("changes", changes_of="orders")
        cep.register_stream("changes", table="orders", position="id")


def test_a_position_is_unique(shop: Shop) -> None:
    shop.do("CREATE TABLE orders (batch INTEGER)", "INSERT INTO orders VALUES (1)", "INSERT INTO orders VALUES (1)")
    with shop.connect() as cep:
        cep.register_stream("orders", table="orders", position="batch", since="beginning")
        with pytest.raises(bridge.SchemaError, match="is the same in several rows"):
            cep.poll()


def test_declared_columns_are_cast(shop: Shop) -> None:
    """Also of types that the bridge does not know, which are left out otherwise."""
    unknown = {"postgresql": "uuid", "mariadb": "YEAR", "sqlite": "BLOB"}[shop.engine.dialect.name]
    value = {"postgresql": "'11111111-1111-1111-1111-111111111111'", "mariadb": "2026", "sqlite": "'2026'"}
    shop.do(f"CREATE TABLE orders (id INTEGER PRIMARY KEY, code {unknown}, amount DECIMAL(10, 2))")
    with shop.connect() as cep:
        cep.register_stream("short", table="orders", position="id")
        assert "code" not in cep.streams["short"].names
        cep.register_stream("orders", "id BIGINT, code VARCHAR, amount DOUBLE", table="orders", position="id")
        cep.create_query("seen", "SELECT code, amount FROM orders", into="results")
        shop.do(f"INSERT INTO orders VALUES (1, {value[shop.engine.dialect.name]}, 1.5)")
        cep.poll()
        ((code, amount),) = rows(cep, "results", "code, amount")
        assert code == value[shop.engine.dialect.name].strip("'")
        assert amount == 1.5


def test_names_are_quoted(shop: Shop) -> None:
    name = 'x"; DROP TABLE y'
    quoted = f"`{name}`" if shop.engine.dialect.name == "mariadb" else '"' + name.replace('"', '""') + '"'
    shop.do(f"CREATE TABLE {quoted} ({quoted} INTEGER PRIMARY KEY, amount INTEGER)")
    with shop.connect() as cep:
        cep.register_stream(name, table=name, position=name)
        cep.register_stream("changes", changes_of=name)
        cep.create_query("seen", "SELECT amount FROM changes", into="results")
        shop.do(f"INSERT INTO {quoted} VALUES (1, 7)")
        assert cep.poll() == 2
        assert rows(cep, "results", "amount") == [(7,)]
        cep.drop()


class TestPostgreSQL:
    """What only PostgreSQL has."""

    @pytest.fixture
    def shop(self, tmp_path: pathlib.Path) -> Iterator[Shop]:
        (database,) = [database for database in DATABASES if database.name == "postgresql"]
        if reason := database.missing():
            refuse_missing(reason)
        made = Shop(database, tmp_path)
        yield made
        made.engine.dispose()

    def test_a_lost_connection_is_opened_again(self, shop: Shop) -> None:
        writers.create(shop.engine, "orders")
        with shop.connect() as cep:
            cep.register_stream("orders", table="orders", position="id")
            cep.create_query("seen", "SELECT amount FROM orders", into="results")
            for number in range(3):
                ((own,),) = cep.database.fetch("SELECT pg_backend_pid()")
                shop.do(f"INSERT INTO orders (amount) VALUES ({number})", f"SELECT pg_terminate_backend({own})")
                assert cep.poll() == 1
            assert rows(cep, "results", "amount") == [(0,), (1,), (2,)]

    def test_sequences_with_a_cache(self, shop: Shop) -> None:
        """A session holds numbers for later, so a row may come far below the newest one, long after."""
        shop.do(
            "CREATE SEQUENCE numbers CACHE 50",
            "CREATE TABLE orders (id BIGINT DEFAULT nextval('numbers') PRIMARY KEY, n INT)",
        )
        with shop.connect() as cep, shop.engine.connect() as one, shop.engine.connect() as other:
            cep.register_stream("orders", table="orders", position="id")
            cep.create_query("seen", "SELECT n FROM orders", into="results")
            for number in range(20):
                for connection in (one, other):
                    connection.execute(sa.text(f"INSERT INTO orders (n) VALUES ({number})"))
                    connection.commit()
                    assert cep.poll() == 1
            assert len(rows(cep, "results", "n")) == 40

    def test_partitioned_tables(self, shop: Shop) -> None:
        shop.do(
            "CREATE TABLE orders (id BIGINT GENERATED ALWAYS AS IDENTITY, day INT) PARTITION BY LIST (day)",
            "CREATE TABLE orders_1 PARTITION OF orders FOR VALUES IN (1)",
            "CREATE TABLE orders_2 PARTITION OF orders FOR VALUES IN (2)",
        )
        with shop.connect() as cep:
            cep.register_stream("orders", table="orders", position="id")
            cep.register_stream("changes", changes_of="orders")
            shop.do("INSERT INTO orders (day) VALUES (1), (2), (1)", "UPDATE orders SET day = 2 WHERE id = 1")
            assert cep.poll() >= 3 + 4
            cep.drop()

    @pytest.fixture
    def long_pauses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Pauses are as long as `poll` from the first one on."""
        monkeypatch.setattr("bridge.engine.methods.watching.SHORTEST_PAUSE", 20_000.0)

    def test_a_notification_ends_the_pause(self, shop: Shop, long_pauses: None) -> None:
        writers.create(shop.engine, "orders")
        with shop.connect() as cep:
            cep.register_stream("changes", changes_of="orders")
            cep.create_query("seen", "SELECT id FROM changes")
            got: list[float] = []
            cep.add_output_processor("seen", lambda event: got.append(time.monotonic()))
            thread = threading.Thread(target=lambda: cep.run(poll="20 S"), daemon=True)
            thread.start()
            time.sleep(1.0)
            for number in (1, 2):
                begun = time.monotonic()
                shop.do("INSERT INTO orders (amount) VALUES (1)")
                while len(got) < number and time.monotonic() < begun + 10:
                    time.sleep(0.01)
                assert got[-1] - begun < 8
                time.sleep(0.5)
            stopped = time.monotonic()
            cep.stop()
            thread.join(10)
            assert time.monotonic() - stopped < 5
            cep.drop()

    @pytest.mark.parametrize("end", ["stop", "cancel"])
    def test_a_notification_ends_the_pause_of_asyncio(self, shop: Shop, end: str, long_pauses: None) -> None:
        writers.create(shop.engine, "orders")

        async def main() -> None:
            async with bridge.aio.connect(shop.url) as cep:
                await cep.register_stream("changes", changes_of="orders")
                await cep.create_query("seen", "SELECT id FROM changes")
                got: list[float] = []
                await cep.add_output_processor("seen", lambda event: got.append(time.monotonic()))
                running = asyncio.create_task(cep.run(poll="20 S"))
                await asyncio.sleep(1.0)
                for number in (1, 2):
                    begun = time.monotonic()
                    await asyncio.to_thread(shop.do, "INSERT INTO orders (amount) VALUES (1)")
                    while len(got) < number and time.monotonic() < begun + 10:
                        await asyncio.sleep(0.01)
                    assert got[-1] - begun < 8
                    await asyncio.sleep(0.5)
                ended = time.monotonic()
                if end == "stop":
                    await cep.stop()
                    await running
                else:
                    running.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await running
                assert time.monotonic() - ended < 5
                assert await cep.poll() == 0
                await cep.drop()

        asyncio.run(asyncio.wait_for(main(), 60))

    def test_times_with_a_zone(self, shop: Shop) -> None:
        shop.do("CREATE TABLE orders (id INT PRIMARY KEY, at TIMESTAMPTZ)")
        with shop.connect() as cep:
            cep.database.execute("SET TimeZone = 'Asia/Tokyo'")
            cep.register_stream("orders", table="orders", position="id", timestamp="at")
            cep.create_query("seen", "SELECT CAST(at AS VARCHAR) AS at FROM orders", into="results")
            shop.do("INSERT INTO orders VALUES (1, '1970-01-01 01:00:00+01')")
            cep.poll()
            assert rows(cep, "results", "ts, at") == [(0, "1970-01-01 00:00:00")]

    def test_a_table_in_another_schema(self, shop: Shop) -> None:
        shop.do(
            "DROP SCHEMA IF EXISTS shop CASCADE", "CREATE SCHEMA shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY)"
        )
        with shop.connect(schema="own") as cep:
            cep.register_stream("orders", table="shop.orders", position="id")
            cep.register_stream("changes", changes_of="shop.orders")
            shop.do("INSERT INTO shop.orders VALUES (1)")
            assert cep.poll() == 2
            cep.drop()
        shop.do("DROP SCHEMA shop CASCADE", "DROP SCHEMA own CASCADE")


class TestMariaDB:
    """What only MariaDB has."""

    @pytest.fixture
    def shop(self, tmp_path: pathlib.Path) -> Iterator[Shop]:
        (database,) = [database for database in DATABASES if database.name == "mariadb"]
        if reason := database.missing():
            refuse_missing(reason)
        made = Shop(database, tmp_path)
        yield made
        made.engine.dispose()

    def test_numbers_without_a_sign(self, shop: Shop) -> None:
        shop.do(
            "CREATE TABLE orders (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, customer INT UNSIGNED, n MEDIUMINT, "
            "tax DOUBLE UNSIGNED, total DECIMAL(10, 2) UNSIGNED)",
            "CREATE TABLE customers (id INT UNSIGNED PRIMARY KEY, age TINYINT UNSIGNED)",
            "INSERT INTO customers VALUES (4294967295, 18)",
        )
        with shop.connect() as cep:
            cep.register_stream("orders", table="orders", position="id", since="beginning")
            cep.register_stream("changes", changes_of="orders")
            assert str(cep.streams["orders"]) == (
                "id DECIMAL(20, 0), customer BIGINT, n INTEGER, tax DOUBLE, total DECIMAL(10, 2)"
            )
            query = "SELECT o.n, c.age - 20 AS older FROM {} WINDOW(NOW) o, customers c WHERE o.customer = c.id"
            for name in ("orders", "changes"):
                cep.create_query(f"of_{name}", query.format(name), into=f"results_{name}")
            shop.do("INSERT INTO orders (customer, n, tax, total) VALUES (4294967295, -5, 0.5, 1.5)")
            assert cep.poll() == 2
            for name in ("orders", "changes"):
                assert rows(cep, f"results_{name}", "n, older") == [(-5, -2)]
            shop.do("INSERT INTO orders (id) VALUES (18446744073709551610)")
            with pytest.raises(bridge.SchemaError, match=r"'18446744073709551610' in a row: .* of 64 bits"):
                cep.poll()
            cep.drop()


def test_the_status_counts_an_outbox(shop: Shop) -> None:
    writers.create(shop.engine, "orders")
    with shop.connect() as cep:
        cep.register_stream("changes", changes_of="orders")
        shop.do(*["INSERT INTO orders (amount) VALUES (1)"] * 3)
        assert cep.status().tables["changes"].behind == 3
        cep.poll()
        assert cep.status().tables["changes"].behind == 0
        cep.drop()


def test_a_signal_handler_may_stop_a_run_in_the_same_thread(shop: Shop) -> None:
    """Wherever it interrupts the run, also in its pause."""
    writers.create(shop.engine, "orders")
    with shop.connect() as cep:
        cep.register_stream("orders", table="orders", position="id")
        before = signal.signal(signal.SIGALRM, lambda *_: cep.stop())
        try:
            for _ in range(20):
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.001, 0.05))
                cep.run()
        finally:
            signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("way", ["threads", "asyncio"])
def test_a_run_without_tables_says_so(way: str, caplog: pytest.LogCaptureFixture) -> None:
    async def with_asyncio() -> None:
        async with bridge.aio.connect("sqlite://") as cep:
            await asyncio.gather(cep.run(), cep.stop())

    if way == "asyncio":
        asyncio.run(asyncio.wait_for(with_asyncio(), 60))
    else:
        with bridge.connect("sqlite://") as cep:
            threading.Timer(0.05, cep.stop).start()
            cep.run()
    assert "no stream reads a table, so run waits for stop()" in caplog.text


def test_a_listener_whose_connection_is_lost_is_closed() -> None:
    class Lost:
        closed = 0

        def wait(self, seconds: float) -> bool:
            raise Refused("the connection is lost")

        def close(self) -> None:
            self.closed += 1

    class Listening:
        made: Lost | None = None

        def listener(self) -> Lost:
            self.made = Lost()
            return self.made

    database: Any = Listening()
    sleeper = Sleeper(database, lambda: False)
    sleeper.sleep(STOP_INTERVAL * 1.2)  # it begins to listen
    sleeper.sleep(STOP_INTERVAL * 1.2)
    sleeper.close()
    assert database.made.closed == 1


def test_a_stream_of_a_table_may_be_declared_again_in_memory() -> None:
    """Another table, or none, is another stream."""
    with bridge.connect("sqlite://") as cep:
        for table in ("orders", "others"):
            cep.database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, amount INTEGER)")
        for _ in range(2):
            cep.register_stream("orders", table="orders", position="id", since="beginning")
            cep.register_stream("changes", changes_of="orders")
        with pytest.raises(bridge.NameTaken, match=r"FROM TABLE orders .*, and not .* FROM TABLE others"):
            cep.register_stream("orders", table="others", position="id")
        with pytest.raises(
            bridge.NameTaken, match=r"FROM TABLE orders .*, and not \(id INTEGER, amount INTEGER\); remove"
        ):
            cep.register_stream("orders", cep.streams["orders"])
