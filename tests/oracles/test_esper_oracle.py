"""Esper finds the same, but for the decisions of docs/epl.md; $ESPER_JARS is a directory with its jars (benchmarks/esper)."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from typing import Any

import pytest

from tests.oracles.esper import Question, agree, compare, from_bridge

ANSWERS = ("epl_esper.json", "epl_windows.json", "epl_categories.json", "epl_outputs.json")
RECORDED = [pathlib.Path(__file__).parents[1] / "conformance" / name for name in ANSWERS]


def recorded() -> list[tuple[Question, list[tuple[Any, ...]]]]:
    """Questions with Esper's rows."""
    found = []
    for one in (one for file in RECORDED for one in json.loads(file.read_text(encoding="utf-8"))):
        rows = [tuple(row) for row in one.pop("rows")]
        columns, events, first = tuple(one.pop("columns")), tuple(map(tuple, one.pop("events"))), one.pop("first", ())
        found.append((Question(**one, columns=columns, events=events, first=tuple(first)), rows))
    return found


@pytest.mark.parametrize(
    ("url", "together", "part"),
    [("sqlite://", False, 3), ("duckdb://", True, 7), pytest.param("sqlite://", False, 1, marks=pytest.mark.long)],
)
def test_what_esper_said_is_what_the_bridge_says(url: str, together: bool, part: int) -> None:
    asked = recorded()[::part]
    assert len(asked) >= 15
    for question, rows in asked:
        assert agree(rows, from_bridge(url, question, together)), (question.seed, question.statement)


@pytest.fixture(scope="module")
def jars() -> str:
    found = os.environ.get("ESPER_JARS", "")
    if not found or not list(pathlib.Path(found).glob("esper-runtime*.jar")):
        pytest.skip("$ESPER_JARS names no directory with Esper's jars")
    if shutil.which("java") is None:
        pytest.skip("Esper: there is no Java")
    return found


@pytest.mark.parametrize("about", ["patterns", "windows", "outputs"])
def test_esper_finds_the_same_in_a_few(about: str, jars: str) -> None:
    found = compare(jars, range(24), about=about)
    assert not found.refused + found.differences, "\n\n".join([str(found), *found.refused, *found.differences])


@pytest.mark.long
@pytest.mark.parametrize("about", ["patterns", "windows", "outputs"])
@pytest.mark.parametrize("block", range(20))
def test_esper_finds_the_same(block: int, about: str, jars: str) -> None:
    found = compare(jars, range(block * 250, (block + 1) * 250), about=about)
    assert not found.refused + found.differences, "\n\n".join([str(found), *found.refused, *found.differences])
    assert found.rows > found.questions
