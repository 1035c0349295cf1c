"""Turns conditions on earlier rows of the match, at known distances, into conditions on the row alone.

In `A+ B` the row of LAST(A.v) is the one before B's. In `A B+` the row of LAST(B.v, 1) is the previous row, or does not
exist yet. So the pattern is expanded: each instruction is copied for each combination of distances with which it can be
reached, and the condition of the copy reads rows of the partition with PREV. Any strategy for such conditions can run
it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from sqlglot import exp

from bridge.patterns.conditions import Condition, Grade, conjoined
from bridge.patterns.strategies import registers_code as registers_code
from bridge.patterns.strategies.registers_code import Slot, Slots
from bridge.patterns.task import MOST_SYMBOLS, Task
from bridge.patterns.values import CURRENT, Atom, Classifier, MatchExpression, Value, shift_of, shifted
from bridge.query.row_pattern import RowPattern
from nfa.arrays.matches import Matches
from nfa.match import PatternMatch
from nfa.program import (
    Accept,
    AnchorEnd,
    AnchorStart,
    Instruction,
    IterationEnd,
    IterationStart,
    Jump,
    MatchSymbol,
    Program,
    Split,
)
from nfa.skip import Skip
from windows.sql import column, conjuncts

FARTHEST = 32
"""The greatest distance of a row."""

MOST_NODES = 2_000
"""The greatest number of copies of instructions."""


class KnownRow(NamedTuple):
    """A row that conditions read: its distance before the next row, and its symbol.

    Each only if a condition needs it.
    """

    behind: int = 0
    symbol: str = ""


Known: TypeAlias = tuple[tuple[Slot, KnownRow | None], ...]
"""The rows of the slots that can be read at an instruction or later; None: there is no such row yet."""

Rows: TypeAlias = dict[Slot, KnownRow | None]

NO_ITERATIONS: frozenset[int] = frozenset()

Node: TypeAlias = tuple[int, Known, frozenset[int]]
"""An instruction with the rows known there, and the iterations that have not taken a row yet."""


@dataclasses.dataclass(frozen=True)
class ExpandedPattern:
    """The expanded pattern: its program, its conditions, and for each instruction the original instruction."""

    program: Program
    conditions: tuple[Condition, ...]
    origin: tuple[int, ...]

    @property
    def grade(self) -> Grade:
        return max(condition.grade for condition in self.conditions)

    def task(self, task: Task) -> Task:
        """The task with this pattern."""
        derived = dataclasses.replace(task, conditions=self.conditions, program=self.program)
        derived.skip = _renaming(task)
        return derived

    def original(self, found: Matches) -> Matches:
        """The matches, with codes of the original pattern."""
        return Matches(found.starts, found.lengths, np.array(self.origin, np.int32)[found.codes])


def expand(task: Task) -> ExpandedPattern | None:
    """The expanded pattern of a task; None if a condition reads a row at an unknown distance."""
    atoms = [atom for c in task.conditions if c.rest is not None for atom in c.rest.atoms]
    if not all(_known(atom) for atom in atoms):
        return None
    try:
        return _Expander(task).expand()
    except _NotExpandable:
        return None


class _NotExpandable(Exception):
    """Raised if a row's distance is not bounded, or too many rows are needed."""


def _known(atom: Atom) -> bool:
    if isinstance(atom, Classifier):
        label = registers_code.plain(atom)
        return not label.shift and label.place.offset >= 0
    return isinstance(atom, Value)


def _renaming(task: Task) -> Skip:
    """AFTER MATCH SKIP, by the symbols of the original pattern."""
    own = task.skip
    if task.clause.skip.variable is None:
        return own

    def skip(match: PatternMatch) -> int:
        members = tuple(member._replace(symbol=_own(member.symbol)) for member in match.memberships)
        return own(dataclasses.replace(match, memberships=members))

    return skip


def _named(symbol: str, number: int) -> str:
    return f"{symbol}\0{number}"


def _own(name: str) -> str:
    return name.partition("\0")[0]


