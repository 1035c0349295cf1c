"""Texts with a declared collation are equal in MATCH_RECOGNIZE where the database says so, whatever the strategy."""

from __future__ import annotations

import pytest

import bridge

CLAUSES = {
    "a constant": ("A+", "A AS x = 'anna'"),
    "the row before": ("A B", "B AS x = PREV(x)"),
    "another row": ("A B", "B AS x = A.x"),
    "another row of many": ("A B+", "B AS x = A.x"),
    "by the plain machine": ("A C* B", "B AS x = LAST(A.x) AND COUNT(DISTINCT x) = 1"),
}


@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
@pytest.mark.parametrize("clause", CLAUSES)
def test_nocase(clause: str, url: str):
    pattern, define = CLAUSES[clause]
    with bridge.connect(url) as cep:
        cep.database.execute("CREATE TABLE t (o INTEGER, x TEXT COLLATE NOCASE)")
        cep.database.execute("INSERT INTO t VALUES (1, 'Anna'), (2, 'ANNA')")
        measures = "COUNT(*) AS n, COUNT(DISTINCT x) AS d, FIRST(x) = LAST(x) AS same"
        sql = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY o MEASURES {measures} PATTERN ({pattern}) DEFINE {define})"
        assert [tuple(row) for row in cep.query(sql)] == [(2, 1, 1)]
