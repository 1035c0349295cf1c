"""What conditions remember of the match so far: the rows that navigations name, and until where each is needed.

A slot is one remembered row: the j-th newest, or j-th oldest, that is one of some symbols. Which slots matter at an
instruction is found backwards from the conditions that read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from bridge.recognize.clause import RowPattern
from bridge.recognize.conditions import Condition, distance
from bridge.recognize.values import CURRENT, Atom, Label, Place, Value
from nfa.program import Done, Instruction, IterationEnd, Jump, MatchSymbol, Split


class Slot(NamedTuple):
    """A remembered row: `place`-th oldest or newest that is one of the symbols (None: of any)."""

    symbols: tuple[str, ...] | None
    first: bool
    place: int

    def takes(self, symbol: str) -> bool:
        """Whether a row that is this symbol is one of those counted."""
        return self.symbols is None or symbol in self.symbols

    @property
    def nearer(self) -> Slot | None:
        """The row before this one in the order in which they are counted."""
        return self._replace(place=self.place - 1) if self.place else None


Slots: TypeAlias = frozenset[Slot]


def plain(label: Label) -> Label:
    """CLASSIFIER() of a row so many after a newest row of any symbol: just another newest row."""
    place = label.place
    if place.symbols is not None or place.first or not label.shift:
        return label
    return Label(Place(None, False, place.offset - label.shift))


def slot_of(atom: Atom, clause: RowPattern) -> Slot | None:
    """The slot that a value or label reads; None for the row at hand and rows at a known distance from the first."""
    if isinstance(atom, Label):
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


def before(symbol: str, wanted: Slots) -> Slots:
    """What must be known before a row is taken as a symbol for these slots to be known after it."""
    found = set()
    for slot in wanted:
        if slot.first:
            # Whether this row is the one depends on how many there were.
            found |= {slot._replace(place=place) for place in range(slot.place + 1)}
        elif not slot.takes(symbol):
            found.add(slot)
        elif slot.place:
            found.add(slot._replace(place=slot.place - 1))
    return frozenset(found)


def live(code: tuple[Instruction, ...], read: Mapping[str, Slots]) -> list[Slots]:
    """For each instruction the slots whose rows can still matter before it."""
    found: list[Slots] = [frozenset()] * len(code)
    changed = True
    while changed:
        changed = False
        for number in range(len(code) - 1, -1, -1):
            wanted = _wanted(code, number, found, read)
            changed |= wanted != found[number]
            found[number] = wanted
    return found


def _wanted(code: tuple[Instruction, ...], number: int, found: list[Slots], read: Mapping[str, Slots]) -> Slots:
    line = code[number]
    after = frozenset[Slot]().union(*(found[there] for there in onward(line, number)))
    return before(line.name, after | read[line.name]) if isinstance(line, MatchSymbol) else after


def onward(line: Instruction, number: int) -> tuple[int, ...]:
    """The instructions that can come next."""
    match line:
        case Done():
            return ()
        case Jump(target):
            return (target,)
        case Split(one, other):
            return one, other
        case IterationEnd(exit=leave):
            return leave, number + 1
    return (number + 1,)
