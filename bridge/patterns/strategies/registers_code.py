"""The registers that the generated search has for conditions, and the Python that reads and updates them.

The current row is `row`, the first row of the match `start`. A slot is a local with a row number (-1: none); an
aggregate is a local with its sum (None: of nothing) and one with its count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from bridge.patterns.conditions import Condition, distance
from bridge.patterns.evaluate.python import truth
from bridge.patterns.values import CURRENT, Atom, Classifier, MatchAggregate, MatchNumber, Place, Value
from bridge.query.row_pattern import RowPattern
from nfa.program import Accept, Instruction, IterationEnd, Jump, MatchSymbol, Split
from windows.aggregates import AggregateFunction


class Slot(NamedTuple):
    """A remembered row: the `place`-th oldest or newest of the rows that match one of the symbols (None: any)."""

    symbols: tuple[str, ...] | None
    first: bool
    place: int

    def takes(self, symbol: str) -> bool:
        """Whether a row that matches this symbol is counted."""
        return self.symbols is None or symbol in self.symbols

    @property
    def nearer(self) -> Slot | None:
        """The previous row in the order in which rows are counted; None for the first."""
        return self._replace(place=self.place - 1) if self.place else None


Slots: TypeAlias = frozenset[Slot]


def plain(label: Classifier) -> Classifier:
    """CLASSIFIER() at a distance from the newest row of any symbol is that of another newest row."""
    place = label.place
    if place.symbols is not None or place.first or not label.shift:
        return label
    return Classifier(Place(None, False, place.offset - label.shift))


def slot_of(atom: Atom, clause: RowPattern) -> Slot | None:
    """The slot that a value or label reads; None for the current row and rows at a known distance from the first."""
    if isinstance(atom, Classifier):
        place = plain(atom).place
    elif isinstance(atom, Value) and atom.place != CURRENT and distance(atom.place, clause) is None:
        place = atom.place
    else:
        return None
    return Slot(place.symbols, place.first, place.offset)


def reads(conditions: Iterable[Condition], clause: RowPattern) -> dict[str, Slots]:
    """The slots that each symbol's condition reads."""
    return {
        c.symbol: frozenset(s for a in c.rest.atoms if (s := slot_of(a, clause)) is not None) if c.rest else frozenset()
        for c in conditions
    }


def before(symbol: str, after: Slots) -> Slots:
    """The slots that must be known before a row is taken as a symbol, so that these are known afterwards."""
    found = set()
    for slot in after:
        if slot.first:
            # Whether this row is the one depends on the number of earlier ones.
            found |= {slot._replace(place=place) for place in range(slot.place + 1)}
        elif not slot.takes(symbol):
            found.add(slot)
        elif slot.place:
            found.add(slot._replace(place=slot.place - 1))
    return frozenset(found)


def live(code: tuple[Instruction, ...], read: Mapping[str, Slots]) -> list[Slots]:
    """For each instruction, the slots whose rows may still be read at it or later."""
    found: list[Slots] = [frozenset()] * len(code)
    changed = True
    while changed:
        changed = False
        for number in range(len(code) - 1, -1, -1):
            wanted = _needed_slots(code, number, found, read)
            changed |= wanted != found[number]
            found[number] = wanted
    return found


def _needed_slots(code: tuple[Instruction, ...], number: int, found: list[Slots], read: Mapping[str, Slots]) -> Slots:
    line = code[number]
    after = frozenset[Slot]().union(*(found[there] for there in onward(line, number)))
    return before(line.name, after | read[line.name]) if isinstance(line, MatchSymbol) else after


def onward(line: Instruction, number: int) -> tuple[int, ...]:
    """The instructions that can come next."""
    match line:
        case Accept():
            return ()
        case Jump(target):
            return (target,)
        case Split(one, other):
            return one, other
        case IterationEnd(exit=leave):
            return leave, number + 1
    return (number + 1,)


START = "start"
"""The first row of a match.

Other registers that are texts: values that must be equal for two paths to continue alike.
"""


class UnknownExpression(Exception):
    """An expression that the generated search cannot compute."""


