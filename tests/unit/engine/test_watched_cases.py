"""The case files over watched tables: another program writes the events as rows, and the results are the same."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.cases_format import Advance, Case, Push
from tests.test_cases import (
    WITH_RESULTS,
    allow_not_yet,
    check_results,
    check_tables,
    create_queries,
    make_relations,
    make_table,
)

if TYPE_CHECKING:
    from tests.support.databases import Database

WATCHED = [
    pytest.param(case, id=case.id)
    for case in (each.values[0] for each in WITH_RESULTS)
    if {item.stream for item in case.events if isinstance(item, Push)} <= case.streams.keys()
    and not any(sign in kind for schema in case.streams.values() for kind in schema.values() for sign in "[(")
]
"""Those whose streams are registered, and have no nested values."""


@pytest.mark.one_in(3)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("case", WATCHED[::4])
def test_some_cases_over_watched_tables(case: Case, database: Database, request: pytest.FixtureRequest) -> None:
    check_watched(case, database, request)


@pytest.mark.long
@pytest.mark.parametrize("case", WATCHED)
def test_case_over_watched_tables(case: Case, database: Database, request: pytest.FixtureRequest) -> None:
    check_watched(case, database, request)


def check_watched(case: Case, database: Database, request: pytest.FixtureRequest) -> None:
    """The events are rows of tables, a table per stream; each is read before the next one is there."""
    allow_not_yet(request, case, database)
    with contextlib.closing(database.connect()) as cep:
        make_relations(cep, case)
        watched = {name: f"rows_of_stream_{number}" for number, name in enumerate(case.streams)}
        for name, schema in case.streams.items():
            columns = {"row_id": "BIGINT", "row_time": "BIGINT", **schema}
            make_table(cep, watched[name], {"columns": columns, "rows": []})
            cep.register_stream(name, schema, table=watched[name], position="row_id", timestamp="row_time")
        create_queries(cep, case)
        results: dict[str, list[Any]] = {name: [] for name in case.expect}
        for name, received in results.items():
            cep.add_output_processor(name, received.append)
        for number, item in enumerate(case.events):
            if isinstance(item, Advance):
                cep.advance_time(item.timestamp)
                continue
            row = (number, item.timestamp, *map(item.payload.get, case.streams[item.stream]))
            cep.database.insert(watched[item.stream], len(row), [row])
            assert cep.poll() == 1
        check_tables(cep, case)
    check_results(case, [("watched", results)])
