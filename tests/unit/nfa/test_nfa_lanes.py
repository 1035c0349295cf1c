"""The vectorised engine for conditions that look at the first row, and WITHIN, against `find_all`."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from nfa import compile_program, parse_pattern
from nfa.arrays import deadlines as within
from nfa.arrays import lazy_dfa as determined
from nfa.arrays import lockstep
from nfa.arrays import many_starts as lanes
from nfa.arrays import skip_chain as chain
from nfa.arrays.deadlines import scan_within
from nfa.arrays.many_starts import scan_starts
from tests.support.array_cases import SKIPS, expected, expected_from_first, random_rows, random_times, random_tree, told


@pytest.fixture
def small_pieces(monkeypatch):
    """Everything that is done in pieces is, on a few rows."""
    monkeypatch.setattr(lockstep, "BLOCK", 2)
    monkeypatch.setattr(lockstep, "SMALL", 3)
    monkeypatch.setattr(lockstep, "STEPS", 1)
    monkeypatch.setattr(lanes, "SMALL", 3)
    monkeypatch.setattr(lanes, "PIECE", 2)
    monkeypatch.setattr(lanes, "CODES_AT_ONCE", 7)
    monkeypatch.setattr(chain, "STARTS_AT_ONCE", 5)
    monkeypatch.setattr(chain, "FIRST_STARTS", 2)


def vary(rng, monkeypatch):
    monkeypatch.setattr(lockstep, "ALONE_PRICE", rng.choice([0, 60, 1000]))
    monkeypatch.setattr(lockstep, "STEP_PRICE", rng.choice([1, 100]))
    monkeypatch.setattr(lanes, "PATIENCE", rng.choice([0, 4, 100]))
    monkeypatch.setattr(lanes, "PATIENCE_ALONE", rng.choice([0, 2, 100]))
    monkeypatch.setattr(lanes, "PATIENCE_CHECKS", rng.choice([{1, 2, 4}, {3}, set()]))
    monkeypatch.setattr(within, "LONG", rng.choice([1, 4, 1000]))
    monkeypatch.setattr(determined, "DIRECT_SYMBOLS", rng.choice([0, 10]))


def check_within(seed, monkeypatch):
    rng = random.Random(seed)
    vary(rng, monkeypatch)
    tree = random_tree(rng, rng.randint(1, 9))
    symbol_sets, ends = random_rows(rng, tree, longest=rng.choice([4, 12, 30]))
    times, limit, skip = random_times(rng, ends), rng.randrange(12), rng.choice(SKIPS)
    shown = f"seed {seed}: {tree} over {symbol_sets.tolist()} at {times.tolist()} to {ends.tolist()}, {limit}, {skip}"
    found = told(tree, scan_within, symbol_sets, ends, times, limit, skip)
    assert found == expected(tree, symbol_sets, ends, skip, times, limit), shown


def check_first_row(seed, monkeypatch):
    """Symbol sets that cannot be guessed from other starts; the bits of symbols that were not requested are inverted."""
    rng = random.Random(seed)
    vary(rng, monkeypatch)
    tree = random_tree(rng, rng.randint(1, 9))
    symbol_sets, ends = random_rows(rng, tree, longest=rng.choice([4, 12, 30]))
    skip, scale = rng.choice(SKIPS), rng.randrange(1, 20)

    def symbol_sets_at(starts, rows):
        return symbol_sets[(rows + starts * scale) % len(symbol_sets)] | symbol_sets[starts]

    def padded_symbol_sets(starts, rows, asked):
        return symbol_sets_at(starts, rows) ^ np.array(~asked & 0xFF).astype(symbol_sets.dtype)

    shown = f"seed {seed}: {tree} over {symbol_sets.tolist()} to {ends.tolist()}, {skip}"
    found = told(tree, scan_starts, padded_symbol_sets, ends, skip)
    assert found == expected_from_first(tree, symbol_sets_at, ends, skip), shown


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("check", [check_within, check_first_row])
def test_random_patterns_and_rows_match_as_one_by_one(monkeypatch, check):
    for seed in range(800):
        check(seed, monkeypatch)


@pytest.mark.long
@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("check", [check_within, check_first_row])
def test_random_patterns_and_rows_for_long(monkeypatch, check):
    for seed in range(10_000, 10_000 + int(os.environ.get("NFA_EXAMPLES", "50000"))):
        check(seed, monkeypatch)


def any_two(starts, rows):
    return np.full(len(starts), 3, np.uint8)


@pytest.mark.parametrize(("pattern", "lengths"), [("A B+", [100_000]), ("A B{999}", [1_000] * 100)])
def test_long_matches_cost_no_more_than_their_rows(pattern, lengths):
    asked = []

    def symbol_sets_at(starts, rows, symbols):
        asked.append(len(starts))
        return any_two(starts, rows)

    found = scan_starts(compile_program(parse_pattern(pattern)), symbol_sets_at, np.array([100_000]))
    assert found.lengths.tolist() == lengths
    assert sum(asked) <= 50 * 100_000


def test_within_many_equal_rows():
    rows = np.full(20_000, 3, np.uint8)
    found = scan_within(compile_program(parse_pattern("A B*")), rows, np.array([20_000]), np.arange(20_000), 500)
    assert set(found.lengths.tolist()) == {500}


def test_times_go_back_only_between_partitions():
    program, symbol_sets, times = compile_program(parse_pattern("A")), np.ones(3, np.uint8), np.array([5, 4, 4])
    assert len(scan_within(program, symbol_sets, np.array([1, 3]), times, 9).starts) == 3
    with pytest.raises(ValueError, match="a row of time 4 comes after time 5"):
        scan_within(program, symbol_sets, np.array([3]), times, 9)
