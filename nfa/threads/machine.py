"""Threads of a program in order of preference, each waiting at an instruction for a row (Pike's machine)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Generic, TypeAlias

from nfa.errors import BudgetError
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
from nfa.threads.path import Path, Row

THREAD_LIMIT = 100_000
"""The most threads of one start; only conditions that depend on the path can exceed it."""

KNOWN_MOVES_LIMIT = 10_000
"""The most moves in the cache, which is then cleared."""

Holds: TypeAlias = Callable[[str, Row, Path[Row]], bool]
"""`holds(symbol, row, path)`: whether the row can be this symbol after the rows of `path`."""

Thread: TypeAlias = tuple[int, Path[Row]]
"""The number of the instruction at which a thread waits, and the rows that it has taken."""

Threads: TypeAlias = tuple[Thread[Row], ...]

Successors: TypeAlias = tuple[Threads[Row], tuple[int, ...]]
"""The threads one row later, and for each the place of its parent among the threads before."""

_Visited: TypeAlias = set[tuple[int, frozenset[int]]]

_NOTHING_OPEN: frozenset[int] = frozenset()


class InputRow(Generic[Row]):
    """A row with its index in the partition, its time, and the results of conditions that do not depend on the path."""

    __slots__ = ("answers", "index", "row", "ts")

    def __init__(self, index: int, row: Row, ts: int) -> None:
        self.index = index
        self.row = row
        self.ts = ts
        self.answers: dict[str, bool] = {}


class Machine(Generic[Row]):
    """Moves threads. Of several threads at one instruction with one path only the most preferred remains.

    If conditions do not depend on the path, every thread has the empty path. So at most one thread waits at each
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
        self._known_moves: dict[tuple[Threads[Row], tuple[bool, ...]], Successors[Row]] = {}

    def begin(self, index: int) -> Threads[Row]:
        """The threads of a match that starts at the row with this index, before that row."""
        return self._begun[index == 0]

    def has_match(self, threads: Threads[Row]) -> bool:
        """Whether one of the threads is a match; it is the last one, as less preferred ones have been dropped."""
        return bool(threads) and threads[-1][0] == self.done

    def is_settled(self, threads: Threads[Row]) -> bool:
        """Whether no later row can change the outcome."""
        return not threads or threads[0][0] == self.done

    def without_rows(self, threads: Threads[Row]) -> Threads[Row]:
        """The threads that remain if no further row can be taken but the partition may still end here."""
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
        """The instructions, up to the first Accept, at which threads that continue from this one wait or are done."""
        return tuple(_until(self.done, self._reach(number, set())))

    def all_waiting(self, number: int) -> tuple[int, ...]:
        """The same, and the instructions that are less preferred than the first Accept."""
        return tuple(self._reach(number, set()))

    def _begin(self, at_start: bool) -> Threads[Row]:
        reached = self._reach(0, set(), at_start=at_start)
        return tuple((number, self.root) for number in _until(self.done, reached))

    def _move_without_paths(self, threads: Threads[Row], input_row: InputRow[Row]) -> Successors[Row]:
        answers = tuple([self._answer(number, input_row) for number, _ in threads])
        successors = self._known_moves.get((threads, answers))
        if successors is None:
            if len(self._known_moves) >= KNOWN_MOVES_LIMIT:
                self._known_moves.clear()
            paths = [self.root if answer else None for answer in answers]
            successors = self._known_moves[threads, answers] = self._successors(threads, paths)
        return successors

    def _answer(self, number: int, input_row: InputRow[Row]) -> bool:
        name = self._names[number]
        if name is None:
            return False
        answer = input_row.answers.get(name)
        if answer is None:
            answer = input_row.answers[name] = bool(self.holds(name, input_row.row, self.root))
        return answer

    def _move_with_paths(self, threads: Threads[Row], input_row: InputRow[Row]) -> Successors[Row]:
        known_paths: dict[tuple[str, Path[Row]], Path[Row] | None] = {}
        paths = [self._extended(number, path, input_row, known_paths) for number, path in threads]
        return self._successors(threads, paths)

    def _extended(
        self,
        number: int,
        path: Path[Row],
        input_row: InputRow[Row],
        known_paths: dict[tuple[str, Path[Row]], Path[Row] | None],
    ) -> Path[Row] | None:
        # One object for each distinct path, so that equal threads are found by identity.
        name = self._names[number]
        if name is None:
            return None
        if (name, path) not in known_paths:
            holds = self.holds(name, input_row.row, path)
            known_paths[name, path] = path.take(name, input_row.index, input_row.row) if holds else None
        return known_paths[name, path]

    def _successors(self, threads: Threads[Row], paths: list[Path[Row] | None]) -> Successors[Row]:
        successors: list[Thread[Row]] = []
        parents: list[int] = []
        visited: defaultdict[Path[Row], _Visited] = defaultdict(set)
        for place, ((number, _), path) in enumerate(zip(threads, paths, strict=True)):
            if path is not None:
                reached = list(_until(self.done, self._reach(number + 1, visited[path])))
                successors += [(there, path) for there in reached]
                parents += [place] * len(reached)
                if reached and reached[-1] == self.done:
                    break
        if len(successors) > THREAD_LIMIT:
            raise BudgetError(f"one start of the pattern has {len(successors)} paths open; the limit is {THREAD_LIMIT}")
        return tuple(successors), tuple(parents)

    def _reach(self, number: int, visited: _Visited, at_start: bool = False, at_end: bool = False) -> Iterator[int]:
        """The instructions that wait (for a row or for the end) or are done, reached without taking a row.

        A state is an instruction and the iterations that began since the last row, which are still empty.
        """
        pending = [(number, _NOTHING_OPEN)]
        while pending:
            number, open_iterations = pending.pop()
            line = self.code[number]
            waits = isinstance(line, MatchSymbol | Accept) or (isinstance(line, AnchorEnd) and not at_end)
            state = (number, _NOTHING_OPEN if waits else open_iterations)
            if state not in visited:
                visited.add(state)
                if waits:
                    yield number
                else:
                    pending += _next_instructions(line, number, open_iterations, at_start)


def _next_instructions(
    line: Instruction, number: int, open_iterations: frozenset[int], at_start: bool
) -> list[tuple[int, frozenset[int]]]:
    """The instructions that follow without taking a row, the most preferred one last."""
    match line:
        case Jump(target):
            return [(target, open_iterations)]
        case Split(first, second):
            return [(second, open_iterations), (first, open_iterations)]
        case IterationStart():
            return [(number + 1, open_iterations | {number})]
        case IterationEnd(start, leave):
            return [(leave, open_iterations - {start}) if start in open_iterations else (number + 1, open_iterations)]
        case AnchorStart() if not at_start:
            return []
    return [(number + 1, open_iterations)]


def _until(last: int, numbers: Iterator[int]) -> Iterator[int]:
    # Instructions after a match in the order of preference can never be preferred to it.
    for number in numbers:
        yield number
        if number == last:
            return
