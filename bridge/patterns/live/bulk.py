"""Many rows of a stream at once: the strategies for bounded data find the matches, and when each was decided.

Like the machine, it goes from the retained rows and the progress of each partition to results and new progress. It has
nothing else in memory, so either can continue after the other.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from bridge.patterns.arrays import Array, Bools, Ints, arrow_columns, take
from bridge.patterns.live.decision_times import AT_THE_END, BY_ROW, Decisions, decision_times, has_decision_times
from bridge.patterns.live.results import result_table
from bridge.patterns.live.rows import BEGINNING, LiveTask
from bridge.patterns.live.statements import DecidedStatements, LateStorage
from bridge.patterns.members import Members, match_numbers
from bridge.patterns.output import output_rows
from bridge.patterns.planner import over_rows, run
from bridge.patterns.rows import SortedRows
from bridge.patterns.task import Task
from nfa.arrays.matches import Matches, select
from nfa.program import AnchorEnd, AnchorStart
from windows.arrow import ids_table
from windows.databases import Database
from windows.sql import column


def can_run_in_bulk(task: LiveTask, ahead: int) -> bool:
    """Whether `Bulk` supports a task: no condition reads later rows, and no anchor asks for a partition's end."""
    anchored = any(isinstance(line, AnchorStart | AnchorEnd) for line in task.program.instructions)
    return not ahead and not anchored and has_decision_times(task.clause, task.conditions)


class BulkOutcome(NamedTuple):
    """The rows of the result table, the lines of progress, and the ids (ts, seq, place) of the rows still needed."""

    results: pa.Table | None
    progress: pa.Table | None
    needed: list[Ints]


