"""Aggregate functions: what the table says of each, and that a database's missing ones are refused by their own names."""

from __future__ import annotations

import contextlib
import math
import statistics
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from bridge import Bridge, QueryError, connect
from tests.support.databases import Database
from windows.aggregates import AGGREGATES, aggregate_named, aggregate_of, arguments
from windows.databases import open_database

MISSING = {
    "sqlite": {"MEDIAN(a)": "MEDIAN", "median(a) + 1": "MEDIAN", "VARIANCE(a)": "VARIANCE", "CORR(a, d)": "CORR"},
    "mariadb": {"MEDIAN(a)": "MEDIAN", "CORR(a, d)": "CORR"},
}
QUERIES = [
    "SELECT {} AS v FROM s WINDOW(ROWS 3)",
    "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 5 MS) HAVING {} > 1",
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES {} AS v PATTERN (A A))",
]


def results(cep: Bridge, text: str, events: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    found: list[Any] = []
    cep.register_stream("s", "k VARCHAR, a INTEGER, d DOUBLE")
    cep.create_query("q", text)
    cep.add_output_processor("q", lambda event: found.append(event.payload))
    for ts, row in enumerate(events, 1):
        cep.push_event("s", row, ts)
    return found


@pytest.mark.parametrize("query", QUERIES, ids=["select", "having", "measures"])
def test_a_missing_aggregate_is_refused_by_its_own_name(query: str, database: Database) -> None:
    with database.connect() as cep:
        cep.register_stream("s", "k VARCHAR, a INTEGER, d DOUBLE")
        for call, function in MISSING.get(database.name, {}).items():
            text = query.format(call)
            with pytest.raises(QueryError, match=f"has no aggregate function {function}: ") as raised:
                cep.create_query("q", text)
            assert raised.value.position == text.lower().index(function.lower())
        if database.name == "duckdb":
            cep.create_query("q", query.format("MEDIAN(a)"))


@pytest.mark.parametrize("aggregate", [each for each in AGGREGATES if each.is_universal], ids=lambda each: each.name)
def test_what_every_database_has_is_looked_up_nowhere(aggregate: Any) -> None:
    assert aggregate_named(aggregate.name.lower()) is aggregate
    assert aggregate_of(aggregate.call(exp.column("a"))) is aggregate


def test_the_standard_deviation_of_sqlite_keeps_its_digits() -> None:
    with contextlib.closing(open_database("sqlite://")) as database:
        database.execute("CREATE TABLE t (g INTEGER, v REAL)")
        values = [1e9 + step / 8 for step in range(16)]
        database.insert("t", 2, [(1, value) for value in values] + [(2, 5.0), (3, None), (4, 1e200), (4, -1e200)])
        found = dict(database.fetch("SELECT g, STDDEV_SAMP(v) FROM t GROUP BY g"))
        assert math.isclose(found[1], statistics.stdev(values), rel_tol=1e-12)
        assert (found[2], found[3], found[4]) == (None, None, math.inf)
        running = database.fetch("SELECT STDDEV(v) OVER (ORDER BY v ROWS 1 PRECEDING) FROM t WHERE g = 1 ORDER BY v")
        assert [value for (value,) in running[1:]] == pytest.approx([math.sqrt(2) / 16] * 15)


@pytest.mark.parametrize("call", ["product(a)", "CORR(a, d)"])
@pytest.mark.parametrize("emit", ["", " EMIT ON CHANGE", " EMIT ON EVERY CHANGE"])
def test_an_aggregate_without_a_row_works_where_the_database_has_it(call: str, emit: str) -> None:
    events = [("x", row, row * 1.5 + row % 2) for row in range(1, 6)]
    with connect("duckdb://") as cep:
        found = results(cep, f"SELECT {call} AS v, COUNT(*) AS n FROM s WINDOW(RANGE 3 MS){emit}", events)
    assert found[-1]["n"] == 3
    expected = 60.0 if call == "product(a)" else statistics.correlation([3, 4, 5], [5.5, 6.0, 8.5])
    assert found[-1]["v"] == pytest.approx(expected)


def test_the_arguments_of_a_call() -> None:
    calls = {"CORR(a, d)": ["a", "d"], "COUNT(*)": ["*"], "SUM(1)": ["1"], "QUANTILE(a, 0.5)": ["a"]}
    for text, expected in calls.items():
        assert [value.sql() for value in arguments(sqlglot.parse_one(text))] == expected
