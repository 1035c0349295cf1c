"""A query that fails in a push: it is refused, or goes on without the query (`on_error`); limits of queries."""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from bridge import BridgeError, DatabaseError, Limits, QueryError
from windows.databases import Refused

if TYPE_CHECKING:
    from tests.support.databases import Database

WORST = -(2**63)
"""What ABS fails with."""

Start = Callable[..., tuple[bridge.Bridge, list[tuple[Any, ...]]]]


@pytest.fixture
def start(database: Database, tmp_path: pathlib.Path) -> Iterator[Start]:
    """`started` on each database."""
    with started(database.durable(tmp_path)) as begin:
        yield begin


@pytest.fixture
def start_here(tmp_path: pathlib.Path) -> Iterator[Start]:
    """`started` on SQLite."""
    with started(f"sqlite:///{tmp_path / 'state.db'}") as begin:
        yield begin


@contextlib.contextmanager
def started(url: str) -> Iterator[Start]:
    """Opens a bridge, with a query that fails and others beside it; gives it, and the results that come."""
    opened = list[bridge.Bridge]()

    def note(name: str, received: list[tuple[Any, ...]]) -> Callable[[Any], None]:
        return lambda event: received.append((name, int([*event.payload.values()][-1])))

    def begin(on_error: str, **options: Any) -> tuple[bridge.Bridge, list[tuple[Any, ...]]]:
        for cep in opened:
            cep.close()
        cep = bridge.connect(url, **options)
        opened.append(cep)
        cep.register_stream("s", "k VARCHAR, a BIGINT")
        received: list[tuple[Any, ...]] = []
        queries = {
            "plain": ("SELECT k, a FROM s", "refuse"),
            "bad": ("SELECT k, SUM(ABS(a)) AS t FROM s WINDOW(ROWS 3) GROUP BY k", on_error),
            "window": ("SELECT k, COUNT(*) AS n FROM s WINDOW(ROWS 3) GROUP BY k", "refuse"),
            "reader": ("SELECT t FROM bad WHERE t > 2", on_error),
        }
        for name, (text, policy) in queries.items():
            cep.create_query(name, text, on_error=policy, into=f"of_{name}")
            cep.add_output_processor(name, note(name, received))
        return cep, received

    yield begin
    for cep in opened:
        cep.close()


def push(cep: bridge.Bridge, *values: int) -> None:
    for value in values:
        cep.push_event("s", ["x", value], (cep.now or 0) + 1)


def of(received: list[tuple[Any, ...]], name: str) -> list[Any]:
    return [value for query, value in received if query == name]


def test_a_query_that_fails_is_stopped_and_the_others_go_on(start: Start) -> None:
    cep, received = start("stop")
    push(cep, 1, WORST, 3)
    assert of(received, "plain") == [1, WORST, 3]
    assert of(received, "window") == [1, 2, 3]
    assert of(received, "bad") == [1]
    status = cep.status().queries
    assert status["bad"].stopped and status["bad"].waits_for == ("resume_query",)
    assert status["reader"].stopped == "it reads 'bad', which is stopped"
    assert "stopped: " in str(cep.status())
    cep, received = start("stop")  # it is stopped after a restart, too
    push(cep, 4)
    assert (of(received, "bad"), of(received, "window")) == ([], [3])
    with pytest.raises(BridgeError, match="read by 'reader'"):
        cep.resume_query("bad")
    with pytest.raises(QueryError, match="'bad' is stopped"):
        cep.create_query("another", "SELECT t FROM bad")
    assert cep.next_deadline() is None
    cep.remove_query("reader")
    cep.resume_query("bad")
    push(cep, 5)
    assert (of(received, "bad"), of(received, "window")) == ([5], [3, 3])
    assert cep.status().queries["bad"].stopped is None
    with pytest.raises(QueryError, match="is not stopped"):
        cep.resume_query("bad")
    cep, received = start("stop")
    push(cep, 6)
    assert of(received, "bad") == [11]
    assert [int(row[0]) for row in cep.database.fetch("SELECT t FROM of_bad ORDER BY ts")] == [1, 5, 11]


