"""Instances that time moves: timer:within and timer:withinmax, timer:interval, timer:at and timer:schedule."""

from __future__ import annotations

from nfa.temporal.instance import Around, Bound, Lines, State, listed, loaded, of, unlisted
from nfa.temporal.tree import After, At, Within

NEVER = 0
"""The place of what no timer is for."""


class TimedState(State):
    """What a timer fires for."""

    due: int
    at: int

    def wait(self, due: int) -> None:
        self.due, self.at = due, self.watch.next()
        self.watch.schedule(self)

    def fire(self) -> None:
        raise NotImplementedError


@of(Within)
class WithinState(TimedState, Around):
    def start(self, begin: Bound) -> None:
        self.times = 0
        self.wait(self.watch.now + self.node.time)
        self.begin_part(begin)

    def fire(self) -> None:
        self.quit()
        self.above.false(self)

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        self.times += 1
        if self.node.most is not None and self.times > self.node.most:
            self.fire()
            return
        self.alive = not ended
        self.above.true(bound, self, ended)

    def false(self, state: State) -> None:
        self.alive = False
        self.above.false(self)

    def dump(self) -> Lines:
        return [self.place, self.due, self.at, self.times, self.part.dump()]

    def load(self, lines: Lines) -> None:
        _, self.due, self.at, self.times, part = lines
        self.part = loaded(self.watch, self, part)
        self.watch.schedule(self)


@of(After)
class AfterState(TimedState):
    def start(self, begin: Bound) -> None:
        self.begin = begin
        self.wait(self.watch.now + self.node.time)

    def fire(self) -> None:
        self.alive = False
        self.above.true(self.begin, self, True)

    def dump(self) -> Lines:
        return [self.place, self.due, self.at, listed(self.begin)]

    def load(self, lines: Lines) -> None:
        _, self.due, self.at, begin = lines
        self.begin = unlisted(begin)
        self.watch.schedule(self)


@of(At)
class AtState(TimedState):
    def start(self, begin: Bound) -> None:
        self.begin, self.began = begin, self.watch.now
        if self.node.repeatedly and self._next() is None:  # as EVERY, that does not tell what is false at once
            self.due = self.at = NEVER
        else:
            self._go_on()

    def _next(self) -> int | None:
        due: int | None = self.node.when.after(self.watch.now, self.began)
        return due

    def _go_on(self) -> None:
        due = self._next()
        if due is None:
            self.alive = False
            self.above.false(self)
        else:
            self.wait(due)

    def fire(self) -> None:
        self.alive = self.node.repeatedly
        self.above.true(self.begin, self, not self.alive)
        if self.alive:
            self._go_on()

    def dump(self) -> Lines:
        return [self.place, self.due, self.at, self.began, listed(self.begin)]

    def load(self, lines: Lines) -> None:
        _, self.due, self.at, self.began, begin = lines
        self.begin = unlisted(begin)
        if self.at != NEVER:
            self.watch.schedule(self)
