"""Patterns of timers alone beside other queries: an event before the next timer costs no statement for them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from bridge.errors import DatabaseError
from tests.support.traced import reads_and_writes, traced
from windows.databases import Refused

if TYPE_CHECKING:
    from tests.support.databases import Database

TICKS = "select count(*) as n from pattern [every timer:interval(100 msec)]"
EVENTS = [({"k": place % 3, "v": place}, place * 7) for place in range(60)]
QUERIES = {
    "filter": "select v from s where v > 5",
    "totals": "select k, sum(v) as total from s#time(50 msec) group by k",
    "batches": "select k, sum(v) as total from s#time_batch(60 msec) group by k",
    "pattern": "select a.v as v from pattern [every a=s(v > 50) -> timer:interval(20 msec)]",
}


def pushed(database: Database, queries: dict[str, str], sizes: list[int]) -> dict[str, list[Any]]:
    """The results of queries, where so many events are pushed at once, in turns."""
    found: dict[str, list[Any]] = {name: [] for name in queries}
    with database.connect() as cep:
        cep.register_stream("s", "k INTEGER, v INTEGER")
        for name, text in queries.items():
            cep.create_query(name, text, language="epl")
            cep.add_output_processor(
                name, lambda e, rows=found[name]: rows.append((e.timestamp, (*e.payload.values(),)))
            )
        rest, turn = EVENTS, 0
        while rest:
            size = sizes[turn % len(sizes)]
            cep.push_events("s", rest[:size])
            rest, turn = rest[size:], turn + 1
        cep.advance_time(500)
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_timers_beside_a_query_report_when_they_are_due(name: str, embedded: Database) -> None:
    queries = {"ticks": TICKS, name: QUERIES[name]}
    at_once = pushed(embedded, queries, [60])
    assert at_once["ticks"] == [(ts, (ts // 100,)) for ts in range(100, 501, 100)]
    sizes = [Random(name).choice([1, 1, 1, 2, 5]) for _ in range(20)]
    assert pushed(embedded, queries, [1]) == pushed(embedded, queries, sizes) == at_once


def test_an_event_before_the_next_timer_runs_no_statement(embedded: Database) -> None:
    found: list[int] = []
    with embedded.connect() as cep:
        cep.register_stream("s", "k INTEGER, v INTEGER")
        cep.create_query("ticks", TICKS, language="epl")
        cep.add_output_processor("ticks", lambda e: found.append(e.timestamp))
        for ts in range(0, 6, 2):
            cep.push_event("s", [1, ts], ts)
        statements = traced(cep)
        for ts in range(10, 100):
            cep.push_event("s", [1, ts], ts)
        assert (reads_and_writes(statements), found) == ([], [])
        cep.push_event("s", [1, 1], 250)
        assert found == [100, 200]


def test_after_a_push_that_failed_timers_are_read_again(embedded: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    def refused(*_: object) -> None:
        raise Refused("the disk is full")

    with embedded.connect() as cep:
        cep.register_stream("s", "k INTEGER, v INTEGER")
        cep.create_query("ticks", TICKS, language="epl")
        cep.add_output_processor("ticks", lambda e: found.append(e.timestamp))
        for ts in (1, 2, 3):
            cep.push_event("s", [1, ts], ts)
        with monkeypatch.context() as failing:
            failing.setattr(cep.database, "insert", refused)
            failing.setattr(cep.database, "append", refused)
            with pytest.raises(DatabaseError):
                cep.push_event("s", [1, 4], 120)
        assert found == []
        cep.push_event("s", [1, 4], 90)
        cep.push_event("s", [1, 4], 120)
    assert found == [101]


REPORTS = {
    "expiries": "select irstream v from s#time(40 msec)",
    "evictions": "select rstream v from s#length(3)",
    "groups that change": "select irstream k, stddev(v) as a from s#length(4) group by k",
    "pauses": "select k, sum(v) as a from s#time(30 msec) group by k output first every 50 msec",
    "filtered changes": "select k, max(v * 2) as a from s#time(30 msec) group by k having max(v * 2) > 7",
}


def mixed(database: Database, text: str, sizes: list[int]) -> list[Any]:
    """The results of a query over one stream, where so many events of it and of another one are pushed at once, in turns."""
    random, found, ts = Random(text), list[Any](), 0
    events: list[Any] = []
    for place in range(90):
        ts += random.choice([0, 1, 5, 20])
        stream = "s" if random.random() < 0.4 or place < 5 else "u"
        events.append((stream, [place % 3, place % 7], ts))
    with database.connect() as cep:
        for stream in ("s", "u"):
            cep.register_stream(stream, "k INTEGER, v INTEGER")
        cep.create_query("q", text, language="epl")
        cep.create_query("others", "select v from u where v > 3", language="epl")
        cep.add_output_processor("q", lambda e: found.append((e.timestamp, *e.payload.values())))
        turn = 0
        while events:
            size = sizes[turn % len(sizes)]
            if size == 1:
                cep.push_event(*events[0])
            else:
                cep.push_all(events[:size])
            events, turn = events[size:], turn + 1
        cep.advance_time(ts + 500)
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", REPORTS)
def test_what_another_stream_reports_by_time_comes_when_it_is_due(name: str, embedded: Database) -> None:
    sizes = [Random(name).choice([1, 1, 1, 2, 5]) for _ in range(20)]
    at_once = mixed(embedded, REPORTS[name], [90])
    assert at_once
    assert mixed(embedded, REPORTS[name], [1]) == mixed(embedded, REPORTS[name], sizes) == at_once


@pytest.mark.parametrize("name", REPORTS)
def test_an_event_of_another_stream_runs_no_statement_before_something_is_due(name: str, embedded: Database) -> None:
    found: list[int] = []
    with embedded.connect() as cep:
        for stream in ("s", "u"):
            cep.register_stream(stream, "k INTEGER, v INTEGER")
        cep.create_query("q", REPORTS[name], language="epl")
        cep.add_output_processor("q", lambda e: found.append(e.timestamp))
        for place in range(5):
            cep.push_event("s", [1, place + 1], 1000 + place)
        cep.push_event("u", [1, 1], 1004)
        statements, before = traced(cep), len(found)
        for ts in range(1005, 1025):
            cep.push_event("u", [1, 1], ts)
        assert (reads_and_writes(statements), len(found)) == ([], before)
