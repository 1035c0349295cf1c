"""Data stores that are away, refuse, or come back: no event is lost, no other query waits, what is given up is listed."""

from __future__ import annotations

import datetime
import decimal
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

import bridge
from bridge.query.scripts import MultiFilter, ReadSQL, UpdateSQL
from bridge.stores.outbox import ATTEMPTS
from windows.databases import Refused, open_database
from windows.databases.sqlite import SQLite
from windows.schema import Attribute

pytestmark = pytest.mark.some_databases(2)


class Shaky(SQLite):
    """A store that can be taken away: then every statement fails."""

    def __init__(self) -> None:
        self.away = False
        self.asked: list[str] = []
        super().__init__(sa.create_engine("sqlite://", poolclass=sa.StaticPool))

    def execute(self, sql: str) -> None:
        self._try(sql)
        super().execute(sql)

    def execute_bound(self, sql: str, values: Sequence[Any]) -> None:
        self._try(sql)
        super().execute_bound(sql, values)

    def _try(self, sql: str) -> None:
        self.asked.append(sql)
        if self.away:
            raise Refused("nobody is there", sql)


SCRIPT = """
CREATE STREAMSCHEMA cdr WITH id varchar, d integer;
CREATE SQL plan_of ON crm AS SELECT plan FROM plans WHERE id = ?;
CREATE SQL add ON crm AS INSERT INTO bills (id, due, result) VALUES (?, ?, ?);
INSERT INTO planned SELECT id, d, plan FROM cdr ON SQL plan_of, p, id, plan;
INSERT INTO billed SELECT id FROM cdr ON SQL add, a, id, d, result_id;
INSERT INTO others SELECT id FROM cdr WHERE d > 1
"""


@pytest.fixture
def store() -> Iterator[Shaky]:
    made = Shaky()
    made.execute("CREATE TABLE plans (id VARCHAR(20), plan VARCHAR(20))")
    made.execute("CREATE TABLE bills (id VARCHAR(20), due INTEGER CHECK (due < 100), result VARCHAR(60) UNIQUE)")
    made.execute("INSERT INTO plans VALUES ('ann', 'flat'), ('bob', 'day')")
    yield made
    made.close()


@pytest.fixture
def cep(store: Shaky, database: Any) -> Iterator[bridge.Bridge]:
    with database.connect() as made:
        made.database.execute("DROP TABLE IF EXISTS dead_letters")
        made.database.execute("DROP TABLE IF EXISTS cep_outbox")
        made.register_datastore("crm", store)
        made.create_query("script", SCRIPT, language="cpl")
        yield made
        store.away = False


