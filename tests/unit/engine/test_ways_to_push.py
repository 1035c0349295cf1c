"""Events alone, a few or many at a time, with failures in between, after a resumption: the rows and their order are the same."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import bridge
from bridge.engine.session import session_of
from bridge.rewrite.settings import Settings
from tests.support.crashes import die
from tests.support.databases import DATABASES, one_of
from tests.support.refused_pushes import refused_push
from windows.databases.postgresql import PostgreSQL
from windows.databases.sqlite import SQLite

if TYPE_CHECKING:
    from tests.support.databases import Database

embedded = one_of([database for database in DATABASES if database.name in ("duckdb", "sqlite")])

SCHEMA = "k VARCHAR, i INTEGER, d DOUBLE"
ROWS = """SELECT * FROM s MATCH_RECOGNIZE ({} MEASURES A.d AS a, B.i AS b PATTERN ({}) WITHIN 9 MS
    DEFINE A AS A.i > 2, B AS B.i < A.i)"""
FALLS = """SELECT * FROM {1} MATCH_RECOGNIZE ({0} MEASURES A.i AS a, LAST(B.i) AS b, COUNT(*) AS n PATTERN (A B+ C?)
    WITHIN 9 MS DEFINE B AS B.i < PREV(B.i), C AS C.i > PREV(C.i, 2) OR C.k = PREV(C.k) OR PREV(C.d) IS NULL)"""
QUERIES = {
    "range": ("sql", "SELECT k, AVG(d) AS m, COUNT(*) AS n FROM s WINDOW(RANGE 9 MS) GROUP BY k"),
    "range of some": ("sql", "SELECT SUM(i) AS t, MIN(d) AS l FROM s WINDOW(RANGE 4 MS) WHERE i > 1 HAVING COUNT(d) > 1"),
    "rows": ("sql", "SELECT MAX(d) AS h, SUM(d) AS t FROM s WINDOW(ROWS 3)"),
    "rows of a key": ("sql", "SELECT k, AVG(i) AS m, COUNT(d) AS n FROM s WINDOW(PARTITION BY k ROWS 2) GROUP BY k"),
    "all": ("sql", "SELECT k, COUNT(*) AS n, MAX(i) AS h FROM s WINDOW(UNBOUNDED) GROUP BY k"),
    "long": ("sql", "SELECT MAX(i) AS h, SUM(d) AS t, COUNT(*) AS n FROM s WINDOW(RANGE 40 MS)"),
    "filter": ("sql", "SELECT k, i FROM s WHERE i > 3"),
    "sequence": ("sql", ROWS.format("", "A B")),
    "of a key": ("sql", ROWS.format("PARTITION BY k", "A Z*? B")),
    "falls": ("sql", FALLS.format("PARTITION BY k", "s")),
    "falls of some": ("sql", FALLS.format("", "(SELECT k, i, d FROM s WHERE i > 1)")),
    "unique": ("sql", "SELECT SUM(d) AS t, STDDEV(i) AS s FROM s WINDOW(PARTITION BY k ROWS 1)"),
    "latest of a key": ("sql", "SELECT k, AVG(i) AS m FROM s WINDOW(ROWS 5) GROUP BY k"),
    "sub-query": ("epl", "select i, (select max(d) from s#length(3) where k = x.k) as m from s as x"),
    "jumping": ("sql", "SELECT k, SUM(i) AS t, COUNT(d) AS n FROM s WINDOW(RANGE 20 MS SLIDE 20 MS) GROUP BY k"),
    "hopping": ("sql", "SELECT k, i FROM s WINDOW(RANGE 30 MS SLIDE 10 MS OFFSET 4 MS) WHERE i > 2"),
    "batch": ("epl", "select k, max(i) as h, count(*) as n from s#time_batch(25 msec) group by k"),
    "after batches": ("epl", "select a.i as p, b.i as q from pattern [every a=s(i > 4) -> timer:interval(7 msec) -> b=s]"),
    "joined": (
        "sql",
        "SELECT a.i AS i, b.d AS d FROM s WINDOW(RANGE 20 MS SLIDE 20 MS) AS a, s WINDOW(NOW) AS b WHERE a.k = b.k",
    ),
    "every": ("epl", "select a.d as p, b.i as q from pattern [every a=s(i > 2) -> b=s(k = a.k and i < a.i)]"),
}  # fmt: skip
TOGETHER = [
    ["range"], ["range", "filter"], ["rows", "sequence"], ["rows of a key"], ["all", "of a key"], ["long", "every"],
    ["range", "rows", "long"], ["jumping", "range"], ["batch"], ["hopping", "filter", "jumping"], ["batch", "sequence"],
    ["falls"], ["falls of some", "rows"], ["unique", "falls"], ["latest of a key", "sub-query"],
    ["joined", "jumping"], ["after batches", "hopping"], ["range of some", "range"],
]  # fmt: skip
"""The queries of a bridge; those of the last one are read by the database, as it alone can read one of them."""
PANES = Settings(long_rows=2)
Results = dict[str, list[tuple[int, str]]]


@pytest.fixture(autouse=True)
def short_panes() -> Iterator[None]:
    """Windows are long from their third row on, and tables are purged often, so that a few events try both."""
    with (
        mock.patch.object(SQLite, "pane_sizes", (2, 5)),
        mock.patch.object(PostgreSQL, "pane_sizes", (2, 5)),
        mock.patch.object(SQLite, "purge_every", 50),
    ):
        yield


def events_of(draw: random.Random, count: int) -> list[tuple[list[Any], int]]:
    """Events in the order of time, many at equal times, with NULLs and doubles whose sums are rounded."""
    found, ts = [], 0
    for _ in range(count):
        ts += draw.choice((0, 0, 1, 1, 2, 5))
        double = draw.choice((None, 0.1, 0.2, 0.7, 1e6, draw.random()))
        found.append(([draw.choice(("A", "B", None)), draw.choice((None, *range(7))), double], ts))
    return found


def late(draw: random.Random, events: list[tuple[list[Any], int]]) -> list[tuple[list[Any], int]]:
    """The events as they come where some are late, a few too late for `lateness` = 3."""
    return [(row, max(0, ts - draw.choice((0, 0, 0, 1, 3, 6)))) for row, ts in events]


def define(cep: Any, names: list[str], settings: Settings = PANES) -> None:
    session_of(cep).settings = dataclasses.replace(settings, checkpoint_rows=3)
    cep.register_stream("s", SCHEMA)
    for name in names:
        cep.create_query(name, QUERIES[name][1], QUERIES[name][0])


def listen(cep: Any, names: list[str], found: Results) -> None:
    """Adds the results of the queries; doubles have twelve digits, as DuckDB adds those of a batch in an order of its own."""
    for name in names:
        rows = found.setdefault(name, [])

        def note(event: bridge.Event, rows: list[tuple[int, str]] = rows) -> None:
            values = [f"{v:.12g}" if isinstance(v, float) else repr(v) for v in event.payload.values()]
            rows.append((event.timestamp, ", ".join(values)))

        cep.add_output_processor(name, note)


def parts(events: list[Any], size: Callable[[], int]) -> Iterator[list[Any]]:
    place = 0
    while place < len(events):
        some = events[place : place + size()]
        place += len(some)
        yield some


def push(cep: Any, some: list[Any]) -> None:
    if len(some) == 1:
        cep.push_event("s", *some[0])
    else:
        cep.push_events("s", some)


WAYS: dict[str, Callable[[random.Random], int]] = {
    "alone": lambda draw: 1,
    "small": lambda draw: draw.randint(2, 200) if draw.random() < 0.2 else draw.randint(2, 12),
    "large": lambda draw: draw.randint(201, 300),
    "mixed": lambda draw: draw.choice((1, 1, 1, 1, 1, 1, 1, 1, 2, 7, 25, 40, 60)),
}
"""The number of events of the next push."""


@pytest.mark.one_in(5)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("lateness", [0, 3])
@pytest.mark.parametrize("names", TOGETHER, ids=", ".join)
def test_rows_do_not_depend_on_the_pushes(database: Database, names: list[str], lateness: int) -> None:
    seed = TOGETHER.index(names)
    draw = random.Random(seed)
    events = events_of(draw, 180)
    if lateness:
        events = late(draw, events)
    found: dict[str, Results] = {}
    places: list[str] = []
    for way, size in WAYS.items():
        chance, found[way] = random.Random(seed), {}
        with database.connect(lateness=lateness) as cep:
            define(
                cep,
                names,
                Settings(few=(16, 5)[seed % 2], in_process=(30, 200)[seed % 2], long_rows=(512, 2)[lateness > 0]),
            )
            listen(cep, names, found[way])
            cep.add_late_processor(lambda event: None)
            for some in parts(events, functools.partial(size, chance)):
                if not lateness and chance.random() < 0.1:
                    places += refused_push(cep, functools.partial(push, cep, some))
                push(cep, some)
            cep.advance_time(events[-1][1] + 100)
    assert all(found["large"].values())
    assert {way: rows for way, rows in found.items() if rows != found["large"]} == {}
    is_in_process = database.name in ("duckdb", "sqlite") and "range of some" not in names and "joined" not in names
    is_in_process &= not lateness
    assert is_in_process == ("run_in_process" in places)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "name", ["range", "rows", "rows of a key", "long", "sequence", "of a key", "every", "falls", "unique"]
)
def test_a_push_refused_after_it_was_computed_in_this_process_leaves_nothing(embedded: Database, name: str) -> None:
    """It may come again, or another one may come in its place."""
    events = events_of(random.Random(3), 60)
    found: list[Results] = []
    places: list[str] = []
    for is_refused in (False, True):
        found.append({})
        with embedded.connect() as cep:
            define(cep, [name])
            listen(cep, [name], found[-1])
            for number, event in enumerate(events):
                if is_refused and number % 4 == 3:
                    refused = event if number % 8 == 3 else (["A", 6, 1e9], event[1])
                    places += refused_push(cep, functools.partial(push, cep, [refused]))
                push(cep, [event])
    assert found[0][name]
    assert found[0] == found[1]
    assert "run_in_process" in places


@pytest.mark.one_in(3)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("seed", range(4))
def test_what_was_pushed_is_there_after_a_crash(database: Database, seed: int, tmp_path: pathlib.Path) -> None:
    draw = random.Random(seed)
    names = draw.sample(list(QUERIES), 2)
    events, url = events_of(draw, 90), database.durable(tmp_path)
    expected: Results = {}
    with database.connect() as cep:
        define(cep, names)
        listen(cep, names, expected)
        for some in parts(events, lambda: 250):
            push(cep, some)
    found: Results = {}
    cep = bridge.connect(url)
    define(cep, names)
    listen(cep, names, found)
    for some in parts(events, lambda: draw.choice((1, 1, 1, 1, 5))):
        push(cep, some)
        if draw.random() < 0.15:
            cep._runner.database.close()  # nothing more is written
            cep = bridge.connect(url)
            listen(cep, names, found)
    cep.drop()
    assert found == expected


BEGINNINGS: list[tuple[list[Any], list[int]]] = [
    ([("r", [0], 100), "create", ("r", [1], 110), ("s", [1], 115), ("r", [1], 116), ("s", [1], 121)], [115]),
    (["create", ("r", [0], 100), ("r", [1], 112), ("s", [1], 115), ("s", [1], 119), ("s", [1], 120)], [115, 119]),
    (["create", ("s", [0], 100), ("r", [1], 112), ("s", [1], 119), ("s", [1], 120)], [100, 119]),
    (["create", 100, ("r", [1], 112), ("s", [1], 119), ("s", [1], 120)], [119]),
    (["create", ("r", [0], 100), 119, ("s", [1], 119), ("s", [1], 120)], [119]),
    ([("r", [0], 100), 110, "create", ("r", [1], 112), ("s", [1], 129), ("s", [1], 130)], [129]),
]


@pytest.mark.one_in(2)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize(("steps", "expected"), BEGINNINGS)
@pytest.mark.parametrize("text", ["SELECT v FROM s WINDOW(FIRST RANGE 20 MS)", "select v from s#firsttime(20 msec)"])
@pytest.mark.parametrize("drive", ["singly", "at once", "killed"])
def test_first_range_begins_with_the_query_or_with_the_first_event_of_all(
    steps: list[Any], expected: list[int], text: str, drive: str, database: Database, tmp_path: pathlib.Path
) -> None:
    """W7. A number is a time to which it is advanced."""
    found: list[int] = []
    url, waiting = database.durable(tmp_path), list[Any]()
    cep = bridge.connect(url)
    for name in "sr":
        cep.register_stream(name, "v INTEGER")
    for step in [*steps, "end"]:
        if not isinstance(step, tuple):
            cep.push_all(waiting)
            waiting.clear()
        if isinstance(step, tuple) and drive == "at once":
            waiting.append(step)
        elif isinstance(step, tuple):
            cep.push_event(*step)
        elif isinstance(step, int):
            cep.advance_time(step)
        elif step == "create":
            cep.create_query("q", text, language="epl" if "#" in text else "sql")
            cep.add_output_processor("q", lambda event: found.append(event.timestamp))
        if drive == "killed" and "q" in cep.queries:
            die(cep)
            cep = bridge.connect(url)
            cep.add_output_processor("q", lambda event: found.append(event.timestamp))
    cep.drop()
    assert found == expected
