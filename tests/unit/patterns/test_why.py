"""`cep.why`: against the definition, row by row; and what it says."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import bridge
from bridge import Bridge, QueryError
from bridge.cli import main
from bridge.patterns.why import Why
from bridge.query.row_pattern import RowPattern
from nfa.threads.trace import Fate
from tests.support.row_pattern_case import Case, load_all, rows_of, statements
from tests.support.row_pattern_generate import COLUMNS, generate
from tests.support.row_pattern_values import Scene, Step, value
from tests.support.row_patterns import NowhereError, _partitions, matches_of
from tests.test_match_recognize_cases import alone, read

if TYPE_CHECKING:
    from tests.support.databases import Database

pytestmark = pytest.mark.some_databases(2)

ROWS_OF_A_CASE = 3
CASES = [case for case in load_all() if case.expect and alone(case) and "duckdb" not in case.not_yet]


# The definition -------------------------------------------------------------------------------------------------------


def check_cases(cases: list[Case]) -> int:
    told = 0
    for case in cases:
        with bridge.connect() as cep:
            for statement in statements(case, cep.database):
                cep.database.execute(statement)
            (table,) = case.tables.values()
            told += check(cep, case.sql, read(case), rows_of(table), case.id)
    return told


@pytest.mark.parametrize("block", range(4))
def test_rows_of_some_cases_are_told_of_as_the_definition_says(block: int) -> None:
    assert check_cases(CASES[5 * block :: 20]) > 10


@pytest.mark.long
@pytest.mark.parametrize("block", range(8))
def test_rows_of_all_cases_are_told_of_as_the_definition_says(block: int) -> None:
    assert check_cases(CASES[block::8]) > 20


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 300))
def test_rows_of_many_random_tables_are_told_of_as_the_definition_says(seed: int) -> None:
    check_random(seed)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(10))
def test_rows_of_random_tables_are_told_of_as_the_definition_says(seed: int) -> None:
    check_random(seed)


def check_random(seed: int) -> None:
    example = generate(seed)
    with bridge.connect() as cep:
        cep.database.execute(f"CREATE TABLE events ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")
        for row in example.rows:
            cep.database.execute(f"INSERT INTO events VALUES ({', '.join(map(literal, row))})")
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in example.rows]
        check(cep, f"SELECT * FROM events {example.text}", example.clause, rows, str(example))


def literal(cell: Any) -> str:
    return "NULL" if cell is None else repr(cell)


def check(cep: Bridge, sql: str, clause: RowPattern, rows: list[dict[str, Any]], title: str) -> int:
    """Whether each row is told of rightly; how many there were."""
    told = 0
    for partition in _partitions(clause, rows):
        try:
            found = matches_of(clause, partition)
        except NowhereError:
            continue
        for place, row in enumerate(partition[:ROWS_OF_A_CASE]):
            if rows.count(row) == 1 and not any(isinstance(cell, float) for cell in row.values()):
                agree(cep.why(sql, row), clause, partition, found, place, title)
                told += 1
    return told


def agree(why: Why, clause: RowPattern, rows: list[dict[str, Any]], found: list[Any], place: int, title: str) -> None:
    of_row = [(m.number, s.symbol) for m in found for s in m.steps if s.row == place]
    assert [(m.number, m.symbol) for m in why.matches if m.symbol] == of_row, title
    assert [m.number for m in why.matches if not m.symbol] == [
        m.number for m in found if not m.steps and m.start == place
    ]
    numbers = {m.start: m.number for m in found}
    for run in why.runs:
        start = run.start - 1
        assert (run.match.number if run.match else None) == numbers.get(start), title
        number = 1 + sum(other < start for other in numbers)
        for step in run.steps:
            assert step.test is None or step.test.holds == holds(clause, rows, start, step, number), f"{title}\n{why}"
            assert not step.goes_on or (step.test is not None and step.test.holds)
            assert step.fate is not Fate.FAILS or (step.test is not None and step.test.failed)
    for match in why.matches:
        if match.symbol:
            (run,) = [run for run in why.runs if run.start == match.first]
            assert any(step.goes_on and step.test and step.test.symbol == match.symbol for step in run.steps), title


def holds(clause: RowPattern, rows: list[dict[str, Any]], start: int, step: Any, number: int) -> bool:
    path = tuple(Step(name, start + i, False) for i, name in enumerate((*step.taken, step.test.symbol)))
    condition = dict(clause.define).get(step.test.symbol)
    return condition is None or bool(value(condition, Scene(rows, path, len(path), number, dict(clause.subsets))))


# What it says ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def cep(database: Database) -> Iterator[Bridge]:
    with database.connect() as opened:
        opened.database.execute("CREATE TABLE t (k TEXT, ts INTEGER, a INTEGER)")
        rows = [("p", 1, 9), ("p", 2, 7), ("q", 2, 1), ("p", 3, 5), ("p", 4, None), ("p", 5, 6), ("p", 6, 4)]
        for k, ts, a in rows:
            opened.database.execute(f"INSERT INTO t VALUES ('{k}', {ts}, {literal(a)})")
        yield opened


def asked(pattern: str, define: str, more: str = "") -> str:
    return f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts {more} PATTERN ({pattern}) DEFINE {define})"


FALL = asked("X Y+ Z", "Y AS a < PREV(a) AND a < X.a, Z AS a > LAST(Y.a)")


def test_the_text_tells_it_all(cep: Bridge) -> None:
    assert str(cep.why(FALL, {"k": "p", "ts": 4})).splitlines() == [
        "row 4 of 6 of the partition k = 'p': ts = 4, a = NULL",
        "",
        "by itself",
        "  X? yes",
        "  Y? no: a < PREV(a) is NULL: a = NULL, PREV(a) = 5",
        "  Z? yes by itself: a > LAST(Y.a) depends on the match",
        "",
        "runs that reached it",
        "  from row 1 (ts = 1); it finds no match",
        "    after X Y Y: Y? no: a < PREV(a) is NULL: a = NULL, PREV(a) = 5; a < X.a is NULL: a = NULL, X.a = 9 - ends",
        "    after X Y Y: Z? no: a > LAST(Y.a) is NULL: a = NULL, LAST(Y.a) = 5 - ends",
        "  from row 2 (ts = 2); it finds no match",
        "    after X Y: Y? no: a < PREV(a) is NULL: a = NULL, PREV(a) = 5; a < X.a is NULL: a = NULL, X.a = 7 - ends",
        "    after X Y: Z? no: a > LAST(Y.a) is NULL: a = NULL, LAST(Y.a) = 5 - ends",
        "  from row 3 (ts = 3); it finds no match",
        "    after X: Y? no: a < PREV(a) is NULL: a = NULL, PREV(a) = 5; a < X.a is NULL: a = NULL, X.a = 5 - ends",
        "  from row 4 (ts = 4); it finds no match",
        "    first row: X? yes - goes on, to Y",
        "",
        "It is in no match.",
    ]


def test_a_match_that_skips_other_starts(cep: Bridge) -> None:
    why = cep.why(asked("X Y+", "Y AS a < X.a"), {"k": "p"}, ts=3)
    assert [str(skipped) for skipped in why.skipped] == [
        "from rows 2 to 3 none: after match 1 (rows 1 to 3) the search goes on at row 4 (AFTER MATCH SKIP PAST LAST ROW)"
    ]
    assert why.verdict == "It is in match 1 (rows 1 to 3) as Y."
    assert [run.start for run in why.runs] == [1]
    assert why.runs[0].fallback


def test_time_that_is_over(cep: Bridge) -> None:
    why = cep.why(asked("X Y+ Z", "Z AS a = 6", "").replace(" DEFINE", " WITHIN 4 MS DEFINE"), {"k": "p"}, ts=5)
    late = [step for run in why.runs for step in run.steps if step.fate is Fate.LATE]
    assert [(" ".join(step.taken), step.test.symbol) for step in late if step.test] == [
        ("X Y Y Y", "Y"),
        ("X Y Y Y", "Z"),
    ]
    assert "after X Y Y Y: Z - ends: WITHIN is over" in str(why)


def test_a_preferred_match_ends_the_other_ways(cep: Bridge) -> None:
    why = cep.why(asked("X (Y | Z)", "Y AS a < 8, Z AS a < 8"), {"k": "p"}, ts=2)
    assert [step.fate for step in why.runs[0].steps] == [Fate.MATCHES, Fate.OVERTAKEN]


def test_ways_that_join_and_anchors(cep: Bridge) -> None:
    joined = cep.why(asked("(X | Y) Z", "X AS a > 0, Y AS a > 1, Z AS a < 0"), {"k": "p"}, ts=2)
    assert Fate.JOINED in [step.fate for run in joined.runs for step in run.steps]
    anchored = cep.why(asked("X ($ | Y)", "Y AS a < 0"), {"k": "p"}, ts=2)
    assert [step.fate for step in anchored.runs[0].steps] == [Fate.NOT_THE_END, Fate.FAILS]
    assert cep.why(asked("X ^ Y", "Y AS a < 0"), {"k": "p"}, ts=1).runs[0].steps[0].fate is Fate.NOWHERE


def test_few_runs_are_told_and_the_others_counted(cep: Bridge) -> None:
    why = cep.why(asked("X* Y", "Y AS a < 0", "AFTER MATCH SKIP TO NEXT ROW"), {"k": "p"}, ts=6, runs=2)
    assert ([run.start for run in why.runs], why.others) == ([5, 6], 4)
    assert "  4 more from earlier rows may have, and are not shown" in str(why).splitlines()


def test_the_excluded_and_the_empty(cep: Bridge) -> None:
    assert cep.why(asked("X {- Y -}", "Y AS a < 8"), {"k": "p", "ts": 2}).verdict == (
        "It is in match 1 (rows 1 to 2) as Y, which the output leaves out."
    )
    assert cep.why(asked("X*", "X AS a < 0"), {"k": "q"}).verdict == "It begins match 1, which is empty, at row 1."


def test_the_answer_stays_what_it_was(cep: Bridge) -> None:
    before = list(cep.query(FALL))
    cep.why(FALL, {"k": "p", "ts": 3})
    assert list(cep.query(FALL)) == before


def test_clauses_are_told_apart(cep: Bridge) -> None:
    inner = "t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES X.ts AS n PATTERN (X Y) DEFINE Y AS a < PREV(a))"
    outer = f"SELECT * FROM (SELECT * FROM {inner}) MATCH_RECOGNIZE (ORDER BY k, n PATTERN (Z))"
    with pytest.raises(QueryError, match="there are 2 clauses: name one by its number, clause=1"):
        cep.why(outer, {"k": "p"})
    assert cep.why(outer, {"n": 5}, clause=2).matches[0].symbol == "Z"
    assert cep.why(outer, {"k": "q"}, clause=1).verdict == "It is in no match."


@pytest.mark.parametrize(
    ("sql", "row", "ts", "message"),
    [
        (FALL, {"k": "p"}, None, "6 rows have k = 'p'; columns are k, ts, a"),
        (FALL, {"k": "z"}, None, "no row has k = 'z'"),
        (FALL, {"kk": "p"}, None, "the input has no column 'kk'; did you mean 'k'"),
        (FALL, {}, None, "which row"),
        ("SELECT * FROM t", {"k": "p"}, None, "there is none"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))", {}, 3, "first column of ORDER BY"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS b > 1)", {"a": 1}, None, "unknown column 'b'"),
        ("SELECT * FROM u MATCH_RECOGNIZE (PATTERN (A))", {"a": 1}, None, "unknown stream or table 'u'"),
    ],
)
def test_what_cannot_be_told_is_refused(cep: Bridge, sql: str, row: dict[str, Any], ts: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        cep.why(sql, row, ts)


def test_a_clause_that_is_not_there(cep: Bridge) -> None:
    with pytest.raises(QueryError, match="there is no clause 2"):
        cep.why(FALL, {"k": "q"}, clause=2)


def test_a_row_is_named_by_a_timestamp() -> None:
    with bridge.connect() as cep:
        cep.database.execute("CREATE TABLE t AS SELECT TIMESTAMP '2024-01-01 10:00:00' AS at, 1.5 AS a")
        sql = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY at PATTERN (X) DEFINE X AS a > 1)"
        assert cep.why(sql, ts=datetime.datetime(2024, 1, 1, 10)).verdict == "It is in match 1 (row 1) as X."
        assert cep.why(sql, {"AT": "2024-01-01 10:00:00"}).number == 1


def test_a_value_may_be_told_as_text(cep: Bridge) -> None:
    sql = FALL.replace("FROM t", "FROM (SELECT k, ts + 0 AS ts, a FROM t)")
    assert cep.why(sql, {"k": "p", "ts": "3"}).number == 3


def test_a_long_partition_takes_a_moment() -> None:
    with bridge.connect() as cep:
        cep.database.execute("CREATE TABLE t AS SELECT i AS ts, (i * 7919) % 1000 AS a FROM range(100000) r(i)")
        sql = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (X Y* Z) DEFINE Y AS a >= 0, Z AS a < 0)"
        why = cep.why(sql, ts=90_000)
        assert (len(why.runs), why.others) == (20, 89_981)


# The command ----------------------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Any) -> None:
    with bridge.connect(f"duckdb:///{tmp_path}/a.duckdb") as cep:
        cep.database.execute("CREATE TABLE t AS FROM (VALUES ('p', 1, 9), ('p', 2, 7)) AS t (k, ts, a)")
    (tmp_path / "q.sql").write_text(FALL)
    words = ["why", f"{tmp_path}/q.sql", "--database", f"duckdb:///{tmp_path}/a.duckdb"]
    done = CliRunner().invoke(main, [*words, "--row", "k=p", "--row", "ts=2"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("row 2 of 2 of the partition k = 'p': ts = 2, a = 7\n")
    assert f"error: {tmp_path}/q.sql: no row has k = 'z'" in CliRunner().invoke(main, [*words, "--row", "k=z"]).stderr
    assert CliRunner().invoke(main, [*words, "--row", "k"]).exit_code == 2
