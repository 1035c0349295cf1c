"""Eager matching: all threads from all starts at once, for matches that are reported as soon as they are complete (EPL).

`nfa.threads.machine` drops threads that are less preferred than a match. Here a complete thread stays at its place in the
order of preference among the open threads, until the caller removes it.
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


class EagerThread(NamedTuple):
    """A thread: the instruction at which it waits for a row (`Steps.done`: it is complete), and its rows so far."""

    at: int
    path: Path[Any]


@dataclass(slots=True)
class Start(Generic[Row]):
    """The threads from one row, the most preferred first."""

    index: int
    row: Row
    threads: list[EagerThread] = field(default_factory=list)


class StepResult(NamedTuple):
    """A start's threads after a row, those that it completes, and those that fail where it could be their last."""

    threads: list[EagerThread]
    complete: list[EagerThread]
    refused: list[EagerThread]


class Steps(Generic[Row]):
    """Moves threads through a program.

    >>> from nfa.parse import parse_pattern
    >>> from nfa.program import compile_program
    >>> steps = Steps(compile_program(parse_pattern("A B*")), lambda symbol, row, path: row == symbol)
    >>> start = steps.begin(0, "A")
    >>> [steps.symbol(thread.at) or "complete" for thread in start.threads]
    ['B', 'complete']
    """

    def __init__(self, program: Program, holds: Holds[Row]) -> None:
        machine = Machine(program, holds, depends_on_path=True)
        self.holds, self.done = holds, machine.done
        self._names = [line.name if isinstance(line, MatchSymbol) else None for line in program.instructions]
        self._after = {
            place: machine.all_waiting(place + 1) for place, name in enumerate(self._names) if name is not None
        }
        self._roots = [EagerThread(at, machine.root) for at in machine.all_waiting(0) if at != self.done]

    def symbol(self, at: int) -> str | None:
        """The symbol that a thread at an instruction waits for; None for a complete thread."""
        return self._names[at]

    def is_complete(self, thread: EagerThread) -> bool:
        """Whether the thread is a match."""
        return thread.at == self.done

    def is_last(self, at: int) -> bool:
        """Whether the row taken at an instruction may be the last of a match."""
        return self.done in self._after[at]

    def begin(self, index: int, row: Row) -> Start[Row]:
        """The threads whose first row is this one."""
        return Start(index, row, self.move(self._roots, index, row).threads)

    def move(self, threads: list[EagerThread], index: int, row: Row) -> StepResult:
        """Moves threads by one row; complete ones keep their place in the order of preference."""
        found, complete, refused = list[EagerThread](), list[EagerThread](), list[EagerThread]()
        seen: set[EagerThread] = set()
        known_paths: dict[tuple[str, int], Path[Row] | None] = {}
        for thread in threads:
            if thread.at == self.done:
                found.append(thread)
                continue
            path = self._extended(thread, index, row, known_paths)
            if path is None:
                if self.is_last(thread.at):
                    refused.append(thread)
                continue
            for there in self._after[thread.at]:
                after = EagerThread(there, path)
                if after not in seen:
                    seen.add(after)
                    found.append(after)
                    if there == self.done:
                        complete.append(after)
        if len(found) > THREAD_LIMIT:
            raise BudgetError(f"one start of the pattern has {len(found)} threads open; the limit is {THREAD_LIMIT}")
        return StepResult(found, complete, refused)

    def _extended(
        self, thread: EagerThread, index: int, row: Row, known: dict[tuple[str, int], Path[Row] | None]
    ) -> Path[Row] | None:
        # One object for each distinct path, so that equal threads are equal.
        name = self._names[thread.at]
        assert name is not None
        key = (name, id(thread.path))
        if key not in known:
            known[key] = thread.path.take(name, index, row) if self.holds(name, row, thread.path) else None
        return known[key]


def open_threads(start: Start[Row], steps: Steps[Row]) -> Iterator[EagerThread]:
    """The threads of a start that are not complete."""
    return (thread for thread in start.threads if not steps.is_complete(thread))


# Which complete matches are reported and when, as in Esper


class CompleteMatch(NamedTuple):
    """A match: the index and row it starts at, its rows, and its number in the order of completion."""

    start: int
    first: Any
    path: Path[Any]
    number: int = 0


