"""Decision 12 the other way: an event reaches the parts it is for in the order of Esper's indexes, which come and go."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any
from unittest import mock

from nfa.temporal.machine import TemporalMatcher

TRIES = 96
"""So many orders are tried."""

Rank = Callable[[TemporalMatcher, Any], tuple[Any, ...]]

PLAIN: list[Rank] = [
    TemporalMatcher.rank,
    lambda matcher, state: (state.at,),
    lambda matcher, state: (state.number, state.at),
    lambda matcher, state: (-state.number, state.at),
    lambda matcher, state: (-state.at,),
]
"""As the bridge has it; by age, by the place in the text, the other way round."""


def found_order(first_difference: Callable[[], int | None], chance: Random) -> bool:
    """Whether there are orders, one for each event, with which nothing differs.

    `first_difference` asks once more, and says from when on answers differ. What is tried next has another order for one
    event no later than that, and else those that agreed the longest.
    """
    best, agreed, times = -1, dict[int, int](), list[int]()
    for number in range(TRIES):
        orders = _Orders({}, number)
        if number >= len(PLAIN):
            changed = chance.choice([place for place, time in enumerate(times) if time <= best] or [0])
            orders = _Orders(agreed | {changed: number}, 0)
        with orders.held():
            reached = first_difference()
        if reached is None:
            return True
        if reached >= best:
            best, agreed, times = reached, orders.numbers(), orders.times
    return False


class _Orders:
    """The order of each event, by its place among them: a number; `others` have all the same."""

    def __init__(self, chosen: dict[int, int], others: int) -> None:
        self.chosen, self.others = chosen, others
        self.times: list[int] = []
        """Those of the events."""

    def numbers(self) -> dict[int, int]:
        return {place: self._number(place) for place in range(len(self.times))}

    def _number(self, place: int) -> int:
        return self.chosen.get(place, self.others)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The machine keeps to them."""
        feed = TemporalMatcher.feed

        def counted(matcher: TemporalMatcher, event: Any, numbers: Iterable[int], now: int) -> Any:
            self.times.append(now)
            return feed(matcher, event, numbers, now)

        rank = mock.patch.object(TemporalMatcher, "rank", lambda matcher, state: self._rank(matcher, state))
        with rank, mock.patch.object(TemporalMatcher, "feed", counted):
            yield

    def _rank(self, matcher: TemporalMatcher, state: Any) -> tuple[Any, ...]:
        number = self._number(len(self.times) - 1)
        if number < len(PLAIN):
            return PLAIN[number](matcher, state)
        if number % 2:
            return Random(f"{number}/{state.number}").random(), state.at
        return (Random(f"{number}/{state.at}").random(),)
