"""The vectorised scan against `find_all`."""

from __future__ import annotations

import os
import random

import pytest
from array_cases import SKIPS, expected, random_rows, random_tree, told

from nfa import chain, lockstep
from nfa import scan as scans
from nfa.scan import scan


@pytest.fixture
def small_pieces(monkeypatch):
    """Everything that is done in pieces is, on a few rows."""
    monkeypatch.setattr(lockstep, "BLOCK", 2)
    monkeypatch.setattr(lockstep, "SMALL", 3)
    monkeypatch.setattr(lockstep, "STEPS", 1)
    monkeypatch.setattr(scans, "STARTS_AT_ONCE", 3)
    monkeypatch.setattr(chain, "STARTS_AT_ONCE", 5)
    monkeypatch.setattr(chain, "STARTS_AT_FIRST", 2)


def check(seed, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr(lockstep, "ROUNDS", rng.randrange(4))
    monkeypatch.setattr(lockstep, "ALONE_PRICE", rng.choice([0, 60, 1000]))
    tree = random_tree(rng, rng.randint(1, 9))
    letters, ends = random_rows(rng, tree, longest=rng.choice([4, 12, 30]))
    skip, lanes = rng.choice(SKIPS), rng.choice([None, 1, 2, 3, 5, 9])
    shown = f"seed {seed}: {tree} over {letters.tolist()} to {ends.tolist()}, {skip}, {lanes} lanes"
    assert told(tree, scan, letters, ends, skip, lanes=lanes) == expected(tree, letters, ends, skip), shown


@pytest.mark.usefixtures("small_pieces")
def test_random_patterns_and_rows_match_as_one_by_one(monkeypatch):
    for seed in range(1500):
        check(seed, monkeypatch)


@pytest.mark.long
@pytest.mark.usefixtures("small_pieces")
def test_random_patterns_and_rows_for_long(monkeypatch):
    for seed in range(10_000, 10_000 + int(os.environ.get("NFA_EXAMPLES", "50000"))):
        check(seed, monkeypatch)
