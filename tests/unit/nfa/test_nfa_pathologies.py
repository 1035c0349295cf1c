"""Patterns that bring a backtracking matcher to its knees take time linear in the rows."""

from __future__ import annotations

import pickle

import pytest

from nfa import BudgetError, Matcher, compile_program, find_all, parse_pattern, to_next_row
from nfa.threads import machine as threads
from tests.support.nfa_cases import letter_is, spelled


class Counted:
    """Counts the moves of a machine, which is what takes time; a clock would depend on the computer."""

    def __init__(self, pattern, holds=letter_is, **options):
        self.matcher = Matcher(compile_program(parse_pattern(pattern)), holds, **options)
        self.moves = 0
        self.move = self.matcher._machine.move
        self.matcher._machine.move = self.counting

    def counting(self, threads, arrived):
        self.moves += 1
        return self.move(threads, arrived)

    def run(self, rows):
        return [match for row in rows for match in self.matcher.feed(row)] + self.matcher.finish()


@pytest.mark.parametrize(
    ("pattern", "moves_a_row"),
    [("(A | A)* B", 2), ("A+ B+", 3), ("(A* A*)* B", 3), ("((A?)*)* B", 2), ("(A+ A+)+ B", 4)],
)
@pytest.mark.parametrize("skip", [{}, {"skip": to_next_row}])
def test_no_match_in_many_equal_rows(pattern, moves_a_row, skip):
    counted = Counted(pattern, **skip)
    assert counted.run("A" * 5000) == []
    assert counted.moves <= moves_a_row * 5000


def test_many_optional_rows():
    counted = Counted("(A?){30} A{30}")
    assert [len(match.memberships) for match in counted.run("A" * 5000)] == [60] * 83
    assert counted.moves <= 2 * 5000


def test_within_shares_what_overlapping_starts_have_in_common():
    counted = Counted("A B* C", lambda symbol, row, path: symbol in "AB", within=500, time=int)
    assert counted.run(range(5000)) == []
    assert counted.moves <= 3 * 5000


def test_equal_threads_are_one_even_when_conditions_look_back():
    matches = find_all("(A | A)+ B", "A" * 60 + "B", letter_is, depends_on_path=True)
    assert [spelled(match) for match in matches] == ["0:" + "A" * 60 + "B"]


def test_too_many_ways_are_refused(monkeypatch):
    monkeypatch.setattr(threads, "THREAD_LIMIT", 500)
    with pytest.raises(BudgetError, match="the limit is 500"):
        find_all("(A | B)* C", range(20), lambda symbol, row, path: symbol in "AB", depends_on_path=True)


def test_remembered_moves_do_not_grow_for_ever(monkeypatch):
    monkeypatch.setattr(threads, "KNOWN_MOVES_LIMIT", 10)
    matcher = Matcher(compile_program(parse_pattern("A{,50} B")), letter_is)
    for _ in range(60):
        matcher.feed("A")
    assert len(matcher._machine._known_moves) <= 10


def test_long_matches_can_be_stored():
    matcher = Matcher(compile_program(parse_pattern("A+")), letter_is, depends_on_path=True)
    for _ in range(3000):
        matcher.feed("A")
    assert [len(match.memberships) for match in pickle.loads(pickle.dumps(matcher)).finish()] == [3000]
