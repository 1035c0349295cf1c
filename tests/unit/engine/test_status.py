"""Seen from outside: status, tracers, logging, and what `repr` says."""

from __future__ import annotations

import functools
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from bridge import ProcessorError

if TYPE_CHECKING:
    from tests.support.databases import Database

TEXTS = {
    "high": ("SELECT k, a FROM s WHERE a > 5", "sql"),
    "total": ("select k, sum(a) as total from s#length(3) group by k", "epl"),
}


def opened(database: Database, **options: Any) -> Any:
    cep = database.connect(**options)
    cep.register_stream("s", "k VARCHAR, a INTEGER")
    for name, (text, language) in TEXTS.items():
        cep.create_query(name, text, language=language)
    return cep


def test_the_status_counts_what_was_pushed_and_delivered(database: Database):
    with opened(database) as cep:
        received: list[Any] = []
        cep.add_output_processor("high", received.append)
        for a in range(10):
            cep.push_event("s", ["k", a], 1000 + a)
        cep.push_events("s", [(["k", 9], 2000), (["k", 1], 2001)])
        status = cep.status()
        assert (status.seq, status.now, status.watermark, status.last_error) == (12, 2001, 2001, None)
        high, total = status.queries["high"], status.queries["total"]
        assert (high.language, high.streams, high.events, high.processors) == ("sql", ("s",), 12, 1)
        assert high.results == len(received) == 5
        assert (total.language, total.results, total.processors) == ("epl", 0, 0)
        assert 3 <= total.state_rows <= 12
        assert high.seconds is None
        assert status.statements == {}


def test_events_that_wait_and_the_watermark(database: Database):
    with opened(database, lateness=100) as cep:
        cep.push_events("s", [(["k", 1], 1000), (["k", 2], 1050), (["k", 2], 1500)])
        status = cep.status()
        assert (status.watermark, status.waiting, status.queries["high"].events) == (1400, 1, 2)


def test_errors_are_remembered(database: Database):
    def fail(event: Any) -> None:
        raise ValueError("no mail server")

    with opened(database) as cep:
        cep.add_output_processor("high", fail)
        with pytest.raises(ProcessorError):
            cep.push_event("s", ["k", 9], 1000)
        with pytest.raises(bridge.UnknownName):
            cep.push_event("nosuch", ["k", 9], 1000)
        status = cep.status()
        assert status.queries["high"].last_error == "ValueError: no mail server"
        assert status.queries["total"].last_error is None
        assert "nosuch" in str(status.last_error)
        assert "last error: ValueError: no mail server" in str(status)


def test_the_status_knows_named_processors_and_tables_of_results(database: Database):
    def fail(result: Any) -> None:
        if result.payload["a"] == 9:
            raise ValueError("no mail server")

    with opened(database) as cep:
        cep.create_query("stored", "SELECT k, a FROM s WHERE a > 6", into="dear")
        mailer = cep.add_output_processor("high", fail, name="mailer")
        for a in (7, 8):
            cep.push_event("s", ["k", a], 1000 + a)
        status = cep.status()
        high, stored = status.queries["high"], status.queries["stored"]
        assert (high.processors, high.results, high.table, high.last_error) == (1, 2, None, None)
        assert (stored.processors, stored.results, stored.table) == (0, 0, "dear")
        assert "high (sql): 2 events of s, 2 results to 1 processor, 0 rows of state" in str(status)
        assert "stored (sql): 2 events of s, results in the table dear, 0 rows of state" in str(status)
        with pytest.raises(ProcessorError):
            cep.push_event("s", ["k", 9], 1009)
        assert cep.status().queries["high"].last_error == "ValueError: no mail server"
        cep.remove_output_processor(mailer)
        cep.drop()


def test_a_tracer_is_called_with_each_statement_once(database: Database):
    calls: list[tuple[str, float, int | None]] = []
    with opened(database) as cep:
        cep.add_output_processor("high", lambda event: None)
        cep.push_event("s", ["k", 9], 1000)
        cep.add_tracer(lambda sql, seconds, rows: calls.append((sql, seconds, rows)))
        cep.push_event("s", ["k", 9], 1001)
        many = cep._runner.network.settings.in_process
        cep.push_events("s", [(["k", 9], 1002), *[(["k", 1], 1003)] * many, (["k", 7], 1004)])
        status = cep.status()
        texts = [sql for sql, _, _ in calls]
        assert any(rows == 2 for sql, _, rows in calls if "SELECT" in sql)
        assert any(sql.startswith("INSERT INTO") for sql in texts)
        assert all(isinstance(sql, str) and seconds >= 0 for sql, seconds, _ in calls)
        assert sum(times.runs for times in status.statements.values()) <= len(calls)
        assert status.queries["high"].seconds > 0
        assert "runs" in str(status)


def test_a_tracer_sees_statements_that_fail():
    calls: list[str] = []
    with bridge.connect() as cep:
        cep.add_tracer(lambda sql, seconds, rows: calls.append(sql))
        with pytest.raises(bridge.QueryError):
            cep.query("SELECT nosuch")
    assert "SELECT nosuch" in calls


def test_statements_are_logged_at_debug(database: Database, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, logger="bridge.sql"), opened(database) as cep:
        cep.push_event("s", ["k", 9], 1000)
    lines = [record.getMessage() for record in caplog.records if record.name == "bridge.sql"]
    assert any(re.search(r" ms: CREATE (UNLOGGED )?TABLE", line) for line in lines)


def test_nothing_is_wrapped_without_a_tracer(database: Database):
    with opened(database) as cep:
        assert not {"execute", "fetch", "_tracing"} & set(vars(cep._runner.database))


def test_repr_says_what_there_is_without_what_is_secret():
    def send(password: str, event: Any) -> None: ...

    cep = bridge.connect("sqlite://")
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    handle = cep.add_output_processor("q", functools.partial(send, "tops3cret"))
    assert repr(cep) == "<Bridge on SQLite sqlite://: 1 streams, 1 queries, now None>"
    assert repr(handle) == "<Processor of 'q': partial>"
    assert repr(bridge.Event({"a": 1}, 2)) == "Event(payload={'a': 1}, timestamp=2)"
    cep.close()
    assert repr(cep) == "<Bridge on SQLite sqlite://: closed>"
    assert repr(bridge.connect().database) == "<DuckDB in memory>"
