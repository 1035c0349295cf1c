"""Random clauses over random tables: what the databases answer is what the definition says."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from bridge.errors import BridgeError
from tests.support.cases_format import declared
from tests.support.row_pattern_generate import COLUMNS, Example, generate, shrink
from tests.support.row_patterns import NowhereError

if TYPE_CHECKING:
    from tests.support.databases import Database

Outcome = tuple[tuple[str, ...], list[tuple]] | str


@pytest.fixture
def cep(database: Database) -> Iterator[Any]:
    pytest.importorskip("bridge.engine.on_demand.match_recognize")
    with database.connect() as opened:
        columns = ", ".join(f"{name} {declared(kind, opened.database)}" for name, kind in COLUMNS.items())
        opened.database.execute(f"CREATE TABLE events ({columns})")
        yield opened


def expected(example: Example) -> Outcome:
    try:
        found = example.expected()
    except NowhereError as error:
        return told(error)
    return found.columns, found.rows


def actual(cep: Any, example: Example) -> Outcome:
    cep.database.execute("DELETE FROM events")
    for row in example.rows:
        values = ", ".join("NULL" if value is None else repr(value) for value in row)
        cep.database.execute(f"INSERT INTO events VALUES ({values})")
    try:
        found = cep.query(f"SELECT * FROM events {example.text}")
    except BridgeError as error:
        return told(error)
    return tuple(found.columns), [tuple(row) for row in found]


def told(error: Exception) -> str:
    """The match an error is about, or the error itself."""
    number = re.search(r"match \d+", str(error))
    return number[0] if number else f"{type(error).__name__}: {error}"


def agree(one: Outcome, other: Outcome) -> bool:
    """The same error, or the same columns and, in any order, the same rows."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return one[0] == other[0] and len(one[1]) == len(other[1]) and all(map(alike, ranked(one[1]), ranked(other[1])))


def ranked(rows: Sequence[tuple]) -> list[tuple]:
    return sorted(rows, key=lambda row: [(value is not None, isinstance(value, str), value) for value in row])


def alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a == b or (isinstance(a, float) and math.isclose(a, b or 0, rel_tol=1e-9)) for a, b in pairs)


def check(cep: Any, seed: int) -> None:
    example = generate(seed)
    if agree(expected(example), actual(cep, example)):
        return
    small = shrink(example, lambda one: not agree(expected(one), actual(cep, one)))
    pytest.fail(f"seed {seed}\n{small}\nexpected {expected(small)}\nactual   {actual(cep, small)}")


@pytest.mark.one_in(3)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("block", range(6))
def test_a_random_clause_gives_what_the_definition_says(block: int, cep: Any):
    for seed in range(block * 20, (block + 1) * 20):
        check(cep, seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(100))
def test_many_random_clauses_give_what_the_definition_says(block: int, cep: Any):
    for seed in range(1000 + block * 200, 1000 + (block + 1) * 200):
        check(cep, seed)
