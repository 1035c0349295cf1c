"""Random EPL: the definition, and the same rows however events are pushed, even where pushes fail in between."""

from __future__ import annotations

import functools
import os
import random
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import bridge
from bridge.engine.session import session_of
from bridge.patterns.live.temporal import TemporalMachine
from bridge.rewrite.settings import Settings
from tests.oracles.esper import generate
from tests.support import epl_events, epl_generate
from tests.support.epl_rows import Row, reported
from tests.support.refused_pushes import refused_push

if TYPE_CHECKING:
    from tests.support.databases import Database

COUNT = int(os.environ.get("BRIDGE_RANDOM", "40"))
Told = list[tuple[int, dict[str, Any]]]


def pushed(
    cep: bridge.Bridge,
    statement: str,
    events: list[tuple[str, Row]],
    sizes: random.Random | None,
    first: Sequence[str] = (),
    after: int = 5_000,
) -> Told:
    """What a statement tells of events pushed one by one, or in batches of which every other fails at first."""
    session_of(cep).settings = Settings(checkpoint_rows=3)
    for stream in ("S", "A", "B"):
        cep.create_query(f"schema {stream}", epl_generate.SCHEMA.format(stream), language="epl")
    for place, text in enumerate(first):
        cep.create_query(f"first {place}", text, language="epl")
    cep.create_query("q", statement, language="epl")
    told: Told = []
    cep.add_output_processor("q", lambda event: told.append((event.timestamp, event.payload)))
    rows = [(stream, list(row[1:]), row[0]) for stream, row in events]
    while rows:
        size = 1 if sizes is None else sizes.randint(1, 6)
        if sizes is not None and sizes.random() < 0.5:
            refused_push(cep, functools.partial(cep.push_all, rows[:size]))
        cep.push_all(rows[:size])
        del rows[:size]
    cep.advance_time(events[-1][1][0] + after)
    return told


def all_ways(
    statement: str, events: list[tuple[str, Row]], seed: int, first: Sequence[str] = (), after: int = 5_000
) -> Told:
    """The same told one by one and in batches, on SQLite, and in one of these ways on DuckDB, which opens slowly."""
    found = []
    for url, in_batches in (("sqlite://", False), ("sqlite://", True), ("duckdb://?threads=1", seed % 2 == 1)):
        sizes = random.Random(seed) if in_batches else None
        with bridge.connect(url) as cep:
            found.append(pushed(cep, statement, events, sizes, first, after))
    assert all(one == found[0] for one in found), statement
    return found[0]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(COUNT))
def test_match_recognize_is_what_the_definition_says(seed: int) -> None:
    chance = random.Random(seed)
    statement, asked = epl_generate.rows(chance)
    events = epl_generate.events(chance, 14)
    told = all_ways(statement, [("S", row) for row in events], seed)
    expected = [(ts, epl_generate.told(asked, binding, rows)) for ts, binding, rows in reported(asked, events)]
    assert told == expected, statement


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(COUNT))
def test_sequences_are_what_the_definition_says(seed: int) -> None:
    chance = random.Random(seed)
    statement, asked = epl_generate.sequence(chance)
    events = epl_generate.events(chance, 30)
    expected = [(ts, epl_generate.told(asked, binding, rows)) for ts, binding, rows in reported(asked, events)]
    assert all_ways(statement, [("S", row) for row in events], seed) == expected, statement