class _Expander:
    """Expands a program. A node is an instruction together with the rows that are known there."""

    def __init__(self, task: Task) -> None:
        self.clause, self.code = task.clause, task.program.instructions
        self.condition = {c.symbol: c for c in task.conditions}
        self.read = registers_code.reads(task.conditions, task.clause)
        self.live = registers_code.live(self.code, self.read)
        self.slots: Slots = frozenset().union(*self.read.values(), *self.live)
        atoms = [atom for c in task.conditions if c.rest is not None for atom in c.rest.atoms]
        self.far = self._families(atoms, Value)
        self.labelled = self._families(atoms, Classifier)
        self.expanded: dict[tuple[str, tuple[KnownRow | None, ...]], Condition] = {}

    def _families(self, atoms: Sequence[Atom], kind: type) -> set[tuple[object, bool]]:
        slots = [registers_code.slot_of(atom, self.clause) for atom in atoms if isinstance(atom, kind)]
        return {(slot.symbols, slot.first) for slot in slots if slot is not None}

    def expand(self) -> ExpandedPattern:
        nodes = self.nodes()
        # Each has two places: the instruction, and the jump to the next one.
        place = {node: 2 * number for number, node in enumerate(nodes)}
        lines: list[Instruction] = []
        for node, after in nodes.items():
            lines += self.lines(node, [place[there] for there in after])
        origin = [number for number, _, _ in nodes for _ in range(2)][: len(lines)]
        return ExpandedPattern(Program(tuple(lines)), tuple(self.expanded.values()), tuple(origin))

    def lines(self, node: Node, after: list[int]) -> list[Instruction]:
        number, known, _ = node
        line = self.code[number]
        match line:
            case Accept():
                return [line]
            case Split():
                return [Split(*after), Jump(after[0])]
            case MatchSymbol(name, excluded):
                return [MatchSymbol(self.condition_for(name, dict(known)).symbol, excluded), Jump(after[0])]
            case AnchorStart() | AnchorEnd():
                return [line, Jump(after[0])]
        return [Jump(after[0]), Jump(after[0])]

    def nodes(self) -> dict[Node, tuple[Node, ...]]:
        """Every reachable node with its successors; the last one is the end of the program."""
        done = self.node(len(self.code) - 1, {}, NO_ITERATIONS)
        found: dict[Node, tuple[Node, ...]] = {}
        pending = [self.node(0, {}, NO_ITERATIONS)]
        while pending:
            node = pending.pop()
            if node not in found and node != done:
                found[node] = self.following(node)
                pending += reversed(found[node])
            if len(found) > MOST_NODES or len(self.expanded) > MOST_SYMBOLS:
                raise _NotExpandable
        return {**found, done: ()}

    def following(self, node: Node) -> tuple[Node, ...]:
        number, known, empty = node
        rows = dict(known)
        match line := self.code[number]:
            case MatchSymbol(name):
                self.condition_for(name, rows)
                return (self.node(number + 1, self.rows(name, rows, by=1), NO_ITERATIONS),)
            case IterationStart():
                return (self.node(number + 1, rows, empty | {number}),)
            case IterationEnd(start, leave):
                return (self.node(leave if start in empty else number + 1, rows, empty - {start}),)
        return tuple(self.node(there, rows, empty) for there in registers_code.onward(line, number))

    def node(self, number: int, rows: Rows, empty: frozenset[int]) -> Node:
        """The node of an instruction, with the known rows that matter there."""
        known = tuple((slot, rows.get(slot)) for slot in sorted(self.live[number], key=repr))
        if any(row is not None and row.behind > FARTHEST for _, row in known):
            raise _NotExpandable
        waits = isinstance(self.code[number], MatchSymbol | AnchorEnd | Accept)
        return number, known, NO_ITERATIONS if waits else empty

    def rows(self, symbol: str, rows: Rows, by: int) -> Rows:
        """The known rows after one more row, as seen from that row (0) or from the next row (1)."""
        return {slot: self.row(slot, symbol, rows, by) for slot in self.slots}

    def row(self, slot: Slot, symbol: str, rows: Rows, by: int) -> KnownRow | None:
        family = (slot.symbols, slot.first)
        by = by if family in self.far else 0
        source = slot if slot.first or not slot.takes(symbol) else slot.nearer
        if slot.takes(symbol) and _is_new(slot, rows):
            return KnownRow(by, symbol if family in self.labelled else "")
        row = None if source is None else rows.get(source)
        return None if row is None else KnownRow(row.behind + by, row.symbol)

    def condition_for(self, symbol: str, rows: Rows) -> Condition:
        """The condition of a symbol if these rows are known, under a name of its own."""
        seen = self.rows(symbol, rows, by=0)
        key = symbol, tuple(seen[slot] for slot in sorted(self.read[symbol], key=repr))
        if key not in self.expanded:
            name = _named(symbol, len(self.expanded))
            self.expanded[key] = _ConditionExpander(self.condition[symbol], self.clause, seen).expanded(name)
        return self.expanded[key]


