"""Random statements of EPL over windows: the reference, however events are pushed, and replay, on both embedded databases."""

from __future__ import annotations

import random

import pytest

import bridge
from bridge.frontends.epl.statement import parse
from tests.random.test_random_epl import COUNT, all_ways
from tests.support import epl_generate
from tests.support.reference import evaluate

WINDOWS = (
    "", "#keepall", "#length(3)", "#time(4 milliseconds)", "#unique(k)", "#unique(k, v)", "#groupwin(k)#length(2)",
    "#firstlength(4)", "#firstunique(k)", "#firsttime(9 milliseconds)", "#sort(2, v)", "#sort(3, v desc, id)",
    "#groupwin(k)#sort(2, v desc)", "#rank(k, 2, v)", "#rank(v, 2, k desc)", "#time_accum(3 milliseconds)",
    "#groupwin(k)#time_accum(3 milliseconds)", "#time_batch(4 milliseconds)", "#time_batch(3 milliseconds, 0)",
    "#length_batch(3)", "#lastevent", "#ext_timed(current_timestamp, 4 milliseconds)", "#ext_timed(v, 2 milliseconds)",
    "#ext_timed_batch(v, 2 milliseconds)", "#ext_timed_batch(current_timestamp, 4 milliseconds, 1)",
    "#expr(newest_timestamp - 5 <= oldest_timestamp and current_count < 4)",
)  # fmt: skip
JOINED = [window for window in WINDOWS if window and "batch" not in window]
OUTPUTS = ("every 4 milliseconds", "last every 4 milliseconds", "first every 4 milliseconds")
COUNTED = ("every 3 events", "last every 2 events", "first every 3 events")
SCHEMA = "id VARCHAR, v INTEGER, k VARCHAR"


def statement(chance: random.Random) -> str:
    """A statement with one window, or two."""
    kind = chance.randint(0, 13)
    if kind == 13:
        return _told_before(chance)
    if kind == 12:
        return _before(chance)
    if kind >= 10:
        return _looking(chance)
    if kind == 0:
        left, right = chance.choice(JOINED), chance.choice(JOINED)
        order = chance.choice(("", " order by a.v desc, b.id", " order by b.v limit 2"))
        if chance.random() < 0.3 and "time_accum" not in left + right:
            return _of_join(chance, left, right)
        first = chance.choice((f"A{left} as a", "A as a unidirectional"))
        outer = chance.choice(("left", "right", "full"))
        if chance.random() < 0.5:
            return f"select a.id as i, b.id as j from {first} {outer} outer join B{right} as b on a.k = b.k{order}"
        return f"select a.id as i, b.id as j from {first}, B{right} as b where a.k = b.k{order}"
    window, where = chance.choice(WINDOWS), chance.choice(("", "", " where v > 1"))
    if kind <= 3:
        return _plain(chance, window, where)
    sums = "sum(v) as t, count(*) as n, last(id) as l"
    sums += chance.choice(
        ("", "", ", last(v, 1) as p, first(id, 2) as f", ", nth(v, 1) as p" * (window in WINDOWS[:4]))
    )
    by = chance.choice(("", "k", "v"))
    group = f" group by {by}" if by else ""
    having = chance.choice(("", "", " having count(*) <> 2"))
    single = "sort" not in window and "rank" not in window and "batch" not in window and chance.random() < 0.3
    listed = ", ".join(filter(None, [by, "id" if single else "", sums]))
    if chance.random() < 0.3 and (single or "unique" not in window) and not (single and by):
        return f"select {listed} from S{window}{where}{group}{having} output {_output(chance, bool(by))}"
    order = chance.choice(("", " order by t desc, n limit 2"))
    return f"select {listed} from S{window}{where}{group}{having}{order}"


def _looking(chance: random.Random) -> str:
    """A statement with sub-queries."""
    window = chance.choice(JOINED)
    found = chance.choice(
        (
            "exists (select * from B{0} as b where b.k = a.k)",
            "not exists (select * from B{0} where v > a.v and k is not null)",
            "a.v in (select v from B{0} as b where b.k = a.k)",
            "a.v not in (select v + 1 from B{0})",
            "a.v < (select max(v) from B{0} where k = a.k)",
            "(select count(*) from A{0} as b where b.v = a.v) > 1",
        )
    ).format(window)
    value = chance.choice(("max(v)", "id", "count(*)")).strip()
    return f"select a.id as i, (select {value} from B{chance.choice(JOINED)}) as x from A as a where {found} or a.v = 1"


