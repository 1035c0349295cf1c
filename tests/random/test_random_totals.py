"""Aggregates over all rows so far: random ones, against the reference, from the totals of each group.

They must be the same one event at a time, in batches, all at once, and after the bridge was closed and opened again.
"""

from __future__ import annotations

import pathlib
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from bridge.frontends.sql.statements import parse
from tests.random.test_differential import DRIVES, batches, collect, difference, same_rows
from tests.support.databases import tables_of
from tests.support.generate import Case, print_case

if TYPE_CHECKING:
    from tests.support.databases import Database

SEEDS = range(24)
SCHEMA = "k INTEGER, t VARCHAR, i INTEGER, b BIGINT, d DOUBLE"
ITEMS = (
    "COUNT(*) AS n", "COUNT(i) AS ni", "COUNT(t) AS nt", "SUM(i) AS si", "SUM(b) AS sb", "SUM(d) AS sd", "AVG(i) AS ai",
    "AVG(d) AS ad", "MIN(i) AS li", "MAX(b) AS hb", "MIN(d) AS ld", "MAX(d) AS hd", "MIN(t) AS lt", "MAX(t) AS ht",
    "SUM(i + b) AS sib", "SUM(i) + COUNT(*) AS both", "SUM(CASE WHEN i > 0 THEN 1 END) AS positive", "SUM(d) / 2 AS half",
)  # fmt: skip
KEYS = ("", "k", "t", "k, t", "d", "k + 1", "i - k")
BEFORE, AFTER = ("", "i > 0", "t = 'x'"), ("", "b < 3", "k IS NULL OR d > 0.5")
HAVINGS = ("", "COUNT(*) > 2", "SUM(i) > 1", "MIN(t) = 'x'")
VALUES = (
    [None, 0, 1, 2], [None, "x", "X", "", "xy"], [None, -3, 0, 1, 7], [None, -1, 2, 2**40], [None, -1.5, 0.0, 0.25, 1e10],
)  # fmt: skip


def text_of(rng: Random) -> str:
    """A random aggregate over all rows so far."""
    key, before, after, having = map(rng.choice, (KEYS, BEFORE, AFTER, HAVINGS))
    keys = [f"{each.strip()} AS k{place}" for place, each in enumerate(key.split(","))] if key else []
    select = ", ".join([*keys, *rng.sample(ITEMS, rng.randint(1, 4))])
    source = f"(SELECT * FROM s WHERE {before}) AS s" if before else "s"
    clauses = [("WHERE", after), ("GROUP BY", key), ("HAVING", having)]
    rest = " ".join(f"{word} {clause}" for word, clause in clauses if clause)
    return f"SELECT {select} FROM {source} WINDOW(UNBOUNDED) {rest}"


def case_of(seed: int, database: Database) -> Case:
    """Three queries, and events of which several come at an instant."""
    rng, ts, events = Random(seed), 0, []
    for _ in range(60):
        ts += rng.choice([0, 0, 1, 1, 5])
        events.append(("s", tuple(map(rng.choice, VALUES)), ts))
    dialect = {"postgresql": "postgres", "mariadb": "mysql"}.get(database.name, database.name)
    queries = {f"q{place}": parse(text_of(rng), dialect) for place in range(3)}
    return Case({"s": SCHEMA}, queries, tuple(events))


@pytest.mark.one_in(6)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_totals_are_those_of_the_reference(seed: int, database: Database) -> None:
    case = case_of(seed, database)
    for drive in DRIVES:
        kind, told = difference(case, database, drive, seed)
        assert kind is None, f"{drive.__name__}: {told}\n{print_case(case, f'seed {seed}')}"


@pytest.mark.one_in(4)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", SEEDS[:8])
def test_totals_go_on_after_the_bridge_was_closed(seed: int, database: Database, tmp_path: pathlib.Path) -> None:
    case, rng = case_of(seed, database), Random(seed)
    url = database.durable(tmp_path)
    found: dict[str, list[Any]] = {name: [] for name in case.queries}
    with bridge.connect(url, fresh=True) as cep:
        cep.register_stream("s", SCHEMA)
        for name, node in case.queries.items():
            cep.create_query(name, node)
    for batch in batches(list(case.events), rng):
        with bridge.connect(url) as cep:
            for name in case.queries:
                cep.add_output_processor(name, lambda event, name=name: collect(found[name], [], event))
            cep.push_all(batch)
            state = {name for name in tables_of(cep.database) if "window" in name or "totals" in name}
    assert all(same_rows(rows, found[name]) for name, rows in case.expected().items())
    assert state
    assert not any("window" in name for name in state)
