"""All ways to match from all starts, at once: for matches that are reported as soon as they are complete.

Where `nfa.threads.machine` drops what a match makes hopeless, nothing is dropped here: a complete way stays at its place in the
order of preference among the ways still open, until the one who asks takes it away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

from nfa.errors import BudgetError
from nfa.program import MatchSymbol, Program
from nfa.skip import After
from nfa.threads.machine import THREAD_LIMIT, Holds, Machine
from nfa.threads.path import Path, Row


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


# Matches reported as soon as they are complete: EPL's way, as Esper runs it


class Complete(NamedTuple):
    """A match: the index and row it starts at, its rows, and its number in the order in which matches were complete."""

    start: int
    first: Any
    path: Path[Any]
    number: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """Which matches of a delivery are reported: all, or those that the skip leaves."""

    after: After = After.PAST_LAST_ROW
    all_matches: bool = False

    def of(self, matches: Iterable[Complete]) -> list[Complete]:
        """The matches reported of these, which stand in the order of their starts and, within one, of preference."""
        return list(matches) if self.all_matches else self.preferred(matches)

    def preferred(self, matches: Iterable[Complete]) -> list[Complete]:
        """One match a start, and none from a start that a match before skips."""
        chosen: list[Complete] = []
        bound = -1
        for match in matches:
            if match.start > bound:
                chosen.append(match)
                bound = max(match.start, self.skipped_to([match]))
        return chosen

    def skipped_to(self, reported: Iterable[Complete]) -> int:
        """The index of the last row at which nothing may start any more."""
        if self.after is After.PAST_LAST_ROW:
            return max((match.path.index for match in reported), default=-1)
        if self.after is After.TO_NEXT_ROW:
            return max((match.start for match in reported), default=-1)
        return -1


class Eager(Generic[Row]):
    """The matches of one partition, each reported at the row that completes it.

    >>> from nfa.parse import parse_pattern
    >>> from nfa.program import compile_program
    >>> steps = Steps(compile_program(parse_pattern("A+ B")), lambda symbol, row, path: row == symbol)
    >>> eager = Eager(steps, Choice())
    >>> [[match.path.rows() for match in eager.feed(row, time)] for time, row in enumerate("AAB")]
    [[], [], [['A', 'A', 'B']]]
    """

    def __init__(self, steps: Steps[Row], choice: Choice) -> None:
        self.steps, self.choice = steps, choice
        self.starts: list[Start[Row]] = []
        self.count = 0
        self.took = False
        """Whether the last row was taken by some way."""

    def feed(self, row: Row, now: int) -> list[Complete]:
        """The matches that this row completes; what they skip is forgotten."""
        found = self._taken(row)
        reported = self.choice.of(found)
        bound = self.choice.skipped_to(reported)
        for start in self.starts:
            start.ways = list(open_ways(start, self.steps))
        self.starts = [start for start in self.starts if start.ways and start.index > bound]
        return reported

    def lose(self, is_gone: Callable[[Row], bool]) -> None:
        """Ends what holds a row that has left the window: the first row of a start leaves before the others."""
        self.starts = [start for start in self.starts if not is_gone(start.row)]

    def lose_row(self, index: int) -> None:
        """Ends all that holds the row of this index, the oldest that was taken."""
        self.starts = [start for start in self.starts if start.index > index]

    def retake(self, rows: Iterable[Row]) -> None:
        """Begins anew with rows that have been seen: what they leave open is open, nothing is reported or skipped."""
        self.starts, self.count = [], 0
        for row in rows:
            self._taken(row)
            for start in self.starts:
                start.ways = list(open_ways(start, self.steps))
            self.starts = [start for start in self.starts if start.ways]

    @staticmethod
    def _is_of(start: Start[Row], index: int) -> bool:
        return any(way.path.index == index for way in start.ways)

    def _taken(self, row: Row) -> list[Complete]:
        """All starts one row further, a new one among them; gives what is complete by it."""
        found: list[Complete] = []
        for start in self.starts:
            move = self.steps.moved(start.ways, self.count, row)
            start.ways = move.ways
            found += (self._complete(start, way) for way in move.complete)
        begun = self.steps.begun(self.count, row)
        self.took = bool(begun.ways) or any(self._is_of(start, self.count) for start in self.starts)
        if begun.ways:
            self.starts.append(begun)
            found += (self._complete(begun, way) for way in begun.ways if self.steps.is_complete(way))
        self.count += 1
        return found

    def _complete(self, start: Start[Row], way: Way) -> Complete:
        return Complete(start.index, start.row, way.path)


class Batch(Eager[Row]):
    """The matches of a partition's rows taken together, which are one delivery: a batch, or what a window holds."""

    def feed(self, row: Row, now: int) -> list[Complete]:
        self._taken(row)
        return []

    @property
    def complete_at(self) -> int | None:
        """The index of the row by which the first match was complete."""
        ends = (way.path.index for start in self.starts for way in start.ways if self.steps.is_complete(way))
        return min(ends, default=None)

    def ended(self) -> list[Complete]:
        """The matches reported of all rows so far."""
        return self.choice.of(self._found())

    def looked_at(self) -> list[Complete]:
        """The same as one looks at them: with all matches, too, a start skipped by a match before reports none."""
        if not self.choice.all_matches:
            return self.ended()
        starts = {match.start for match in self.choice.preferred(self._found())}
        return [match for match in self._found() if match.start in starts]

    def _found(self) -> list[Complete]:
        return [
            self._complete(start, way) for start in self.starts for way in start.ways if self.steps.is_complete(way)
        ]


