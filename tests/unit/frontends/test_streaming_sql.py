"""Standard streaming SQL: which windows a text gives, what is refused and where, and that trees are written back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import bridge
from bridge.errors import QueryError
from bridge.frontends.sql.statements import parse, statements
from bridge.frontends.statements import CreateQuery

if TYPE_CHECKING:
    from tests.support.databases import Database

TUMBLE = "TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
WINDOWS = "WINDOW(RANGE 10000 MS SLIDE 10000 MS)"

TRANSLATIONS = {
    f"SELECT k, COUNT(*) AS n FROM {TUMBLE} GROUP BY k, window_start": f"SELECT k, COUNT(*) AS n FROM s {WINDOWS} GROUP BY k",
    f"SELECT window_end AS e, k FROM {TUMBLE} GROUP BY e, k": f"SELECT ts AS e, k FROM (SELECT k FROM s {WINDOWS} GROUP BY k)",
    f"SELECT w.window_end - 5 AS x, MAX(w.v) AS m FROM {TUMBLE} AS w GROUP BY w.window_end HAVING COUNT(*) > 1": (
        f"SELECT ts - 5 AS x, m FROM (SELECT MAX(v) AS m FROM s {WINDOWS} HAVING COUNT(*) > 1)"
    ),
    f"SELECT COUNT(*) AS n FROM {TUMBLE} WHERE v > 1 AND window_start >= TIMESTAMP '1970-01-01 00:01:00' GROUP BY window_end": (
        f"SELECT n FROM (SELECT COUNT(*) AS n FROM (SELECT * FROM s WHERE v > 1) {WINDOWS}) WHERE (ts - 10000) >= 60000"
    ),
    f"SELECT COUNT(*) AS n FROM {TUMBLE} WHERE (v > 1 AND (window_end > 5 AND k = 'a')) GROUP BY window_end": (
        f"SELECT n FROM (SELECT COUNT(*) AS n FROM (SELECT * FROM s WHERE v > 1 AND k = 'a') {WINDOWS}) WHERE ts > 5"
    ),
    f"SELECT MIN(ts) AS first FROM {TUMBLE} GROUP BY window_end": (
        f"SELECT MIN(event_ts) AS first FROM (SELECT *, ts AS event_ts FROM s) {WINDOWS}"
    ),
    f"SELECT SUM(v) AS t FROM (SELECT v + 1 AS v, window_end AS e FROM {TUMBLE} WHERE k = 'a') GROUP BY e": (
        f"SELECT SUM(v) AS t FROM (SELECT v + 1 AS v FROM s WHERE k = 'a') {WINDOWS}"
    ),
    "SELECT COUNT(*) AS n FROM HOP(s, ts, INTERVAL '4 SECONDS', INTERVAL '0:10' MINUTE TO SECOND) GROUP BY window_end": (
        "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 10000 MS SLIDE 4000 MS OFFSET 2000 MS)"
    ),
    "SELECT COUNT(*) AS n FROM TUMBLE(SIZE => INTERVAL '1' DAY, DATA => TABLE s, TIMECOL => DESCRIPTOR(ts), "
    "OFFSET => INTERVAL '-8' HOURS) GROUP BY window_end": (
        "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 86400000 MS SLIDE 86400000 MS OFFSET 57600000 MS)"
    ),
    "SELECT s.k, window.start AS since, COUNT(*) AS n FROM s GROUP BY k, window(ts, '10 seconds', '4 seconds', '-1 second')": (
        "SELECT k, ts - 10000 AS since, n FROM (SELECT k, COUNT(*) AS n FROM s "
        "WINDOW(RANGE 10000 MS SLIDE 4000 MS OFFSET 1000 MS) GROUP BY k)"
    ),
    "SELECT s.k, u.x AS x FROM s CROSS JOIN UNNEST(ARRAY[v, s.v + 1]) AS u (x) WHERE x > 1": (
        "SELECT k, x AS x FROM (SELECT *, v AS x FROM s UNION ALL SELECT *, v + 1 AS x FROM s) WHERE x > 1"
    ),
    "SELECT *, MAX(v) OVER (ORDER BY ts ROWS 1 PRECEDING) AS m FROM (SELECT k, v FROM s)": (
        "SELECT LAST(k) AS k, LAST(v) AS v, MAX(v) AS m FROM (SELECT k, v FROM s) WINDOW(ROWS 2)"
    ),
    "SELECT window.start AS v FROM s": "SELECT window.start AS v FROM s",
    "SELECT SUM(v) AS t FROM s GROUP BY DATE_TRUNC('minute', ts)": (
        "SELECT SUM(v) AS t FROM s WINDOW(RANGE 60000 MS SLIDE 60000 MS)"
    ),
    'SELECT "order", COUNT(*) AS n FROM TUMBLE("my s", "ts", INTERVAL \'1\' SECOND) GROUP BY "order", window_end': (
        'SELECT "order", COUNT(*) AS n FROM "my s" WINDOW(RANGE 1000 MS SLIDE 1000 MS) GROUP BY "order"'
    ),
    "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS 2 PRECEDING) AS t, v * 2 AS w FROM s WHERE v > 1": (
        "SELECT k, SUM(v) AS t, LAST(v) * 2 AS w FROM (SELECT * FROM s WHERE v > 1) WINDOW(PARTITION BY k ROWS 3) GROUP BY k"
    ),
    "SELECT LAG(v, 2, 0) OVER (ORDER BY ts) AS was FROM s": (
        "SELECT CASE WHEN COUNT(*) > 2 THEN LAST(v, 2) ELSE 0 END AS was FROM s WINDOW(ROWS 3)"
    ),
    "SELECT v FROM s QUALIFY v > AVG(v) OVER (ORDER BY ts ROWS UNBOUNDED PRECEDING)": (
        "SELECT LAST(v) AS v FROM s WINDOW(UNBOUNDED) HAVING LAST(v) > AVG(v)"
    ),
    "SELECT v FROM (SELECT v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM s) WHERE n < 3 AND v > 1": (
        "SELECT v FROM (SELECT v FROM s WINDOW(PARTITION BY k FIRST ROWS 2)) WHERE v > 1"
    ),
    "SELECT v, ts FROM s QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) = 1": (
        "SELECT v FROM s WINDOW(PARTITION BY k ROWS 1)"
    ),
    "SELECT DISTINCT k, v + 1 AS w FROM s": (
        "SELECT * FROM (SELECT k, v + 1 AS w FROM s) WINDOW(PARTITION BY k, w FIRST ROWS 1)"
    ),
    "SELECT k FROM s UNION SELECT k FROM t ORDER BY ts LIMIT 3": (
        "SELECT * FROM (SELECT * FROM (SELECT k FROM s UNION ALL SELECT k FROM t) "
        "WINDOW(PARTITION BY k FIRST ROWS 1)) WINDOW(FIRST ROWS 3)"
    ),
    "SELECT o.id FROM o JOIN s ON o.id = s.id AND s.ts < o.ts + INTERVAL '4' SECOND AND o.ts <= s.ts": (
        "SELECT o.id FROM o, s WHERE o.id = s.id AND s.ts < o.ts + 4000 AND o.ts <= s.ts"
    ),
}  # fmt: skip
"""Texts, and the same in the bridge's own clauses."""


