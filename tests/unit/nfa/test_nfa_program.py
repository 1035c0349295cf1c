"""Pattern to program: listings, and the limit."""

from __future__ import annotations

import pytest
from hypothesis import given

from nfa import BudgetError, compile_program, parse_pattern
from nfa.program import INSTRUCTION_LIMIT, program_length
from tests.support.nfa_cases import anything

LISTINGS = {
    "A B": """
        0 match A
        1 match B
        2 done""",
    "A | B | ()": """
        0 split 1, 3
        1 match A
        2 jump 6
        3 split 4, 6
        4 match B
        5 jump 6
        6 done""",
    "A*": """
        0 split 1, 3
        1 match A
        2 split 1, 3
        3 done""",
    "A+?": """
        0 match A
        1 split 2, 0
        2 done""",
    "A??": """
        0 split 2, 1
        1 match A
        2 done""",
    "A{1,3}": """
        0 match A
        1 split 2, 5
        2 match A
        3 split 4, 5
        4 match A
        5 done""",
    "A{2,}": """
        0 match A
        1 match A
        2 split 1, 3
        3 done""",
    "^ {- A -} B $": """
        0 at start
        1 match A excluded
        2 match B
        3 at end
        4 done""",
    "PERMUTE(A, B)": """
        0 split 1, 4
        1 match A
        2 match B
        3 jump 6
        4 match B
        5 match A
        6 done""",
    "(A?)+": """
        0 iteration start
        1 split 2, 3
        2 match A
        3 iteration end of 0, if empty to 5
        4 split 0, 5
        5 done""",
    "(A??){1,2}": """
        0 iteration start
        1 split 3, 2
        2 match A
        3 iteration end of 0, if empty to 7
        4 split 5, 7
        5 split 7, 6
        6 match A
        7 done""",
    '"a b" ()*': """
        0 match "a b"
        1 done""",
}


@pytest.mark.parametrize("text", LISTINGS)
def test_listing(text):
    expected = "\n".join(line.strip() for line in LISTINGS[text].strip().splitlines())
    assert str(compile_program(parse_pattern(text))) == expected


def test_numbers_of_a_long_listing_are_aligned():
    lines = str(compile_program(parse_pattern("A{10}"))).splitlines()
    assert lines[0] == " 0 match A"
    assert lines[10] == "10 done"


@given(anything)
def test_the_length_is_known_before(tree):
    assert len(compile_program(tree).instructions) == program_length(tree)


@pytest.mark.parametrize(
    "text",
    [
        "(A{1000}){1000}",
        "((((A{999999999}){999999999}){999999999}){999999999})",
        "PERMUTE(" + ", ".join(f"S{n}" for n in range(500)) + ")",
        "PERMUTE(A, B, C, D, E, F, G, H, I)",
        "A{99999} B",
        "(A?){50000}",
    ],
)
def test_programs_beyond_the_limit_are_refused(text):
    with pytest.raises(BudgetError, match=f"the limit is {INSTRUCTION_LIMIT}"):
        compile_program(parse_pattern(text))


@pytest.mark.parametrize(
    ("text", "length"), [("A{99999}", 100_000), ("(){999999999}", 1), ("(" * 60 + "A" + ")+" * 60, 62)]
)
def test_programs_within_the_limit_are_not(text, length):
    assert len(compile_program(parse_pattern(text)).instructions) == length
