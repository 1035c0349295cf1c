"""Tables that statements of EPL change: a simulation in Python, however events are pushed, and replay."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest

import bridge
from bridge.errors import BridgeError, QueryError
from tests.random.test_random_epl import COUNT, all_ways
from tests.support import epl_generate
from tests.support.epl_rows import Row

TABLE = "create table T (k string primary key, v int, n long)"
State = dict[str, tuple[int, int]]
Told = list[tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class Statement:
    """A statement, the stream that drives it, and what it does to the table and tells."""

    text: str
    stream: str
    act: Callable[[State, Row], Told]


def merge(chance: random.Random) -> Statement:
    """Rows of a key are added to, or deleted; or begun."""
    limit, least = chance.randint(2, 8), chance.randint(1, 3)
    deletes = chance.random() < 0.5
    first = "delete" if deletes else "update set n = 0"

    def act(state: State, row: Row) -> Told:
        _, _, value, key = row
        if key not in state:
            if value >= least:
                state[key] = (value, 1)
            return []
        v, n = state[key]
        state[key] = (v + value, n + v) if v <= limit else (v, 0)
        if v > limit and deletes:
            del state[key]
        return []

    return Statement(
        f"on A(k is not null) as a merge T as t where t.k = a.k when matched and t.v > {limit} then {first} "
        f"when matched then update set v = t.v + a.v, n = n + initial.v "
        f"when not matched and a.v >= {least} then insert select a.k as k, a.v as v, 1L as n",
        "A",
        lambda state, row: act(state, row) if row[3] is not None else [],
    )


def update(chance: random.Random) -> Statement:
    def act(state: State, row: Row) -> Told:
        for key, (v, _) in state.items():
            if v <= row[2]:
                state[key] = (v + 1, v + 1)
        return []

    return Statement("on B as b update T set v = T.v + 1, n = T.v where T.v <= b.v", "B", act)


def delete(chance: random.Random) -> Statement:
    def act(state: State, row: Row) -> Told:
        for key in [key for key, (v, _) in state.items() if v > row[2] + 4]:
            del state[key]
        return []

    return Statement("on B as b delete from T as t where t.v - 4 > b.v", "B", act)


def asked(chance: random.Random) -> Statement:
    """What an event finds: joined, asked for, or in a sub-query."""
    stream = chance.choice("AB")
    kind = chance.randint(0, 2)
    if kind == 2:
        text = f"select id as i, (select sum(v) from T where v > s.v) as x from {stream} as s"
        return Statement(text, stream, lambda state, row: [(row[1], _sum(v for v, _ in state.values() if v > row[2]))])
    where = "where t.k = s.k"
    head = f"from {stream} as s, T as t" if kind else f"from {stream} as s left outer join T as t on t.k = s.k"
    text = f"select s.id as i, t.v as x {head} {where if kind else ''}"

    def act(state: State, row: Row) -> Told:
        if row[3] in state:
            return [(row[1], state[row[3]][0])]
        return [] if kind else [(row[1], None)]

    return Statement(text.strip(), stream, act)


def _sum(values: Any) -> int | None:
    return sum(listed) if (listed := list(values)) else None


def generate(chance: random.Random) -> tuple[list[Statement], int]:
    """Some statements in their order, and the place of the one that tells."""
    writers = [merge(chance), *(make(chance) for make in chance.sample((update, delete), chance.randint(0, 2)))]
    chance.shuffle(writers)
    place = chance.randint(0, len(writers))
    return [*writers[:place], asked(chance), *writers[place:]], place


@pytest.mark.parametrize("seed", range(COUNT // 3))
def test_statements_find_what_those_before_them_left(seed: int) -> None:
    chance = random.Random(seed)
    statements, place = generate(chance)
    events = [(chance.choice("AAB"), row) for row in epl_generate.events(chance, 14)]
    state, expected = State(), Told()
    for stream, row in events:
        for statement in statements:
            if statement.stream == stream:
                expected += [(row[0], *told) for told in statement.act(state, row)]
    streams = "; ".join(epl_generate.SCHEMA.format(stream) for stream in "AB")
    texts = [f"@name('q') {one.text}" if at == place else one.text for at, one in enumerate(statements)]
    history = [(stream, list(row[1:]), row[0]) for stream, row in events]
    script = f"{streams}; {TABLE}; {'; '.join(texts)}"
    found = bridge.replay(history, script, language="epl", database="sqlite://")["q"]
    assert [tuple(row.values()) for row in found.to_pylist()] == expected, texts
    if place == len(statements) - 1:
        told = all_ways(statements[-1].text, events, seed, (TABLE, *(one.text for one in statements[:-1])))
        assert [(ts, *row.values()) for ts, row in told] == expected, texts


def opened(*texts: str) -> bridge.Bridge:
    cep = bridge.connect("sqlite://")
    for place, text in enumerate((epl_generate.SCHEMA.format("A"), TABLE, *texts)):
        cep.create_query(f"q{place}", text, language="epl")
    return cep


def test_a_key_is_of_one_row() -> None:
    with opened("insert into T select k, v from A") as cep:
        cep.push_event("A", ["a", 1, "x"], 1)
        for key, message in (("x", "a row with k = 'x' already"), (None, "cannot be NULL")):
            with pytest.raises(BridgeError, match=message):
                cep.push_event("A", ["b", 2, key], 2)
        assert [tuple(row) for row in cep.query("SELECT * FROM T")] == [("x", 1, None)]


def test_a_table_may_be_asked_and_goes_with_the_bridge() -> None:
    with opened("insert into T select k, v, 1L as n from A") as cep:
        cep.push_events("A", [(["a", 1, "x"], 1), (["b", 2, "y"], 1)])
        assert [tuple(row) for row in cep.query("SELECT k, v FROM T ORDER BY k")] == [("x", 1), ("y", 2)]
        with pytest.raises(BridgeError, match="there is a table 'T' already"):
            cep.register_stream("T", "v INTEGER")


def test_a_table_of_the_database_stays_what_it_is() -> None:
    with opened() as cep:
        cep.database.execute("CREATE TABLE U (v INTEGER)")
        with pytest.raises(BridgeError, match="there is a table 'U' in the database already"):
            cep.create_query("u", "create table U (n long)", language="epl")
        cep.create_query("v", "create table V (n long)", language="epl")
        assert [column.name for column in cep.database.relation("U") or ()] == ["v"]


def test_time_drives_one_statement_of_a_table() -> None:
    told = "insert into X select k, sum(v) as v from A#time_batch(5 sec) group by k"
    with opened(told, "on X as x merge T as t where t.k = x.k when not matched then insert select x.k as k") as cep:
        text = "select b.k as k, t.v as v from A#time_batch(3 sec) as b, T as t where t.k = b.k"
        with pytest.raises(QueryError, match="time alone drives"):
            cep.create_query("late", text, language="epl")
        cep.create_query(
            "soon", "select a.k as k, t.k as there from A as a left outer join T as t on t.k = a.k", language="epl"
        )
        found = []
        cep.add_output_processor("soon", lambda event: found.append((event.timestamp, event.payload["there"])))
        cep.push_events("A", [(["a", 1, "x"], 0), (["b", 1, "x"], 4_000), (["c", 1, "x"], 9_000)])
    assert found == [(0, None), (4_000, None), (9_000, "x")]


WINDOW = ("create window W#keepall as A", "insert into W select * from A(v > 1)")
READERS = (
    "select k, sum(v) as t, count(*) as n from W group by k",
    "select sum(v) as t from W(v < 5)",
    "select id, v from W",
    "select b.id as i, w.id as j from B#length(2) as b, W as w where w.k = b.k",
    "select b.id as i, w.id as j from B#time(4 milliseconds) as b left outer join W as w on w.v > b.v",
    "on B as b select b.id as i, w.id as j, w.v as v from W as w where w.v > b.v",
    "select id, (select max(v) from W where k = b.k) as m from B as b",
    "select v from W output last every 4 milliseconds",
)


def changes(chance: random.Random) -> list[str]:
    """What events do to a named window."""
    known = (
        "on B as b update W as w set v = v + 1, id = w.id || cast(initial.v, string) where w.k = b.k",
        "on B(v > 2) as b delete from W as w where w.v >= b.v + 2",
        "on A(v = 1) as a merge W as w where w.k = a.k when matched and w.v > 4 then delete "
        "when matched then update set v = w.v + 2 when not matched then insert select a.id as id, 9 as v, a.k as k",
    )
    return chance.sample(known, chance.randint(1, 3))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(COUNT // 4))
def test_what_changes_a_named_window_does_not_depend_on_the_pushes(seed: int) -> None:
    chance = random.Random(seed)
    events = [(chance.choice("AAB"), row) for row in epl_generate.events(chance, 14)]
    all_ways(chance.choice(READERS), events, seed, (*WINDOW, *changes(chance)))


def test_a_window_that_events_change_can_be_asked() -> None:
    update = "on A(v = 0) as a update W as w set v = w.v + 1 where w.k = a.k"
    with opened(*WINDOW, update, "select sum(v) as t from W") as cep:
        cep.push_events("A", [(["a", 5, "x"], 1), (["b", 0, "x"], 2), (["c", 7, "y"], 3)])
        assert [row.t for row in cep.query("SELECT t FROM q5")] == [13]


def test_what_is_not_there_of_windows_that_events_change() -> None:
    with opened(*WINDOW, "on A(v = 0) as a update W as w set v = w.v + 1 where w.k = a.k") as cep:
        for text, reason in (
            ("select * from W match_recognize (measures A.v as v pattern (A))", "match_recognize over a window"),
            ("select id, sum(v) as t from W", "values of single events"),
            ("on A as a update W as w set u = 3", "no column 'u'"),
        ):
            with pytest.raises(QueryError, match=reason):
                cep.create_query("x", f"{text}", language="epl")
                cep.create_query("y", "select sum(v) as t from W", language="epl")


@pytest.mark.parametrize("seed", range(COUNT // 6))
def test_what_leaves_does_not_depend_on_the_pushes(seed: int) -> None:
    chance = random.Random(seed)
    window = chance.choice(
        ("#length(2)", "#time(4 milliseconds)", "#unique(k)", "#sort(2, v)", "#time_accum(3 milliseconds)")
    )
    text = chance.choice(
        (
            f"select rstream id, v from A{window} where v > 1",
            "select id, v from A#time(5 milliseconds) output snapshot every 3 milliseconds",
        )
    )
    all_ways(text, [("A", row) for row in epl_generate.events(chance, 14)], seed)
