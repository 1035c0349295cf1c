"""Results of several steps that this process computes for single events: the same rows in every way to push, and no statement."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

import bridge
from bridge.engine.single_events.memory import derived_results, derived_rows, left_rows, window_rows
from tests.support.traced import reads_and_writes, traced
from tests.unit.engine.test_in_process import events_of, leave_to_the_database, result_of

if TYPE_CHECKING:
    from tests.support.databases import Database

QUERIES = {
    "irstream of time": "select irstream v from s#time(40 msec)",
    "irstream of rows": "select irstream k, v from s#length(3)",
    "irstream of some rows": "select irstream k, v from s(v > 2)#length(3)",
    "irstream filtered": "select irstream k, v from s#time(30 msec) where v > 2",
    "rstream of time": "select rstream k, v from s#time(40 msec)",
    "rstream of rows": "select rstream k, name from s#length(4)",
    "rstream by key": "select rstream k, v from s#groupwin(k)#length(2)",
    "groups of rows": "select irstream k, sum(v) as a, count(*) as n from s#length(4) group by k",
    "groups of time": "select irstream k, max(v) as a from s#time(30 msec) group by k",
    "all rows": "select irstream sum(v) as a, avg(v) as b from s#length(4)",
    "all of time": "select irstream count(*) as n from s#time(30 msec)",
    "pauses of time": "select k, sum(v) as a from s#time(30 msec) group by k output first every 50 msec",
    "pauses of rows": "select name, count(*) as a from s#length(5) group by name output first every 20 msec",
    "pauses of some": "select k, sum(v) as a from s#time(30 msec) where v > 1 group by k output first every 50 msec",
    "pauses of all": "select k, sum(v) as a, count(*) as n from s group by k output first every 50 msec",
    "pauses of all rows": "select k, avg(v) as a from s#keepall group by k having count(*) > 2 output first every 30 msec",
    "pauses of few rows": "select k, sum(v) as a from s#length(4) group by k having sum(v) > 3 output first every 20 msec",
    "prev": "select v, prev(1, v) as p from s#length(4)",
    "prev by key": "select v, prev(2, name) as p from s#groupwin(k)#length(3)",
    "prior": "select v, prior(1, v) as p, prior(3, name) as o from s",
    "matches": """select * from s match_recognize (partition by k measures A.v as x, B.v as y, C.name as z
        pattern (A B C) define A as A.v > 2, B as B.v > A.v)""",
    "overlapping matches": """select * from s match_recognize (measures A.v as x, B.k as y after match skip to next row
        pattern (A B) define B as B.v > A.v)""",
    "matches of some": "select * from s(v > 3) match_recognize (measures A.v as x, B.v as y pattern (A B) define B as B.k = 1)",
    "sum of sorted": "select sum(v) as a, count(*) as n from s#sort(3, v desc, k)",
    "sums of sorted": "select k, sum(v) as a, min(v) as b from s#sort(4, v) group by k",
    "sum of ranked": "select sum(v) as a from s#rank(k, 2, v desc)",
    "sorted by key": "select k, sum(v) as a from s#groupwin(k)#sort(2, v) group by k",
    "irstream of sorted": "select irstream k, v from s#sort(3, v desc, k)",
    "irstream of ranked": "select irstream k, v from s#rank(k, 2, v desc) where v > 2",
    "rstream of sorted by key": "select rstream k, v from s#groupwin(k)#sort(2, name, v)",
    "rstream of an expression": "select rstream v from s#expr(oldest_timestamp > newest_timestamp - 20 and current_count <= 3)",
    "irstream of a session": "select irstream k, v from s#time_accum(25 msec)",
    "rstream of sessions": "select rstream k, name from s#groupwin(name)#time_accum(15 msec)",
    "trailing": "select sum(v) as a, count(*) as n from s#ext_timed(v, 3 msec)",
    "groups of trailing": "select k, max(v) as a, count(*) as n from s#ext_timed(v, 3 msec) group by k",
    "trailing by key": "select k, sum(v) as a from s#groupwin(k)#ext_timed(v, 2 msec) group by k",
    "irstream of trailing": "select irstream k, v from s#ext_timed(v, 3 msec)",
    "sorted": "select k, v from s#sort(3, v desc)",
    "ranked": "select v from s#rank(k, 2, v desc)",
}


VIEWS = [
    "#time(9 msec)", "#time(4 msec)", "#length(3)", "#length(5)", "#groupwin(k)#length(3)", "#sort(3, i desc)", "#rank(k, 2, i)",
    "#time_accum(2 msec)", "#groupwin(k)#time_accum(3 msec)", "#groupwin(k)#sort(2, i)", "#sort(2, d, k)",
    "#expr(current_count <= 4 and oldest_timestamp > newest_timestamp - 8)",
    "#ext_timed(i, 3 msec)", "#ext_timed(b, 20 msec)", "#groupwin(k)#ext_timed(i, 2 msec)",
    "#keepall", "(i > 0)#time(6 msec)", "(k = 'A')#length(2)", "#lastevent",
]  # fmt: skip
ROWS = ["k, i", "d", "k, b", "i, f, k", "i + 1 as j"]
AGGREGATES = [
    "k, sum(i) as a", "k, count(*) as n", "k, max(d) as a, min(i) as b", "k, avg(i) as a", "sum(i) as a, count(*) as n",
    "k, sum(b) as a",
]  # fmt: skip


def text_of(draw: Random) -> str:
    """A random statement of EPL whose results are those of several steps."""
    view, where = draw.choice(VIEWS), draw.choice(["", "", "", " where i > 0"])
    kind = draw.choice(["matches", "rows", "rows", "aggregates", "aggregates", "first", "first", "before", "plain"])
    stream = draw.choice("sst")
    if kind == "matches":
        conditions = draw.sample(["A as A.i > 0", "B as B.i <= A.i", "C as C.d > 0 or C.k = A.k"], 2)
        of_key, skip = draw.choice(["", "partition by k "]), draw.choice(["", "", "after match skip to next row "])
        measures = draw.choice(["A.i as x, C.k as y", "B.d as x", "A.b as x, B.i as y"])
        return (
            f"select * from {stream} match_recognize ({of_key}measures {measures} {skip}pattern (A B C) "
            f"define {', '.join(sorted(conditions))})"
        )
    if kind == "rows":
        return f"select {draw.choice(['irstream', 'rstream'])} {draw.choice(ROWS)} from {stream}{view}{where}"
    if kind == "before":
        name, count, column = draw.choice(["prev", "prior"]), draw.randint(1, 2), draw.choice("kid")
        return f"select i, {name}({count}, {column}) as p from {stream}{draw.choice(VIEWS[:5])}{where}"
    items = draw.choice(AGGREGATES)
    group = " group by k" if items.startswith("k") else ""
    if kind == "plain":
        return f"select {items} from {stream}{draw.choice(VIEWS[5:7])}{group}"
    if kind == "aggregates":
        return f"select irstream {items} from {stream}{view}{where}{group}"
    having = draw.choice(["", "", " having count(*) > 1", " having max(i) > 0 and count(d) < 4"])
    return f"select {items} from {stream}{view}{where}{group}{having} output first every {draw.choice((3, 8))} msec"


@pytest.mark.one_in(8)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", range(100))
def test_results_are_what_the_database_makes_of_them(
    database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Random(seed)
    texts = [text_of(draw) for _ in range(draw.choice((1, 1, 2)))]
    events = events_of(draw, 90, database)
    if draw.random() < 0.3:
        monkeypatch.setattr(window_rows, "MOST_ROWS", 9)
        monkeypatch.setattr(derived_rows, "MOST_ROWS", 9)
        monkeypatch.setattr(left_rows, "MOST_ROWS", 9)
        monkeypatch.setattr(derived_rows, "SWEEP", 4)
        monkeypatch.setattr(window_rows, "SWEEP", 4)
        monkeypatch.setattr(derived_results, "RETRY", 7)
    found, _ = result_of(Random(seed), database, texts, events, "epl", fails=False)
    leave_to_the_database(monkeypatch)
    expected, _ = result_of(Random(seed), database, texts, events, "epl", fails=False)
    assert found == expected, texts


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", sorted(QUERIES.keys() - {"pauses of some", "sums of sorted", "sorted by key"}))
def test_single_events_run_no_statement(name: str) -> None:
    found: list[int] = []
    with bridge.connect() as cep:
        for stream in ("s", "u"):
            cep.register_stream(stream, "k INTEGER, v INTEGER, name VARCHAR")
        cep.create_query("q", QUERIES[name], language="epl")
        cep.add_output_processor("q", lambda e: found.append(e.timestamp))
        for place in range(6):
            cep.push_event("s", [place % 2, place + 1, "a"], 1000 + place * 10)
        cep.push_event("u", [1, 1, "a"], 1060)
        statements, before = traced(cep), len(found)
        for place in range(6, 40):
            cep.push_event(("s", "u")[place % 3 == 0], [place % 2, place + 1, "a"], 1000 + place * 10)
        assert reads_and_writes(statements) == []
        assert len(found) > before
