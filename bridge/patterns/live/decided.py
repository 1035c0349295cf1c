"""MATCH_RECOGNIZE over a stream: each match is reported when no later row can change it (rule S4).

Two tables have everything that is needed: the rows that open matches may read, and the progress of each partition. All
values of single rows are computed by the database.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from bridge.errors import QueryError
from bridge.patterns.live.bulk import Bulk, BulkHistory, can_run_in_bulk
from bridge.patterns.live.machine import Deadlines, LiveMachine, MachineState, program_listing
from bridge.patterns.live.results import MatchReport, MatchRows
from bridge.patterns.live.rows import BEGINNING, ColumnTypes, Key, LiveTask, Partition, RetainedRows, Row, RowId
from bridge.patterns.live.statements import DecidedStatements, Rows
from bridge.patterns.strategies.machine import PathConditions
from bridge.query.row_pattern import PerMatch
from nfa.errors import BudgetError, ExhaustedError, SkipError
from nfa.match import PatternMatch
from nfa.program import MatchSymbol
from nfa.threads.decided import Matcher
from windows.databases import Database

BULK_RETAINED = 32
"""The greatest number of retained rows per event in a push in bulk, which reads all of them."""


@dataclasses.dataclass
class DecidedPartition(Partition[Matcher[int]]):
    """A partition of a DecidedMachine."""

    covered: int = 0
    """The end of the furthest match so far, as an index: from its start on, no row before it is unmatched."""
    reported: int = 0
    """The index of the first row that no report covers yet: the start, when the progress was last written."""
    last: RowId = BEGINNING
    """The newest row given to the machine."""
    passed: RowId = BEGINNING
    """The last row that is no longer needed."""
    written: int = 0
    """The index of the start when the progress was last written."""
    unseen: collections.deque[RowId] = dataclasses.field(default_factory=collections.deque)
    """The rows that wait for later rows, which NEXT reads."""
    awaited: int = -1
    """The index of the start whose deadline is in the queue."""
    overdue: int | None = None
    """A deadline that has passed while earlier rows are still unseen."""


class Arrival(NamedTuple):
    """A row that has come, and the id of the row with which it is ready: its own, or with NEXT that of a later row."""

    ready: RowId
    row_id: RowId
    key: Key
    row: Row

    def by_id(self) -> RowId:
        return self.row_id

    def by_readiness(self) -> tuple[RowId, RowId]:
        return self.ready, self.row_id


class DecidedState(MachineState[MatchReport]):
    """The partitions of a DecidedMachine. NEXT reads `ahead` rows after a row.

    `forgets_partitions`: whether a partition without retained rows equals one that never had a row.
    """

    def __init__(self, task: LiveTask, database: Database, ahead: int, forgets_partitions: bool) -> None:
        self.task, self.ahead, self.forgets_partitions = task, ahead, forgets_partitions
        self.rows = RetainedRows(task, database)
        self.conditions = PathConditions(self.rows)
        self.partitions: dict[Key, DecidedPartition] = {}
        self.deadlines: Deadlines[tuple[int, Key]] = Deadlines()
        self.changed: dict[Key, None] = {}
        self.version = 0
        """The version of the newest line of progress."""
        self._reached = BEGINNING
        self._codes = {
            (line.name, line.excluded): place
            for place, line in enumerate(task.program.instructions)
            if isinstance(line, MatchSymbol)
        }

    # Restoring ----------------------------------------------------------------------------------------------------------

    def restore(self, retained: Iterable[Row], arrived: Iterable[Row], progress: dict[Key, tuple[Any, ...]]) -> None:
        """Takes the retained rows, without those of this push. `progress` has the newest line of each partition.

        With NEXT, the rows have two more columns: the number of rows from each one on, and 1 for a row of this push.
        """
        key_of, row_id = self.task.key, self.task.row_id
        self.version = max((line[-1] for line in progress.values()), default=0)
        new = {(key_of(row), row_id(row)) for row in arrived if not self.ahead or row[-1]}
        come = collections.Counter(key for key, _ in new)
        for row in sorted(retained, key=row_id):
            key = key_of(row)
            if (key, row_id(row)) in new:
                continue
            partition = self._restored_partition(key, progress.get(key))
            if self.ahead and row[-2] - come[key] <= self.ahead:  # it waited for later rows even before this push
                partition.unseen.append(row_id(row))
            elif row_id(row) > partition.passed:
                self._refeed(key, partition, row)
        if not self.forgets_partitions:
            for key, line in progress.items():
                self._restored_partition(key, line)

    def _restored_partition(self, key: Key, progress: tuple[Any, ...] | None) -> DecidedPartition:
        """A partition with the progress that was last written, before any row is given to it."""
        if key in self.partitions or progress is None:
            return self._partition(key)
        partition = self._partition(key)
        ts, seq, place, needed, start, covered, matches, _ = progress
        partition.base, partition.written = needed, start
        partition.passed = partition.last = ts, seq, place
        partition.covered, partition.reported = covered, start
        partition.machine.resume(start, matches)
        return partition

    def _refeed(self, key: Key, partition: DecidedPartition, row: Row) -> None:
        """Gives a retained row to the machine, without reporting; rows before the start are only there for PREV."""
        number = self.rows.add(row)
        partition.rows.append(number)
        partition.last = self.task.row_id(row)
        if partition.end > partition.machine.start:
            self.conditions.set_matcher(partition.machine)
            partition.machine.feed(number)
            self._await_deadline(key, partition)

    # Rows in --------------------------------------------------------------------------------------------------------------

    def arrivals(self, rows: Sequence[Row], end: RowId | None) -> list[Arrival]:
        """The rows that the machine has not seen, in the order in which they become ready.

        `end`: no row comes after this id.
        """
        by_key: dict[Key, list[Arrival]] = {}
        for row in rows:
            key, row_id = self.task.key(row), self.task.row_id(row)
            by_key.setdefault(key, []).append(Arrival(row_id, row_id, key, row))
        found: list[Arrival] = []
        for key, own in by_key.items():
            own.sort(key=Arrival.by_id)
            found += self._ready(key, own, end) if self.ahead else own
        found.sort(key=Arrival.by_readiness)
        return found

    def _ready(self, key: Key, rows: list[Arrival], end: RowId | None) -> Iterator[Arrival]:
        """The rows of a partition that are followed by as many rows as NEXT reads."""
        partition = self._partition(key)
        row_ids = [row.row_id for row in rows]
        ready = [*row_ids[self.ahead :], *([] if end is None else [end] * self.ahead)]
        partition.unseen = collections.deque(row_id for row_id in row_ids if row_id > partition.last)
        for row, when in zip(rows, ready, strict=False):
            if row.row_id > partition.last:
                yield row._replace(ready=when)

    def _partition(self, key: Key) -> DecidedPartition:
        partition = self.partitions.get(key)
        if partition is None:
            partition = self.partitions[key] = DecidedPartition(self.conditions.matcher())
        return partition

    # Reports out --------------------------------------------------------------------------------------------------------

    def feed(self, arrivals: list[Arrival], now: int) -> Iterator[MatchReport]:
        """The reports caused by these rows and by time up to `now`."""
        self._reached = BEGINNING
        for ready, row_id, key, row in arrivals:
            yield from self.elapse(ready[0])
            self._reached = ready
            partition = self._partition(key)
            number = self.rows.add(row)
            partition.rows.append(number)
            partition.last = row_id
            if partition.unseen:
                partition.unseen.popleft()
            self.conditions.set_matcher(partition.machine)
            yield from self._reports(key, partition, partition.machine.feed(number), ready[0], ready[1])
            self._await_deadline(key, partition)
            if partition.overdue is not None:
                yield from self._late(key, partition, partition.overdue, ready)
        yield from self.elapse(now)

    def finish(self, now: int, seq: int) -> Iterator[MatchReport]:
        """The reports of matches that are open at the end."""
        for key, partition in self.partitions.items():
            self.conditions.set_matcher(partition.machine)
            yield from self._reports(key, partition, partition.machine.finish(), now, seq)

    def next_deadline(self) -> int | None:
        return self.deadlines.next

    def due(self, deadline: int) -> Iterator[MatchReport]:
        start, key = self.deadlines.pop()
        partition = self.partitions.get(key)
        if partition is None or partition.machine.start != start or start >= partition.end:
            return
        if partition.unseen and partition.unseen[0][0] < deadline:
            partition.overdue = deadline  # an earlier row waits for a later one
            return
        # A start that began later is then decided, too.
        yield from self._over(key, partition, deadline, max((deadline, 0, 0), self._reached))

    def _late(self, key: Key, partition: DecidedPartition, deadline: int, ready: RowId) -> Iterator[MatchReport]:
        if not partition.unseen or partition.unseen[0][0] >= deadline:
            partition.overdue = None
            yield from self._over(key, partition, deadline, ready)

    def _over(self, key: Key, partition: DecidedPartition, deadline: int, when: RowId) -> Iterator[MatchReport]:
        start = partition.machine.start
        self.conditions.set_matcher(partition.machine)
        yield from self._reports(key, partition, partition.machine.advance_time(deadline), when[0], when[1])
        if partition.machine.start != start:
            self._await_deadline(key, partition)

    def _await_deadline(self, key: Key, partition: DecidedPartition) -> None:
        """Queues the time by which the current start is decided at the latest."""
        start, within = partition.machine.start, self.task.clause.within
        if within is None or start >= partition.end or partition.awaited == start:
            return
        partition.awaited = start
        self.deadlines.add(self.rows.time_of[partition.row(start)] + within, (start, key))

    def _reports(
        self, key: Key, partition: DecidedPartition, matches: list[PatternMatch], ts: int, seq: int
    ) -> Iterator[MatchReport]:
        """The reports of the matches; with UNMATCHED ROWS also of the rows between them that are in no match."""
        unmatched = self.task.clause.per_match is PerMatch.WITH_UNMATCHED
        before = partition.reported
        for match in matches:
            if unmatched:
                yield from self._unmatched(key, partition, before, match.start, ts, seq)
            end = match.start + max(len(match.memberships), 1)
            partition.covered = max(partition.covered, end)
            before = max(before, match.start)
            rows = [partition.row(index) for index in range(match.start, end)]
            codes = [self._codes[member.symbol, member.excluded] for member in match.memberships]
            yield MatchReport(ts, seq, key, rows, codes, match.number)
        if unmatched:
            yield from self._unmatched(key, partition, before, partition.machine.start, ts, seq)
        partition.reported = partition.machine.start
        self.changed[key] = None

    def _unmatched(
        self, key: Key, partition: DecidedPartition, first: int, end: int, ts: int, seq: int
    ) -> Iterator[MatchReport]:
        for index in range(max(first, partition.covered), end):
            partition.covered = index + 1
            yield MatchReport(ts, seq, key, [partition.row(index)], None)

    def first_row(self, report: MatchReport) -> RowId:
        return self.rows.row_id_of[report.rows[0]]

    def order(self, report: MatchReport) -> tuple[int, int, RowId]:
        """The order of the reports of a push. Reports caused by time alone are in the order of their first rows."""
        return report.ts, report.seq, BEGINNING if report.seq else self.first_row(report)

    # Progress -----------------------------------------------------------------------------------------------------------

    def release(self) -> Iterator[tuple[Any, ...]]:
        """Drops the rows that are no longer needed; returns the new lines of progress."""
        self.version += 1
        for key in self.changed:
            partition = self.partitions[key]
            start, matches = partition.machine.start, partition.machine.match_number - 1
            needed = max(start - self.task.behind, partition.base)
            if needed == partition.base and start == partition.written:
                continue
            if needed > partition.base:
                partition.passed = self.rows.row_id_of[partition.row(needed - 1)]
            self.rows.drop(partition.release(needed))
            partition.written = start
            if self.forgets_partitions and not partition.rows and not partition.unseen:
                del self.partitions[key]
            yield (*key, *partition.passed, needed, start, partition.covered, matches, self.version)
        self.changed.clear()


@dataclasses.dataclass
class DecidedMachine(LiveMachine):
    """The machine of one continuous MATCH_RECOGNIZE."""

    task: LiveTask
    statements: DecidedStatements
    ahead: int
    forgets_partitions: bool
    bulk_events: int
    """The least number of events in a push for which the strategies for bounded data match the rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._seq = self._retained = 0
        self._bulk = Bulk(self.task, self.statements, self.table) if can_run_in_bulk(self.task, self.ahead) else None

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Runs as any live machine does.

        Many events are matched by the strategies for bounded data, on the same tables.

        Raises QueryError if AFTER MATCH SKIP leads nowhere, or a limit is exceeded.
        """
        count, self._seq = seq - self._seq, seq
        if self._bulk is not None and self._is_for_bulk(count, final):
            with contextlib.suppress(QueryError, ExhaustedError):
                self._retained = self._bulk.run(database, now, seq if final else None)
                self.forget()
                return
        if self.statements.late is not None:
            database.execute(self.statements.late.store)
        with _refusing():
            super().run(database, now, seq, final)

    def take(self, database: Database, arrived: Sequence[Rows], now: int, seq: int) -> pa.Table | None:
        self._seq = seq
        with _refusing():
            return super().take(database, arrived, now, seq)

    def history(self) -> BulkHistory | None:
        """The equivalent of this machine for a history; None if rows have to be processed one at a time."""
        return None if self._bulk is None else BulkHistory(self._bulk)

    def _is_for_bulk(self, count: int, final: bool) -> bool:
        """Whether there are many events; at the end, many rows from which the machine would have to be restored."""
        if final:
            return not count and not self._is_restored and self._retained >= self.bulk_events
        return count >= max(self.bulk_events, self._retained // BULK_RETAINED)

    def restore(self, database: Database) -> None:
        self._state = DecidedState(self.task, database, self.ahead, self.forgets_partitions)
        self._types = ColumnTypes(database, self.statements.arrived)
        width = self.task.key_width
        progress = {self.task.key(row): row[width:] for row in database.fetch(self.statements.progress)}
        retained, arrived = (database.fetch(sql) for sql in (self.statements.retained, self.statements.arrived))
        self._state.restore(retained, arrived, progress)

    def advance(
        self, database: Database, now: int, seq: int, final: bool, arrived: Sequence[Rows] | None = None
    ) -> pa.Table | None:
        state = self._state
        if arrived is not None:
            (rows,) = arrived
        else:
            rows = database.fetch(self.statements.retained if final and self.ahead else self.statements.arrived)
        end = (now, seq, 0) if final else None
        arrivals = state.arrivals(rows, end)
        fed = list(itertools.takewhile(lambda arrival: arrival.ready != end, arrivals))
        reports = sorted(state.feed(fed, now), key=state.order)
        if final:  # decides waiting and open matches
            last = [*state.feed(arrivals[len(fed) :], now), *state.finish(now, seq)]
            reports += sorted(last, key=state.first_row)
        return MatchRows(self.task, reports, state.rows, self._types).table(database) if reports else None

    @property
    def is_checkpoint_due(self) -> bool:
        """Never: its progress is all that it needs."""
        return False

    def checkpoint(self, database: Database) -> None:
        self.write_progress(database, self.progress())

    def progress(self) -> Rows:
        """A line of progress for each partition that has moved on."""
        lines = list(self._state.release())
        self._retained = len(self._state.rows)
        return lines

    def write_progress(self, database: Database, lines: Rows) -> None:
        """Writes the newest line of each partition."""
        width = self.task.key_width
        newest = list({line[:width]: line for line in lines}.values()) if len(lines) > 1 else lines
        if newest:
            database.insert(self.statements.progress_table, width + 8, newest)

    def explained(self, pretty: Callable[[str], str]) -> str:
        intro = f"-- a machine reads these rows and writes matches, once they are decided, into {self.table}"
        return f"{intro}\n{pretty(self.statements.arrived)};\n{program_listing(self.task.program)}"


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """A context in which errors of the machine are raised as QueryError."""
    try:
        yield
    except (SkipError, BudgetError) as error:
        raise QueryError(str(error)) from error