@pytest.mark.parametrize("text", TRANSLATIONS)
def test_translations(text: str) -> None:
    node = parse(text)
    assert str(node) == TRANSLATIONS[text]
    assert parse(str(node)) == node


REFUSED = """
SELECT COUNT(*) FROM TUMBLE(TABLE s, DESCRIPTOR(¦proctime), INTERVAL '1' SECOND) GROUP BY window_end | connect(clock='system')
SELECT COUNT(*) FROM TUMBLE(TABLE s, DESCRIPTOR(¦window_time), INTERVAL '1' SECOND) GROUP BY window_end | which is ts
SELECT COUNT(*) FROM TUMBLE(TABLE s, DESCRIPTOR(ts), ¦INTERVAL '1' MONTH) GROUP BY window_end        | days or less
SELECT COUNT(*) FROM TUMBLE(TABLE s, DESCRIPTOR(ts), ¦INTERVAL '1:2:3' MINUTE TO SECOND) GROUP BY window_end | do not fit
SELECT COUNT(*) FROM TUMBLE(TABLE s, DESCRIPTOR(ts)¦) GROUP BY window_end                            | SIZE
SELECT COUNT(*) FROM TUMBLE(TABLE s, DESCRIPTOR(ts), ¦SLIDE => INTERVAL '1' S) GROUP BY window_end | DATA, TIMECOL, SIZE
SELECT COUNT(*) FROM CUMULATE(¦TABLE s, DESCRIPTOR(ts), INTERVAL '3' S, INTERVAL '10' S) GROUP BY window_end | size of 9000 MS
SELECT COUNT(*) FROM CUMULATE(s, ts, INTERVAL '3' S, INTERVAL '9' S) GROUP BY ¦window_start          | window_end is missing
SELECT COUNT(*) FROM ¦TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' SECOND)                           | window_end is missing
SELECT a FROM ¦SESSION(TABLE s, DESCRIPTOR(ts), INTERVAL '1' SECOND)                                 | its end is not known
SELECT COUNT(*) FROM s WINDOW ¦TUMBLING (ADVANCE BY 1 S) GROUP BY a                                  | SIZE is missing
SELECT COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 S, ¦GRACE PERIOD 1 S) GROUP BY a                      | lateness
SELECT COUNT(*) FROM s GROUP BY window(ts, ¦'1 month')                                               | days or less
SELECT x FROM s CROSS JOIN ¦UNNEST(tags) AS u (x)                                                    | lists of any length
SELECT x FROM s, t CROSS JOIN ¦UNNEST(ARRAY[1]) AS u (x)                                             | join of the others
SELECT x FROM ¦UNNEST(ARRAY[1]) AS u (x)                                                             | beside a stream
SELECT COUNT(*) FROM s GROUP BY ¦window(ts)                                                          | '10 seconds'
SELECT COUNT(*) FROM s WINDOW(ROWS 3) GROUP BY ¦TUMBLE(ts, INTERVAL '1' SECOND)                      | leave it out
SELECT SUM(a) ¦OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM s                    | rows to come
SELECT ¦ts, LEAD(a) OVER (ORDER BY ts) AS b FROM s                                                     | ts AS t
SELECT LEAD(a, 2) OVER (ORDER BY ts), SUM(a) ¦OVER (ORDER BY ts ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) FROM s | equally far
SELECT LEAD(a) OVER (ORDER BY ts) AS b, SUM(a) ¦OVER (ORDER BY ts ROWS 1 PRECEDING) AS t FROM s        | OVER other rows
SELECT SUM(a) OVER (ORDER BY ts ROWS 1 PRECEDING), MAX(a) ¦OVER (ORDER BY ts ROWS 2 PRECEDING) FROM s | the same rows
SELECT *, SUM(a) OVER (ORDER BY ts ROWS 1 PRECEDING) FROM s                                          | name the columns
SELECT SUM(a) AS t, ROW_NUMBER() ¦OVER (ORDER BY ts) AS n FROM s GROUP BY b                          | GROUP BY into a sub-query
SELECT a FROM s WHERE ROW_NUMBER() ¦OVER (ORDER BY ts) = 1                                           | OVER is not supported here
SELECT a FROM (SELECT a, ROW_NUMBER() ¦OVER (ORDER BY a) AS n FROM s) WHERE n BETWEEN 2 AND 3        | may get another number
SELECT a FROM (SELECT a, ROW_NUMBER() ¦OVER (ORDER BY a) AS n FROM s) WHERE n <= 3 AND n >= 2        | may get another number
SELECT a FROM (SELECT a, ROW_NUMBER() ¦OVER (ORDER BY ts DESC) AS n FROM s) WHERE n <= 3 AND n > 1   | may get another number
SELECT a FROM (SELECT a, ROW_NUMBER() OVER (ORDER BY a ¦NULLS LAST) AS n FROM s) WHERE n <= 3        | ASC has it first
SELECT a FROM s QUALIFY RANK() OVER (ORDER BY b NULLS FIRST, a DESC ¦NULLS FIRST) <= 3               | DESC last
SELECT SUM(a) ¦OVER (ORDER BY ts GROUPS 1 PRECEDING) AS t FROM s                                     | a frame is one of ROWS
SELECT SUM(a) ¦OVER (ORDER BY ts ROWS 1 PRECEDING EXCLUDE CURRENT ROW) FROM s | a frame is one of ROWS
SELECT SUM(a) ¦OVER (ORDER BY ts RANGE INTERVAL '1' SECOND PRECEDING EXCLUDE TIES) FROM s | a frame is one of ROWS
SELECT a FROM (SELECT a, ROW_NUMBER() ¦OVER (ORDER BY a) AS n FROM s)                                | changes with every row
SELECT o.a FROM o ¦LEFT JOIN s ON o.a = s.a AND s.ts >= o.ts                                         | needs bounds of time
SELECT ¦o.ts, s.a FROM o JOIN s ON s.ts BETWEEN o.ts AND o.ts + INTERVAL '1' SECOND                  | o.ts AS o_ts
SELECT COUNT(*) FROM o ¦LEFT JOIN s ON s.ts BETWEEN o.ts AND o.ts + INTERVAL '1' SECOND              | join into a sub-query
SELECT a FROM s WHERE ¦a NOT IN (SELECT a FROM t)                                                      | NOT EXISTS
SELECT a FROM s WHERE a = 1 ¦OR a IN (SELECT a FROM t)                                                 | UNION
SELECT a FROM s WHERE b AND (a IN (¦SELECT a FROM t))                                                  | conditions of WHERE
SELECT a FROM s WHERE ¦EXISTS (SELECT 1 FROM s AS t WHERE t.a = s.a AND t.ts BETWEEN s.ts - 5 AND s.ts) | its own partner
SELECT a FROM s WHERE EXISTS (SELECT b FROM t ¦GROUP BY b)                                             | anything else into FROM
SELECT a FROM s WHERE ¦EXISTS (SELECT b, COUNT(*) FROM t WHERE t.a = s.a AND t.ts = s.ts)              | is one row
SELECT a FROM s WHERE ¦a IN (SELECT MAX(a) FROM t WHERE t.ts = s.ts)                                   | is one row
SELECT o.a FROM o ¦JOIN s FOR SYSTEM_TIME AS OF o.ts ON s.a = 1                                       | ON equates a column
SELECT * FROM s WHERE ¦NOT EXISTS (SELECT 1 FROM t WHERE t.a = s.a AND t.ts = s.ts)                    | name the columns
SELECT a, ts FROM s WHERE ¦NOT EXISTS (SELECT 1 FROM t WHERE t.a = s.a AND t.ts = s.ts)                | ts AS t
SELECT MAX(a) FROM s WHERE ¦NOT EXISTS (SELECT 1 FROM t WHERE t.a = s.a AND t.ts = s.ts)               | sub-query into FROM
SELECT a FROM s WHERE ¦NOT EXISTS (SELECT 1 FROM t WHERE t.a = s.a)                                    | needs bounds of time
SELECT o.a FROM o ¦RIGHT JOIN s FOR SYSTEM_TIME AS OF o.ts ON o.a = s.a                              | JOIN and LEFT JOIN are
"""