def _is_new(slot: Slot, rows: Rows) -> bool:
    """Whether the slot is the newest of its rows."""
    if slot.first:
        return rows.get(slot) is None and (slot.nearer is None or rows.get(slot.nearer) is not None)
    return slot.place == 0


@dataclasses.dataclass
class _ConditionExpander:
    """Rewrites a condition whose rows are at known distances."""

    condition: Condition
    clause: RowPattern
    seen: Rows

    def expanded(self, name: str) -> Condition:
        rest = self.condition.rest
        if rest is None:
            return dataclasses.replace(self.condition, symbol=name)
        atoms = {f"_v{number}": self.atom(atom) for number, atom in enumerate(rest.atoms)}
        parts = conjuncts(rest.expression)
        alone = [part for part in parts if all(is_current(atoms[name]) for name in _names(part))]
        others = [part for part in parts if part not in alone]
        rows = [_over_row(part, atoms) for part in alone]
        row = conjoined([*([self.condition.row] if self.condition.row is not None else []), *rows])
        left = conjoined(others)
        if left is None:
            return Condition(name, row, None, Grade.ROW)
        return Condition(name, row, _valued(left, atoms), Grade.START)

    def atom(self, atom: Atom) -> Atom:
        """The atom as a value of the current row, unless it is at a known distance from the first row."""
        slot = registers_code.slot_of(atom, self.clause)
        if slot is None:
            return atom
        row = self.seen[slot]
        if isinstance(atom, Classifier):
            return Value(CURRENT, exp.cast(exp.null(), "TEXT") if row is None else exp.Literal.string(row.symbol))
        assert isinstance(atom, Value)
        if row is None:
            return Value(CURRENT, exp.Case().when(exp.false(), atom.row.copy()))
        return Value(CURRENT, _behind(atom.row, row.behind))


def is_current(atom: Atom) -> bool:
    return isinstance(atom, Value) and atom.place == CURRENT


def _names(part: exp.Expr) -> list[str]:
    return [found.name for found in part.find_all(exp.Column)]


def _over_row(part: exp.Expr, atoms: Mapping[str, Atom]) -> exp.Expr:
    """The expression over the row alone, with the row expressions in place of the atoms."""

    def row(node: exp.Expr) -> exp.Expr:
        atom = atoms[node.name] if isinstance(node, exp.Column) else None
        return exp.Paren(this=atom.row.copy()) if isinstance(atom, Value) else node

    return part.transform(row)


def _valued(expression: exp.Expr, atoms: Mapping[str, Atom]) -> MatchExpression:
    """The expression, with only those atoms that it reads."""
    read = list(dict.fromkeys(atoms[name] for name in _names(expression)))

    def named(node: exp.Expr) -> exp.Expr:
        return column(f"_v{read.index(atoms[node.name])}") if isinstance(node, exp.Column) else node

    return MatchExpression(expression.transform(named), tuple(read))


def _behind(row: exp.Expr, by: int) -> exp.Expr:
    """A row expression, rewritten over the row `by` rows later."""
    if all(shift_of(node) is None for node in row.walk()):
        return shifted(row.copy(), -by) if by else row

    def moved(node: exp.Expr) -> exp.Expr:
        to = shift_of(node)
        if to is not None:
            return shifted(node.expressions[0], to - by)
        return shifted(node, -by) if isinstance(node, exp.Column) else node

    return row.transform(moved) if by else row
