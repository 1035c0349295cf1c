"""Patterns of events in time by key: each key has a matcher of its own, which its first event starts."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from nfa.errors import BudgetError
from nfa.temporal.instance import Bound, Lines
from nfa.temporal.listeners import INSTANCE_LIMIT
from nfa.temporal.machine import TemporalMatcher


@dataclasses.dataclass
class _KeyState:
    """The matcher of one key, the key's first event, and the time of its next timer, which is in the heap."""

    number: int
    first: Any
    matcher: TemporalMatcher
    due: int | None = None


class KeyedMatchers:
    """A TemporalMatcher for each key of the events, created by `new_matcher`. It has the same methods as one matcher.

    >>> from nfa.temporal.tree import Once, Then
    >>> pattern = Then((Once(0), Once(1)))
    >>> holds = lambda n, event, bound: event[0] == "ab"[n]
    >>> matchers = KeyedMatchers(lambda: TemporalMatcher(pattern, holds), lambda event: event[1])
    >>> matchers.start(0)
    >>> [matchers.feed(event, (0, 1), time) for time, event in enumerate(["ax", "ay", "bx", "ax", "bx"])][2:]
    [[{0: 'ax', 1: 'bx'}], [], []]
    """

    def __init__(self, new_matcher: Callable[[], TemporalMatcher], key: Callable[[Any], Hashable]) -> None:
        self.new_matcher, self.key = new_matcher, key
        self.by_key: dict[Hashable, _KeyState] = {}
        self.key_states: list[_KeyState] = []
        self.timers: list[tuple[int, int]] = []
        """A heap of due times and indexes in `key_states`; entries that are not the key's `due` are ignored."""

    def start(self, now: int) -> None:
        """Does nothing: the first event of a key starts its matcher."""

    def feed(self, event: Any, numbers: Iterable[int], now: int) -> list[Bound]:
        """The bound events of each time the pattern turns true for the event's key."""
        key_state = self.by_key.get(self.key(event))
        if key_state is None:
            key_state = self._add(event)
            key_state.matcher.start(now)
        found = key_state.matcher.feed(event, numbers, now)
        self._wait(key_state)
        return found

    def _add(self, event: Any) -> _KeyState:
        if len(self.by_key) >= INSTANCE_LIMIT:
            raise BudgetError(f"the pattern has {len(self.by_key)} keys; the limit is {INSTANCE_LIMIT}")
        key_state = _KeyState(len(self.key_states), event, self.new_matcher())
        self.by_key[self.key(event)] = key_state
        self.key_states.append(key_state)
        return key_state

    def _wait(self, key_state: _KeyState) -> None:
        due = key_state.matcher.deadline
        if due is not None and due != key_state.due:
            heapq.heappush(self.timers, (due, key_state.number))
        key_state.due = due

    @property
    def deadline(self) -> int | None:
        """The time (ms) of the next timer of any key."""
        while self.timers and self.key_states[self.timers[0][1]].due != self.timers[0][0]:
            heapq.heappop(self.timers)
        return self.timers[0][0] if self.timers else None

    def fire(self) -> list[Bound]:
        """Fires the timers of one key at the next deadline."""
        assert self.deadline is not None
        _, number = heapq.heappop(self.timers)
        key_state = self.key_states[number]
        found, key_state.due = key_state.matcher.fire(), None
        self._wait(key_state)
        return found

    def dump(self) -> Lines:
        """The state of all keys, each with its first event."""
        return [[key_state.first, key_state.matcher.dump()] for key_state in self.key_states]

    def load(self, lines: Lines) -> None:
        """Restores the state that `dump` returned."""
        self.by_key, self.key_states, self.timers = {}, [], []
        for event, state in lines:
            key_state = self._add(event)
            key_state.matcher.load(state)
            self._wait(key_state)
