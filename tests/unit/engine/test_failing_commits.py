"""A definition whose COMMIT fails changes nothing, neither in the database nor in the process, and can be repeated."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

import bridge
from tests.support.databases import Database
from windows.databases import Refused

SCRIPT = "INSERT INTO big SELECT k, v FROM s WHERE v > 1\nINSERT INTO bigger SELECT k, v FROM big WHERE v > {least}"
RUN = """SELECT z FROM s MATCHING (PARTITION BY k PATTERN xy WITHIN {within} S MEASURES z INTEGER
    DEFINE x AS v > {least} DO z = v, y AS v > z)"""
RISING = """SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES A.v AS f, LAST(B.v) AS l PATTERN (A B) WITHIN 10 S
    DEFINE B AS B.v > PREV(B.v))"""
QUERIES = {
    "total": ("sql", "SELECT k, SUM(v) AS t FROM s WINDOW(RANGE 10 S) GROUP BY k"),
    "counted": ("sql", "SELECT k, COUNT(*) AS n FROM total WINDOW(ROWS 5) GROUP BY k"),
    "one": ("sql", RUN.format(within=10, least=1)),
    "other": ("sql", RUN.format(within=5, least=2)),
    "rising": ("sql", RISING),
    "last": ("sql", "SELECT k, v FROM s WINDOW(ROWS 3)"),
    "script": ("cpl", SCRIPT.format(least=2)),
    "least": ("epl", "create variable integer least = 2"),
    "set": ("epl", "on u(v = 1) set least = least + 1"),
    "above": ("epl", "select k, v from s where v > least"),
}

Action = Callable[[bridge.Bridge, Any], object]

ACTIONS: dict[str, Action] = {
    "create a query": lambda cep, _: cep.create_query("new", "SELECT k FROM total WINDOW(ROWS 2)"),
    "create a member of a family": lambda cep, _: cep.create_query("member", RUN.format(within=20, least=3)),
    "register a stream": lambda cep, _: cep.register_stream("stream", "a INTEGER"),
    "replace a pattern": lambda cep, _: cep.create_query("rising", "SELECT k FROM total WINDOW(ROWS 2)", replace=True),
    "replace a member of a family": lambda cep, _: cep.create_query(
        "one", RUN.format(within=20, least=3), replace=True
    ),
    "replace a query with a named processor": lambda cep, _: cep.create_query(
        "last", "SELECT k, v FROM s WINDOW(ROWS 3) WHERE v > 2", replace=True
    ),
    "replace a statement": lambda cep, _: cep.create_query(
        "set", "on u(v = 2) set least = least + 2", language="epl", replace=True
    ),
    "replace a script": lambda cep, _: cep.create_query("script", SCRIPT.format(least=3), language="cpl", replace=True),
    "remove a query over a query": lambda cep, _: cep.remove_query("counted"),
    "remove a pattern": lambda cep, _: cep.remove_query("rising"),
    "remove a member of a family": lambda cep, _: cep.remove_query("one"),
    "remove a named processor": lambda cep, handle: cep.remove_output_processor(handle),
    "remove a query with a named processor": lambda cep, _: cep.remove_query("last"),
    "remove a statement": lambda cep, _: cep.remove_query("set"),
    "remove a script": lambda cep, _: cep.remove_query("script"),
    "remove a stream": lambda cep, _: cep.remove_stream("unread"),
}
"""Definitions that can be carried out one after the other."""

Received = list[tuple[str, int, tuple[Any, ...]]]


def opened(url: str, received: Received) -> tuple[bridge.Bridge, Any]:
    """A bridge with all queries, and the handle of its named processor."""
    cep = bridge.connect(url)
    for stream in ("s", "u", "unread"):
        cep.register_stream(stream, "k VARCHAR, v INTEGER")
    for name, (language, text) in QUERIES.items():
        cep.create_query(name, text, language=language)

    def receiver(name: str) -> Callable[[Any], None]:
        return lambda event: received.append((name, event.timestamp, tuple(event.payload.values())))

    for name in ("total", "counted", "one", "other", "rising", "last", "big", "bigger", "above"):
        cep.add_output_processor(name, receiver(name))
    return cep, cep.add_output_processor("last", receiver("named"), name="log")


def push(cep: bridge.Bridge, first: int, last: int) -> None:
    for number in range(first, last):
        stream = "u" if number % 6 == 5 else "s"
        cep.push_event(stream, ["ab"[number % 2], number * 7 % 5], number * 1000)


def failing(error: BaseException) -> Callable[[], None]:
    """A COMMIT that does not take effect."""

    def commit() -> None:
        raise error

    return commit


def results(url: str, error: BaseException | None = None) -> tuple[Received, Received]:
    """The results before and after a restart, of a bridge on which each action first fails and, at last, is carried out.

    An event follows each action. `error`: that of the COMMIT of each action; None: no action is tried before the last.
    """
    received: Received = []
    cep, handle = opened(url, received)
    push(cep, 1, 9)
    names = [*cep.queries, *cep.streams]
    for number, (name, action) in enumerate(ACTIONS.items(), 9):
        if error is not None:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(cep.database, "commit", failing(error))
                with pytest.raises((bridge.BridgeError, type(error)), match=str(error)):
                    action(cep, handle)
            assert [*cep.queries, *cep.streams] == names, name
        push(cep, number, number + 1)
    before = sorted(received, key=repr)
    cep.close()
    received.clear()
    cep, handle = opened(url, received)
    assert [*cep.queries, *cep.streams] == names
    push(cep, 25, 32)
    for number, action in enumerate(ACTIONS.values(), 32):
        action(cep, handle)
        push(cep, number, number + 1)
    after = sorted(received, key=repr)
    cep.drop()
    return before, after


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return results(f"sqlite:///{tmp_path_factory.mktemp('undisturbed')}/state.db")


@pytest.mark.some_databases(1)
def test_definitions_whose_commits_fail_change_nothing(
    database: Database, tmp_path: pathlib.Path, undisturbed: Any
) -> None:
    assert results(database.durable(tmp_path), Refused("the disk is full")) == undisturbed


def test_definitions_that_are_interrupted_change_nothing(tmp_path: pathlib.Path, undisturbed: Any) -> None:
    assert results(f"sqlite:///{tmp_path}/state.db", KeyboardInterrupt("by the user")) == undisturbed


def test_a_watched_stream_whose_removal_fails_is_read_on(
    embedded: Database, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, received = embedded.durable(tmp_path), list[int]()

    def opened_again() -> bridge.Bridge:
        cep = bridge.connect(url)
        cep.database.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER, a INTEGER)")
        cep.register_stream("orders", table="orders", position="id", since="beginning")
        return cep

    def read(cep: bridge.Bridge, number: int) -> None:
        cep.database.execute(f"INSERT INTO orders VALUES ({number}, {number})")
        cep.poll()

    cep = opened_again()
    read(cep, 1)
    with monkeypatch.context() as patched:
        patched.setattr(cep.database, "commit", failing(Refused("the disk is full")))
        with pytest.raises(bridge.DatabaseError, match="the disk is full"):
            cep.remove_stream("orders")
    cep.create_query("q", "SELECT a FROM orders")
    cep.add_output_processor("q", lambda event: received.append(event.payload["a"]))
    read(cep, 2)
    cep.close()
    cep = opened_again()
    cep.add_output_processor("q", lambda event: received.append(event.payload["a"]))
    read(cep, 3)
    cep.drop()
    assert received == [2, 3]
