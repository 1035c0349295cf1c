"""An instance of a part of a pattern in time: what all of them have, and how they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from nfa.temporal.tree import Temporal

Bound: TypeAlias = dict[int, Any]
"""The events bound so far, by the numbers of their `Once`; a list of events where a part was repeated."""

Lines: TypeAlias = list[Any]
"""An instance as nested lists of whole numbers and of events."""


class Watcher(Protocol):
    """The machine that instances belong to: it numbers them, and keeps those that wait for events and times."""

    places: dict[int, int]
    nodes: list[Temporal]
    listening: dict[int, dict[int, Any]]
    now: int

    @property
    def value(self) -> Callable[[int, Bound], Any]: ...
    def next(self) -> int: ...
    def listen(self, state: Any) -> None: ...
    def schedule(self, state: Any) -> None: ...


class Above(Protocol):
    """What is told when an instance turns true (`ended`: for the last time) or false for good."""

    def true(self, bound: Bound, state: State, ended: bool) -> None: ...
    def false(self, state: State) -> None: ...


class State:
    """An instance of a part of the pattern."""

    def __init__(self, watch: Watcher, above: Above, node: Any) -> None:
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

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        raise NotImplementedError

    def false(self, state: State) -> None:
        raise NotImplementedError

    def dump(self) -> Lines:
        raise NotImplementedError

    def load(self, lines: Lines) -> None:
        raise NotImplementedError


class Around(State):
    """Of one part that is started with it, and ends with it."""

    part: State

    def begin_part(self, begin: Bound) -> None:
        self.part = made(self.watch, self, self.node.part)
        self.part.start(begin)

    def quit(self) -> None:
        self.alive = False
        self.part.quit()

    def dump(self) -> Lines:
        return [self.place, self.part.dump() if self.part.alive else []]

    def load(self, lines: Lines) -> None:
        self.part = loaded(self.watch, self, lines[1]) if lines[1] else made(self.watch, self, self.node.part)
        self.part.alive = bool(lines[1])


S = TypeVar("S", bound=type[State])
_STATES: dict[type, type[State]] = {}


def of(kind: type) -> Callable[[S], S]:
    """Registers the class of the instances of a kind of part."""

    def registered(cls: S) -> S:
        _STATES[kind] = cls
        return cls

    return registered


def made(watch: Watcher, above: Above, node: Temporal) -> State:
    """A new instance of a part, not started yet."""
    return _STATES[type(node)](watch, above, node)


def loaded(watch: Watcher, above: Above, lines: Lines) -> State:
    """An instance as it was dumped."""
    state = made(watch, above, watch.nodes[lines[0]])
    state.load(lines)
    return state


def listed(bound: Bound) -> Lines:
    """What is bound, as lines."""
    return [[number, event] for number, event in bound.items()]


def unlisted(lines: Lines) -> Bound:
    """What was bound, from its lines."""
    return dict(lines)
