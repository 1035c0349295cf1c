"""EPL's irstream: what comes is what the plain statement tells, what leaves what rstream tells, however events are pushed."""

from __future__ import annotations

import random

import pytest

import bridge
from bridge.errors import QueryError
from tests.random.test_random_epl import COUNT, all_ways
from tests.random.test_random_epl_statements import WINDOWS
from tests.support import epl_generate


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(COUNT // 3))
def test_irstream_is_what_comes_and_what_leaves(seed: int) -> None:
    chance = random.Random(f"streams/{seed}")
    window = chance.choice(WINDOWS[1:])
    rest = f"from S(v < 4){window}" + chance.choice(("", " where v > 1", " where k is not null"))
    order = chance.choice(("", " order by v desc, id"))
    events = [("S", row) for row in epl_generate.events(chance, 14)]
    both = all_ways(f"select irstream id, v as w {rest}{order}", events, seed)
    for word, kind in (("", True), ("rstream", False)):
        told = all_ways(f"select {word} id, v as w {rest}{order}", events, seed)
        assert [(ts, row["id"], row["w"]) for ts, row in both if row["istream"] is kind] == [
            (ts, row["id"], row["w"]) for ts, row in told
        ], (window, rest)
    assert [ts for ts, _ in both] == sorted(ts for ts, _ in both)


def test_what_comes_at_a_moment_is_told_before_what_leaves() -> None:
    events = [("S", (ts, f"E{ts}", ts, "x")) for ts in range(1, 5)]
    told = all_ways("select irstream istream() as is_new, id from S#length_batch(2)", events, 1)
    assert [(ts, row["is_new"], row["id"]) for ts, row in told] == [
        (2, True, "E1"), (2, True, "E2"), (4, True, "E3"), (4, True, "E4"), (4, False, "E1"), (4, False, "E2")
    ]  # fmt: skip


def test_what_comes_and_leaves_is_inserted() -> None:
    events = [("S", (ts, f"E{ts}", ts, "x")) for ts in range(1, 4)]
    first = ("insert irstream into T select irstream id, v from S#length(1)",)
    told = all_ways("select id, istream as is_new from T where v < 3", events, 1, first)
    assert [tuple(row.values()) for _, row in told] == [("E1", True), ("E2", True), ("E1", False), ("E2", False)]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("select irstream a.v as v from A#length(3) as a, B#length_batch(3) as b", "irstream"),
        ("select irstream sum(v) + 1 as t from S#length(3)", ""),
        ("select irstream distinct v from S#length(3)", "v from"),
        ("select irstream v from S#length(3) limit 1", "v from"),
        ("select irstream v from S#length(3) output first every 5 sec", "output"),
        ("select irstream prev(1, v) as p from S#length(3)", "irstream"),
        ("select irstream v from S#length(3) where v > (select max(v) from B#keepall)", "irstream"),
        ("select istream() as i from S", "istream()"),
        ("insert into T select irstream v from S#length(3)", "into"),
        ("insert irstream into T select v from S#length(3)", "irstream"),
    ],
)
def test_what_irstream_cannot_is_refused_at_its_place(text: str, place: str) -> None:
    with bridge.connect("sqlite://") as cep:
        for name in "SAB":
            cep.create_query(f"schema {name}", epl_generate.SCHEMA.format(name), language="epl")
        with pytest.raises(QueryError) as caught:
            cep.create_query("q", text, language="epl")
        assert caught.value.position is not None
        assert text[caught.value.position :].startswith(place), caught.value
        assert not cep.queries
