"""What every database must offer (docs/databases.md lists it), and what PostgreSQL and MariaDB do in their own way."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import pathlib
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
import sqlglot

import bridge
from bridge import Aggregate, Bridge, Stream, Window
from tests.support.databases import DATABASES, Database, one_of
from windows.databases import Refused, open_database, postgresql, sqlite
from windows.databases import mariadb as mysql
from windows.databases.alchemy import Alchemy

DOCS = pathlib.Path(__file__).parents[3] / "docs" / "databases.md"


@dataclasses.dataclass(frozen=True)
class Offer:
    """Something small that the bridge's statements need: its name in the docs, statements, a question and the answer."""

    name: str
    ask: str
    rows: list[tuple[Any, ...]]
    before: tuple[str, ...] = ()


T = "CREATE TABLE t AS SELECT a, k FROM (SELECT CAST(0 AS BIGINT) AS a, CAST('' AS VARCHAR) AS k) AS q WHERE FALSE"
FILL = "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (4, 'x'), (5, NULL)"
OFFERS = [
    Offer("CREATE TABLE AS", "SELECT a, k FROM t", [(2**62, "long " * 100)], (
        T, f"INSERT INTO t VALUES ({2**62}, '{'long ' * 100}')")),
    Offer("UNION ALL", "SELECT COUNT(*) AS n FROM (SELECT a FROM t UNION ALL SELECT a FROM t) AS u", [(8,)], (T, FILL)),
    Offer("WITH RECURSIVE", "SELECT a, k FROM t ORDER BY a", [(1, "x"), (2, "xx"), (3, "xxx")], (
        T, "INSERT INTO t WITH RECURSIVE m (i) AS (VALUES (1)), r (n, p) AS (SELECT i, CAST('x' AS VARCHAR) FROM m "
        "UNION ALL SELECT n + 1, p || 'x' FROM r WHERE n < 3) SELECT n, p FROM r")),
    Offer("ROW_NUMBER", "SELECT a, ROW_NUMBER() OVER (PARTITION BY k ORDER BY a) AS n FROM t ORDER BY a",
          [(1, 1), (2, 1), (4, 2), (5, 1)], (T, FILL)),
    Offer("LEAD with a default", "SELECT a, LEAD(a, 2, 99) OVER (ORDER BY a) AS n FROM t ORDER BY a",
          [(1, 4), (2, 5), (4, 99), (5, 99)], (T, FILL)),
    Offer("RANGE n PRECEDING", "SELECT a, COUNT(*) OVER (ORDER BY a RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS n "
          "FROM t ORDER BY a", [(1, 0), (2, 1), (4, 2), (5, 3)], (T, FILL)),
    Offer("RANGE n PRECEDING to the row", "SELECT a, SUM(a) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS n, "
          "FIRST_VALUE(a) OVER (ORDER BY a RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) AS f FROM t ORDER BY a",
          [(1, 1, 1), (2, 3, 1), (4, 4, 2), (5, 9, 4)], (T, FILL)),
    Offer("FIRST_VALUE", "SELECT a, FIRST_VALUE(k) OVER (ORDER BY a DESC) AS n FROM t WHERE a < 5 ORDER BY a",
          [(1, "x"), (2, "x"), (4, "x")], (T, FILL)),
    Offer("names of the input in OVER", "SELECT a * 0 AS a, ROW_NUMBER() OVER (ORDER BY a DESC) AS n, k FROM t ORDER BY n",
          [(0, 1, None), (0, 2, "x"), (0, 3, "y"), (0, 4, "x")], (T, FILL)),
    Offer("OFFSET in a sub-query of a row", "SELECT l.a, COUNT(*) AS n FROM t AS l JOIN t AS r ON r.a <= l.a AND r.a >= COALESCE("
          "(SELECT o.a FROM t AS o WHERE o.a < l.a ORDER BY o.a DESC LIMIT 1 OFFSET 1), 0) GROUP BY l.a ORDER BY l.a",
          [(1, 1), (2, 2), (4, 3), (5, 3)], (T, FILL)),
    Offer("IS NOT DISTINCT FROM", "SELECT COUNT(*) AS n FROM t AS l, t AS r WHERE l.k IS NOT DISTINCT FROM r.k", [(6,)],
          (T, FILL)),
    Offer("DELETE … WHERE … IN", "SELECT a FROM t", [(5,)],
          (T, FILL, "DELETE FROM t WHERE a IN (SELECT l.a FROM t AS l JOIN t AS r ON l.a < r.a)")),
    Offer("DELETE … WHERE … IN of a derived table", "SELECT a FROM t", [(5,)],
          (T, FILL, "DELETE FROM t WHERE a IN (SELECT a FROM (SELECT l.a FROM t AS l JOIN t AS r ON l.a < r.a) AS d)")),
    Offer("DELETE … WHERE EXISTS", "SELECT a FROM t", [(5,)],
          (T, FILL, "DELETE FROM t WHERE EXISTS (SELECT 1 FROM t AS later WHERE later.a > t.a)")),
    Offer("rows compared with IN", "SELECT a FROM t WHERE (a, k) IN (SELECT a, k FROM t WHERE k = 'y')", [(2,)], (T, FILL)),
    Offer("LEAST, GREATEST, CASE, COALESCE", "SELECT LEAST(a, 3) AS l, GREATEST(a, 3) AS g, COALESCE(k, 'none') AS k, "
          "CASE WHEN a > 4 THEN 1 ELSE 0 END AS c FROM t WHERE a > 3 ORDER BY a", [(3, 4, "x", 0), (3, 5, "none", 1)], (T, FILL)),
    Offer("COUNT(DISTINCT)", "SELECT COUNT(DISTINCT k) AS n FROM t", [(2,)], (T, FILL)),
    Offer("64 bits", "SELECT a - 1 AS a FROM t", [(2**63 - 2,)], (T, f"INSERT INTO t VALUES ({2**63 - 1}, 'x')")),
    Offer("division", "SELECT a / 2 AS half, a / 0 AS nothing, -a % 3 AS rest FROM t WHERE a = 5", [(2.5, None, -2)],
          (T, FILL)),
    Offer("texts byte by byte", "SELECT COUNT(*) AS n FROM t WHERE k = 'Ä b'", [(1,)],
          (T, "INSERT INTO t VALUES (1, 'Ä b'), (2, 'ä b'), (3, 'Ä b '), (4, 'A b')")),
    Offer("LIKE", "SELECT k FROM t WHERE k LIKE 'a\\%'", [("a\\b",)],
          (T, "INSERT INTO t VALUES (1, 'a\\b'), (2, 'A\\b'), (3, 'a%')")),
    Offer("texts as they are", "SELECT k, 'it''s \\ \"' AS c FROM t", [("it's \\ \" -- \n", "it's \\ \"")],
          (T, "INSERT INTO t VALUES (1, 'it''s \\ \" -- \n')")),
    Offer("NULL in order", "SELECT k FROM t ORDER BY k NULLS FIRST, a", [(None,), ("x",), ("x",), ("y",)], (T, FILL)),
    Offer("CREATE INDEX", "SELECT k FROM t WHERE k = 'y' AND a > 1", [("y",)], (T, FILL, "CREATE INDEX ti ON t (k, a)")),
    Offer("CREATE TEMPORARY TABLE", "SELECT COUNT(*) AS n FROM l AS l, l AS r", [(16,)],
          (T, FILL, "CREATE TEMPORARY TABLE l AS SELECT a FROM t")),
]  # fmt: skip