def listen(cep: bridge.Bridge, query: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    cep.add_output_processor(query, lambda event: found.append((event.timestamp, *event.payload.values())))
    return found


def bills(store: Shaky) -> list[Any]:
    return store.fetch("SELECT id, due FROM bills ORDER BY result")


def test_a_store_that_is_away_keeps_nobody_else_waiting(cep: bridge.Bridge, store: Shaky) -> None:
    planned, others, billed = (listen(cep, query) for query in ("planned", "others", "billed"))
    cep.push_event("cdr", ["ann", 1], 1000)
    store.away = True
    cep.push_event("cdr", ["bob", 2], 2000)
    cep.push_event("cdr", ["ann", 3], 3000)
    assert planned == [(1000, "ann", 1, "flat")]
    assert others == [(2000, "bob"), (3000, "ann")]
    assert billed == [(1000, "ann"), (2000, "bob"), (3000, "ann")]
    assert cep.deliver() == 2

    store.away = False
    assert cep.deliver() == 0
    cep.push_event("cdr", ["eve", 4], 4000)
    cep.push_event("cdr", ["bob", 5], 5000)
    assert planned[1:] == [(4000, "bob", 2, "day"), (4000, "ann", 3, "flat"), (5000, "bob", 5, "day")]
    assert bills(store) == [("ann", 1), ("bob", 2), ("ann", 3), ("eve", 4), ("bob", 5)]
    assert cep.dead_letters() == []


def test_what_waited_comes_with_time_alone(cep: bridge.Bridge, store: Shaky) -> None:
    planned = listen(cep, "planned")
    store.away = True
    cep.push_events("cdr", [(["ann", 1], 1000), (["bob", 2], 1000)])
    store.away = False
    cep.deliver()
    cep.advance_time(7000)
    assert planned == [(7000, "ann", 1, "flat"), (7000, "bob", 2, "day")]


def test_a_store_that_is_away_is_left_alone_for_a_while(cep: bridge.Bridge, store: Shaky) -> None:
    store.away = True
    cep.push_event("cdr", ["ann", 1], 1000)
    asked = len(store.asked)
    for ts in range(2000, 2020):
        cep.push_event("cdr", ["ann", 1], ts)
    assert len(store.asked) - asked <= 4


def test_what_the_store_refuses_for_good_is_a_dead_letter(cep: bridge.Bridge, store: Shaky) -> None:
    cep.push_events("cdr", [(["ann", 1], 1000), (["bob", 100], 1000), (["eve", 3], 1000)])
    assert bills(store) == [("ann", 1)]
    for _ in range(ATTEMPTS):
        cep.deliver()
    assert bills(store) == [("ann", 1), ("eve", 3)]
    (letter,) = cep.dead_letters()
    assert (letter.store, letter.query, letter.id, letter.timestamp) == ("crm", "billed", "billed/1000/2/0", 1000)
    assert letter.parameters == ["bob", 100, "billed/1000/2/0"]
    assert letter.attempts == ATTEMPTS and "CHECK" in letter.reason


def test_what_waits_at_the_end_is_a_dead_letter(cep: bridge.Bridge, store: Shaky) -> None:
    store.away = True
    cep.push_event("cdr", ["ann", 1], 1000)
    cep.finish()
    assert [(letter.query, letter.parameters) for letter in cep.dead_letters()] == [("p", ["ann"])]


@pytest.mark.parametrize("reason", ["integer overflow", "the data store did not answer to the end"])
def test_a_dead_letter_of_a_read_has_the_values_of_the_row(store: Shaky, reason: str) -> None:
    store.execute("CREATE TABLE days (day DATE, plan VARCHAR(20))")
    script = """
    CREATE STREAMSCHEMA s WITH day date;
    CREATE SQL plan_of ON crm AS SELECT plan FROM days WHERE day = ? AND abs(-9223372036854775808) > 0;
    INSERT INTO planned SELECT day, plan FROM s ON SQL plan_of, p, day, plan
    """
    with bridge.connect() as cep:
        cep.register_datastore("crm", store)
        cep.create_query("script", script, language="cpl")
        store.away = reason != "integer overflow"
        cep.push_event("s", [datetime.date(2024, 1, 1)], 1000)
        cep.finish()
        (letter,) = cep.dead_letters()
    assert letter.reason.startswith(reason) and letter.parameters == [datetime.date(2024, 1, 1)]


def test_what_waits_when_the_bridge_is_closed_is_a_dead_letter(tmp_path: pathlib.Path, store: Shaky) -> None:
    with bridge.connect(f"sqlite:///{tmp_path}/cep.db", durable=False) as cep:
        cep.register_datastore("crm", store)
        cep.create_query("script", SCRIPT, language="cpl")
        store.away = True
        cep.push_event("cdr", ["ann", 1], 1000)
    with bridge.connect(f"sqlite:///{tmp_path}/cep.db", durable=False) as cep:
        assert [letter.parameters for letter in cep.dead_letters()] == [["ann"]]
        store.away = False
        cep.register_datastore("crm", store)
        assert cep.deliver() == 0
    assert bills(store) == [("ann", 1)]


def test_nothing_of_ours_stays_where_nothing_waits(database: Any, store: Shaky) -> None:
    with database.connect() as cep:
        before = {name.lower() for name in cep.database.table_names() if not name.startswith("cep_")}
        cep.register_datastore("crm", store)
        cep.create_query("script", SCRIPT, language="cpl")
        cep.push_event("cdr", ["ann", 1], 1000)
    with bridge.connect(database.present_url(), durable=False) as cep:
        assert {name.lower() for name in cep.database.table_names() if not name.startswith("cep_clock")} == before


def test_a_push_that_fails_posts_nothing(cep: bridge.Bridge, store: Shaky) -> None:
    cep.push_event("cdr", ["ann", 1], 1000)
    with pytest.raises(bridge.SchemaError):
        cep.push_events("cdr", [(["bob", 2], 2000), (["eve", "many"], 2000)])
    assert bills(store) == [("ann", 1)]
    assert cep.deliver() == 0


def test_a_batch_is_one_question(cep: bridge.Bridge, store: Shaky) -> None:
    planned = listen(cep, "planned")
    store.asked.clear()
    cep.push_events("cdr", [([name, 1], 1000) for name in ("ann", "bob", "eve", "ann", "joe", "sue") * 20])
    assert len([sql for sql in store.asked if "plans" in sql]) == 1
    assert len(planned) == 60


def test_letters_of_a_process_that_was_killed_are_delivered_by_the_next(tmp_path: pathlib.Path) -> None:
    """The store is away when the process ends without a word; the outbox is in the database."""
    code = f"""
        import os
        import bridge
        import sqlalchemy as sa
        with bridge.connect("sqlite:///{tmp_path}/crm.db") as crm:
            crm.database.execute("CREATE TABLE bills (id VARCHAR(20), due INTEGER)")
        cep = bridge.connect("sqlite:///{tmp_path}/cep.db")
        cep.register_datastore("crm", "sqlite:///{tmp_path}/crm.db")
        cep.create_query("s", '''CREATE STREAMSCHEMA cdr WITH id varchar, d integer;
            CREATE SQL add ON crm AS INSERT INTO bills VALUES (?, ?);
            INSERT INTO billed SELECT id FROM cdr ON SQL add, a, id, d''', language="cpl")
        cep._catalogue.stores.find("crm")._again = float("inf")
        cep.push_event("cdr", ["ann", 1], 1000)
        os._exit(9)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert done.returncode == 9
    with bridge.connect(f"sqlite:///{tmp_path}/cep.db") as cep:
        cep.register_datastore("crm", f"sqlite:///{tmp_path}/crm.db")
        assert cep.deliver() == 0
        assert cep._catalogue.stores.find("crm").database().fetch("SELECT * FROM bills") == [("ann", 1)]


def test_a_store_that_does_not_answer_cannot_be_registered(database: Any) -> None:
    with database.connect() as cep, pytest.raises(bridge.BridgeError, match="the data store 'crm'"):
        cep.register_datastore("crm", "sqlite:////nowhere/at/all.db")


def test_objects_say_the_same(store: Shaky) -> None:
    with bridge.connect() as cep:
        cep.register_stream("cdr", "id VARCHAR, d INTEGER")
        cep.register_datastore("crm", store)
        cdr = bridge.Stream("cdr")
        read = ReadSQL(cdr, "SELECT plan FROM plans WHERE id = ?", ["id"], "p", store="crm")
        cep.create_query("planned", bridge.Filter(read, "plan <> 'x'"))
        cep.create_query(
            "billed", UpdateSQL(cdr, "INSERT INTO bills VALUES (?, ?, ?)", ["id", "d + 1", "result_id"], store="crm")
        )
        cep.create_query("routes", MultiFilter(cdr, {"low": "d < 5", "high": "d >= 5"}))
        planned, high = listen(cep, "planned"), listen(cep, "high")
        cep.push_events("cdr", [(["ann", 1], 1000), (["bob", 7], 2000)])
        assert planned == [(1000, "ann", 1, "flat"), (2000, "bob", 7, "day")]
        assert high == [(2000, "bob", 7)]
        assert bills(store) == [("ann", 2), ("bob", 8)]
        text = "SELECT * FROM cdr ON SQL (SELECT plan FROM plans WHERE id = ?) OF crm, p, id WHERE plan <> 'x'"
        assert cep.queries["planned"] == text
        cep.remove_query("routes")
        assert "low" not in cep.queries


# The bridge's own database ----------------------------------------------------------------------------------------------


OWN = """
CREATE STREAMSCHEMA cdr WITH id varchar, d integer;
CREATE SQL add AS UPDATE bills SET due = due + ? WHERE id = ?;
CREATE SQL fresh AS INSERT INTO seen (id) VALUES (?);
INSERT INTO billed SELECT * FROM cdr ON SQL add, a, d, id;
INSERT INTO noted SELECT id FROM billed ON SQL fresh, f, id;
INSERT INTO TABLE log SELECT id, d FROM cdr
"""


def test_a_push_that_the_database_refuses_leaves_nothing(database: Any) -> None:
    with database.connect() as cep:
        cep.database.execute("CREATE TABLE bills (id VARCHAR(20), due INTEGER)")
        cep.database.execute("CREATE TABLE seen (id VARCHAR(20) NOT NULL)")
        cep.database.execute("INSERT INTO bills VALUES ('ann', 0)")
        cep.create_query("script", OWN, language="cpl")
        found = listen(cep, "noted")
        cep.push_event("cdr", ["ann", 1], 1000)
        with pytest.raises(bridge.DatabaseError):
            cep.push_events("cdr", [(["ann", 2], 2000), ([None, 3], 2000), (["ann", 4], 2000)])
        assert cep.database.fetch("SELECT due FROM bills") == [(1,)]
        assert cep.database.fetch("SELECT d FROM log") == [(1,)]
        cep.push_event("cdr", ["ann", 5], 2000)
        assert found == [(1000, "ann"), (2000, "ann")]
        assert cep.database.fetch("SELECT due FROM bills") == [(6,)]
        assert cep.database.fetch("SELECT COUNT(*) FROM seen") == [(2,)]


def test_a_script_that_is_refused_leaves_nothing(database: Any) -> None:
    with database.connect() as cep:
        cep.database.execute("CREATE TABLE bills (id VARCHAR(20), due INTEGER)")
        cep.database.execute("CREATE TABLE seen (id VARCHAR(20))")
        cep.register_stream("other", "a INTEGER")
        with pytest.raises(bridge.QueryError, match="unknown column 'nothing'"):
            cep.create_query(
                "script", OWN.replace("INSERT INTO TABLE log SELECT id, d", "INSERT INTO x SELECT nothing"), "cpl"
            )
        assert list(cep.streams) == ["other"] and cep.queries == {}
        assert "log" not in [name.lower() for name in cep.database.table_names()]
        cep.create_query(
            "script", "CREATE STREAMSCHEMA cdr WITH a integer; INSERT INTO billed SELECT a FROM cdr", "cpl"
        )
        assert list(cep.queries) == ["billed"]


def test_an_output_is_removed_with_its_script() -> None:
    with bridge.connect() as cep:
        cep.create_query(
            "script", "CREATE STREAMSCHEMA s WITH a integer; INSERT INTO t SELECT a FROM s", language="cpl"
        )
        cep.create_query("reader", "SELECT a FROM t WHERE a > 1")
        with pytest.raises(bridge.InUse, match="'t' is an output of the script 'script'"):
            cep.remove_query("t")
        with pytest.raises(bridge.InUse, match="'t' is read by 'reader'"):
            cep.remove_query("script")
        with pytest.raises(bridge.UnknownName, match="'script' is a script, whose outputs are queries: 't'"):
            cep.add_output_processor("script", print)
        with pytest.raises(bridge.NameTaken, match="there is another script 'Script': replace=True"):
            cep.create_query("Script", "SELECT a FROM s")
        cep.remove_query("reader")
        cep.create_query("on_s", "SELECT a FROM s")
        cep.remove_query("script")
        assert list(cep.queries) == ["on_s"] and list(cep.streams) == ["s"]


def test_a_script_says_what_it_does(database: Any, store: Shaky) -> None:
    with database.connect() as cep:
        cep.database.execute("CREATE TABLE bills (id VARCHAR(20), due INTEGER)")
        cep.database.execute("CREATE TABLE seen (id VARCHAR(20) NOT NULL)")
        cep.register_datastore("crm", store)
        cep.create_query("script", OWN, language="cpl")
        cep.create_query("stores", SCRIPT.replace("CREATE STREAMSCHEMA cdr WITH id varchar, d integer;", "")
                         .replace("billed", "posted"), language="cpl")  # fmt: skip
        told = cep.explain("script")
        assert "UpdateSQL(cdr) = {UPDATE bills SET due = due + ? WHERE id = ?, (d, id), billed}" in told
        assert "-- for each of these rows: UPDATE bills SET due = due + ? WHERE id = ?" in told
        told = cep.explain("stores")
        assert "-- the data store crm is queried for many rows at once:" in told
        assert "-- after the commit, at crm, for each of these rows: INSERT INTO bills" in told


# Every database as a data store -----------------------------------------------------------------------------------------


EVERY = """
CREATE STREAMSCHEMA s WITH k varchar, a integer, b double, c boolean, d date, e timestamp, f decimal(10, 2);
CREATE SQL same ON crm AS SELECT n, note FROM known WHERE k = ? AND n >= ?;
CREATE SQL put ON crm AS INSERT INTO kept (k, a, b, d, e, f) VALUES (?, ?, ?, ?, ?, ?);
CREATE SQL back ON crm AS SELECT a AS a2, b AS b2, d AS d2, e AS e2, f AS f2 FROM kept WHERE k = ? AND a = ?;
INSERT INTO found SELECT k, a, n, note FROM s ON SQL same, r, k, a;
INSERT INTO written SELECT k FROM s ON SQL put, p, k, a, b, d, e, f;
INSERT INTO again SELECT k, a2, b2, d2, e2, f2 FROM s
    ON SQL back, r, k, a, a2 integer, b2 double, d2 date, e2 timestamp, f2 decimal(10, 2) WHERE c
"""


@pytest.mark.parametrize("home", ["duckdb://", "sqlite://"])
def test_every_database_is_a_data_store(home: str, database: Any) -> None:
    day, moment, price = (
        datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 1, 2, 3, 456),
        decimal.Decimal("1.25"),
    )
    crm = open_database(database.fresh())
    with bridge.connect(home) as cep:
        crm.execute("CREATE TABLE known (k VARCHAR(20), n INTEGER, note VARCHAR(20))")
        crm.execute("INSERT INTO known VALUES ('x', 1, 'one'), ('x', 5, NULL), ('y', 9, '100%')")
        kinds = {"k": "VARCHAR", "a": "INTEGER", "b": "DOUBLE", "d": "DATE", "e": "TIMESTAMP", "f": "DECIMAL(10, 2)"}
        columns = ", ".join(f"{name} {crm.column_type(Attribute(name, kind))}" for name, kind in kinds.items())
        crm.execute(f"CREATE TABLE kept ({columns})")
        cep.register_datastore("crm", crm)
        cep.create_query("script", EVERY, language="cpl")
        found, again = listen(cep, "found"), listen(cep, "again")
        rows = [(["x", 1, 0.5, False, day, moment, price], 1), (["y", 2, None, False, None, None, None], 2)]
        rows += [(["x", 4, 0.5, False, day, moment, price], 2), (["z%s'", 3, 1e100, False, day, moment, price], 3)]
        cep.push_event("s", *rows[0])
        cep.push_events("s", rows[1:])
        assert found == [(1, "x", 1, 1, "one"), (1, "x", 1, 5, None), (2, "y", 2, 9, "100%"), (2, "x", 4, 5, None)]
        asked = [
            ([k, a, 0.0, True, None, None, None], 9) for k, a in (("x", 1), ("y", 2), ("z%s'", 3), ("x", 4), ("no", 1))
        ]
        cep.push_events("s", asked)
        values = [(1, 0.5, day, moment, price), (2, None, None, None, None), (3, 1e100, day, moment, price)]
        keys = ["x", "y", "z%s'"]
        assert again == [*((9, k, *v) for k, v in zip(keys, values, strict=True)), (9, "x", 4, *values[0][1:])]
    crm.close()
