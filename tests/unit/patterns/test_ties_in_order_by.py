"""Rows of one value of ORDER BY keep the order of the table or file on DuckDB."""

from __future__ import annotations

import pathlib

import pytest

import bridge

ROWS = 300_000


@pytest.mark.parametrize("source", ["t", "'{}'", "(SELECT o, v, k FROM '{}' WHERE v >= 0)"])
@pytest.mark.parametrize("clause", ["ORDER BY o", "PARTITION BY k ORDER BY o", "PARTITION BY k"])
def test_ties_by_the_rows_of_the_input(source: str, clause: str, tmp_path: pathlib.Path):
    file = tmp_path / "rows.parquet"
    with bridge.connect() as cep:
        rows = f"SELECT (i * 7919) % 100 AS o, i AS v, i % 3 AS k FROM range({ROWS}) r(i)"
        cep.database.execute(f"COPY ({rows}) TO '{file}' (ROW_GROUP_SIZE 30000)")
        cep.database.execute(f"CREATE TABLE t AS FROM '{file}'")
        tie = "v < PREV(v)" if "ORDER" not in clause else "o = PREV(o) AND v < PREV(v)"
        sql = f"SELECT * FROM {source.format(file)} MATCH_RECOGNIZE ({clause} MEASURES v AS n PATTERN (A) DEFINE A AS {tie})"
        assert list(cep.query(sql)) == []