@pytest.fixture
def opened(database: Database) -> Iterator[Any]:
    with contextlib.closing(open_database(database.fresh())) as found:
        yield found


def said(database: Any, sql: str) -> str:
    text: str = database.render(sqlglot.parse_one(sql))
    return text


@pytest.mark.parametrize("offer", OFFERS, ids=lambda offer: offer.name)
def test_every_database_offers(offer: Offer, opened: Any) -> None:
    check_offer(opened, offer)


def check_offer(database: Any, offer: Offer) -> None:
    for statement in offer.before:
        if database.uses_indexes or "INDEX" not in statement:
            database.execute(said(database, statement))
    assert [tuple(map(plain, row)) for row in database.fetch(said(database, offer.ask))] == offer.rows


def plain(value: Any) -> Any:
    """Decimals as what they are equal to."""
    return value if value is None or isinstance(value, str) else float(value) if value != int(value) else int(value)


def test_the_documentation_lists_what_is_checked() -> None:
    listed = re.findall(r"^\| `?([^|`]+?)`? \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert [offer.name for offer in OFFERS] == [name for name in listed if name in {offer.name for offer in OFFERS}]


def test_a_transaction_is_all_or_nothing(opened: Any) -> None:
    opened.execute(said(opened, T))
    opened.begin()
    opened.insert("t", 2, [(1, "x")])
    opened.rollback()
    opened.begin()
    opened.insert("t", 2, [(2, "y")] * 500)
    opened.commit()
    assert opened.fetch("SELECT COUNT(*), MIN(a) FROM t") == [(500, 2)]


# Any database of SQLAlchemy -------------------------------------------------------------------------------------------


known = one_of([database for database in DATABASES if database.name in ("postgresql", "sqlite")])


@pytest.fixture
def generic(known: Database) -> Iterator[Alchemy]:
    """A database as if nothing was known of it."""
    with contextlib.closing(Alchemy(sa.create_engine(known.fresh(), poolclass=sa.StaticPool))) as found:
        yield found


def test_a_database_of_which_nothing_is_known(generic: Alchemy) -> None:
    generic.execute("CREATE TABLE names (k INTEGER, name VARCHAR(20))")
    generic.execute("INSERT INTO names VALUES (1, 'one')")
    generic.commit()
    cep = Bridge(generic)
    cep.register_stream("s", "k INTEGER, a DOUBLE")
    queries = {
        "high": "SELECT a FROM s WHERE a > 1.5",
        "mean": "SELECT k, AVG(a) AS mean, COUNT(*) AS n FROM s WINDOW(RANGE 5 MS) GROUP BY k",
        "pair": "SELECT l.a AS x, r.a AS y FROM s WINDOW(ROWS 1) AS l, s WINDOW(ROWS 2) AS r WHERE l.a > r.a",
        "named": "SELECT name, a FROM s, names WHERE s.k = names.k",
        "rise": "SELECT y FROM s MATCHING (PATTERN ab WITHIN 9 MS MEASURES x DOUBLE, y DOUBLE "
        "DEFINE a DO x = a, b AS a > x DO y = a)",
    }
    found: list[Any] = []
    for name, sql in queries.items():
        cep.create_query(name, sql)
        cep.add_output_processor(name, lambda event, name=name: found.append((name, *event.payload.values())))
    cep.push_event("s", [1, 1.0], 1)
    cep.push_events("s", [([1, 2.0], 3), ([2, 0.5], 7)])
    assert found == [
        ("mean", 1, 1.0, 1), ("named", "one", 1.0),
        ("high", 2.0), ("mean", 1, 1.5, 2), ("mean", 2, 0.5, 1), ("pair", 2.0, 1.0), ("named", "one", 2.0), ("rise", 2.0),
    ]  # fmt: skip
    assert [row.a for row in cep.query("SELECT a FROM s")] == [2.0, 0.5]
    with pytest.raises(bridge.QueryError, match="database refuses"):
        cep.create_query("no", "SELECT NO_SUCH_FUNCTION(a) AS x FROM s WINDOW(NOW)")
    cep.close()


# Servers --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cep(server: Database) -> Iterator[Bridge]:
    with contextlib.closing(server.connect()) as opened:
        yield opened


def test_nothing_is_left_of_a_query_that_is_refused_halfway(cep: Bridge) -> None:
    cep.register_stream("s", "a INTEGER")
    before = cep.database.table_names()
    with pytest.raises(bridge.QueryError, match="database refuses"):
        cep.create_query(
            "q", "SELECT NO_SUCH_FUNCTION(n) AS x FROM (SELECT COUNT(*) AS n FROM s WINDOW(ROWS 2)) WINDOW(ROWS 2)"
        )
    assert cep.database.table_names() == before
    cep.create_query("q", "SELECT COUNT(*) AS n FROM s WINDOW(ROWS 2)")
    cep.push_event("s", [1], 1)


def test_what_has_expired_is_removed_every_so_many_events(cep: Bridge) -> None:
    cep.register_stream("s", "a INTEGER")
    cep.create_query("q", "SELECT MAX(a) AS m FROM s WINDOW(RANGE 5 MS)")
    every = cep.database.purge_every
    for begin in range(0, 3 * every, 8):
        cep.push_events("s", [([ts], ts) for ts in range(begin, begin + 8)])
        ((rows,),) = cep.database.fetch("SELECT COUNT(*) FROM cep_window_s")
        assert rows < every + 16
    assert every == (64 if cep.database.dialect == "mariadb" else 1_000)


def test_an_error_in_a_push_is_told_and_the_next_push_goes_on(cep: Bridge) -> None:
    rows: list[Any] = []
    cep.create_query("q", "SELECT a * a AS square FROM s[a: BIGINT]")
    cep.create_query("n", "SELECT COUNT(*) AS n FROM s WINDOW(UNBOUNDED)")
    cep.add_output_processor("n", lambda event: rows.append(event.payload["n"]))
    cep.add_output_processor("q", lambda event: None)
    cep.push_event("s", [1], 1)
    for events in ([([2**62], 2)], [([2**62], 2)] * 500):
        with pytest.raises(bridge.DatabaseError, match="out of range"):
            cep.push_events("s", events)
    cep.push_event("s", [3], 3)
    assert rows == [1, 2]


def test_statements_queued_behind_a_drop_stay_prepared(opened: Any) -> None:
    """psycopg lets PostgreSQL forget what is prepared once it has the result of the DROP, maybe after others were queued."""
    for table in "tu":
        opened.execute(f"CREATE TABLE {table} (a BIGINT)")
    opened.insert("t", 1, [(1,), (2,)])
    opened.begin()
    opened.execute("DROP TABLE u")
    opened.fetch("SELECT COUNT(*) FROM t")
    opened.insert("t", 1, [(3,), (4,)])
    opened.commit()
    opened.insert("t", 1, [(5,)])
    assert [tuple(row) for row in opened.fetch("SELECT COUNT(*) FROM t")] == [(5,)]


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "not begun"])
def test_an_interrupted_begin_leaves_nothing_behind(cep: Bridge, monkeypatch: pytest.MonkeyPatch, begun: bool) -> None:
    rows: list[Any] = []
    cep.create_query("n", "SELECT COUNT(*) AS n FROM s[a: BIGINT] WINDOW(UNBOUNDED)")
    cep.add_output_processor("n", lambda event: rows.append(event.payload["n"]))
    cep.push_events("s", pa.table({"ts": range(2_000), "a": range(2_000)}))
    begin = cep.database.begin

    def interrupted() -> None:
        if begun:
            begin()
        raise KeyboardInterrupt

    monkeypatch.setattr(cep.database, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cep.push_event("s", [1], 2_000)
    monkeypatch.undo()
    assert [tuple(row) for row in cep.query("SELECT COUNT(*) FROM s")] == [(min(2_000, cep.database.chunk_size),)]
    cep.push_event("s", [1], 2_000)
    assert rows[-1] == 2_001


def test_an_error_that_no_answer_follows_is_told_on_commit(cep: Bridge) -> None:
    cep.create_query("q", "SELECT SUM(x) AS n FROM (SELECT a * a AS x FROM s[a: BIGINT] WINDOW(ROWS 2)) WINDOW(ROWS 2)")
    cep.create_query("r", "SELECT COUNT(*) AS n FROM q WINDOW(ROWS 2)")
    for events in ([([2**62], 2)], [([2**62], 2)] * 500):
        with pytest.raises(bridge.DatabaseError, match="out of range"):
            cep.push_events("s", events)
    assert cep.now is None
    assert cep.query("SELECT a FROM s") == []
    cep.push_event("s", [3], 3)
    assert cep.now == 3


def test_a_number_of_any_size_in_a_table_of_the_users_is_as_it_is(cep: Bridge) -> None:
    cep.database.execute("CREATE TABLE r (k INTEGER, x NUMERIC(20, 10))")
    cep.database.execute("INSERT INTO r VALUES (1, 0.123456789)")
    if cep.database.dialect == "postgres":
        cep.database.execute("ALTER TABLE r ALTER COLUMN x TYPE NUMERIC")
    cep.create_query("q", "SELECT x FROM s[k: INTEGER], r WHERE s.k = r.k")
    found: list[Any] = []
    cep.add_output_processor("q", lambda event: found.append(event.payload["x"]))
    cep.push_event("s", [1], 1)
    assert found == [decimal.Decimal("0.123456789")]


def test_a_lost_connection_is_told(server: Database) -> None:
    cep = server.connect()
    cep.register_stream("s", "a INTEGER")
    cep.create_query("q", "SELECT COUNT(*) AS n FROM s WINDOW(ROWS 2)")
    sever(cep, server)
    for _ in range(2):
        with pytest.raises(bridge.DatabaseError, match="connection to the database is lost"):
            cep.push_event("s", [1], 1)
    with pytest.raises(bridge.DatabaseError, match="connection to the database is lost"):
        cep.query("SELECT * FROM s")
    cep.close()
    with server.connect() as other:
        other.create_query("q", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(ROWS 2)")
        other.push_event("s", [1], 1)


def sever(cep: Bridge, server: Database) -> None:
    """What a server does that is being shut down."""
    own, kill = {
        "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"),
        "mariadb": ("SELECT CONNECTION_ID()", "KILL {}"),
    }[server.name]
    ((number,),) = cep.database.fetch(own)
    with contextlib.closing(open_database(server.present_url())) as other:
        other.execute(kill.format(number))


files = (Database("duckdb", "duckdb:///{}/app.duckdb"), Database("sqlite", "sqlite:///{}/app.db"))
lockable = one_of([*files, *(each for each in DATABASES if each.variable)])


def test_a_second_bridge_is_refused_while_the_first_is_at_work(
    lockable: Database, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the tables of the first; where one has ended, without closing or not, the next begins."""
    url = lockable.fresh().format(tmp_path)
    for module in (mysql, postgresql, sqlite):
        monkeypatch.setattr(module, "LOCK_TIMEOUT", 0)
    first = bridge.connect(url)
    first.register_stream("s", "a INTEGER")
    with pytest.raises(bridge.DatabaseError, match="another bridge is at work in "):
        bridge.connect(url)
    first.push_event("s", [1], 1)
    assert [row.a for row in first.query("SELECT a FROM s")] == [1]
    monkeypatch.undo()
    first.close()
    second = bridge.connect(url)
    second.database.close()  # as when its process ends
    bridge.connect(url).close()


_HOLDS = (
    "import fcntl, sys; f = open(sys.argv[1], 'wb'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
)


def test_a_duckdb_file_that_another_process_has_open_is_refused_with_a_way_out(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-S", "-c", _HOLDS, str(tmp_path / "app.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        holder.stdout.readline()
        expected = rf"another process \(PID {holder.pid}\) has .*app.duckdb open: .* end the other one, or use SQLite"
        with pytest.raises(bridge.DatabaseError, match=expected):
            bridge.connect(f"duckdb:///{tmp_path}/app.duckdb")
        holder.stdin.close()
    (tmp_path / "app.duckdb").unlink()
    bridge.connect(f"duckdb:///{tmp_path}/app.duckdb").close()


def test_sqlite_claims_nothing_where_no_file_can_be_made(tmp_path: pathlib.Path) -> None:
    (tmp_path / "app.db-cep").mkdir()
    with bridge.connect(f"sqlite:///{tmp_path}/app.db") as cep:
        cep.register_stream("s", "a INTEGER")
        cep.push_event("s", [1], 1)


def test_an_unreachable_server_is_told(server: Database) -> None:
    url = sa.make_url(server.present_url()).set(host="127.0.0.1", port=1, query={})
    with pytest.raises(bridge.DatabaseError, match="cannot be opened"):
        bridge.connect(url.render_as_string(hide_password=False))


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "mariadb+pymysql", "mysql", "nonsense"])
def test_the_password_is_not_told(scheme: str) -> None:
    with pytest.raises(bridge.DatabaseError) as raised:
        bridge.connect(f"{scheme}://user:hidden@127.0.0.1:1/none")
    assert "hidden" not in str(raised.value)
    with pytest.raises(bridge.DatabaseError) as raised:
        bridge.connect(f"{scheme}://127.0.0.1:1/none?user=me&password=hidden")
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["postgresql+pg8000://u@localhost/x", "postgresql+psycopg2://u@localhost/x", "mysql://u@localhost/x"]
)
def test_another_driver_is_refused_with_the_right_one(url: str) -> None:
    with pytest.raises(bridge.DatabaseError):
        bridge.connect(url)


def test_an_engine_may_stand_for_the_url(server: Database) -> None:
    engine = sa.create_engine(server.fresh())
    with bridge.connect(engine) as cep:
        cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    with engine.connect() as connection:  # nothing of ours is left in the pool
        settings = {"postgresql": "SHOW jit", "mariadb": "SELECT @@sql_mode LIKE '%ANSI%'"}[server.name]
        assert connection.execute(sa.text(settings)).scalar() in ("on", 0)
    engine.dispose()


def test_relations_compare_byte_by_byte_whatever_they_were_declared(cep: Bridge) -> None:
    names = ["VARCHAR(20)"]
    if cep.database.dialect == "mariadb":
        names += [f"VARCHAR(20) CHARACTER SET {kind}" for kind in (
            "latin1", "utf8mb3", "utf8mb4", "utf8mb4 COLLATE utf8mb4_bin", "utf8mb4 COLLATE utf8mb4_nopad_bin",
            "utf8mb4 COLLATE utf8mb4_unicode_ci")]  # fmt: skip
    cep.register_stream("s", "k VARCHAR")
    for place, kind in enumerate(names):
        rows: list[Any] = []
        cep.database.execute(f"CREATE TABLE r{place} (k {kind})")
        cep.database.execute(f"INSERT INTO r{place} VALUES ('x'), ('X'), ('x '), ('é')")
        text = f"SELECT r{place}.k AS k, COUNT(*) AS n FROM (SELECT r{place}.k AS k FROM s, r{place} WHERE s.k = r{place}.k " \
               f"AND r{place}.k <> 'É') AS r{place} WINDOW(UNBOUNDED) GROUP BY r{place}.k"  # fmt: skip
        cep.create_query(f"q{place}", text)
        cep.add_output_processor(f"q{place}", lambda event, rows=rows: rows.append(tuple(event.payload.values())))
        ts = place * 10
        for k in ("x", "X", "x ", "é"):
            cep.push_event("s", [k], ts)
        assert rows == [("x", 1), ("X", 1), ("x ", 1), ("é", 1)]


def test_a_long_chain_of_events_is_in_order(cep: Bridge) -> None:
    """Paths of matches are texts that grow: databases cut off or do not sort what is long."""
    cep.create_query("q", "SELECT n FROM s[a: INTEGER] MATCHING (PATTERN x+ WITHIN 1 H MEASURES n: INTEGER "
                     "DEFINE x AS a > 0 DO n = COALESCE(n, 0) + 1)")  # fmt: skip
    found: list[int] = []
    cep.add_output_processor("q", lambda event: found.append(event.payload["n"]))
    cep.push_events("s", [([1], ts) for ts in range(70)])
    assert found[-70:] == list(range(70, 0, -1))


def test_many_rows_come_in_and_go_out_as_they_are(cep: Bridge) -> None:
    cep.create_query("q", "SELECT * FROM s[a: BIGINT, d: DOUBLE, k: VARCHAR, b: BOOLEAN]")
    tables: list[Any] = []
    cep.add_output_processor("q", tables.append, batch=True)
    values = [(place * 2**40, place / 3, f"k{place}\t\\N'\"", place % 2 == 0) for place in range(999)]
    cep.push_events("s", [(row, 5) for row in [*values, (None,) * 4]])
    assert list(zip(*(column.to_pylist() for column in tables[0].columns[1:]), strict=True)) == [*values, (None,) * 4]


@pytest.mark.parametrize("total", [f"CEP_TOTAL({2**63 - 1}, 0, 1)", "CEP_TOTAL(NULL, 1e30, 1)", "CEP_INTEGER(1e30)"])
def test_a_number_beyond_64_bits_is_said_to_be_one(total: str) -> None:
    overflow = pytest.raises(Refused, match="integer overflow: a result is beyond 64 bits")
    with contextlib.closing(open_database("sqlite://")) as database, overflow:
        database.fetch(f"SELECT {total}")


def test_refused_is_told_with_the_statement(cep: Bridge) -> None:
    with pytest.raises(Refused, match="SELECT nothing FROM nowhere"):
        cep.database.fetch("SELECT nothing FROM nowhere")


def test_sqlite_takes_a_query_deeper_than_its_parser_goes():
    """SQLite's parser has a stack of 100 entries: what is nested deeper stands in WITH, one after the other."""
    node: Any = Stream("s", "a INTEGER")
    for _ in range(12):
        node = Aggregate(Window(node, "RANGE 5 MS"), ["MAX(a) AS a"], [], having="MAX(a) > 0")
    with bridge.connect("sqlite://") as cep:
        found: list[bridge.Event] = []
        cep.create_query("deep", node)
        cep.add_output_processor("deep", found.append)
        cep.push_events("s", [([3], 1), ([2], 2)])
    assert [(event.timestamp, event.payload["a"]) for event in found] == [(1, 3), (2, 3)]


ENDS = """SELECT {}(e) AS n FROM (SELECT e, c FROM s WINDOW(PARTITION BY c ROWS 4)) WINDOW(ROWS 1 SLIDE 2)"""
PAIRS = """SELECT t.e, p.low, p.many FROM s WINDOW(RANGE 9 MS) AS t,
    (SELECT l.n AS low, r.many FROM
        (SELECT * FROM ends WHERE n > 0 UNION ALL SELECT * FROM ends WINDOW(UNBOUNDED)
         UNION ALL SELECT * FROM ends WINDOW(RANGE 2 MS)) AS l,
        (SELECT n, COUNT(total) AS many FROM
            (SELECT n, SUM(n) + COUNT(*) AS total FROM ends WINDOW(PARTITION BY n ROWS 4 SLIDE 3) GROUP BY n)
            GROUP BY n) AS r
        WHERE l.n <= r.many) WINDOW(PARTITION BY many RANGE 4 MS) AS p
    WHERE t.e > p.low"""


def test_sqlite_takes_deep_sub_queries_in_values():
    """Where a row leaves a union's window is asked in a value: what it reads stands in WITH, too."""
    with bridge.connect("sqlite://") as cep:
        found: list[bridge.Event] = []
        cep.register_stream("s", "c VARCHAR, e INTEGER")
        cep.create_query("ends", f"{ENDS.format('MIN')} UNION ALL {ENDS.format('MAX')}")
        cep.create_query("pairs", PAIRS)
        cep.add_output_processor("pairs", found.append)
        cep.push_events("s", [(["a", 1], 1), (["b", 1], 2), (["a", 2], 3), (["a", 1], 4)])
    assert [(event.timestamp, *event.payload.values()) for event in found] == [(4, 2, 1, 1)] * 8


def test_a_url_that_is_nearly_right_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(bridge.DatabaseError, match=r"for postgres:// write postgresql\+psycopg://"):
        bridge.connect("postgres://me@host/app")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(bridge.DatabaseError, match=r"pip install '\.\[postgresql\]'"):
        bridge.connect("postgresql+psycopg://me@host/app")


def test_duckdb_joins_by_both_bounds_of_a_range():
    """A join by a range is of two sorted sides, also where a sub-query is used twice; what else was disabled stays so."""
    asked = """SELECT COUNT(*) FROM (SELECT a AS at FROM t UNION ALL SELECT until FROM w) AS m
               LEFT JOIN w ON w.a <= m.at AND m.at <= w.until"""
    database = open_database("duckdb://")
    database.execute("CREATE TABLE t AS SELECT range AS a FROM range(5000)")
    database.execute("CREATE VIEW w AS SELECT a, LEAD(a, 9, 9999) OVER (ORDER BY a) AS until FROM t")
    ((_, plan),) = database.fetch(f"EXPLAIN {asked}")
    assert "IE Join" in plan or "IE_JOIN" in plan
    ((disabled,),) = database.fetch("SELECT current_setting('disabled_optimizers')")
    assert disabled == "common_subplan"


VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False, None],
    "BIGINT": [1, 2**63 - 1, -(2**63), None],
    "DOUBLE": [1.0, float("nan"), float("inf"), -0.0, 5e-324, None],
    "VARCHAR": ["", "1", "\u00e9\U0001f600", "a\nb", None],
    "DECIMAL(38,10)": [decimal.Decimal("1.5"), decimal.Decimal("1234567890123456789012345678.0123456789"), None],
    "DECIMAL(38,0)": [decimal.Decimal("12345678901234567890123456789012345678"), decimal.Decimal(1), None],
    "TIMESTAMP": [datetime.datetime(2020, 1, 1, 1, 2, 3, 456789), datetime.datetime(1, 1, 1), None],
    "DOUBLE[]": [[], [1.0, None], None],
    "STRUCT(a INTEGER, b VARCHAR)[]": [[], [{"a": 1, "b": "x"}], [None], None],
}


