"""AFTER MATCH SKIP (rule S3)."""

from __future__ import annotations

import pickle

import pytest

from nfa import SkipError, find_all, past_last_row, to_first, to_last, to_next_row
from tests.support.nfa_cases import letter_is


def starts(pattern, text, skip):
    return [match.start for match in find_all(pattern, text, letter_is, skip=skip)]


def test_past_last_row_matches_do_not_overlap():
    assert starts("A? B+ C", "ABBCAABC", past_last_row) == [0, 5]


def test_to_next_row_every_row_may_begin_a_match():
    assert starts("A? B+ C", "ABBCAABC", to_next_row) == [0, 1, 2, 5, 6]


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        (to_first("B"), [0, 1, 2, 3]),
        (to_last("B"), [0, 2, 3]),
        (to_first("C"), [0, 3]),
        (to_last("B", "C"), [0, 3]),
        (to_first("B", "C"), [0, 1, 2, 3]),
    ],
)
def test_the_search_goes_on_at_the_row_skipped_to(skip, expected):
    """Every row not skipped has at least an empty match."""
    assert starts("A B B C | ()", "ABBC", skip) == expected


def test_a_target_that_begins_the_match_is_refused():
    with pytest.raises(
        SkipError, match=r"match 2 \(rows 1 to 2\) would be found for ever: row B to skip to is its first"
    ):
        find_all("C? B A?", "CBABA", letter_is, skip=to_last("B"))


def test_a_target_that_the_match_has_not_is_refused():
    with pytest.raises(SkipError, match=r"match 1 \(rows 1 to 1\) has no row B or C to skip to"):
        find_all("A (B | C)?", "CAA", letter_is, skip=to_last("B", "C"))


def test_a_mode_that_does_not_move_on_is_refused():
    with pytest.raises(SkipError, match="goes on at row 0"):
        find_all("A", "A", letter_is, skip=lambda match: match.start)


def test_after_an_empty_match_the_next_row_begins():
    assert [match.start for match in find_all("A*", "BB", letter_is, skip=to_first("A"))] == [0, 1]


def test_modes_can_be_sent_to_other_processes():
    match = find_all("A B B", "ABB", letter_is)[0]
    assert [pickle.loads(pickle.dumps(skip))(match) for skip in (to_first("B"), to_last("B"))] == [1, 2]
