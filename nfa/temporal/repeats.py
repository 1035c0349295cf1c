"""Instances of repeat and until, every-distinct, and the guard `while`."""

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
from nfa.temporal.operators import spawn_instance
from nfa.temporal.tree import Distinct, Repeat, While, numbers

Key = tuple[Any, ...]
ReportedKeys = dict[Key, tuple[int, Bound]]
"""The keys reported so far, the oldest first, with the time until which they count and the events they are computed from."""


@of(Repeat)
class RepeatState(State):
    """Collects the events of each time the part is true; an event reaches `until` before the part."""

    def start(self, begin: Bound) -> None:
        self._set(begin)
        if self.node.until is not None:
            until = self.until = create_instance(self.matcher, self, self.node.until)
            until.start(begin)
        if self.alive:
            self._repeat()

    part: State | None
    until: State | None

    def _set(self, begin: Bound) -> None:
        self.begin = begin
        self.inside = numbers(self.node.part).keys()
        self.times = 0
        self.found: dict[int, list[Any]] = {}
        self.part = self.until = None

    def _repeat(self) -> None:
        part = self.part = create_instance(self.matcher, self, self.node.part)
        part.start(self.begin)

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        if state is self.part:
            self._add(bound, ended)
        elif state is self.until:
            self._stop(bound)

    def _add(self, bound: Bound, ended: bool) -> None:
        self.times += 1
        for number in self.inside & bound.keys():
            events = bound[number] if isinstance(bound[number], list) else [bound[number]]
            self.found.setdefault(number, []).extend(events)
        if self.node.is_exact and self.times == self.node.least:
            self.quit()
            self.parent.true({**bound, **self.found}, self, True)
        elif self.node.most is not None and self.times >= self.node.most:
            self._rest()
        elif ended:
            self._repeat()

    def _rest(self) -> None:
        if self.part is not None:
            self.part.quit()
        self.part = None

    def _stop(self, bound: Bound) -> None:
        self.quit()
        if self.times < (self.node.least or 0):
            self.parent.false(self)
        else:
            self.parent.true({**bound, **self.found}, self, True)

    def quit(self) -> None:
        self.alive = False
        for state in (self.part, self.until):
            if state is not None:
                state.quit()
        self.part = self.until = None

    def dump(self) -> Lines:
        states = [[] if state is None else state.dump() for state in (self.part, self.until)]
        return [self.place, self.times, bound_to_lines(self.begin), bound_to_lines(self.found), states]

    def load(self, lines: Lines) -> None:
        _, times, begin, found, states = lines
        self._set(lines_to_bound(begin))
        self.times, self.found = times, lines_to_bound(found)
        self.part, self.until = (load_instance(self.matcher, self, state) if state else None for state in states)


@of(Distinct)
class DistinctState(State):
    """Each instance of the part knows the keys reported before it was started, and its own."""

    def start(self, begin: Bound) -> None:
        self.begin = begin
        self.running: dict[State, ReportedKeys] = {}
        self._spawn({})

    def _spawn(self, seen: ReportedKeys) -> None:
        if (state := spawn_instance(self, self.begin)) is not None:
            self.running[state] = seen

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        seen = self.running.get(state, {})  # has only the first of several results of one time
        is_new = self._add(seen, bound)
        if ended:
            self.running.pop(state, None)
        self._spawn(dict(seen))
        if is_new:
            self.parent.true(bound, self, False)

    def _add(self, seen: ReportedKeys, bound: Bound) -> bool:
        """Adds the key of the bound events; returns whether it is new."""
        if self.node.time is not None:
            for key in [key for key, (until, _) in seen.items() if until <= self.matcher.now]:
                del seen[key]
        key = self._key(bound)
        if key in seen:
            return False
        seen[key] = (self.matcher.now + (self.node.time or 0), bound)
        return True

    def _key(self, bound: Bound) -> Key:
        return tuple(self.matcher.value(number, bound) for number in self.node.values)

    def false(self, state: State) -> None:
        state.quit()
        del self.running[state]
        self._spawn({})  # Esper: an instance that follows a false one knows no keys

    def quit(self) -> None:
        self.alive = False
        for state in self.running:
            state.quit()

    def dump(self) -> Lines:
        running = [
            [state.dump(), [[until, bound_to_lines(bound)] for until, bound in seen.values()]]
            for state, seen in self.running.items()
        ]
        return [self.place, bound_to_lines(self.begin), running]

    def load(self, lines: Lines) -> None:
        _, begin, running = lines
        self.begin, self.running = lines_to_bound(begin), {}
        for state, seen in running:
            found = [(until, lines_to_bound(bound)) for until, bound in seen]
            self.running[load_instance(self.matcher, self, state)] = {self._key(one[1]): one for one in found}


@of(While)
class WhileState(SinglePartState):
    def start(self, begin: Bound) -> None:
        self.begin_part(begin)

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        holds = self.matcher.value(self.node.value, bound)
        if holds:
            self.alive = not ended
            self.parent.true(bound, self, ended)
        elif holds is not None:
            self.quit()
            self.parent.false(self)
