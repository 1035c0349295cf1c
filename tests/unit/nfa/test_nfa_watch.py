"""Patterns in time without a database: what repeats, its notes, and how much may be under way."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from nfa.temporal.calendar import Crontab, Dates
from nfa.temporal.listeners import Equality
from nfa.temporal.machine import TemporalMatcher
from nfa.temporal.tree import Absent, At, Both, Distinct, Every, Once, Repeat, Temporal, Then, While


def matcher(pattern: Temporal) -> TemporalMatcher:
    """Events are texts; number n is for those that begin with the n-th letter, a value is the last character."""
    return TemporalMatcher(pattern, lambda number, event, bound: event[0] == "abc"[number], value)


def value(number: int, bound: dict[int, Any]) -> Any:
    return bound[0][-1] > "3" if number else bound[0][-1]


def told(pattern: Temporal, events: str, noted: bool = False) -> list[Any]:
    """What each event makes true; `noted`: the machine is made anew from its notes before each."""
    found = []
    machine = matcher(pattern)
    machine.start(0)
    for at, event in enumerate(events.split()):
        if noted:
            lines = machine.dump()
            machine = matcher(pattern)
            machine.load(lines)
        found += machine.feed(event, ("abc".index(event[0]),), at)
    return found


PATTERNS = {
    "repeat": (Every(Repeat(Once(0), 2, 2)), "a1 a2 a3 a4", [{0: ["a1", "a2"]}, {0: ["a3", "a4"]}]),
    "until": (Every(Repeat(Once(0), None, 2, Once(1))), "b1 a2 a3 a4 b5", [{1: "b1"}, {0: ["a2", "a3"], 1: "b5"}]),
    "too early": (Every(Repeat(Once(0), 2, None, Once(1))), "a1 b2 a3 a4 b5", [{0: ["a3", "a4"], 1: "b5"}]),
    "distinct": (Distinct(Once(0), (0,)), "a1 a2 a1 a3", [{0: "a1"}, {0: "a2"}, {0: "a3"}]),
    "forgotten": (Distinct(Once(0), (0,), 2), "a1 a1 a1 a1", [{0: "a1"}, {0: "a1"}]),
    "while": (While(Every(Once(0)), 1), "a5 a4 a1 a6", [{0: "a5"}, {0: "a4"}]),
    "limit": (Then((Every(Once(0)), Once(1)), (1,)), "a1 a2 b3 a4 b5", [{0: "a1", 1: "b3"}, {0: "a4", 1: "b5"}]),
}


def test_what_repeats_is_true_when_it_should_be() -> None:
    for name, (pattern, events, expected) in PATTERNS.items():
        assert told(pattern, events) == expected, name


def test_what_is_noted_goes_on() -> None:
    for name, (pattern, events, expected) in PATTERNS.items():
        assert told(pattern, events, noted=True) == expected, name


def test_a_long_repetition_takes_time_in_proportion() -> None:
    machine = matcher(Repeat(Once(0), None, None, Once(1)))
    machine.start(0)
    begun = time.perf_counter()
    for at in range(100_000):
        assert not machine.feed("a1", (0,), at)
    (found,) = machine.feed("b1", (1,), 100_000)
    assert len(found[0]) == 100_000
    assert time.perf_counter() - begun < 20


def test_a_calendar_fires_each_time_once() -> None:
    machine = matcher(Every(At(Crontab(seconds=frozenset({0, 30})))))
    machine.start(1)
    fired = []
    while (deadline := machine.deadline) is not None and deadline <= 90_000:
        fired += [deadline] * len(machine.fire())
    assert fired == [30_000, 60_000, 90_000]


def test_dates_that_are_over_end_the_part() -> None:
    machine = matcher(At(Dates(10, 5, 3), repeatedly=True))
    machine.start(12)
    fired = []
    while (deadline := machine.deadline) is not None:
        fired += [deadline] * len(machine.fire())
    assert fired == [15, 20]
    assert machine.root is None


def test_leap_days_come_after_a_century_without_one() -> None:
    leap = Crontab(frozenset({0}), frozenset({0}), frozenset({29}), frozenset({2}))
    before = 4_107_542_400_000 - 8 * 365 * 86_400_000  # in 2092
    days = [leap.after(before)]
    days.append(leap.after(days[0] or 0))
    assert [round((day or 0) / (365.2425 * 86_400_000) + 1970) for day in days] == [2096, 2104]


KEYS = ("x", "y", 1, 1.0, True, 2**53, float(2**53), 2**53 + 1, None, float("nan"), (1,))


@pytest.mark.parametrize("seed", range(40))
def test_an_equality_changes_no_match(seed: int) -> None:
    """Events are pairs of a letter and a key; those of the second and the third letter want the key of the first."""
    rng = random.Random(seed)
    parts = (Every(Once(0)), Absent(Once(2)) if seed % 2 else Once(2), Once(1))
    pattern = Then((parts[0], Both(parts[1:]))) if seed % 3 else Then((Every(Once(0)), Repeat(Once(1), 2, 2)))
    events = [("abc"[rng.randrange(3)], rng.choice(KEYS)) for _ in range(60)]

    def holds(number: int, event: Any, bound: Any) -> bool:
        return number == 0 or event[1] == bound[0][1]

    def found(equalities: Any, loaded: bool) -> list[Any]:
        machine, answers = TemporalMatcher(pattern, holds, equalities=equalities), []
        machine.start(0)
        for at, event in enumerate(events):
            if loaded and at % 7 == 0:
                lines = machine.dump()
                machine = TemporalMatcher(pattern, holds, equalities=equalities)
                machine.load(lines)
            answers.append(machine.feed(event, ("abc".index(event[0]),), at))
        return answers

    equality = Equality(lambda event: event[1], lambda bound: bound[0][1])
    plain = found({}, loaded=False)
    assert any(plain)
    assert found({1: equality, 2: equality}, loaded=False) == plain
    assert found({1: equality, 2: equality}, loaded=True) == plain


def test_an_event_is_compared_with_those_of_its_value_alone() -> None:
    asked = []

    def holds(number: int, event: Any, bound: Any) -> bool:
        asked.append(number)
        return number == 0 or event[1] == bound[0][1]

    equality = Equality(lambda event: event[1], lambda bound: bound[0][1])
    machine = TemporalMatcher(Then((Every(Once(0)), Once(1))), holds, equalities={1: equality})
    machine.start(0)
    for key in range(100):
        machine.feed(("a", key), (0,), key)
    assert machine.feed(("b", 7), (1,), 100) == [{0: ("a", 7), 1: ("b", 7)}]
    assert asked.count(1) == 1
