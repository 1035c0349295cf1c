"""Threads of a program: where each waits for a row, most preferred first (Pike's machine)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Generic, TypeAlias

from nfa.errors import BudgetError
from nfa.program import (
    AnchorEnd,
    AnchorStart,
    Done,
    Instruction,
    IterationEnd,
    IterationStart,
    Jump,
    MatchSymbol,
    Program,
    Split,
)
from nfa.threads.path import Path, Row

THREAD_LIMIT = 100_000
"""The most threads of one start; only conditions that look at the path can ask for so many."""

KNOWN_MOVES_LIMIT = 10_000
"""How many moves are remembered before all are forgotten."""

Holds: TypeAlias = Callable[[str, Row, Path[Row]], bool]
"""`holds(symbol, row, path)`: can the row be this symbol, after what `path` has bound?"""

Thread: TypeAlias = tuple[int, Path[Row]]
"""The number of the instruction a thread waits at, and the way it came."""

Threads: TypeAlias = tuple[Thread[Row], ...]

Moved: TypeAlias = tuple[Threads[Row], tuple[int, ...]]
"""Threads one row later, and for each the place of the thread it comes from."""

_Visited: TypeAlias = set[tuple[int, frozenset[int]]]

_NOTHING_OPEN: frozenset[int] = frozenset()


class Arrived(Generic[Row]):
    """A row with its index in the partition, its time, and the answers that hold whatever was taken before it."""

    __slots__ = ("answers", "index", "row", "ts")

    def __init__(self, index: int, row: Row, ts: int) -> None:
        self.index = index
        self.row = row
        self.ts = ts
        self.answers: dict[str, bool] = {}


class Machine(Generic[Row]):
    """How threads move. Threads that wait at one instruction with one path are one thread: the most preferred.

    When conditions do not look at the path, every thread has the empty path; so at most one thread waits at each
    instruction, and equal moves are computed once.
    """

    def __init__(self, program: Program, holds: Holds[Row], depends_on_path: bool) -> None:
        self.code = program.instructions
        self.done = len(self.code) - 1
        self.holds = holds
        self.move = self._move_with_paths if depends_on_path else self._move_without_paths
        self.root: Path[Row] = Path()
        self._names = [line.name if isinstance(line, MatchSymbol) else None for line in self.code]
        self._begun = [self._begin(at_start) for at_start in (False, True)]
        self._known_moves: dict[tuple[Threads[Row], tuple[bool, ...]], Moved[Row]] = {}

    def begin(self, index: int) -> Threads[Row]:
        """The threads before the row with this index, if a match is to begin there."""
        return self._begun[index == 0]

    def has_match(self, threads: Threads[Row]) -> bool:
        """Whether one of the threads is a match; it is the last, for what it is preferred to has been dropped."""
        return bool(threads) and threads[-1][0] == self.done

    def is_settled(self, threads: Threads[Row]) -> bool:
        """Whether no later row can matter."""
        return not threads or threads[0][0] == self.done

    def without_rows(self, threads: Threads[Row]) -> Threads[Row]:
        """The threads left when no row can be taken any more, while the partition may still end here."""
        return tuple(thread for thread in threads if self._names[thread[0]] is None)

    def at_end(self, threads: Threads[Row]) -> int | None:
        """The place of the thread that is the preferred match if the partition ends here."""
        for place, (number, _) in enumerate(threads):
            if self._names[number] is None and self.passes_end(number):
                return place
        return None

    def passes_end(self, number: int) -> bool:
        """Whether this instruction leads to a match when the partition ends."""
        return self.done in self._reach(number, set(), at_end=True)

    def waiting(self, number: int) -> tuple[int, ...]:
        """The instructions where threads wait or are done that go on from this one, up to the first match."""
        return tuple(_until(self.done, self._reach(number, set())))

    def onward(self, number: int) -> tuple[int, ...]:
        """The same without an end at the first match: also what is less preferred than ending there."""
        return tuple(self._reach(number, set()))

    def _begin(self, at_start: bool) -> Threads[Row]:
        reached = self._reach(0, set(), at_start=at_start)
        return tuple((number, self.root) for number in _until(self.done, reached))

    def _move_without_paths(self, threads: Threads[Row], arrived: Arrived[Row]) -> Moved[Row]:
        answers = tuple([self._answer(number, arrived) for number, _ in threads])
        moved = self._known_moves.get((threads, answers))
        if moved is None:
            if len(self._known_moves) >= KNOWN_MOVES_LIMIT:
                self._known_moves.clear()
            ways = [self.root if answer else None for answer in answers]
            moved = self._known_moves[threads, answers] = self._moved(threads, ways)
        return moved

    def _answer(self, number: int, arrived: Arrived[Row]) -> bool:
        name = self._names[number]
        if name is None:
            return False
        answer = arrived.answers.get(name)
        if answer is None:
            answer = arrived.answers[name] = bool(self.holds(name, arrived.row, self.root))
        return answer

    def _move_with_paths(self, threads: Threads[Row], arrived: Arrived[Row]) -> Moved[Row]:
        longer: dict[tuple[str, Path[Row]], Path[Row] | None] = {}
        ways = [self._longer(number, path, arrived, longer) for number, path in threads]
        return self._moved(threads, ways)

    def _longer(
        self,
        number: int,
        path: Path[Row],
        arrived: Arrived[Row],
        longer: dict[tuple[str, Path[Row]], Path[Row] | None],
    ) -> Path[Row] | None:
        # One object for each distinct path: that is what lets equal threads be found by identity.
        name = self._names[number]
        if name is None:
            return None
        if (name, path) not in longer:
            holds = self.holds(name, arrived.row, path)
            longer[name, path] = path.take(name, arrived.index, arrived.row) if holds else None
        return longer[name, path]

    def _moved(self, threads: Threads[Row], ways: list[Path[Row] | None]) -> Moved[Row]:
        moved: list[Thread[Row]] = []
        parents: list[int] = []
        visited: defaultdict[Path[Row], _Visited] = defaultdict(set)
        for place, ((number, _), path) in enumerate(zip(threads, ways, strict=True)):
            if path is not None:
                reached = list(_until(self.done, self._reach(number + 1, visited[path])))
                moved += [(there, path) for there in reached]
                parents += [place] * len(reached)
                if reached and reached[-1] == self.done:
                    break
        if len(moved) > THREAD_LIMIT:
            raise BudgetError(f"one start of the pattern has {len(moved)} ways open; the limit is {THREAD_LIMIT}")
        return tuple(moved), tuple(parents)

    def _reach(self, number: int, visited: _Visited, at_start: bool = False, at_end: bool = False) -> Iterator[int]:
        """The instructions that wait (for a row or for the end) or are done, reached without taking a row.

        Beside the instruction, what matters is which iterations began since the last row: these are empty so far.
        """
        pending = [(number, _NOTHING_OPEN)]
        while pending:
            number, opened = pending.pop()
            line = self.code[number]
            waits = isinstance(line, MatchSymbol | Done) or (isinstance(line, AnchorEnd) and not at_end)
            state = (number, _NOTHING_OPEN if waits else opened)
            if state not in visited:
                visited.add(state)
                if waits:
                    yield number
                else:
                    pending += _onward(line, number, opened, at_start)


def _onward(line: Instruction, number: int, opened: frozenset[int], at_start: bool) -> list[tuple[int, frozenset[int]]]:
    """Where to go on without taking a row, the most preferred place last."""
    match line:
        case Jump(target):
            return [(target, opened)]
        case Split(first, second):
            return [(second, opened), (first, opened)]
        case IterationStart():
            return [(number + 1, opened | {number})]
        case IterationEnd(start, leave):
            return [(leave, opened - {start}) if start in opened else (number + 1, opened)]
        case AnchorStart() if not at_start:
            return []
    return [(number + 1, opened)]


def _until(last: int, numbers: Iterator[int]) -> Iterator[int]:
    # What comes after a match in preference order can never be preferred to it.
    for number in numbers:
        yield number
        if number == last:
            return
