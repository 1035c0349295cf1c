"""Statements of EPL in contexts: what the statement gives over the events of each key alone, however they are pushed."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

import bridge
from bridge.errors import BridgeError, QueryError
from tests.random.test_random_epl import COUNT, Told, all_ways
from tests.random.test_random_epl_statements import statement
from tests.support import epl_generate
from tests.support.epl_rows import Row

CONTEXT = "create context C partition by k from S, k from A, k from B"
UNASKED = r"output (?!every \d|last every \d)| output .*(milli|sum)|#firsttime|#time_batch\(\d+ milliseconds\)"
"""What is refused in a context."""


def asked(chance: random.Random) -> str:
    """A statement that can stand in a context."""
    while True:
        kind = chance.randint(0, 5)
        if kind == 0:
            text = epl_generate.rows(chance)[0].replace("#length(3)", "#keepall")
        elif kind == 1:
            text = epl_generate.temporal(chance)
        else:
            text = statement(chance)
        is_timed = "time_batch" in text or "timer:" in text or ("time" in text and "(" in text.split(" from ")[0])
        if is_timed and re.search(r"distinct|order by|limit| group by .* output", text):
            continue
        if "timer:" in text and not {"A", "B"} <= set(re.findall(r"=([AB])\b", text)):
            continue
        if not re.search(UNASKED, text) and not ("sum(" in text and " output " in text):
            return text


def apart(text: str, events: list[tuple[str, Row]], seed: int) -> Told:
    """What the statement gives over the events of each key; at one moment those of one event come together."""
    keys = dict.fromkeys(row[3] for _, row in events)
    end = max(1_000, events[-1][1][0] + 5_000)
    found: Told = []
    for key in keys:
        mine = [(stream, row) for stream, row in events if row[3] == key]
        with bridge.connect("sqlite://") as cep:
            found += _pushed(cep, text, mine, end)
    return found


def _pushed(cep: bridge.Bridge, text: str, events: list[tuple[str, Row]], end: int) -> Iterator[tuple[int, Any]]:
    told: Told = []
    for name in "SAB":
        cep.create_query(f"schema {name}", epl_generate.SCHEMA.format(name), language="epl")
    cep.advance_time(events[0][1][0])  # as the key begins
    cep.create_query("q", text, language="epl")
    cep.add_output_processor("q", lambda event: told.append((event.timestamp, event.payload)))
    for stream, row in events:
        cep.push_event(stream, list(row[1:]), row[0])
    cep.advance_time(end)
    return iter(told)


def check(seed: int) -> None:
    chance = random.Random(f"context/{seed}")
    text = asked(chance)
    streams = "S" if " from S" in text else "AB"
    events = [(chance.choice(streams), row) for row in epl_generate.events(chance, 14)]
    context = CONTEXT.replace("k from S, ", "") if streams == "AB" else CONTEXT
    told = all_ways(f"context C {text}", events, seed, (context,))
    assert sorted(told, key=repr) == sorted(apart(text, events, seed), key=repr), text


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(COUNT // 4))
def test_a_context_is_its_statement_for_each_key(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 2_000))
def test_many_contexts_are_their_statements_for_each_key(seed: int) -> None:
    check(seed)


REFUSED = {
    "create context C group v + 1 as low from S": "",
    "create context C group v < 0 as low, group by v > 0 as low from S": "low from",
    "create context C group by v < 0 from S": "from",
    "create context C group by w < 0 as low from S": "w < 0",
    "context G select irstream v from S#length(2)": "irstream",
    "context G select v from A": "A",
    "context G select a.v as v from S#keepall as a, B#keepall as b": "B",
    "context G select context.key1 as i from S": "context.key1",
    "create context C coalesce consistent_hash_crc32(k) from S granularity 16": "coalesce",
    "create context C start A end B": "start",
    "create context C initiated by A terminated after 5 sec": "initiated",
    "create context C context D partition by k from S": "context D",
    "create context C partition by k from S terminated by B": "terminated",
    "create context C partition by v + 1 from S": "v + 1",
    "create context C partition by k from S, v from S": "v from",
    "create context C partition by k and v from S, k from A": "k from A",
    "create context C partition by k from T": "T",
    "create context C partition by u from S": "u from",
    "create context C partition by k from S, v from A": "",
    "create context D partition by k from S": "",
    "context E select v from S": "E",
    "context D create window W#keepall as S": "create",
    "context D on S as s delete from W": "on",
    "context D select v from B": "B",
    "context D select a.v as v from A#keepall as a, B#keepall as b": "B",
    "context D select v from A#time_batch(5 sec)": "A",
    "context D select v from A#firsttime(5 sec)": "A",
    "context D select v from A output every 5 sec": "output",
    "context D select v from A output first every 5 sec": "output",
    "context D select sum(v) as t from A output last every 5 events": "output",
    "context D select v from A#time_batch(5 sec, 0) order by v": "A",
    "context D select rstream v from A#time(5 sec) order by v": "A",
    "context D select (select max(v) from B#keepall) as m from A": "select max",
    "context D select context.id as i from A": "context.id",
    "context D select context.key2 as i from A": "context.key2",
    "context D select x.v as v from pattern [timer:interval(5 sec) -> x=A]": "pattern",
    "context D select * from A#length(2) match_recognize (measures X.v as v pattern (X))": "A",
    "context D select count(*) as n from A match_recognize (measures X.v as v pattern (X))": "A",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_context_cannot_is_refused_at_its_place(text: str) -> None:
    with bridge.connect("sqlite://") as cep:
        for name in "SAB":
            cep.create_query(f"schema {name}", epl_generate.SCHEMA.format(name), language="epl")
        cep.create_query("context", "create context D partition by k from S, k from A", language="epl")
        cep.create_query("groups", "create context G group by v < 3 as low from S", language="epl")
        with pytest.raises(BridgeError) as caught:
            cep.create_query("q", text, language="epl")
        assert not cep.queries
    if REFUSED[text] and isinstance(caught.value, QueryError):
        assert text[caught.value.position :].startswith(REFUSED[text]), caught.value


CATEGORIES = {"low": "v < 3", "mid": "v > 1 and k is not null", "high": "v >= 3 or k is null"}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(8))
def test_a_context_of_categories_is_its_statement_for_each(seed: int) -> None:
    """Singly, in batches, and in a replay: what statements of their own tell, whose events are filtered."""
    chance = random.Random(f"categories/{seed}")
    text = statement(chance)
    while " from S" not in text or "select *" in text or "irstream" in text:
        text = statement(chance)
    text = re.sub(r"^(select (?:distinct |rstream )?)", r"\1context.label as c, ", text)
    events = [("S", row) for row in epl_generate.events(chance, 14)]
    end = max(1_000, events[-1][1][0] + 5_000)
    groups = ", ".join(f"group by {condition} as {label}" for label, condition in CATEGORIES.items())
    context = f"create context C {groups} from S"
    told = all_ways(f"context C {text}", events, seed, (context,))
    expected: Told = []
    for label, condition in CATEGORIES.items():
        alone = text.replace("context.label", f"'{label}'").replace(" from S(", f" from S({condition}, ")
        alone = re.sub(r" from S\b(?!\()", f" from S({condition})", alone)
        with bridge.connect("sqlite://") as cep:
            expected += _pushed(cep, alone, events, end)
    assert sorted(told, key=repr) == sorted(expected, key=repr), text
    script = f"{epl_generate.SCHEMA.format('S')}; {context}; @name('q') context C {text}"
    history = [("S", list(row[1:]), row[0]) for _, row in events]
    found = bridge.replay(history, script, language="epl", end=end)["q"].to_pylist()
    assert [(row.pop("ts"), row) for row in found] == told


def test_a_context_of_many_keys_goes_on_after_a_push_that_failed() -> None:
    """Each key's pattern is restored by the key's first event."""
    text = "context C select a.id as i, b.id as j from pattern [a=A -> (timer:interval(3 milliseconds) and b=B)]"
    events = [("A", (1, "a1", 1, "x")), ("A", (2, "a2", 1, "y")), ("B", (3, "b1", 1, "y")), ("B", (7, "b2", 1, "x"))]
    told = all_ways(text, events, 1, ("create context C partition by k from A, k from B",))
    assert [(ts, row["i"], row["j"]) for ts, row in told] == [(5, "a2", "b1"), (7, "a1", "b2")]


def test_a_replay_of_a_context_gives_the_live_rows() -> None:
    text = "context C select context.key1 as k, sum(v) as t from S#time(4 milliseconds)"
    rows = epl_generate.events(random.Random(3), 14)
    live = all_ways(text, [("S", row) for row in rows], 3, ("create context C partition by k from S",))
    script = f"{epl_generate.SCHEMA.format('S')}; create context C partition by k from S; @name('q') {text}"
    history = [("S", list(row[1:]), row[0]) for row in rows]
    found = bridge.replay(history, script, language="epl", end=1_000)["q"].to_pylist()
    assert [(row.pop("ts"), row) for row in found] == live
