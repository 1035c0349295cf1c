"""`cep.database`: a program's statements find the rows of all pushes, and pushes find what these have changed."""

from __future__ import annotations

from typing import Any

import pytest

import bridge
from windows.databases import Database, Refused

EMBEDDED = pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
COUNT = "SELECT k, COUNT(*) AS n FROM s[k: TEXT, v: INTEGER] WINDOW(RANGE 9 S) GROUP BY k"
PAIR = """SELECT * FROM s[k: TEXT, v: INTEGER] MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS a, B.v AS b
    ONE ROW PER MATCH PATTERN (A B) WITHIN 9 S DEFINE B AS B.v > A.v)"""
TABLE_OF = {COUNT: "cep_window_s", PAIR: "cep_rows_s"}


def started(cep: bridge.Bridge, query: str = COUNT) -> list[tuple[Any, ...]]:
    """What the query reports, after four events that are only in memory."""
    found: list[tuple[Any, ...]] = []
    cep.create_query("q", query)
    cep.add_output_processor("q", lambda event: found.append(tuple(event.payload.values())))
    push(cep, range(4))
    assert cep._runner._postponed
    return found


def push(cep: bridge.Bridge, times: range) -> None:
    for ts in times:
        cep.push_event("s", ["A", 9 - ts], ts)


@EMBEDDED
@pytest.mark.parametrize("query", TABLE_OF)
def test_events_are_in_memory_again_after_a_statement(url: str, query: str) -> None:
    with bridge.connect(url) as cep:
        started(cep, query)
        for begin in range(4, 24, 4):
            assert cep.database.fetch(f"SELECT COUNT(*) FROM {TABLE_OF[query]}") == [(begin,)]
            assert not cep._runner._postponed
            push(cep, range(begin, begin + 4))
            assert cep._runner._postponed


@EMBEDDED
def test_a_connection_that_was_kept_reads_and_changes_the_tables_as_they_are(url: str) -> None:
    with bridge.connect(url) as cep:
        found = started(cep)
        database = cep.database
        fetch = database.fetch
        for ts in range(4, 8):
            push(cep, range(ts, ts + 1))
            assert fetch("SELECT COUNT(*) FROM cep_window_s") == [(ts + 1,)]
        database.execute("DELETE FROM cep_window_s WHERE ts < 7")
        push(cep, range(8, 10))
        assert [row[-1] for row in found] == [*range(1, 9), 2, 3]


@EMBEDDED
@pytest.mark.parametrize("query", TABLE_OF)
def test_pushes_are_refused_once_their_tables_are_gone(url: str, query: str) -> None:
    with bridge.connect(url) as cep:
        found = started(cep, query)
        before = list(found)
        cep.database.execute(f"DROP TABLE {TABLE_OF[query]}")
        for _ in range(2):
            with pytest.raises(bridge.DatabaseError, match=TABLE_OF[query]):
                push(cep, range(4, 5))
        assert found == before


@pytest.mark.parametrize("use", ["connection", "begin", "set", "delete"])
def test_what_cannot_be_seen_any_more_has_each_push_in_the_tables(use: str) -> None:
    with bridge.connect() as cep:
        started(cep)
        database: Any = cep.database
        if use == "connection":
            assert database.connection.execute("SELECT COUNT(*) FROM cep_window_s").fetchall() == [(4,)]
        elif use == "begin":
            database.begin()
            database.rollback()
        else:
            database.mark = 1
            if use == "delete":
                del database.mark
            assert hasattr(cep.database, "mark") == (use == "set")
        push(cep, range(4, 6))
        assert not cep._runner._postponed
        assert cep.database.fetch("SELECT COUNT(*) FROM cep_window_s") == [(6,)]


def test_it_stands_for_the_connection() -> None:
    with bridge.connect() as cep:
        started(cep)
        assert isinstance(cep.database, Database)
        assert repr(cep.database) == repr(cep._runner.database)
        assert cep.database.dialect == "duckdb"
        assert cep._runner._postponed  # nothing was read
    assert cep.database.dialect == "duckdb"


def test_a_refused_statement_is_an_error_of_the_database() -> None:
    with bridge.connect() as cep:
        started(cep)
        with pytest.raises(Refused, match="nowhere"):
            cep.database.fetch("SELECT * FROM nowhere")
        push(cep, range(4, 8))
        assert cep._runner._postponed


@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
def test_a_statement_after_the_end_is_refused_as_closed(url: str) -> None:
    cep = bridge.connect(url)
    cep.close()
    with pytest.raises(bridge.Closed):
        cep.database.fetch("SELECT 1")
