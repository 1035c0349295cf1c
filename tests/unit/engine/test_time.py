"""Rules T2 to T4: events out of order, time that passes without events, time by the wall clock."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from bridge import OrderError, SchemaError

if TYPE_CHECKING:
    from tests.support.databases import Database

QUERIES = {
    "counted": "SELECT k, COUNT(*) AS n, SUM(a) AS total FROM s WINDOW(RANGE 7 MS) GROUP BY k",
    "boundaries": "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 6 MS SLIDE 3 MS)",
    "pairs": "SELECT l.a AS a, r.a AS b FROM s WINDOW(RANGE 4 MS) AS l, t WINDOW(RANGE 4 MS) AS r WHERE l.a = r.a",
    "rising": "SELECT z FROM s MATCHING (PATTERN xy WITHIN 9 MS MEASURES z INTEGER DEFINE x DO z = a, y AS a > z)",
}


def opened(database: Database, **options: Any) -> tuple[bridge.Bridge, dict[str, list[tuple]]]:
    cep = database.connect(**options)
    cep.register_stream("s", "k VARCHAR, a INTEGER")
    cep.register_stream("t", "a INTEGER")
    rows: dict[str, list[tuple]] = {name: [] for name in QUERIES}
    for name, text in QUERIES.items():
        cep.create_query(name, text)
        cep.add_output_processor(name, lambda e, to=rows[name]: to.append((e.timestamp, *e.payload.values())))
    return cep, rows


def events(seed: int, count: int = 60) -> list[tuple[str, tuple, int]]:
    rng = random.Random(seed)
    made, ts = [], 100
    for _ in range(count):
        ts += rng.choice([0, 1, 1, 2, 5])
        made.append(
            ("s", (rng.choice("pq"), rng.randint(0, 3)), ts) if rng.random() < 0.7 else ("t", (rng.randint(0, 3),), ts)
        )
    return made


def shuffled(ordered: list[tuple[str, tuple, int]], lateness: int, seed: int) -> list[tuple[str, tuple, int]]:
    """The events in another order of arrival, none more than `lateness` late; those of one ts keep theirs."""
    rng = random.Random(seed)
    delay: dict[int, float] = {}
    return sorted(ordered, key=lambda event: event[2] + delay.setdefault(event[2], rng.uniform(0, lateness)))


@pytest.mark.parametrize("seed", range(5))
def test_events_out_of_order_give_the_rows_of_the_ordered_stream(database: Database, seed: int):
    ordered = events(seed)
    end = ordered[-1][2] + 50
    plain, expected = opened(database)
    with plain:
        plain.push_all(ordered)
        plain.advance_time(end)
    late = shuffled(ordered, 10, seed)
    assert late != ordered
    singly, found = opened(database, lateness=10)
    with singly:
        for stream, payload, ts in late:
            singly.push_event(stream, payload, ts)
        singly.advance_time(end)
    batched, also = opened(database, lateness="10 MS")
    with batched:
        batched.push_all(late)
        batched.advance_time(end)
        assert batched.query("SELECT COUNT(*) FROM late_events")[0][0] == 0
    assert found == expected
    assert also == expected
    assert all(expected.values())


def test_an_event_waits_until_the_watermark_reaches_it(database: Database):
    cep, rows = opened(database, lateness=5)
    with cep:
        cep.push_event("s", ("p", 1), 10)
        assert rows["counted"] == []
        cep.push_event("s", ("p", 2), 14)
        assert rows["counted"] == []
        cep.push_event("s", ("p", 3), 15)
        assert rows["counted"] == [(10, "p", 1, 1)]
        cep.advance_time(15)
        assert rows["counted"] == [(10, "p", 1, 1), (14, "p", 2, 3), (15, "p", 3, 6)]


def test_what_comes_too_late_is_kept_with_its_reason(database: Database):
    cep, rows = opened(database, lateness=5)
    told: list[bridge.LateEvent] = []
    with cep:
        cep.add_late_processor(told.append)
        cep.push_event("s", ("p", 1), 20)
        cep.push_event("s", ("q", 7), 14)
        cep.push_event("s", ("p", 2), 15)
        kept = cep.query("SELECT stream, payload, ts, watermark, reason FROM late_events")
        cep.advance_time(20)
    assert [tuple(row)[:1] + tuple(row)[2:4] for row in kept] == [("s", 14, 15)]
    assert json.loads(kept[0].payload) == {"k": "q", "a": 7}
    assert "1 ms before the watermark" in kept[0].reason
    assert [(e.stream, e.payload, e.timestamp, e.watermark) for e in told] == [("s", {"k": "q", "a": 7}, 14, 15)]
    assert rows["counted"] == [(15, "p", 1, 2), (20, "p", 2, 3)]


def test_a_push_that_fails_leaves_the_buffer_as_it_was(database: Database):
    cep, rows = opened(database, lateness=5)
    with cep:
        cep.push_event("s", ("p", 1), 20)
        with pytest.raises(SchemaError):
            cep.push_all([("s", ("p", 2), 30), ("s", ("p", "text"), 31)])
        assert rows["counted"] == []
        cep.push_event("s", ("p", 3), 25)
        assert rows["counted"] == [(20, "p", 1, 1)]


def test_without_lateness_time_does_not_go_back_on_any_stream(database: Database):
    cep, rows = opened(database)
    with cep:
        cep.push_event("t", (1,), 20)
        with pytest.raises(OrderError, match="19 is before 20"):
            cep.push_event("s", ("p", 1), 19)
        cep.advance_time(30)
        with pytest.raises(OrderError):
            cep.advance_time(29)
        assert cep.now == 30
        assert rows["counted"] == []


def test_the_wall_clock_lets_time_pass(database: Database):
    cep, rows = opened(database, clock="system")
    with cep:
        before = time.time() * 1000
        cep.push_event("s", ("p", 1))
        deadline = time.time() + 10
        while not rows["boundaries"] and time.time() < deadline:
            time.sleep(0.05)
    assert before - 5 <= rows["counted"][0][0] <= before + 10_000
    assert rows["boundaries"][0][1] == 1


def test_a_tick_of_the_clock_waits_for_a_push_and_then_reads_the_time():
    """A tick that read the time before it waited would go back in time."""
    failures: list[BaseException] = []

    def tick(cep: bridge.Bridge) -> None:
        try:
            cep._pass_time(1_000)
        except BaseException as error:
            failures.append(error)

    def processor(event: bridge.Event) -> None:
        if event.timestamp == 900:
            ticking.start()
            ticking.join(0.2)  # it waits for this push
            cep.push_event("s", ("p", 2), 5_000)

    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "k VARCHAR, a INTEGER")
        cep.create_query("all", "SELECT a FROM s")
        cep.add_output_processor("all", processor)
        ticking = threading.Thread(target=tick, args=[cep])
        cep.push_event("s", ("p", 1), 900)
        ticking.join(10)
        assert not ticking.is_alive()
        assert (failures, cep.now) == ([], 5_000)


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(SchemaError, match="lateness"):
        bridge.connect(lateness=-1)
    with pytest.raises(SchemaError, match="clock"):
        bridge.connect(clock="sundial")
    with bridge.connect() as cep:
        cep.register_stream("s", "a INTEGER")
        with pytest.raises(SchemaError, match="needs its timestamp"):
            cep.push_event("s", (1,))
