"""Aggregates over the last rows (`ROWS n`) are the same by frames of numbers, of many events, and by a join, of few."""

from __future__ import annotations

import contextlib
import functools
from random import Random
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from tests.random.test_differential import same_rows
from tests.support.databases import DATABASES
from tests.support.pushes import Events, Rows, told
from windows.databases import base
from windows.databases.mariadb import MySQL
from windows.databases.sqlite import SQLite

if TYPE_CHECKING:
    from tests.support.databases import Database

SCHEMA = "k INTEGER, p DOUBLE, d VARCHAR"
BY_FRAMES = (
    "SELECT AVG(p) AS v, MAX(p) AS m, COUNT(*) AS n, SUM(k) AS t FROM s WINDOW(ROWS 3)",
    "SELECT k, SUM(p) AS v, MIN(d) AS m, COUNT(*) AS n FROM s WINDOW(ROWS 7) GROUP BY k",
    "SELECT k, AVG(p) AS v, LAST(p) AS l FROM s WINDOW(PARTITION BY k ROWS 2) GROUP BY k",
    "SELECT d, k, MAX(p) AS v FROM s WINDOW(PARTITION BY k ROWS 4) GROUP BY d, k",
    "SELECT k, MAX(p) AS v FROM s WINDOW(ROWS 9) WHERE k > 1 GROUP BY k HAVING COUNT(*) > 1",
    "SELECT k + 1 AS next, MIN(p) AS v FROM s WINDOW(PARTITION BY k + 1 ROWS 4) GROUP BY k + 1",
    "SELECT twice, SUM(twice) AS v FROM (SELECT k * 2 AS twice FROM s WINDOW(ROWS 6)) AS q GROUP BY twice",
    "SELECT SUM(k) AS v, COUNT(p) AS n FROM s WINDOW(ROWS 1)",
    "SELECT AVG(p) AS v FROM s WINDOW(ROWS 1000)",
    "SELECT SUM(q) AS v FROM (SELECT p AS q FROM s WHERE k > 1) AS f WINDOW(ROWS 5)",
    "SELECT AVG(v) AS v FROM (SELECT k, MAX(p) AS v FROM s WINDOW(ROWS 4) GROUP BY k) AS q WINDOW(ROWS 3)",
)
OTHERS = (
    "SELECT AVG(p) AS v, SUM(k) AS t FROM s WINDOW(PARTITION BY k ROWS 2)",
    "SELECT d, COUNT(*) AS n FROM s WINDOW(PARTITION BY k ROWS 2) GROUP BY d",
)
"""What is no frame: rows that come and go by other keys than those of the groups."""

CHANGES = (
    "SELECT AVG(p) AS v FROM s WINDOW(ROWS 3) EMIT ON EVERY CHANGE",
    "SELECT k, AVG(p) AS v, COUNT(*) AS n FROM s WINDOW(ROWS 5) GROUP BY k EMIT ON EVERY CHANGE",
    "SELECT k, d, MAX(p) AS v FROM s WINDOW(PARTITION BY k ROWS 2) GROUP BY k, d EMIT ON EVERY CHANGE",
    "SELECT k, MIN(d) AS m, SUM(k) AS t FROM s WINDOW(ROWS 6) WHERE p > 1 GROUP BY k EMIT ON EVERY CHANGE",
    "SELECT COUNT(*) AS n, SUM(CASE WHEN p IS NULL THEN 1 END) AS t FROM s WINDOW(ROWS 4) WHERE k > 1 EMIT ON EVERY CHANGE",
    "SELECT k * 2 AS twice, SUM(k * 2) AS v FROM s WINDOW(ROWS 6) GROUP BY k * 2 HAVING COUNT(*) < 3 EMIT ON EVERY CHANGE",
    "SELECT k, COUNT(*) AS n FROM s WINDOW(ROWS 1) GROUP BY k EMIT ON EVERY CHANGE",
    "SELECT q, k, COUNT(q) AS v FROM (SELECT p AS q, k FROM s WHERE k > 1) AS f WINDOW(PARTITION BY q ROWS 3) "
    "GROUP BY k, q EMIT ON EVERY CHANGE",
)
"""Told also of the groups that lose a row."""

OTHER_CHANGES = (
    "SELECT d, COUNT(*) AS n FROM s WINDOW(PARTITION BY k ROWS 2) GROUP BY d EMIT ON EVERY CHANGE",
    "SELECT k, STDDEV(p) AS d, COUNT(DISTINCT d) AS n FROM s WINDOW(ROWS 5) GROUP BY k EMIT ON EVERY CHANGE",
    "SELECT k, LAST(p) AS l FROM s WINDOW(ROWS 5) GROUP BY k EMIT ON EVERY CHANGE",
)
"""By frames on some databases, or none."""

