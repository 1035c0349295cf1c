"""A deterministic automaton over symbols, for patterns whose every way to match counts (the paper's MATCHING, P1).

Quantifiers have no preference there: greedy and reluctant are the same, and two derivations that bind the same rows
to the same symbols are one match, because a word over symbols has one way through the automaton.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from nfa.errors import BudgetError, PatternError
from nfa.pattern import Anchor, Exclusion, Pattern, Symbol, symbols, walk
from nfa.picture import dot_text
from nfa.program import Accept, Instruction, IterationEnd, Jump, MatchSymbol, Split, compile_program

STATE_LIMIT = 10_000
"""The most states before minimization."""

SUBSET_LIMIT = 2_000_000
"""The most places in the program that all these states may stand for together."""

Transition: TypeAlias = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class Automaton:
    """States are numbered from 0, the start; every state reaches an accepting one, and no two states are alike.

    `symbols` stand in order of first appearance in the pattern; `transitions` are `(state, symbol, next state)`,
    sorted by state and then by that order, at most one for a state and symbol.

    >>> from nfa import parse_pattern
    >>> print(compile_automaton(parse_pattern("A B* C")))
    0: A -> 1
    1: B -> 1, C -> 2
    2: accepting
    """

    symbols: tuple[str, ...]
    transitions: tuple[Transition, ...]
    accepting: frozenset[int]

    @property
    def states(self) -> int:
        """The number of states."""
        return 1 + max([*self.accepting, *(state for state, _, _ in self.transitions)])

    def accepts(self, word: Iterable[str]) -> bool:
        """Whether rows bound to these symbols, in this order, are a match."""
        moves = {(state, symbol): after for state, symbol, after in self.transitions}
        state: int | None = 0
        for symbol in word:
            state = None if state is None else moves.get((state, symbol))
        return state in self.accepting

    def to_dot(self) -> str:
        """The automaton as a Graphviz graph.

        >>> from nfa import parse_pattern
        >>> print(compile_automaton(parse_pattern("A")).to_dot())
        digraph {
          rankdir=LR
          start [shape=point]
          start -> 0
          0 [shape=circle]
          1 [shape=doublecircle]
          0 -> 1 [label="A"]
        }
        """
        shapes = (f"{state} [shape={self._shape(state)}]" for state in range(self.states))
        arrows = (f"{state} -> {after} [label={dot_text(symbol)}]" for state, symbol, after in self.transitions)
        lines = ("rankdir=LR", "start [shape=point]", "start -> 0", *shapes, *arrows)
        return "\n".join(("digraph {", *(f"  {line}" for line in lines), "}"))

    def __str__(self) -> str:
        return "\n".join(f"{state}: {self._state_line(state)}" for state in range(self.states))

    def _shape(self, state: int) -> str:
        return "doublecircle" if state in self.accepting else "circle"

    def _state_line(self, state: int) -> str:
        moves = [f"{Symbol(symbol)} -> {after}" for before, symbol, after in self.transitions if before == state]
        return ", ".join([*moves, *(["accepting"] if state in self.accepting else [])])


def compile_automaton(tree: Pattern) -> Automaton:
    """The minimal automaton that accepts the symbol sequences of the pattern; PERMUTE and bounds are written out.

    Raises PatternError for anchors and exclusions, which the paper's MATCHING does not have, and BudgetError for
    more than STATE_LIMIT states.
    """
    _refuse(tree)
    order = symbols(tree)
    moves, accepting = _subsets(compile_program(tree).instructions, order)
    return _numbered(order, moves, accepting, _classes(moves, accepting))


# For each state, the next state by symbol.
_Moves: TypeAlias = list[dict[str, int]]


def _refuse(tree: Pattern) -> None:
    for node in walk(tree):
        if isinstance(node, Anchor | Exclusion):
            what = "an anchor" if isinstance(node, Anchor) else "an exclusion"
            raise PatternError(f"{what} ({node}) has no meaning where every way to match is reported")


def _subsets(code: tuple[Instruction, ...], order: tuple[str, ...]) -> tuple[_Moves, set[int]]:
    # Every place in the program leads to its end (there are no anchors), so there are no dead states to trim.
    numbers = {_reach(code, [0]): 0}
    pending = list(numbers)
    moves: _Moves = []
    places = 0
    for subset in pending:
        places += len(subset)
        _check_budget(len(numbers), places)
        moves.append({})
        for symbol, taken in _transitions(code, subset, order):
            after = _reach(code, taken)
            if after not in numbers:
                numbers[after] = len(numbers)
                pending.append(after)
            moves[-1][symbol] = numbers[after]
    return moves, {number for subset, number in numbers.items() if len(code) - 1 in subset}


def _check_budget(states: int, places: int) -> None:
    if states > STATE_LIMIT:
        raise BudgetError(f"the pattern's automaton needs more than {STATE_LIMIT} states")
    if places > SUBSET_LIMIT:
        raise BudgetError(f"the states of the pattern's automaton stand for more than {SUBSET_LIMIT} places")


def _transitions(
    code: tuple[Instruction, ...], subset: frozenset[int], order: tuple[str, ...]
) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {symbol: [] for symbol in order}
    for number in subset:
        line = code[number]
        if isinstance(line, MatchSymbol):
            found[line.name].append(number + 1)
    return [(symbol, after) for symbol, after in found.items() if after]


def _reach(code: tuple[Instruction, ...], numbers: list[int]) -> frozenset[int]:
    visited: set[int] = set()
    pending = list(numbers)
    while pending:
        number = pending.pop()
        if number not in visited:
            visited.add(number)
            pending += _onward(code[number], number)
    return frozenset(number for number in visited if isinstance(code[number], MatchSymbol | Accept))


def _onward(line: Instruction, number: int) -> tuple[int, ...]:
    match line:
        case MatchSymbol() | Accept():
            return ()
        case Jump(target):
            return (target,)
        case Split(first, second):
            return first, second
        case IterationEnd(exit=leave):
            # Whether the iteration was empty matters to the order of preference alone.
            return leave, number + 1
    return (number + 1,)


def _classes(moves: _Moves, accepting: set[int]) -> list[int]:
    """For each state the number of its class of equal states, in order of first state (Hopcroft's refinement)."""
    blocks = [block for block in (set(range(len(moves))) - accepting, set(accepting)) if block]
    block_of = [int(len(blocks) > 1 and state in accepting) for state in range(len(moves))]
    sources = _sources(moves)
    pending = list(range(len(blocks)))
    while pending:
        for leading in _leading_to(blocks[pending.pop()], sources):
            for block in {block_of[state] for state in leading}:
                _cut(blocks, block_of, pending, block, leading)
    numbers: dict[int, int] = {}
    return [numbers.setdefault(block, len(numbers)) for block in block_of]


def _sources(moves: _Moves) -> list[list[tuple[str, int]]]:
    found: list[list[tuple[str, int]]] = [[] for _ in moves]
    for state, leads in enumerate(moves):
        for symbol, after in leads.items():
            found[after].append((symbol, state))
    return found


def _leading_to(block: set[int], sources: list[list[tuple[str, int]]]) -> list[set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for after in block:
        for symbol, state in sources[after]:
            found[symbol].add(state)
    return list(found.values())


def _cut(blocks: list[set[int]], block_of: list[int], pending: list[int], block: int, leading: set[int]) -> None:
    whole = blocks[block]
    inside = whole & leading
    # The larger part keeps the number, and with it a place in `pending` if the block still has one.
    smaller = inside if 2 * len(inside) <= len(whole) else whole - inside
    if smaller:
        whole -= smaller
        for state in smaller:
            block_of[state] = len(blocks)
        pending.append(len(blocks))
        blocks.append(smaller)


def _numbered(order: tuple[str, ...], moves: _Moves, accepting: set[int], classes: list[int]) -> Automaton:
    first: dict[int, int] = {}
    for state, group in enumerate(classes):
        first.setdefault(group, state)
    found = [
        (group, symbol, classes[moves[state][symbol]])
        for group, state in first.items()
        for symbol in order
        if symbol in moves[state]
    ]
    return Automaton(order, tuple(found), frozenset(classes[state] for state in accepting))
