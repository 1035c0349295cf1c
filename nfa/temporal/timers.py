"""Instances of timer:within and timer:withinmax, timer:interval, timer:at and timer:schedule."""

from __future__ import annotations

from nfa.temporal.instance import (
    Bound,
    Lines,
    SinglePartState,
    State,
    bound_to_lines,
    lines_to_bound,
    load_instance,
    of,
)
from nfa.temporal.tree import At, TimerInterval, Within

NEVER = 0
"""The `at` of an instance without a timer."""


class TimedState(State):
    """An instance with a timer."""

    due: int
    at: int

    def wait(self, due: int) -> None:
        self.due, self.at = due, self.matcher.next()
        self.matcher.schedule(self)

    def fire(self) -> None:
        raise NotImplementedError


@of(Within)
class WithinState(TimedState, SinglePartState):
    def start(self, begin: Bound) -> None:
        self.times = 0
        self.wait(self.matcher.now + self.node.time)
        self.begin_part(begin)

    def fire(self) -> None:
        self.quit()
        self.parent.false(self)

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        self.times += 1
        if self.node.most is not None and self.times > self.node.most:
            self.fire()
            return
        self.alive = not ended
        self.parent.true(bound, self, ended)

    def dump(self) -> Lines:
        return [self.place, self.due, self.at, self.times, self.part.dump()]

    def load(self, lines: Lines) -> None:
        _, self.due, self.at, self.times, part = lines
        self.part = load_instance(self.matcher, self, part)
        self.matcher.schedule(self)


@of(TimerInterval)
class AfterState(TimedState):
    def start(self, begin: Bound) -> None:
        self.begin = begin
        self.wait(self.matcher.now + self.node.time)

    def fire(self) -> None:
        self.alive = False
        self.parent.true(self.begin, self, True)

    def dump(self) -> Lines:
        return [self.place, self.due, self.at, bound_to_lines(self.begin)]

    def load(self, lines: Lines) -> None:
        _, self.due, self.at, begin = lines
        self.begin = lines_to_bound(begin)
        self.matcher.schedule(self)


@of(At)
class AtState(TimedState):
    def start(self, begin: Bound) -> None:
        self.begin, self.began = begin, self.matcher.now
        # Like EVERY, it does not report that it is false at once.
        if self.node.repeatedly and self._next() is None:
            self.due = self.at = NEVER
        else:
            self._wait_for_next()

    def _next(self) -> int | None:
        due: int | None = self.node.when.after(self.matcher.now, self.began)
        return due

    def _wait_for_next(self) -> None:
        due = self._next()
        if due is None:
            self.alive = False
            self.parent.false(self)
        else:
            self.wait(due)

    def fire(self) -> None:
        self.alive = self.node.repeatedly
        self.parent.true(self.begin, self, not self.alive)
        if self.alive:
            self._wait_for_next()

    def dump(self) -> Lines:
        return [self.place, self.due, self.at, self.began, bound_to_lines(self.begin)]

    def load(self, lines: Lines) -> None:
        _, self.due, self.at, self.began, begin = lines
        self.begin = lines_to_bound(begin)
        if self.at != NEVER:
            self.matcher.schedule(self)
