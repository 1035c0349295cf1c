"""What cannot run is refused when it is created or asked, as a `BridgeError` with its place, and nothing stays behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
from sqlglot import exp

import bridge
from bridge.query import ReadSQL, UpdateSQL

S = bridge.Stream("s")
UNKNOWN = {
    "a function in DEFINE of MATCHING": (
        "SELECT p FROM s MATCHING (PATTERN x WITHIN 9 MS MEASURES p INTEGER DEFINE x AS nosuch(v) DO p = v)",
        "NOSUCH",
    ),
    "a function beside a window": ("SELECT COUNT(*) AS n FROM s WINDOW(ROWS 5) WHERE nosuch(v) > 1", "NOSUCH"),
    "the table of an UPDATE": (UpdateSQL(S, "INSERT INTO nosuch VALUES (?)", ["v"]), "nosuch"),
    "a column of an UPDATE": (UpdateSQL(S, "INSERT INTO bills (a, nosuch) VALUES (?, 1)", ["v"]), "nosuch"),
    "a function of an UPDATE": (UpdateSQL(S, "UPDATE bills SET b = nosuch(?)", ["v"]), "NOSUCH"),
    "a function of a SELECT": (
        ReadSQL(S, "SELECT nosuch(b) AS c FROM bills WHERE a = ?", ["v"], "p", {"c": "VARCHAR"}, cache=9),
        "NOSUCH",
    ),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_a_name_that_only_the_database_knows_is_refused_at_creation(what: str, database: Any) -> None:
    query, name = UNKNOWN[what]
    with database.connect() as cep:
        cep.database.execute("CREATE TABLE bills (a INTEGER, b VARCHAR(9))")
        cep.register_stream("s", "v INTEGER")
        with pytest.raises(bridge.QueryError, match=f"(?i){name}"):
            cep.create_query("q", query)
        assert cep.queries == {}
        cep.push_event("s", [1], 1)


TEXTS = {
    "COUNT without an argument": ("SELECT COUNT() AS n FROM s WINDOW(ROWS 2)", r"COUNT\(\) has no argument.*column 8"),
    "two conditions after START": ("SELECT v FROM s WINDOW(START v > 1, v < 3 STOP v = 2)", "a condition is expected.*column 30"),
    "two conditions after STOP": ("SELECT v FROM s WINDOW(START v > 1 STOP v = 2, v = 3)", "a condition is expected.*column 41"),
    "half of a surrogate pair": ("SELECT '\udfff' AS x FROM s", "surrogate"),
    "a name with half of a surrogate pair": ('SELECT v AS "\udfff" FROM s', "surrogate"),
    "a pattern too long": ("SELECT * FROM s MATCH_RECOGNIZE (MEASURES 1 AS a PATTERN (A{1000000}))", "1000001 instructions"),
    "parentheses too deep": (f"SELECT {'(' * 900}v{')' * 900} AS x FROM s", "nested too deeply"),
}  # fmt: skip


@pytest.mark.parametrize("what", TEXTS)
@pytest.mark.parametrize("call", ["create_query", "query", "explain"])
@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
def test_a_text_that_cannot_run_is_a_query_error(url: str, call: str, what: str) -> None:
    text, message = TEXTS[what]
    with bridge.connect(url) as cep:
        cep.register_stream("s", "v INTEGER")
        calls: dict[str, Callable[[], Any]] = {
            "create_query": lambda: cep.create_query("q", text),
            "query": lambda: cep.query(text),
            "explain": lambda: cep.explain(text),
        }
        with pytest.raises(bridge.QueryError) as caught:
            calls[call]()
        str(caught.value).encode()  # it can be printed
        if call == "create_query" or "COUNT" not in text:
            assert re.search(message, str(caught.value), re.DOTALL)


@pytest.mark.parametrize("operator", ["AND v >", "OR v >", "+"])
def test_a_long_condition_takes_work_in_proportion_to_its_length(operator: str) -> None:
    """The nodes that walks over trees visit: four times the terms, at most eight times the nodes."""

    def nodes(terms: int) -> int:
        chain = "".join(f" {operator} {number}" for number in range(terms))
        text = f"SELECT v{chain} AS x FROM s" if operator == "+" else f"SELECT v FROM s WHERE v > 0{chain}"
        visited = 0
        walk = exp.Expression.bfs

        def counted(node: exp.Expr, **options: Any) -> Iterator[exp.Expr]:
            nonlocal visited
            for each in walk(node, **options):
                visited += 1
                yield each

        with bridge.connect("sqlite://") as cep, mock.patch.object(exp.Expression, "bfs", counted):
            cep.register_stream("s", "v INTEGER")
            cep.create_query("q", text)
            cep.add_output_processor("q", lambda event: None)
            cep.push_event("s", [1], 1)
        return visited

    assert 0 < nodes(200) < 8 * nodes(50)
