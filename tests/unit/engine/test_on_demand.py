"""Answers on demand: plain SQL over window contents, streams, queries and tables."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from bridge import Bridge, QueryError, connect

if TYPE_CHECKING:
    from tests.support.databases import Database

pytestmark = pytest.mark.some_databases(1)


@pytest.fixture
def cep(database: Database) -> Iterator[Bridge]:
    with database.connect() as opened:
        opened.register_stream("s", "k VARCHAR, a INTEGER")
        opened.create_query("recent", "SELECT k, a FROM s WINDOW(RANGE 5 MS) WHERE a > 0")
        opened.create_query("total", "SELECT k, SUM(a) AS total FROM s WINDOW(RANGE 10 MS) GROUP BY k")
        opened.create_query("pair", "SELECT x.a AS a, y.a AS b FROM s WINDOW(ROWS 2) AS x, s WINDOW(ROWS 1) AS y")
        opened.create_query(
            "rise", "SELECT z FROM s MATCHING (PATTERN xy WITHIN 9 MS MEASURES z INTEGER DEFINE x DO z = a)"
        )
        for ts, k, a in [(1, "p", 1), (3, "q", 2), (6, "p", 3), (6, "p", -1)]:
            opened.push_event("s", [k, a], ts)
        yield opened


def answer(cep: Bridge, sql: str) -> list[tuple]:
    return [tuple(row) for row in cep.query(sql)]


def test_a_streams_name_is_its_newest_events(cep: Bridge):
    assert answer(cep, "SELECT ts, k, a FROM s") == [(6, "p", -1)]


def test_a_correlation_name_may_rename_the_columns_of_a_stream_and_of_a_query(cep: Bridge):
    assert answer(cep, "SELECT x, name, a FROM s AS t (x, name)") == [(6, "p", -1)]
    assert answer(cep, "SELECT amount, x FROM total t (x, k, amount) ORDER BY amount") == [(2, 6), (3, 6)]
    with pytest.raises(QueryError, match=r"4 column names for 's', which has 3: ts, k, a"):
        cep.query("SELECT * FROM s AS t (b, c, d, e)")


def test_a_window_is_asked_as_it_is_written(cep: Bridge):
    assert answer(cep, "SELECT COUNT(*) FROM s WINDOW(RANGE 10 MS)") == [(4,)]
    assert answer(cep, "SELECT t.a FROM s WINDOW(ROWS 2) AS t ORDER BY t.a") == [(-1,), (3,)]


def test_a_filter_over_a_window_gives_what_is_in_it_now(cep: Bridge):
    assert answer(cep, "SELECT a FROM recent ORDER BY a") == [(2,), (3,)]
    cep.advance_time(8)
    assert answer(cep, "SELECT a FROM recent ORDER BY a") == [(3,)]


def test_an_aggregate_gives_what_sql_gives_over_its_window_now(cep: Bridge):
    assert answer(cep, "SELECT k, total FROM total ORDER BY k") == [("p", 3), ("q", 2)]
    cep.advance_time(11)
    assert answer(cep, "SELECT k, total FROM total ORDER BY k") == [("p", 2), ("q", 2)]


def test_a_query_that_has_a_table_of_results_is_asked_as_others_are(cep: Bridge):
    cep.create_query("stored", "SELECT k, SUM(a) AS total FROM s WINDOW(RANGE 10 MS) GROUP BY k", into="of_stored")
    cep.push_events("s", [(["q", 4], 11), (["p", 1], 12), (["q", 2], 13)])
    assert answer(cep, "SELECT k, total FROM stored ORDER BY k") == [("p", 1), ("q", 6)]
    cep.advance_time(21)
    assert answer(cep, "SELECT k, total FROM stored ORDER BY k") == [("p", 1), ("q", 2)]
    cep.database.execute("DROP TABLE of_stored")


@pytest.mark.some_databases(1)
@pytest.mark.parametrize(
    "jumps", ["ROWS 2 SLIDE 2", "RANGE 2 MS SLIDE 2 MS", "START a > 2 STOP a > 2", "TUMBLING 2 MS OF a"]
)
@pytest.mark.parametrize("window", ["RANGE 1 H", "ROWS 9", "SESSION 1 H", "ROWS 9 ORDER BY a"])
def test_a_window_over_rows_that_jump_is_asked_for(cep: Bridge, jumps: str, window: str):
    cep.create_query("n", f"SELECT k, COUNT(*) AS n FROM (SELECT * FROM s WINDOW({jumps})) WINDOW({window}) GROUP BY k")
    told: dict[str, int] = {}
    cep.add_output_processor("n", lambda event: told.update({event.payload["k"]: event.payload["n"]}))
    cep.push_events("s", [(["p", 1], 8), (["q", 3], 8), (["p", 4], 10), (["q", 9], 10), (["q", 12], 12)])
    assert dict(answer(cep, "SELECT k, n FROM n")) == told
    assert told


def test_an_aggregate_over_rows_is_asked_for(cep: Bridge):
    cep.create_query("last", "SELECT SUM(a) AS n FROM s WINDOW(ROWS 2)")
    cep.push_events("s", [(("p", a), 10) for a in (4, 5, 6)])
    assert answer(cep, "SELECT n FROM last") == [(11,)]


def test_a_correlation_gives_the_combinations_of_its_windows(cep: Bridge):
    assert answer(cep, "SELECT a, b FROM pair ORDER BY a") == [(-1, -1), (3, -1)]


def test_names_mix_with_tables_ctes_and_joins_of_the_database(cep: Bridge):
    cep.database.execute("CREATE TABLE names (k TEXT, name TEXT)")
    cep.database.execute("INSERT INTO names VALUES ('p', 'Pam')")
    sql = "WITH t AS (SELECT * FROM total) SELECT n.name, t.total FROM t JOIN names AS n ON n.k = t.k"
    assert answer(cep, sql) == [("Pam", 3)]
    assert answer(cep, "SELECT name FROM names") == [("Pam",)]


def test_rows_have_names_and_other_forms(cep: Bridge):
    rows = cep.query("SELECT k, total FROM total ORDER BY k")
    assert rows.columns == ("k", "total")
    assert rows[0].total == 3
    assert rows[1]._mapping["k"] == "q"
    assert rows.to_arrow().to_pydict() == {"k": ["p", "q"], "total": [3, 2]}
    assert list(rows.to_pandas()["total"]) == [3, 2]
    assert rows.to_polars()["k"].to_list() == ["p", "q"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM rise", "the results of 'rise' are not kept"),
        ("SELECT * FROM s WINDOW(RANGE 7 MS)", "no query keeps"),
        ("DELETE FROM s", "one SELECT"),
        ("SELECT 1; SELECT 2", "one SELECT"),
        ("SELECT FROM WHERE", "syntax error"),
        (None, "an on-demand query is the text of a SELECT, not NoneType"),
    ],
)
def test_what_cannot_be_answered_is_refused(cep: Bridge, sql: str, message: str):
    with pytest.raises(QueryError, match=message):
        cep.query(sql)


def test_rows_of_which_only_totals_are_kept_are_refused_until_a_query_has_them():
    with connect() as cep:
        cep.register_stream("s", "k VARCHAR, a INTEGER")
        cep.create_query("sums", "SELECT k, SUM(a) AS n FROM s WINDOW(UNBOUNDED) GROUP BY k")
        cep.push_event("s", ["A", 1], 1)
        rows = "SELECT * FROM s WINDOW(UNBOUNDED)"
        with pytest.raises(
            QueryError, match="only totals, which the results of 'sums' have: create a query that is this"
        ):
            cep.query(rows)
        assert list(cep.query("SELECT k, n FROM sums")) == [("A", 1)]
        cep.create_query("all", rows)
        cep.push_event("s", ["A", 2], 2)
        assert list(cep.query(f"SELECT a FROM ({rows}) AS r")) == [(2,)]


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("¦SELEC * FROM s", "unexpected 'SELEC'; did you mean SELECT?"),
        ("SELECT a ¦FORM s", "unexpected 'FORM'; did you mean FROM?"),
        ("SELECT * FROM s ¦WINDW(RANGE 10 MS)", "unexpected 'WINDW'; did you mean WINDOW?"),
        ("SELECT a FROM s WHERE a > ¦AND", "something is missing"),
        ("SELECT ¦totl FROM total", "unknown column 'totl'; did you mean 'total'?"),
        ("SELECT\n  t.¦nope\nFROM total AS t", "unknown column 'nope'"),
        ("SELECT * FROM ¦totals", "unknown stream or table 'totals'; did you mean 'total'?"),
        ("SELECT * FROM s JOIN ¦nope ON true", "unknown stream or table 'nope'"),
        ("SELECT * FROM ¦nope MATCH_RECOGNIZE (ORDER BY a PATTERN (X))", "unknown stream or table 'nope'"),
        (
            "SELECT ¦nope FROM s MATCH_RECOGNIZE (ORDER BY a MEASURES X.a AS b PATTERN (X)) WHERE b > 0",
            "unknown column",
        ),
        ("SELECT * FROM ¦nope WINDOW(RANGE 10 MS)", "unknown stream 'nope'"),
        ("SELECT ¦foo(a) FROM s", "the database refuses: "),
        ("¦DELETE FROM s", "one SELECT"),
        ("SELECT 1; ¦SELECT 2", "one SELECT"),
    ],
)
def test_refusals_point_into_the_question(cep: Bridge, marked: str, message: str):
    before, after = marked.split("¦")
    with pytest.raises(QueryError) as refused:
        cep.query(before + after)
    assert message in refused.value.message
    assert "\n" not in refused.value.message
    assert (refused.value.text, refused.value.position) == (before + after, len(before))


def test_the_content_of_a_query_leaves_out_what_having_does(cep: Bridge):
    cep.register_stream("sales", "k VARCHAR, v INTEGER")
    cep.create_query("big", "SELECT k, SUM(v) AS x FROM sales WINDOW(RANGE 1 H) GROUP BY k HAVING SUM(v) > 10")
    cep.push_events("sales", [(["a", 5], 10_000), (["b", 1], 10_001), (["a", 100], 10_002)])
    assert list(cep.query("SELECT k, x FROM big")) == [("a", 105)]


@pytest.mark.long
def test_memory_does_not_grow_with_the_queries_that_were_answered(database: Database) -> None:
    def megabytes() -> float:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    with database.connect() as cep:
        cep.register_stream("s", "a INTEGER, k VARCHAR")
        cep.create_query("q", "SELECT k, SUM(a) AS total FROM s WINDOW(ROWS 5) GROUP BY k")
        used = []
        for number in range(6_000):
            cep.query(f"SELECT {number} AS number, k FROM q")
            if number % 200 == 0:
                cep.create_query("r", f"SELECT a FROM s WHERE a > {number}")
                cep.push_event("s", [number, "k"], number)
                cep.remove_query("r")
            if number % 3_000 == 2_999:
                used.append(megabytes())
        assert used[1] - used[0] < 15


@pytest.mark.parametrize("before", ["", "WITH x AS (SELECT 1 AS one) "])
@pytest.mark.parametrize("after", ["", " LIMIT 2"])
def test_two_columns_may_have_one_name(cep: Bridge, before: str, after: str):
    found = cep.query(f"{before}SELECT * FROM total AS t, total AS u WHERE t.k = u.k ORDER BY t.k{after}")
    assert found.columns[:3] == ("ts", "k", "total")  # then the same names, which some databases number
    assert [tuple(row) for row in found] == [(6, "p", 3) * 2, (6, "q", 2) * 2]