@dataclass(frozen=True, slots=True)
class MatchSelection:
    """Selects the matches of a delivery that are reported: all, or those that AFTER MATCH SKIP leaves."""

    after: After = After.PAST_LAST_ROW
    all_matches: bool = False

    def of(self, matches: Iterable[CompleteMatch]) -> list[CompleteMatch]:
        """The matches to report; `matches` are in the order of their starts, and of preference within a start."""
        return list(matches) if self.all_matches else self.preferred(matches)

    def preferred(self, matches: Iterable[CompleteMatch]) -> list[CompleteMatch]:
        """At most one match per start, and none from a start that a match before it skips."""
        chosen: list[CompleteMatch] = []
        bound = -1
        for match in matches:
            if match.start > bound:
                chosen.append(match)
                bound = max(match.start, self.skipped_to([match]))
        return chosen

    def skipped_to(self, reported: Iterable[CompleteMatch]) -> int:
        """The index of the last row at which no match may start any more."""
        if self.after is After.PAST_LAST_ROW:
            return max((match.path.index for match in reported), default=-1)
        if self.after is After.TO_NEXT_ROW:
            return max((match.start for match in reported), default=-1)
        return -1


class EagerMatcher(Generic[Row]):
    """The matches of one partition, each reported at the row that completes it.

    >>> from nfa.parse import parse_pattern
    >>> from nfa.program import compile_program
    >>> steps = Steps(compile_program(parse_pattern("A+ B")), lambda symbol, row, path: row == symbol)
    >>> eager = EagerMatcher(steps, MatchSelection())
    >>> [[match.path.rows() for match in eager.feed(row, time)] for time, row in enumerate("AAB")]
    [[], [], [['A', 'A', 'B']]]
    """

    def __init__(self, steps: Steps[Row], selection: MatchSelection) -> None:
        self.steps, self.selection = steps, selection
        self.starts: list[Start[Row]] = []
        self.count = 0
        self.took_row = False
        """Whether some thread took the last row."""

    def feed(self, row: Row, now: int) -> list[CompleteMatch]:
        """Adds a row; returns the matches that it completes, and drops the starts that they skip."""
        found = self._advance(row)
        reported = self.selection.of(found)
        bound = self.selection.skipped_to(reported)
        for start in self.starts:
            start.threads = list(open_threads(start, self.steps))
        self.starts = [start for start in self.starts if start.threads and start.index > bound]
        return reported

    def expire(self, has_left: Callable[[Row], bool]) -> None:
        """Drops the starts whose first row has left the window; a start's other rows leave later."""
        self.starts = [start for start in self.starts if not has_left(start.row)]

    def delete_row(self, index: int) -> None:
        """Drops the starts that hold the row of this index, which is the oldest row taken."""
        self.starts = [start for start in self.starts if start.index > index]

    def refeed(self, rows: Iterable[Row]) -> None:
        """Starts anew with rows that were fed before; nothing is reported or skipped."""
        self.starts, self.count = [], 0
        for row in rows:
            self._advance(row)
            for start in self.starts:
                start.threads = list(open_threads(start, self.steps))
            self.starts = [start for start in self.starts if start.threads]

    @staticmethod
    def _took(start: Start[Row], index: int) -> bool:
        return any(thread.path.index == index for thread in start.threads)

    def _advance(self, row: Row) -> list[CompleteMatch]:
        """Moves all starts by one row, and adds the new one; returns the matches that it completes."""
        found: list[CompleteMatch] = []
        for start in self.starts:
            move = self.steps.move(start.threads, self.count, row)
            start.threads = move.threads
            found += (self._complete(start, thread) for thread in move.complete)
        begin = self.steps.begin(self.count, row)
        self.took_row = bool(begin.threads) or any(self._took(start, self.count) for start in self.starts)
        if begin.threads:
            self.starts.append(begin)
            found += (self._complete(begin, thread) for thread in begin.threads if self.steps.is_complete(thread))
        self.count += 1
        return found

    def _complete(self, start: Start[Row], thread: EagerThread) -> CompleteMatch:
        return CompleteMatch(start.index, start.row, thread.path)


class BatchMatcher(EagerMatcher[Row]):
    """Reports the matches of several rows as one delivery: of a batch, or of the content of a window."""

    def feed(self, row: Row, now: int) -> list[CompleteMatch]:
        self._advance(row)
        return []

    @property
    def complete_at(self) -> int | None:
        """The index of the row that completed the first match."""
        ends = (
            thread.path.index for start in self.starts for thread in start.threads if self.steps.is_complete(thread)
        )
        return min(ends, default=None)

    def finish(self) -> list[CompleteMatch]:
        """The matches to report of all rows so far."""
        return self.selection.of(self._complete_matches())

    def current_matches(self) -> list[CompleteMatch]:
        """The matches that an on-demand query shows.

        Even with all matches, none is from a start that an earlier match skips.
        """
        if not self.selection.all_matches:
            return self.finish()
        starts = {match.start for match in self.selection.preferred(self._complete_matches())}
        return [match for match in self._complete_matches() if match.start in starts]

    def _complete_matches(self) -> list[CompleteMatch]:
        return [
            self._complete(start, thread)
            for start in self.starts
            for thread in start.threads
            if self.steps.is_complete(thread)
        ]