@pytest.mark.parametrize("seed", range(20))
def test_duckdb_stores_rows_together_as_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    kinds = draw.sample(list(VALUES), draw.randint(1, 6))
    rows = [tuple(draw.choice(VALUES[kind]) for kind in kinds) for _ in range(draw.randint(2, 80))]
    with contextlib.closing(open_database("duckdb://")) as database:
        for name in ("single", "several"):
            database.execute(f"CREATE TABLE {name} ({', '.join(f'c{n} {kind}' for n, kind in enumerate(kinds))})")
        for row in rows:
            database.insert("single", len(kinds), [row])
        database.insert("several", len(kinds), rows)
        database.insert("several", len(kinds), [])
        assert repr(database.fetch("FROM several")) == repr(database.fetch("FROM single"))


def test_settings_of_duckdb_stand_in_its_url(tmp_path: pathlib.Path) -> None:
    for url in ("duckdb://?threads=1&memory_limit=1MiB", f"duckdb:///{tmp_path}/file.db?threads=1&memory_limit=1MiB"):
        opened = open_database(url)
        settings = "SELECT current_setting('threads'), current_setting('memory_limit')"
        assert opened.fetch(settings) == [(1, "1.0 MiB")]
        opened.close()
    assert [path.name for path in tmp_path.iterdir()] == ["file.db"]


