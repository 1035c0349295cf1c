"""The state in memory of the machine of EPL's match_recognize: open matches by partition, the window, and deletions.

The rules are numbered as in docs/epl.md (M1 to M21).
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from bridge import query
from bridge.patterns.live.machine import Deadlines, MachineState
from bridge.patterns.live.results import MatchReport
from bridge.patterns.live.rows import BEGINNING, Key, LiveTask, Partition, RetainedRows, Row, RowId
from bridge.patterns.strategies.machine import PathConditions
from nfa.program import MatchSymbol
from nfa.threads.eager import BatchMatcher, CompleteMatch, EagerMatcher, IntervalMatcher, MatchSelection, Steps
from windows.databases import Database
from windows.extent import Extent
from windows.extents import Rows


class RowDeletion(NamedTuple):
    """The deletion of a row of the window by the event `at`."""

    at: RowId
    row: RowId


@dataclasses.dataclass(frozen=True)
class Reporting:
    """Which matches of a clause are reported and when, and the window whose rows they may contain."""

    selection: MatchSelection
    window: Extent | None
    interval: int | None
    or_terminated: bool

    @classmethod
    def of(cls, node: query.EagerMatch) -> Reporting:
        below = node.input.input if isinstance(node.input, query.WindowWithDeletions) else node.input
        window = below.extent if isinstance(below, query.Window) else None
        return cls(MatchSelection(node.after, node.all_matches), window, node.interval, node.or_terminated)

    @property
    def shrinking_window(self) -> Extent | None:
        """The window, if rows leave it."""
        return self.window if self.window is not None and self.window.leaves else None

    @property
    def batch(self) -> int | None:
        """The number of rows that are processed together; None if each is processed by itself."""
        return self.window.slide if isinstance(self.window, Rows) else None


@dataclasses.dataclass
class EagerPartition(Partition[EagerMatcher[int]]):
    """A partition of an EagerMachine, and its deadline in the queue."""

    awaited: int | None = None

    def first_open(self) -> int:
        """The index of the first row in an open match; if there is none, the index of the next row."""
        return min((start.index for start in self.machine.starts), default=self.machine.count)


class EagerState(MachineState[MatchReport]):
    """The partitions, the content of the window, and the rows deleted from it since the last checkpoint.

    `reread` returns all retained rows in order. `tracks_deletions`: whether rows may be deleted from the window.
    """

    def __init__(
        self,
        task: LiveTask,
        reporting: Reporting,
        database: Database,
        tracks_deletions: bool = False,
        reread: Callable[[], Sequence[Row]] = list,
    ) -> None:
        self.task, self.reporting, self.tracks_deletions, self._reread = task, reporting, tracks_deletions, reread
        self.rows = RetainedRows(task, database)
        self._window = reporting.shrinking_window
        self.steps = Steps(task.program, PathConditions(self.rows).holds)
        self.partitions: dict[Key, EagerPartition] = {}
        self.deadlines: Deadlines[Key] = Deadlines()
        self.content: collections.deque[RowId] = collections.deque()
        self.newest: RowId = BEGINNING
        self.deleted: set[RowId] = set()
        """The rows deleted since the last checkpoint."""
        self.keys: dict[RowId, Key] = {}
        self.taken: dict[Key, dict[RowId, None]] = {}
        """Per partition, the rows of the window that some thread has taken, oldest first.

        Kept if rows can be deleted.
        """
        self._touched: dict[Key, None] = {}
        self._discarded: list[int] = []
        lines = enumerate(task.program.instructions)
        self.codes = {line.name: place for place, line in lines if isinstance(line, MatchSymbol)}

    @property
    def oldest(self) -> RowId:
        """The oldest row in the window; without a window the newest row."""
        return self.content[0] if self.content else self.newest

    def partition(self, key: Key) -> EagerPartition:
        found = self.partitions.get(key)
        if found is None:
            found = self.partitions[key] = EagerPartition(self._machine())
        return found

    def _machine(self) -> EagerMatcher[int]:
        reporting = self.reporting
        if reporting.batch is not None:
            return BatchMatcher(self.steps, reporting.selection)
        if reporting.interval is None:
            return EagerMatcher(self.steps, reporting.selection)
        time = self.rows.time_of.__getitem__
        return IntervalMatcher(self.steps, reporting.selection, reporting.interval, time, reporting.or_terminated)

    # Rows in, reports out -------------------------------------------------------------------------------------------------

    def feed(self, rows: Iterable[Row], deletions: Sequence[Row]) -> Iterator[MatchReport]:
        """The reports that rows cause, in order. An event deletes rows before it is inserted itself."""
        if not deletions:
            for row in rows:
                yield from self._feed(row)
            return
        row_id = self.task.row_id
        gone = sorted(RowDeletion((line[0], line[1], -1), (line[2], line[3], line[4])) for line in deletions)
        for item in heapq.merge(rows, gone, key=lambda one: one.at if isinstance(one, RowDeletion) else row_id(one)):
            if isinstance(item, RowDeletion):
                self._delete(item)
            else:
                yield from self._feed(item)

    def _feed(self, row: Row) -> Iterator[MatchReport]:
        row_id = self.task.row_id(row)
        ts, seq, _ = row_id
        yield from self.elapse(ts)
        key = self.task.key(row)
        self.newest = row_id
        partition = self.partition(key)
        number = self.rows.add(row)
        partition.rows.append(number)
        self._touched[key] = None
        self._enter(partition, row_id)
        matches = partition.machine.feed(number, ts)
        if self.tracks_deletions:
            self.enter(row_id, key, partition.machine.took_row)
        for match in matches:
            yield self.report(match, ts, seq)
        self.await_deadline(key, partition)
        batch = self.reporting.batch
        if batch is not None and self.rows.count % batch == 0:
            yield from self._end_batch(ts, seq)

    def report(self, match: CompleteMatch, ts: int, seq: int) -> MatchReport:
        steps = list(match.path.steps())[::-1]
        return MatchReport(
            ts, seq, (), [number for _, _, number in steps], [self.codes[symbol] for symbol, _, _ in steps]
        )

    # Windows and time -----------------------------------------------------------------------------------------------------

    def _enter(self, partition: EagerPartition, row_id: RowId) -> None:
        """Adds the row to the window. Open matches that contain rows that leave the window end."""
        window, content = self._window, self.content
        if window is not None:
            content.append(row_id)
            while window.has_left(content[-1][0] - content[0][0], len(content) - 1):
                content.popleft()
            self._end_expired(partition)

    def _end_expired(self, partition: EagerPartition) -> None:
        """Ends the open matches of a partition that contain a row older than the window."""
        if self.content and self.reporting.batch is None:
            oldest = self.content[0]
            partition.machine.expire(lambda row: self.rows.row_id_of[row] < oldest)

    def _end_batch(self, ts: int, seq: int) -> Iterator[MatchReport]:
        """The matches of a full batch. The next batch begins without rows."""
        yield from (self.report(match, ts, seq) for match in self.of_batches(BatchMatcher.finish))
        self._touched |= dict.fromkeys(self.partitions)
        for partition in self.partitions.values():
            partition.machine.starts.clear()

    def of_batches(self, matches: Callable[[BatchMatcher[int]], list[CompleteMatch]]) -> list[CompleteMatch]:
        """The matches of all partitions' batches, in the order in which each partition's first match was complete."""
        first = []
        for partition in self.partitions.values():
            machine = partition.machine
            if isinstance(machine, BatchMatcher) and (index := machine.complete_at) is not None:
                first.append((partition.row(index), machine))
        return [match for _, machine in sorted(first, key=lambda pair: pair[0]) for match in matches(machine)]

    def await_deadline(self, key: Key, partition: EagerPartition) -> None:
        """Queues the time at which the next match of a partition is due."""
        deadline = partition.machine.deadline if isinstance(partition.machine, IntervalMatcher) else None
        if deadline is not None and deadline != partition.awaited:
            partition.awaited = deadline
            self.deadlines.add(deadline, key)

    def next_deadline(self) -> int | None:
        return self.deadlines.next

    def due(self, deadline: int) -> Iterator[MatchReport]:
        """The reports of that time, by the partition with the earliest start.

        If all matches are reported, just by their starts.
        """
        keys: dict[Key, None] = {}
        while self.deadlines.next == deadline:
            keys[self.deadlines.pop()] = None
        found = sorted(filter(None, (self._due(key, deadline) for key in keys)), key=lambda several: several[0].first)
        matches = [match for several in found for match in several]
        if self.reporting.selection.all_matches:
            matches.sort(key=lambda match: match.first)
        yield from (self.report(match, deadline, 0) for match in matches)

    def _due(self, key: Key, deadline: int) -> list[CompleteMatch]:
        partition = self.partitions.get(key)
        if partition is None or not isinstance(partition.machine, IntervalMatcher):
            return []
        found = partition.machine.due(deadline)
        partition.awaited = None
        self._touched[key] = None
        self.await_deadline(key, partition)
        return found

    # Deletions (M18 to M21) -----------------------------------------------------------------------------------------------

    def enter(self, row_id: RowId, key: Key, is_taken: bool) -> None:
        """Notes a row of the window, and whether some thread has taken it."""
        self.keys[row_id] = key
        if is_taken:
            self.taken.setdefault(key, {})[row_id] = None

    def _delete(self, deletion: RowDeletion) -> None:
        """Deletes a row. The oldest row taken ends the matches that contain it.

        Another row makes its partition begin again.
        """
        row_id = deletion.row
        if row_id in self.deleted or row_id not in self.keys:
            return
        self.deleted.add(row_id)
        key = self.keys.pop(row_id)
        taken = self.taken.get(key, {})
        if row_id not in taken:
            return
        is_oldest = next(iter(taken)) == row_id
        del taken[row_id]
        partition = self.partitions.get(key)
        if not is_oldest:
            self._retake(key, deletion.at)
        elif partition is not None:
            row_ids = [self.rows.row_id_of[number] for number in partition.rows]
            if row_id in row_ids:
                partition.machine.delete_row(partition.base + row_ids.index(row_id))
                self._touched[key] = None

    def _retake(self, key: Key, until: RowId) -> None:
        """Processes the rows of a partition again, without reporting."""
        old = self.partitions.pop(key, None)
        if old is not None:
            self._discarded += old.rows  # matches of this push may contain them
        partition = self.partition(key)
        for row in self._reread():
            row_id = self.task.row_id(row)
            if self.task.key(row) == key and row_id < until and row_id not in self.deleted:
                partition.rows.append(self.rows.add(row))
        partition.machine.refeed(partition.rows)
        self._touched[key] = None

    # Memory -------------------------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Drops rows that are in no open match, and partitions without rows."""
        for key in self._touched:
            partition = self.partitions.get(key)
            if partition is not None:
                self.rows.drop(partition.release(partition.first_open()))
                if not partition.rows:
                    del self.partitions[key]
        self._touched.clear()
        self.rows.drop(self._discarded)
        self._discarded.clear()

    def release_expired(self) -> None:
        """The same, including rows that have left the window since the newest row of their partition."""
        for key, partition in self.partitions.items():
            self._end_expired(partition)
            self._touched[key] = None
        self.release()
