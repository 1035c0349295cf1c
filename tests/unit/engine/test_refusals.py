"""What cannot run is refused when it is created or asked, as a `BridgeError` with its place, and nothing stays behind."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import sys
from collections.abc import Callable
from typing import Any

import pytest

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


def test_a_name_in_double_quotes_is_never_a_text(database: Any) -> None:
    """SQLite by itself takes an unknown one for a text."""
    with database.connect() as cep:
        cep.database.execute("CREATE TABLE bills (a INTEGER, b VARCHAR(9))")
        with pytest.raises(
            bridge.QueryError, match=r"double quotes name a column, a text is in single quotes: 'x'.*column 30"
        ):
            cep.query('SELECT a FROM bills WHERE b=("x")')
        assert cep.query("""SELECT 'it is "x"' AS "a""b", "a" FROM bills""").columns == ('a"b', "a")


TEXTS = {
    "COUNT without an argument": ("SELECT COUNT() AS n FROM s WINDOW(ROWS 2)", r"COUNT\(\) has no argument.*column 8"),
    "two conditions after START": ("SELECT v FROM s WINDOW(START v > 1, v < 3 STOP v = 2)", "a condition is expected.*column 30"),
    "two conditions after STOP": ("SELECT v FROM s WINDOW(START v > 1 STOP v = 2, v = 3)", "a condition is expected.*column 41"),
    "half of a surrogate pair": ("SELECT '\udfff' AS x FROM s", "surrogate"),
    "a name with half of a surrogate pair": ('SELECT v AS "\udfff" FROM s', "surrogate"),
    "half of a surrogate pair between names": ("SELECT v FROM s\udfff x y", "udfff"),
    "a word of SQL as a function": (
        "SELECT * FROM s MATCH_RECOGNIZE (MEASURES CASE(v) AS a PATTERN (A))", "(?i)case",
    ),
    "a pattern too long": ("SELECT * FROM s MATCH_RECOGNIZE (MEASURES 1 AS a PATTERN (A{1000000}))", "1000001 instructions"),
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


@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
def test_parentheses_are_read_or_refused_as_too_deep(url: str) -> None:
    """How deep they may be depends on the parser and on the database."""
    with bridge.connect(url) as cep:
        cep.register_stream("s", "v INTEGER")
        for depth in (900, 5000):
            with contextlib.suppress(bridge.QueryError):
                cep.create_query(f"q{depth}", f"SELECT {'(' * depth}v{')' * depth} AS x FROM s")
            with contextlib.suppress(bridge.QueryError):
                cep.query(f"SELECT {'(' * depth}v{')' * depth} AS x FROM s")
        cep.push_event("s", [1], 1)


@pytest.mark.parametrize("operator", ["AND v >", "OR v >", "+"])
def test_a_long_condition_takes_work_in_proportion_to_its_length(operator: str) -> None:
    """Work is the number of function calls: with four times the terms, at most eight times as many."""

    def calls(terms: int) -> int:
        chain = "".join(f" {operator} {number}" for number in range(terms))
        text = f"SELECT v{chain} AS x FROM s" if operator == "+" else f"SELECT v FROM s WHERE v > 0{chain}"
        count = 0

        def counted(*_: Any) -> None:
            nonlocal count
            count += 1

        with bridge.connect("sqlite://") as cep:
            cep.register_stream("s", "v INTEGER")
            sys.setprofile(counted)
            try:
                cep.create_query("q", text)
                cep.add_output_processor("q", lambda event: None)
                cep.push_event("s", [1], 1)
            finally:
                sys.setprofile(None)
        return count

    calls(3)  # fills caches
    assert 0 < calls(200) < 8 * calls(50)


@pytest.mark.parametrize(
    "function", ["APPROX_COUNT_DISTINCT(v)", "MEDIAN(v)", "VARIANCE(v)", "STDDEV_POP(v)", "MODE(v)"]
)
def test_an_aggregate_that_a_database_lacks_is_refused_by_the_name_that_it_was_given(function: str) -> None:
    name = function.partition("(")[0]
    with bridge.connect("sqlite://") as cep, pytest.raises(bridge.QueryError, match=f"no aggregate function {name}:"):
        cep.create_query("q", f"SELECT {function} AS x FROM s[v INTEGER] WINDOW(ROWS 3)")


@pytest.mark.skipif(sqlite3.sqlite_version_info >= (3, 44), reason="this SQLite has ordered aggregates")
@pytest.mark.parametrize(
    "call", ["string_agg(t, ',' ORDER BY v)", "GROUP_CONCAT(t, ',' ORDER BY v)", "SUM(v ORDER BY v)"]
)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT {} AS x FROM s WINDOW(ROWS 2)",
        "SELECT * FROM s MATCH_RECOGNIZE (MEASURES {} AS x PATTERN (A B) DEFINE B AS TRUE)",
    ],
)
def test_order_by_in_an_aggregate_on_an_old_sqlite(query: str, call: str) -> None:
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "v INTEGER, t VARCHAR")
        with pytest.raises(bridge.QueryError, match=r"no ORDER BY in [A-Z_]+: leave it out") as caught:
            cep.create_query("q", query.format(call))
    assert caught.value.position is not None
