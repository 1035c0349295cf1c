"""The files of tests/cases/match_recognize: against the definition, and on every database."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from bridge.errors import BridgeError, QueryError
from bridge.frontends.cursor import Cursor
from tests.support.row_pattern_case import Case, agree, dropped, load_all, rows_of, statements
from tests.support.row_patterns import NowhereError, recognize

if TYPE_CHECKING:
    from bridge.query.row_pattern import RowPattern
    from tests.support.databases import Database

CASES = load_all()
ONE_CLAUSE = re.compile(r"SELECT \* FROM (\w+) (?=MATCH_RECOGNIZE\b)")


def alone(case: Case) -> bool:
    """Whether the query is one clause over one table."""
    started = ONE_CLAUSE.match(case.sql)
    one = len(case.tables) == case.sql.count("MATCH_RECOGNIZE") == 1
    return started is not None and started[1] in case.tables and one


def read(case: Case) -> RowPattern:
    reader = pytest.importorskip("bridge.frontends.sql.match_recognize")
    cursor = Cursor(case.sql)
    while cursor.word() != "MATCH_RECOGNIZE":
        cursor.at += 1
    clause: RowPattern = reader.match_recognize(cursor)
    if cursor.peek():
        pytest.skip("something follows the clause")
    return clause


# The definition -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in CASES if case.expect and alone(case)], ids=lambda case: case.id)
def test_the_definition_gives_these_rows(case: Case):
    (table,) = case.tables.values()
    found = recognize(read(case), rows_of(table), list(table.columns))
    assert agree(case, found.columns, found.rows), f"{case.title}\n{found}"


@pytest.mark.parametrize("case", [case for case in CASES if case.error and alone(case)], ids=lambda case: case.id)
def test_the_reader_or_the_definition_refuses(case: Case):
    (table,) = case.tables.values()
    try:
        clause = read(case)
    except QueryError as error:
        check_refusal(case, error)
        return
    if case.at is not None or "match" not in str(case.error):
        pytest.skip("refused by the planner, which knows the columns")
    with pytest.raises(NowhereError, match=case.error):
        recognize(clause, rows_of(table), list(table.columns))


# The databases --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connections() -> Iterator[dict[str, Any]]:
    """One bridge for each database: connecting takes longer than a case."""
    with contextlib.ExitStack() as stack:
        opened: dict[str, Any] = {}
        yield opened
        for connection in opened.values():
            stack.enter_context(connection)


@pytest.fixture
def cep(case: Case, database: Database, connections: dict[str, Any]) -> Iterator[Any]:
    pytest.importorskip("bridge.engine.on_demand.match_recognize")
    if database.name not in connections:
        connections[database.name] = database.connect()
    opened = connections[database.name]
    for statement in statements(case, opened.database):
        opened.database.execute(statement)
    yield opened
    for statement in dropped(case):
        opened.database.execute(statement)


@pytest.mark.some_databases(1)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_case_on_a_database(case: Case, cep: Any, database: Database, request: pytest.FixtureRequest):
    if reason := case.not_yet.get(database.name):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    if case.expect is not None:
        rows = cep.query(case.sql)
        assert agree(case, rows.columns, list(rows)), f"{case.title}\n{rows.columns}\n{[tuple(row) for row in rows]}"
        return
    with pytest.raises(BridgeError) as raised:
        list(cep.query(case.sql))
    check_refusal(case, raised.value)


def check_refusal(case: Case, error: BridgeError) -> None:
    assert str(case.error).lower() in str(error).lower()
    if case.at is not None:
        assert isinstance(error, QueryError)
        text, position = error.text or "", error.position
        assert position is not None
        assert text[position:].startswith(case.at), f"it points at {text[position : position + 20]!r}"
