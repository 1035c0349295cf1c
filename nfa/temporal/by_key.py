"""Patterns in time by keys: each key has a watch of its own, begun by its first event, and never again."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from nfa.errors import BudgetError
from nfa.temporal.instance import Bound, Lines
from nfa.temporal.machine import INSTANCE_LIMIT, Watch


@dataclasses.dataclass
class _Keyed:
    """The watch of one key: the key's first event, and when its next timer fires, as it is noted in the heap."""

    number: int
    first: Any
    watch: Watch
    due: int | None = None


class Watches:
    """Watches that are `made` for each `key` of the events; used as one.

    >>> from nfa.temporal.tree import Once, Then
    >>> pattern = Then((Once(0), Once(1)))
    >>> watches = Watches(lambda: Watch(pattern, lambda n, event, bound: event[0] == "ab"[n]), lambda event: event[1])
    >>> watches.start(0)
    >>> [watches.feed(event, (0, 1), time) for time, event in enumerate(["ax", "ay", "bx", "ax", "bx"])][2:]
    [[{0: 'ax', 1: 'bx'}], [], []]
    """

    def __init__(self, made: Callable[[], Watch], key: Callable[[Any], Hashable]) -> None:
        self.made, self.key = made, key
        self.known: dict[Hashable, _Keyed] = {}
        self.numbered: list[_Keyed] = []
        self.timers: list[tuple[int, int]] = []
        """When, and which of the numbered; what is not as noted there any more is passed over."""

    def start(self, now: int) -> None:
        """Nothing is watched for until a key has an event."""

    def feed(self, event: Any, numbers: Iterable[int], now: int) -> list[Bound]:
        """What an event makes true for its key."""
        keyed = self.known.get(self.key(event))
        if keyed is None:
            keyed = self._begun(event)
            keyed.watch.start(now)
        found = keyed.watch.feed(event, numbers, now)
        self._wait(keyed)
        return found

    def _begun(self, event: Any) -> _Keyed:
        if len(self.known) >= INSTANCE_LIMIT:
            raise BudgetError(f"the pattern has {len(self.known)} keys; the limit is {INSTANCE_LIMIT}")
        keyed = _Keyed(len(self.numbered), event, self.made())
        self.known[self.key(event)] = keyed
        self.numbered.append(keyed)
        return keyed

    def _wait(self, keyed: _Keyed) -> None:
        due = keyed.watch.deadline
        if due is not None and due != keyed.due:
            heapq.heappush(self.timers, (due, keyed.number))
        keyed.due = due

    @property
    def deadline(self) -> int | None:
        """When the next timer of any key fires."""
        while self.timers and self.numbered[self.timers[0][1]].due != self.timers[0][0]:
            heapq.heappop(self.timers)
        return self.timers[0][0] if self.timers else None

    def fire(self) -> list[Bound]:
        """Lets the timers of the next deadline fire, those of one key."""
        assert self.deadline is not None
        _, number = heapq.heappop(self.timers)
        keyed = self.numbered[number]
        found, keyed.due = keyed.watch.fire(), None
        self._wait(keyed)
        return found

    def dump(self) -> Lines:
        """All that is under way, each key by its first event."""
        return [[keyed.first, keyed.watch.dump()] for keyed in self.numbered]

    def load(self, lines: Lines) -> None:
        """Goes on from what was dumped."""
        self.known, self.numbered, self.timers = {}, [], []
        for event, state in lines:
            keyed = self._begun(event)
            keyed.watch.load(state)
            self._wait(keyed)
