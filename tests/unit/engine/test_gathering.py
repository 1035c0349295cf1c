"""`connect(linger=…)`: events that are pushed one by one are brought to the queries together, with the same rows."""

from __future__ import annotations

import asyncio
import pathlib
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import bridge
from bridge.engine.queue import gathering
from tests.support.databases import Database

pytestmark = pytest.mark.some_databases(2)

QUERIES = {
    "filtered": "SELECT k, v FROM s WHERE v > 3",
    "mean": "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s WINDOW(RANGE 30 MS) GROUP BY k",
    "joined": "SELECT x.k AS k, y.b AS b FROM s WINDOW(RANGE 20 MS) AS x JOIN t WINDOW(RANGE 20 MS) AS y ON x.k = y.k",
    "rising": "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES A.v AS a, B.v AS b PATTERN (A B) WITHIN 40 MS "
    "DEFINE B AS B.v > A.v)",
}
LONG = "1 H"
"""No event waits so long; a batch is pushed when it is full, or by a call."""


def opened(url: str, **options: Any) -> tuple[bridge.Bridge, dict[str, list[Any]]]:
    """A bridge with the queries, and their results as they come."""
    cep = bridge.connect(url, durable=False, **options)
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.register_stream("t", "k VARCHAR, b INTEGER")
    found: dict[str, list[Any]] = {}
    for name, text in QUERIES.items():
        cep.create_query(name, text)
        found[name] = []
        cep.add_output_processor(name, note(found[name]))
    return cep, found


def note(rows: list[Any]) -> Callable[[Any], None]:
    return lambda event: rows.append((event.timestamp, *event.payload.values()))


def events(seed: int, count: int) -> list[tuple[str, list[Any], int]]:
    """Events of both streams; some go back in time."""
    rng, ts = random.Random(seed), 1000
    found: list[tuple[str, list[Any], int]] = []
    for _ in range(count):
        ts = max(0, ts + rng.choice((0, 0, 1, 5, 9, -3)))
        found.append((rng.choice("sst"), [rng.choice("abc"), rng.randrange(8)], ts))
    return found


def outcome(push: Callable[[], Any]) -> str:
    """What a push raises, or nothing."""
    try:
        push()
    except bridge.BridgeError as error:
        return f"{type(error).__name__} {error}"
    return ""


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_the_rows_and_errors_are_those_of_one_push_after_the_other(database: Database, batch: int) -> None:
    given = events(batch, 120)
    cep, one_by_one = opened(database.fresh())
    with cep:
        errors = [outcome(lambda event=event: cep.push_event(*event)) for event in given]
    cep, together = opened(database.fresh(), linger=LONG, batch=batch)
    with cep:
        pushes = [cep.push_event(*event) for event in given]
        cep.query("SELECT 1 AS one")  # before a call all that waits is pushed
        assert [outcome(push.result) for push in pushes if push is not None] == errors
    assert any(errors) and not all(errors)
    assert together == one_by_one
    assert all(one_by_one.values())


def test_an_error_reaches_the_push_of_its_event_alone(database: Database) -> None:
    with bridge.connect(database.fresh(), durable=False, linger=LONG) as cep:
        cep.register_stream("s", "v BIGINT")
        cep.create_query("q", "SELECT v * 9000000000000000000 AS w FROM s")
        rows: list[Any] = []
        cep.add_output_processor("q", note(rows))
        pushes = [cep.push_event("s", [0 if place != 5 else 9], 1000 + place) for place in range(16)]
        cep.query("SELECT 1 AS one")
        refused = [place for place, push in enumerate(pushes) if push is not None and push.exception() is not None]
        assert refused == [5]
        assert [ts for ts, _ in rows] == [1000 + place for place in range(16) if place != 5]
        assert cep.now == 1015


def test_wrong_events_are_refused_at_once() -> None:
    with bridge.connect("sqlite://", linger=LONG) as cep:
        cep.register_stream("s", "v INTEGER")
        for wrong, error in (
            (("nosuch", [1], 1), bridge.UnknownName),
            (("s", ["x"], 1), bridge.SchemaError),
            (("s", [1, 2], 1), bridge.SchemaError),
            (("s", [1]), bridge.SchemaError),
            (("s", [1], "x"), bridge.SchemaError),
        ):
            with pytest.raises(error):
                cep.push_event(*wrong)
        assert cep.now is None