@dataclasses.dataclass(frozen=True)
class RunningTotal:
    """A running aggregate: the rows that it takes, and its locals."""

    aggregate: AggregateFunction
    argument: exp.Expr | None
    symbols: tuple[str, ...] | None

    def takes(self, symbol: str) -> bool:
        return self.symbols is None or symbol in self.symbols

    @property
    def is_count(self) -> bool:
        return self.aggregate.function is exp.Count

    @property
    def is_mean(self) -> bool:
        return self.aggregate.running is not None and self.aggregate.running.is_mean

    def joined(self, total: str, value: str) -> str:
        """Python that combines the value so far with the value of a row."""
        assert self.aggregate.running is not None
        return self.aggregate.running.text.format(total, value)


Register: TypeAlias = Slot | RunningTotal | str


@dataclasses.dataclass(frozen=True)
class ConditionCode:
    """A condition in Python: preceding lines, an expression, and the registers that it reads."""

    lines: tuple[str, ...]
    holds: str
    reads: frozenset[Register]
    labels: bool = False


class RegisterCode:
    """The locals for registers, and the names for columns."""

    def __init__(self, clause: RowPattern) -> None:
        self.clause = clause
        self.columns: dict[exp.Expr, str] = {}
        self.names: dict[Register, str] = {}
        self.labelled: set[tuple[tuple[str, ...] | None, bool]] = set()

    def name(self, register: Register) -> str:
        """The local of a register."""
        if isinstance(register, str):
            return register
        return self.names.setdefault(register, f"r{len(self.names)}")

    def locals(self, register: Register) -> list[str]:
        """All locals of a register; an average has a count beside its sum."""
        name = self.name(register)
        return [name, f"{name}n"] if isinstance(register, RunningTotal) and register.is_mean else [name]

    def column(self, row: exp.Expr) -> str:
        return self.columns.setdefault(row, f"c{len(self.columns)}")

    def condition(self, condition: Condition) -> ConditionCode:
        """The part of a symbol's condition over the match, with the current row taken as that symbol."""
        if condition.rest is None:
            return ConditionCode((), "", frozenset())
        lines: list[str] = []
        reads: set[Register] = set()
        for number, atom in enumerate(condition.rest.atoms):
            lines += self.atom(f"_v{number}", atom, condition.symbol, reads)
        names = {f"_v{number}" for number in range(len(condition.rest.atoms))}
        holds = truth(condition.rest.expression, names)
        if holds is None:
            raise UnknownExpression
        labels = any(isinstance(atom, Classifier) for atom in condition.rest.atoms)
        return ConditionCode(tuple(lines), holds, frozenset(reads), labels)

    def atom(self, name: str, atom: Atom, symbol: str, reads: set[Register]) -> list[str]:
        """The lines that set a local to the value of an atom."""
        if isinstance(atom, MatchNumber):
            return [f"{name} = number"]
        if isinstance(atom, MatchAggregate):
            return self.total(name, atom, symbol, reads)
        if isinstance(atom, Classifier):
            return self.label(name, plain(atom), symbol, reads)
        values = self.column(atom.row)
        if atom.place == CURRENT:
            return [f"{name} = {values}[row]"]
        known = distance(atom.place, self.clause)
        if known is not None:
            reads.add(START)
            later = f"{values}[start + {known}]"
            return [f"{name} = {later} if start + {known} <= row else None" if known else f"{name} = {values}[start]"]
        # The last value of a column, at index -1, is NULL.
        return [f"{name} = {values}[{self.row(slot_of(atom, self.clause), symbol, reads)}]"]

    def label(self, name: str, label: Classifier, symbol: str, reads: set[Register]) -> list[str]:
        slot = slot_of(label, self.clause)
        assert slot is not None
        # The possible symbols of the rows that it can read; with a shift, all symbols of the path.
        if label.shift:
            reads.add("bytes(code[start:row])")
        elif slot.symbols is None and slot.first:
            reads.add(f"bytes(code[start:min(row, start + {slot.place + 1})])")
        elif slot.symbols is None and slot.place > 0:
            reads.add(f"bytes(code[max(start, row - {slot.place}):row])")
        elif slot.symbols is not None:
            self.labelled.add((slot.symbols, slot.first))
        lines = [f"at = {self.row(slot, symbol, reads)}"]
        if not label.shift:
            return [*lines, f"{name} = names[code[at]] if at >= 0 else None"]
        there = f"at + {label.shift}"
        return [*lines, f"{name} = names[code[{there}]] if at >= 0 and start <= {there} <= row else None"]

    def key(self, registers: Sequence[Register]) -> list[str]:
        """The values that must be equal for two branches of the search to continue alike."""
        found = [name for register in registers for name in self.locals(register)]
        slots = [r for r in registers if isinstance(r, Slot) and (r.symbols, r.first) in self.labelled]
        return [*found, *(f"code[{self.name(slot)}]" for slot in slots)]

    def row(self, slot: Slot | None, symbol: str, reads: set[Register]) -> str:
        """The row of a slot, with the current row taken as a symbol; -1 if there is none."""
        assert slot is not None
        if slot.symbols is None:
            if slot.place < 0:
                return "-1"
            if slot.first:
                reads.add(START)
                return f"(start + {slot.place} if start + {slot.place} <= row else -1)"
            if slot.place == 0:
                return "row"
            reads.add(f"min(row - start, {slot.place})")
            return f"(row - {slot.place} if row - {slot.place} >= start else -1)"
        reads |= before(symbol, frozenset([slot]))
        if not slot.takes(symbol):
            return self.name(slot)
        nearer = slot.nearer
        if not slot.first:
            return self.name(nearer) if nearer else "row"
        now = "row" if nearer is None else f"(row if {self.name(nearer)} >= 0 else -1)"
        return f"({self.name(slot)} if {self.name(slot)} >= 0 else {now})"

    def total(self, name: str, aggregate: MatchAggregate, symbol: str, reads: set[Register]) -> list[str]:
        total = total_of(aggregate)
        if total.is_count and total.argument is None and total.symbols is None:
            reads.add(START)
            return [f"{name} = row - start + 1"]
        reads.add(total)
        local = f"n{self.name(total)}" if total.takes(symbol) else self.name(total)
        if total.is_mean:
            return [*self.renewed(total, symbol), f"{name} = float({local}) / {local}n if {local}n else None"]
        return [*self.renewed(total, symbol), f"{name} = {local}"]

    def renewed(self, total: RunningTotal, symbol: str) -> list[str]:
        """The lines that set `n...` to the aggregate including the current row, if that is one of its rows."""
        if not total.takes(symbol):
            return []
        old = self.name(total)
        if total.is_count:
            there = f"({self.column(total.argument)}[row] is not None)" if total.argument is not None else "1"
            return [f"n{old} = {old} + {there}"]
        joined = total.joined(old, "at")
        lines = [
            f"at = {self.column(total.argument or exp.null())}[row]",
            f"n{old} = {old} if at is None else at if {old} is None else {joined}",
        ]
        return [*lines, f"n{old}n = {old}n + (at is not None)"] if total.is_mean else lines

    def updates(self, symbol: str, requested: Sequence[Register], known: frozenset[Register]) -> list[str]:
        """The lines that update the requested registers with the current row.

        The totals `known` are already in `n...`.
        """
        lines: list[str] = []
        for slot in sorted((r for r in requested if isinstance(r, Slot)), key=lambda slot: -slot.place):
            if slot.takes(symbol):
                lines += self.moved(slot)
        for total in (r for r in requested if isinstance(r, RunningTotal) and r.takes(symbol)):
            lines += [] if total in known else self.renewed(total, symbol)
            lines += [f"{local} = n{local}" for local in self.locals(total)]
        return lines

    def moved(self, slot: Slot) -> list[str]:
        name, nearer = self.name(slot), slot.nearer
        if not slot.first:
            return [f"{name} = {self.name(nearer) if nearer else 'row'}"]
        is_known = f" and {self.name(nearer)} >= 0" if nearer else ""
        return [f"if {name} < 0{is_known}: {name} = row"]

    def empty(self, register: Register) -> list[str]:
        """The lines that reset a register."""
        if isinstance(register, Slot):
            return [f"{self.name(register)} = -1"]
        assert isinstance(register, RunningTotal)
        name = self.name(register)
        return [f"{name} = 0"] if register.is_count else [f"{name} = None", f"{name}n = 0"]


def total_of(aggregate: MatchAggregate) -> RunningTotal:
    """The aggregate as one that is updated row by row; raises UnknownExpression if it cannot be."""
    if aggregate.running is None:
        raise UnknownExpression
    return RunningTotal(*aggregate.running, aggregate.symbols)
