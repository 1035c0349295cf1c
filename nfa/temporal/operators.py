"""Instances of events and of what joins them: every, ->, and, or, not."""

from __future__ import annotations

from typing import Any

from nfa.temporal.instance import Around, Bound, Lines, State, listed, loaded, made, of, unlisted
from nfa.temporal.tree import Absent, Both, Either, Every, Once, Then


@of(Once)
class OnceState(State):
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
        return [self.place, self.at, listed(self.begin)]

    def load(self, lines: Lines) -> None:
        _, self.at, begin = lines
        self.begin = unlisted(begin)
        self.watch.listen(self)


def spawned(above: State, begin: Bound) -> State | None:
    """A new instance of the part of an EVERY; what is true or false at once is ended, and not told."""
    waiting = _Waiting()
    state = made(above.watch, waiting, above.node.part)
    state.start(begin)
    if waiting.told:
        state.quit()
        return None
    state.above = above
    return state


class _Waiting:
    """Above an instance while it is started."""

    def __init__(self) -> None:
        self.told = False

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        self.told = True

    def false(self, state: State) -> None:
        self.told = True


@of(Every)
class EveryState(State):
    def start(self, begin: Bound) -> None:
        self.begin, self.running = begin, list[State]()
        self._spawn()

    def _spawn(self) -> None:
        if (state := spawned(self, self.begin)) is not None:
            self.running.append(state)

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        if ended and state in self.running:
            self.running.remove(state)
        self._spawn()
        self.above.true(bound, self, False)

    def false(self, state: State) -> None:
        state.quit()
        self.running.remove(state)
        self._spawn()

    def quit(self) -> None:
        self.alive = False
        for state in self.running:
            state.quit()

    def dump(self) -> Lines:
        return [self.place, listed(self.begin), [state.dump() for state in self.running]]

    def load(self, lines: Lines) -> None:
        self.begin = unlisted(lines[1])
        self.running = [loaded(self.watch, self, state) for state in lines[2]]


@of(Then)
class ThenState(State):
    def start(self, begin: Bound) -> None:
        self.running: dict[State, int] = {}
        self._go_on(0, begin)

    def _go_on(self, step: int, bound: Bound) -> None:
        state = made(self.watch, self, self.node.parts[step])
        self.running[state] = step
        state.start(bound)

    def _has_room(self, step: int) -> bool:
        limit = self.node.limits[step] if self.node.limits else None
        return limit is None or sum(at == step + 1 for at in self.running.values()) < limit

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        step = self.running.get(state)
        if step is None:  # the second of several last results of one moment
            return
        if ended:
            del self.running[state]
        if step + 1 < len(self.node.parts):
            if self._has_room(step):
                self._go_on(step + 1, bound)
        else:
            self.above.true(bound, self, not self.running)

    def false(self, state: State) -> None:
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


class SeveralState(State):
    """Of parts that are started together."""

    running: list[State | None]
    begun: int | None = None
    """How many are started, while they are: one may end all before the next is."""

    def start(self, begin: Bound) -> None:
        started = [made(self.watch, self, part) for part in self.node.parts]
        self.running = list(started)
        for self.begun, state in enumerate(started, 1):
            state.start(begin)
            if not self.alive:
                break

    def quit(self) -> None:
        self.alive = False
        for state in self.running[: self.begun]:
            if state is not None:
                state.quit()

    def dump(self) -> Lines:
        return [self.place, [state.dump() if state is not None else [] for state in self.running]]

    def load(self, lines: Lines) -> None:
        self.running = [loaded(self.watch, self, state) if state else None for state in lines[1]]


@of(Both)
class BothState(SeveralState):
    def start(self, begin: Bound) -> None:
        self.latched: list[list[Bound]] = [[] for _ in self.node.parts]
        super().start(begin)

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        if state not in self.running:  # the second of several last results of one moment, as in Esper
            return
        side = self.running.index(state)
        if ended:
            self.running[side] = None
        self.latched[side].append(bound)
        found = [bound]
        for other, latched in enumerate(self.latched):
            if other != side:
                found = [{**one, **two} for one in found for two in latched]
        over = bool(found) and all(part is None or isinstance(part, AbsentState) for part in self.running)
        if over:  # what is absent was to come before the rest, not after it
            self.quit()
        for one in found:
            self.above.true(one, self, over)

    def false(self, state: State) -> None:
        self.quit()
        self.above.false(self)

    def dump(self) -> Lines:
        return [*super().dump(), [[listed(bound) for bound in latched] for latched in self.latched]]

    def load(self, lines: Lines) -> None:
        super().load(lines)
        self.latched = [[unlisted(bound) for bound in latched] for latched in lines[2]]


@of(Either)
class EitherState(SeveralState):
    def true(self, bound: Bound, state: State, ended: bool) -> None:
        if ended and state in self.running:
            self.running[self.running.index(state)] = None
            self.quit()
        self.above.true(bound, self, ended)

    def false(self, state: State) -> None:
        self.running[self.running.index(state)] = None
        if not any(self.running):
            self.alive = False
            self.above.false(self)


@of(Absent)
class AbsentState(Around):
    def start(self, begin: Bound) -> None:
        self.begin_part(begin)
        if self.alive:
            self.above.true(begin, self, False)

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        if self.alive and ended:  # Esper: what may be true again, as EVERY, forbids nothing
            self.quit()
            self.above.false(self)

    def false(self, state: State) -> None:
        """What can never come is absent for good: nothing changes."""
