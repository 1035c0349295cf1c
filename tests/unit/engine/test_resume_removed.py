"""Durable bridges whose definitions were removed or replaced: each goes on as one that was never closed (rule D2)."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

import bridge
from tests.support.crashes import Crash, crash_after, die
from tests.support.databases import Database

SUMS = "insert into q select k, sum(v) as t from s#length(3) group by k"
OTHER = SUMS.replace("sum(v) as t", "sum(v) as t, count(*) as n")
MERGE = """on s as s merge T as t where t.k = s.k when matched then update set n = t.n + s.v
           when not matched then insert select s.k as k, s.v as n"""
Act = Callable[[bridge.Bridge], object]


def epl(name: str, text: str, replace: bool = False) -> Act:
    return lambda cep: cep.create_query(name, text, language="epl", replace=replace)


def gone(name: str) -> Act:
    return lambda cep: cep.remove_query(name)


def event(cep: bridge.Bridge) -> None:
    cep.push_event("s", ["a", 2 + (cep.now or 0)], (cep.now or 0) + 1)


TABLE = (epl("t", "create table T (k string primary key, n int)"), epl("m", MERGE))
READ = epl("r", "select s.v as v, T.n as n from s, T where T.k = s.k")
LOOKED_UP = epl("r", "select v, (select n from T where k = s.k) as n from s as s")
SET = (epl("v", "create variable int v0 = 3"), epl("m", "on s as s set v0 = s.v"))
BASE = "create schema B (k string, v int)"
COUNTED = """CREATE SQL counted AS SELECT COUNT(*) AS n FROM written;
             INSERT INTO x SELECT v, n FROM s ON SQL counted, v, n BIGINT"""
HISTORIES: dict[str, list[Act]] = {
    "removed": [epl("q", SUMS), event, gone("q"), event],
    "created again": [epl("q", SUMS), event, gone("q"), epl("q", SUMS), event],
    "created again at once": [epl("q", SUMS), gone("q"), epl("q", SUMS), event],
    "created again later": [epl("q", SUMS), event, gone("q"), event, epl("q", SUMS), event],
    "replaced": [epl("q", SUMS), event, epl("q", OTHER, replace=True), event],
    "replaced at once": [epl("q", SUMS), epl("q", OTHER, replace=True), event],
    "replaced twice": [epl("q", SUMS), event, epl("q", OTHER, replace=True), event, epl("q", SUMS, replace=True), event],
    "two queries of a statement": [epl("p", SUMS), event, gone("p"), gone("q"), event, epl("p", SUMS), event],
    "what was inserted into a schema": [
        epl("b", BASE),
        lambda cep: cep.create_query("m", "SELECT k, v FROM s"),
        epl("p", "insert into B select k, v from m"),
        event,
        gone("p"),
        gone("m"),
        event,
    ],
    "a stream": [epl("b", BASE), event, lambda cep: cep.remove_stream("B"), epl("q", SUMS), event],
    "a stream that is declared again": [epl("b", BASE), lambda cep: cep.remove_stream("B"), epl("b", BASE), event],
    "what changes a table": [*TABLE, READ, event, gone("m"), event],
    "what changes a table, again": [*TABLE, LOOKED_UP, event, gone("m"), event, TABLE[1], event],
    "what sets a variable": [*SET, epl("r", "select v + v0 as x from s#length(3)"), event, gone("m"), event],
    "what fills a table of aggregates": [
        epl("t", "create table A (k string primary key, t sum(int))"),
        epl("p", "into table A select sum(v) as t from s#length(3) group by k"),
        epl("r", "select A.t as t from s, A where A.k = s.k"),
        event,
        gone("p"),
        event,
    ],
    "what writes a table": [
        lambda cep: cep.create_query("p", "SELECT k, v FROM s", into="written"),
        lambda cep: cep.create_query("r", COUNTED, "cpl"),
        event,
        gone("p"),
        event,
    ],
}  # fmt: skip


def told(url: str, acts: list[Act], restarts: range) -> list[tuple[str, int, object]]:
    """The results of all queries, of a bridge that is closed and opened again after some acts, and pushed events at last."""
    found: list[tuple[str, int, object]] = []
    cep = bridge.connect(url)
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    listened = set[str]()
    for place, act in enumerate([*acts, event, event]):
        act(cep)
        if place in restarts:
            cep.close()
            cep, listened = bridge.connect(url), set()
        listened &= set(cep.queries)
        for name in sorted(set(cep.queries) - listened):
            listened.add(name)
            cep.add_output_processor(name, lambda each, name=name: found.append((name, each.timestamp, each.payload)))
    cep.drop()
    return found


@pytest.mark.one_in(3)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("history", HISTORIES)
def test_a_bridge_goes_on_without_what_was_removed(history: str, embedded: Database, tmp_path: pathlib.Path) -> None:
    acts = HISTORIES[history]
    expected = told("sqlite://", acts, range(0))
    for restarts in (range(len(acts) + 1), range(len(acts) - 1, len(acts))):
        with contextlib.suppress(FileNotFoundError):
            for file in tmp_path.iterdir():
                file.unlink()
        assert told(embedded.durable(tmp_path), acts, restarts) == expected


OUTPUTS = (
    "CREATE STREAMSCHEMA s WITH k VARCHAR, v INTEGER; INSERT INTO a SELECT v FROM s; INSERT INTO b SELECT k FROM s"
)


@pytest.mark.some_databases(2)
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["q", "script"])
def test_a_crash_at_any_statement_of_a_removal(
    name: str, step: int, database: Database, tmp_path: pathlib.Path
) -> None:
    """What is stored for named processors goes with the query, or stays with it; a script's outputs go together."""
    url = database.durable(tmp_path)
    for calls in range(0, 200, step):
        cep = bridge.connect(url, fresh=True)
        cep.create_query("script", OUTPUTS, language="cpl")
        cep.create_query("q", "SELECT v FROM s WINDOW(ROWS 3)")
        for query in ("q", "a", "b"):
            cep.add_output_processor(query, lambda result: None, name="mailer")
        cep.push_event("s", ["x", 1], 1000)
        left = crash_after(cep, calls)
        with contextlib.suppress(Crash):
            cep.remove_query(name)
        is_through, left[0] = left[0] >= 0, 10**9
        die(cep)
        cep = bridge.connect(url)
        gone = {"q", "a", "b"} - set(cep.queries)
        assert gone in (set(), {"q"} if name == "q" else {"a", "b"})
        assert not is_through or gone
        found: list[Any] = []
        for query in {"q", "a", "b"} - gone:
            cep.add_output_processor(query, found.append, name="mailer")
        cep.push_event("s", ["x", 2], 2000)
        assert sorted(each.id for each in found) == sorted(f"{query}/2000/2/0" for query in {"q", "a", "b"} - gone)
        cep.drop()
        if is_through:
            return
    raise AssertionError("the removal did not end")
