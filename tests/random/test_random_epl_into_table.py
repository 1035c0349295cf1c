"""Tables of EPL that hold aggregates: what they hold is what the plain statement told last, however events are pushed."""

from __future__ import annotations

import random

import pytest

import bridge
from bridge.errors import BridgeError, DatabaseError, QueryError
from tests.random.test_random_epl import COUNT, all_ways
from tests.random.test_random_epl_statements import WINDOWS
from tests.support import epl_generate
from tests.support.epl_rows import Row

TABLE = "create table T (k string primary key, total sum(int), n count(*), most max(int))"
SELECT = "select sum(v) as total, count(*) as n, max(v) as most from S(k is not null){} group by k"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(COUNT // 4))
def test_a_table_holds_what_was_told_last_of_each_group(seed: int) -> None:
    chance = random.Random(f"into/{seed}")
    window = chance.choice(WINDOWS)
    rows = epl_generate.events(chance, 14)
    events = [(chance.choice("SSB"), row) for row in rows]
    plain = SELECT.format(window).replace("select", "select k,")
    asked = "select b.id as i, t.k as k, t.total as s, t.n as n, t.most as m from B as b, T as t"
    found = all_ways(asked, events, seed, (TABLE, f"into table T {SELECT.format(window)}"))
    told = _told(plain, events)
    assert sorted(found, key=repr) == sorted(told, key=repr), window


def _told(plain: str, events: list[tuple[str, Row]]) -> list[tuple[int, dict[str, object]]]:
    """What each event of B finds: of each key what the statement told last, its event being taken before."""
    found, state = [], dict[str, tuple[object, ...]]()
    with bridge.connect("sqlite://") as cep:
        for name in "SAB":
            cep.create_query(f"schema {name}", epl_generate.SCHEMA.format(name), language="epl")
        cep.create_query("q", plain, language="epl")
        cep.add_output_processor(
            "q", lambda event: state.update({event.payload["k"]: tuple(event.payload.values())[1:]})
        )
        for stream, row in events:
            cep.push_event(stream, list(row[1:]), row[0])
            if stream == "B":
                found += [(row[0], dict(zip("iksnm", (row[1], k, *rest), strict=True))) for k, rest in state.items()]
    return found


def test_a_table_is_asked_on_demand_and_replayed() -> None:
    statement = "into table T select sum(v) as total, count(*) as n, max(v) as most from S group by k"
    events = [("S", ["a", 1, "x"], 1), ("S", ["b", 2, "y"], 2), ("S", ["c", 3, "x"], 3)]
    with bridge.connect("duckdb://") as cep:
        for place, text in enumerate((epl_generate.SCHEMA.format("S"), TABLE, statement)):
            cep.create_query(f"q{place}", text, language="epl")
        cep.push_all(events)
        assert list(cep.query("SELECT k, total, n, most FROM T ORDER BY k")) == [("x", 4, 2, 3), ("y", 2, 1, 2)]
        with pytest.raises(DatabaseError, match="cannot be NULL"):
            cep.push_event("S", ["d", 4, None], 4)
        assert len(cep.query("SELECT k FROM T")) == 2
    script = f"{epl_generate.SCHEMA.format('S')}; {TABLE}; @name('q') {statement}"
    found = bridge.replay(events, script, language="epl")["q"].to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, 1, 1, 1), (2, 2, 1, 2), (3, 4, 2, 3)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("into table U select sum(v) as total from S group by k", "unknown table"),
        ("into table T select sum(v) as total, count(*) as n, max(v) as most from S", "has the key"),
        ("into table T select sum(v) as total, count(*) as n from S group by k", "left out"),
        ("into table T select sum(v) as total, count(*) as n, min(v) as most from S group by k", "no such aggregate"),
        (
            "into table T select sum(v) + 1 as total, count(*) as n, max(v) as most from S group by k",
            "no such aggregate",
        ),
        ("into table T select sum(v * 0.5) as total, count(*) as n, max(v) as most from S group by k", "is BIGINT"),
        ("into table T select v as k, sum(v) as total, count(*) as n, max(v) as most from S group by k, v", "the key"),
        ("into table T select count(*) from S group by k", "the table 'T' has no such aggregate"),
        ("into table T select count(*) as n from S group by k output every 5 sec", "into table wants"),
        ("into table T select v from S", "into table wants"),
        ("insert into T select k, v as total from S", "into table alone"),
        ("on S as s delete from T as t where t.k = s.k", "into table alone"),
        ("create table U (w window(*))", "in a table is not supported"),
    ],
)
def test_what_a_table_of_aggregates_cannot(text: str, reason: str) -> None:
    with bridge.connect("sqlite://") as cep:
        cep.create_query("schema", epl_generate.SCHEMA.format("S"), language="epl")
        cep.create_query("table", TABLE, language="epl")
        with pytest.raises(BridgeError) as caught:
            cep.create_query("q", text, language="epl")
        assert reason in str(caught.value)
        assert not cep.queries


def test_one_statement_gives_the_aggregates_of_a_table() -> None:
    statement = f"into table T {SELECT.format('')}"
    with bridge.connect("sqlite://") as cep:
        for place, text in enumerate((epl_generate.SCHEMA.format("S"), TABLE)):
            cep.create_query(f"q{place}", text, language="epl")
        with pytest.raises(QueryError):
            cep.create_query("q", statement.replace("from S", "from Z"), language="epl")
        cep.create_query("q", statement, language="epl")  # the one that was refused has left nothing
        with pytest.raises(QueryError, match="a second statement"):
            cep.create_query("r", statement, language="epl")