@pytest.mark.parametrize("line", [line for line in REFUSED.splitlines() if line.strip()])
def test_refusals(line: str) -> None:
    marked, message = re.split(r"\s*\| ", line)
    before, _, after = marked.partition("¦")
    with pytest.raises(QueryError) as refused:
        parse(before + after)
    assert message.strip() in refused.value.message
    assert not after or refused.value.position == len(before)


def test_views_of_a_script_keep_their_time() -> None:
    script = """CREATE VIEW v AS SELECT ts AS at, a FROM s;
                SELECT COUNT(*) AS n FROM TUMBLE(TABLE v, DESCRIPTOR(at), INTERVAL '1' SECOND) GROUP BY window_end"""
    view, query = statements(script)
    assert isinstance(view, CreateQuery)
    assert str(query.node) == "SELECT COUNT(*) AS n FROM v WINDOW(RANGE 1000 MS SLIDE 1000 MS)"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT window_start, SUM(v) AS t FROM {TUMBLE} GROUP BY window_start",
        "SELECT k, COUNT(*) AS n FROM s GROUP BY k, SESSION(ts, INTERVAL '1' SECOND)",
        "SELECT v FROM s QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) <= 2",
        "SELECT a.v, b.v AS w FROM s a LEFT JOIN s b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' SECOND",
    ],
)
def test_explain(text: str) -> None:
    with bridge.connect() as cep:
        cep.register_stream("s", "k VARCHAR, v INTEGER")
        cep.create_query("q", text)
        assert "s" in cep.explain("q")


