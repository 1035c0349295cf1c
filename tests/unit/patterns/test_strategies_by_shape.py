"""Each strategy, forced on clauses of its shape, gives what the definition says."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.errors import BridgeError, QueryError
from tests.random.test_random_match_recognize import Outcome, agree, cep, expected, told
from tests.support.row_pattern_generate import COLUMNS, Example, shrink
from tests.support.row_pattern_shapes import shaped

__all__ = ["cep"]

STRATEGIES = ("gaps", "offsets", "prefilter")


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has one more member whenever a strategy gives up and another answers."""
    from bridge.patterns import planner

    found, after = list[int](), planner._after

    def counted(task: Any, strategy: str) -> str:
        found.append(1)
        return after(task, strategy)

    monkeypatch.setattr(planner, "_after", counted)
    return found


def actual(cep: Any, example: Example, strategy: str) -> Outcome:
    from bridge.patterns.output import evaluate_clause
    from bridge.patterns.rows import Source

    cep.database.execute("DELETE FROM events")
    if example.rows:
        rows = (", ".join("NULL" if value is None else repr(value) for value in row) for row in example.rows)
        cep.database.execute(f"INSERT INTO events VALUES {', '.join(f'({row})' for row in rows)}")
    try:
        found = evaluate_clause(
            cep.database, Source("SELECT * FROM events", True), example.clause, list(COLUMNS), strategy
        )
    except BridgeError as error:
        return told(error)
    columns = [column.to_pylist() for column in found.columns]
    return tuple(found.column_names), list(zip(*columns, strict=True))


def check(cep: Any, strategy: str, seed: int) -> None:
    example = shaped(strategy, seed)
    if agree(expected(example), actual(cep, example, strategy)):
        return
    small = shrink(example, lambda one: not agree(expected(one), actual(cep, one, strategy)))
    pytest.fail(
        f"{strategy}, seed {seed}\n{small}\nexpected {expected(small)}\nactual   {actual(cep, small, strategy)}"
    )


@pytest.mark.one_in(2)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_forced_strategy_gives_what_the_definition_says(strategy: str, cep: Any, handed_over: list[int]):
    for seed in range(45):
        check(cep, strategy, seed)
    assert len(handed_over) < 30


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_times_it_gives_what_the_definition_says(block: int, strategy: str, cep: Any):
    for seed in range(1000 + block * 200, 1000 + (block + 1) * 200):
        check(cep, strategy, seed)


def test_a_strategy_has_to_have_a_name_that_there_is(cep: Any):
    with pytest.raises(QueryError, match="no strategy 'luck'; there are symbols, starts"):
        from bridge.patterns.output import evaluate_clause
        from bridge.patterns.rows import Source

        evaluate_clause(cep.database, Source("SELECT * FROM events"), shaped("gaps", 1).clause, list(COLUMNS), "luck")


def test_each_shape_is_given_to_its_strategy(cep: Any, monkeypatch: pytest.MonkeyPatch):
    from bridge.patterns.strategies import prefilter

    monkeypatch.setattr(prefilter, "FEWEST", 1)
    within = "WITHIN 2 MS"
    assert chosen(cep, "A B{1,2} C", "A AS x > 1, C AS x < LAST(B.x)") == "offsets"
    assert chosen(cep, "A{1,8}", "A AS x > 1") == "symbols"
    assert chosen(cep, "A Z* B Z*? C", "A AS x > 1, B AS x = 2, C AS x < A.x", within) == "gaps"
    assert chosen(cep, "A Z* B Z* C", "C AS x < B.x") == "registers"
    assert chosen(cep, "A Z* B Z* C", "Z AS x > 1") == "symbols"
    assert chosen(cep, "A B+ C", "B AS x > A.x") == "starts"
    assert chosen(cep, "A B+ C", "B AS x > A.x, C AS k = 'b'", within) == "prefilter"
    assert chosen(cep, "A B+ C", "B AS x > A.x, C AS k = 'b'") == "starts"
    assert chosen(cep, "A B+ C", "B AS x > A.x, C AS k = 'a'", within) == "starts"


def chosen(cep: Any, pattern: str, define: str, within: str = "") -> str:
    """The strategy for a clause over a hundred rows, two of which have the letter b."""
    from bridge.patterns import output, planner

    taken: list[str] = []

    def settled(task: Any) -> Any:
        choice = planner.choose_for_rows(task)
        taken.append(choice.strategy)
        return choice

    kinds = ("b" if place in (40, 70) else "a" for place in range(100))
    rows = ", ".join(f"(1, {place}, {place}, {place * 7 % 5}, 0, '{kind}')" for place, kind in enumerate(kinds))
    cep.database.execute("DELETE FROM events")
    cep.database.execute(f"INSERT INTO events VALUES {rows}")
    clause = f"ORDER BY t MEASURES LAST(t) AS t PATTERN ({pattern}) {within} DEFINE {define}"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(output, "choose_for_rows", settled)
        list(cep.query(f"SELECT * FROM events MATCH_RECOGNIZE ({clause})"))
    return taken[0]
