"""What the machine does at one row: which starts come to it, by which ways, and what becomes of each way there."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

from nfa.pattern import Symbol
from nfa.program import MatchSymbol
from nfa.threads.machine import Arrived, Machine, Threads
from nfa.threads.path import Path, Row
from nfa.threads.transitions import Closures, mask


class Fate(enum.Enum):
    """What becomes of a way at a row."""

    GOES_ON = "goes on"
    MATCHES = "is a match"
    FAILS = "the row is not what it asks for"
    LATE = "its time is over"
    OVERTAKEN = "a preferred way is a match"
    JOINED = "a preferred way has come to the same place"
    NOT_THE_END = "the partition does not end before the row"
    NOWHERE = "nothing can follow"


@dataclass(frozen=True, slots=True)
class Way:
    """One way of a run as it comes to the row: the symbols `taken` before, the one `asked` for (None: `$`).

    `path` is what the condition may look back at; `onward` are the symbols it asks for next, as text, `is_match` if with the
    row it is a match.
    """

    taken: tuple[str, ...]
    path: Path[int]
    asked: str | None
    fate: Fate
    onward: tuple[str, ...] = ()
    is_match: bool = False


@dataclass(frozen=True, slots=True)
class Arrival:
    """A run at a row: its ways, the most preferred first; `has_match` if it can fall back on a match before the row."""

    start: int
    ways: tuple[Way, ...]
    has_match: bool


def candidates(closures: Closures, letters: Sequence[int], row: int) -> Iterator[int]:
    """The starts, the nearest first, from which a way may come to the row, judged by each row's letter alone.

    >>> from nfa import compile_program, parse_pattern
    >>> closures = Closures(compile_program(parse_pattern("A B+ C")))
    >>> list(candidates(closures, [0b001, 0b010, 0b011, 0b100], 3))
    [3, 2, 0]
    """
    bits = closures.bits
    after = {number: mask(closures.after(number)) for number in bits}
    waits = [mask(closures.begin(at_start)) for at_start in (False, True)]
    anywhere = (1 << len(closures.code)) - 1
    known: dict[tuple[int, int], int] = {}
    alive, at = anywhere, row
    while alive:
        if waits[at == 0] & alive:
            yield at
        at -= 1
        if at < 0:
            return
        key = (letters[at], alive)
        if key not in known:
            known[key] = mask(n for n, bit in bits.items() if bit & letters[at] and after[n] & alive)
        alive = known[key]


class Tracer(Generic[Row]):
    """Follows starts to one row with the plain machine; `arrived(index)` is a row of the partition, `budget` the most moves.

    >>> from nfa import compile_program, parse_pattern
    >>> machine = Machine(compile_program(parse_pattern("A B* C")), lambda symbol, row, path: row in symbol, False)
    >>> tracer = Tracer(machine, lambda index: Arrived(index, "ABBC"[index], 0), 3)
    >>> [(" ".join(way.taken), way.asked, way.fate.value) for way in tracer.arrival(0).ways]
    [('A B B', 'B', 'the row is not what it asks for'), ('A B B', 'C', 'is a match')]
    """

    def __init__(
        self, machine: Machine[Row], arrived: Callable[[int], Arrived[Row]], row: int, budget: int = 1_000_000
    ) -> None:
        self.machine, self.arrived, self.row, self.budget = machine, arrived, row, budget

    def arrival(self, start: int, is_late: bool = False) -> Arrival | None:
        """The run at the row; None if it was over before. `is_late`: its time is over with this row."""
        history: list[tuple[Threads[Row], tuple[int, ...]]] = []
        threads = self.machine.begin(start)
        for index in range(start, self.row):
            if self.machine.is_settled(threads):
                return None
            after, parents = self.machine.move(threads, self.arrived(index))
            self.budget -= 1
            history.append((threads, parents))
            threads = after
        if self.machine.is_settled(threads):
            return None
        words = [self._word(history, place) for place in range(len(threads))]
        return Arrival(start, tuple(self._ways(start, threads, words, is_late)), self.machine.has_match(threads))

    def _word(self, history: list[tuple[Threads[Row], tuple[int, ...]]], place: int) -> tuple[str, ...]:
        found = []
        for threads, parents in reversed(history):
            place = parents[place]
            line = self.machine.code[threads[place][0]]
            assert isinstance(line, MatchSymbol)
            found.append(line.name)
        return tuple(reversed(found))

    def _ways(self, start: int, threads: Threads[Row], words: list[tuple[str, ...]], is_late: bool) -> Iterator[Way]:
        moved, parents = ((), ()) if is_late else self.machine.move(threads, self.arrived(self.row))
        for place, ((number, path), taken) in enumerate(zip(threads, words, strict=True)):
            if number == self.machine.done:
                continue
            children = [there for (there, _), parent in zip(moved, parents, strict=True) if parent == place]
            line = self.machine.code[number]
            asked = line.name if isinstance(line, MatchSymbol) else None
            if is_late:
                fate = Fate.LATE
            elif asked is None:
                fate = Fate.NOT_THE_END
            elif children:
                fate = Fate.GOES_ON if children[0] != self.machine.done else Fate.MATCHES
            elif not self.machine.holds(asked, self.arrived(self.row).row, path):
                fate = Fate.FAILS
            else:
                fate = self._dropped(number, place, moved, parents)
            yield Way(taken, _path(start, taken), asked, fate, self._onward(children), self.machine.done in children)

    def _dropped(self, number: int, place: int, moved: Threads[Row], parents: tuple[int, ...]) -> Fate:
        """Why a way that took the row is not among those after it."""
        if not self.machine.waiting(number + 1):
            return Fate.NOWHERE
        ended = bool(moved) and moved[-1][0] == self.machine.done and parents[-1] < place
        return Fate.OVERTAKEN if ended else Fate.JOINED

    def _onward(self, children: list[int]) -> tuple[str, ...]:
        lines = (self.machine.code[number] for number in children if number != self.machine.done)
        return tuple(dict.fromkeys(str(Symbol(line.name)) if isinstance(line, MatchSymbol) else "$" for line in lines))


def _path(start: int, taken: tuple[str, ...]) -> Path[int]:
    path: Path[int] = Path()
    for index, symbol in enumerate(taken, start):
        path = path.take(symbol, index, index)
    return path
