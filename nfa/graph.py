"""Patterns as pictures: a state is what has been matched so far, an arrow takes one row.

Programs are drawn without their moves that take no row, and deterministic automata as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from nfa.automaton import Automaton
from nfa.errors import BudgetError
from nfa.pattern import Symbol
from nfa.picture import MATCH_STYLE, Picture, digraph, dot_text, flowchart, mermaid_text
from nfa.program import MatchSymbol, Program
from nfa.threads.transitions import Transitions

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
class Accepting:
    """The rows taken so far are a match; `at_end`: only if the partition ends here (`$`)."""

    at_end: bool = False

    def __str__(self) -> str:
        return "accepting at the end ($)" if self.at_end else "accepting"


Exit: TypeAlias = Move | Accepting
_States: TypeAlias = list[list[Exit]]


@dataclass(frozen=True, slots=True)
class Diagram:
    """One pattern: the exits of each state, of which 0 is the start; the most preferred exit first, if `ordered`."""

    title: str
    states: tuple[tuple[Exit, ...], ...]
    ordered: bool = True

    def moves(self, state: int) -> list[Move]:
        """The arrows that leave a state."""
        return [found for found in self.states[state] if isinstance(found, Move)]

    def accept(self, state: int) -> Accepting | None:
        """The way in which a state is a match; None if it is none."""
        accepts = [found for found in self.states[state] if isinstance(found, Accepting)]
        return min(accepts, key=lambda found: found.at_end, default=None)

    def labels(self, state: int) -> list[str]:
        """The label of each arrow: its symbol, after its place in the order of preference if there is a choice."""
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
    """

    diagrams: tuple[Diagram, ...]

    def to_dot(self) -> str:
        """Returns the graph in Graphviz's language.

        >>> print(Graph((Diagram("A", ((Move("A", 1),), (Accepting(),))),)).to_dot())  # doctest: +ELLIPSIS
        digraph {
          rankdir=LR
          ...
          subgraph cluster_0 {
            label="A"
            peripheries=0
            start_0 [shape=point, style=invis]
            start_0 -> "0.0"
            "0.0" [shape=circle, label="0"]
            "0.1" [shape=doublecircle, label="1", color="#047857", fillcolor="#ecfdf5"]
            "0.0" -> "0.1" [label="A"]
          }
        }
        """
        clusters = [list(_dot_cluster(number, one)) for number, one in enumerate(self.diagrams)]
        return digraph([line for cluster in reversed(clusters) for line in cluster])  # Graphviz stacks them upwards

    def to_mermaid(self) -> str:
        """Returns the graph in Mermaid's language.

        >>> print(Graph((Diagram("A", ((Move("A", 1),), (Accepting(),))),)).to_mermaid())
        flowchart LR
          subgraph pattern0["A"]
            direction LR
            start0[ ]:::start --> s0_0
            s0_0(("0"))
            s0_1((("1")))
            s0_0 -->|"A"| s0_1
          end
          classDef start fill:none,stroke:none
        """
        parts = [line for number, one in enumerate(self.diagrams) for line in _mermaid_subgraph(number, one)]
        return flowchart([*parts, "classDef start fill:none,stroke:none"])

    def __str__(self) -> str:
        return "\n\n".join(f"{one.title}\n{one}" for one in self.diagrams)