EVENTS = [
    ("a", 10, 1000),
    ("a", 3, 1500),
    ("b", 5, 4000),
    ("a", 7, 9999),
    ("a", 1, 10000),
    ("b", 2, 25000),
    ("b", 0, 90001),
]
"""Rows (k, v) with their times."""

RESULTS: dict[str, list[tuple[object, ...]]] = {
    # the first groups of a window by an aggregate are reported once, at its end
    f"""SELECT k, n, window_end FROM (
            SELECT k, n, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS rn
            FROM (SELECT k, window_start, window_end, COUNT(*) AS n FROM {TUMBLE} GROUP BY k, window_start, window_end))
        WHERE rn = 1""": [(10000, "a", 3, 10000), (20000, "a", 1, 20000), (30000, "b", 1, 30000)],
    # HAVING is asked of the whole group
    f"""SELECT window_end, SUM(n) AS n, COUNT(*) AS keys
        FROM (SELECT k, window_end, COUNT(*) AS n FROM {TUMBLE} GROUP BY k, window_end)
        GROUP BY window_end HAVING COUNT(*) < 2""": [(20000, 20000, 1, 1), (30000, 30000, 1, 1)],
    # … and of the whole session
    """SELECT SESSION_START(ts, INTERVAL '5' SECOND) AS since, COUNT(*) AS n
       FROM s GROUP BY SESSION(ts, INTERVAL '5' SECOND) HAVING COUNT(*) < 3""": [(15001, 9999, 2), (30001, 25000, 1)],
}


