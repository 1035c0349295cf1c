"""The machine of patterns in time: a tree of instances, each of which tells the one above that it turned true or false.

The rules are those of Esper's pattern operators. Timers of an instant run before its events. Within one event the instances
that forbid it come first, then the oldest: what an event starts does not see that event.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from nfa.errors import BudgetError
from nfa.temporal import Absent, After, Both, Either, Every, Once, Temporal, Then, Within, walk

Bound: TypeAlias = dict[int, Any]
"""The events bound so far, by the numbers of their `Once`."""

Lines: TypeAlias = list[Any]
"""An instance as nested lists of whole numbers and of events."""

INSTANCE_LIMIT = 1_000_000
"""The most instances under way at once."""


class Watch:
    """Watches for one pattern; `holds(number, event, bound)` answers whether an event is of a kind, after others.

    >>> pattern = Every(Then((Once(0), Once(1))))
    >>> watch = Watch(pattern, lambda number, event, bound: event[0] == "ab"[number])
    >>> watch.start(0)
    >>> [watch.feed(event, (0, 1), time) for time, event in enumerate(["a1", "a2", "b1", "b2"])][2]
    [{0: 'a1', 1: 'b1'}]
    """

    def __init__(self, pattern: Temporal, holds: Callable[[int, Any, Bound], bool]) -> None:
        self.pattern, self.holds = pattern, holds
        self.places = {id(node): place for place, node in enumerate(walk(pattern))}
        self.nodes = list(walk(pattern))
        self.forbidden = {
            below.number
            for node in self.nodes
            if isinstance(node, Absent)
            for below in walk(node)
            if isinstance(below, Once)
        }
        self.listening: dict[int, dict[int, _Once]] = {}
        self.timers: list[tuple[int, int, _Timed]] = []
        self.now = self.count = 0
        self.found: list[Bound] = []
        self.root: _State | None = None

    def start(self, now: int) -> None:
        """Begins at a moment."""
        self.now = now
        self.root = made(self, self, self.pattern)
        self.root.start({})

    def feed(self, event: Any, numbers: Iterable[int], now: int) -> list[Bound]:
        """What an event makes true that can be of these kinds; time must have passed to it before."""
        self.now = now
        waiting = [
            (n not in self.forbidden, at, state) for n in numbers for at, state in self.listening.get(n, {}).items()
        ]
        for _, _, state in sorted(waiting, key=lambda one: one[:2]):
            if state.alive and self.holds(state.number, event, state.begin):
                state.take(event)
        return self._told()

    @property
    def deadline(self) -> int | None:
        """When the next timer fires."""
        while self.timers and not self.timers[0][2].alive:
            heapq.heappop(self.timers)
        return self.timers[0][0] if self.timers else None

    def fire(self) -> list[Bound]:
        """Lets the timers of the next deadline fire."""
        deadline = self.deadline
        assert deadline is not None
        self.now = deadline
        due: list[_Timed] = []
        while self.timers and self.timers[0][0] == deadline:
            due.append(heapq.heappop(self.timers)[2])
        for state in due:
            if state.alive:
                state.fire()
        return self._told()

    def _told(self) -> list[Bound]:
        found, self.found = self.found, []
        return found

    def next(self) -> int:
        """The number of an instance that listens or waits: older ones have smaller ones."""
        self.count += 1
        return self.count

    def listen(self, state: _Once) -> None:
        waiting = self.listening.setdefault(state.number, {})
        waiting[state.at] = state
        if len(waiting) > INSTANCE_LIMIT:
            raise BudgetError(f"the pattern has {len(waiting)} instances under way; the limit is {INSTANCE_LIMIT}")

    def schedule(self, state: _Timed) -> None:
        heapq.heappush(self.timers, (state.due, state.at, state))

    # As the one above the root ------------------------------------------------------------------------------------------

    def true(self, bound: Bound, state: _State, ended: bool) -> None:
        """The pattern is true."""
        self.found.append(bound)
        if ended:
            self.root = None

    def false(self, state: _State) -> None:
        """The pattern can never be true again."""
        self.root = None

    # Notes --------------------------------------------------------------------------------------------------------------

    def dump(self) -> Lines:
        """All that is under way."""
        return [self.now, self.count, self.root.dump() if self.root is not None else []]

    def load(self, lines: Lines) -> None:
        """Goes on from what was dumped."""
        self.now, self.count, root = lines
        self.listening, self.timers, self.found = {}, [], []
        self.root = loaded(self, self, root) if root else None


Above: TypeAlias = "Watch | _State | _Spawned"


class _State:
    """An instance of a part of the pattern."""

    def __init__(self, watch: Watch, above: Above, node: Any) -> None:
        self.watch, self.above, self.node = watch, above, node
        self.alive = True

    @property
    def place(self) -> int:
        return self.watch.places[id(self.node)]

    def start(self, begin: Bound) -> None:
        raise NotImplementedError

    def quit(self) -> None:
        """Ends it and all below, without telling."""
        self.alive = False

    def true(self, bound: Bound, state: _State, ended: bool) -> None:
        raise NotImplementedError

    def false(self, state: _State) -> None:
        raise NotImplementedError

    def dump(self) -> Lines:
        raise NotImplementedError

    def load(self, lines: Lines) -> None:
        raise NotImplementedError


class _Once(_State):
    begin: Bound
    at: int

    @property
    def number(self) -> int:
        number: int = self.node.number
        return number

    def start(self, begin: Bound) -> None:
        self.begin, self.at = begin, self.watch.next()
        self.watch.listen(self)

    def take(self, event: Any) -> None:
        self.quit()
        self.above.true({**self.begin, self.number: event}, self, True)

    def quit(self) -> None:
        self.alive = False
        self.watch.listening.get(self.number, {}).pop(self.at, None)

    def dump(self) -> Lines:
        return [self.place, self.at, _listed(self.begin)]

    def load(self, lines: Lines) -> None:
        _, self.at, begin = lines
        self.begin = _bound(begin)
        self.watch.listen(self)


class _Spawned:
    """Above an instance while EVERY starts it: what is true or false at once is ended, and not told."""

    def __init__(self) -> None:
        self.told = False

    def true(self, bound: Bound, state: _State, ended: bool) -> None:
        self.told = True

    def false(self, state: _State) -> None:
        self.told = True


class _Every(_State):
    def start(self, begin: Bound) -> None:
        self.begin, self.running = begin, list[_State]()
        self._spawn()

    def _spawn(self) -> None:
        spawned = _Spawned()
        state = made(self.watch, spawned, self.node.part)
        state.start(self.begin)
        if spawned.told:
            state.quit()
        else:
            state.above = self
            self.running.append(state)

    def true(self, bound: Bound, state: _State, ended: bool) -> None:
        if ended and state in self.running:
            self.running.remove(state)
        self._spawn()
        self.above.true(bound, self, False)

    def false(self, state: _State) -> None:
        state.quit()
        self.running.remove(state)
        self._spawn()

    def quit(self) -> None:
        self.alive = False
        for state in self.running:
            state.quit()

    def dump(self) -> Lines:
        return [self.place, _listed(self.begin), [state.dump() for state in self.running]]

    def load(self, lines: Lines) -> None:
        self.begin = _bound(lines[1])
        self.running = [loaded(self.watch, self, state) for state in lines[2]]


class _Then(_State):
    def start(self, begin: Bound) -> None:
        self.running: dict[_State, int] = {}
        self._go_on(0, begin)

    def _go_on(self, step: int, bound: Bound) -> None:
        state = made(self.watch, self, self.node.parts[step])
        self.running[state] = step
        state.start(bound)

    def true(self, bound: Bound, state: _State, ended: bool) -> None:
        step = self.running[state]
        if ended:
            del self.running[state]
        if step + 1 < len(self.node.parts):
            self._go_on(step + 1, bound)
        else:
            self.above.true(bound, self, not self.running)

    def false(self, state: _State) -> None:
        state.quit()
        self.running.pop(state, None)
        if not self.running:
            self.alive = False
            self.above.false(self)

    def quit(self) -> None:
        self.alive = False
        for state in list(self.running):
            state.quit()

    def dump(self) -> Lines:
        return [self.place, [[step, state.dump()] for state, step in self.running.items()]]

    def load(self, lines: Lines) -> None:
        self.running = {loaded(self.watch, self, state): step for step, state in lines[1]}


class _Several(_State):
    """Of parts that are started together."""

    running: list[_State | None]

    def start(self, begin: Bound) -> None:
        started = [made(self.watch, self, part) for part in self.node.parts]
        self.running = list(started)
        for state in started:
            if self.alive:
                state.start(begin)

    def quit(self) -> None:
        self.alive = False
        for state in self.running:
            if state is not None:
                state.quit()

    def dump(self) -> Lines:
        return [self.place, [state.dump() if state is not None else [] for state in self.running]]

    def load(self, lines: Lines) -> None:
        self.running = [loaded(self.watch, self, state) if state else None for state in lines[1]]


class _Both(_Several):
    def start(self, begin: Bound) -> None:
        self.latched: list[list[Bound]] = [[] for _ in self.node.parts]
        super().start(begin)

    def true(self, bound: Bound, state: _State, ended: bool) -> None:
        side = self.running.index(state)
        if ended:
            self.running[side] = None
        self.latched[side].append(bound)
        found = [bound]
        for other, latched in enumerate(self.latched):
            if other != side:
                found = [{**one, **two} for one in found for two in latched]
        over = bool(found) and all(part is None or isinstance(part, _Absent) for part in self.running)
        if over:  # what is absent was to come before the rest, not after it
            self.quit()
        for one in found:
            self.above.true(one, self, over)

    def false(self, state: _State) -> None:
        self.quit()
        self.above.false(self)

    def dump(self) -> Lines:
        return [*super().dump(), [[_listed(bound) for bound in latched] for latched in self.latched]]

    def load(self, lines: Lines) -> None:
        super().load(lines)
        self.latched = [[_bound(bound) for bound in latched] for latched in lines[2]]


class _Either(_Several):
    def true(self, bound: Bound, state: _State, ended: bool) -> None:
        if ended:
            self.running[self.running.index(state)] = None
            self.quit()
        self.above.true(bound, self, ended)

    def false(self, state: _State) -> None:
        self.running[self.running.index(state)] = None
        if not any(self.running):
            self.alive = False
            self.above.false(self)


class _Absent(_State):
    def start(self, begin: Bound) -> None:
        self.part = made(self.watch, self, self.node.part)
        self.part.start(begin)
        if self.alive:
            self.above.true(begin, self, False)

    def true(self, bound: Bound, state: _State, ended: bool) -> None:
        if self.alive:
            self.quit()
            self.above.false(self)

    def false(self, state: _State) -> None:
        """What can never come is absent for good: nothing changes."""

    def quit(self) -> None:
        self.alive = False
        self.part.quit()

    def dump(self) -> Lines:
        return [self.place, self.part.dump() if self.part.alive else []]

    def load(self, lines: Lines) -> None:
        self.part = loaded(self.watch, self, lines[1]) if lines[1] else made(self.watch, self, self.node.part)
        self.part.alive = bool(lines[1])


class _Timed(_State):
    """What a timer fires for."""

    due: int
    at: int

    def wait(self) -> None:
        self.due, self.at = self.watch.now + self.node.time, self.watch.next()
        self.watch.schedule(self)

    def fire(self) -> None:
        raise NotImplementedError


class _Within(_Timed):
    def start(self, begin: Bound) -> None:
        self.times = 0
        self.wait()
        self.part = made(self.watch, self, self.node.part)
        self.part.start(begin)

    def fire(self) -> None:
        self.quit()
        self.above.false(self)

    def true(self, bound: Bound, state: _State, ended: bool) -> None:
        self.times += 1
        if self.node.most is not None and self.times > self.node.most:
            self.fire()
            return
        self.alive = not ended
        self.above.true(bound, self, ended)

    def false(self, state: _State) -> None:
        self.alive = False
        self.above.false(self)

    def quit(self) -> None:
        self.alive = False
        self.part.quit()

    def dump(self) -> Lines:
        return [self.place, self.due, self.at, self.times, self.part.dump()]

    def load(self, lines: Lines) -> None:
        _, self.due, self.at, self.times, part = lines
        self.part = loaded(self.watch, self, part)
        self.watch.schedule(self)


class _After(_Timed):
    def start(self, begin: Bound) -> None:
        self.begin = begin
        self.wait()

    def fire(self) -> None:
        self.alive = False
        self.above.true(self.begin, self, True)

    def dump(self) -> Lines:
        return [self.place, self.due, self.at, _listed(self.begin)]

    def load(self, lines: Lines) -> None:
        _, self.due, self.at, begin = lines
        self.begin = _bound(begin)
        self.watch.schedule(self)


_STATES: dict[type, type[_State]] = {
    Once: _Once,
    Every: _Every,
    Then: _Then,
    Both: _Both,
    Either: _Either,
    Absent: _Absent,
    Within: _Within,
    After: _After,
}


def made(watch: Watch, above: Above, node: Temporal) -> _State:
    """A new instance of a part, not started yet."""
    return _STATES[type(node)](watch, above, node)


def loaded(watch: Watch, above: Above, lines: Lines) -> _State:
    """An instance as it was dumped."""
    state = made(watch, above, watch.nodes[lines[0]])
    state.load(lines)
    return state


def _listed(bound: Bound) -> Lines:
    return [[number, event] for number, event in bound.items()]


def _bound(lines: Lines) -> Bound:
    return dict(lines)