def test_threads_push_together(database: Database) -> None:
    """All events are in, those of each thread in its order, in far fewer transactions than events."""
    with bridge.connect(database.fresh(), durable=False, linger=5, batch=100, clock="system") as cep:
        cep.register_stream("s", "thread INTEGER, n INTEGER")
        cep.create_query("q", "SELECT thread, n FROM s")
        rows: list[Any] = []
        cep.add_output_processor("q", note(rows))
        commits = [0]
        commit = cep.database.commit

        def counted() -> None:
            commits[0] += 1
            commit()

        cep.database.commit = counted  # type: ignore[method-assign]

        def push(thread: int) -> None:
            for n in range(150):
                cep.push_event("s", [thread, n])

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(push, range(8)))
        cep.flush()
        assert len(rows) == 1200
        for thread in range(8):
            assert [n for _, of, n in rows if of == thread] == list(range(150))
        assert [ts for ts, *_ in rows] == sorted(ts for ts, *_ in rows)
        assert commits[0] < 600


def test_names_ignore_case() -> None:
    with bridge.connect("sqlite://", linger=LONG) as cep:
        cep.register_stream("Trades", "v INTEGER")
        cep.create_query("q", "SELECT v FROM trades")
        rows: list[Any] = []
        cep.add_output_processor("q", note(rows))
        for name, event_id in (("TRADES", "a"), ("trades", "b"), ("Trades", "b")):
            cep.push_event(name, [1], 1000, event_id=event_id)
        cep.flush()
        assert rows == [(1000, 1), (1000, 1)]


def test_an_event_waits_no_longer_than_linger() -> None:
    with bridge.connect("sqlite://", linger="20 MS") as cep:
        cep.register_stream("s", "v INTEGER")
        push = cep.push_event("s", [1], 1000)
        assert push is not None
        assert not push.done()
        with pytest.raises(TimeoutError):
            push.result(0)
        push.result(10)
        assert push.done()
        assert cep.now == 1000


def test_ids_are_known_within_a_batch(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path}/ids.db"
    for _ in range(2):
        with bridge.connect(url, linger=LONG) as cep:
            cep.register_stream("s", "v INTEGER")
            cep.create_query("q", "SELECT v FROM s", into="of_q")
            cep.push_event("s", [1], 1000, event_id="a")
            cep.flush()
            for event_id in "abb":
                cep.push_event("s", [2], 1000, event_id=event_id)
            cep.flush()
            assert [v for (v,) in cep.database.fetch("SELECT v FROM of_q ORDER BY v")] == [1, 2]


def test_what_an_output_processor_pushes_is_in_at_once() -> None:
    with bridge.connect("sqlite://", linger=LONG) as cep:
        cep.register_stream("s", "v INTEGER")
        cep.register_stream("doubled", "v INTEGER")
        cep.create_query("q", "SELECT v FROM s")
        cep.create_query("r", "SELECT v FROM doubled")
        rows: list[Any] = []
        cep.add_output_processor("q", lambda e: cep.push_event("doubled", [2 * e.payload["v"]], cep.now))
        cep.add_output_processor("r", note(rows))
        for v in range(3):
            cep.push_event("s", [v], 1000)
        cep.flush()
        assert rows == [(1000, 0), (1000, 2), (1000, 4)]