def diagram(source: Program | Automaton, title: str) -> Diagram:
    """The picture of a program or an automaton. Raises BudgetError for more than DRAWN_LIMIT states.

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
        states[state].append(Accepting())
    _check(len(states))
    return states


def _of_program(program: Program) -> _States:
    transitions = Transitions(program)
    anywhere, at_start = transitions.begin(at_start=False), transitions.begin(at_start=True)
    begun = (*at_start, *(number for number in anywhere if number not in at_start))
    found = _WaitStates(transitions)
    states = [found.exits(begun, frozenset(at_start) - {*anywhere})]
    for waiting in found.pending:  # the loop appends to it
        states.append(found.exits(waiting))
        _check(len(states))
    return _renumbered(_merged(states))


class _WaitStates:
    """A state for each tuple of instructions at which a program waits.

    `pending` has those from 1 on, as they are found.
    """

    def __init__(self, transitions: Transitions) -> None:
        self.transitions = transitions
        self.numbers: dict[tuple[int, ...], int] = {}
        self.pending: list[tuple[int, ...]] = []

    def exits(self, waiting: tuple[int, ...], bound: frozenset[int] = frozenset()) -> list[Exit]:
        """The exits of a state; the instructions `bound` are reached at the first row only."""
        found = (self._exit(number, number in bound) for number in waiting)
        return [one for one in found if one is not None]

    def _exit(self, number: int, at_start: bool) -> Exit | None:
        line = self.transitions.code[number]
        if isinstance(line, MatchSymbol):
            return Move(line.name, self._state(self.transitions.after(number)), line.excluded, at_start)
        return _accept(self.transitions, number)

    def _state(self, waiting: tuple[int, ...]) -> int:
        if waiting not in self.numbers:
            self.numbers[waiting] = len(self.numbers) + 1  # 0 is the start, whose moves may be bound to ^
            self.pending.append(waiting)
        return self.numbers[waiting]


def _accept(transitions: Transitions, number: int) -> Accepting | None:
    if number == transitions.done:
        return Accepting()
    return Accepting(at_end=True) if transitions.ends(number) else None


def _check(states: int) -> None:
    if states > DRAWN_LIMIT:
        raise BudgetError(f"a picture of more than {DRAWN_LIMIT} states would show nothing")


def _merged(states: _States) -> _States:
    """Merges states that have the same exits in the same order."""
    classes, count = [0] * len(states), 1
    while True:
        numbers: dict[tuple[Exit, ...], int] = {}
        classes = [numbers.setdefault(tuple(_with_targets(exits, classes)), len(numbers)) for exits in states]
        if len(numbers) == count:
            break
        count = len(numbers)
    first = {number: states[classes.index(number)] for number in range(count)}
    return [_with_targets(exits, classes) for exits in first.values()]


def _renumbered(states: _States) -> _States:
    """The states numbered by their distance from the start."""
    distances = distances_from_start([[found.target for found in exits if isinstance(found, Move)] for exits in states])
    order = sorted(range(len(states)), key=distances.__getitem__)
    numbers = [order.index(state) for state in range(len(states))]
    return [_with_targets(states[state], numbers) for state in order]


def _with_targets(exits: Iterable[Exit], numbers: list[int]) -> list[Exit]:
    """The exits with the new numbers of the states."""
    return [replace(found, target=numbers[found.target]) if isinstance(found, Move) else found for found in exits]


def distances_from_start(targets: Sequence[Sequence[int]]) -> list[int]:
    """For each state the longest way to it from state 0, over arrows that do not lead back.

    >>> distances_from_start([[1, 2], [2, 0], []])
    [0, 1, 2]
    """
    order, forward = _depth_first(targets)
    distances = [0] * len(targets)
    for state in order:
        for target in forward[state]:
            distances[target] = max(distances[target], distances[state] + 1)
    return distances


def _depth_first(targets: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The states, each before its targets, and for each state its targets without those that lead back."""
    forward: list[list[int]] = [[] for _ in targets]
    finished: list[int] = []
    entered, under_way = {0}, {0}
    pending = [(0, iter(targets[0]))]
    while pending:
        state, rest = pending[-1]
        target = next(rest, None)
        if target is None:
            finished.append(state)
            under_way.discard(state)
            pending.pop()
            continue
        if target not in under_way:
            forward[state].append(target)
        if target not in entered:
            entered.add(target)
            under_way.add(target)
            pending.append((target, iter(targets[target])))
    return finished[::-1], forward


# Statements of the languages of graphs --------------------------------------------------------------------------------


def _dot_cluster(number: int, one: Diagram) -> Iterator[str]:
    yield f"subgraph cluster_{number} {{"
    yield f"  label={dot_text(one.title)}"
    yield "  peripheries=0"
    yield f"  start_{number} [shape=point, style=invis]"
    yield f'  start_{number} -> "{number}.0"'
    for state in range(len(one.states)):
        yield f'  "{number}.{state}" [{_dot_state(state, one.accept(state))}]'
    for state, target, labels, excluded in _arrows(one):
        style = ", style=dashed" if excluded else ""
        yield f'  "{number}.{state}" -> "{number}.{target}" [label={dot_text(chr(10).join(labels))}{style}]'
    yield "}"


def _dot_state(state: int, accept: Accepting | None) -> str:
    if accept is None:
        return f'shape=circle, label="{state}"'
    if accept.at_end:
        return f'shape=doublecircle, label="{state} $", {MATCH_STYLE}, style="filled,dashed"'
    return f'shape=doublecircle, label="{state}", {MATCH_STYLE}'


def _mermaid_subgraph(number: int, one: Diagram) -> Iterator[str]:
    yield f"subgraph pattern{number}[{mermaid_text(one.title or ' ')}]"
    yield "  direction LR"
    yield f"  start{number}[ ]:::start --> s{number}_0"
    for state in range(len(one.states)):
        accept = one.accept(state)
        label = f'"{state} $"' if accept is not None and accept.at_end else f'"{state}"'
        yield f"  s{number}_{state}" + (f"(({label}))" if accept is None else f"((({label})))")
    for state, target, labels, excluded in _arrows(one):
        arrow = "-.->" if excluded else "-->"
        yield f"  s{number}_{state} {arrow}|{mermaid_text(', '.join(labels))}| s{number}_{target}"
    yield "end"


def _arrows(one: Diagram) -> Iterator[tuple[int, int, list[str], bool]]:
    """For each two states with moves between them: both, the moves' labels, and whether all are left out of the output."""
    for state in range(len(one.states)):
        moves: dict[int, list[tuple[Move, str]]] = {}
        for found, label in zip(one.moves(state), one.labels(state), strict=True):
            moves.setdefault(found.target, []).append((found, label))
        for target, several in moves.items():
            yield state, target, [label for _, label in several], all(found.excluded for found, _ in several)
