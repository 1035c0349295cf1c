"""Aggregates over every kind of window, of hundreds of events a push, against the reference.

The other random cases have few events, so that all of their operators fit in; here statements for many events have rows
enough for each of their parts: sessions that end within the push, rows that are evicted by others of the same push.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from bridge import query as q
from bridge.query.expressions import in_order, scalar
from bridge.rewrite.settings import Settings
from tests.random.test_differential import all_at_once, batches, results, same_rows
from tests.support.generate import Case
from windows.extent import Extent
from windows.extents import FirstRange, FirstRows, Now, Range, Rows, Session, Top, Trailing, Unbounded

if TYPE_CHECKING:
    from tests.support.databases import Database

EVENTS = 180

EXTENTS: dict[str, Extent] = {
    "range": Range(12),
    "range-step": Range(12, step=5),
    "unbounded": Unbounded(),
    "now": Now(),
    "rows": Rows(5),
    "session": Session(4),
    "top": Top(4, (in_order("a DESC"),)),
    "top-last-of": Top(4, (in_order("b"),), (scalar("a"),)),
    "trailing": Trailing(9),
    "trailing-rows": Trailing(9, 3),
    "trailing-of": Trailing(4, None, scalar("a")),
    "first-rows": FirstRows(40),
    "first-range": FirstRange(60),
}
JUMPING: dict[str, Extent] = {
    "tumbling": Range(10, slide=10, offset=3),
    "hopping": Range(12, slide=4),
    "of-no-whole-panes": Range(10, slide=4),
    "with-gaps": Range(3, slide=8, offset=2),
    "from-the-first": Range(6, slide=6, first=True),
}
COLUMNS = (
    ("COUNT(*) AS n", "SUM(a) AS total", "MIN(b) AS low", "MAX(a) AS high"),
    ("COUNT(DISTINCT a) AS n", "AVG(b) AS mean", "COUNT(a) AS known"),
    ("FIRST(a) AS old", "LAST(b) AS new", "STDDEV(a) AS spread"),
    ("COUNT(*) AS n", "LAST(a) AS new", "SUM(b) AS total"),
    ("COUNT(DISTINCT b) AS n", "COUNT(DISTINCT a + b) AS m", "SUM(a) AS total", "COUNT(*) AS rows"),
)
KEYS = ((), ("k",), ("k", "a"))


def some_events(rng: Random) -> tuple[tuple[str, tuple, int], ...]:
    """Events of a few keys: many at one timestamp, and pauses in which sessions end."""
    ts, events = 0, []
    for _ in range(EVENTS):
        ts += rng.choice([0, 0, 0, 1, 1, 1, 2, 3, 4, 11])
        a = rng.choice([None, 0, 1, 2, 3, 5, 8])
        b = rng.choice([None, 0.25, 0.5, 1.5, -2.0])
        events.append(("s", (rng.choice(["x", "y", "z", None]), a, b), ts))
    return tuple(events)


def some_queries(extent: Extent, rng: Random) -> dict[str, q.Node]:
    """Aggregates over a window per some keys or none, a filter above it or not, in groups, also at every change."""
    queries: dict[str, q.Node] = {}
    for columns in COLUMNS:
        by = rng.choice(KEYS[:2]) if extent.holds_per_key else ()
        below: q.Node = q.Window(q.Stream("s"), extent, by)
        if rng.random() < 0.3:
            below = q.Filter(below, "a <> 2")
        groups = rng.choice(KEYS)
        every = rng.random() < 0.5
        queries[f"q{len(queries)}"] = q.Aggregate(below, (*groups, *columns), groups, every_change=every)
    return queries


def in_two_pushes(cep, events: list, rng: Random) -> None:
    """The second push finds a window that holds rows already."""
    half = rng.randint(50, EVENTS - 50)
    cep.push_all(events[:half])
    cep.push_all(events[half:])


def in_some_batches(cep, events: list, rng: Random) -> None:
    for batch in batches(events, rng):
        cep.push_all(batch)


@pytest.mark.one_in(6)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", EXTENTS)
def test_aggregates_of_many_events(name: str, seed: int, embedded: Database):
    check(name, seed, embedded)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["range", "rows", "session", "unbounded", "first-rows"])
def test_aggregates_of_many_events_on_a_server(name: str, server: Database):
    check(name, 0, server)


@pytest.mark.one_in(4)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("name", JUMPING)
def test_aggregates_of_windows_that_jump_in_a_replay(name: str, database: Database):
    check(name, 0, database, is_replay=True)


def check(name: str, seed: int, database: Database, is_replay: bool = False) -> None:
    """The rows of a case are those of the reference, however its events are pushed."""
    rng = Random(f"{name}/{seed}")
    queries = some_queries((EXTENTS | JUMPING)[name], rng)
    case = Case({"s": "k VARCHAR, a INTEGER, b DOUBLE"}, queries, some_events(rng))
    expected = case.expected()
    assert all(expected.values())
    settings = Settings(in_process=0, many=(EVENTS // 4, Settings.many)[seed % 2], is_replay=is_replay)
    for drive in (all_at_once, in_two_pushes, in_some_batches):
        actual, _ = results(case, database, partial(drive, rng=Random(seed)), settings)
        for query, rows in expected.items():
            assert same_rows(rows, actual[query]), f"{drive.__name__}: {queries[query]}"


NAMES = (
    "_index",
    "_gone",
    "_e",
    "_session",
    "_length",
    "_begin",
    "_is_point",
    "_point_since",
    "_end",
    "_side",
    "_points",
    "l",
)


@pytest.mark.one_in(2)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("window", ["ROWS 3 ORDER BY v", "SESSION 50 MS", "PARTITION BY v ROWS 2"])
@pytest.mark.parametrize("emit", ["", " EMIT ON EVERY CHANGE"])
def test_columns_may_have_any_name_that_is_not_reserved(window: str, emit: str, embedded: Database) -> None:
    """The bridge's own columns meet none of the user's."""
    events = [([place % 3, place % 7, place % 5], place * 10) for place in range(40)]
    found = []
    for name in ("plain", *NAMES):
        with embedded.connect(Settings(many=5)) as cep:
            cep.register_stream("s", f"k INTEGER, {name} INTEGER, v INTEGER")
            text = f"SELECT k, SUM({name}) AS x, MAX({name}) AS m FROM s WINDOW({window}) GROUP BY k{emit}"
            cep.create_query("q", text)
            rows: list[Any] = []
            cep.add_output_processor(
                "q", lambda event, rows=rows: rows.append((event.timestamp, *event.payload.values()))
            )
            cep.push_events("s", events)
            found.append(rows)
    assert found[0]
    assert [NAMES[at] for at, rows in enumerate(found[1:]) if rows != found[0]] == []