@dataclasses.dataclass(frozen=True)
class Bulk:
    """Processes many rows as a DecidedMachine would process them one by one, on the same tables."""

    task: LiveTask
    statements: DecidedStatements
    table: str

    def run(self, database: Database, now: int, last: int | None = None) -> int:
        """Reports the matches that the retained rows and the time `now` decide.

        Returns the number of rows still needed.

        `last`: the `seq` of the last event of all; then open matches are also decided, in the order of their first
        rows.

        Raises:
            QueryError, ExhaustedError: the machine has to process the rows; nothing was written.
        """
        width, late = self.task.key_width, self.statements.late
        sql = self.statements.retained if late is None else late.rows
        rows = arrow_columns(database, sql, width + 4 + len(self.task.expressions))
        outcome = self.outcome(database, rows, arrow_columns(database, self.statements.progress, width + 8), now, last)
        if late is not None:
            _store(database, late, outcome.needed)
        if outcome.results is not None:
            database.append(database.quoted(self.table), outcome.results)
        if outcome.progress is not None:
            database.append(self.statements.progress_table, outcome.progress)
        return len(outcome.needed[0])

    def outcome(
        self, database: Database, rows: list[Array], progress: list[Array], now: int, last: int | None
    ) -> BulkOutcome:
        """The matches that these retained rows, their partitions' progress and the time `now` decide; see `run`."""
        width = self.task.key_width
        names = [key.name for key in self.task.clause.partition_by]
        partitions = Partitions.of(rows, progress, width)
        symbol_sets, *values = partitions.values
        known = dict(zip(self.task.expressions, values, strict=True))
        keys = dict(zip(names, partitions.keys, strict=True))
        task = self._task(RetainedColumns(database, partitions, known, keys), partitions, _ints(symbol_sets))
        found = run(task, over_rows(task).strategy)
        searches = decision_times(task, found, partitions.ts, now)
        decisions = searches.decisions_of(found)
        decided = np.flatnonzero((decisions.how != AT_THE_END) | (last is not None))
        results = None
        if len(decided):
            results = self._results(task, partitions, select(found, decided), decisions.of(decided), last or 0)
        return self._outcome(results, partitions, searches.open, found.starts[decided])

    def _task(self, rows: RetainedColumns, partitions: Partitions, symbol_sets: Ints) -> Task:
        clause = dataclasses.replace(self.task.clause, order_by=(exp.Ordered(this=column("ts")),))
        task = Task(rows, clause, self.task.conditions, self.task.program)
        rows.know(column("ts"), pa.array(partitions.ts))
        # A row that is retained only for PREV cannot match a symbol.
        rows.know(task.symbol_set, pa.array(np.where(partitions.behind, 0, symbol_sets)))
        return task

    def _results(self, task: Task, partitions: Partitions, found: Matches, decisions: Decisions, last: int) -> pa.Table:
        """The results of decided matches, in the order in which they were decided."""
        members = Members(found, self.task.program, partitions.ends)
        numbers = match_numbers(found.starts, partitions.ends)
        members.numbers = numbers + partitions.matches[partitions.number(found.starts)]
        which = output_rows(members, self.task.clause.per_match, len(partitions.ts))
        turn, seq = _turns(partitions, found, decisions, last)
        which = which.take(np.argsort(turn[which.match], kind="stable"))
        ts, seq = decisions.time[which.match], seq[which.match]
        return result_table(self.task, task.database, task.rows, members, which, ts, seq)

    def _outcome(
        self, results: pa.Table | None, partitions: Partitions, open_starts: Ints, reported: Ints
    ) -> BulkOutcome:
        """The outcome, with a line of progress for each partition that has moved on.

        Rows before it are no longer needed.
        """
        starts = partitions.ends.copy()
        of, first = np.unique(partitions.number(open_starts), return_index=True)
        starts[of] = open_starts[first]
        needed = np.maximum(starts - self.task.behind, partitions.firsts)
        moved = np.flatnonzero((needed > partitions.firsts) | (starts > partitions.starts))
        progress = None
        if len(moved):
            last = [
                np.where(needed > partitions.firsts, own[np.maximum(needed - 1, 0)], before)
                for own, before in zip(partitions.row_ids, partitions.passed, strict=True)
            ]
            matches = partitions.matches + np.bincount(partitions.number(reported), minlength=len(starts))
            base = partitions.base - partitions.firsts
            # How far matches reach matters only with UNMATCHED ROWS, which `Bulk` does not support.
            lines = [own[moved] for own in (*last, base + needed, base + starts, base + starts, matches)]
            keys = (take(key, partitions.order[partitions.firsts[moved]]) for key in partitions.keys)
            columns = [*keys, *map(pa.array, lines)]
            columns.append(pa.array(np.full(len(moved), partitions.version + 1)))
            names = [f"c{place}" for place in range(len(columns))]
            progress = pa.Table.from_arrays(columns, names=names)
        rows = np.arange(len(partitions.ts))
        return BulkOutcome(
            results, progress, [own[rows >= np.repeat(needed, partitions.sizes)] for own in partitions.row_ids]
        )


def _store(database: Database, late: LateStorage, needed: Sequence[Ints]) -> None:
    """Stores the rows that are still needed, and no others."""
    database.execute(late.empty)
    database.append(late.needed, ids_table(["ts", "seq", "place"], needed))
    for statement in late.keep:
        database.execute(statement)


@dataclasses.dataclass
class BulkHistory:
    """A history in slices: the rows that are still needed are read again with the next slice; progress is kept here."""

    bulk: Bulk
    progress: list[Array] = dataclasses.field(default_factory=list)
    needed: list[Ints] = dataclasses.field(default_factory=list)
    """The ids of the rows that the next slice needs: ts, seq and place."""

    @property
    def rows(self) -> str:
        """The table whose rows it reads: the needed rows of earlier slices, and the rows of the slice."""
        return self.bulk.statements.rows

    @property
    def table(self) -> str:
        """The table for its result rows."""
        return self.bulk.table

    def run(self, database: Database, now: int, last: int | None) -> pa.Table | None:
        """The rows of the result table; see `Bulk.run`."""
        width = self.bulk.task.key_width
        rows = arrow_columns(database, self.bulk.statements.retained, width + 4 + len(self.bulk.task.expressions))
        if not self.progress:
            self.progress = [*(values.slice(0, 0) for values in rows[:width]), *[pa.array([], pa.int64())] * 8]
        outcome = self.bulk.outcome(database, rows, self.progress, now, last)
        self.needed = outcome.needed
        if outcome.progress is not None:
            self.progress = _newest(self.progress, outcome.progress, width)
        return outcome.results


