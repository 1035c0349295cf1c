"""The base class of instances of parts of a pattern, and their creation and dumps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from nfa.temporal.tree import Temporal

Bound: TypeAlias = dict[int, Any]
"""The events bound so far, by the number of their `Once`; a list of events for a repeated part."""

Lines: TypeAlias = list[Any]
"""A dump of an instance: nested lists of integers and events."""


class InstanceOwner(Protocol):
    """The machine of the instances. It numbers them, and keeps those that wait for events and times."""

    places: dict[int, int]
    nodes: list[Temporal]
    now: int

    @property
    def listeners(self) -> Any: ...
    @property
    def value(self) -> Callable[[int, Bound], Any]: ...
    def next(self) -> int: ...
    def schedule(self, state: Any) -> None: ...


class Parent(Protocol):
    """Receives the reports of an instance that turns true (`ended`: for the last time) or false for good."""

    def true(self, bound: Bound, state: State, ended: bool) -> None: ...
    def false(self, state: State) -> None: ...


class State:
    """An instance of a part of the pattern."""

    def __init__(self, matcher: InstanceOwner, parent: Parent, node: Any) -> None:
        self.matcher, self.parent, self.node = matcher, parent, node
        self.alive = True

    @property
    def place(self) -> int:
        return self.matcher.places[id(self.node)]

    def start(self, begin: Bound) -> None:
        raise NotImplementedError

    def quit(self) -> None:
        """Ends the instance and its parts; the parent is not called."""
        self.alive = False

    def true(self, bound: Bound, state: State, ended: bool) -> None:
        raise NotImplementedError

    def false(self, state: State) -> None:
        """Ends the instance, which cannot turn true without this part."""
        self.quit()
        self.parent.false(self)

    def dump(self) -> Lines:
        raise NotImplementedError

    def load(self, lines: Lines) -> None:
        raise NotImplementedError


class SinglePartState(State):
    """An instance with one part, which starts and ends with it."""

    part: State

    def begin_part(self, begin: Bound) -> None:
        self.part = create_instance(self.matcher, self, self.node.part)
        self.part.start(begin)

    def quit(self) -> None:
        self.alive = False
        self.part.quit()

    def false(self, state: State) -> None:
        self.alive = False
        self.parent.false(self)

    def dump(self) -> Lines:
        return [self.place, self.part.dump() if self.part.alive else []]

    def load(self, lines: Lines) -> None:
        self.part = (
            load_instance(self.matcher, self, lines[1])
            if lines[1]
            else create_instance(self.matcher, self, self.node.part)
        )
        self.part.alive = bool(lines[1])


S = TypeVar("S", bound=type[State])
_STATES: dict[type, type[State]] = {}


def of(kind: type) -> Callable[[S], S]:
    """Registers a class for the instances of a kind of part."""

    def register(cls: S) -> S:
        _STATES[kind] = cls
        return cls

    return register


def create_instance(matcher: InstanceOwner, parent: Parent, node: Temporal) -> State:
    """A new instance of a part, not started yet."""
    return _STATES[type(node)](matcher, parent, node)


def load_instance(matcher: InstanceOwner, parent: Parent, lines: Lines) -> State:
    """The instance that was dumped as these lines."""
    state = create_instance(matcher, parent, matcher.nodes[lines[0]])
    state.load(lines)
    return state


def bound_to_lines(bound: Bound) -> Lines:
    """Bound events as lines of a dump."""
    return [[number, event] for number, event in bound.items()]


def lines_to_bound(lines: Lines) -> Bound:
    """The bound events of lines of a dump."""
    return dict(lines)
