"""Patterns as pictures: states are what has been matched so far, and each row that is taken is an arrow.

What can be drawn is a program, without its moves that take no row, or a deterministic automaton.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from nfa.automaton import Automaton, escaped
from nfa.errors import BudgetError
from nfa.layers import layers_of
from nfa.pattern import Symbol
from nfa.picture import Picture
from nfa.program import MatchSymbol, Program
from nfa.threads.transitions import Closures

DRAWN_LIMIT = 400
"""The most states of a picture."""


@dataclass(frozen=True, slots=True)
class Move:
    """A row is taken as `symbol`; `at_start`: only as the first row of the partition (`^`)."""

    symbol: str
    target: int
    excluded: bool = False
    at_start: bool = False

    @property
    def label(self) -> str:
        """The symbol with its marks.

        >>> Move("A", 1, excluded=True, at_start=True).label
        '^ {- A -}'
        """
        name = str(Symbol(self.symbol))
        return "^ " * self.at_start + (f"{{- {name} -}}" if self.excluded else name)

    def __str__(self) -> str:
        return f"{self.label} -> {self.target}"


@dataclass(frozen=True, slots=True)
class Accept:
    """What was taken is a match; `at_end`: only if the partition ends here (`$`)."""

    at_end: bool = False

    def __str__(self) -> str:
        return "accepting at the end ($)" if self.at_end else "accepting"


Exit: TypeAlias = Move | Accept
_States: TypeAlias = list[list[Exit]]


@dataclass(frozen=True, slots=True)
class Diagram:
    """One pattern: for each state, 0 being the start, where it goes on; the most preferred first, if `ordered`."""

    title: str
    states: tuple[tuple[Exit, ...], ...]
    ordered: bool = True

    def moves(self, state: int) -> list[Move]:
        """The arrows that leave a state."""
        return [found for found in self.states[state] if isinstance(found, Move)]

    def accept(self, state: int) -> Accept | None:
        """Whether, and how, a state is a match."""
        accepts = [found for found in self.states[state] if isinstance(found, Accept)]
        return min(accepts, key=lambda found: found.at_end, default=None)

    def labels(self, state: int) -> list[str]:
        """For each arrow its symbol, after its place in the order of preference where there is a choice."""
        ranked = self.ordered and len(self.states[state]) > 1
        return [
            f"{rank}: {found.label}" if ranked else found.label
            for rank, found in enumerate(self.states[state], 1)
            if isinstance(found, Move)
        ]

    def __str__(self) -> str:
        return "\n".join(f"{state}: {', '.join(map(str, exits))}" for state, exits in enumerate(self.states))


@dataclass(frozen=True, slots=True)
class Graph(Picture):
    """The picture of one pattern or several.

    >>> from nfa import compile_program, parse_pattern
    >>> tree = parse_pattern("STRT DOWN+ UP?")
    >>> graph = Graph((diagram(compile_program(tree), str(tree)),))
    >>> print(graph)
    STRT DOWN+ UP?
    0: STRT -> 1
    1: DOWN -> 2
    2: DOWN -> 2, UP -> 3, accepting
    3: accepting
    >>> graph.to_svg()[:4]
    '<svg'
    """

    diagrams: tuple[Diagram, ...]

    def to_dot(self) -> str:
        """For Graphviz.

        >>> print(Graph((Diagram("A", ((Move("A", 1),), (Accept(),))),)).to_dot())
        digraph {
          rankdir=LR
          subgraph cluster_0 {
            label="A"
            color=none
            start_0 [shape=point]
            start_0 -> "0.0"
            "0.0" [shape=circle, label="0"]
            "0.1" [shape=doublecircle, label="1"]
            "0.0" -> "0.1" [label="A"]
          }
        }
        """
        clusters = [line for number, one in enumerate(self.diagrams) for line in _cluster(number, one)]
        return "\n".join(("digraph {", "  rankdir=LR", *clusters, "}"))

    def to_svg(self) -> str:
        """As an SVG picture, which needs nothing but a browser."""
        from nfa.svg import drawn

        return drawn(self.diagrams)

    def __str__(self) -> str:
        return "\n\n".join(f"{one.title}\n{one}" for one in self.diagrams)


def diagram(source: Program | Automaton, title: str) -> Diagram:
    """The picture of a program or an automaton; BudgetError for more than DRAWN_LIMIT states.

    >>> from nfa import compile_program, parse_pattern
    >>> print(diagram(compile_program(parse_pattern("^ (A | {- B -})+ $")), ""))
    0: ^ A -> 1, ^ {- B -} -> 1
    1: A -> 1, {- B -} -> 1, accepting at the end ($)
    """
    states = _of_automaton(source) if isinstance(source, Automaton) else _of_program(source)
    return Diagram(title, tuple(tuple(exits) for exits in states), isinstance(source, Program))


def _of_automaton(source: Automaton) -> _States:
    states: _States = [[] for _ in range(source.states)]
    for state, symbol, after in source.transitions:
        states[state].append(Move(symbol, after))
    for state in source.accepting:
        states[state].append(Accept())
    _check(len(states))
    return states


def _of_program(program: Program) -> _States:
    closures = Closures(program)
    anywhere, at_start = closures.begin(at_start=False), closures.begin(at_start=True)
    begun = (*at_start, *(number for number in anywhere if number not in at_start))
    found = _Waiting(closures)
    states = [found.exits(begun, frozenset(at_start) - {*anywhere})]
    for waiting in found.pending:  # which grows
        states.append(found.exits(waiting))
        _check(len(states))
    return _renumbered(_merged(states))


class _Waiting:
    """A state for each tuple of instructions at which a program waits; `pending` are those from 1 on, as they are met."""

    def __init__(self, closures: Closures) -> None:
        self.closures = closures
        self.numbers: dict[tuple[int, ...], int] = {}
        self.pending: list[tuple[int, ...]] = []

    def exits(self, waiting: tuple[int, ...], bound: frozenset[int] = frozenset()) -> list[Exit]:
        """Where a state goes on; the instructions `bound` are reached at the first row only."""
        found = (self._exit(number, number in bound) for number in waiting)
        return [one for one in found if one is not None]

    def _exit(self, number: int, at_start: bool) -> Exit | None:
        line = self.closures.code[number]
        if isinstance(line, MatchSymbol):
            return Move(line.name, self._state(self.closures.after(number)), line.excluded, at_start)
        return _accept(self.closures, number)

    def _state(self, waiting: tuple[int, ...]) -> int:
        if waiting not in self.numbers:
            self.numbers[waiting] = len(self.numbers) + 1  # 0 is the start, whose moves may be bound to ^
            self.pending.append(waiting)
        return self.numbers[waiting]


def _accept(closures: Closures, number: int) -> Accept | None:
    if number == closures.done:
        return Accept()
    return Accept(at_end=True) if closures.ends(number) else None


def _check(states: int) -> None:
    if states > DRAWN_LIMIT:
        raise BudgetError(f"a picture of more than {DRAWN_LIMIT} states would show nothing")


def _merged(states: _States) -> _States:
    """States that go on alike, in the same order, are one."""
    classes, count = [0] * len(states), 1
    while True:
        numbers: dict[tuple[Exit, ...], int] = {}
        classes = [numbers.setdefault(tuple(_led(exits, classes)), len(numbers)) for exits in states]
        if len(numbers) == count:
            break
        count = len(numbers)
    first = {number: states[classes.index(number)] for number in range(count)}
    return [_led(exits, classes) for exits in first.values()]


def _renumbered(states: _States) -> _States:
    """The states numbered by their distance from the start."""
    layers = layers_of([[found.target for found in exits if isinstance(found, Move)] for exits in states])
    order = sorted(range(len(states)), key=layers.__getitem__)
    numbers = [order.index(state) for state in range(len(states))]
    return [_led(states[state], numbers) for state in order]


def _led(exits: Iterable[Exit], numbers: list[int]) -> list[Exit]:
    """The exits with other numbers for the states."""
    return [replace(found, target=numbers[found.target]) if isinstance(found, Move) else found for found in exits]


def _cluster(number: int, one: Diagram) -> Iterable[str]:
    yield f"  subgraph cluster_{number} {{"
    yield f'    label="{escaped(one.title)}"'
    yield "    color=none"
    yield f"    start_{number} [shape=point]"
    yield f'    start_{number} -> "{number}.0"'
    for state in range(len(one.states)):
        accept = one.accept(state)
        shape = "circle" if accept is None else "doublecircle"
        at_end = accept is not None and accept.at_end
        yield f'    "{number}.{state}" [shape={shape}, label="{state}{" $" if at_end else ""}"]'
    for state in range(len(one.states)):
        for found, label in zip(one.moves(state), one.labels(state), strict=True):
            style = ", style=dashed" if found.excluded else ""
            yield f'    "{number}.{state}" -> "{number}.{found.target}" [label="{escaped(label)}"{style}]'
    yield "  }"
