"""A watch runs with the privileges that docs/watch.md lists, and writers need none of their own."""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

import bridge
from bridge.cli import main
from tests.support import servers
from tests.support.databases import prepared_servers, statements_of
from windows.databases import Refused

PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "watch.md").read_text()


class Place(NamedTuple):
    """The URL of the bridge's role, and functions that run a statement of the shop's writer and of its owner."""

    url: str
    write: Callable[[str], Any]
    own: Callable[[str], Any]


def statements(database: str) -> list[str]:
    """The statements of the page for this database."""
    blocks = re.findall(r"^```text\n(CREATE (?:ROLE|DATABASE) cep.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    (found,) = (block for block in blocks if ("ROLE" in block) == (database == "PostgreSQL"))
    return statements_of(found)


@contextlib.contextmanager
def on_postgresql() -> Iterator[Place]:
    own = servers.emptied("postgresql", "BRIDGE_TEST_POSTGRESQL")
    own.fresh()
    cursor = own.connection.cursor()
    for statement in (
        "DROP SCHEMA IF EXISTS cep CASCADE", "CREATE SCHEMA shop", "CREATE ROLE writer", "GRANT USAGE ON SCHEMA shop TO writer",
        "CREATE TABLE shop.orders (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount INTEGER)",
        "GRANT SELECT, INSERT, UPDATE ON shop.orders TO writer", *statements("PostgreSQL"),
    ):  # fmt: skip
        cursor.execute(statement)

    def write(statement: str) -> None:
        cursor.execute("SET ROLE writer")
        try:
            cursor.execute(statement)
        finally:
            cursor.execute("RESET ROLE")

    try:
        yield Place(
            sa.make_url(own.url).set(username="cep").render_as_string(hide_password=False), write, cursor.execute
        )
    finally:
        for statement in (
            "DROP SCHEMA shop CASCADE", "DROP OWNED BY cep CASCADE", "DROP ROLE cep", "DROP OWNED BY writer", "DROP ROLE writer",
        ):  # fmt: skip
            cursor.execute(statement)


@contextlib.contextmanager
def on_mariadb() -> Iterator[Place]:
    server, connection = servers.mariadb_with_accounts()
    cursor = connection.cursor()
    for statement in (
        "DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, amount INTEGER)", *statements("MariaDB"),
    ):  # fmt: skip
        cursor.execute(statement)

    def write(statement: str) -> None:
        cursor.execute(statement)
        connection.commit()

    made = sa.make_url(server.url).set(username="cep", password="change me", database="cep")
    try:
        yield Place(made.render_as_string(hide_password=False), write, write)
    finally:
        for statement in ("DROP DATABASE cep", "DROP DATABASE shop", "DROP USER cep@'%'"):
            cursor.execute(statement)


place = prepared_servers(on_postgresql, on_mariadb)


def test_check_refuses_tables_that_may_not_be_read(place: Place, tmp_path: pathlib.Path) -> None:
    (tmp_path / "q.sql").write_text("CREATE STREAM s FROM CHANGES OF shop.orders; CREATE QUERY q AS SELECT id FROM s")
    command = ["watch", place.url, str(tmp_path / "q.sql"), "--schema", "cep", "--check"]
    assert CliRunner().invoke(main, command).exit_code == 0
    who = "cep" if "postgresql" in place.url else "cep@'%'"
    place.own(f"REVOKE TRIGGER ON shop.orders FROM {who}")
    result = CliRunner().invoke(main, command)
    if "postgresql" in place.url:
        assert (result.exit_code, "GRANT TRIGGER ON" in result.output) == (1, True)
    place.own(f"REVOKE SELECT ON shop.orders FROM {who}")
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "denied" in result.output or "no table" in result.output


def test_tables_and_changes(place: Place) -> None:
    for start in range(2):  # the second resumes the first
        with bridge.connect(place.url, schema="cep") as cep:
            cep.register_stream("orders", table="shop.orders", position="id")
            cep.register_stream("changes", changes_of="shop.orders")
            cep.create_query("seen", "SELECT amount FROM orders", into="seen_orders")
            cep.create_query("changed", "SELECT operation, amount FROM changes", into="seen_changes")
            place.write(f"INSERT INTO shop.orders (amount) VALUES ({start})")
            place.write(f"UPDATE shop.orders SET amount = amount + 10 WHERE amount = {start}")
            assert cep.poll() == 3
            changes = sorted(tuple(row) for row in cep.database.fetch("SELECT operation, amount FROM seen_changes"))
            expected = [("insert", number) for number in range(start + 1)]
            assert changes == expected + [("update", number + 10) for number in range(start + 1)]
            with pytest.raises(Refused, match=r"(?i)denied"):
                cep.database.execute("UPDATE shop.orders SET amount = 0")
    with bridge.connect(place.url, schema="cep") as cep:
        cep.drop()
    place.write("INSERT INTO shop.orders (amount) VALUES (1)")
