"""Traces the plain machine at one row: the starts that reach it, their threads, and what happens to each thread there."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

from nfa.pattern import Symbol
from nfa.program import MatchSymbol
from nfa.threads.machine import InputRow, Machine, Threads
from nfa.threads.path import Path, Row
from nfa.threads.transitions import Transitions, mask


class Fate(enum.Enum):
    """The fate of a thread at a row."""

    GOES_ON = "goes on"
    MATCHES = "is a match"
    FAILS = "the row is not what it asks for"
    LATE = "its time is over"
    OVERTAKEN = "a preferred way is a match"
    JOINED = "a preferred way has come to the same place"
    NOT_THE_END = "the partition does not end before the row"
    NOWHERE = "nothing can follow"


@dataclass(frozen=True, slots=True)
class ThreadTrace:
    """A thread of a run at the row: the symbols of its rows before, and the one that it waits for (None: `$`).

    `path` has the same rows for conditions. `next_symbols`: what it waits for after the row, as text. `is_match`: the row
    completes a match.
    """

    symbols: tuple[str, ...]
    path: Path[int]
    awaited: str | None
    fate: Fate
    next_symbols: tuple[str, ...] = ()
    is_match: bool = False


@dataclass(frozen=True, slots=True)
class RunTrace:
    """A run at a row: its threads, the most preferred first; `has_match`: it has a match that ends before the row."""

    start: int
    threads: tuple[ThreadTrace, ...]
    has_match: bool


def candidates(transitions: Transitions, symbol_sets: Sequence[int], row: int) -> Iterator[int]:
    """The starts, the nearest first, from which a thread may reach the row, as far as symbol sets show.

    >>> from nfa import compile_program, parse_pattern
    >>> transitions = Transitions(compile_program(parse_pattern("A B+ C")))
    >>> list(candidates(transitions, [0b001, 0b010, 0b011, 0b100], 3))
    [3, 2, 0]
    """
    bits = transitions.bits
    after = {number: mask(transitions.after(number)) for number in bits}
    first = [mask(transitions.begin(at_start)) for at_start in (False, True)]
    anywhere = (1 << len(transitions.code)) - 1
    known: dict[tuple[int, int], int] = {}
    alive, at = anywhere, row
    while alive:
        if first[at == 0] & alive:
            yield at
        at -= 1
        if at < 0:
            return
        key = (symbol_sets[at], alive)
        if key not in known:
            known[key] = mask(n for n, bit in bits.items() if bit & symbol_sets[at] and after[n] & alive)
        alive = known[key]


class Tracer(Generic[Row]):
    """Follows runs to one row with the plain machine; `row_at(index)` is a row of the partition, `budget` the most moves.

    >>> from nfa import compile_program, parse_pattern
    >>> machine = Machine(compile_program(parse_pattern("A B* C")), lambda symbol, row, path: row in symbol, False)
    >>> tracer = Tracer(machine, lambda index: InputRow(index, "ABBC"[index], 0), 3)
    >>> [(" ".join(one.symbols), one.awaited, one.fate.value) for one in tracer.run(0).threads]
    [('A B B', 'B', 'the row is not what it asks for'), ('A B B', 'C', 'is a match')]
    """

    def __init__(
        self, machine: Machine[Row], row_at: Callable[[int], InputRow[Row]], row: int, budget: int = 1_000_000
    ) -> None:
        self.machine, self.row_at, self.row, self.budget = machine, row_at, row, budget

    def run(self, start: int, is_late: bool = False) -> RunTrace | None:
        """The run from a start at the row; None if it ended before. `is_late`: the row is beyond its deadline."""
        steps: list[tuple[Threads[Row], tuple[int, ...]]] = []
        threads = self.machine.begin(start)
        for index in range(start, self.row):
            if self.machine.is_settled(threads):
                return None
            after, parents = self.machine.move(threads, self.row_at(index))
            self.budget -= 1
            steps.append((threads, parents))
            threads = after
        if self.machine.is_settled(threads):
            return None
        several = [self._symbols(steps, place) for place in range(len(threads))]
        return RunTrace(start, tuple(self._traces(start, threads, several, is_late)), self.machine.has_match(threads))

    def _symbols(self, steps: list[tuple[Threads[Row], tuple[int, ...]]], place: int) -> tuple[str, ...]:
        found = []
        for threads, parents in reversed(steps):
            place = parents[place]
            line = self.machine.code[threads[place][0]]
            assert isinstance(line, MatchSymbol)
            found.append(line.name)
        return tuple(reversed(found))

    def _traces(
        self, start: int, threads: Threads[Row], several: list[tuple[str, ...]], is_late: bool
    ) -> Iterator[ThreadTrace]:
        moved, parents = ((), ()) if is_late else self.machine.move(threads, self.row_at(self.row))
        for place, ((number, path), symbols) in enumerate(zip(threads, several, strict=True)):
            if number == self.machine.done:
                continue
            children = [there for (there, _), parent in zip(moved, parents, strict=True) if parent == place]
            line = self.machine.code[number]
            awaited = line.name if isinstance(line, MatchSymbol) else None
            if is_late:
                fate = Fate.LATE
            elif awaited is None:
                fate = Fate.NOT_THE_END
            elif children:
                fate = Fate.GOES_ON if children[0] != self.machine.done else Fate.MATCHES
            elif not self.machine.holds(awaited, self.row_at(self.row).row, path):
                fate = Fate.FAILS
            else:
                fate = self._dropped(number, place, moved, parents)
            followers, is_match = self._next_symbols(children), self.machine.done in children
            yield ThreadTrace(symbols, _path(start, symbols), awaited, fate, followers, is_match)

    def _dropped(self, number: int, place: int, moved: Threads[Row], parents: tuple[int, ...]) -> Fate:
        """Why a thread that took the row has no successor."""
        if not self.machine.waiting(number + 1):
            return Fate.NOWHERE
        ended = bool(moved) and moved[-1][0] == self.machine.done and parents[-1] < place
        return Fate.OVERTAKEN if ended else Fate.JOINED

    def _next_symbols(self, children: list[int]) -> tuple[str, ...]:
        lines = (self.machine.code[number] for number in children if number != self.machine.done)
        return tuple(dict.fromkeys(str(Symbol(line.name)) if isinstance(line, MatchSymbol) else "$" for line in lines))


def _path(start: int, symbols: tuple[str, ...]) -> Path[int]:
    path: Path[int] = Path()
    for index, symbol in enumerate(symbols, start):
        path = path.take(symbol, index, index)
    return path
