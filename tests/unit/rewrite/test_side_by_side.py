"""Queries whose window frames differ in their bounds, told side by side, give what each gives by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import sqlglot

from bridge.rewrite.optimize.constants import NotAlike
from bridge.rewrite.optimize.side_by_side import side_by_side
from bridge.rewrite.settings import Settings
from tests.random.test_differential import same_rows
from tests.support.databases import DATABASES, one_of
from windows.databases import base
from windows.databases.mariadb import MySQL
from windows.databases.postgresql import PostgreSQL
from windows.databases.sqlite import SQLite

if TYPE_CHECKING:
    from tests.support.databases import Database

row_store = one_of([database for database in DATABASES if database.name != "duckdb"])
"""DuckDB has frames whose bounds are values."""

QUERIES = (
    "SELECT COUNT(*) AS n FROM s WINDOW(RANGE {w} MS)",
    "SELECT MAX(a) AS m, COUNT(a) AS m_0 FROM s WINDOW(RANGE {w} MS)",
    "SELECT b, MIN(c) AS low, SUM(a) + 1 AS t, '{w}' AS wide FROM s WINDOW(RANGE {w} MS) GROUP BY b",
    "SELECT b, SUM(a) AS t FROM s WINDOW(RANGE {w} MS) GROUP BY b HAVING COUNT(*) > 1",
    "SELECT COUNT(*) AS n FROM s WINDOW(RANGE {w} MS) WHERE a > 2",
    "SELECT AVG(c) AS mean, MAX(c) AS top FROM s WINDOW(RANGE {w} MS)",
)
WINDOWS = (1, 3, 7, 20, 20)

Rows = dict[str, list[tuple[int, tuple[Any, ...]]]]


@contextlib.contextmanager
def on_databases(done: bool) -> Iterator[None]:
    """On every database, or on none; no panes, which would be faster."""
    with contextlib.ExitStack() as patched:
        for kind in (base.Database, MySQL):
            patched.enter_context(mock.patch.object(kind, "side_by_side_frames", done))
        for kept in (SQLite, PostgreSQL):
            patched.enter_context(mock.patch.object(kept, "pane_sizes", ()))
        yield


def history(seed: int) -> list[tuple[tuple[Any, ...], int]]:
    """Events with ties, gaps, keys and values that are NULL."""
    rng, ts, events = Random(seed), -50, []
    values = [None, *range(8)], [None, 1, 2], [None, 0.5, 7.25, -3.1]
    for _ in range(80):
        ts += rng.choice([0, 0, 1, 1, 2, 5, 30 if rng.random() < 0.1 else 1])
        events.append((tuple(map(rng.choice, values)), ts))
    return events


def told(
    database: Database, events: list[tuple[tuple[Any, ...], int]], size: int, batch: bool, settings: Settings
) -> tuple[Rows, int]:
    """The results of all queries, the events pushed so many at a time; and how many statements tell of several queries."""
    rows: Rows = {}

    def taken(name: str) -> Callable[[Any], None]:
        found = rows[name] = []
        if not batch:
            return lambda event: found.append((event.timestamp, tuple(event.payload.values())))
        return lambda table: found.extend((row.pop("ts"), tuple(row.values())) for row in table.to_pylist())

    with database.connect(settings) as cep:
        cep.register_stream("s", "a INTEGER, b INTEGER, c DOUBLE")
        for place, text in enumerate(QUERIES):
            for number, window in enumerate(WINDOWS):
                name = f"q{place}_{number}"
                cep.create_query(name, text.format(w=window))
                cep.add_output_processor(name, taken(name), batch=batch)
        for start in range(0, len(events), size):
            cep.push_events("s", events[start : start + size])
        several = [report for report in cep._runner.results.of("any") if report.places]
    return rows, len(several)


@pytest.mark.one_in(4)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("batch", [False, True])
def test_side_by_side_makes_no_difference(seed: int, batch: bool, database: Database):
    events = history(seed)
    with on_databases(False):
        expected, none = told(database, events, 40, batch, Settings(arrow_from=1))
        assert none == 0
    for settings in (Settings(arrow_from=1), Settings(arrow_from=1, side_by_side=2, brief=0)):
        with on_databases(True):
            actual, several = told(database, events, 40, batch, settings)
        assert [name for name in expected if not same_rows(expected[name], actual[name])] == []
        assert several or database.name == "duckdb"


def test_a_brief_push_asks_query_by_query_where_windows_are_long(row_store: Database):
    found: dict[str, list[int]] = {"p": [], "q": []}
    with on_databases(True), row_store.connect(Settings(side_by_side_rows=500)) as cep:
        cep.register_stream("s", "a INTEGER")
        for name, window in (("p", 600), ("q", 900)):
            cep.create_query(name, f"SELECT SUM(a) AS n FROM s WINDOW(RANGE {window} MS)")
            cep.add_output_processor(name, lambda event, name=name: found[name].append(event.payload["n"]))
        for start in (0, 50, 100):
            cep.push_events("s", [([1], start + place // 10) for place in range(500)])
        (report,) = cep._runner.results.of("any")
        (short_push,) = report.special_pushes
        assert not short_push.is_for(count=40, lasting=60)
        assert short_push.is_for(count=50, lasting=60)
        assert [len(each.members) for each in short_push.statements] == [1, 1]
    assert found["p"] == found["q"] == list(range(1, 1501))


def test_queries_come_and_go(row_store: Database):
    found: list[tuple[str, int]] = []
    with on_databases(True), row_store.connect() as cep:
        cep.register_stream("s", "a INTEGER")

        def add(window: int) -> None:
            cep.create_query(f"q{window}", f"SELECT SUM(a) AS n FROM s WINDOW(RANGE {window} MS)")
            cep.add_output_processor(f"q{window}", lambda e: found.append((f"q{window}", e.payload["n"])))

        def push(start: int) -> dict[str, int]:
            found.clear()
            cep.push_events("s", [([1], start + place) for place in range(20)])
            return dict(found)

        for window in (5, 7, 30):
            add(window)
        assert push(0) == {"q5": 5, "q7": 7, "q30": 20}
        assert [len(report.places) for report in cep._runner.results.of("any")] == [3]
        add(40)  # its window begins here, in a table of its own
        cep.remove_query("q7")
        assert push(20) == {"q5": 5, "q30": 30, "q40": 20}
        assert [len(report.places) for report in cep._runner.results.of("any")] == [2, 0]


def alike(*texts: str) -> str:
    return side_by_side([sqlglot.parse_one(text) for text in texts]).statement.sql()


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (("SELECT a, 1 AS b FROM t", "SELECT a, 2 AS b FROM u"), "other rows"),
        (("SELECT a, 1 AS b FROM t WHERE a > 1", "SELECT a, 2 AS b FROM t WHERE a > 2"), "other conditions"),
        (("SELECT a, 1 AS b FROM t WHERE a > 1", "SELECT a, 2 AS b FROM t"), "other conditions"),
        (("SELECT MAX(a) AS b FROM t", "SELECT MAX(a + 1) AS b FROM t"), "aggregate of all rows"),
        (("SELECT 1 AS b FROM t GROUP BY a", "SELECT 2 AS b FROM t GROUP BY a"), "more than rows"),
        (("SELECT 1 AS b FROM t LIMIT 1", "SELECT 2 AS b FROM t LIMIT 1"), "more than rows"),
        (("SELECT 1 AS b, a AS b_0 FROM t", "SELECT 2 AS b, a AS b_0 FROM t"), "two columns of one name"),
        (("SELECT 1 AS b FROM t", "SELECT 2 AS c FROM t"), "other names"),
        (("SELECT 1 AS b FROM t ORDER BY b", "SELECT 2 AS b FROM t ORDER BY b"), "an order by what differs"),
        (
            tuple(f"SELECT b FROM (SELECT {k} AS b FROM t) AS q WHERE b > 1" for k in (1, 2)),
            "a condition on what differs",
        ),
        (
            tuple(f"SELECT (SELECT MAX(x) FROM u WHERE x < b) AS c FROM (SELECT {k} AS b FROM t) AS q" for k in (1, 2)),
            "a sub-query about what differs",
        ),
        (tuple(f"SELECT 1 AS a UNION ALL SELECT {k} AS a" for k in (1, 2)), "is no SELECT"),
    ],
)
def test_statements_that_cannot_be_one(texts: tuple[str, ...], why: str):
    with pytest.raises(NotAlike, match=why):
        alike(*texts)


def test_what_is_equal_stands_once():
    one = alike("SELECT a, b + 1 AS c, 1 AS d FROM t", "SELECT a, b + 1 AS c, 2 AS d FROM t")
    assert one == 'SELECT a, b + 1 AS c, 1 AS "d_0", 2 AS "d_1" FROM t'
