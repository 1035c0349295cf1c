"""Every strategy that can take a clause gives what the definition says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bridge.patterns import output, planner
from bridge.patterns.strategies import registers
from bridge.patterns.task import Task
from nfa.arrays import compiled
from tests.random.test_random_match_recognize import actual, agree, expected
from tests.support.row_pattern_generate import COLUMNS, GRADES, generate

Bridge = Any


@pytest.fixture
def cep() -> Iterator[Bridge]:
    import bridge

    with bridge.connect() as opened:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        opened.database.execute(f"CREATE TABLE events ({columns})")
        yield opened


class Forced:
    """Chooses one strategy, or the last, and notes which there were."""

    def __init__(self) -> None:
        self.strategy = "machine"
        self.able: list[str] = []

    def choose(self, task: Task) -> planner.Choice:
        self.able = [choice.strategy for choice in planner.choices(task)]
        return planner.Choice(self.strategy, "")


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Forced:
    found = Forced()
    monkeypatch.setattr(output, "choose_for_rows", found.choose)
    return found


def check(cep: Bridge, forced: Forced, seed: int, grades: tuple[str, ...]) -> None:
    example = generate(seed, grades)
    wanted = expected(example)
    forced.strategy, forced.able = "machine", []
    assert agree(wanted, actual(cep, example)), f"machine, seed {seed}\n{example}"
    for strategy in forced.able[:-1]:
        forced.strategy = strategy
        found = actual(cep, example)
        assert agree(wanted, found), f"{strategy}, seed {seed}\n{example}\nexpected {wanted}\nactual   {found}"


@pytest.mark.parametrize("grade", GRADES)
def test_strategies_agree(grade: str, cep: Bridge, forced: Forced):
    for seed in range(6):
        check(cep, forced, seed, (grade,))


@pytest.mark.parametrize("grade", ["register", "number", "classifier"])
def test_the_search_agrees_where_it_remembers(grade: str, cep: Bridge, forced: Forced, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registers, "patience", lambda rows: -1)
    for seed in range(100, 106):
        check(cep, forced, seed, (grade,))


@pytest.mark.parametrize("grade", ["first", "register"])
def test_the_search_that_is_compiled_agrees(grade: str, cep: Bridge, forced: Forced, written: list[str]):
    for seed in range(200, 215):
        check(cep, forced, seed, (grade,))
    assert written


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """All that can be compiled would be, and Python runs it as it is written; the texts."""
    texts: list[str] = []
    scan = compiled.scan_compiled

    def noted(program: Any, text: str, *asked: Any, **limits: Any) -> Any:
        texts.append(text)
        return scan(program, text, *asked, **limits)

    compiled.clear_caches()
    monkeypatch.setattr(compiled, "compile_function", lambda function: function)
    monkeypatch.setattr(compiled, "RUN_COMPILED_FROM", 0)
    monkeypatch.setattr(compiled, "is_faster", lambda source, rows: True)
    monkeypatch.setattr(compiled, "scan_compiled", noted)
    yield texts
    compiled.clear_caches()


@pytest.mark.long
@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("block", range(50))
def test_strategies_agree_on_many(
    block: int, remembers: bool, cep: Bridge, forced: Forced, monkeypatch: pytest.MonkeyPatch
):
    if remembers:
        monkeypatch.setattr(registers, "patience", lambda rows: -1)
    for seed in range(1000 + block * 100, 1000 + (block + 1) * 100):
        check(cep, forced, seed, tuple(GRADES))


# Which one is chosen --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "strategy"),
    [
        ("A+ B) DEFINE B AS B.x > LAST(A.x)", "behind"),
        ("A B+) DEFINE B AS LAST(B.x, 1) IS NULL OR B.x < LAST(B.x, 1)", "behind"),
        ("(A | B)+) DEFINE B AS LAST(CLASSIFIER(), 1) = 'A'", "behind"),
        ("A+ B+) DEFINE B AS B.x > LAST(A.x)", "registers"),
        ("A+ B) DEFINE A AS SUM(A.x) <= 100", "registers"),
        ("A B) DEFINE B AS B.x > MATCH_NUMBER()", "registers"),
        ("A+ B) DEFINE A AS COUNT(DISTINCT A.x) <= 3", "machine"),
    ],
)
def test_the_strategy_chosen(pattern: str, strategy: str, cep: Bridge, monkeypatch: pytest.MonkeyPatch):
    chosen: list[str] = []

    def choose(task: Task) -> planner.Choice:
        chosen.append(planner.choose(task).strategy)
        return planner.choose(task)

    monkeypatch.setattr(output, "choose_for_rows", choose)
    list(cep.query(f"SELECT * FROM events MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS c PATTERN ({pattern})"))
    assert chosen == [strategy]


def test_rows_that_are_looked_at_again_and_again_take_linear_time(cep: Bridge):
    """No B ever comes, whatever A takes; found with many starts, each of which could go to the end."""
    cep.database.execute("INSERT INTO events SELECT 1, i, i, i % 7, i % 5, 'a' FROM range(20000) AS r(i)")
    pattern = "PATTERN (A+ B+ | C) DEFINE B AS B.x > LAST(A.x) + 10, C AS C.x = 3"
    (row,) = cep.query(
        f"SELECT COUNT(*) AS n FROM events MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS c {pattern})"
    )
    assert tuple(row) == (2857,)
