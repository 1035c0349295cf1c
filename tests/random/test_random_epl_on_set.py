"""EPL's on … set: variables that events change, against a simulation in Python, however events are pushed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import bridge
from bridge.engine.session import session_of
from bridge.errors import BridgeError, QueryError
from bridge.rewrite.settings import Settings
from tests.random.test_random_epl import all_ways
from tests.support import epl_generate
from tests.support.epl_rows import Row

CREATED = ("create variable int most = 2", "create variable long n = 0")
State = dict[str, int]
Told = list[tuple[Any, ...]]

SETTERS: dict[str, Callable[[str, Row, State, State], None]] = {
    "on A as a set most = a.v": lambda s, row, now, old: now.update(most=row[2]) if s == "A" else None,
    "on B(v > 2) as b set n = n + b.v, most = n % 5": lambda s, row, now, old: _add(s, row, now),
    "on A(v > most) set most = most + 1": lambda s, row, now, old: (
        now.update(most=now["most"] + 1) if s == "A" and row[2] > old["most"] else None
    ),
    "on B as b set most = most + 1, n = most, n = n + most": lambda s, row, now, old: (
        now.update(most=now["most"] + 1, n=2 * now["most"] + 2) if s == "B" else None
    ),
}


def _add(stream: str, row: Row, now: State) -> None:
    if stream == "B" and row[2] > 2:
        now["n"] += row[2]
        now["most"] = now["n"] % 5


def _rows(stream: str, holds: Callable[[int, State, State], bool]) -> Callable[..., Told]:
    def told(s: str, row: Row, now: State, old: State, kept: list[str]) -> Told:
        return [(row[0], row[1], now["most"], now["n"])] if s == stream and holds(row[2], now, old) else []

    return told


def _pattern(s: str, row: Row, now: State, old: State, kept: list[str]) -> Told:
    """`every a=A -> b=B(v >= most)`"""
    if s == "A":
        kept.append(row[1])
    if s == "A" or row[2] < old["most"]:
        return []
    told = [(row[0], first, row[1], now["most"]) for first in kept]
    kept.clear()
    return told


READERS: dict[str, Callable[..., Told]] = {
    "select id, most, n from A": _rows("A", lambda v, now, old: True),
    "select id, most, n from A(v >= most)": _rows("A", lambda v, now, old: v >= old["most"]),
    "select id, most, n from B where v < most or v > n": _rows(
        "B", lambda v, now, old: v < old["most"] or v > old["n"]
    ),
    "select id, most as m, n from B#length(2) where v <= most": _rows("B", lambda v, now, old: v <= now["most"]),
    "select a.id as i, b.id as j, most from pattern [every a=A -> b=B(v >= most)]": _pattern,
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(12))
def test_statements_find_values_as_those_before_them_left_them(seed: int) -> None:
    chance = random.Random(seed)
    setters = chance.sample(list(SETTERS), chance.randint(1, 3))
    reader = list(READERS)[seed % len(READERS)]
    events = [(chance.choice("AB"), row) for row in epl_generate.events(chance, 14)]
    now: State = {"most": 2, "n": 0}
    expected, kept = Told(), list[str]()
    for stream, row in events:
        old = dict(now)
        for setter in setters:
            SETTERS[setter](stream, row, now, old)
        expected += READERS[reader](stream, row, now, old, kept)
    first = (*CREATED, "on S set most = v, n = v", *setters)
    assert [(ts, *row.values()) for ts, row in all_ways(reader, events, seed, first)] == expected, (setters, reader)
    streams = "; ".join(epl_generate.SCHEMA.format(stream) for stream in "SAB")
    script = "; ".join([streams, *first, f"@name('q') {reader}"])
    history = [(stream, list(row[1:]), row[0]) for stream, row in events]
    found = bridge.replay(history, script, language="epl", database="sqlite://")["q"].to_pylist()
    assert [tuple(row.values()) for row in found] == expected, script


def opened(*texts: str) -> bridge.Bridge:
    cep = bridge.connect("duckdb://")
    session_of(cep).settings = Settings(checkpoint_rows=3)
    for place, text in enumerate((*(epl_generate.SCHEMA.format(s) for s in "SAB"), *CREATED, *texts)):
        cep.create_query(f"q{place}", text, language="epl")
    return cep


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(6))
def test_aggregates_are_told_with_the_values_there_are_then(seed: int) -> None:
    """Beside what the results give, once they have a name."""
    chance = random.Random(seed)
    setters = chance.sample(list(SETTERS), 2)
    window = chance.choice(("", "#length(3)", "#time(3 milliseconds)", "#keepall"))
    events = [(chance.choice("AB"), row) for row in epl_generate.events(chance, 14)]
    named = f"insert into T select k, sum(v) as t, count(*) as c from A{window} group by k"
    text = f"select k, sum(v) + most as t, n from A{window} group by k having sum(v) * 2 > most or count(*) = n"
    told = all_ways(text, events, seed, (*CREATED, "on S set most = v, n = v", *setters))
    first = (*CREATED, "on S set most = v, n = v", *setters, named)
    apart = all_ways("select k, t + most as t, n from T where t * 2 > most or c = n", events, seed, first)
    assert told == apart


def test_what_sets_variables_tells_them_and_the_last_values_are_asked_for() -> None:
    with opened("on A set n = v, most = 5 - v") as cep:
        told: list[Any] = []
        cep.add_output_processor("q5", lambda event: told.append(event.payload))
        cep.push_events("A", [(["a", 1, "x"], 1), (["b", 4, "y"], 1)])
        assert told == [{"n": 1, "most": 4}, {"n": 4, "most": 1}]
        assert [tuple(row) for row in cep.query("SELECT n, most FROM n, most")] == [(4, 1)]


def test_a_value_outlives_what_set_it() -> None:
    with opened("on A set most = v") as cep:
        cep.push_event("A", ["a", 7, "x"], 1)
        cep.remove_query("q5")
        cep.create_query("q", "select most from S", language="epl")
        cep.create_query("again", "on S set most = most + 1", language="epl")
        told: list[Any] = []
        cep.add_output_processor("q", lambda event: told.append(event.payload["most"]))
        cep.push_events("S", [(["a", 1, "x"], 2), (["a", 1, "x"], 3)])
        assert told == [7, 8]


def test_a_push_that_fails_sets_nothing() -> None:
    with opened("on A set most = v", "create table T (k string primary key)", "insert into T select k from A") as cep:
        cep.push_event("A", ["a", 3, "x"], 1)
        with pytest.raises(BridgeError, match="already"):
            cep.push_event("A", ["a", 9, "x"], 2)
        assert [tuple(row) for row in cep.query("SELECT most FROM most")] == [(3,)]


def test_a_refused_statement_leaves_the_variable_as_it_was() -> None:
    with opened() as cep:
        with pytest.raises(QueryError, match="unknown column 'w'"):
            cep.create_query("q", "on A set most = w", language="epl")
        cep.create_query("constant", "select most from A", language="epl")
        with pytest.raises(QueryError, match="stands before those that read it"):
            cep.create_query("q", "on A set most = v", language="epl")


def test_time_that_passes_at_once_sets_one_after_the_other() -> None:
    with opened("on pattern [every timer:interval(2 sec)] set most = most + n, n = n + 1") as cep:
        told: list[Any] = []
        cep.add_output_processor("q5", lambda event: told.append((event.timestamp, *event.payload.values())))
        cep.advance_time(0)
        cep.advance_time(6_500)
        assert told == [(2000, 2, 1), (4000, 3, 2), (6000, 5, 3)]


REFUSED = {
    "select k, sum(v) as t from A#length(2) group by k ¦having sum(v) > most order by t": "in an order",
    "select sum(v) as t from A#length(2) having sum(v) > most ¦output last every 2 events": "output with a variable",
    "select * from A match_recognize (measures X.v + ¦most as m pattern (X))": "cannot be read here",
    "select * from A match_recognize (measures X.v as m pattern (X) define X as X.v > ¦most)": "cannot be read here",
    "select (select count(*) from S#keepall where v < ¦most) as n from A": "cannot be read here",
    "select v from A#length(2) order by ¦most": "cannot be read here",
    "select sum(v * most) as t from A#length(2)¦": "an aggregate of a variable that changes",
    "select sum(v) as t from A#length(2) where v > most¦": "aggregates over a window with",
    "select ¦rstream most from A#length(2)": "rstream with",
    "select most from A ¦output every 2 events": "output with a variable",
    "select v from ¦Z(v > most)": "a filter of events of 'Z', which set 'most'",
    "select count(*) as n from ¦W(v > most)": "aggregates over the window 'W'",
}


@pytest.mark.parametrize("marked", REFUSED)
def test_what_cannot_be_asked_is_refused(marked: str) -> None:
    window = ("create window W#keepall as A", "insert into W select * from A")
    with opened("insert into Z select v from A", "on Z set most = v", *window) as cep:
        before, _, after = marked.partition("¦")
        with pytest.raises(QueryError, match=REFUSED[marked]) as refused:
            cep.create_query("q", before + after, language="epl")
        assert refused.value.position == len(before)