@pytest.mark.parametrize("setting", ["thread=1", "threads=many", "threads"])
def test_a_wrong_setting_of_duckdb_is_refused(setting: str) -> None:
    with pytest.raises(Refused, match=f"duckdb:///:memory:.{setting}=? cannot be opened"):
        open_database(f"duckdb://?{setting}")


def test_duckdb_takes_nothing_from_a_table_of_the_same_name_elsewhere() -> None:
    """Neither from another schema nor from a database that is attached, unless it is named."""
    with contextlib.closing(open_database("duckdb://")) as database:
        ((here,),) = database.fetch("SELECT current_database()")
        for text in (
            "ATTACH ':memory:' AS other",
            "CREATE TABLE other.t (a INTEGER UNIQUE, noted TIMESTAMPTZ)",
            "CREATE TABLE other.elsewhere (a INTEGER)",
            "CREATE SCHEMA apart",
            "CREATE TABLE apart.t (a INTEGER, b TIMESTAMPTZ, UNIQUE (a, b))",
            "CREATE VIEW t AS SELECT 1 AS a, 'x' AS noted",
        ):
            database.execute(text)
        found = {
            name: (database.unique_keys(name), list(database.in_utc(name))) for name in ("t", "apart.t", "other.t")
        }
        assert found == {"t": ([], []), "apart.t": ([{"a", "b"}], ["b"]), "other.t": ([{"a"}], ["noted"])}
        assert [database.is_table(name) for name in ("t", "apart.t", "other.t", "other.main.t")] == [
            False,
            True,
            True,
            True,
        ]
        assert [column.name for column in database.relation("t") or ()] == ["a", "noted"]
        assert database.table_names() == ["t"]
        database.begin()
        assert database.relation("elsewhere") is None
        database.execute("CREATE TABLE own (a INTEGER)")  # the transaction is still open
        database.commit()
        database.execute("USE other")
        assert database.is_table("t")
        assert sorted(database.table_names()) == ["elsewhere", "t"]
        database.execute(f"SET search_path = '{here}.apart'")
        assert database.unique_keys("T") == [{"a", "b"}]