@pytest.mark.parametrize("together", [False, True], ids=["singly", "together"])
@pytest.mark.parametrize("text", RESULTS, ids=range(len(RESULTS)))
def test_groups_of_an_instant_are_whole(text: str, together: bool, embedded: Database) -> None:
    found: list[tuple[object, ...]] = []
    with embedded.connect() as cep:
        cep.register_stream("s", "k VARCHAR, v INTEGER")
        cep.create_query("q", text)
        cep.add_output_processor("q", lambda event: found.append((event.timestamp, *event.payload.values())))
        events = [([k, v], ts) for k, v, ts in EVENTS]
        for part in [events] if together else [[event] for event in events]:
            cep.push_events("s", part)
    assert found == RESULTS[text]


def test_windows_of_single_rows_are_not_grouped_again() -> None:
    inner = "SELECT *, v + 1 AS w FROM HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)"
    with pytest.raises(QueryError, match="directly over the window function") as refused:
        parse(f"SELECT COUNT(*) AS n FROM ({inner}) GROUP BY window_end")
    assert refused.value.text is not None and refused.value.text[refused.value.position or 0 :] == "window_end"


VIEWS = {
    "renamed": "SELECT ts AS at, v FROM s",
    "of_view": "SELECT COUNT(*) AS n FROM TUMBLE(TABLE renamed, DESCRIPTOR(at), INTERVAL '5' MILLISECOND) GROUP BY window_end",
    "tumbled": "SELECT k, window_end, SUM(v) AS t FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '5' MILLISECOND) "
    "GROUP BY k, window_end",
    "of_groups": "SELECT COUNT(*) AS n, MAX(t) AS most FROM tumbled GROUP BY window_end",
}
"""Queries that read others by name: one by the time that it has renamed, one by the windows of its groups."""


