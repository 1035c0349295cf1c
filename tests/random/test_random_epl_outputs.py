"""Random statements of EPL that say when results are told: the reference, however events are pushed, and replay."""

from __future__ import annotations

import random

import pytest

import bridge
from bridge.frontends.epl.statement import parse
from tests.random.test_random_epl import COUNT, all_ways
from tests.random.test_random_epl_statements import SCHEMA
from tests.support import epl_generate
from tests.support.epl_outputs import statement
from tests.support.epl_rows import Row
from tests.support.reference import Results, evaluate

AFTER = 30


def asked(seed: int) -> tuple[str, list[tuple[str, Row]]]:
    """A statement, and events for it."""
    chance = random.Random(f"outputs/{seed}")
    text = statement(chance)
    streams = "AB" if " as b" in text else "S"
    return text, [(chance.choice(streams), row) for row in epl_generate.events(chance, 14)]


def expected(text: str, events: list[tuple[str, Row]]) -> Results:
    node = parse(text)[-1].node  # type: ignore[union-attr]
    history = [(stream, row[1:], row[0]) for stream, row in events]
    return evaluate({"q": node}, dict.fromkeys("SAB", SCHEMA), history, end=events[-1][1][0] + AFTER)["q"]


def check(seed: int) -> None:
    text, events = asked(seed)
    told = [(ts, tuple(row.values())) for ts, row in all_ways(text, events, seed, after=AFTER)]
    assert told == [(ts, tuple(values)) for ts, values in expected(text, events)], text


@pytest.mark.parametrize("seed", range(COUNT // 40))
def test_outputs_are_what_the_reference_says(seed: int) -> None:
    check(seed)


def of_periods(chance: random.Random) -> str:
    """A statement that reports after some events or some time, so that most events only leave a row."""
    window = chance.choice(("", "#length(3)", "#length(9)", "#keepall"))
    where = chance.choice(("", "", "(v > 1)"))
    every = chance.choice(("every 20 milliseconds", "every 70 milliseconds", "every 7 events", "every 11 events"))
    listed = chance.choice(("sum(v) as t, count(*) as n", "max(v) as m", "avg(v) as a, count(k) as n"))
    match chance.randrange(5):
        case 0:
            batch = chance.choice(("#length_batch(7)", "#groupwin(k)#length_batch(4)", "#time_batch(20 milliseconds)"))
            return f"select k, {listed} from S{where}{batch} group by k"
        case 1:
            return f"select id, v from S{where}{window} output {chance.choice(('', 'last ', 'first '))}{every}"
        case 2:
            return f"select {listed} from S{where}#length_batch(7) having count(*) > 1"
        case _:
            which, having = chance.choice(("", "last ", "snapshot ")), chance.choice(("", "", " having sum(v) > 9"))
            window = window or "#keepall"
            return f"select {listed} from S{where}{window}{having} output {which}{every}"


@pytest.mark.parametrize("seed", range(COUNT // 10))
def test_events_that_only_leave_a_row_change_no_output(seed: int) -> None:
    chance = random.Random(f"periods/{seed}")
    events = [("S", row) for row in epl_generate.events(chance, 90)]
    assert all_ways(of_periods(chance), events, seed, after=AFTER)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 1_500))
def test_many_outputs_are_what_the_reference_says(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(100, 100 + COUNT // 40))
def test_a_replay_of_outputs_gives_the_live_rows(seed: int) -> None:
    text, events = asked(seed)
    schemas = "; ".join(epl_generate.SCHEMA.format(stream) for stream in "SAB")
    history = [(stream, list(row[1:]), row[0]) for stream, row in events]
    end = events[-1][1][0] + AFTER
    found = bridge.replay(history, f"{schemas}; @name('q') {text}", language="epl", end=end)["q"]
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (ts, *values) for ts, values in expected(text, events)
    ]
