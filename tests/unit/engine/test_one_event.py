"""Events that are pushed alone go by their inbox; nothing else tells them from the events of a batch."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import random
import re
import sqlite3
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot

import bridge
from bridge.engine.single_events.one_event import MachineStep, OneEventPlan
from bridge.engine.single_events.one_event_planning import one_event_plan
from bridge.rewrite.optimize.inline import inline_rows
from bridge.rewrite.optimize.prune import without_empty_tables

if TYPE_CHECKING:
    from tests.support.databases import Database

pytestmark = pytest.mark.some_databases(2)

KINDS = "a BIGINT, b VARCHAR, c DOUBLE, d BOOLEAN, e DATE, f TIMESTAMP"
ROWS: list[tuple[Any, ...]] = [
    (2**63 - 1, "it's 100%s \\ ?", -0.0, True, datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 4)),
    (-(2**63) + 1, "cep_value_0_cep", 1e300, False, datetime.date(1, 1, 1), datetime.datetime(2000, 1, 1)),
    (None, None, None, None, None, None),
    (0, "", 0.5, None, None, None),
]
QUERIES = {
    "rows": "SELECT * FROM s",
    "some": "SELECT a, b FROM s WHERE b LIKE '%\\%' OR b LIKE '%?%' OR c < 1",
    "window": "SELECT b, COUNT(*) AS n, MIN(a) AS least FROM s WINDOW(RANGE 3 MS) GROUP BY b",
    "count": "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 2 MS)",
    "pairs": "SELECT x.a AS p, y.a AS r FROM s WINDOW(ROWS 2) AS x, t WINDOW(RANGE 5 MS) AS y WHERE x.d = y.d OR x.d IS NULL",
    "match": "SELECT z FROM s MATCHING (PATTERN x y WITHIN 9 MS MEASURES z VARCHAR DEFINE x AS true DO z = b)",
    "onwards": "SELECT COUNT(*) AS n FROM some WINDOW(RANGE 9 MS)",
}


def told(cep: bridge.Bridge, kinds: str = KINDS) -> dict[str, list[Any]]:
    """What each query reports."""
    cep.register_stream("s", kinds)
    cep.register_stream("t", kinds)
    found: dict[str, list[Any]] = {}
    for name, text in QUERIES.items():
        rows = found[name] = []
        cep.create_query(name, text)
        cep.add_output_processor(name, lambda event, rows=rows: rows.append((event.timestamp, repr(event.payload))))
    return found


def test_all_types_are_bound_as_a_table_holds_them(database: Database) -> None:
    events = [(stream, row, ts) for ts, row in enumerate(ROWS * 2) for stream in "st"]
    with database.connect() as cep:
        at_once = told(cep)
        cep.push_all(events)
        assert cep._runner._one_event_plans._known == {}
    with database.connect() as cep:
        singly = told(cep)
        for event in events:
            cep.push_event(*event)
        assert cep._runner._one_event_plans._known["s"] is not None
        assert cep._runner._one_event_plans._known["t"] is not None
    assert singly == at_once
    assert all(at_once.values())


def test_decimals_are_what_their_columns_make_of_them(database: Database) -> None:
    found = []
    with database.connect() as cep:
        cep.create_query("q", "SELECT a, a / 2 AS half FROM s[a DECIMAL(9, 2)] WHERE a > 1")
        cep.add_output_processor("q", lambda event: found.append(tuple(event.payload.values())))
        for ts, value in enumerate(("5.00", "1.00", "1.25")):
            cep.push_event("s", [decimal.Decimal(value)], ts)
    assert found == [(decimal.Decimal("5.00"), 2.5), (decimal.Decimal("1.25"), 0.625)]


def test_a_correlation_does_not_ask_the_empty_inbox_of_the_other_stream(database: Database) -> None:
    with database.connect() as cep:
        told(cep)
        for ts, stream in enumerate("st"):
            cep.push_event(stream, ROWS[3], ts)
        for stream, other in ("st", "ts"):
            asked = [each.whole.text for _, each in cep._runner._one_event_plans._known[stream].results]
            assert asked and not any(re.search(rf"cep_inbox_{other}\b", text) for text in asked)


def test_explain_says_which_events_are_bound(database: Database) -> None:
    with database.connect() as cep:
        told(cep)
        assert "an event of s or t that is pushed alone is bound" in cep.explain("pairs")
        cep.create_query("jumps", "SELECT COUNT(*) AS n FROM s WINDOW(START a > 1 STOP a < 0)")
        assert "pushed alone" in cep.explain("jumps")
        cep.register_stream("d", "n DECIMAL(9, 2)")
        cep.create_query("decimals", "SELECT n FROM d WHERE n > 1")
        assert ("pushed alone" in cep.explain("decimals")) == (database.name != "sqlite")


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT a FROM e", None),
        ("SELECT q.a FROM (SELECT a FROM e) AS q CROSS JOIN t", None),
        ("SELECT a FROM t UNION ALL SELECT a FROM e", "SELECT a FROM t"),
        ("SELECT a FROM e UNION ALL SELECT a FROM t", "SELECT a FROM t"),
        ("SELECT a FROM e UNION ALL SELECT b FROM t", "SELECT a FROM e UNION ALL SELECT b FROM t"),
        ("SELECT a FROM t UNION SELECT a FROM e", "SELECT a FROM t UNION SELECT a FROM e"),
        ("SELECT q.a FROM (SELECT a FROM t UNION ALL SELECT a FROM e) AS q", "SELECT q.a FROM (SELECT a FROM t) AS q"),
        ("SELECT t.a FROM t LEFT JOIN e ON TRUE", "SELECT t.a FROM t LEFT JOIN e ON TRUE"),
        ("SELECT t.a FROM e LEFT JOIN t ON TRUE", None),
        ("SELECT t.a FROM e RIGHT JOIN t ON TRUE", "SELECT t.a FROM e RIGHT JOIN t ON TRUE"),
        ("SELECT COUNT(*) FROM e", "SELECT COUNT(*) FROM e"),
        ("SELECT a, COUNT(*) FROM e GROUP BY a", None),
        ("SELECT COUNT(*) OVER () FROM e", None),
        ("SELECT a FROM s.e", "SELECT a FROM s.e"),
        ("WITH e AS (SELECT 1 AS a) SELECT a FROM e", "WITH e AS (SELECT 1 AS a) SELECT a FROM e"),
    ],
)
def test_what_an_empty_table_gives(query: str, kept: str | None) -> None:
    found = without_empty_tables(sqlglot.parse_one(query), {"e"})
    assert (found and found.sql()) == kept


ROW = "(SELECT 7 AS ts, 2 AS a, 'x' AS b) AS t"


@pytest.mark.parametrize(
    ("query", "goes"),
    [
        (f"SELECT t.ts, w.a AS v FROM {ROW} JOIN w ON w.ts < t.ts AND w.a = t.a", True),
        (f"SELECT ts FROM {ROW} WHERE a > 1", True),
        ("SELECT t.ts FROM (SELECT 7 AS ts WHERE 1 > 2) AS t JOIN w ON TRUE", True),
        ("SELECT r.ts, r.n FROM (SELECT ts, ts - a AS n FROM (SELECT 7 AS ts, 2 AS a) AS s) AS r JOIN w ON w.ts = r.n", True),
        (f"SELECT w.ts FROM w CROSS JOIN {ROW} LEFT JOIN w AS v ON v.ts = t.a WHERE w.ts < t.ts", True),
        (f"SELECT w.ts FROM w LEFT JOIN {ROW} ON t.ts = w.ts", False),
        (f"SELECT t.ts, w.a FROM {ROW} LEFT JOIN w ON t.ts = w.ts", False),
        (f"SELECT t.ts, COUNT(*) AS n, MAX(w.a) FROM {ROW} JOIN w ON w.ts < t.ts GROUP BY t.ts, t.a", True),
        (f"SELECT t.ts, COUNT(*) AS n FROM {ROW} JOIN w ON w.ts > t.ts GROUP BY t.ts HAVING MAX(t.a) < 9", True),
        (f"SELECT w.a, t.ts, COUNT(*) AS n FROM {ROW} JOIN w ON TRUE GROUP BY w.a, t.ts ORDER BY t.ts, w.a", True),
        (f"SELECT t.ts, COUNT(*) AS n FROM {ROW} JOIN w ON TRUE GROUP BY 1", False),
        (f"SELECT t.ts FROM {ROW} JOIN w ON TRUE GROUP BY t.ts", True),
        (f"SELECT t.ts FROM {ROW} JOIN w ON w.ts > t.ts GROUP BY t.ts", True),
        (f"SELECT COUNT(*) AS n FROM {ROW} WHERE t.a > 2", True),
        (f"SELECT (SELECT COUNT(*) FROM w WHERE w.ts < t.ts) AS n FROM {ROW}", True),
        (f"SELECT (SELECT MAX(t.a) FROM w AS t) AS n, t.ts FROM {ROW}", True),
        (f"SELECT (SELECT COUNT(*) FROM w WHERE w.ts < b.s) AS n FROM (SELECT ts AS s FROM {ROW}) AS b", True),
        ("SELECT (SELECT COUNT(*) FROM w WHERE w.ts < s) AS n FROM (SELECT 7 AS s) AS t", False),
        (f"SELECT (SELECT MAX(a) FROM w) AS n, ts FROM {ROW}", False),
        (f"SELECT * FROM {ROW} JOIN w ON w.ts < t.ts", False),
        (f"SELECT CAST(t.b AS INTEGER) AS n FROM {ROW} WHERE t.a > 2", False),
        (f"SELECT CAST(t.b AS VARCHAR) AS n FROM {ROW} WHERE t.a > 1", True),
        (f"SELECT t.ts FROM {ROW} WHERE CASE WHEN t.a > 2 THEN CAST(t.b AS INTEGER) > 1 ELSE FALSE END", False),
        (f"SELECT t.ts FROM {ROW} JOIN w ON TRUE UNION ALL SELECT a FROM {ROW}", True),
        (f"SELECT DISTINCT t.ts FROM {ROW} JOIN w ON TRUE", False),
        ("SELECT e.n, w.a FROM (SELECT (SELECT MAX(m.ts) FROM w AS m) AS n) AS e JOIN w ON w.ts = e.n", False),
        ("SELECT w.a FROM (SELECT (SELECT MAX(m.ts) FROM w AS m) AS n) AS e JOIN w ON w.ts = e.n", True),
    ],
)  # fmt: skip
def test_values_stand_in_place_of_a_row(query: str, goes: bool) -> None:
    written = inline_rows(sqlglot.parse_one(query, dialect="duckdb")).sql("duckdb")
    values = "INSERT INTO w VALUES (1, 1), (5, 2), (6, NULL)"
    with duckdb.connect() as ours, contextlib.closing(sqlite3.connect(":memory:")) as other:
        for connection in (ours, other):
            connection.execute("CREATE TABLE w (ts BIGINT, a BIGINT)")
            connection.execute(values)
        found, expected = (ours.execute(text).fetchall() for text in (written, query))
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        assert sorted(other.execute(written).fetchall(), key=repr) == sorted(expected, key=repr)
    assert ("(SELECT 7" not in written and " AS e " not in written) == goes


def test_a_stream_is_asked_for_its_newest_event(database: Database) -> None:
    with database.connect() as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("q", "SELECT a FROM s WHERE a > 1")
        found: list[Any] = []
        cep.add_output_processor("q", found.append)
        for ts in (1, 2):
            cep.push_event("s", [ts], ts)
            for _ in range(2):
                assert list(cep.query("SELECT * FROM s")) == [(ts, ts)]
        cep.push_events("s", [([3], 3), ([4], 4)])
        assert sorted(cep.query("SELECT * FROM s")) == [(3, 3), (4, 4)]
        cep.advance_time(5)
        assert list(cep.query("SELECT * FROM s")) == []
    assert [event.payload["a"] for event in found] == [2, 3, 4]


def test_a_table_of_one_event_after_events_alone(database: Database) -> None:
    with database.connect() as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("q", "SELECT a FROM s WHERE a > 1")
        found: list[bridge.Event] = []
        cep.add_output_processor("q", found.append)
        for ts in (1, 2, 3):
            cep.push_event("s", [2], ts)
        cep.push_events("s", pa.table({"ts": [4], "a": [5]}))
        assert list(cep.query("SELECT a FROM s")) == [(5,)]
        cep.push_event("s", [7], 5)
        assert list(cep.query("SELECT a FROM s")) == [(7,)]
    assert [(event.payload["a"], event.timestamp) for event in found] == [(2, 1), (2, 2), (2, 3), (5, 4), (7, 5)]


def test_what_is_one_question_alone_opens_no_transaction(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    with database.connect() as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("q", "SELECT a FROM s WHERE a > 1")
        cep.add_output_processor("q", begun.append)
        cep.push_event("s", [1], 1)
        begin = type(cep._runner.database).begin
        monkeypatch.setattr(type(cep._runner.database), "begin", lambda self: (begun.append("BEGIN"), begin(self))[1])
        cep.push_event("s", [2], 2)
        assert begun == [bridge.Event({"a": 2}, 2)]
        cep.create_query("p", "SELECT STDDEV(a) AS d FROM s WINDOW(RANGE 3 MS)")
        cep.add_output_processor("p", lambda event: None)
        begun.clear()
        cep.push_event("s", [0], 3)
        assert begun == ["BEGIN"]


def test_a_failed_push_leaves_the_event_before(database: Database) -> None:
    with database.connect() as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("q", "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 3 MS)")
        cep.push_event("s", [1], 1)
        name = cep.database.fetch("SELECT MAX(ts) FROM cep_window_s")
        with pytest.raises(bridge.SchemaError):
            cep.push_event("s", ["x"], 2)
        assert (name, list(cep.query("SELECT a FROM s"))) == ([(1,)], [(1,)])


def test_a_text_that_looks_like_a_mark_is_a_text(database: Database) -> None:
    found = []
    with database.connect() as cep:
        cep.register_stream("s", "b VARCHAR")
        cep.create_query("q", "SELECT b FROM s WHERE b = 'cep_value_0_cep'")
        cep.add_output_processor("q", lambda event: found.append(event.payload["b"]))
        for ts, text in enumerate(("cep_value_0_cep", "?")):
            cep.push_event("s", [text], ts)
    assert found == ["cep_value_0_cep"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(4))
def test_a_plan_that_binds_only_what_is_new_equals_one_from_anew(seed: int) -> None:
    texts = {
        "filter": ("sql", "SELECT a, b FROM s WHERE a > {}"),
        "mean": ("sql", "SELECT b, AVG(c) AS m FROM s WINDOW(RANGE {} MS) GROUP BY b"),
        "match": (
            "sql",
            "SELECT z FROM s MATCHING (PATTERN x y WITHIN {} MS MEASURES z BIGINT DEFINE x AS true DO z = a)",
        ),
        "rows": (
            "sql",
            "SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.a AS p PATTERN (A B) WITHIN {} MS DEFINE B AS B.c > A.c)",
        ),
        "falls": (
            "sql",
            "SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.a AS p PATTERN (A B) WITHIN {} MS DEFINE B AS c < PREV(c))",
        ),
        "epl": ("epl", "select x.a as p from pattern [every x=s(a > {}) -> y=s(b = x.b)]"),
        "pairs": (
            "sql",
            "SELECT x.a AS p, y.a AS r FROM s WINDOW(ROWS {}) AS x, t WINDOW(RANGE 5 MS) AS y WHERE x.a = y.a",
        ),
    }
    chance = random.Random(seed)
    with bridge.connect() as cep:
        for stream in "st":
            cep.register_stream(stream, "a BIGINT, b VARCHAR, c DOUBLE")
        runner, names = cep._runner, list[str]()
        for number in range(1, 13):
            if names and chance.random() < 0.25:
                cep.remove_query(names.pop(chance.randrange(len(names))))
            language, text = texts[chance.choice(list(texts))]
            names.append(f"q{number}")
            cep.create_query(names[-1], text.format(number), language)
            cep.add_output_processor(names[-1], lambda event: None)
            cep.push_event(chance.choice("st"), (number, "x", 1.0), number)
            for stream in "st":
                entry, other = (cep._catalogue.streams[name] for name in (stream, "st".replace(stream, "")))
                running = [each for each in runner.active_operators() if each.runs_at(frozenset([stream]))]
                results = runner.results.at(frozenset([stream]), 1, final=False)
                memory = runner._one_event_plans._memory
                anew = one_event_plan(entry, running, results, {other.inbox}, cep.database, memory=memory)
                assert shown(runner._one_event_plans.of(entry)) == shown(anew)


def shown(plan: OneEventPlan | None) -> object:
    """The texts of a plan, its machines and its inboxes."""
    if plan is None:
        return None
    statements = [each[:2] for each in ([s.whole[:2], s.quiet and s.quiet[:2]] for _, s in plan.results)]
    steps = [
        (
            id(step.machine),
            [read.statement and read.statement[:2] for read in step.reads],
            [each[:2] for each in step.inserts],
        )
        if isinstance(step, MachineStep)
        else (step.whole[:2], step.quiet and step.quiet[:2])
        for step in plan.steps
    ]
    return statements, steps, plan.timed, plan.reads_clock, plan.takes_several, plan.is_one_select