def test_a_bridge_beside_an_attached_database(tmp_path: pathlib.Path) -> None:
    """The tables of the bridge there are none of this one's, and its tables are no suggestions for a wrong name."""
    import duckdb

    with bridge.connect(f"duckdb:///{tmp_path}/before.db") as cep:
        cep.register_stream("s", "v INTEGER")
        cep.create_query("q", "SELECT SUM(v) AS t FROM s WINDOW(ROWS 3)")
        cep.push_event("s", [1], 1)
        cep.database.execute("CREATE TABLE bids (a INTEGER)")
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{tmp_path}/before.db' AS before_now")
        with bridge.connect(connection) as cep:
            assert [name for name in cep.database.table_names() if not name.startswith("cep_")] == []
            cep.register_stream("s", "v INTEGER")
            cep.create_query("q", "SELECT SUM(v) AS t FROM s WINDOW(ROWS 3)")
            found: list[int] = []
            cep.add_output_processor("q", lambda event: found.append(event.payload["t"]))
            cep.push_events("s", [([5], 1), ([6], 2)])
            with pytest.raises(bridge.QueryError, match=r"unknown stream or table 'bid'(?!.*bids)"):
                cep.query("SELECT * FROM bid")
        assert found == [5, 11]


def test_times_of_a_table_on_sqlite_compare_however_their_texts_are_written() -> None:
    midnight = datetime.datetime(2024, 2, 29)
    with bridge.connect("sqlite://") as cep:
        cep.database.execute("CREATE TABLE days (k INTEGER, since TIMESTAMP, day DATE)")
        texts = ("2024-02-29", "2024-02-29 00:00:00", "2024-02-29T00:00", "2024-02-29 00:00:00.000000", "soon")
        for k, text in enumerate(texts):
            cep.database.execute(f"INSERT INTO days VALUES ({k}, '{text}', '{text}')")
        cep.register_stream("s", "k INTEGER, t TIMESTAMP")
        cep.create_query("q", "SELECT s.k, since FROM s JOIN days ON s.k = days.k AND s.t = since AND s.t = day")
        cep.create_query("all", "SELECT since, day FROM s JOIN days ON s.k = days.k")
        found: list[Any] = []
        cep.add_output_processor("q", lambda event: found.append(event.payload))
        cep.add_output_processor("all", lambda event: found.append(event.payload))
        for k in range(5):
            cep.push_event("s", [k, midnight], 1000)
    assert [row for row in found if "k" in row] == [{"k": k, "since": midnight} for k in range(4)]
    assert found[-1] == {"since": None, "day": None}


@pytest.mark.parametrize("name", ["true", "False"])
def test_names_that_sqlite_takes_for_values_are_refused(name: str) -> None:
    """A column of a sub-select that is called so has another name there, and `"true"` is then the text."""
    with bridge.connect("sqlite://") as cep:
        with pytest.raises(bridge.DatabaseError, match=f"SQLite takes the name '{name}' for the value"):
            cep.register_stream("s", {name: "INTEGER"})
        cep.register_stream("s", {"a": "INTEGER"})
        with pytest.raises(bridge.QueryError, match=rf"(?s)SQLite takes the name '{name}'.*column 13"):
            cep.create_query("q", f'SELECT a AS "{name}" FROM s')
        cep.create_query("q", "SELECT a FROM s WHERE TRUE OR NOT FALSE")
