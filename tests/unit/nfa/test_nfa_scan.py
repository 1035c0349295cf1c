"""The vectorised scan against `find_all`."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

from nfa import BudgetError, compile_program, parse_pattern, to_next_row
from nfa.arrays import lockstep
from nfa.arrays import skip_chain as chain
from nfa.arrays import two_pass as scans
from nfa.arrays.two_pass import scan
from tests.support.array_cases import SKIPS, expected, random_rows, random_tree, told


@pytest.fixture
def small_pieces(monkeypatch):
    """Everything that is done in pieces is, on a few rows."""
    monkeypatch.setattr(lockstep, "BLOCK", 2)
    monkeypatch.setattr(lockstep, "SMALL", 3)
    monkeypatch.setattr(lockstep, "STEPS", 1)
    monkeypatch.setattr(scans, "STARTS_AT_ONCE", 3)
    monkeypatch.setattr(chain, "STARTS_AT_ONCE", 5)
    monkeypatch.setattr(chain, "FIRST_STARTS", 2)


def check(seed, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr(lockstep, "ROUNDS", rng.randrange(4))
    monkeypatch.setattr(lockstep, "ALONE_PRICE", rng.choice([0, 60, 1000]))
    tree = random_tree(rng, rng.randint(1, 9))
    symbol_sets, ends = random_rows(rng, tree, longest=rng.choice([4, 12, 30]))
    skip, lanes = rng.choice(SKIPS), rng.choice([None, 1, 2, 3, 5, 9])
    shown = f"seed {seed}: {tree} over {symbol_sets.tolist()} to {ends.tolist()}, {skip}, {lanes} lanes"
    assert told(tree, scan, symbol_sets, ends, skip, segments=lanes) == expected(tree, symbol_sets, ends, skip), shown


@pytest.mark.usefixtures("small_pieces")
def test_random_patterns_and_rows_match_as_one_by_one(monkeypatch):
    for seed in range(800):
        check(seed, monkeypatch)


@pytest.mark.long
@pytest.mark.usefixtures("small_pieces")
def test_random_patterns_and_rows_for_long(monkeypatch):
    for seed in range(10_000, 10_000 + int(os.environ.get("NFA_EXAMPLES", "50000"))):
        check(seed, monkeypatch)


@pytest.mark.parametrize(
    ("pattern", "matches", "length"),
    [
        ("A+ B+", 0, 0),
        ("(A | A)* B", 0, 0),
        ("((A*)*)* B", 0, 0),
        ("(A+ A+)+ B", 0, 0),
        ("(A?){30} A{30}", 1667, 60),
        ("A+", 1, 100_000),
        ("(A A)* $", 1, 100_000),
        ("A{500}", 200, 500),
    ],
)
def test_many_equal_rows(pattern, matches, length):
    found = scan(compile_program(parse_pattern(pattern)), np.ones(100_000, np.uint8), np.array([100_000]))
    assert len(found.starts) == matches
    assert found.lengths[:1].tolist() == [length] * min(matches, 1)


def test_many_short_partitions():
    symbol_sets = np.tile(np.array([1, 1, 2, 2, 1, 2], np.uint8), 20_000)
    found = scan(compile_program(parse_pattern("^ A+ B")), symbol_sets, np.arange(3, 120_001, 3))
    assert (len(found.starts), set(found.lengths.tolist())) == (20_000, {3})


def test_lanes_that_never_agree_are_mended():
    """Every other row, whatever the lane before said."""
    found = scan(compile_program(parse_pattern("(A A)+ B")), np.array([1] * 9_999 + [2], np.uint8), np.array([10_000]))
    assert (found.starts.tolist(), found.lengths.tolist()) == ([1], [9_999])


@pytest.mark.parametrize("name", ["SET_LIMIT", "WORK_LIMIT"])
def test_too_many_sets_are_refused(monkeypatch, name):
    monkeypatch.setattr(scans, name, 50)
    with pytest.raises(BudgetError, match="sets of instructions"):
        scan(compile_program(parse_pattern("A{100}")), np.ones(1000, np.uint8), np.array([1000]))


def test_too_large_tables_are_refused(monkeypatch):
    monkeypatch.setattr(lockstep, "CELL_LIMIT", 100)
    with pytest.raises(BudgetError, match="cells"):
        scan(compile_program(parse_pattern("A{100}")), np.ones(1000, np.uint8), np.array([1000]))


def test_too_many_rows_of_overlapping_matches_are_refused(monkeypatch):
    monkeypatch.setattr(chain, "RESULT_LIMIT", 10_000)
    with pytest.raises(BudgetError, match="more than 10,000 rows"):
        scan(compile_program(parse_pattern("A+")), np.ones(1000, np.uint8), np.array([1000]), to_next_row)


def test_the_package_itself_does_without_numpy():
    code = "import sys, nfa; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