class IntervalMatcher(EagerMatcher[Row]):
    """Reports matches `interval` ms after their first row; of matches due at the same time the preferred ones.

    `or_terminated`: a match is reported earlier if no row can extend it, or when a row fails that could have been its last.
    `time(row)` is the time (ms) of a row. Open threads continue after a report.
    """

    def __init__(
        self,
        steps: Steps[Row],
        selection: MatchSelection,
        interval: int,
        time: Callable[[Row], int],
        or_terminated: bool = False,
    ) -> None:
        super().__init__(steps, selection)
        self.interval, self.time, self.or_terminated = interval, time, or_terminated
        self.pending: dict[int, dict[Path[Row], int]] = {}
        """For each start its matches that are not reported yet, which are complete threads of it, with their numbers."""
        self.number = 0

    def feed(self, row: Row, now: int) -> list[CompleteMatch]:
        """Adds a row; returns the matches that are reported without waiting any longer."""
        released = self._refused(row) if self.or_terminated else set()
        for match in self.selection.of(self._advance(row)):
            self.number += 1
            self.pending.setdefault(match.start, {})[match.path] = self.number
            if self._until(match.first) <= now or (self.or_terminated and self._is_final(match)):
                released.add(match.path)
        for start in self.starts:
            waiting = self.pending.get(start.index, {})
            start.threads = [
                thread for thread in start.threads if not self.steps.is_complete(thread) or thread.path in waiting
            ]
        self.starts = [start for start in self.starts if start.threads]
        return self._released(released)

    def due(self, deadline: int) -> list[CompleteMatch]:
        """The matches that are due at this time."""
        starts = (start for start in self.starts if self._until(start.row) <= deadline)
        return self._released({path for start in starts for path in self.pending.get(start.index, ())})

    @property
    def deadline(self) -> int | None:
        """The time (ms) at which the next match is due."""
        return min((self._until(start.row) for start in self.starts if start.index in self.pending), default=None)

    def expire(self, has_left: Callable[[Row], bool]) -> None:
        """Drops the open threads of starts whose first row has left the window; pending matches stay."""
        for start in self.starts:
            if has_left(start.row):
                start.threads = [thread for thread in start.threads if self.steps.is_complete(thread)]
        self.starts = [start for start in self.starts if start.threads]

    def _until(self, first: Row) -> int:
        return self.time(first) + self.interval

    def _released(self, paths: set[Path[Row]]) -> list[CompleteMatch]:
        """Removes the matches with these paths from the pending ones; returns the ones to report."""
        if not paths:
            return []
        found: list[CompleteMatch] = []
        for start in self.starts:
            waiting = self.pending.get(start.index, {})
            going = [thread for thread in start.threads if self.steps.is_complete(thread) and thread.path in paths]
            found += (self._complete(start, thread)._replace(number=waiting.pop(thread.path)) for thread in going)
            start.threads = [thread for thread in start.threads if thread not in going]
            if not waiting:
                self.pending.pop(start.index, None)
        self.starts = [start for start in self.starts if start.threads]
        if self.selection.all_matches:
            return sorted(found, key=lambda match: (match.start, match.number))
        return self.selection.preferred(found)

    def _is_final(self, match: CompleteMatch) -> bool:
        """Whether no row can extend the match."""
        threads = (thread for start in self.starts if start.index == match.start for thread in start.threads)
        return not any(thread.path is match.path and not self.steps.is_complete(thread) for thread in threads)

    def _refused(self, row: Row) -> set[Path[Row]]:
        """The pending matches that a row ends: the row fails where it could have been the last, after the same bindings."""
        released: set[Path[Row]] = set()
        for start in self.starts:
            waiting = self.pending.get(start.index, ())
            refused = self.steps.move(start.threads, self.count, row).refused if waiting else []
            released |= {path for thread in refused for path in waiting if _agree(path, thread.path)}
        return released


def _agree(one: Path[Row], other: Path[Row]) -> bool:
    """Whether two paths bind the same rows to each variable, up to the shorter of both lists of rows."""

    names = {symbol for symbol, _, _ in one.steps()} & {symbol for symbol, _, _ in other.steps()}
    for name in names:
        left = [index for symbol, index, _ in one.steps() if symbol == name]
        right = [index for symbol, index, _ in other.steps() if symbol == name]
        if any(a != b for a, b in zip(reversed(left), reversed(right), strict=False)):
            return False
    return True
