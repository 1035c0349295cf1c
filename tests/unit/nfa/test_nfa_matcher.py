"""The thread machine against Python's `re` and against the standard's definition."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nfa import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Matcher,
    Quantified,
    Symbol,
    compile_program,
    find_all,
    parse_pattern,
    past_last_row,
    to_next_row,
)
from tests.support.nfa_cases import (
    anything,
    by_definition,
    for_re,
    letter_is,
    row_sets,
    spelled,
    symbol_among,
    told_by_path,
)

letters = st.text(alphabet="ABC", max_size=12)
skips = st.sampled_from([past_last_row, to_next_row])


def as_regex(tree):
    match tree:
        case Symbol(name):
            return name
        case Anchor(place):
            return r"\A" if place == "^" else r"\Z"
        case Concatenation(parts):
            return "".join(map(as_regex, parts))
        case Alternation(parts):
            return "(?:" + "|".join(map(as_regex, parts)) + ")"
        case Quantified(part, least, most, greedy):
            bounds = f"{{{least},{'' if most is None else most}}}"
            return f"(?:{as_regex(part)}){bounds}{'' if greedy else '?'}"
        case Empty():
            return "(?:)"
    raise AssertionError(tree)


def by_re(tree, text):
    """Spans from each row on; after an empty match Python would try the same row again, the standard the next."""
    regex, start = re.compile(as_regex(tree)), 0
    while start < len(text):
        found = regex.match(text, start)
        if found:
            yield f"{start}:{found.group()}"
        start = found.end() if found and found.group() else start + 1


def check_against_re(tree, text):
    found = find_all(tree, text, letter_is)
    assert [spelled(match) for match in found] == list(by_re(tree, text))
    assert all(
        [member.row for member in match.memberships] == list(range(match.start, match.start + len(match.memberships)))
        for match in found
    )
    if "" not in re.findall(as_regex(tree), text):
        assert [match.start for match in found] == [m.start() for m in re.finditer(as_regex(tree), text)]


@given(for_re, letters)
@settings(max_examples=700, deadline=None)
def test_one_letter_rows_match_as_in_re(tree, text):
    check_against_re(tree, text)


def check_against_definition(tree, rows, skip, depends_on_path):
    found = find_all(tree, rows, symbol_among, skip=skip, depends_on_path=depends_on_path)
    assert found == by_definition(tree, len(rows), lambda symbol, at, bound: symbol in rows[at], skip)


@given(anything, row_sets, skips, st.booleans())
@settings(max_examples=700, deadline=None)
def test_rows_of_several_symbols_match_as_defined(tree, rows, skip, depends_on_path):
    check_against_definition(tree, rows, skip, depends_on_path)


def check_path_conditions(tree, count, skip):
    def holds(symbol, row, path):
        return told_by_path(symbol, [(symbol, index) for symbol, index, _ in path.steps()][::-1], row)

    def defined(symbol, at, bound):
        return told_by_path(symbol, [(member.symbol, member.row) for member in bound], at)

    found = find_all(tree, range(count), holds, skip=skip, depends_on_path=True)
    assert found == by_definition(tree, count, defined, skip)


@given(anything, st.integers(0, 6), skips)
@settings(max_examples=800, deadline=None)
def test_conditions_over_the_path_match_as_defined(tree, count, skip):
    check_path_conditions(tree, count, skip)


def check_within(tree, rows, gaps, within, skip, depends_on_path):
    times = [sum(gaps[: place + 1]) for place in range(len(rows))]
    timed = list(zip(rows, times, strict=False))
    found = find_all(
        tree,
        timed,
        lambda symbol, row, path: symbol in row[0],
        skip=skip,
        within=within,
        time=lambda row: row[1],
        depends_on_path=depends_on_path,
    )
    assert found == by_definition(
        tree, len(timed), lambda symbol, at, bound: symbol in rows[at], skip, times=times, within=within
    )


gap_lists = st.lists(st.integers(0, 3), min_size=7, max_size=7)


@given(anything, row_sets, gap_lists, st.integers(1, 8), skips, st.booleans())
@settings(max_examples=1000, deadline=None)
def test_within_bounds_matches_before_they_form(tree, rows, gaps, within, skip, depends_on_path):
    check_within(tree, rows, gaps, within, skip, depends_on_path)


@pytest.mark.long
@given(for_re, letters, anything, row_sets, gap_lists, st.integers(1, 8), skips, st.booleans())
@settings(max_examples=int(os.environ.get("NFA_EXAMPLES", "50000")), deadline=None)
def test_all_of_it_for_long(solid, text, tree, rows, gaps, within, skip, depends_on_path):
    check_against_re(solid, text)
    check_against_definition(tree, rows, skip, depends_on_path)
    check_path_conditions(tree, len(rows), skip)
    check_within(tree, rows, gaps, within, skip, depends_on_path)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("A B | A", "AAB", ["0:A", "1:AB"]),
        ("A*", "AAB", ["0:AA", "2:"]),
        ("A*?", "AB", ["0:", "1:"]),
        ("()", "AB", ["0:", "1:"]),
        ("(() | A)*", "AAB", ["0:", "1:", "2:"]),
        ("(A??)* B", "AAB", ["0:AAB"]),
        ("((A?)*)* B", "AAB", ["0:AAB"]),
        ("(A | B)+ {- C -} A", "ABCA", ["0:ABcA"]),
        ("PERMUTE(A, B, C)", "CABBAC", ["0:CAB", "3:BAC"]),
        ("^ A", "AA", ["0:A"]),
        ("A $", "AA", ["1:A"]),
        ("^ $", "A", []),
        ("$", "A", []),
        ("A ^", "AA", []),
        ("(A $)+", "AA", ["1:A"]),
        ("^ A* $", "AAA", ["0:AAA"]),
        ("A+ $ | A", "AAB", ["0:A", "1:A"]),
        ("A", "", []),
    ],
)
def test_worked_examples(pattern, text, expected):
    assert [spelled(match) for match in find_all(pattern, text, letter_is)] == expected


def test_permute_prefers_the_order_it_is_written_in():
    found = find_all("PERMUTE(B, A)", [{"A", "B"}, {"A", "B"}], symbol_among)
    assert [spelled(match) for match in found] == ["0:BA"]


def test_empty_matches_are_numbered_too():
    assert [(match.number, match.start) for match in find_all("A*", "BAB", letter_is)] == [(1, 0), (2, 1), (3, 2)]


def test_a_condition_may_ask_for_the_match_number():
    def holds(symbol, row, path):
        return symbol == "A" or matcher.match_number > 1

    matcher = Matcher(compile_program(parse_pattern("A B?")), holds, depends_on_path=True)
    found = [match for row in range(3) for match in matcher.feed(row)] + matcher.finish()
    assert [spelled(match) for match in found] == ["0:A", "1:AB"]


def test_without_path_each_question_is_asked_once():
    asked = []

    def holds(symbol, row, path):
        asked.append((symbol, row))
        return symbol == "A"

    find_all("A+ B+", range(50), holds, skip=to_next_row)
    assert len(asked) == len(set(asked)) > 50


def test_the_path_shows_what_was_bound_before():
    seen = {}

    def holds(symbol, row, path):
        seen[symbol, row] = (
            path.rows(),
            path.last("A"),
            path.first("A"),
            path.last("A", back=1),
            path.first("A", ahead=1),
        )
        return symbol == "A" or row == 12

    assert [spelled(match) for match in find_all("A A B", [10, 11, 12], holds, depends_on_path=True)] == ["0:AAB"]
    assert seen["A", 10] == ([], None, None, None, None)
    assert seen["B", 12] == ([10, 11], 11, 10, 10, 11)
