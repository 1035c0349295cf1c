"""Live matching: the same matches as on bounded data, each as soon as nothing can change it (rule S4)."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nfa import Matcher, compile_program, find_all, length_bounds, parse_pattern, past_last_row, to_next_row
from tests.support.nfa_cases import LETTERS, anything, fed, letter_is, row_sets, spelled, symbol_among, without_anchors

skips = st.sampled_from([past_last_row, to_next_row])


def matcher_of(pattern, holds=letter_is, **options):
    tree = parse_pattern(pattern) if isinstance(pattern, str) else pattern
    return Matcher(compile_program(tree), holds, **options)


def told(decided):
    return [[spelled(match) for match in matches] for matches in decided]


@pytest.mark.parametrize(
    ("pattern", "text", "decided"),
    [
        ("A B", "AB", [[], ["0:AB"], []]),
        ("A B+", "ABBA", [[], [], [], ["0:ABB"], []]),
        ("A B+?", "ABBA", [[], ["0:AB"], [], [], []]),
        ("A B+", "ABB", [[], [], [], ["0:ABB"]]),
        ("A B C | A", "ABAAB", [[], [], ["0:A"], ["2:A"], [], ["3:A"]]),
        ("A*", "BA", [["0:"], [], ["1:A"]]),
        ("()", "AB", [["0:"], ["1:"], []]),
        ("A $", "AA", [[], [], ["1:A"]]),
        ("^ A", "AA", [["0:A"], [], []]),
        ("A A B | A", "AAA", [[], [], ["0:A"], ["1:A", "2:A"]]),
    ],
)
def test_a_match_comes_out_as_soon_as_it_is_decided(pattern, text, decided):
    assert told(fed(matcher_of(pattern), text)) == decided


@given(anything, row_sets, skips, st.booleans(), st.lists(st.integers(0, 2), min_size=7, max_size=7))
@settings(max_examples=600, deadline=None)
def test_fed_one_by_one_gives_what_bounded_data_gives(tree, rows, skip, depends_on_path, gaps):
    """Time passes between the rows, the matcher is stored and loaded between them, and nothing changes."""
    options = {"skip": skip, "depends_on_path": depends_on_path, "within": 3, "time": time_of}
    timed = [(row, sum(gaps[: place + 1])) for place, row in enumerate(rows)]
    matcher = matcher_of(tree, timed_symbol, **options)
    found = []
    for row in timed:
        found += matcher.advance_time(row[1]) + matcher.feed(row)
        matcher = pickle.loads(pickle.dumps(matcher))
    assert found + matcher.finish() == find_all(tree, timed, timed_symbol, **options)


def time_of(row):
    return row[1]


def timed_symbol(symbol, row, path):
    return symbol in row[0]


ANY, NONE = frozenset(LETTERS), frozenset()


@given(without_anchors, row_sets.map(lambda rows: rows[:4]), skips)
@settings(max_examples=400, deadline=None)
def test_reported_is_exactly_what_all_futures_share(tree, rows, skip):
    """Neither too early nor too late: what the rows so far decide is the common beginning of all continuations."""
    matcher = matcher_of(tree, symbol_among, skip=skip)
    reported = [match for row in rows for match in matcher.feed(row)]
    reach = min(length_bounds(tree)[1] or 12, 12) + 1
    futures = [[ANY] * length + end for length in range(reach) for end in ([], [NONE])]
    outcomes = [find_all(tree, rows + future, symbol_among, skip=skip) for future in futures]
    shared = []
    for matches in zip(*outcomes, strict=False):
        if any(match != matches[0] for match in matches):
            break
        shared.append(matches[0])
    assert reported == shared


def test_time_decides_what_within_bounds():
    matcher = matcher_of("A B*", letter_and_time, within=10, time=time_of)
    assert matcher.feed(("A", 100)) == []
    assert matcher.feed(("B", 105)) == []
    assert matcher.advance_time(109) == []
    assert [spelled(match) for match in matcher.advance_time(110)] == ["0:AB"]
    assert matcher.finish() == []


def letter_and_time(symbol, row, path):
    return symbol == row[0]


def test_a_row_at_the_deadline_is_too_late():
    options = {"within": 10, "time": time_of}
    assert [spelled(m) for m in find_all("A B", [("A", 0), ("B", 9)], letter_and_time, **options)] == ["0:AB"]
    assert find_all("A B", [("A", 0), ("B", 10)], letter_and_time, **options) == []


def test_passed_time_does_not_decide_what_waits_for_the_end():
    matcher = matcher_of("A $ | A", letter_and_time, within=10, time=time_of)
    assert matcher.feed(("A", 0)) == []
    assert matcher.advance_time(50) == []
    assert told([matcher.finish()]) == [["0:A"]]


def test_time_does_not_go_back():
    matcher = matcher_of("A", letter_and_time, within=10, time=time_of)
    matcher.feed(("B", 5))
    assert matcher.advance_time(3) == []
    with pytest.raises(ValueError, match="a row of time 4 comes after time 5"):
        matcher.feed(("A", 4))


def test_time_passing_is_harmless_to_rows_without_time():
    matcher = matcher_of("A B")
    matcher.advance_time(7)
    assert told(fed(matcher, "AB")) == [[], ["0:AB"], []]


def test_within_needs_to_know_the_time():
    with pytest.raises(ValueError, match="within needs time"):
        matcher_of("A", within=10)


def test_no_row_comes_after_the_end():
    matcher = matcher_of("A")
    matcher.finish()
    with pytest.raises(ValueError, match="finished"):
        matcher.feed("A")


def test_only_rows_from_the_start_under_way_are_kept():
    matcher = matcher_of("A B+ C")
    for letter in "CCCAABB":
        matcher.feed(letter)
    assert matcher.start == 4
    assert list(matcher._rows) == [4, 5, 6]
    matcher.feed("A")
    assert (matcher.start, list(matcher._rows), len(matcher._tracks)) == (7, [7], 1)
