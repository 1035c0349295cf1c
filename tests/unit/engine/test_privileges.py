"""A bridge runs with the privileges that docs/security.md lists, and has no others."""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

import bridge
from tests.support import servers
from tests.support.databases import prepared_servers, statements_of
from windows.databases import Refused

PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "security.md").read_text()
SHOP = ("CREATE TABLE shop.customers (symbol VARCHAR(20), owner VARCHAR(20))", "INSERT INTO shop.customers VALUES ('A', 'Ann')",
        "CREATE TABLE shop.cards (number VARCHAR(20))")  # fmt: skip


def statements(database: str) -> list[str]:
    """The statements of the page for this database."""
    blocks = re.findall(r"^(\w+)[^\n]*:\n\n```text\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    (found,) = (block for name, block in blocks if name == database)
    return statements_of(found)


@contextlib.contextmanager
def on_postgresql() -> Iterator[str]:
    own = servers.emptied("postgresql", "BRIDGE_TEST_POSTGRESQL")
    own.fresh()
    cursor = own.connection.cursor()
    for statement in ("CREATE SCHEMA shop", *SHOP, *statements("PostgreSQL")):
        cursor.execute(statement)
    try:
        yield sa.make_url(own.url).set(username="cep").render_as_string(hide_password=False)
    finally:
        for statement in ("DROP SCHEMA shop CASCADE", "DROP OWNED BY cep CASCADE", "DROP ROLE cep"):
            cursor.execute(statement)


@contextlib.contextmanager
def on_mariadb() -> Iterator[str]:
    server, connection = servers.mariadb_with_accounts()
    cursor = connection.cursor()
    cursor.execute("DROP DATABASE IF EXISTS shop")
    for statement in ("CREATE DATABASE shop", *SHOP, *statements("MariaDB")):
        cursor.execute(statement)
    try:
        made = sa.make_url(server.url).set(username="cep", password="change me", database="cep")
        yield made.render_as_string(hide_password=False)
    finally:
        for statement in ("DROP DATABASE cep", "DROP DATABASE shop", "DROP USER cep@'%'"):
            cursor.execute(statement)


url = prepared_servers(on_postgresql, on_mariadb)


def test_a_bridge_runs_with_the_privileges_of_the_page(url: str):
    received: dict[str, list[Any]] = {}
    for start in (0, 100):  # the second resumes the first
        with bridge.connect(url) as cep:
            declare(cep)
            for name in ("owned", "rises", "sums"):
                cep.add_output_processor(name, received.setdefault(name, []).append)
            cep.push_events("trades", [(["A", price], start + place) for place, price in enumerate((1, 5, 2, 8, 9))])
            for price in (3, 6, 9):
                cep.push_event("trades", ["A", price], start + 10 + price)
            cep.purge()
            rows = cep.query("SELECT t.symbol, c.owner FROM trades WINDOW(ROWS 3) AS t JOIN shop.customers AS c ON c.symbol = "
                             "t.symbol", untrusted=True, tables=["shop.customers"])  # fmt: skip
            assert set(rows) == {("A", "Ann")}
            found = cep.query(
                "SELECT * FROM sums_table MATCH_RECOGNIZE (ORDER BY ts MEASURES A.total AS t PATTERN (A) DEFINE A AS total > 0)"
            )
            assert len(found) > 0
            cep.status()
    assert all(received.values())


def declare(cep: bridge.Bridge) -> None:
    """The same queries in both starts."""
    if "trades" not in cep.streams:
        cep.register_stream("trades", "symbol VARCHAR, price INTEGER")
    cep.create_query(
        "owned",
        "SELECT trades.symbol AS symbol, c.owner AS owner FROM trades WINDOW(NOW), shop.customers AS c "
        "WHERE trades.symbol = c.symbol",
    )
    cep.create_query("sums", "SELECT SUM(price) AS total FROM trades WINDOW(ROWS 3)", into="sums_table")
    cep.create_query(
        "rises",
        "SELECT a, b FROM trades MATCH_RECOGNIZE (MEASURES A.price AS a, B.price AS b PATTERN (A B) WITHIN 9 S "
        "DEFINE B AS B.price > A.price)",
    )
    cep.create_query("counts", "select symbol, count(*) as n from trades#time(5 sec) group by symbol", language="epl")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM shop.cards",
        "INSERT INTO shop.customers VALUES ('B', 'Bob')",
        "DELETE FROM shop.customers",
        "CREATE TABLE shop.mine (a INTEGER)",
        "CREATE TABLE {public}.mine (a INTEGER)",
        "DROP TABLE shop.customers",
        "CREATE DATABASE mine",
        "{account}",
    ],
)
def test_it_has_no_other_privileges(url: str, statement: str):
    is_postgresql = url.startswith("postgresql")
    public, account = ("public", "CREATE ROLE mine") if is_postgresql else ("mysql", "CREATE USER mine")
    with bridge.connect(url, durable=False) as cep, pytest.raises(Refused, match=r"(?i)denied|must be owner"):
        cep.database.execute(statement.format(public=public, account=account))
