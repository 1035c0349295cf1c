"""Aggregate functions: what the table says of each, and that a database's missing ones are refused by their own names."""

from __future__ import annotations

import contextlib
import math
import random
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


@pytest.mark.parametrize("window", ["RANGE 15 S", "ROWS 1500"])
def test_extremes_of_many_rows_in_one_push(database: Database, window: str) -> None:
    """SQLite before 3.47 computes others where about 430 rows are in a sliding frame."""
    draw = random.Random(2)
    values = [draw.randrange(1_000) for _ in range(2_000)]
    found: list[tuple[int, int]] = []
    with database.connect() as cep:
        cep.register_stream("s", "v INTEGER")
        cep.create_query("q", f"SELECT MIN(v) AS low, MAX(v) AS high FROM s WINDOW({window})")
        cep.add_output_processor("q", lambda event: found.append((event.payload["low"], event.payload["high"])))
        cep.push_events("s", [([value], number * 10) for number, value in enumerate(values)])
    rows = [values[max(0, number - 1_499) : number + 1] for number in range(2_000)]
    assert found == [(min(own), max(own)) for own in rows]


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


ORDERED_SETS = {
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY d)": "PERCENTILE_CONT",
    "percentile_disc(0.25) WITHIN GROUP (ORDER BY a) FILTER (WHERE a > 1)": "PERCENTILE_DISC",
    "mode() WITHIN GROUP (ORDER BY a)": "MODE",
}


@pytest.mark.parametrize(
    ("window", "emit"),
    [
        ("ROWS 4", ""), ("RANGE 6 MS SLIDE 3 MS", ""), ("RANGE 5 MS", ""), ("RANGE 5 MS", " EMIT ON CHANGE"),
        ("RANGE 5 MS", " EMIT ON EVERY CHANGE"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("call", ORDERED_SETS)
def test_ordered_set_aggregates(call: str, emit: str, window: str, database: Database) -> None:
    events = [("xy"[row % 2], None if row == 6 else row * 7 % 4, row * 5 % 7 / 2) for row in range(12)]
    text = f"SELECT k, {call} AS v, ARRAY_AGG(a) AS a, ARRAY_AGG(d) AS d FROM s WINDOW({window}) GROUP BY k{emit}"
    with database.connect() as cep:
        if database.name not in ("duckdb", "postgresql") or (database.name == "duckdb" and call.startswith("mode")):
            with pytest.raises(QueryError, match=f"has no aggregate function {ORDERED_SETS[call]} … WITHIN GROUP"):
                results(cep, text, [])
            return
        found = results(cep, text, events)
        assert len(found) >= 4
        for row in found:
            values = sorted(value for value in row["d" if " d)" in call else "a"] if value is not None)
            if "FILTER" in call:
                values = [value for value in values if value > 1]
            assert row["v"] == _expected(call, values)


def _expected(call: str, values: list[Any]) -> Any:
    if not values:
        return None
    if call.startswith("percentile_cont"):
        return statistics.median(values)
    if call.startswith("percentile_disc"):
        return values[math.ceil(0.25 * len(values)) - 1]
    return statistics.mode(values)  # of sorted values the smallest


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY ¦a DESC)", "PERCENTILE_DISC is of one value, in ascending order"),
        ("rank(3) WITHIN GROUP (ORDER BY ¦a)", "DuckDB has no aggregate function RANK … WITHIN GROUP"),
        ("LAST(¦a IGNORE NULLS)", "IGNORE NULLS is not supported: put a query WHERE the value IS NOT NULL into FROM"),
        ("ARRAY_AGG(¦a) FILTER (WHERE a > 1)", "FILTER is not supported with ARRAY_AGG"),
    ],
)
def test_what_an_aggregate_may_not_have(call: str, message: str) -> None:
    text = f"SELECT {call} AS v FROM s WINDOW(ROWS 3)"
    with connect("duckdb://") as cep, pytest.raises(QueryError, match=message) as raised:
        results(cep, text.replace("¦", ""), [])
    assert raised.value.position == text.index("¦")


def test_the_greatest_of_several_values_is_no_aggregate(database: Database) -> None:
    text = "SELECT k, MAX(a, 2) AS v FROM s WINDOW(ROWS 2) GROUP BY k"
    messages = {"sqlite": "'a' is neither in GROUP BY", "mariadb": "of several in a row, GREATEST is"}
    with database.connect() as cep:
        if database.name == "duckdb":  # the two greatest values
            assert [row["v"] for row in results(cep, text, [("x", 1, 0.0), ("x", 3, 0.0)])] == [[1], [3, 1]]
            return
        with pytest.raises(QueryError, match=messages.get(database.name, messages["mariadb"])):
            results(cep, text, [])


@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
def test_any_value_of_a_group(url: str) -> None:
    with connect(url) as cep:
        found = results(
            cep, "SELECT ANY_VALUE(k) AS k FROM s WINDOW(ROWS 2) GROUP BY k", [("x", 1, 0.0), ("y", 3, 0.0)]
        )
    assert found == [{"k": "x"}, {"k": "y"}]


def test_the_arguments_of_a_call() -> None:
    calls = {"CORR(a, d)": ["a", "d"], "COUNT(*)": ["*"], "SUM(1)": ["1"], "QUANTILE(a, 0.5)": ["a"]}
    for text, expected in calls.items():
        assert [value.sql() for value in arguments(sqlglot.parse_one(text))] == expected
