"""`cep.explain` and `cep.graph` of a SELECT with MATCH_RECOGNIZE, and the command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

import bridge
from bridge import Bridge, QueryError
from bridge.cli import main

FALL = "SELECT n FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (X Y+) DEFINE Y AS {})"
GRADES = {
    "symbols": ("a < PREV(a)", "about the row alone"),
    "starts": ("a < X.a AND a > 0", "reads rows at a known distance from the first"),
    "registers": ("a < AVG(a) AND a > 0", "reads the match so far"),
}


@pytest.fixture(params=["duckdb://", "sqlite://"])
def cep(request: pytest.FixtureRequest) -> Iterator[Bridge]:
    with bridge.connect(request.param) as opened:
        opened.database.execute("CREATE TABLE t (ts INTEGER, a INTEGER)")
        opened.database.execute("INSERT INTO t VALUES (1, 9), (2, 7), (3, 5)")
        yield opened


@pytest.mark.parametrize("strategy", GRADES)
def test_each_grade_has_its_strategy_and_reasons(cep: Bridge, strategy: str) -> None:
    define, grade = GRADES[strategy]
    text = cep.explain(FALL.format(define))
    assert f"--     Y AS {define}\n--       {grade}\n" in text
    assert f"--   strategy {strategy}: " in text
    assert [f"not {other}: " in text for other in GRADES] == [other != strategy for other in GRADES]
    assert "--     0 match X\n" in text
    assert "--     1: Y -> 2\n" in text


@pytest.mark.parametrize("strategy", GRADES)
def test_the_sql_that_is_told_runs(cep: Bridge, strategy: str) -> None:
    script = cep.explain("  " + FALL.format(GRADES[strategy][0]))
    *statements, _ = script.split(";\n")
    for statement in statements[:-1]:
        cep.database.execute(statement)
    assert "SELECT\n  n\nFROM _cep_match_1;" in script


def test_no_row_is_read_and_nothing_left(cep: Bridge) -> None:
    before = cep.database.table_names()
    cep.explain(FALL.format("a < PREV(a)"))
    assert cep.database.table_names() == before


def test_a_clause_over_a_clause(cep: Bridge) -> None:
    inner = "(" + FALL.format("a < PREV(a)") + ")"
    text = cep.explain(f"SELECT * FROM {inner} MATCH_RECOGNIZE (ORDER BY n PATTERN (Z) DEFINE Z AS n > 1)")
    assert "-- 1. MATCH_RECOGNIZE over t\n" in text
    assert "-- 2. MATCH_RECOGNIZE over (SELECT n FROM _cep_match_1" in text
    assert "_cep_match_2 is the answer of 2" in text


def test_a_select_without_patterns_is_shown_as_it_runs(cep: Bridge) -> None:
    cep.register_stream("s", "a INTEGER")
    assert cep.explain("SELECT ts FROM t").endswith("\n\nSELECT\n  ts\nFROM t;")
    assert '"cep_inbox_s"' in cep.explain("SELECT a FROM s").replace("`", '"')
    with pytest.raises(QueryError, match="there is no pattern"):
        cep.graph("SELECT ts FROM t")


@pytest.mark.parametrize(
    "sql",
    [
        FALL.format("b < 1"),
        FALL.format("a <"),
        FALL.format("1").replace("SELECT n", "SELECT m"),
        FALL.format("1").replace("FROM t", "FROM u"),
        "SELECT x FROM t",
        "SELECT FROM WHERE",
    ],
)
def test_errors_are_those_of_query(cep: Bridge, sql: str) -> None:
    with pytest.raises(QueryError) as queried:
        cep.query(sql)
    with pytest.raises(QueryError) as explained:
        cep.explain(sql)
    assert str(explained.value).split("\n")[0] == str(queried.value).split("\n")[0]


def test_a_pattern_too_large_to_draw_is_explained_all_the_same(cep: Bridge) -> None:
    sql = FALL.format("a < PREV(a)").replace("Y+", "Y{500}")
    assert "--     a picture of more than 400 states" in cep.explain(sql)
    with pytest.raises(QueryError, match="more than 400 states"):
        cep.graph(sql)


def test_a_query_may_have_a_name_like_a_word_of_sql(cep: Bridge) -> None:
    cep.register_stream("s", "a INTEGER")
    cep.create_query("values", "SELECT a FROM s")
    assert cep.explain("values").startswith("-- query values")


def test_the_automaton_of_a_continuous_query_is_drawn(cep: Bridge) -> None:
    cep.register_stream("s", "a INTEGER")
    sql = "SELECT z FROM s MATCHING (PATTERN xy* WITHIN 9 MS MEASURES z INTEGER DEFINE x DO z = a)"
    cep.create_query("rise", sql)
    assert str(cep.graph("rise")).splitlines()[1:] == ["0: x -> 1", "1: y -> 1, accepting"]
    with pytest.raises(bridge.UnknownName):
        cep.graph("rises")


# The command ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with bridge.connect("duckdb:///a.duckdb") as cep:
        cep.database.execute("CREATE TABLE t AS SELECT 1 AS ts, 2 AS a")
    Path("q.sql").write_text("-- falls\n" + FALL.format("a < PREV(a)") + ";\n")
    return tmp_path


def call(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["explain", *arguments, "--db", "duckdb:///a.duckdb"])
    assert result.exit_code == code, result.output
    return result


def test_a_question_alone_in_a_file(place: Path) -> None:
    assert call("q.sql", "--graph", "q.svg").stdout.startswith("-- SELECT on demand, on duckdb\n")
    assert ElementTree.parse("q.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_question_beside_queries(place: Path) -> None:
    match = "SELECT z FROM s MATCHING (PATTERN ab WITHIN 9 MS MEASURES z INTEGER DEFINE a DO z = a)"
    Path("all.sql").write_text(f"CREATE STREAM s (a INTEGER);\n{FALL.format('a < 5')};\nCREATE QUERY q AS {match};")
    shown = call("all.sql", "--graph", "all.gv").stdout
    assert shown.startswith("-- query q, on duckdb")
    assert "-- 1. MATCH_RECOGNIZE over t" in shown
    drawn = Path("all.gv").read_text()
    assert 'label="q: a b"' in drawn and 'label="X Y+"' in drawn


def test_errors_tell_the_line_of_the_file(place: Path) -> None:
    Path("q.sql").write_text("-- falls\n" + FALL.format("b < 1"))
    assert "unknown column 'b'; there is 'ts', 'a' (line 2, " in call("q.sql", code=1).stderr


def test_a_picture_that_cannot_be(place: Path) -> None:
    Path("plain.sql").write_text("CREATE STREAM s (a INTEGER); CREATE QUERY q AS SELECT a FROM s")
    assert "there is no pattern to draw" in call("plain.sql", "--graph", "q.svg", code=1).stderr
    assert "an .svg, .dot or .gv for Graphviz, or .mmd for Mermaid" in call("q.sql", "--graph", "q.png", code=2).stderr
