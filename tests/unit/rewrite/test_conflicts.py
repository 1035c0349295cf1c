"""Which statements make a batch go event by event: those of which one reads what another one writes."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import bridge

PLANS = pathlib.Path(__file__).parents[3] / "examples" / "plans.cpl"

READS = "SELECT name FROM t WHERE id = ?"
ALIASED = "SELECT x.name FROM t AS x JOIN other AS o ON o.id = x.id WHERE o.due > ?"
WHOLE = "SELECT * FROM t WHERE id = ?"
COUNTS = "SELECT COUNT(*) AS n FROM t WHERE id = ?"
CASES = [
    (READS, "UPDATE t SET due = due + ? WHERE id = 1", False),
    (READS, "UPDATE t SET DUE = ? WHERE NAME = 'x'", False),
    (READS, "UPDATE t SET due = 1, name = name || ?", True),
    (READS, "UPDATE T SET ID = ?", True),
    (READS, "UPDATE other SET name = ?", False),
    (READS, "INSERT INTO t (id) VALUES (?)", True),
    (READS, "DELETE FROM t WHERE due > ?", True),
    (ALIASED, "UPDATE t SET due = ?", False),
    (ALIASED, "UPDATE other SET due = ?", True),
    (ALIASED, "UPDATE other SET name = ?", False),
    (WHOLE, "UPDATE t SET due = ?", True),
    (COUNTS, "UPDATE t SET due = ?", False),
    (COUNTS, "UPDATE t SET id = ?", True),
    ("SELECT t.name FROM t JOIN other USING (id) WHERE t.due > ?", "UPDATE t SET name = ?", True),
    ("SELECT name FROM other WHERE id IN (SELECT id FROM t WHERE due > ?)", "UPDATE t SET due = ?", True),
    ("UPDATE t SET name = 'x' WHERE id = ?", "UPDATE t SET due = ?", False),
    ("UPDATE t SET name = due WHERE id = ?", "UPDATE t SET due = ?", True),
    ("UPDATE t SET due = due + ?", "UPDATE t SET due = ?", True),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "is_serial"), CASES)
def test_what_meets_goes_one_by_one(one: str, other: str, is_serial: bool) -> None:
    with bridge.connect("sqlite://") as cep:
        for table in ("t", "other"):
            cep.database.execute(f"CREATE TABLE {table} (id INTEGER, name VARCHAR(20), due INTEGER)")
        cep.register_stream("s", "a INTEGER")
        made = [f"CREATE SQL q{n} AS {sql}; INSERT INTO o{n} SELECT a FROM s ON SQL q{n}, r, a" for n, sql in
                enumerate((one, other))]  # fmt: skip
        cep.create_query("script", ";".join(made), language="cpl")
        assert bool(cep._runner._conflicts.tables) is is_serial


def billed(database: Any, batch: int) -> list[list[tuple[Any, ...]]]:
    """What the billing example with plans leaves and tells, of pushes of so many events."""
    with database.connect() as cep:
        for name in ("clients", "plans", "bills"):
            cep.database.execute(f"DROP TABLE IF EXISTS {name}")
        cep.database.execute("CREATE TABLE plans (id VARCHAR(20), a_second INTEGER, a_call INTEGER)")
        cep.database.execute("INSERT INTO plans VALUES ('p', 2, 1), ('q', 0, 3)")
        cep.database.execute("CREATE TABLE clients (idclient VARCHAR(20), idplan VARCHAR(20), due INTEGER)")
        cep.database.execute("INSERT INTO clients VALUES ('ann', 'p', 0), ('bob', 'q', 5)")
        cep.create_query("billing", PLANS.read_text(encoding="utf-8"), language="cpl")
        assert not cep._runner._conflicts.tables
        charged: list[tuple[Any, ...]] = []
        cep.add_output_processor("charged", lambda event: charged.append((event.timestamp, *event.payload.values())))
        calls = [("cdr1" if n % 3 else "cdr2", ["ann" if n % 2 else "bob", "x", n % 25, n], n * 3_600_000) for n in
                 range(80)]  # fmt: skip
        for start in range(0, len(calls), batch):
            cep.push_all(calls[start : start + batch])
        cep.advance_time(5 * 86_400_000)
        return [charged, *(sorted(cep.database.fetch(f"SELECT * FROM {name}")) for name in ("clients", "bills"))]


def test_bills_of_batches_are_those_of_single_events(database: Any) -> None:
    singly = billed(database, 1)
    assert billed(database, 80) == singly and len(singly[0]) > 4


READER = "CREATE SQL due_of AS SELECT due FROM t WHERE id = ?; INSERT INTO before SELECT a, due FROM s ON SQL due_of, d, a, due"
WRITER = "CREATE SQL charge AS UPDATE t SET due = due + 1 WHERE id = ?; INSERT INTO charged SELECT a FROM s ON SQL charge, c, a"


def with_bills(cep: bridge.Bridge) -> bridge.Bridge:
    cep.database.execute("DROP TABLE IF EXISTS t")
    cep.database.execute("CREATE TABLE t (id INTEGER, due INTEGER)")
    cep.database.execute("INSERT INTO t VALUES (7, 0)")
    return cep


def test_who_reads_late_is_not_written_by_one_who_comes_after(database: Any) -> None:
    with with_bills(database.connect()) as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("reader", READER, language="cpl")
        with pytest.raises(
            bridge.QueryError, match=r"this writes 't', which an earlier query reads.*one script \(line 1, col"
        ):
            cep.create_query("writer", WRITER, language="cpl")
        cep.remove_query("reader")
        cep.create_query("writer", WRITER, language="cpl")
        cep.create_query("reader", READER, language="cpl")


def test_a_replay_reads_what_the_script_reads_live(database: Any) -> None:
    script = f"CREATE STREAMSCHEMA s WITH a integer; {READER}; {WRITER}"
    events = [("s", {"a": 7}, ts) for ts in range(4)]
    live: list[dict[str, Any]] = []
    with with_bills(database.connect()) as cep:
        cep.create_query("script", script, language="cpl")
        cep.add_output_processor("before", lambda event: live.append({"ts": event.timestamp, **event.payload}))
        cep.push_all(events)
    assert [row["due"] for row in live] == [0, 1, 2, 3]
    home = with_bills(database.connect()).database
    assert bridge.replay(events, script, language="cpl", database=home)["before"].to_pylist() == live
    home.close()
