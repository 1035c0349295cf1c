"""Expressions are those of the database: MEASURES, DEFINE and continuous queries compute what its own SELECT does."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

import bridge
from bridge.frontends.sql.statements import parse
from tests.support.databases import Database
from tests.support.expression_forms import Forms

CORPUS = pathlib.Path(__file__).parents[2] / "support" / "expressions"
LEAST = {"duckdb": 400, "sqlite": 180, "postgresql": 150, "mariadb": 120}


def corpus(name: str) -> dict[str, Any]:
    """The expressions of a database, and the rules by which some differ."""
    read: dict[str, Any] = yaml.load((CORPUS / f"{name}.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return read


def test_expressions_are_those_of_the_database(database: Database) -> None:
    data = corpus(database.name)
    assert len(data["expressions"]) >= LEAST[database.name]
    with database.connect() as cep:
        found = Forms(cep).differences(data["expressions"])
    explained = data["differences"]
    assert {e: places for e, places in found.items() if e not in explained} == {}
    assert {e: sorted(places) for e, places in found.items()} == {e: rule["places"] for e, rule in explained.items()}
    refused = [text for places in found.values() for text in places.values() if text.startswith("refused")]
    assert [text for text in refused if not text.startswith(("refused: QueryError", "refused: SchemaError"))] == []


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgres", "mysql"])
def test_what_the_bridge_defines_is_read_alike(dialect: str) -> None:
    """Without a function or an operator of its own, a query is the same object in every dialect."""
    text = """SELECT "a b" || 'x\\y' || b AS c, a / 2 AS d, a % 2 AS e, tags[1] AS f, tags[-1] AS g, SUM(a) AS h
              FROM s[a: INTEGER] WINDOW(RANGE 5 S) WHERE b LIKE 'a%' AND NOT a IS NULL GROUP BY "a b", b, a, tags"""
    assert str(parse(text, dialect)) == str(parse(text))


def test_pipes_join_texts_beside_bitwise_or() -> None:
    found = parse("SELECT a || b || c AS x, a | b || c AS y, a || CASE WHEN b THEN c || d END AS z FROM s", "mysql")
    assert str(found) == "SELECT a || b || c AS x, a | b || c AS y, a || CASE WHEN b THEN c || d END AS z FROM s"


def test_a_graph_is_of_an_expression_of_the_database() -> None:
    with bridge.connect() as cep:
        graph = cep.graph("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a MEASURES FIRST(a // 4) AS b PATTERN (X))")
    assert "X" in str(graph)


def test_an_unknown_function_points_at_its_place() -> None:
    with bridge.connect() as cep, pytest.raises(bridge.QueryError, match="nothing_so") as raised:
        cep.create_query("q", "SELECT nothing_so(a) AS b FROM s[a: INTEGER]")
    assert raised.value.position == 7


@pytest.mark.parametrize(
    ("dialect", "volatile"),
    [
        ("mysql", "CURDATE()"),
        ("mysql", "RAND()"),
        ("duckdb", "today()"),
        ("duckdb", "gen_random_uuid()"),
        ("sqlite", "random()"),
        ("postgres", "now()"),
        ("postgres", "CURRENT_TIMESTAMP"),
    ],
)
def test_functions_not_of_the_events_stay_refused(dialect: str, volatile: str) -> None:
    from bridge.check.scope import Scope, scalar

    (column,) = parse(f"SELECT {volatile} AS v FROM s", dialect).columns  # type: ignore[attr-defined]
    with pytest.raises(bridge.QueryError, match="not a function of the events"):
        scalar(column.this, Scope(()))
