"""The machine of patterns of events in time: a tree of instances, each of which reports to its parent.

The rules are those of Esper's pattern operators. Timers of a time run before its events. An event first reaches the
instances that forbid it, then the others, the oldest first; it does not reach an instance that it starts.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import nfa.temporal.repeats  # noqa: F401  (registers its instances)
from nfa.temporal.instance import Bound, Lines, State, create_instance, load_instance
from nfa.temporal.listeners import Equality, Listeners
from nfa.temporal.operators import OnceState
from nfa.temporal.timers import TimedState
from nfa.temporal.tree import Absent, Once, Repeat, Temporal, walk


def _no_value(number: int, bound: Bound) -> Any:
    raise LookupError(f"the pattern reads the value {number}, but no function computes values")


class TemporalMatcher:
    """Finds the matches of one pattern.

    `holds(number, event, bound)` says whether an event is of a kind after the bound events. `value(number, bound)` computes
    the values that `While` and `Distinct` read. `equalities` are parts of the conditions, by number: they save calls of
    `holds`.

    >>> from nfa.temporal.tree import Every, Then
    >>> pattern = Every(Then((Once(0), Once(1))))
    >>> matcher = TemporalMatcher(pattern, lambda number, event, bound: event[0] == "ab"[number])
    >>> matcher.start(0)
    >>> [matcher.feed(event, (0, 1), time) for time, event in enumerate(["a1", "a2", "b1", "b2"])][2]
    [{0: 'a1', 1: 'b1'}]
    """

    def __init__(
        self,
        pattern: Temporal,
        holds: Callable[[int, Any, Bound], bool],
        value: Callable[[int, Bound], Any] = _no_value,
        equalities: Mapping[int, Equality] | None = None,
    ) -> None:
        self.pattern, self.holds, self.value, self.equalities = pattern, holds, value, equalities or {}
        self.places = {id(node): place for place, node in enumerate(walk(pattern))}
        self.nodes = list(walk(pattern))
        absent = [node.part for node in self.nodes if isinstance(node, Absent)]
        ending = absent + [node.until for node in self.nodes if isinstance(node, Repeat) and node.until is not None]
        self.forbidden = {below.number for node in ending for below in walk(node) if isinstance(below, Once)}
        self.listeners = Listeners(self.equalities)
        self.timers: list[tuple[int, int, TimedState]] = []
        self.now = self.count = 0
        self.found: list[Bound] = []
        self.root: State | None = None

    def start(self, now: int) -> None:
        """Starts the pattern at a time (ms)."""
        self.now = now
        self.root = create_instance(self, self, self.pattern)
        self.root.start({})

    def feed(self, event: Any, numbers: Iterable[int], now: int) -> list[Bound]:
        """The bound events for each time that an event, which can be of these kinds, turns the pattern true.

        The timers up to `now` must have been fired before.
        """
        self.now = now
        waiting = [state for number in numbers for state in self.listeners.reached_by(event, number)]
        for state in sorted(waiting, key=self.rank):
            if state.alive and self.holds(state.number, event, state.begin):
                state.take(event)
        return self._results()

    def rank(self, state: OnceState) -> tuple[int, int]:
        """The order in which instances get an event."""
        return state.number not in self.forbidden, state.at

    @property
    def deadline(self) -> int | None:
        """The time (ms) of the next timer."""
        while self.timers and not self.timers[0][2].alive:
            heapq.heappop(self.timers)
        return self.timers[0][0] if self.timers else None

    def fire(self) -> list[Bound]:
        """Fires the timers of the next deadline."""
        deadline = self.deadline
        assert deadline is not None
        self.now = deadline
        due: list[TimedState] = []
        while self.timers and self.timers[0][0] == deadline:
            due.append(heapq.heappop(self.timers)[2])
        for state in due:
            if state.alive:
                state.fire()
        return self._results()

    def _results(self) -> list[Bound]:
        found, self.found = self.found, []
        return found

    def next(self) -> int:
        """A number for an instance that waits for an event or a time; it is larger than all numbers before."""
        self.count += 1
        return self.count

    def schedule(self, state: TimedState) -> None:
        heapq.heappush(self.timers, (state.due, state.at, state))

    # The parent of the root instance -------------------------------------------------------------------------------------

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        """The pattern is true."""
        self.found.append(bound)
        if ended:
            self.root = None

    def false(self, state: State) -> None:
        """The pattern can never be true again."""
        self.root = None

    # Dumps --------------------------------------------------------------------------------------------------------------

    def dump(self) -> Lines:
        """The state of the machine."""
        return [self.now, self.count, self.root.dump() if self.root is not None else []]

    def load(self, lines: Lines) -> None:
        """Restores the state that `dump` returned."""
        self.now, self.count, root = lines
        self.listeners, self.timers, self.found = Listeners(self.equalities), [], []
        self.root = load_instance(self, self, root) if root else None
