"""EPL's methods on lists, `tags.countOf(x => …)`: what Esper gives, on every database, and at random beside Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import bridge
from tests.support.databases import DATABASES, Database, one_of

database = one_of(DATABASES)

SCHEMAS = [
    "create schema Item (name string, price double, fine boolean)",
    "create schema S (id int, k string, items Item[], tags string[], ns int[])",
]


def item(name: str | None, price: float | None, fine: bool | None) -> dict[str, Any]:
    return {"name": name, "price": price, "fine": fine}


EVENTS = [
    [1, "a", [item("a", 1.5, False), item("b", 3, True), None], ["a", "b", None], [1, 2, None]],
    [2, "x", [], [], []],
    [3, "y", None, None, None],
    [4, None, [item(None, None, None)], ["q"], [5]],
]
NOTHING = (None,) * 4

QUERIES: dict[str, list[tuple[Any, ...]]] = {
    "select items.countOf(x => x.price > 2) as n, tags.anyOf(x => x = k) as a, tags.allOf(t => t = k) as l, "
    "items.anyOf(x => x.fine) as o from S": [(1, True, False, True), (0, False, True, False), NOTHING, (0, False, False, False)],
    "select ns.sumOf() as s, ns.average() as a, ns.min() as l, ns.max(x => -x * id) as m from S": [
        (3, 1.5, 1, -1), NOTHING, NOTHING, (5, 5.0, 5, -20),
    ],
    "select items.sumOf(i => i.price * 2) as p, tags.max() as t, items.min(x => x.name) as h, "
    "ns.average(x => x * 2) as v from S": [
        (9.0, "b", "a", 3.0), NOTHING, NOTHING, (None, "q", None, 10.0),
    ],
    "select items.firstOf(x => x.price > 2).name as f, items.lastOf(x => x.price > 0) as l, tags.lastOf(x => x < 'z') as g, "
    "ns.firstOf(x => x >= id) as h from S": [
        ("b", item("b", 3.0, True), "b", 1), NOTHING, NOTHING, (None, None, "q", 5),
    ],
    "select id, k as n from S as s where s.tags.anyOf(x => x = s.k || '') and ns.countOf(n => n > 1) > 0": [(1, "a")],
    "select id, count(*) as c from S where ns.allOf(x => x < 3) group by id": [(1, 1), (2, 1)],
    "select id, prior(1, id) as p from S where ns.allOf(x => x <> 2)": [(2, None), (4, 2)],
    "select ns.countOf(x => x in (1, 2)) as n, ns.lastOf() as z from S#length(2) where ns.sumOf() > 2": [(2, None), (0, 5)],
    "select rstream id, ns.max() as m from S#length(3)": [(1, 2)],
}  # fmt: skip


@pytest.mark.parametrize("together", [False, True])
def test_every_database_gives_what_esper_does(database: Database, together: bool) -> None:
    found: dict[str, list[Any]] = {text: [] for text in QUERIES}
    with database.connect() as cep:
        for place, text in enumerate([*SCHEMAS, *QUERIES]):
            cep.create_query(f"q{place}", text, language="epl")
            if text in QUERIES:
                cep.add_output_processor(
                    f"q{place}", lambda e, text=text: found[text].append(tuple(e.payload.values()))
                )
        events = [(event, ts) for ts, event in enumerate(EVENTS, 1)]
        for part in [events] if together else [[event] for event in events]:
            cep.push_events("S", part)
    assert found == QUERIES


METHODS: dict[str, Callable[[list[Any], Callable[[Any], bool], Callable[[Any], Any]], Any]] = {
    "countOf": lambda values, holds, of: sum(map(holds, values)),
    "anyOf": lambda values, holds, of: any(map(holds, values)),
    "allOf": lambda values, holds, of: all(map(holds, values)),
    "firstOf": lambda values, holds, of: next(filter(holds, values), None),
    "lastOf": lambda values, holds, of: next(filter(holds, reversed(values)), None),
    "sumOf": lambda values, holds, of: sum(of(values)) if of(values) else None,
    "average": lambda values, holds, of: sum(of(values)) / len(of(values)) if of(values) else None,
    "min": lambda values, holds, of: min(of(values), default=None),
    "max": lambda values, holds, of: max(of(values), default=None),
}


@pytest.mark.parametrize("seed", range(12))
def test_methods_are_what_python_finds(seed: int) -> None:
    """Singly, in batches and in a replay, over numbers and over parts of objects."""
    chance = random.Random(seed)
    name, limit, nested = list(METHODS)[seed % len(METHODS)], chance.randint(0, 3), chance.random() < 0.5
    conditional = list(METHODS).index(name) < 5
    part = "x.price" if nested else "x"
    body = f"{part} > {limit} or {part} = v" if conditional else f"{part} * 2 - {limit}"
    text = f"select {'items' if nested else 'ns'}.{name}(x => {body}) as found from S where id <> 'E3'"
    schemas = "create schema Item (price int); create schema S (id string, v int, ns int[], items Item[])"
    rows, expected = [], []
    for ts in range(12):
        values = chance.choice((None, [], *([[chance.choice((None, 0, 1, 2, 4)) for _ in range(4)]] * 4)))
        v = chance.choice((None, 0, 1, 2))
        items = None if values is None else [None if value == 4 else {"price": value} for value in values]
        rows.append(("S", [f"E{ts}", v, values, items], ts))
        there: list[Any] = [one for one in (items if nested else values) or () if one is not None]

        def number(one: Any) -> Any:
            return one["price"] if nested else one

        def holds(one: Any, v: int | None = v) -> bool:
            return number(one) is not None and (number(one) > limit or number(one) == v)

        def of(listed: list[Any]) -> list[int]:
            return [number(one) * 2 - limit for one in listed if number(one) is not None]

        if ts != 3:
            expected.append(None if values is None else METHODS[name](there, holds, of))
    for url in ("duckdb://", "sqlite://"):
        for size in (1, 5):
            found: list[Any] = []
            with bridge.connect(url) as cep:
                for place, one in enumerate([*schemas.split("; "), text]):
                    cep.create_query(f"q{place}", one, language="epl")
                cep.add_output_processor("q2", lambda event, found=found: found.append(event.payload["found"]))
                for start in range(0, len(rows), size):
                    cep.push_all(rows[start : start + size])
            assert found == expected, text
    replayed = bridge.replay(rows, f"{schemas}; @name('q') {text}", language="epl")["q"].to_pylist()
    assert [row["found"] for row in replayed] == expected
