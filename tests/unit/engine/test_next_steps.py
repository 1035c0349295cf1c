"""Errors say what to write instead: the name that was meant, the clause that can hold it, the call that is missing."""

from __future__ import annotations

from typing import Any

import pytest

import bridge
from bridge.frontends.sql.statements import statements

REFUSED = {
    "a table that is almost named": ("SELECT v FROM s, compnies c WHERE s.k = c.k", "did you mean 'companies'"),
    "a column of a table that is almost named": ("SELECT nme FROM s, companies c WHERE s.k = c.k", "did you mean 'name'"),
    "an aggregate in WHERE": (
        "SELECT k, COUNT(*) AS n FROM s WINDOW(ROWS 5) WHERE COUNT(*) > 3 GROUP BY k",
        "an aggregate cannot stand in WHERE, which sees one row: HAVING COUNT(*) > 3 sees the groups (line 1, column 59)",
    ),
    "the alias of an aggregate in WHERE": (
        "SELECT k, COUNT(*) AS n FROM s WINDOW(ROWS 5) WHERE n > 3 GROUP BY k",
        "which WHERE does not see yet; HAVING reads it (line 1, column 53)",
    ),
    "an alias in WHERE": (
        "SELECT v * 2 AS paid FROM s WHERE v > 1 AND paid > 3",
        "which WHERE does not see yet; repeat v * 2 there (line 1, column 45)",
    ),
    "an alias in WHERE of a join": (
        "SELECT s.v * 2 AS paid FROM s WINDOW(NOW), companies c WHERE s.k = c.k AND paid > 3", "repeat s.v * 2 there",
    ),
    "a text in double quotes": (
        'SELECT v FROM s WHERE k = "it\'s ACME"', "a text is in single quotes: 'it''s ACME' (line 1, column 27)",
    ),
    "a name in double quotes": ('SELECT "vv" FROM s', "unknown column 'vv'; did you mean 'v'? Double quotes"),
    "half a second": ("SELECT SUM(v) AS t FROM s WINDOW(RANGE 0.5 S)", "not 0.5: write 500 MS (line 1, column 40)"),
    "a quarter of a minute": ("SELECT SUM(v) AS t FROM s WINDOW(RANGE 1 H SLIDE 0.25 MIN)", "write 15000 MS"),
    "WITHIN half a second": (
        "SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.v AS v PATTERN (A B) WITHIN 1.5 S)", "write 1500 MS",
    ),
    "less than a millisecond": ("SELECT SUM(v) AS t FROM s WINDOW(RANGE 0.5 MS)", "is expected, not 0.5 (line"),
    "half a row": ("SELECT SUM(v) AS t FROM s WINDOW(ROWS 0.5)", "is expected, not 0.5 (line"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_query_says_what_to_write(what: str) -> None:
    text, message = REFUSED[what]
    with bridge.connect() as cep:
        cep.database.execute("CREATE TABLE companies (k VARCHAR, name VARCHAR)")
        cep.register_stream("s", "k VARCHAR, v INTEGER")
        with pytest.raises(bridge.QueryError) as refused:
            cep.create_query("q", text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FROM compnies", "did you mean 'companies'"),
        ("SELECT nme FROM companies", "did you mean 'name'"),
        ('SELECT * FROM companies WHERE name = "ACME"', "a text is in single quotes: 'ACME'"),
    ],
)
def test_an_on_demand_query_says_what_to_write(text: str, message: str) -> None:
    with bridge.connect() as cep:
        cep.database.execute("CREATE TABLE companies (k VARCHAR, name VARCHAR)")
        with pytest.raises(bridge.QueryError, match=message):
            cep.query(text)


def test_tables_are_not_named_to_whom_is_not_trusted() -> None:
    with bridge.connect() as cep:
        cep.database.execute("CREATE TABLE companies (k VARCHAR, secret VARCHAR)")
        cep.register_stream("s", "k VARCHAR")
        for ask in (cep.query, lambda text, untrusted: cep.create_query("q", text, untrusted=untrusted)):
            with pytest.raises(bridge.QueryError) as refused:
                ask("SELECT secrt FROM compnies", untrusted=True)
            assert "companies" not in str(refused.value)


def test_a_stream_that_is_not_there() -> None:
    with bridge.connect() as cep:
        with pytest.raises(bridge.UnknownName, match=r"unknown stream 'trades'; register_stream\('trades', schema\)"):
            cep.push_event("trades", [1], 1)
        with pytest.raises(bridge.QueryError, match=r"nothing is registered yet: register_stream\('trades', schema\)"):
            cep.create_query("q", "SELECT a FROM trades")
        cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
        with pytest.raises(bridge.UnknownName, match="'q' is a query, whose events are its results"):
            cep.push_event("q", [1], 1)


def test_an_attribute_called_ts() -> None:
    with bridge.connect() as cep:
        with pytest.raises(bridge.SchemaError, match="leave it out if it is the event's time"):
            cep.register_stream("s", "ts BIGINT, a INTEGER")
        with pytest.raises(bridge.QueryError, match="leave it out if it is the event's time"):
            cep.create_query("t", "create schema T (ts long)", language="EPL")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("CREATE STREAM s (a INTEGER)\nCREATE QUERY q AS SELECT a FROM s", "before 'CREATE' (line 2, column 1)"),
        ("CREATE QUERY q AS SELECT a FROM s\nCREATE QUERY r AS SELECT a FROM s", "before 'CREATE' (line 2, column 1)"),
        ("CREATE QUERY q AS SELECT a FROM s WHERE a > 1\nCREATE STREAM t (a INTEGER)", "before 'CREATE' (line 2, column 1)"),
        ("CREATE QUERY q AS SELECT a FROM s WINDOW(ROWS 5)\nSELECT a FROM s", "before 'SELECT' (line 2, column 1)"),
        ("CREATE QUERY q AS SELECT MAX(a) AS m FROM s WINDOW(ROWS 5) GROUP BY a\nCREATE QUERY r AS SELECT a FROM s",
         "before 'CREATE' (line 2, column 1)"),
    ],
)  # fmt: skip
def test_a_missing_semicolon(text: str, place: str) -> None:
    with pytest.raises(bridge.QueryError) as refused:
        statements(text)
    assert f"a ';' is missing {place}" in str(refused.value)


def test_a_missing_semicolon_in_epl() -> None:
    with pytest.raises(bridge.QueryError, match="a ';' is missing before 'select'"):
        bridge.replay({}, "create schema s (a int) select a from s", language="EPL")


@pytest.mark.parametrize("language", ["SQL", "Sql", "EPL", "CPL"])
def test_languages_in_any_case(language: str) -> None:
    text = "INSERT INTO found SELECT a FROM s" if language == "CPL" else "SELECT a FROM s"
    with bridge.connect() as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("q", text, language=language)
        assert {status.language for status in cep.status().queries.values()} == {language.lower()}
        with pytest.raises(bridge.QueryError, match="unknown language 'Esper'; there is 'sql', 'epl', 'cpl'"):
            cep.create_query("r", text, language="Esper")
    assert list(
        bridge.replay({}, text if language == "CPL" else {"q": text}, language=language, schemas={"s": "a INTEGER"})
    )


def test_another_bridge_at_work(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windows.databases.sqlite.LOCK_TIMEOUT", 0.1)
    with bridge.connect(f"sqlite:///{tmp_path}/a.db"), pytest.raises(bridge.DatabaseError) as refused:
        bridge.connect(f"sqlite:///{tmp_path}/a.db")
    for way in ("standby=True", "cepbridge watch --standby", "name=…", "--name"):
        assert way in str(refused.value)
