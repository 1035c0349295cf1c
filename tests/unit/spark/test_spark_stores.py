"""Data stores in a replay on Spark: the rows of the local replay, and what is written is there once for each run."""

from __future__ import annotations

import itertools
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import bridge
from bridge.history.script import ReplayScript
from bridge.query.nodes import Stream
from bridge.query.scripts import UpdateSQL
from bridge.rewrite.write_requests import counts_by_itself
from bridge.spark import write_back
from bridge.spark.write_back import WriteRequest, WriteTarget
from bridge.stores.store import Store
from windows.databases import Refused, open_database
from windows.databases.sqlite import SQLite

DAY = 86_400_000
PLANS = (pathlib.Path(__file__).parents[3] / "examples" / "plans.cpl").read_text(encoding="utf-8")


def calls() -> dict[str, pa.Table]:
    """Six days of calls on two streams, some of them at once."""
    rng = random.Random(3)
    times = sorted(rng.randrange(6 * DAY) // 1000 * 1000 for _ in range(60))
    names = ["ts", "idcaller", "idreceiver", "duration", "timestamp"]
    rows: dict[str, list[Any]] = {"cdr1": [], "cdr2": []}
    for ts in [*times, times[-1], times[-1]]:
        rows[rng.choice(["cdr1", "cdr2"])].append((ts, rng.choice(["ann", "bob", "joe"]), "x", rng.randrange(30), ts))
    return {name: pa.table(dict(zip(names, zip(*own, strict=True), strict=True))) for name, own in rows.items()}


def made(url: str, *statements: str) -> str:
    with bridge.connect(url) as cep:
        for statement in statements:
            cep.database.execute(statement)
    return url


def home(path: pathlib.Path) -> str:
    """A database with plans and clients."""
    return made(
        f"sqlite:///{path}",
        "CREATE TABLE plans (id VARCHAR(20), a_second INTEGER, a_call INTEGER)",
        "INSERT INTO plans VALUES ('p', 2, 1), ('q', 0, 3)",
        "CREATE TABLE clients (idclient VARCHAR(20), idplan VARCHAR(20), due INTEGER)",
        "INSERT INTO clients VALUES ('ann', 'p', 0), ('bob', 'q', 5)",
    )


def told(url: str, *tables: str) -> list[list[tuple[Any, ...]]]:
    with bridge.connect(url) as cep:
        return [sorted(map(tuple, cep.database.fetch(f"SELECT * FROM {table}"))) for table in tables]


def rows_of(results: dict[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Results by query, of the local replay or of Spark's."""
    return {
        name: [tuple(row.values()) for row in found.to_pylist()]
        if isinstance(found, pa.Table)
        else [tuple(row) for row in found.collect()]
        for name, found in results.items()
    }


def test_the_billing_example_on_spark(tmp_path: pathlib.Path, spark: Any) -> None:
    here, there = home(tmp_path / "here.db"), home(tmp_path / "there.db")
    options: dict[str, Any] = {"language": "cpl", "timestamp": "ts", "end": 7 * DAY}
    local = bridge.replay(calls(), PLANS, database=here, **options)
    options |= {"database": there, "spark": spark, "run": "june", "pieces": 3, "out": str(tmp_path / "out")}
    found = bridge.replay(calls(), PLANS, "spark", **options)
    assert rows_of(found) == rows_of(local)
    assert told(there, "clients", "bills") == told(here, "clients", "bills")
    bridge.replay(calls(), PLANS, "spark", **options)
    assert told(there, "clients", "bills") == told(here, "clients", "bills")


SCRIPT = """
CREATE STREAMSCHEMA s WITH k varchar, a integer, d decimal(9, 2), m timestamp;
CREATE SQL name_of ON crm AS SELECT name FROM names WHERE k = ?;
CREATE SQL note ON crm AS INSERT INTO noted VALUES (?, ?, ?, ?, ?);
CREATE SQL last ON crm AS UPDATE names SET newest = ? WHERE k = ?;
CREATE WINDOW w ON TIME SIZE 2 ADVANCE 2;
INSERT INTO named SELECT k, a, d, m, name FROM s ON SQL LEFT name_of, n, k, name;
INSERT INTO low WHEN a < 5, high WHEN a >= 5 SELECT k, a, d, m FROM named ON SQL note, x, result_id, k, a, d, m;
INSERT INTO sums SELECT k, SUM(a) AS total FROM s ON WINDOW w GROUP BY k;
INSERT INTO told SELECT k FROM sums ON SQL last, y, total, k
"""


def crm(path: pathlib.Path) -> str:
    """A data store; it refuses 7 as long as `noted` says so."""
    return made(
        f"sqlite:///{path}",
        "CREATE TABLE names (k VARCHAR(9), name VARCHAR(9), newest INTEGER)",
        "INSERT INTO names VALUES ('x', 'Xenia', 0), ('y', 'Yves', 0), ('y''; --', 'Odd', 0)",
        "CREATE TABLE noted (id VARCHAR(60) UNIQUE, k VARCHAR(9), a INTEGER, d DECIMAL(9, 2), m TIMESTAMP)",
    )


def test_data_stores_on_spark(tmp_path: pathlib.Path, spark: Any) -> None:
    """Also results' names are those of the local replay, and a run that a store stops goes on where it was."""
    import datetime
    import decimal

    first = datetime.datetime(2024, 2, 29, 1, 2, 3)
    keys = itertools.cycle(["x", "y", "y'; --", "z"])
    rows = [(n // 3 * 500, next(keys), n % 11, decimal.Decimal(n) / 4, first) for n in range(50)]
    table = pa.table(
        dict(zip(["ts", "k", "a", "d", "m"], zip(*rows, strict=True), strict=True)),
        schema=pa.schema([("ts", pa.int64()), ("k", pa.string()), ("a", pa.int32()), ("d", pa.decimal128(9, 2)),
                          ("m", pa.timestamp("us"))]),
    )  # fmt: skip
    here, there = crm(tmp_path / "here.db"), crm(tmp_path / "there.db")
    local = bridge.replay({"s": table}, SCRIPT, language="cpl", stores={"crm": here})
    made(there, "CREATE UNIQUE INDEX once ON noted (k, a) WHERE a = 7", "INSERT INTO noted VALUES ('', 'x', 7, 0, '')")
    options: dict[str, Any] = {"language": "cpl", "stores": {"crm": there}, "spark": spark, "run": "a", "pieces": 3}
    out = str(tmp_path / "out")
    with pytest.raises(bridge.DatabaseError, match=r"(?s)crm: .*with run='a' continues from there"):
        bridge.replay({"s": table}, SCRIPT, "spark", out=out, **options)
    assert not pathlib.Path(out, "named.parquet").exists()
    made(there, "DROP INDEX once", "DELETE FROM noted WHERE id = ''")
    found = bridge.replay({"s": table}, SCRIPT, "spark", out=out, **options)
    assert rows_of(found) == rows_of(local)
    assert told(there, "names", "noted") == told(here, "names", "noted")


SERIAL = """
CREATE STREAMSCHEMA s WITH k varchar, a integer;
CREATE SQL due_of AS SELECT due FROM bills WHERE k = ?;
CREATE SQL charge AS UPDATE bills SET due = due + ? WHERE k = ? AND due < 20;
INSERT INTO before SELECT k, a, due FROM s ON SQL due_of, d, k, due;
INSERT INTO charged SELECT k, n FROM s ON SQL charge, c, a, k, n
"""


def test_what_reads_what_it_writes_is_one_piece(tmp_path: pathlib.Path, spark: Any) -> None:
    rows = [(n * 100, "xyz"[n % 3], n) for n in range(15)]
    source = {"s": pa.table(dict(zip(["ts", "k", "a"], zip(*rows, strict=True), strict=True)))}
    statements = ("CREATE TABLE bills (k VARCHAR(9), due INTEGER)", "INSERT INTO bills VALUES ('x', 0), ('y', 7)")
    here, there = (made(f"sqlite:///{tmp_path}/{name}.db", *statements) for name in ("here", "there"))
    local = bridge.replay(source, SERIAL, language="cpl", database=here)
    found = bridge.replay(source, SERIAL, "spark", language="cpl", database=there, spark=spark)
    assert rows_of(found) == rows_of(local)
    assert told(there, "bills") == told(here, "bills")


# What is refused ------------------------------------------------------------------------------------------------------


def test_a_data_store_in_memory_is_refused(spark: Any) -> None:
    source = {"s": pa.table({"ts": [1], "k": ["x"], "a": [1], "d": [None], "m": [None]})}
    for target, said in ((open_database("sqlite://"), "must be a URL"), ("sqlite://", "executors cannot see")):
        with pytest.raises(bridge.BridgeError, match=said):
            bridge.replay(source, SCRIPT, "spark", language="cpl", stores={"crm": target}, spark=spark)
    with pytest.raises(bridge.BridgeError, match="unknown data store 'crm'"):
        bridge.replay(source, SCRIPT, "spark", language="cpl", spark=spark)
    with pytest.raises(bridge.BridgeError, match="run must be a text"):
        bridge.replay(source, "SELECT k FROM s", "spark", spark=spark, run=" ")
    with bridge.connect() as cep, pytest.raises(bridge.BridgeError, match="use engine='local'"):
        bridge.replay(source, SCRIPT, "spark", language="cpl", into=cep, spark=spark)


def test_a_stream_of_spark_writes_nothing(spark: Any) -> None:
    queries = ReplayScript.of(SCRIPT, language="cpl")
    with pytest.raises(bridge.BridgeError, match="which a stream on Spark does not support"):
        bridge.stream({"s": spark.createDataFrame([(1,)], "ts long")}, queries, spark=spark)


def test_the_local_replay_has_no_runs() -> None:
    with pytest.raises(bridge.BridgeError, match="run=… needs engine='spark'"):
        bridge.replay({}, "SELECT a FROM s[a: INTEGER]", run="a")


@pytest.mark.parametrize(
    ("sql", "alone"),
    [
        ("INSERT INTO t VALUES (?)", True),
        ("INSERT INTO t SELECT a FROM t WHERE a > ?", False),
        ("UPDATE t SET a = ?", True),
        ("UPDATE t SET a = a + 1 WHERE k = ?", True),
        ("UPDATE t SET a = a + 1 WHERE a < ?", False),
        ("UPDATE t SET a = 1 WHERE k IN (SELECT k FROM u WHERE b = ?)", False),
        ("DELETE FROM t WHERE k = ?", False),
    ],
)
def test_which_counts_need_what_was_before(sql: str, alone: bool) -> None:
    database = open_database("sqlite://")
    assert counts_by_itself(UpdateSQL(Stream("s"), sql, ["a"], changed="n"), database) is alone
    database.close()


# Writing once ---------------------------------------------------------------------------------------------------------


class Failing(SQLite):
    """A database that fails at some statements, once each."""

    fails: Iterator[bool] = itertools.repeat(False)

    def execute_bound(self, sql: str, values: Any) -> None:
        if next(self.fails):
            raise Refused("the disk is full", sql)
        super().execute_bound(sql, values)


def test_letters_are_written_once_however_often_it_fails(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    import sqlalchemy as sa

    monkeypatch.setattr(write_back, "AT_ONCE", 4)
    database = Failing(sa.create_engine("sqlite://", poolclass=sa.StaticPool))
    database.execute("CREATE TABLE t (a INTEGER, id VARCHAR(40))")
    writer = UpdateSQL(Stream("s"), "INSERT INTO t VALUES (?, ?)", ["a", "result_id"], writer="notes")
    requests = [WriteRequest(n // 2, n + 1, 0, 0, [n, None]) for n in range(30)]
    rng, tries = random.Random(1), 0
    database.fails = iter(lambda: rng.random() < 0.15, None)
    while True:
        target = WriteTarget(Store("t", database), "june")
        target.add(0, writer, {})
        tries += 1
        try:
            target.write(iter(requests))
            break
        except bridge.DatabaseError:
            continue
    assert tries > 2
    expected = [(n, f"notes/{n // 2}/{n + 1}/0") for n in range(30)]
    assert database.fetch("SELECT a, id FROM t ORDER BY a") == expected
    other = WriteTarget(Store("t", database), "july")
    other.add(0, writer, {})
    database.fails = itertools.repeat(False)
    other.write(iter(requests[:3]))
    assert len(database.fetch("SELECT * FROM t")) == 33