JOINS = (
    "SELECT a.p, b.p AS w FROM s WINDOW(NOW) a, s WINDOW(PARTITION BY k ROWS 1) b WHERE a.k = b.k",
    "SELECT a.p, b.p AS w FROM s WINDOW(PARTITION BY k ROWS 1) a, s WINDOW(PARTITION BY k ROWS 1) b WHERE a.k = b.k",
    "SELECT a.p, b.p AS w FROM s WINDOW(ROWS 3) a, s WINDOW(PARTITION BY k ROWS 2) b WHERE b.k = a.k AND a.p > b.p",
    "SELECT a.p, b.p AS w FROM s WINDOW(ROWS 3) a, s WINDOW(ROWS 5) b WHERE a.k = b.k",
    "SELECT a.p, b.p AS w FROM s WINDOW(ROWS 3) a, s WINDOW(ROWS 4) b WHERE a.p < b.p",
    "SELECT a.p, b.p AS w FROM s WINDOW(RANGE 2 MS) a, s WINDOW(PARTITION BY k, d ROWS 2) b WHERE a.k = b.k AND b.d = a.d",
    "SELECT a.p, b.w FROM s WINDOW(NOW) a, (SELECT k, p AS w FROM s WINDOW(PARTITION BY k ROWS 3) WHERE p > 2) b "
    "WHERE a.k = b.k",
    "SELECT a.p, b.w FROM s WINDOW(NOW) a, (SELECT k AS j, p AS w FROM s WHERE p > 2) WINDOW(PARTITION BY j ROWS 3) b "
    "WHERE a.k = b.j",
    "SELECT b.p, a.p AS w, c.d AS e FROM s WINDOW(PARTITION BY k ROWS 1) b, s WINDOW(NOW) a, "
    "s WINDOW(PARTITION BY k ROWS 2) c WHERE a.k = b.k AND c.k = a.k",
    "SELECT b.p, a.p AS w, c.d AS e FROM s WINDOW(PARTITION BY k ROWS 1) b, s WINDOW(ROWS 2) a, "
    "(SELECT k AS j, d FROM s WHERE p > 1) WINDOW(PARTITION BY j ROWS 2) c WHERE a.k = b.k AND c.j = b.k",
)
"""Where other columns give the keys, or there are none."""
SCANS = (
    "SELECT a.p, b.p AS w FROM s WINDOW(NOW) a, s WINDOW(PARTITION BY k ROWS 1) b WHERE a.p < b.p",
    "SELECT a.p, b.p AS w FROM s WINDOW(NOW) a, s WINDOW(PARTITION BY k, d ROWS 2) b WHERE a.k = b.k",
    "SELECT a.p, b.k FROM (SELECT k * 3 AS j, p FROM s) WINDOW(NOW) a, s WINDOW(PARTITION BY p ROWS 2) b WHERE a.j = b.p",
    "SELECT a.m, b.p AS w FROM (SELECT k, MAX(p) AS m FROM s WINDOW(RANGE 3 MS SLIDE 3 MS) GROUP BY k) a, "
    "s WINDOW(PARTITION BY k ROWS 2) b WHERE a.k = b.k",
)
"""Where they do not: keys that nothing equals, or something of another type; what comes with time."""


