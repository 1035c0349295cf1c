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
