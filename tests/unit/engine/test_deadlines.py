"""`next_deadline`: before it nothing is reported without an event; what fell due while no process ran is reported (D3)."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from tests import test_cases
from tests.support.cases_format import Case, Push, load_all

if TYPE_CHECKING:
    from tests.support.databases import Database

TIMED = [
    case for case in load_all() if case.error is None and case.id.split("/")[0] in ("jumping", "epl", "time", "match")
]

ABSENT = "select x.k as k from pattern [every x=s(a = 1) -> (timer:interval(300 msec) and not s(k = x.k, a = 2))]"


@pytest.mark.parametrize("case", TIMED[::32], ids=lambda case: case.id)
def test_nothing_is_reported_before_the_next_deadline(case: Case):
    check_deadlines(case)


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in load_all() if case.error is None], ids=lambda case: case.id)
def test_nothing_is_reported_before_the_next_deadline_in_any_case(case: Case):
    check_deadlines(case)


def check_deadlines(case: Case) -> None:
    """Pushes the events of a case; between them time passes from one deadline to the next, and once to just before it."""
    with contextlib.closing(bridge.connect("sqlite://")) as cep:
        test_cases.prepare(cep, case)
        results: list[Any] = []
        for name in case.expect:
            cep.add_output_processor(name, results.append)
        for item in case.events:
            pass_until(cep, item.timestamp, results)
            if isinstance(item, Push):
                cep.push_event(item.stream, item.payload, item.timestamp)
            else:
                cep.advance_time(item.timestamp)
        if cep.now is not None and cep.now < 2**52:
            pass_until(cep, cep.now + 100_000, results)


def pass_until(cep: bridge.Bridge, end: int, results: list[Any]) -> None:
    for _ in range(100):
        if cep.now is None:
            return
        due, count = cep.next_deadline(), len(results)
        assert due is None or due > cep.now
        before = min(end, end if due is None else due) - 1
        if before > cep.now:
            cep.advance_time(before)
        assert len(results) == count
        if due is None or due >= end:
            return
        cep.advance_time(due)


def test_each_kind_of_query_says_when_it_is_due(database: Database):
    queries = {
        "jumping": ("sql", "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 50 MS SLIDE 50 MS)", 1050),
        "leaving": ("epl", "select rstream a from s#time(70 msec)", 1080),
        "changing": ("sql", "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 30 MS) EMIT ON EVERY CHANGE", 1040),
        "periodic": ("epl", "select a from s#keepall output snapshot every 80 msec", 1090),
        "absent": ("epl", ABSENT, 1310),
        "matched": (
            "sql",
            "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES A.a AS x PATTERN (A B?) WITHIN INTERVAL '90' MILLISECOND "
            "DEFINE B AS B.a > A.a) AS m",
            1100,
        ),
        "plain": ("sql", "SELECT a FROM s", None),
    }
    with database.connect() as cep:
        cep.register_stream("s", "k VARCHAR, a INTEGER")
        assert cep.next_deadline() is None
        for name, (language, text, _) in queries.items():
            cep.create_query(name, text, language=language)
        cep.push_event("s", ["p", 1], 1010)
        due = {name: cep._runner.next_deadline(entry.operators) for name, entry in cep._catalogue.queries.items()}
        assert due == {name: at for name, (_, _, at) in queries.items()}
        assert cep.next_deadline() == 1040
    with database.connect(lateness=20) as cep:
        cep.register_stream("s", "a INTEGER")
        cep.push_event("s", [1], 1000)
        assert cep.next_deadline() == 1000


def test_what_fell_due_while_no_process_ran_is_reported_at_its_time(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'down.db'}"
    queries = {
        "absent": ("epl", ABSENT),
        "jumping": ("sql", "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 1 S SLIDE 1 S)"),
        "plain": ("sql", "SELECT a FROM s"),
    }
    received: list[tuple[str, int]] = []

    def start() -> bridge.Bridge:
        cep = bridge.connect(url)
        cep.register_stream("s", "k VARCHAR, a INTEGER")
        for name, (language, text) in queries.items():
            cep.create_query(name, text, language=language)
            cep.add_output_processor(name, lambda event, name=name: received.append((name, event.timestamp)))
        return cep

    with start() as cep:
        cep.push_all([("s", ["p", 1], 1000), ("s", ["q", 1], 1100), ("s", ["q", 2], 1200)])
    received.clear()
    with start() as cep:
        assert cep.next_deadline() == 1300
        assert received == []
        cep.push_event("s", ["r", 3], 60_000)
    assert received == [("absent", 1300), ("jumping", 2000), ("plain", 60_000)]


def test_with_a_clock_what_fell_due_is_reported_at_once_and_what_falls_due_then(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'clock.db'}"
    received: list[tuple[int, float]] = []
    pushed: list[int] = []

    def start() -> bridge.Bridge:
        cep = bridge.connect(url, clock="system")
        cep.register_stream("s", "k VARCHAR, a INTEGER")
        cep.create_query("seen", "SELECT k FROM s")
        cep.add_output_processor("seen", lambda event: pushed.append(event.timestamp))
        cep.create_query("absent", ABSENT, language="epl")
        cep.add_output_processor("absent", lambda event: received.append((event.timestamp, time.time() * 1000)))
        return cep

    with start() as cep:
        cep.push_event("s", ["p", 1])
    time.sleep(0.4)
    with start() as cep:
        wait_for(received, 1)
        cep.push_event("s", ["q", 1])
        wait_for(received, 2)
    assert [due for due, _ in received] == [ts + 300 for ts in pushed]
    assert all(0 <= at - due < 5_000 for due, at in received)


def wait_for(received: list[Any], count: int) -> None:
    end = time.monotonic() + 10
    while len(received) < count and time.monotonic() < end:
        time.sleep(0.01)