def _newest(known: list[Array], later: pa.Table, width: int) -> list[Array]:
    """The newest line of progress of each partition. `width`: the number of key columns."""
    lines = [_joined(old, new.combine_chunks()) for old, new in zip(known, later.columns, strict=True)]
    count = len(lines[-1])
    number, _ = _numbered(lines[:width], [values.slice(0, 0) for values in lines[:width]], count, 0)
    _, place = np.unique(number[::-1], return_index=True)
    return [take(values, count - 1 - place) for values in lines]


def _turns(partitions: Partitions, found: Matches, decisions: Decisions, last: int) -> tuple[Ints, Ints]:
    """The place of each match in the order of decisions, and the `seq` of the deciding row (0: decided by time alone).

    Matches that no row decides are in the order of their first rows.
    """
    by_row, count = decisions.how == BY_ROW, len(decisions.how)
    seq = np.where(by_row, partitions.seq[decisions.row], np.where(decisions.how == AT_THE_END, last, 0))
    then = [np.where(by_row, own[decisions.row], own[found.starts]) for own in partitions.row_ids]
    order = np.lexsort((np.arange(count), *reversed(then), seq, decisions.time))
    turn = np.empty(count, np.int64)
    turn[order] = np.arange(count)
    return turn, seq


class RetainedColumns(SortedRows):
    """The retained rows by partition and time, in the form of sorted rows of which only some expressions are known."""

    def __init__(
        self, database: Database, partitions: Partitions, known: Mapping[exp.Expr, Array], keys: Mapping[str, Array]
    ) -> None:
        self.database, self.ends = database, partitions.ends
        self._places, self._known, self._own_keys = partitions.order, dict(known), keys

    def know(self, expression: exp.Expr, values: Array) -> None:
        """Adds the value of an expression for each row."""
        self._known[expression] = values

    def columns(self, expressions: Sequence[exp.Expr]) -> list[Array]:
        return [self._known[expression] for expression in expressions]

    def key(self, name: str, rows: Ints) -> Array:
        return take(self._own_keys[name], self._places[rows])


@dataclasses.dataclass(frozen=True)
class Partitions:
    """The retained rows, partition by partition in the order of their ids, and the progress of each partition.

    Per partition: `firsts` and `ends` among the rows; `base`, the index of its first row in the partition; `starts`,
    the current start; `matches`, the number of matches so far; `passed`, the id of the last row that is not needed.
    `keys` are the keys of the rows in their original order, and `order` has their places in it. `values` are the symbol
    sets and the other values.
    """

    keys: list[Array]
    order: Ints
    values: list[Array]
    row_ids: tuple[Ints, Ints, Ints]
    firsts: Ints
    ends: Ints
    base: Ints
    starts: Ints
    matches: Ints
    passed: list[Ints]
    version: int

    @staticmethod
    def of(rows: list[Array], progress: list[Array], width: int) -> Partitions:
        """The partitions for columns of retained rows and of progress, both with `width` key columns first."""
        partition, owner = _numbered(rows[:width], progress[:width], len(rows[0]), len(progress[0]))
        count = int(max(partition.max(initial=-1), owner.max(initial=-1))) + 1
        lines = [_ints(values) for values in progress[width:]]
        passed = [np.full(count, value, np.int64) for value in BEGINNING]
        base, start, covered, matches = (np.zeros(count, np.int64) for _ in range(4))
        for own, line in zip((*passed, base, start, covered, matches), lines, strict=False):
            own[owner] = line
        sizes = np.bincount(partition, minlength=count)
        order, row_ids = _sorted([_ints(values) for values in rows[width : width + 3]], partition, sizes)
        if len(lines[0]):
            needed = _is_later(row_ids, [np.repeat(own, sizes) for own in passed])
            if not needed.all():
                order, row_ids = order[needed], [own[needed] for own in row_ids]
                sizes = np.bincount(partition[order], minlength=count)
        ends = np.cumsum(sizes)
        firsts = ends - sizes
        ts, seq, place = row_ids
        ordered = [take(values, order) for values in rows[width + 3 :]]
        version = int(lines[-1].max(initial=0))
        return Partitions(
            rows[:width],
            order,
            ordered,
            (ts, seq, place),
            firsts,
            ends,
            base,
            firsts + start - base,
            matches,
            passed,
            version,
        )

    @property
    def ts(self) -> Ints:
        return self.row_ids[0]

    @property
    def seq(self) -> Ints:
        return self.row_ids[1]

    @property
    def behind(self) -> Bools:
        """Whether a row is before the start of its partition, and is retained only for PREV."""
        return np.arange(len(self.ts)) < np.repeat(self.starts, self.sizes)

    @property
    def sizes(self) -> Ints:
        """The number of rows of each partition."""
        return self.ends - self.firsts

    def number(self, rows: Ints) -> Ints:
        """The partition of each of these rows."""
        return np.searchsorted(self.ends, rows, side="right")


