"""Joins of windows in memory: they give what the database gives, however the events come."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from bridge.engine.single_events.memory import window_joins, window_rows
from tests.support.traced import reads_and_writes, traced
from tests.unit.engine.test_in_process import SCHEMA, events_of, leave_to_the_database, result_of

if TYPE_CHECKING:
    from tests.support.databases import Database

WINDOWS = [
    "RANGE 4 MS", "RANGE 9 MS", "RANGE 9 MS", "UNBOUNDED", "NOW", "ROWS 1", "ROWS 3", "ROWS 5", "PARTITION BY k ROWS 2",
    "PARTITION BY i ROWS 1", "PARTITION BY k, f ROWS 1", "RANGE 6 MS SLIDE 3 MS", "SESSION 4 MS", "PARTITION BY k SESSION 6 MS",
]  # fmt: skip
INPUTS = ["s", "t", "(SELECT * FROM s WHERE i > 0)", "t", "s", "(SELECT *, 7 AS c FROM t WHERE k = 'A')"]
EQUATIONS = ["a.k = b.k", "a.i = b.i", "a.d = b.d", "a.f = b.f", "a.k = b.k AND a.i = b.i", "a.i = b.b", "a.i = b.d"]
RANGES = [
    "a.i < b.i", "a.i <= b.i AND a.i > b.i - 2", "a.d > b.d", "a.d - 0.5 < b.d AND a.d + 1 > b.d", "a.b + 1 >= b.b - 3",
    "a.k <> b.k",
]  # fmt: skip
CONDITIONS = [
    "",
    "",
    " AND a.i < b.i",
    " AND (a.d <> b.d OR b.k = 'B')",
    " AND a.i > 0",
    " AND b.d IS NULL",
    " AND a.b + b.b > 9",
]
ITEMS = ["a.k", "b.k AS bk", "a.i", "b.i AS bi", "a.d", "b.d AS bd", "b.b AS bb", "a.f", "7 AS c", "a.i + b.i AS sum"]
VIEWS = ["#time(9 msec)", "#length(3)", "#lastevent", "#unique(k)", "#unique(k, i)", "#unique(i)", "#keepall"]


def text_of(draw: random.Random, language: str = "") -> tuple[str, str]:
    """The language and text of a random join."""
    language = language or draw.choice(["sql", "sql", "epl"])
    items = ", ".join(draw.sample(ITEMS[: draw.choice((8, 8, 10))], draw.randint(1, 4)))
    condition = draw.choice(EQUATIONS[: draw.choice((5, 5, 7))]) + draw.choice(CONDITIONS)
    if language == "epl":
        first = draw.choice(["s as a unidirectional", f"s{draw.choice(VIEWS)} as a"])
        if draw.random() < 0.4:
            sides = ["left", "right", "full"][: 1 if "unidirectional" in first else 3]
            where = draw.choice(["", "", " where a.i > 0", " where b.d is null"])
            second = f"{draw.choice('stt')}{draw.choice(VIEWS)} as b"
            return "epl", f"select {items} from {first} {draw.choice(sides)} outer join {second} on {condition}{where}"
        if draw.random() < 0.3:
            condition = draw.choice(RANGES)
        return "epl", f"select {items} from {first}, {draw.choice('st')}{draw.choice(VIEWS)} as b where {condition}"
    if draw.random() < 0.3:
        condition = draw.choice(RANGES) + draw.choice(CONDITIONS)
    inputs = [f"{draw.choice(some)} WINDOW({draw.choice(WINDOWS)})" for some in (INPUTS[::2], INPUTS)]
    draw.shuffle(inputs)
    return "sql", f"SELECT {items} FROM {inputs[0]} a, {inputs[1]} b WHERE {condition}"


@pytest.mark.one_in(6)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", range(60))
def test_joins_are_what_the_database_makes_of_them(
    database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    language, text = text_of(draw)
    texts = [text] if draw.random() < 0.6 else [text, text_of(draw, language)[1]]
    fails = not any("NOW" in each or "unidirectional" in each for each in texts)
    events = events_of(draw, 90, database)
    if draw.random() < 0.3:
        monkeypatch.setattr(window_joins, "MOST_JOINED", 2)
        monkeypatch.setattr(window_rows, "MOST_ROWS", 9)
        monkeypatch.setattr(window_rows, "SWEEP", 4)
        monkeypatch.setattr(window_rows, "RETRY", 7)
    found, in_process = result_of(random.Random(seed), database, texts, events, language, fails)
    leave_to_the_database(monkeypatch)
    expected, _ = result_of(random.Random(seed), database, texts, events, language, fails)
    assert found == expected, (texts, in_process)


JOINS = {
    "two streams": (
        "sql",
        "SELECT a.k, b.i FROM s WINDOW(RANGE 1 S) a, t WINDOW(RANGE 1 S) b WHERE a.k = b.k AND a.i < b.i",
    ),
    "range": (
        "sql",
        "SELECT a.k, b.i FROM s WINDOW(RANGE 1 S) a, t WINDOW(RANGE 1 S) b WHERE a.i < b.i AND a.i > b.i - 100",
    ),
    "one stream": (
        "sql",
        "SELECT a.k, b.i FROM s WINDOW(RANGE 1 S) a, s WINDOW(ROWS 9) b WHERE a.k = b.k AND a.i < b.i",
    ),
    "row that may be missing": (
        "epl",
        "select a.k, b.i from s#unique(i) as a full outer join t#time(1 sec) as b on a.k = b.k and a.i < b.i",
    ),
    "latest row of a key": (
        "epl",
        "select a.k, b.i from s as a unidirectional, t#unique(k) as b where a.k = b.k and a.i < b.i",
    ),
}


@pytest.mark.parametrize("name", JOINS)
def test_joins_run_no_statement(name: str) -> None:
    language, text = JOINS[name]
    with bridge.connect("duckdb://") as cep:
        cep.register_stream("s", SCHEMA)
        cep.register_stream("t", SCHEMA)
        cep.create_query("q", text, language=language)
        found: list[Any] = []
        cep.add_output_processor("q", found.append)
        other = "s" if name == "one stream" else "t"
        for number in range(9):
            cep.push_event(other if number % 2 else "s", ["A", number, 1, 0.5, True], number)
        statements = traced(cep)
        before = len(found)
        cep.push_event(other, ["A", 9, 1, 0.5, True], 9)
        cep.push_event("s", ["A", 1, 1, 0.5, True], 10)
        assert reads_and_writes(statements) == []
        assert len(found) > before
