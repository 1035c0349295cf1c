"""The vectorised engine for conditions that look at the first row, and WITHIN, against `find_all`."""

from __future__ import annotations

import os
import random

import pytest
from array_cases import SKIPS, expected, expected_from_first, random_rows, random_times, random_tree, told

from nfa import chain, determined, lanes, lockstep
from nfa.lanes import scan_lanes
from nfa.within import scan_within


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
    monkeypatch.setattr(chain, "STARTS_AT_FIRST", 2)


def vary(rng, monkeypatch):
    monkeypatch.setattr(lockstep, "ALONE_PRICE", rng.choice([0, 60, 1000]))
    monkeypatch.setattr(lockstep, "STEP_PRICE", rng.choice([1, 100]))
    monkeypatch.setattr(determined, "DIRECT_SYMBOLS", rng.choice([0, 10]))


def check_within(seed, monkeypatch):
    rng = random.Random(seed)
    vary(rng, monkeypatch)
    tree = random_tree(rng, rng.randint(1, 9))
    letters, ends = random_rows(rng, tree, longest=rng.choice([4, 12, 30]))
    times, within, skip = random_times(rng, ends), rng.randrange(12), rng.choice(SKIPS)
    shown = f"seed {seed}: {tree} over {letters.tolist()} at {times.tolist()} to {ends.tolist()}, {within}, {skip}"
    found = told(tree, scan_within, letters, ends, times, within, skip)
    assert found == expected(tree, letters, ends, skip, times, within), shown


def check_first_row(seed, monkeypatch):
    """Letters that nobody can guess from other starts."""
    rng = random.Random(seed)
    vary(rng, monkeypatch)
    tree = random_tree(rng, rng.randint(1, 9))
    letters, ends = random_rows(rng, tree, longest=rng.choice([4, 12, 30]))
    skip, scale = rng.choice(SKIPS), rng.randrange(1, 20)

    def letters_at(starts, rows):
        return letters[(rows + starts * scale) % len(letters)] | letters[starts]

    shown = f"seed {seed}: {tree} over {letters.tolist()} to {ends.tolist()}, {skip}"
    found = told(tree, scan_lanes, letters_at, ends, skip)
    assert found == expected_from_first(tree, letters_at, ends, skip), shown


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("check", [check_within, check_first_row])
def test_random_patterns_and_rows_match_as_one_by_one(monkeypatch, check):
    for seed in range(1500):
        check(seed, monkeypatch)


@pytest.mark.long
@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("check", [check_within, check_first_row])
def test_random_patterns_and_rows_for_long(monkeypatch, check):
    for seed in range(10_000, 10_000 + int(os.environ.get("NFA_EXAMPLES", "50000"))):
        check(seed, monkeypatch)