def test_queries_that_exist_are_views(embedded: Database) -> None:
    found: list[tuple[str, int, object]] = []
    with embedded.connect() as cep:
        cep.register_stream("s", "k VARCHAR, v INTEGER")
        for name, text in VIEWS.items():
            cep.create_query(name, text)
            cep.add_output_processor(
                name, lambda event, name=name: found.append((name, event.timestamp, [*event.payload.values()]))
            )
        cep.push_events("s", [(["a", 1], 1), (["b", 2], 2), (["a", 4], 4)])
        cep.advance_time(5)
    assert sorted(found)[:2] == [("of_groups", 5, [2, 5]), ("of_view", 5, [3])]


def test_queries_of_a_mapping_are_views() -> None:
    events = [({"k": k, "v": v}, ts) for k, v, ts in (("a", 1, 1), ("b", 2, 2), ("a", 4, 4))]
    found = bridge.replay({"s": events}, VIEWS, schemas={"s": "k VARCHAR, v INTEGER"}, end=5)
    assert [found[name].to_pylist() for name in ("of_view", "of_groups")] == [
        [{"ts": 5, "n": 3}],
        [{"ts": 5, "n": 2, "most": 5}],
    ]


@pytest.mark.parametrize("together", [False, True])
def test_semi_join_that_keeps_all_rows(together: bool, embedded: Database) -> None:
    found: list[tuple[int, ...]] = []
    with embedded.connect() as cep:
        for stream in "st":
            cep.register_stream(stream, "k INTEGER, v INTEGER")
        cep.create_query(
            "q",
            """SELECT k, v, ts AS since FROM s WINDOW(UNBOUNDED)
               WHERE v BETWEEN 1 AND 5 AND k IN (SELECT k FROM t WINDOW(UNBOUNDED) WHERE v > 0) AND v NOT IN (3)
               AND CASE WHEN v > 0 AND v NOT BETWEEN 8 AND 9 THEN TRUE ELSE FALSE END AND v IS NOT NULL""",
        )
        cep.add_output_processor("q", lambda event: found.append((event.timestamp, *event.payload.values())))
        events = [
            ("s", [1, 1], 1), ("s", [1, 3], 2), ("s", [2, 2], 3), ("t", [1, 0], 4), ("t", [1, 7], 5), ("t", [1, 7], 5),
            ("s", [1, 4], 6), ("s", [1, 6], 7), ("t", [None, 7], 8), ("s", [None, 2], 9), ("t", [2, 7], 10),
        ]  # fmt: skip
        for event in [events] if together else [[event] for event in events]:
            cep.push_all(event)
    assert found == [(5, 1, 1, 1), (6, 1, 4, 6), (10, 2, 2, 3)]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT *, LEAD(v) OVER (ORDER BY ts) AS x FROM named", ["k", "v", "x"]),
        ("SELECT *, SUM(v) OVER (ORDER BY ts) AS x FROM named", ["k", "v", "x"]),
        (
            "SELECT * FROM named a LEFT JOIN (SELECT v, k AS w FROM s) b ON a.k = b.w AND a.ts = b.ts",
            ["k", "a_v", "b_v", "w"],
        ),
        ("SELECT * FROM named WHERE NOT EXISTS (SELECT * FROM t WHERE t.k = named.k AND t.ts = named.ts)", ["k", "v"]),
        ("SELECT DISTINCT * FROM named", ["k", "v"]),
    ],
)
def test_star_of_known_columns(text: str, columns: list[str]) -> None:
    found: list[list[str]] = []
    with bridge.connect() as cep:
        for stream in "st":
            cep.register_stream(stream, "k VARCHAR, v INTEGER")
        cep.create_query("named", "SELECT k, v FROM s")
        cep.create_query("q", text)
        cep.add_output_processor("q", lambda event: found.append([*event.payload]))
        cep.push_event("s", ["a", 1], 1)
        cep.advance_time(10)
        cep.finish()
    assert found == [columns]
