"""What events cost, in steps of SQLite's machine and rows that servers read: not more where many rows are kept."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from bridge.errors import QueryError
from tests.support.databases import DATABASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.databases import Database

MOST = 3_000
"""Steps of an event at most; a row that is read takes some ten of them."""

QUERIES = {
    "a boundary is far": "SELECT k, COUNT(*) AS n FROM s WINDOW(RANGE 1 H SLIDE 30 MIN) GROUP BY k",
    "a boundary, moved": "SELECT MAX(v) AS m FROM s WINDOW(RANGE 1 H SLIDE 30 MIN OFFSET 1 MIN)",
    "nothing stops": "SELECT COUNT(*) AS n FROM s WINDOW(START v > 0 STOP v > 99)",
    "nothing stops, of keys": "SELECT k, SUM(v) AS t FROM s WINDOW(PARTITION BY k START v > 0 STOP v > 99) GROUP BY k",
    "the last rows of a key": "SELECT k, AVG(v) AS m FROM s WINDOW(PARTITION BY k ROWS 5) GROUP BY k",
    "the last row of a key": "SELECT a.v, b.v AS w FROM s WINDOW(NOW) a, s WINDOW(PARTITION BY k ROWS 1) b WHERE a.k = b.k",
    "the last row of an equal key": "SELECT a.v, b.v AS w FROM (SELECT k + 0 AS j, v FROM s WHERE v > 1) WINDOW(NOW) a, "
    "s WINDOW(PARTITION BY k ROWS 1) b WHERE b.k = a.j",
    "an equal key among the last rows": "SELECT a.v, b.v AS w FROM s WINDOW(NOW) a, s WINDOW(ROWS 100) b WHERE a.k = b.k",
    "an equal key": "SELECT a.v, b.v AS w FROM s WINDOW(NOW) a, s WINDOW(RANGE 1 H) b WHERE a.k = b.k",
    "equal, of all rows": "SELECT a.v, b.v AS w FROM s WINDOW(NOW) a, s WINDOW(UNBOUNDED) b WHERE b.k = a.k AND a.v > 0",
    "equal, of some": "SELECT a.v, b.v AS w FROM s WINDOW(NOW) a, (SELECT k AS j, v FROM s WHERE v > 0) WINDOW(RANGE 1 H) b "
    "WHERE a.k = b.j",
    "the last rows": "SELECT AVG(v) AS m FROM s WINDOW(ROWS 5)",
    "panes": "SELECT k, MAX(v) AS m FROM s WINDOW(RANGE 1 H) GROUP BY k",
    "row numbers": "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 1 H)",
}


def steps(cep: Any, push: Callable[[], None]) -> int:
    """The steps that SQLite takes for a push."""
    driver = cast("Any", cep.database.connection.driver_connection)
    taken = 0

    def count() -> None:
        nonlocal taken
        taken += 1

    driver.set_progress_handler(count, 1)
    try:
        push()
    finally:
        driver.set_progress_handler(None, 1)
    return taken


def fill(cep: Any, query: str) -> None:
    """A query and 3,000 events, one a millisecond, of 500 keys."""
    rng = Random(7)
    cep.register_stream("s", "k INTEGER, v DOUBLE")
    cep.create_query("q", query)
    cep.add_output_processor("q", lambda event: None)
    cep.push_events("s", [((rng.randrange(500), rng.random() + 1), place) for place in range(3_000)])


@pytest.mark.parametrize("name", QUERIES)
def test_an_event_reads_no_rows_that_it_does_not_change(name: str):
    (sqlite,) = (database for database in DATABASES if database.name == "sqlite")
    with sqlite.connect() as cep:
        fill(cep, QUERIES[name])
        for place in range(2):  # what is planned with the first one is not of the event
            taken = steps(cep, lambda place=place: cep.push_event("s", (7, 1.5), 3_000 + place))
    assert taken < MOST, taken


FEW_ROWS = 200
"""Rows that a server reads for an event at most."""

WHOLE = {("mariadb", "panes"): "a bound that is another row's value is no range of an index of MariaDB"}
"""What is known to read all rows of a window, and why."""


def rows_read(database: Any) -> int:
    """The rows that a server has read of the bridge's tables until now."""
    if database.dialect == "mariadb":
        return sum(int(count) for _, count in database.fetch("SHOW SESSION STATUS LIKE 'Handler_read%'"))
    database.fetch("SELECT pg_stat_force_next_flush()")
    database.fetch("SELECT 1")
    tables = "SELECT SUM(seq_tup_read) AS n FROM pg_stat_user_tables WHERE relname LIKE 'cep%'"
    indexes = "SELECT SUM(idx_tup_read) AS n FROM pg_stat_user_indexes WHERE relname LIKE 'cep%'"
    return sum(int(row[0] or 0) for row in database.fetch(f"{tables} UNION ALL {indexes}"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", QUERIES)
def test_a_server_reads_no_rows_that_an_event_does_not_change(name: str, server: Database, request: Any):
    if reason := WHOLE.get((server.name, name)):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    with server.connect() as cep:
        fill(cep, QUERIES[name])
        for place in range(12):  # PostgreSQL plans the first ones one by one
            before = rows_read(cep.database)
            cep.push_event("s", (7, 1.5), 3_000 + place)
            taken = rows_read(cep.database) - before
    assert taken < FEW_ROWS, taken


MANY_AT_ONCE = {
    "rows that jump": "SELECT COUNT(*) AS n FROM s WINDOW(ROWS 100 SLIDE 50)",
    "results of rows that jump": "SELECT COUNT(*) AS n FROM (SELECT v FROM s WINDOW(ROWS 9 SLIDE 9) WHERE v > 1)",
    "results of a correlation": "SELECT COUNT(*) AS n FROM (SELECT l.v FROM s WINDOW(ROWS 3) AS l, "
    "s WINDOW(RANGE 9 MS) AS r WHERE l.v = r.v)",
    "matches of keys": "SELECT z FROM s MATCHING (PARTITION BY k PATTERN x y? WITHIN 100 MS MEASURES z: DOUBLE "
    "DEFINE x AS true DO z = v, y AS v > z)",
}


@pytest.mark.parametrize("name", MANY_AT_ONCE)
def test_a_push_does_not_read_all_of_its_rows_for_each_of_them(name: str, server: Database):
    with server.connect() as cep:
        cep.register_stream("s", "k INTEGER, v DOUBLE")
        cep.create_query("q", MANY_AT_ONCE[name])
        before = rows_read(cep.database)
        cep.push_events("s", [((place, place % 7), place) for place in range(2_000)])
        taken = rows_read(cep.database) - before
    assert taken < 2_000 * FEW_ROWS, taken


@pytest.mark.parametrize("aggregate", ["MAX(v)", "AVG(v)", "COUNT(v)", "COUNT(*)"])
def test_a_brief_push_reads_no_more_of_a_longer_window(aggregate: str):
    """Also by a query that was there before its window became long."""
    (sqlite,) = (database for database in DATABASES if database.name == "sqlite")
    with sqlite.connect() as cep:
        cep.register_stream("s", "v DOUBLE")
        cep.create_query("q", f"SELECT {aggregate} AS m FROM s WINDOW(RANGE 1 H)")
        cep.add_output_processor("q", lambda event: None)
        taken, now = [], 0
        for rows in (4_000, 16_000):
            cep.push_events("s", [((place % 97,), place) for place in range(now, rows)])
            now = rows + 400
            for start in (rows, rows + 200):  # what is planned with the first one is not of these events
                events = [((place % 97,), place) for place in range(start, start + 200)]
                found = steps(cep, lambda events=events: cep.push_events("s", events))
            taken.append(found)
    assert taken[1] < 1.5 * taken[0], taken


def test_a_window_that_others_read_is_indexed_when_a_join_comes_to_read_it():
    """Nor is there an index more after a join that is refused."""
    (sqlite,) = (database for database in DATABASES if database.name == "sqlite")
    indexes = "SELECT COUNT(*) AS n FROM sqlite_master WHERE type = 'index' AND tbl_name = 'cep_window_s'"
    join = "SELECT a.v, b.v AS w{} FROM s WINDOW(NOW) a, s WINDOW(RANGE 1 H) b WHERE a.k = b.k"
    with sqlite.connect() as cep:
        cep.register_stream("s", "k INTEGER, v DOUBLE")
        cep.create_query("q", "SELECT MAX(v) AS m FROM s WINDOW(RANGE 1 H)")
        assert cep.database.fetch(indexes) == [(1,)]
        with pytest.raises(QueryError):
            cep.create_query("wrong", join.format(", nothing(a.v) AS n"))
        assert cep.database.fetch(indexes) == [(1,)]
        cep.create_query("joined", join.format(""))
        cep.create_query("again", join.format(", 1 AS one"))
        assert cep.database.fetch(indexes) == [(2,)]
        assert '"cep_index_window_s_2" ON "cep_window_s"("k", "ts")' in cep.explain("q")
