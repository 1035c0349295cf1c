"""Instances of single events and of the operators every, ->, and, or, not."""

from __future__ import annotations

from typing import Any

from nfa.temporal.instance import (
    Bound,
    Lines,
    SinglePartState,
    State,
    bound_to_lines,
    create_instance,
    lines_to_bound,
    load_instance,
    of,
)
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
        self.begin, self.at = begin, self.matcher.next()
        self.matcher.listeners.add(self)

    def take(self, event: Any) -> None:
        self.quit()
        self.parent.true({**self.begin, self.number: event}, self, True)

    def quit(self) -> None:
        self.alive = False
        self.matcher.listeners.remove(self)

    def dump(self) -> Lines:
        return [self.place, self.at, bound_to_lines(self.begin)]

    def load(self, lines: Lines) -> None:
        _, self.at, begin = lines
        self.begin = lines_to_bound(begin)
        self.matcher.listeners.add(self)


def spawn_instance(parent: State, begin: Bound) -> State | None:
    """A new instance of the part of an EVERY.

    None if it turned true or false at once: it is then ended without a report.
    """
    listener = _StartListener()
    state = create_instance(parent.matcher, listener, parent.node.part)
    state.start(begin)
    if listener.has_turned:
        state.quit()
        return None
    state.parent = parent
    return state


class _StartListener:
    """The parent of an instance while the instance is being started."""

    def __init__(self) -> None:
        self.has_turned = False

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        self.has_turned = True

    def false(self, state: State) -> None:
        self.has_turned = True


@of(Every)
class EveryState(State):
    def start(self, begin: Bound) -> None:
        self.begin, self.running = begin, list[State]()
        self._spawn()

    def _spawn(self) -> None:
        if (state := spawn_instance(self, self.begin)) is not None:
            self.running.append(state)

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        if ended and state in self.running:
            self.running.remove(state)
        self._spawn()
        self.parent.true(bound, self, False)

    def false(self, state: State) -> None:
        state.quit()
        self.running.remove(state)
        self._spawn()

    def quit(self) -> None:
        self.alive = False
        for state in self.running:
            state.quit()

    def dump(self) -> Lines:
        return [self.place, bound_to_lines(self.begin), [state.dump() for state in self.running]]

    def load(self, lines: Lines) -> None:
        self.begin = lines_to_bound(lines[1])
        self.running = [load_instance(self.matcher, self, state) for state in lines[2]]


@of(Then)
class ThenState(State):
    def start(self, begin: Bound) -> None:
        self.running: dict[State, int] = {}
        self._go_on(0, begin)

    def _go_on(self, step: int, bound: Bound) -> None:
        state = create_instance(self.matcher, self, self.node.parts[step])
        self.running[state] = step
        state.start(bound)

    def _has_room(self, step: int) -> bool:
        limit = self.node.limits[step] if self.node.limits else None
        return limit is None or sum(at == step + 1 for at in self.running.values()) < limit

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        step = self.running.get(state)
        if step is None:  # the second of several last results of one time
            return
        if ended:
            del self.running[state]
        if step + 1 < len(self.node.parts):
            if self._has_room(step):
                self._go_on(step + 1, bound)
        else:
            self.parent.true(bound, self, not self.running)

    def false(self, state: State) -> None:
        state.quit()
        self.running.pop(state, None)
        if not self.running:
            self.alive = False
            self.parent.false(self)

    def quit(self) -> None:
        self.alive = False
        for state in list(self.running):
            state.quit()

    def dump(self) -> Lines:
        return [self.place, [[step, state.dump()] for state, step in self.running.items()]]

    def load(self, lines: Lines) -> None:
        self.running = {load_instance(self.matcher, self, state): step for step, state in lines[1]}


class MultiPartState(State):
    """An instance with several parts, which are started together."""

    running: list[State | None]
    started: int | None = None
    """The number of parts started so far; one may end all others before the next is started."""

    def start(self, begin: Bound) -> None:
        parts = [create_instance(self.matcher, self, part) for part in self.node.parts]
        self.running = list(parts)
        for self.started, state in enumerate(parts, 1):
            state.start(begin)
            if not self.alive:
                break

    def quit(self) -> None:
        self.alive = False
        for state in self.running[: self.started]:
            if state is not None:
                state.quit()

    def dump(self) -> Lines:
        return [self.place, [state.dump() if state is not None else [] for state in self.running]]

    def load(self, lines: Lines) -> None:
        self.running = [load_instance(self.matcher, self, state) if state else None for state in lines[1]]


@of(Both)
class BothState(MultiPartState):
    def start(self, begin: Bound) -> None:
        self.latched: list[list[Bound]] = [[] for _ in self.node.parts]
        super().start(begin)

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        if state not in self.running:  # the second of several last results of one time, as in Esper
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
        if over:  # an absent part matters before the others are true, not after
            self.quit()
        for one in found:
            self.parent.true(one, self, over)

    def dump(self) -> Lines:
        return [*super().dump(), [[bound_to_lines(bound) for bound in latched] for latched in self.latched]]

    def load(self, lines: Lines) -> None:
        super().load(lines)
        self.latched = [[lines_to_bound(bound) for bound in latched] for latched in lines[2]]


@of(Either)
class EitherState(MultiPartState):
    def true(self, bound: Bound, state: State, ended: bool) -> None:
        if ended and state in self.running:
            self.running[self.running.index(state)] = None
            self.quit()
        self.parent.true(bound, self, ended)

    def false(self, state: State) -> None:
        self.running[self.running.index(state)] = None
        if not any(self.running):
            self.alive = False
            self.parent.false(self)


@of(Absent)
class AbsentState(SinglePartState):
    def start(self, begin: Bound) -> None:
        self.begin_part(begin)
        if self.alive:
            self.parent.true(begin, self, False)

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        if self.alive and ended:  # Esper: a part that may turn true again, as EVERY, forbids nothing
            self.quit()
            self.parent.false(self)

    def false(self, state: State) -> None:
        """Nothing changes: a part that can never turn true is absent for good."""