def test_the_machine_is_for_what_is_no_sequence() -> None:
    clause = "match_recognize (measures A.v as v, B.v as w pattern ({}) define B as B.v > A.v)"
    with bridge.connect() as cep:
        cep.create_query("schema", epl_generate.SCHEMA.format("S"), language="epl")
        for name, window, text in (("plain", "", "A B"), ("kept", "#keepall", "A B"), ("any", "", "A B?")):
            cep.create_query(name, f"select * from S{window} {clause.format(text)}", language="epl")
        assert ["program" in cep.explain(name) for name in ("plain", "kept", "any")] == [False, True, True]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(COUNT // 2))
def test_intervals_do_not_depend_on_the_pushes(seed: int) -> None:
    chance = random.Random(seed)
    statement = epl_generate.interval(chance)
    all_ways(statement, [("S", row) for row in epl_generate.events(chance, 16)], seed)


@pytest.mark.parametrize("seed", range(COUNT // 4))
def test_batches_do_not_depend_on_the_pushes(seed: int) -> None:
    chance = random.Random(seed)
    all_ways(epl_generate.batch(chance), [("S", row) for row in epl_generate.events(chance, 16)], seed)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(COUNT))
def test_patterns_do_not_depend_on_the_pushes(seed: int) -> None:
    chance = random.Random(seed)
    statement = epl_generate.temporal(chance)
    events = [(chance.choice("AB"), row) for row in epl_generate.events(chance, 10)]
    all_ways(statement, events, seed)


@pytest.mark.parametrize("seed", range(COUNT // 3))
def test_patterns_of_all_operators_do_not_depend_on_the_pushes(seed: int) -> None:
    question = generate(seed * 4)
    events = [(stream, (ts, *row)) for stream, ts, *row in question.events]
    checkpoint = TemporalMachine.checkpoint

    def often(self: TemporalMachine, database: Any) -> None:
        checkpoint(self, database)
        self._schedule.interval = 1 + seed % 3

    with mock.patch.object(TemporalMachine, "checkpoint", often):
        all_ways(question.statement, events, seed)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(COUNT * 2))
def test_patterns_are_what_their_functions_say(seed: int) -> None:
    chance = random.Random(seed)
    part = epl_events.generate(chance)
    events = [(chance.choice("AB"), row) for row in epl_generate.events(chance, 9)]
    events = [(stream, (place, *row[1:])) for place, (stream, row) in enumerate(events)]
    expected, _ = epl_events.run(part, -1, {}, events)
    with bridge.connect("sqlite://") as cep:
        told = pushed(cep, f"select * from pattern [{part}]", events, None)
    tags = epl_events.tags_of(part)
    found = [(ts, tuple(row[f"{tag}_id"] for tag in tags)) for ts, row in told]
    wanted = [(place, tuple(bound[tag][1] if tag in bound else None for tag in tags)) for place, bound in expected]
    assert sorted(found, key=repr) == sorted(wanted, key=repr), (part, events)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(COUNT // 2))
def test_deletions_do_not_depend_on_the_pushes(seed: int) -> None:
    chance = random.Random(seed)
    statement = epl_generate.rows(chance)[0].replace("from S#", "from S #").replace("from S ", "from W ", 1)
    statement = re.sub(r"#\w+(\([^)]*\))? ", "", statement, count=1)
    events = [(chance.choice("SSSA"), row) for row in epl_generate.events(chance, 18)]
    first = (
        "create window W#keepall as S",
        "insert into W select * from S",
        "on A as a delete from W as w where w.v = a.v and w.id != a.id",
    )
    all_ways(statement, events, seed, first)


def test_a_statement_goes_on_after_a_push_that_failed(database: Database) -> None:
    statement = "select * from pattern [every a=A -> b=B(k = a.k) where timer:within(5 milliseconds)]"
    events = [("A", (1, "a1", 1, "x")), ("A", (2, "a2", 1, "y")), ("B", (3, "b1", 1, "y")), ("B", (6, "b2", 1, "x"))]
    with database.connect() as cep:
        told = pushed(cep, statement, events, random.Random(1))
    assert [(ts, row["a_id"], row["b_id"]) for ts, row in told] == [(3, "a2", "b1")]


@pytest.mark.parametrize("seed", range(COUNT // 4))
def test_a_replay_gives_the_live_rows(seed: int) -> None:
    chance = random.Random(seed)
    statement = chance.choice(
        (epl_generate.rows(chance)[0], epl_generate.interval(chance), epl_generate.temporal(chance))
    )
    events = [
        (chance.choice("AB") if "pattern [" in statement else "S", row) for row in epl_generate.events(chance, 14)
    ]
    with bridge.connect("sqlite://") as cep:
        live = pushed(cep, statement, events, None)
    streams = "; ".join(epl_generate.SCHEMA.format(stream) for stream in "SAB")
    history = [(stream, list(row[1:]), row[0]) for stream, row in events]
    found = bridge.replay(history, f"{streams}; @name('q') {statement}", language="epl", end=1_000)["q"]
    assert [(row.pop("ts"), row) for row in found.to_pylist()] == live, statement


@pytest.mark.parametrize(
    "part", ["not b=B", "b=B until c=A", "every b=B", "b=B -> c=A", "b=B or c=A", "every-distinct(b.v) b=B"]
)
@pytest.mark.parametrize("how", ["and", "or"])
def test_a_part_may_be_false_before_the_next_one_is_started(part: str, how: str) -> None:
    over = "timer:schedule(iso: 'R1/1960-05-01T10:00:00Z/PT5M')"
    statement = f"select a.id as i from pattern [every a=A -> ({over} {how} ({part}))]"
    events = [("A", (1, "a1", 1, "x")), ("A", (2, "a2", 2, "y")), ("B", (3, "b1", 3, "x"))]
    with bridge.connect("sqlite://") as cep:
        told = pushed(cep, statement, events, None)
    assert how == "or" or not told
