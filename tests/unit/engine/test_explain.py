"""`cep.explain` prints one push of a continuous query as a script that the database's own shell runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

import bridge

MEAN = "SELECT symbol, AVG(price) AS mean FROM trades WINDOW(RANGE 5 S) GROUP BY symbol"
QUERIES = {
    "mean": MEAN,
    "pairs": "SELECT t.symbol, q.ask FROM trades AS t WINDOW(RANGE 5 S), quotes AS q WINDOW(RANGE 2 S) WHERE price > ask",
    "fall": "SELECT z1 FROM trades MATCHING (PATTERN x y WITHIN 10 S MEASURES z1 DOUBLE DEFINE x DO z1 = price)",
}
SHELLS: dict[str, Callable[[], Any]] = {
    "duckdb": lambda: duckdb.connect(),
    "sqlite": lambda: sqlite3.connect(":memory:"),
}


def explained(dialect: str, query: str, **options: bool) -> str:
    with bridge.connect(f"{dialect}://") as cep:
        cep.register_stream("trades", {"symbol": "VARCHAR", "price": "DOUBLE"})
        cep.register_stream("quotes", {"symbol": "VARCHAR", "ask": "DOUBLE"})
        cep.create_query("q", query)
        return cep.explain("q", **options)


@pytest.mark.parametrize("dialect", SHELLS)
def test_an_aggregate_explains_itself_in_few_lines(dialect: str) -> None:
    assert len(explained(dialect, MEAN).splitlines()) <= 60


@pytest.mark.parametrize("variants", [False, True])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("dialect", SHELLS)
def test_the_script_runs_in_the_databases_own_shell(dialect: str, name: str, variants: bool) -> None:
    shell = SHELLS[dialect]()
    for statement in explained(dialect, QUERIES[name], variants=variants).split(";\n"):
        shell.execute(statement.rstrip(";"))


@pytest.mark.parametrize("variants", [False, True])
@pytest.mark.parametrize("dialect", SHELLS)
def test_every_variant_gives_the_results_of_the_push(dialect: str, variants: bool) -> None:
    shell, answers = SHELLS[dialect](), []
    for statement in explained(dialect, MEAN, variants=variants).split(";\n"):
        if "-- 1. " in statement:
            shell.execute(
                "INSERT INTO cep_inbox_trades VALUES (1000, 1, 'A', 2.0), (2000, 2, 'A', 4.0), (2000, 3, 'B', 9.0)"
            )
        rows = shell.execute(statement.rstrip(";")).fetchall()
        answers += [rows] if "-- results of a push" in statement else []
    assert len(answers) == (1 if not variants else 3 if dialect == "duckdb" else 4)
    assert all(rows == [(1000, "A", 2.0), (2000, "A", 3.0), (2000, "B", 9.0)] for rows in answers)


def test_other_variants_are_named(embedded: Any) -> None:
    text = explained(embedded.name, MEAN)
    assert "--   more than 16 events: window frames" in text and " OVER (" not in text
    assert " OVER (" in explained(embedded.name, MEAN, variants=True)


def test_the_rules_that_fired_are_named() -> None:
    assert "-- optimisation rules: prune, bind_event" in explained("duckdb", MEAN)
    assert "drop_empty" in explained("duckdb", QUERIES["pairs"])


def test_a_long_branch_of_a_case_is_laid_out() -> None:
    numbers = ", ".join(map(str, range(60)))
    with bridge.connect() as cep:
        cep.create_query("q", f"SELECT CASE WHEN a IN ({numbers}) THEN 'many' ELSE 'few' END AS kind FROM s[a INTEGER]")
        assert '      WHEN "a" IN (\n        0, 1, 2,' in cep.explain("q")
