"""Aggregates put together from panes give what those over all rows give: on every database, however events are pushed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING
from unittest import mock

import pytest

import bridge
from bridge.rewrite.settings import Settings
from tests.random.test_differential import same_rows
from tests.support.databases import DATABASES, one_of
from tests.support.pushes import Events, Rows, told
from windows.databases import Refused, base
from windows.databases.mariadb import MySQL
from windows.databases.postgresql import PostgreSQL
from windows.databases.sqlite import SQLite

if TYPE_CHECKING:
    from tests.support.databases import Database

row_store = one_of([database for database in DATABASES if database.name != "duckdb"])

QUERIES = (
    "SELECT MAX(a) AS m, COUNT(*) AS n FROM s WINDOW(RANGE {w} MS)",
    "SELECT b, MIN(c) AS low, COUNT(c) AS n, AVG(a) AS v, SUM(a) AS t FROM s WINDOW(RANGE {w} MS) GROUP BY b",
    "SELECT b, SUM(c) AS t, AVG(c) + 1 AS v FROM s WINDOW(RANGE {w} MS) WHERE a > 2 GROUP BY b HAVING COUNT(*) > 1",
    "SELECT COUNT(*) AS n FROM s WINDOW(RANGE {w} MS) WHERE a > 2",
    "SELECT a % 3 AS k, MIN(d) AS low, LAST(c) AS newest FROM s WINDOW(RANGE {w} MS) GROUP BY a % 3",
    "SELECT MAX(a) AS m, COUNT(*) AS n, COUNT(*) + SUM(c) AS t FROM s WINDOW(RANGE {w} MS) EMIT ON EVERY CHANGE",
    "SELECT b, MIN(d) AS low, COUNT(c) AS n, AVG(c) AS v FROM s WINDOW(RANGE {w} MS) WHERE a > 2 GROUP BY b EMIT ON EVERY CHANGE",
    "SELECT SUM(CASE WHEN a IS NULL THEN 1 END) AS t, b FROM s WINDOW(RANGE {w} MS) GROUP BY b HAVING COUNT(*) < 3 "
    "EMIT ON EVERY CHANGE",
    "SELECT a % 3 AS k, COUNT(DISTINCT b) AS n, STDDEV(a) AS s FROM s WINDOW(RANGE {w} MS) GROUP BY a % 3 EMIT ON EVERY CHANGE",
    "SELECT FIRST(a) AS f, COUNT(*) AS n FROM s WINDOW(RANGE {w} MS) EMIT ON EVERY CHANGE",
    "SELECT MAX(a) AS m, COUNT(*) AS n, COUNT(*) + SUM(c) AS t FROM s WINDOW(RANGE {w} MS) EMIT ON CHANGE",
    "SELECT b, MIN(d) AS low, AVG(c) AS v FROM s WINDOW(RANGE {w} MS) WHERE a > 2 GROUP BY b HAVING COUNT(*) < 3 EMIT ON CHANGE",
)
WINDOWS = (3, 20)
EVENTS = 36
SIZES = ((2, 5), (4, 9, 20))
"""How many rows panes have, level by level."""


@contextlib.contextmanager
def short(sizes: tuple[int, ...]) -> Iterator[None]:
    """Panes of so few rows that a few events make many; without sizes there are none."""
    with contextlib.ExitStack() as patched:
        for kind in (SQLite, PostgreSQL):
            patched.enter_context(mock.patch.object(kind, "pane_sizes", sizes))
            patched.enter_context(mock.patch.object(kind, "purge_every", 6))
        yield


def history(seed: int) -> Events:
    """Events with ties, gaps, keys and values that are NULL."""
    rng, ts, events = Random(seed), 0, []
    for _ in range(EVENTS):
        ts += rng.choice([0, 0, 1, 1, 2, 5, 30 if rng.random() < 0.1 else 1])
        values = [None, *range(8)], [None, 1, 2], [None, 0.5, 1.25, 3.0], [None, "x", "y"]
        events.append((tuple(map(rng.choice, values)), ts))
    return events


def all_told(database: Database, events: Events, sizes: list[int], brief: int = Settings.brief) -> Rows:
    """The results of all queries over all windows, which are long from their third row on."""
    queries = {f"q{n}_{w}": text.format(w=w) for n, text in enumerate(QUERIES) for w in WINDOWS}
    return told(
        database,
        "a INTEGER, b INTEGER, c DOUBLE, d VARCHAR",
        queries,
        events,
        sizes,
        Settings(long_rows=2, brief=brief),
    )


@functools.cache
def rows_without_panes(seed: int, earlier: int = 0) -> Rows:
    """The results on SQLite, event by event, each aggregate over all rows; the events are `earlier` by so many ms."""
    (sqlite,) = (database for database in DATABASES if database.name == "sqlite")
    with short(()):
        return all_told(sqlite, [(row, ts - earlier) for row, ts in history(seed)], [1] * EVENTS)


@pytest.mark.one_in(2)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("singly", [True, False], ids=["singly", "batches"])
@pytest.mark.parametrize("seed", range(2))
def test_panes_make_no_difference(seed: int, singly: bool, database: Database):
    events, rng = history(seed), Random(seed)
    expected = rows_without_panes(seed)
    sizes = [1 if singly else rng.choice([1, 2, 3, 17, 30]) for _ in events]
    with short(SIZES[seed % len(SIZES)]):
        actual = all_told(database, events, sizes, brief=(0, 1)[seed % 2])
    assert [name for name in expected if not same_rows(expected[name], actual[name])] == []


@pytest.mark.one_in(2)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("slides", [False, True])
def test_the_least_and_the_greatest_by_blocks(slides: bool, row_store: Database):
    """Of times before 1970, too, where a block does not begin at a multiple that is cut off towards zero."""
    events = [(row, ts - 60) for row, ts in history(7)]
    expected = rows_without_panes(7, earlier=60)
    for brief in (0, 1):
        with contextlib.ExitStack() as patched:
            for kind in (base.Database, SQLite, MySQL):
                patched.enter_context(mock.patch.object(kind, "fast_sliding_min_max", slides))
            patched.enter_context(short(()))
            actual = all_told(row_store, events, [25, 17], brief)
        assert [name for name in expected if not same_rows(expected[name], actual[name])] == []


def test_a_window_that_has_become_long_is_read_by_panes():
    """And by all of its rows again when few are left."""
    (sqlite,) = (database for database in DATABASES if database.name == "sqlite")
    with sqlite.connect(Settings(in_process=0)) as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("q", "SELECT MAX(a) AS m FROM s WINDOW(RANGE 5 S)")
        found: list[int] = []
        cep.add_output_processor("q", lambda event: found.append(event.payload["m"]))
        entry = cep._runner.catalogue.query_entry("q")

        def by_panes(first: int, count: int, step: int) -> bool:
            for place in range(count):
                cep.push_event("s", [place % 700], first + place * step)
            (report,) = cep._runner.results.of("few")
            return "cep_panes_s_3" in report.text

        assert not by_panes(0, 900, 1)
        assert by_panes(1_000, 1_200, 1)
        ((kept,),) = cep.database.fetch('SELECT COUNT(*) FROM "cep_panes_s"')
        assert kept > 10
        assert not by_panes(10_000, 2_000, 100)
        assert entry.variant("few", shared=False) == "few"
    assert found[899] == found[1_500] == 699
    assert found[-50:] == [max(range(place - 49, place + 1)) % 700 for place in range(550, 600)]


def test_aggregates_over_windows_of_many_lengths_share_panes():
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "a INTEGER, b INTEGER")
        for seconds in (5, 60, 30):
            cep.create_query(f"q{seconds}", f"SELECT b, MAX(a) AS m FROM s WINDOW(RANGE {seconds} S) GROUP BY b")
        names = [operator.title for operator in cep._runner.network.operators]
        assert names.count("Panes") == 1
        (operator,) = (operator for operator in cep._runner.network.operators if operator.title == "Panes")
        assert operator.longest == 60_000


@pytest.mark.parametrize(
    "columns",
    ["COUNT(DISTINCT a) AS n", "STDDEV(a) AS d", "FIRST(a) AS f", "LAST(a, 1) AS l"],
)
def test_what_has_no_parts_has_no_panes(columns: str):
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("q", f"SELECT {columns} FROM s WINDOW(RANGE 5 S)")
        assert "cep_panes" not in cep.explain("q")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT MAX(a) AS m FROM (SELECT a FROM s WINDOW(RANGE 5 S) UNION ALL SELECT a FROM t WINDOW(RANGE 5 S))",
        "SELECT MAX(a) AS m FROM s WINDOW(NOW)",
    ],
)
def test_many_events_go_by_frames_where_no_panes_are_kept(text: str):
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "a INTEGER")
        cep.register_stream("t", "a INTEGER")
        cep.create_query("q", text)
        entry = cep._runner.catalogue.query_entry("q")
        assert " OVER (" in entry.results.any.text
        assert entry.results.long is None
        assert "cep_panes" not in cep.explain("q")


def test_counts_of_one_instant_share_their_statement():
    with bridge.connect() as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("q", "SELECT COUNT(*) AS n FROM s WINDOW(NOW)")
        assert cep._runner.catalogue.query_entry("q").results.shared is not None


def test_tables_of_panes_are_made_when_a_window_has_become_long(database: Database, monkeypatch: pytest.MonkeyPatch):
    """And again where the push that was to make them failed; a query that goes before has none to remove."""
    with database.connect() as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("other", "SELECT MAX(a) AS m FROM s WINDOW(RANGE 5 S) WHERE a > 3")
        cep.create_query("q", "SELECT MAX(a) AS m FROM s WINDOW(RANGE 5 S)")
        found: list[int] = []
        cep.add_output_processor("q", lambda event: found.append(event.payload["m"]))

        def tables() -> list[str]:
            return [name for name in cep.database.table_names() if name.startswith("cep_panes")]

        cep.remove_query("other")
        cep.push_events("s", [([place % 700], place) for place in range(900)])
        assert tables() == []
        with monkeypatch.context() as patched:
            patched.setattr(cep.database, "commit", mock.Mock(side_effect=Refused("the disk is full")))
            with pytest.raises(bridge.DatabaseError, match="the disk is full"):
                cep.push_events("s", [([place % 700], place) for place in range(900, 1_800)])
        assert tables() == []
        for place in range(900, 1_100):
            cep.push_event("s", [place % 700], place)
        assert len(tables()) == len(cep.database.pane_sizes)
    assert found == [min(place, 699) for place in range(1_100)]


@pytest.mark.parametrize(("tail", "brief"), [("", 3), (" GROUP BY b", 8), (" GROUP BY b HAVING COUNT(*) > 1", 8)])
def test_a_brief_push_may_take_longer_where_the_rest_is_one_row(tail: str, brief: int):
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "a INTEGER, b INTEGER")
        cep.create_query("q", f"SELECT SUM(a) AS t FROM s WINDOW(RANGE 5 S){tail}")
        assert f"within 1/{brief} of the window: window frames over what enters and leaves" in cep.explain("q")
