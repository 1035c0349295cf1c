"""Correlations by equations of two streams' numbers: rows are found by steps of time and moved sides, of many events."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from bridge.query.expressions import parsed
from bridge.rewrite.joins.equations import split
from bridge.rewrite.settings import Settings

if TYPE_CHECKING:
    from tests.support.databases import Database

Event = tuple[str, tuple[int | None], int]

GREATEST = 2**63 - 1
VALUES = (0, 1, 2, 3, 4, 5, GREATEST, GREATEST - 2, None)
"""Their differences are no greater, but what an equation moves is."""

EQUATIONS = {
    "l.a - r.b = 2": lambda a, b: a - b == 2,
    "l.a = r.b + 2": lambda a, b: a == b + 2,
    "l.a - r.b + 2 = 0": lambda a, b: a - b + 2 == 0,
    "l.a = r.b AND l.a - r.b = 0": lambda a, b: a == b,
    "l.a - r.b = 2 AND l.a > 3": lambda a, b: a - b == 2 and a > 3,
}
LEFT, RIGHT = 7, 20
"""The lengths of the windows, in milliseconds."""


def events(random: Random) -> list[Event]:
    found, ts = [], -60
    for _ in range(60):
        ts += random.choice((0, 1, 1, 2, 9))
        found.append((random.choice("lr"), (random.choice(VALUES),), ts))
    return found


def expected(pushed: list[Event], equation: str) -> list[tuple[int, int, int]]:
    """Each pair once, when its later event comes: in the order of that one, then of the left one and of the right one."""
    holds = EQUATIONS[equation]
    found = []
    for now, (_, _, ts) in enumerate(pushed):
        for left in range(now + 1):
            for right in range(now + 1):
                if now in (left, right) and pushed[left][0] == "l" and pushed[right][0] == "r":
                    (a,), (b,) = pushed[left][1], pushed[right][1]
                    is_there = pushed[left][2] > ts - LEFT and pushed[right][2] > ts - RIGHT
                    if is_there and a is not None and b is not None and holds(a, b):
                        found.append((ts, a, b))
    return found


@pytest.mark.one_in(3)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("equation", EQUATIONS)
def test_pairs_of_many_events_are_those_of_single_ones(equation: str, seed: int, database: Database) -> None:
    pushed = events(Random(seed))
    if "+ 2" in equation:  # which would be too large as it stands
        pushed = [(name, (min(a, 9) if a is not None else None,), ts) for name, (a,), ts in pushed]
    cut = Random(seed).randint(1, len(pushed) - 1)
    for pushes in ([pushed], [pushed[:cut], pushed[cut:]], [[event] for event in pushed]):
        with database.connect(Settings(few=0) if len(pushes) < 3 else None) as cep:
            found: list[tuple[int, int, int]] = []
            cep.register_stream("l", "a BIGINT")
            cep.register_stream("r", "b BIGINT")
            text = f"SELECT a, b FROM l WINDOW(RANGE {LEFT} MS) l, r WINDOW(RANGE {RIGHT} MS) r WHERE {equation}"
            for name in ("one", "other"):  # two, so that they share a statement where they can
                cep.create_query(name, text)
            cep.add_output_processor("one", lambda e, found=found: found.append((e.timestamp, *e.payload.values())))
            for push in pushes:
                cep.push_all(push)
        assert found == expected(pushed, equation), len(pushes)


def test_a_moved_equation_is_what_rows_of_many_events_are_found_by(database: Database) -> None:
    """Not on SQLite, whose widest whole numbers have 64 bits."""
    with database.connect() as cep:
        cep.register_stream("l", "a BIGINT")
        cep.register_stream("r", "b BIGINT")
        cep.create_query("q", "SELECT a, b FROM l WINDOW(RANGE 9 MS) l, r WINDOW(RANGE 9 MS) r WHERE l.a - r.b = 2")
        assert ("_side0" in cep.explain("q", variants=True)) is (database.name != "sqlite")


def test_nothing_is_moved_without_a_type_that_is_wide_enough() -> None:
    equation = parsed("a - b = 2")
    for node in equation.walk():
        node.meta["type"] = "BIGINT"
    assert split(equation, lambda name: name, "a", None) is None
    mine, other = split(equation, lambda name: name, "a", "HUGEINT") or ()
    assert (mine.sql("duckdb"), other.sql("duckdb")) == ("CAST(0 AS INT128) + a - 2", "CAST(0 AS INT128) + b")
