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