def _sorted(row_ids: Sequence[Ints], partition: Ints, sizes: Ints) -> tuple[Ints, list[Ints]]:
    """The places of rows in the order of their partitions and ids, and the ids in this order.

    `sizes`: of the partitions.
    """
    small = partition.astype(np.uint16) if len(sizes) <= 2**16 else partition
    order = np.argsort(small, kind="stable")  # in linear time where there are few partitions
    ids = [own[order] for own in row_ids]
    ts, seq = ids[:2]
    follows = (ts[1:] > ts[:-1]) | ((ts[1:] == ts[:-1]) & (seq[1:] > seq[:-1]))
    last = np.cumsum(sizes) - 1
    follows[last[(last >= 0) & (last < len(follows))]] = True
    if follows.all():
        return order, ids
    order = np.lexsort((*reversed(row_ids), partition))
    return order, [own[order] for own in row_ids]


def _numbered(rows: list[Array], progress: list[Array], count: int, lines: int) -> tuple[Ints, Ints]:
    """A number per key, for the rows and for the lines of progress."""
    total = np.zeros(count + lines, np.int64)
    for place, (mine, theirs) in enumerate(zip(rows, progress, strict=True)):
        codes, kinds = _coded(_joined(mine, theirs))
        total = np.unique(total * kinds + codes, return_inverse=True)[1].astype(np.int64) if place else codes
    return total[:count], total[count:]


def _coded(values: Array) -> tuple[Ints, int]:
    """A number for each value, and how many numbers there are. All NULLs have one number, as have 0.0 and -0.0."""
    same = pc.add(values, 0.0) if pa.types.is_floating(values.type) else values
    encoded = same.dictionary_encode("encode")
    return np.asarray(encoded.indices, np.int64), max(len(encoded.dictionary), 1)


def _joined(mine: Array, theirs: Array) -> Array:
    if mine.type == theirs.type:
        return pa.concat_arrays([mine, theirs])
    return pa.array([*mine.to_pylist(), *theirs.to_pylist()])


def _is_later(row_ids: Iterable[Ints], than: Iterable[Ints]) -> Bools:
    """Whether each row id is after another one."""
    pairs = list(zip(row_ids, than, strict=True))
    return functools.reduce(
        lambda later, pair: (pair[0] > pair[1]) | ((pair[0] == pair[1]) & later),
        reversed(pairs),
        np.zeros(len(pairs[0][0]), np.bool_),
    )


def _ints(values: Array) -> Ints:
    return np.asarray(values.cast(pa.int64()), np.int64)