class Interval(Eager[Row]):
    """Matches are held until `interval` after their first row; then the best of those of one moment are reported.

    `or_terminated`: earlier where nothing can follow, or where a row is refused that could have been the last.
    `time(row)` is the time of a row. What is open goes on after a report.
    """

    def __init__(
        self, steps: Steps[Row], choice: Choice, interval: int, time: Callable[[Row], int], or_terminated: bool = False
    ) -> None:
        super().__init__(steps, choice)
        self.interval, self.time, self.or_terminated = interval, time, or_terminated
        self.held: dict[int, dict[Path[Row], int]] = {}
        """For each start its matches that wait, with their numbers; they are complete ways of the start."""
        self.number = 0

    def feed(self, row: Row, now: int) -> list[Complete]:
        """The matches that are reported at once, by this row."""
        released = self._refused(row) if self.or_terminated else set()
        for match in self.choice.of(self._taken(row)):
            self.number += 1
            self.held.setdefault(match.start, {})[match.path] = self.number
            if self._until(match.first) <= now or (self.or_terminated and self._is_final(match)):
                released.add(match.path)
        for start in self.starts:
            waiting = self.held.get(start.index, {})
            start.ways = [way for way in start.ways if not self.steps.is_complete(way) or way.path in waiting]
        self.starts = [start for start in self.starts if start.ways]
        return self._released(released)

    def due(self, deadline: int) -> list[Complete]:
        """The matches whose time is over at this moment."""
        starts = (start for start in self.starts if self._until(start.row) <= deadline)
        return self._released({path for start in starts for path in self.held.get(start.index, ())})

    @property
    def deadline(self) -> int | None:
        """When the next match is due."""
        return min((self._until(start.row) for start in self.starts if start.index in self.held), default=None)

    def lose(self, is_gone: Callable[[Row], bool]) -> None:
        """Ends what holds a row that has left; matches that are held stay."""
        for start in self.starts:
            if is_gone(start.row):
                start.ways = [way for way in start.ways if self.steps.is_complete(way)]
        self.starts = [start for start in self.starts if start.ways]

    def _until(self, first: Row) -> int:
        return self.time(first) + self.interval

    def _released(self, paths: set[Path[Row]]) -> list[Complete]:
        """The best of these matches, none of which is held any more."""
        if not paths:
            return []
        found: list[Complete] = []
        for start in self.starts:
            waiting = self.held.get(start.index, {})
            going = [way for way in start.ways if self.steps.is_complete(way) and way.path in paths]
            found += (self._complete(start, way)._replace(number=waiting.pop(way.path)) for way in going)
            start.ways = [way for way in start.ways if way not in going]
            if not waiting:
                self.held.pop(start.index, None)
        self.starts = [start for start in self.starts if start.ways]
        if self.choice.all_matches:
            return sorted(found, key=lambda match: (match.start, match.number))
        return self.choice.preferred(found)

    def _is_final(self, match: Complete) -> bool:
        """Whether no row can make the match longer."""
        ways = (way for start in self.starts if start.index == match.start for way in start.ways)
        return not any(way.path is match.path and not self.steps.is_complete(way) for way in ways)

    def _refused(self, row: Row) -> set[Path[Row]]:
        """The held matches that a row ends: one is refused where it could have been the last, after the same bindings."""
        released: set[Path[Row]] = set()
        for start in self.starts:
            waiting = self.held.get(start.index, ())
            refused = self.steps.moved(start.ways, self.count, row).refused if waiting else []
            released |= {path for way in refused for path in waiting if _agree(path, way.path)}
        return released


def _agree(one: Path[Row], other: Path[Row]) -> bool:
    """Whether two paths bind the same rows to each variable, as far as both have bound some."""
    names = {symbol for symbol, _, _ in one.steps()} & {symbol for symbol, _, _ in other.steps()}
    for name in names:
        left = [index for symbol, index, _ in one.steps() if symbol == name]
        right = [index for symbol, index, _ in other.steps() if symbol == name]
        if any(a != b for a, b in zip(reversed(left), reversed(right), strict=False)):
            return False
    return True
