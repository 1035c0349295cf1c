"""The compiled search against the one in numpy: the same matches, or the same refusal."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nfa import compile_program, parse_pattern
from nfa.arrays import compiled
from nfa.arrays import deadlines as within
from nfa.arrays.compiled import scan_compiled
from nfa.arrays.many_starts import scan_starts
from nfa.errors import BudgetError
from nfa.skip import past_last_row, to_first, to_next_row
from tests.support.array_cases import random_rows, random_times, random_tree


def check(seed: int) -> None:
    """A symbol set depends on the start and the row, and cannot be guessed from others."""
    rng = random.Random(seed)
    tree = random_tree(rng, rng.randint(1, 9))
    symbol_sets, ends = random_rows(rng, tree, longest=rng.choice([4, 12, 30]))
    program, skip, scale = compile_program(tree), rng.choice([past_last_row, to_next_row]), rng.randrange(1, 20)

    def symbol_sets_at(starts, rows, asked):
        return symbol_sets[(rows + starts * scale) % len(symbol_sets)] | symbol_sets[starts]

    text = "symbol_set = int(symbol_sets[(row + start * columns[0][0]) % len(symbol_sets)]) | int(symbol_sets[start])"
    times, length = random_times(rng, ends), rng.randrange(12)
    limits = rng.choice([None, within.deadlines(times, ends, length)])
    assert compiled.deadlines(times, ends, length).tolist() == within.deadlines(times, ends, length).tolist()
    found = outcome(scan_compiled, program, text, [np.array([scale])], symbol_sets, ends, skip, limits=limits)
    expected = outcome(scan_starts, program, symbol_sets_at, ends, skip, limits=limits)
    assert found == expected, f"seed {seed}: {tree} over {symbol_sets.tolist()} to {ends.tolist()}, {skip}, {limits}"


def outcome(scan, *asked, **limits):
    try:
        found = scan(*asked, **limits)
    except BudgetError as error:
        return str(error)
    return found.starts.tolist(), found.lengths.tolist(), found.codes.tolist()


@pytest.fixture
def not_compiled(monkeypatch):
    """Python itself runs what would be compiled: the very text, for any number of patterns."""
    compiled.clear_caches()
    monkeypatch.setattr(compiled, "compile_function", lambda function: function)
    monkeypatch.setattr(compiled, "STARTS_AT_ONCE", 7)
    yield
    compiled.clear_caches()


@pytest.mark.usefixtures("not_compiled")
def test_the_text_finds_the_same():
    for seed in range(700):
        check(seed)


@pytest.mark.skipif(not compiled.is_installed(), reason="numba is not installed")
def test_compiled_it_finds_the_same():
    for seed in range(1500, 1650):
        check(seed)


@pytest.mark.long
@pytest.mark.skipif(not compiled.is_installed(), reason="numba is not installed")
def test_compiled_it_finds_the_same_on_many():
    for seed in range(10_000, 200_000):
        check(seed)


def test_what_it_takes():
    """Modes that look at the rows of a match are not supported, nor patterns of many symbols."""
    few, many = (
        compile_program(random_tree(random.Random(1), 3)),
        compile_program(parse_pattern(" ".join("ABCDEFGHIJK"))),
    )
    assert compiled.supports(few, past_last_row)
    assert not compiled.supports(few, to_first("A"))
    assert not compiled.supports(many, past_last_row)


def test_it_pays_for_many_rows_or_once_it_is_compiled(monkeypatch):
    monkeypatch.setattr(compiled, "_compiled", {"known"})
    monkeypatch.setattr(compiled, "is_installed", lambda: True)
    assert not compiled.is_faster("new", compiled.COMPILE_FROM - 1)
    assert compiled.is_faster("new", compiled.COMPILE_FROM)
    assert compiled.is_faster("known", compiled.RUN_COMPILED_FROM)
    monkeypatch.setattr(compiled, "is_installed", lambda: False)
    assert not compiled.is_faster("known", compiled.COMPILE_FROM)