def test_an_error_of_a_processor_reaches_the_pushes_of_its_batch() -> None:
    with bridge.connect("sqlite://", linger=LONG) as cep:
        cep.create_query("q", "SELECT v FROM s[v: INTEGER]")
        cep.add_output_processor("q", lambda event: 1 // event.payload["v"])
        pushes = [cep.push_event("s", [v], 1000) for v in (1, 0)]
        cep.query("SELECT 1 AS one")
        assert [type(push.exception()) for push in pushes if push is not None] == [bridge.ProcessorError] * 2
        assert cep.now == 1000


def test_flush_and_close_raise_errors_that_nobody_has_asked_for() -> None:
    cep = bridge.connect("sqlite://", linger=LONG)
    cep.register_stream("s", "v INTEGER")
    cep.push_event("s", [1], 1000)
    asked = cep.push_event("s", [1], 900)
    cep.push_event("s", [1], 800)
    cep.push_event("s", [1], 700)
    cep.query("SELECT 1 AS one")
    assert asked is not None
    assert isinstance(asked.exception(), bridge.OrderError)
    with pytest.raises(bridge.OrderError, match="800") as raised:
        cep.flush()
    assert raised.value.__notes__ == ["1 more pushes have failed since the last flush()"]
    cep.flush()
    cep.push_event("s", [1], 600)
    with pytest.raises(bridge.OrderError, match="600"):
        cep.close()
    with pytest.raises(bridge.Closed):
        cep.push_event("s", [1], 1000)
    assert not any(thread.name == "cep-bridge-gathering" and thread.is_alive() for thread in _threads())


def _threads() -> list[threading.Thread]:
    time.sleep(0.1)
    return threading.enumerate()


def test_a_file_has_all_that_was_pushed_before_it_was_closed(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path}/closed.db"
    with bridge.connect(url, linger=LONG) as cep:
        cep.register_stream("s", "v INTEGER")
        cep.create_query("q", "SELECT v FROM s", into="of_q")
        for v in range(10):
            cep.push_event("s", [v], 1000 + v)
    with bridge.connect(url) as cep:
        assert cep.now == 1009
        assert len(cep.database.fetch("SELECT * FROM of_q")) == 10


def test_an_interruption_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with bridge.connect("sqlite://", linger=LONG) as cep:
        cep.create_query("q", "SELECT SUM(v) AS total FROM s[v: INTEGER] WINDOW(RANGE 1 S)")
        rows: list[Any] = []
        cep.add_output_processor("q", note(rows))
        for v in range(3):
            cep.push_event("s", [v], 1000)

        def interrupted() -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(cep.database, "begin", interrupted)
            cep.query("SELECT 1 AS one")
        cep.push_event("s", [9], 1000)
        cep.flush()
        assert rows == [(1000, 0), (1000, 1), (1000, 3), (1000, 12)]


def test_a_push_waits_while_very_many_events_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "WAITING_BATCHES", 2)
    with bridge.connect("sqlite://", linger=LONG, batch=10) as cep:
        cep.register_stream("s", "v INTEGER")
        done = threading.Event()

        def push() -> None:
            for v in range(200):
                cep.push_event("s", [v], 1000)
            done.set()

        with cep._lock:
            thread = threading.Thread(target=push)
            thread.start()
            assert not done.wait(0.2)
        assert done.wait(30)
        thread.join(30)
        cep.flush()
        assert cep.now == 1000


def test_a_stream_that_is_removed_meanwhile() -> None:
    with bridge.connect("sqlite://", linger=LONG) as cep:
        cep.register_stream("s", "v INTEGER")
        entry = cep._catalogue.stream_entry("s")
        cep.remove_stream("s")
        assert cep._gathering is not None
        push = cep._gathering.add(entry, 1000, (1,), None)
        cep.query("SELECT 1 AS one")
        with pytest.raises(bridge.UnknownName, match="'s' was removed"):
            push.result()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"linger": 0}, "linger: a duration is a positive"),
        ({"linger": "5"}, "linger: a duration reads like"),
        ({"linger": 5, "batch": 0}, "batch is a positive number of events, not 0"),
        ({"linger": 5, "batch": True}, "batch is a positive number of events, not True"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(bridge.SchemaError, match=message):
        bridge.connect("sqlite://", **options)


def test_without_linger_a_push_gives_nothing_and_flush_does_nothing() -> None:
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "v INTEGER")
        assert cep.push_event("s", [1], 1000) is None
        cep.flush()


def test_tasks_push_together() -> None:
    received: list[Any] = []

    async def main() -> None:
        async with bridge.aio.connect("sqlite://", linger="5 MS") as cep:
            await cep.register_stream("s", "v INTEGER")
            await cep.create_query("q", "SELECT v FROM s")

            async def receive(event: Any) -> None:
                await asyncio.sleep(0)
                received.append(event.payload["v"])

            await cep.add_output_processor("q", receive)
            await asyncio.gather(*(cep.push_event("s", [v], 1000) for v in range(500)))
            assert len(received) == 500
            with pytest.raises(bridge.OrderError):
                await cep.push_event("s", [1], 900)
            with pytest.raises(bridge.SchemaError):
                await cep.push_event("s", ["x"], 1000)

    asyncio.run(main())
    assert received == list(range(500))


def test_events_out_of_order_are_put_in_order(database: Database) -> None:
    with bridge.connect(database.fresh(), durable=False, linger=LONG, lateness=10) as cep:
        cep.create_query("q", "SELECT v FROM s[v: INTEGER]")
        rows: list[Any] = []
        cep.add_output_processor("q", note(rows))
        for ts in (1000, 1005, 1001, 1012, 1003, 990, 1020):
            cep.push_event("s", [ts], ts)
        cep.finish()
        assert rows == [(ts, ts) for ts in (1000, 1001, 1003, 1005, 1012, 1020)]
        assert cep.database.fetch("SELECT COUNT(*) FROM late_events") == [(1,)]
