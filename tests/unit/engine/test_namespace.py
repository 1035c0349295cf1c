"""Several bridges in one database: under names, and in schemas of their own."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import bridge
from bridge import DatabaseError, SchemaError
from bridge.cli import main
from bridge.engine.stored_status import stored_status
from tests.support.databases import tables_of
from windows.databases import open_database

if TYPE_CHECKING:
    from tests.support.databases import Database

pytestmark = pytest.mark.some_databases(2)

QUERIES = {
    "sums": ("sql", "SELECT SUM(a) AS total FROM clock WINDOW(RANGE 1 H)"),
    "absent": ("epl", "select x.a as a from pattern [every x=clock -> (timer:interval(1 sec) and not clock(a = 0))]"),
}


def start(url: str, name: str | None, **options: Any) -> bridge.Bridge:
    """A program whose stream is called as a table of the bridge is."""
    cep = bridge.connect(url, name=name, lateness=10, **options)
    cep.register_stream("clock", "a INTEGER")
    for query, (language, text) in QUERIES.items():
        cep.create_query(query, text, language=language, into=f"{query}_{(name or 'plain').lower()}")
    return cep


def push(cep: bridge.Bridge, a: int, ts: int) -> None:
    cep.push_event("clock", [a], ts, event_id=ts)
    cep.push_event("clock", [a], ts, event_id=ts)  # a duplicate
    cep.advance_time(ts)


def tables(url: str) -> set[str]:
    database = open_database(url)
    try:
        return tables_of(database)
    finally:
        database.close()


def test_bridges_of_different_names_are_side_by_side(database: Database, tmp_path: pathlib.Path):
    url = database.durable(tmp_path)
    names = (None, "billing", "Shipping")
    opened = [start(url, name) for name in names]
    for place, cep in enumerate(opened):
        push(cep, place + 1, 1000)
    if database.name == "duckdb":  # the others wait for the lock
        with pytest.raises(DatabaseError, match="another bridge"):
            start(url, "BILLING")
    for cep in opened:
        cep.close()
    for place, name in enumerate(names):
        with start(url, name) as cep:
            push(cep, 10, 3000)
            sums = cep.database.fetch(f"SELECT total FROM sums_{(name or 'plain').lower()} ORDER BY ts")
            assert [int(total) for (total,) in sums] == [place + 1, place + 11]
            absent = cep.database.fetch(f"SELECT ts, a FROM absent_{(name or 'plain').lower()}")
            assert absent == [(2000, place + 1)]
            late = "late_events" if name is None else f"late_events_{name.lower()}"
            assert cep.database.fetch(f"SELECT COUNT(*) FROM {late}") == [(2,)]
    assert [stored_status(url, name).seq for name in names] == [2, 2, 2]
    before = tables(url)
    start(url, "billing").drop()
    gone = before - tables(url)
    assert gone
    assert all(name.startswith("cep__billing_") for name in gone)
    with start(url, None) as cep, start(url, "shipping") as other:
        push(cep, 5, 9000)
        push(other, 5, 9000)
    start(url, None).drop()
    assert {name for name in tables(url) if name.startswith("cep_")} == {
        name for name in tables(url) if name.startswith("cep__shipping_")
    }
    with start(url, "shipping") as cep:
        assert cep.now == 9000


def test_a_bridge_in_a_schema_of_its_own(database: Database, tmp_path: pathlib.Path):
    url = database.durable(tmp_path)
    if database.name == "sqlite":
        with pytest.raises(DatabaseError, match="no schemas"):
            start(url, None, schema="events")
        return
    setup = open_database(url)
    setup.execute(
        "DROP DATABASE IF EXISTS cep_own" if database.name == "mariadb" else "DROP SCHEMA IF EXISTS cep_own CASCADE"
    )
    setup.execute("CREATE TABLE people (a INTEGER, name VARCHAR(20))")
    setup.execute("INSERT INTO people VALUES (1, 'ann')")
    before = tables_of(setup)
    setup.close()
    people = "people"
    if database.name == "mariadb":
        people = f"{url.rsplit('/', 1)[1].split('?')[0]}.people" if "?" in url else people
    with start(url, None) as plain, start(url, None, schema="cep_own") as cep:
        cep.create_query("named", f"SELECT p.name AS name FROM clock AS c WINDOW(NOW), {people} AS p WHERE p.a = c.a")
        received: list[Any] = []
        cep.add_output_processor("named", received.append)
        push(cep, 1, 1000)
        push(plain, 1, 1000)
        assert [event.payload for event in received] == [{"name": "ann"}]
    plain_tables = tables(url)
    assert {name for name in plain_tables - before if not name.startswith("cep_")} == {
        "sums_plain", "absent_plain", "late_events"
    }  # fmt: skip
    with start(url, None, schema="cep_own") as cep:
        assert cep.now == 1000
    start(url, None, schema="cep_own", fresh=True).drop()
    assert tables(url) == plain_tables
    assert stored_status(url).seq == 1
    with pytest.raises(DatabaseError, match="no state"):
        stored_status(url, schema="cep_own")


def test_the_status_of_a_schema_that_is_not_there(database: Database, tmp_path: pathlib.Path):
    """It is not created."""
    if database.name == "sqlite":
        pytest.skip("SQLite has no schemas")
    for _ in range(2):
        with pytest.raises(DatabaseError, match="there is no schema 'missing_one'"):
            stored_status(database.durable(tmp_path), schema="missing_one")


@pytest.mark.parametrize("name", ["", "a b", "a_b", "1a", "a" * 17, 7])
def test_wrong_names_are_refused(name: Any):
    with pytest.raises(SchemaError, match="the name of a bridge"):
        bridge.connect("sqlite://", name=name)


def test_the_status_of_a_named_bridge(tmp_path: pathlib.Path):
    url = f"sqlite:///{tmp_path / 'app.db'}"
    with start(url, "billing") as cep:
        push(cep, 1, 1000)
    answer = CliRunner().invoke(main, ["status", url, "--name", "billing"])
    assert answer.exit_code == 0
    assert "1 event so far, the newest at 1000 ms" in answer.output
    assert CliRunner().invoke(main, ["status", url]).exit_code != 0
