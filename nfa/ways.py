"""All ways to match from all starts, at once: for matches that are reported as soon as they are complete.

Where `nfa.threads` drops what a match makes hopeless, nothing is dropped here: a complete way stays at its place in the
order of preference among the ways still open, until the one who asks takes it away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

from nfa.errors import BudgetError
from nfa.path import Path, Row
from nfa.program import MatchSymbol, Program
from nfa.threads import THREAD_LIMIT, Holds, Machine


class Way(NamedTuple):
    """Where a way waits for a row (at `Steps.done`: nowhere, it is complete), and the rows it has taken."""

    at: int
    path: Path[Any]


@dataclass(slots=True)
class Start(Generic[Row]):
    """The ways from one row, the most preferred first."""

    index: int
    row: Row
    ways: list[Way] = field(default_factory=list)


class Move(NamedTuple):
    """What a row does to a start: its ways after it, those complete by it, and those that could have ended with it."""

    ways: list[Way]
    complete: list[Way]
    refused: list[Way]


class Steps(Generic[Row]):
    """How ways move through a program.

    >>> from nfa.parse import parse_pattern
    >>> from nfa.program import compile_program
    >>> steps = Steps(compile_program(parse_pattern("A B*")), lambda symbol, row, path: row == symbol)
    >>> start = steps.begun(0, "A")
    >>> [steps.symbol(way.at) or "complete" for way in start.ways]
    ['B', 'complete']
    """

    def __init__(self, program: Program, holds: Holds[Row]) -> None:
        machine = Machine(program, holds, depends_on_path=True)
        self.holds, self.done = holds, machine.done
        self._names = [line.name if isinstance(line, MatchSymbol) else None for line in program.instructions]
        self._onward = {place: machine.onward(place + 1) for place, name in enumerate(self._names) if name is not None}
        self._roots = [Way(at, machine.root) for at in machine.onward(0) if at != self.done]

    def symbol(self, at: int) -> str | None:
        """The symbol that is waited for there; None for a complete way."""
        return self._names[at]

    def is_complete(self, way: Way) -> bool:
        """Whether the way is a match."""
        return way.at == self.done

    def is_last(self, at: int) -> bool:
        """Whether the row taken there may be the last of a match."""
        return self.done in self._onward[at]

    def begun(self, index: int, row: Row) -> Start[Row]:
        """The ways that take this row first; there may be none."""
        return Start(index, row, self.moved(self._roots, index, row).ways)

    def moved(self, ways: list[Way], index: int, row: Row) -> Move:
        """The ways after a row; complete ones stay where they are."""
        found, complete, refused = list[Way](), list[Way](), list[Way]()
        seen: set[Way] = set()
        longer: dict[tuple[str, int], Path[Row] | None] = {}
        for way in ways:
            if way.at == self.done:
                found.append(way)
                continue
            path = self._longer(way, index, row, longer)
            if path is None:
                if self.is_last(way.at):
                    refused.append(way)
                continue
            for there in self._onward[way.at]:
                after = Way(there, path)
                if after not in seen:
                    seen.add(after)
                    found.append(after)
                    if there == self.done:
                        complete.append(after)
        if len(found) > THREAD_LIMIT:
            raise BudgetError(f"one start of the pattern has {len(found)} ways open; the limit is {THREAD_LIMIT}")
        return Move(found, complete, refused)

    def _longer(
        self, way: Way, index: int, row: Row, known: dict[tuple[str, int], Path[Row] | None]
    ) -> Path[Row] | None:
        # One object for each distinct path, so that equal ways are equal.
        name = self._names[way.at]
        assert name is not None
        key = (name, id(way.path))
        if key not in known:
            known[key] = way.path.take(name, index, row) if self.holds(name, row, way.path) else None
        return known[key]


def open_ways(start: Start[Row], steps: Steps[Row]) -> Iterator[Way]:
    """The ways of a start that wait for a row."""
    return (way for way in start.ways if not steps.is_complete(way))