def _before(chance: random.Random) -> str:
    """A statement that looks at events before."""
    window = chance.choice((*WINDOWS[1:4], "#groupwin(k)#length(3)", "#groupwin(k)#time(6 milliseconds)"))
    where = chance.choice(("", " where v > prev(1, v)", " where prev(v) is null or k = 'x'"))
    if chance.random() < 0.3:
        return f"select id, prior({chance.randint(1, 3)}, v) as x, prior(1, id) as y from S(v > 1){chance.choice(JOINED[:3])}"
    return f"select id, prev({chance.randint(1, 2)}, id) as x, v - prev(v) as y from S{window}{where}"


def _of_join(chance: random.Random, left: str, right: str) -> str:
    """Aggregates over a join, or what they were."""
    which, mark = chance.choice((("", ""), ("rstream ", ""), ("irstream ", ", istream() as n")))
    by = chance.choice(("", "a.k", "b.v"))
    listed = f"{by} as g, " if by else ""
    on = f"from A{left} as a, B{right} as b where {chance.choice(('a.v = b.v', 'a.k = b.k', 'a.v > b.v'))}"
    return f"select {which}{listed}sum(a.v) as t, count(*) as c{mark} {on}" + (f" group by {by}" if by else "")


def _told_before(chance: random.Random) -> str:
    """A statement that tells what aggregates were."""
    which = chance.choice(("rstream", "irstream"))
    mark = ", istream() as n" if which == "irstream" else ""
    by = chance.choice(("", "k", "k"))
    listed = chance.choice((by, "")) if by else ""
    sums = ", ".join(filter(None, [listed, "sum(v) as t, count(*) as c, last(id) as l"]))
    where = chance.choice(("", "", " where v > 1"))
    group = f" group by {by}" if by else ""
    return f"select {which} {sums}{mark} from S{chance.choice(WINDOWS)}{where}{group}"


def _plain(chance: random.Random, window: str, where: str) -> str:
    distinct = chance.choice(("", "distinct "))
    counted = "batch" not in window and chance.random() < 0.5
    output = chance.choice(("", f" output {chance.choice(COUNTED) if counted else _output(chance, False)}"))
    listed, order = chance.choice((("v, k", "k, v desc"), ("k", "k desc"), ("v + 1 as w, k", "w")))
    limit = chance.choice(("", " limit 2", " limit 1 offset 1"))
    return f"select {distinct}{listed} from S{window}{where}{output} order by {order}{limit}"


def _output(chance: random.Random, grouped: bool) -> str:
    return chance.choice(OUTPUTS[:2] if grouped else OUTPUTS)


def check(seed: int) -> None:
    chance = random.Random(seed)
    text = statement(chance)
    streams = "AB" if " B" in text else "S"
    events = [(chance.choice(streams), row) for row in epl_generate.events(chance, 14)]
    told = [(ts, tuple(row.values())) for ts, row in all_ways(text, events, seed)]
    node = parse(text)[-1].node  # type: ignore[union-attr]
    history = [(stream, row[1:], row[0]) for stream, row in events]
    expected = evaluate({"q": node}, dict.fromkeys("SAB", SCHEMA), history, end=1_000)["q"]
    assert told == [(ts, tuple(values)) for ts, values in expected], text


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(COUNT // 2))
def test_statements_are_what_the_reference_says(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 3_000))
def test_many_statements_are_what_the_reference_says(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(COUNT // 4))
def test_a_replay_of_a_statement_gives_the_live_rows(seed: int) -> None:
    chance = random.Random(seed)
    text = statement(chance)
    streams = "AB" if " B" in text else "S"
    history = [(chance.choice(streams), list(row[1:]), row[0]) for row in epl_generate.events(chance, 14)]
    node = parse(text)[-1].node  # type: ignore[union-attr]
    schemas = "; ".join(epl_generate.SCHEMA.format(stream) for stream in "SAB")
    found = bridge.replay(history, f"{schemas}; @name('q') {text}", language="epl", end=1_000)["q"]
    past = [(stream, tuple(values), ts) for stream, values, ts in history]
    expected = evaluate({"q": node}, dict.fromkeys("SAB", SCHEMA), past, end=1_000)["q"]
    assert [tuple(row.values()) for row in found.to_pylist()] == [(ts, *values) for ts, values in expected], text