def history(seed: int) -> Events:
    """Events of which several come at an instant, with values that are NULL."""
    rng = Random(seed)
    values = [None, 0, 1, 2, 3], [None, 1.5, 2.25, 9.0, -1.0], [None, "x", "y"]
    return [(tuple(map(rng.choice, values)), place // 3 - 20) for place in range(42)]


@pytest.mark.some_databases(1)
@pytest.mark.parametrize("slides", [False, True])
def test_frames_and_joins_agree(slides: bool, database: Database):
    events, queries = history(slides), {f"q{n}": text for n, text in enumerate((*BY_FRAMES, *OTHERS))}
    with contextlib.ExitStack() as patched:
        for kind in (base.Database, MySQL, SQLite):
            patched.enter_context(mock.patch.object(kind, "fast_sliding_min_max", slides))
            patched.enter_context(mock.patch.object(kind, "purge_every", 10))
        expected = told(database, SCHEMA, queries, events, [1] * len(events))
        for sizes in ([30, 1, 17, 2], [5] * 12):
            actual = told(database, SCHEMA, queries, events, sizes)
            assert [queries[name] for name in queries if not same_rows(expected[name], actual[name])] == []


def test_many_events_are_told_by_frames(database: Database):
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        for text in (*BY_FRAMES, *CHANGES, *OTHERS):
            cep.create_query("q", text)
            by_frames = text in (*BY_FRAMES, *CHANGES)
            assert (" PRECEDING AND CURRENT ROW" in cep._catalogue.query_entry("q").results.any.text) == by_frames, text
            cep.remove_query("q")


@functools.cache
def told_by_joins(seed: int, texts: tuple[str, ...]) -> Rows:
    """The results event by event on a database without indexes."""
    queries = {f"q{n}": text for n, text in enumerate(texts)}
    return told(DATABASES[0], SCHEMA, queries, history(seed), [1] * len(history(seed)))


@pytest.mark.one_in(2)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("sizes", [[1] * 42, [30, 1, 17, 2], [5] * 12], ids=["singly", "uneven", "even"])
def test_changes_are_those_that_a_join_of_moments_tells(sizes: list[int], database: Database):
    """On a database without indexes few events are joined with what is in the window at each moment."""
    events, queries = history(3), {f"q{n}": text for n, text in enumerate((*CHANGES, *OTHER_CHANGES))}
    expected = told_by_joins(3, (*CHANGES, *OTHER_CHANGES))
    assert [queries[name] for name in queries if not expected[name]] == []
    with contextlib.ExitStack() as patched:
        for kind in (base.Database, MySQL, SQLite):
            patched.enter_context(mock.patch.object(kind, "purge_every", 10))
        actual = told(database, SCHEMA, queries, events, sizes)
        assert [queries[name] for name in queries if not same_rows(expected[name], actual[name])] == []


@pytest.mark.some_databases(1)
def test_joins_find_the_rows_that_a_scan_tells(database: Database):
    """On a database without indexes it is computed of all rows which one pushes out which."""
    events, queries = history(7), {f"q{n}": text for n, text in enumerate((*JOINS, *SCANS))}
    expected = told(DATABASES[0], SCHEMA, queries, events, [])
    assert [queries[name] for name in queries if not expected[name]] == []
    with contextlib.ExitStack() as patched:
        for kind in (base.Database, MySQL, SQLite):
            patched.enter_context(mock.patch.object(kind, "purge_every", 10))
        for sizes in ([30, *[1] * 30], [5, 1, 17, 2]):
            actual = told(database, SCHEMA, queries, events, sizes)
            assert [queries[name] for name in queries if not same_rows(expected[name], actual[name])] == []


def test_of_few_events_nobody_asks_which_row_pushes_out_which(database: Database):
    """That would be computed of all rows, also of those that wait to be purged and of other keys."""
    with database.connect() as cep:
        if not cep.database.uses_indexes:
            pytest.skip("a scan of all rows is faster there than many small reads")
        cep.register_stream("s", SCHEMA)
        for text in (*BY_FRAMES[:-1], *CHANGES, *JOINS, *SCANS):
            entry = (cep.create_query("q", text), cep._catalogue.query_entry("q"))[1]
            assert ("LEAD(" in entry.results.of(entry.variant("few", shared=False)).text) == (text in SCANS), text
            cep.remove_query("q")


@pytest.mark.parametrize(
    ("query", "sought"),
    [
        ("SELECT SUM(v) AS t FROM s WINDOW(ROWS 5)", "(seq>? AND seq<?)"),
        ("SELECT k, SUM(v) AS t FROM s WINDOW(PARTITION BY k ROWS 5) GROUP BY k", "(k=? AND seq>? AND seq<?)"),
        (
            "SELECT a.v, s.v AS w FROM a WINDOW(NOW), s WINDOW(PARTITION BY k ROWS 1) WHERE a.k = s.k",
            "(k=? AND seq>? AND seq<?)",
        ),
    ],
)
def test_a_single_event_reads_the_rows_of_its_window_alone(query: str, sought: str):
    """Not those that wait to be purged, nor those of other keys."""
    (sqlite,) = (database for database in DATABASES if database.name == "sqlite")
    with sqlite.connect() as cep:
        cep.register_stream("s", "k INTEGER, v INTEGER")
        cep.register_stream("a", "k INTEGER, v INTEGER")
        cep.create_query("q", query)
        cep.add_output_processor("q", print)
        stream = "a" if " a " in query else "s"
        cep.push_event(stream, (1, 2), 1)
        single = cep._runner._one_event_plans.of(cep._catalogue.streams[stream])
        assert single is not None
        (text,) = (statement.whole.text for _, statement in single.results)
        plan = [step for *_, step in cep.database.fetch(f"EXPLAIN QUERY PLAN {text.replace('?', '1')}")]
    assert any(" cep_window_s" in step or " w " in step or " p2 " in step for step in plan if step.endswith(sought)), (
        plan
    )
