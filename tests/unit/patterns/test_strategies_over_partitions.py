"""Strategies against the plain machine over many partitions at once: each partition is a pattern over other data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sqlglot import exp

from bridge.errors import QueryError
from bridge.patterns import output, planner
from bridge.patterns.rows import SortedRows, Source
from nfa.errors import SkipError
from tests.support.row_pattern_generate import COLUMNS, GRADES, Example, generate
from windows.databases import open_database

PARTITIONS = 60


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    opened = open_database("duckdb://")
    opened.execute(f"CREATE TABLE events ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")
    yield opened
    opened.close()


def rows_of(seed: int) -> list[tuple[Any, ...]]:
    """The rows of other examples, each as a partition of its own."""
    place = list(COLUMNS).index("p")
    found: list[tuple[Any, ...]] = []
    for number in range(PARTITIONS):
        rows = generate(seed * PARTITIONS + number, ("row",)).rows
        found += [(*row[:place], number, *row[place + 1 :]) for row in rows]
    return found


def outcome(task: Any, strategy: str) -> Any:
    try:
        found = planner.STRATEGIES[strategy](task)
    except SkipError as error:
        return "nowhere", str(error)[:20]
    return found.starts.tolist(), found.lengths.tolist(), _labels(task, found.codes)


def _labels(task: Any, codes: np.ndarray[Any, Any]) -> list[Any]:
    """Symbol and exclusion of each row: the same symbol may be taken by other instructions."""
    lines = task.program.instructions
    return [(lines[code].name, lines[code].excluded) for code in codes.tolist()]


def check(database: Any, seed: int, example: Example) -> int:
    """Compares all that can answer; gives the number of partitions times strategies."""
    database.execute("DELETE FROM events")
    rows = rows_of(seed)
    database.insert("events", len(COLUMNS), rows)
    clause = dataclasses.replace(example.clause, partition_by=(exp.column("p"),))
    fields = list(COLUMNS)
    try:
        asked = output.prepare(database, clause, fields)
    except QueryError:
        return 0
    with SortedRows(database, Source("SELECT * FROM events", True), asked.clause, asked.needed) as sorted_rows:
        task = asked.task(sorted_rows)
        able = [choice.strategy for choice in planner.choices(task)]
        plain = outcome(task, "machine")
        for strategy in able[:-1]:
            assert outcome(task, strategy) == plain, f"{strategy}, seed {seed}\n{example.text}"
    return PARTITIONS * (len(able) - 1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("grade", GRADES)
def test_strategies_agree(grade: str, database: Any) -> None:
    assert sum(check(database, seed, generate(seed, (grade,))) for seed in range(6)) > 0


@pytest.mark.long
@pytest.mark.parametrize("block", range(100))
def test_strategies_agree_a_million_times(block: int, database: Any) -> None:
    """A hundred clauses a block, over sixty partitions each, by two strategies or more."""
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check(database, seed, generate(seed))
