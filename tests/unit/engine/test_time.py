"""Rules T2 to T6: events out of order, time that passes without events, the wall clock, streams that are waited for."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from bridge import OrderError, SchemaError
from bridge.frontends.sql.statements import statements

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.one_in(2)
@pytest.mark.some_databases(2)
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


# Streams that others wait for (T5), and events from the future (T6)


def watched(cep: bridge.Bridge, **options: Any) -> tuple[list[tuple[int, int]], list[bridge.LateEvent]]:
    """The results of two streams merged, and the late events; `options` of the second stream."""
    cep.register_stream("orders", "a INTEGER", idle_after=100)
    cep.register_stream("payments", "a INTEGER", **options)
    cep.create_query("merged", "SELECT a FROM orders UNION ALL SELECT a FROM payments")
    rows: list[tuple[int, int]] = []
    late: list[bridge.LateEvent] = []
    cep.add_output_processor("merged", lambda event: rows.append((event.timestamp, event.payload["a"])))
    cep.add_late_processor(late.append)
    return rows, late


def test_streams_are_merged_by_time_and_an_idle_one_is_not_waited_for(database: Database):
    with database.connect() as cep:
        rows, late = watched(cep, idle_after="100 MS")
        cep.push_events("orders", [([1], 1000), ([2], 1050)])
        assert rows == []
        cep.push_event("payments", [3], 1020)
        assert rows == [(1000, 1), (1020, 3)]
        cep.push_event("orders", [4], 1120)
        assert rows[2:] == []
        cep.push_event("orders", [5], 1121)  # payments are silent for more than 100
        assert rows[2:] == [(1050, 2), (1120, 4), (1121, 5)]
        cep.push_event("payments", [6], 1100)
        assert [(one.kind, one.milliseconds, one.timestamp) for one in late] == [("late", 21, 1100)]
        cep.push_event("payments", [7], 1130)
        assert rows[5:] == []
        cep.advance_time(1200, stream="orders")
        assert rows[5:] == [(1130, 7)]
        kept = cep.query("SELECT stream, ts, kind, milliseconds FROM late_events")
        assert list(map(tuple, kept)) == [("payments", 1100, "late", 21)]


def test_an_event_that_is_far_ahead_does_not_move_time(database: Database):
    with database.connect(lateness=10) as cep:
        rows, late = watched(cep, max_ahead="1 S")
        cep.remove_query("merged")
        cep.remove_stream("orders")
        cep.create_query("merged", "SELECT a FROM payments")
        cep.add_output_processor("merged", lambda event: rows.append((event.timestamp, event.payload["a"])))
        cep.push_events("payments", [([1], 1000), ([2], 3_600_000), ([3], 1900)])
        cep.push_event("payments", [4], 1995, event_id="x")
        cep.push_event("payments", [4], 1995, event_id="x")
        cep.advance_time(2000)
        assert rows == [(1000, 1), (1900, 3), (1995, 4)]
        assert [(one.kind, one.timestamp) for one in late] == [("ahead", 3_600_000), ("duplicate", 1995)]
        assert late[0].milliseconds > 3_000_000
        assert "max_ahead 1000 ms" in late[0].reason


def test_what_is_waited_for_is_known_after_a_restart(tmp_path: Path):
    """And a program may change the rules when it starts again."""
    url = f"sqlite:///{tmp_path / 'times.db'}"
    with bridge.connect(url) as cep:
        watched(cep, idle_after=100)
        cep.push_all([("orders", [1], 1000), ("payments", [2], 1000), ("orders", [3], 1050)])
    with bridge.connect(url) as cep:
        rows, _ = watched(cep, idle_after=100)
        cep.push_event("orders", [4], 1100)
        assert rows == []
        cep.push_event("payments", [5], 1080)
        assert rows == [(1050, 3), (1080, 5)]
    with bridge.connect(url) as cep:
        rows, _ = watched(cep)
        cep.push_event("payments", [6], 1110)
        assert rows == [(1100, 4)]
        assert cep._catalogue.streams["payments"].rules == (None, None)


def test_by_the_wall_clock_a_silent_stream_is_idle_and_late_events_have_their_time(tmp_path: Path):
    with bridge.connect(f"sqlite:///{tmp_path / 'clock.db'}", lateness="400 MS", clock="system") as cep:
        rows, late = watched(cep, max_ahead="1 S")
        start = time.time_ns() // 1_000_000
        cep.push_event("payments", [1], start)
        cep.push_event("payments", [2], start + 3_600_000)
        time.sleep(0.25)
        cep.push_event("payments", [3], start - 100)  # a tick has not passed it
        deadline = time.time() + 10
        while len(rows) < 2 and time.time() < deadline:
            time.sleep(0.02)
    assert rows == [(start - 100, 3), (start, 1)]
    assert [one.kind for one in late] == ["ahead"]


def test_a_bridge_that_gets_a_lateness_later_goes_on_from_its_time(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'late.db'}"
    with bridge.connect(url) as cep:
        cep.register_stream("s", "k VARCHAR, a INTEGER")
        cep.push_event("s", ["p", 1], 1000)
    with bridge.connect(url, lateness=5) as cep:
        cep.push_event("s", ["p", 1], 999)
        assert [row.kind for row in cep.query("SELECT kind FROM late_events")] == ["late"]


def test_wrong_rules_are_refused():
    with bridge.connect() as cep, pytest.raises(SchemaError, match="idle_after: a duration"):
        cep.register_stream("s", "a INTEGER", idle_after="soon")


def test_a_script_says_the_rules():
    text = "CREATE STREAM s (a INTEGER) MAX AHEAD 1 MIN IDLE AFTER 30 S; CREATE STREAM t (a INTEGER)"
    assert [statement.rules for statement in statements(text)] == [(30_000, 60_000), (None, None)]
