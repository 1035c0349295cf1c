"""Aggregates that the database has by itself, as measures: the value of all rows of the match, in their order."""

from __future__ import annotations

from typing import Any

import pytest

import bridge
from tests.support.databases import Database

OF_DATABASES = {
    "duckdb": (
        "GEOMEAN(v)",
        "WEIGHTED_AVG(v, w)",
        "JSON_GROUP_ARRAY(v)",
        "BIT_OR(v)",
        "spread(v)",
        "spread(v) + SUM(w)",
    ),
    "sqlite": ("GROUP_CONCAT(t)", "GROUP_CONCAT(t, '-')", "STRING_AGG(t, '-')", "TOTAL(v)", "JSON_GROUP_ARRAY(t)"),
    "postgresql": ("STRING_AGG(t, '-')", "BIT_OR(v)", "STDDEV_POP(v)", "JSON_AGG(t)"),
    "mariadb": ("GROUP_CONCAT(t)", "GROUP_CONCAT(t SEPARATOR '-')", "BIT_OR(v)", "STD(v * 1e0)", "JSON_ARRAYAGG(t)"),
}
NO_WINDOW_FUNCTIONS = {
    "duckdb": ("WEIGHTED_AVG(v, w)", "spread(v)", "spread(v) + SUM(w)"),
    "mariadb": ("GROUP_CONCAT(t)", "GROUP_CONCAT(t SEPARATOR '-')", "JSON_ARRAYAGG(t)"),
}
"""Aggregates that the database computes of groups alone: running ones are refused."""
ROWS = ((3, 6, 2, "z"), (1, 3, 5, "x"), (2, 4, 3, "y"))


@pytest.mark.parametrize("rows_per_match", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH"])
def test_measures_are_what_the_database_aggregates(database: Database, rows_per_match: str) -> None:
    with database.connect() as cep:
        cep.database.execute("CREATE TABLE r (o INTEGER, v INTEGER, w INTEGER, t VARCHAR(9))")
        for row in ROWS:
            cep.database.execute(f"INSERT INTO r VALUES {row}")
        if database.name == "duckdb":
            cep.database.execute("CREATE MACRO spread(x) AS max(x) - min(x)")
        for call in OF_DATABASES[database.name]:
            if rows_per_match.startswith("ALL") and call in NO_WINDOW_FUNCTIONS.get(database.name, ()):
                with pytest.raises(bridge.QueryError, match=r"(?i)window function"):
                    last_measure(cep, call, rows_per_match)
            else:
                assert last_measure(cep, call, rows_per_match) == plain_value(cep, call), call


def last_measure(cep: Any, call: str, rows_per_match: str) -> Any:
    """The measure of the match's last row: of all its rows, running or final."""
    clause = f"ORDER BY o MEASURES {call} AS n, COUNT(*) AS rows_so_far {rows_per_match} PATTERN (A+)"
    found = list(cep.query(f"SELECT n, rows_so_far FROM r MATCH_RECOGNIZE ({clause})"))
    assert found[-1][1] == len(ROWS)
    return found[-1][0]


def plain_value(cep: Any, call: str) -> Any:
    """The value of the rows in their order, which this table has them in."""
    cep.database.execute("DROP TABLE IF EXISTS sorted_rows")
    cep.database.execute("CREATE TABLE sorted_rows AS SELECT * FROM r ORDER BY o")
    written = "GROUP_CONCAT(t, '-')" if call == "STRING_AGG(t, '-')" and cep.database.dialect == "sqlite" else call
    ((value,),) = cep.database.fetch(f"SELECT {written} FROM sorted_rows")
    return value


SETS = {
    "duckdb": ("unnest(l)", "generate_subscripts(l, 1)"),
    "postgresql": ("unnest(l)", "generate_series(1, o)", "regexp_split_to_table(t, ',')"),
}
"""Functions that return several rows for one."""


def test_a_function_that_returns_several_rows_is_no_value(database: Database) -> None:
    with database.connect() as cep:
        if database.name in SETS:
            cep.database.execute("CREATE TABLE r (o INTEGER, l INTEGER[], t VARCHAR)")
        cep.register_stream("s", "o INTEGER, l INTEGER[], t VARCHAR")
        for call in SETS.get(database.name, ()):
            for clause in (f"MEASURES {call} AS x PATTERN (A)", f"MEASURES 1 AS x PATTERN (A) DEFINE A AS {call} > 1"):
                with pytest.raises(bridge.QueryError, match="returns several rows"):
                    cep.query(f"SELECT * FROM r MATCH_RECOGNIZE (ORDER BY o {clause})")
                with pytest.raises(bridge.QueryError, match="returns several rows"):
                    cep.create_query("q", f"SELECT * FROM s MATCH_RECOGNIZE ({clause})")
        assert list(cep.queries) == []
