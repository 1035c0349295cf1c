"""Flink SQL finds the same where it follows the standard; $FLINK_PYTHON is a Python that has apache-flink."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.oracles.flink import URLS, Element, agree, compare, from_bridge, from_definition, generate

PYTHON = os.environ.get("FLINK_PYTHON", "")


@pytest.mark.parametrize("url", URLS)
def test_the_questions_to_flink_are_answered_as_the_definition_says(url: str):
    questions = [generate(seed, inputs=2) for seed in range(15)]
    for question, answer in zip(questions, from_bridge(url, questions), strict=True):
        assert agree(answer, from_definition(question)), f"seed {question.seed}"


def test_no_row_can_be_both_in_a_loop_and_behind_it():
    for seed in range(300):
        open_to: set[int] = set()
        for element in generate(seed, inputs=0).elements:
            assert not open_to & set(element.letters), f"seed {seed}"
            open_to = after(element, open_to)


def after(element: Element, before: set[int]) -> set[int]:
    """What the loops take from which the element after this one can follow."""
    own = set(element.letters) if element.is_loop else set[int]()
    return own | before if element.least == 0 else own


@pytest.fixture(scope="module")
def python() -> str:
    has_flink = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pyflink') is None)"
    if not shutil.which(PYTHON) or subprocess.run([PYTHON, "-c", has_flink]).returncode:
        pytest.skip("$FLINK_PYTHON names no Python that has apache-flink")
    return PYTHON


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_flink_finds_the_same(block: int, python: str):
    found = compare(python, range(block * 100, (block + 1) * 100))
    assert not found.refused + found.differences, "\n\n".join([str(found), *found.refused, *found.differences])
    assert found.matches > found.inputs
