"""Values whose order in Python is not the database's: the answer does not depend on the strategy, nor on MEASURES."""

from __future__ import annotations

from typing import Any

import pytest

import bridge

PATTERNS = ("A B", "A B+", "A B+?", "A C* B")

ROWS: dict[str, tuple[str, list[str], bool]] = {
    "an ENUM by its declaration": ("ENUM('small', 'medium', 'large')", ["'small'", "'large'"], True),
    "an ENUM that descends": ("ENUM('small', 'medium', 'large')", ["'large'", "'small'"], False),
    "NaN is the greatest": ("DOUBLE", ["1", "'nan'"], True),
    "nothing is greater than NaN": ("DOUBLE", ["'nan'", "5"], False),
    "an interval by its length": ("INTERVAL", ["INTERVAL 20 DAY", "INTERVAL 1 MONTH"], True),
    "a list": ("INTEGER[]", ["[1]", "[1, 2]"], True),
    "an object": ("STRUCT(a INTEGER)", ["{'a': 1}", "{'a': 2}"], True),
    "nanoseconds": (
        "TIMESTAMP_NS",
        ["'2024-01-01 00:00:00.000000001'", "'2024-01-01 00:00:00.000000002'"],
        True,
    ),
}


@pytest.fixture(params=ROWS)
def rows(request: pytest.FixtureRequest) -> Any:
    kind, values, ascends = ROWS[request.param]
    with bridge.connect() as cep:
        cep.database.execute(f"CREATE TABLE t (o INTEGER, x {kind})")
        cep.database.execute(f"INSERT INTO t VALUES (1, {values[0]}), (2, {values[1]})")
        yield cep, ascends


@pytest.mark.one_in(2)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("condition", ["x > A.x", "x > FIRST(x)", "MAX(x) > A.x", "MIN(x) < x"])
def test_the_same_in_define(rows: Any, pattern: str, condition: str):
    cep, ascends = rows
    sql = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY o MEASURES COUNT(*) AS n PATTERN ({pattern}) DEFINE B AS {condition})"
    assert [row[0] for row in cep.query(sql)] == ([2] if ascends else [])


@pytest.mark.parametrize("rows_per_match", ["ONE ROW", "ALL ROWS"])
def test_the_same_in_measures(rows: Any, rows_per_match: str):
    cep, ascends = rows
    measures = "FINAL LAST(x) > FIRST(x) AS up, FINAL MAX(x) = FINAL LAST(x) AS most, FINAL MIN(x) = FIRST(x) AS least"
    clause = f"ORDER BY o MEASURES {measures} {rows_per_match} PER MATCH PATTERN (A+)"
    sql = f"SELECT up, most, least FROM t MATCH_RECOGNIZE ({clause})"
    assert {tuple(row) for row in cep.query(sql)} == {(ascends,) * 3}