def test_a_query_whose_results_are_stored(database: Database, tmp_path: pathlib.Path) -> None:
    """Its statement is only queued on PostgreSQL, and must have run when a trial without other queries is over."""
    with bridge.connect(database.durable(tmp_path)) as cep:
        cep.register_stream("s", "a BIGINT")
        cep.create_query("bad", "SELECT ABS(a) AS t FROM s WHERE a < 0", on_error="stop")
        cep.create_query("good", "SELECT a FROM s", into="of_good")
        received: list[int] = []
        cep.add_output_processor("bad", lambda result: received.append(result.payload["t"]), name="named")
        cep.push_event("s", [-1], 1)
        assert cep.push_events("s", [([1], 2), ([WORST], 3)]) == 2
        assert re.search("(?i)range|overflow", str(cep.status().queries["bad"].stopped))
        assert received == [1]
        assert len(cep.database.fetch("SELECT a FROM of_good")) == 3


def test_a_query_that_fails_skips_the_push(start_here: Start) -> None:
    cep, received = start_here("skip", lateness=1)
    for ts, value in enumerate((1, WORST, 3, 4, 5), 1):
        cep.push_event("s", ["x", value], ts)
    cep.advance_time(10)
    assert of(received, "window") == [1, 2, 3, 3, 3]
    assert of(received, "bad") == [1, 12]  # between them the worst is in its window
    assert of(received, "reader") == [12]
    assert cep.status().queries["bad"].skipped == 3
    assert cep.status().queries["bad"].stopped is None


def test_a_push_is_refused_where_nobody_says_otherwise(start_here: Start) -> None:
    cep, received = start_here("refuse")
    push(cep, 1)
    with pytest.raises(DatabaseError):
        push(cep, WORST)
    push(cep, 3)
    assert of(received, "bad") == [1, 4]
    cep.remove_query("reader")
    cep.create_query("bad", "SELECT k, SUM(a) AS t FROM s WINDOW(ROWS 3) GROUP BY k", into="of_bad", replace=True)
    push(cep, WORST)
    assert of(received, "window") == [1, 2, 3]


def test_what_no_query_does_is_raised_as_before(start_here: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    cep, received = start_here("stop")

    def full() -> None:
        raise Refused("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(cep.database, "commit", full)
        patch.setattr(cep._runner, "set_clock", full, raising=False)
        patch.setattr(cep._runner._tables, "set_clock", lambda *_: full())
        with pytest.raises(DatabaseError, match="disk is full"):
            push(cep, 1)
    push(cep, 2)
    assert of(received, "bad") == [2]


def test_a_query_beyond_its_limits_is_stopped() -> None:
    with bridge.connect("sqlite://") as cep:
        cep.create_query(
            "all", "SELECT x.a AS a FROM s[a: INTEGER] WINDOW(ROWS 50) AS x, s WINDOW(ROWS 50) AS y", on_error="stop",
            limits=Limits(rows=100),
        )  # fmt: skip
        cep.create_query("few", "SELECT a FROM s", on_error="stop", limits=Limits(rows=100, seconds=60))
        received: dict[str, list[Any]] = {"all": [], "few": []}
        for name, results in received.items():
            cep.add_output_processor(name, results.append)
        cep.push_events("s", [([number], 1000 + number) for number in range(5)])
        cep.push_events("s", [([number], 2000 + number) for number in range(50)])
        assert {name: len(results) for name, results in received.items()} == {"all": 25, "few": 55}
        assert "limits=Limits(rows=…) allows more" in str(cep.status().queries["all"].stopped)
    with bridge.connect("sqlite://") as cep, pytest.raises(QueryError, match="on_error"):
        cep.create_query("q", "SELECT a FROM s[a: INTEGER]", limits=Limits(rows=100))
    with bridge.connect("sqlite://") as cep, pytest.raises(QueryError, match="on_error is"):
        cep.create_query("q", "SELECT a FROM s[a: INTEGER]", on_error="ignore")


def test_a_slow_query_is_stopped() -> None:
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "a INTEGER")
        database: Any = cep.database
        database.connection.driver_connection.create_function("abs", 1, slow)
        cep.create_query("slow", "SELECT ABS(a) AS a FROM s", on_error="stop", limits=Limits(seconds=0.2))
        cep.create_query("quick", "SELECT a FROM s", on_error="stop", limits=Limits(seconds=0.2))
        received: list[Any] = []
        for name in ("slow", "quick"):
            cep.add_output_processor(name, received.append)
        cep.push_event("s", [1], 1)
        assert len(received) == 1
        status = cep.status().queries
        assert "took 0." in str(status["slow"].stopped)
        assert status["quick"].stopped is None


def slow(value: int) -> int:
    import time

    time.sleep(0.3)
    return abs(value)
