"""COUNT(DISTINCT …) by frames over the values that come and go is that over all rows of each window."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from bridge.rewrite.settings import Settings
from tests.random.test_differential import same_rows
from tests.support.databases import DATABASES, one_of
from tests.support.pushes import Events, Rows, told
from windows.databases import base
from windows.databases.mariadb import MySQL

if TYPE_CHECKING:
    from tests.support.databases import Database

row_store = one_of([database for database in DATABASES if database.name != "duckdb"])
"""DuckDB has frames for COUNT(DISTINCT …) itself."""

SCHEMA = "k INTEGER, a INTEGER, b DOUBLE, _distinct0 VARCHAR"
WINDOWS = ("RANGE 7 MS", "RANGE 60 MS", "ROWS 1", "ROWS 8", "UNBOUNDED", "SESSION 6 MS")
BY_FRAMES = (
    "SELECT COUNT(DISTINCT a) AS n FROM s WINDOW({w})",
    "SELECT COUNT(DISTINCT a) + COUNT(DISTINCT b) AS n, COUNT(DISTINCT _distinct0) AS t FROM s WINDOW({w})",
    "SELECT k, COUNT(DISTINCT _distinct0) AS n, COUNT(DISTINCT k) AS one FROM s WINDOW({w}) GROUP BY k",
    "SELECT k, COUNT(DISTINCT a) AS n, SUM(a) AS t, MIN(b) AS low, AVG(b) AS m, COUNT(*) AS r FROM s WINDOW({w}) GROUP BY k",
    "SELECT k + 1 AS next, COUNT(DISTINCT a % 3) AS n, LAST(b) AS new FROM s WINDOW({w}) WHERE a > 1 GROUP BY k + 1",
    "SELECT k, _distinct0, COUNT(DISTINCT CASE WHEN b > 1 THEN a END) AS n FROM s WINDOW({w}) GROUP BY k, _distinct0 "
    "HAVING COUNT(DISTINCT a) < 3",
    "SELECT COUNT(DISTINCT a) AS n FROM s WINDOW({w}) EMIT ON EVERY CHANGE",
    "SELECT k, COUNT(DISTINCT a) AS n, COUNT(DISTINCT b) AS m, SUM(a) AS t, COUNT(*) AS r FROM s WINDOW({w}) WHERE a > 1 "
    "GROUP BY k HAVING COUNT(DISTINCT b) < 4 EMIT ON EVERY CHANGE",
)
OTHERS = (
    "SELECT COUNT(DISTINCT a) AS n, STDDEV(b) AS d FROM s WINDOW({w})",
    "SELECT COUNT(DISTINCT a) FILTER (WHERE b > 1) AS n FROM s WINDOW({w})",
    "SELECT COUNT(DISTINCT v) AS n, COUNT(DISTINCT k) AS m FROM (SELECT x.a AS v, y.k FROM s WINDOW(NOW) x, "
    "s WINDOW(ROWS 3) y WHERE x.a = y.a) AS j WINDOW(RANGE 9 MS)",
    "SELECT COUNT(DISTINCT n) AS n FROM (SELECT k, COUNT(*) AS n FROM s WINDOW(ROWS 9) GROUP BY k) AS q WINDOW(ROWS 5)",
)
"""By frames, or not."""


def history(values: int) -> Events:
    """Events of which several come at an instant, with pauses, and few or many values besides NULL."""
    rng, ts, events = Random(values), -40, []
    for _ in range(60):
        ts += rng.choice([0, 0, 1, 1, 2, 9])
        columns = [None, 1, 2, 3], [None, *range(values)], [None, 0.0, -0.0, 0.5, 2.0], [None, "x", "X", "x "]
        events.append((tuple(map(rng.choice, columns)), ts))
    return events


def queries() -> dict[str, str]:
    texts = [text.format(w=w) for text in BY_FRAMES for w in WINDOWS]
    others = [text.format(w=w) for text in OTHERS for w in WINDOWS[:5]]
    return {f"q{n}": text for n, text in enumerate([*texts, *dict.fromkeys(others)])}


@functools.cache
def by_joins(values: int) -> Rows:
    """The results on SQLite, each event joined with the rows of its window."""
    (sqlite,) = (database for database in DATABASES if database.name == "sqlite")
    return told(sqlite, SCHEMA, queries(), history(values), [1] * 60, Settings(in_process=0))


@contextlib.contextmanager
def early_purges() -> Iterator[None]:
    with contextlib.ExitStack() as patched:
        for kind in (base.Database, MySQL):
            patched.enter_context(mock.patch.object(kind, "purge_every", 10))
        yield


@pytest.mark.one_in(2)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("sizes", [[], [40, 1, 25, 2]], ids=["at_once", "batches"])
@pytest.mark.parametrize("values", [3, 90])
def test_frames_and_joins_agree(values: int, sizes: list[int], row_store: Database) -> None:
    expected = by_joins(values)
    texts = queries()
    assert [texts[name] for name in texts if not expected[name]] == []
    with early_purges():
        settings = Settings(few=0, in_process=0, in_process_quick=0)
        actual = told(row_store, SCHEMA, texts, history(values), sizes, settings)
        assert [texts[name] for name in texts if not same_rows(expected[name], actual[name])] == []


def test_many_events_are_counted_by_frames(row_store: Database) -> None:
    with row_store.connect() as cep:
        cep.register_stream("s", SCHEMA)
        for text in BY_FRAMES:
            for window in ("RANGE 5 MS", "ROWS 3", "UNBOUNDED"):
                cep.create_query("q", text.format(w=window))
                assert "LAG(" in cep._catalogue.query_entry("q").results.any.text, text
                cep.remove_query("q")


COLLATIONS = {
    "sqlite": ("NOCASE", "RTRIM"),
    "duckdb": ("NOCASE",),
    "mariadb": ("utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_nopad_bin"),
    "postgresql": ('"C"',),
}


def test_values_are_equal_where_the_database_says_so(database: Database) -> None:
    """Also by the collation of a table's column."""
    names = ["Anna", "ANNA", "anna ", "anna", "Änna", "änna", "Berta"]
    for collation in COLLATIONS[database.name]:
        found: list[list[Any]] = []
        for settings in (Settings(in_process=0), Settings(few=0, in_process=0, in_process_quick=0)):
            with database.connect(settings) as cep:
                cep.database.execute(f"CREATE TABLE people (id INTEGER, name VARCHAR(20) COLLATE {collation})")
                listed = ", ".join(f"({place}, '{name}')" for place, name in enumerate(names))
                cep.database.execute(f"INSERT INTO people VALUES {listed}")
                cep.register_stream("s", "k INTEGER")
                cep.create_query(
                    "q",
                    "SELECT COUNT(DISTINCT name) AS n FROM (SELECT p.name FROM s WINDOW(NOW) x, people p WHERE x.k = p.id) "
                    "AS j WINDOW(RANGE 30 MS)",
                )
                if database.name != "duckdb":
                    assert "LAG(" in cep._catalogue.query_entry("q").results.any.text
                rows: list[Any] = []
                cep.add_output_processor("q", lambda event, rows=rows: rows.append(event.payload["n"]))
                cep.push_events("s", [([place % 7], place) for place in range(16)])
                cep.database.execute("DROP TABLE people")
            found.append(rows)
        assert found[0] and found[0] == found[1], collation
