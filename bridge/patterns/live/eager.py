"""EPL's match_recognize over a stream: each match is reported at the row that completes it, or when its interval is over.

The database computes the values of each row, which are in a table. A checkpoint of the open matches is written from
time to time. `restore` reads the checkpoint and processes the later rows again.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from bridge import query
from bridge.patterns.arrays import Array
from bridge.patterns.live.eager_checkpoint import EagerCheckpoint
from bridge.patterns.live.eager_state import EagerPartition, EagerState, Reporting
from bridge.patterns.live.machine import CheckpointSchedule, LiveMachine, program_listing, time_before
from bridge.patterns.live.results import MatchReport, MatchRows
from bridge.patterns.live.rows import ColumnTypes, LiveTask, Row
from bridge.patterns.live.statements import EagerStatements, Rows
from nfa.threads.eager import BatchMatcher
from windows.databases import Database
from windows.sql import column


@dataclasses.dataclass
class EagerMachine(LiveMachine):
    """The machine of one continuous match_recognize of EPL."""

    node: query.EagerMatch
    task: LiveTask
    statements: EagerStatements
    checkpoint_rows: int
    """The least number of rows between two checkpoints."""
    current_table: str
    """The name of the table that `write_current` fills."""
    single: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    """Columns in an aggregate that belong to the only row of another variable: that variable, and its column."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._schedule = CheckpointSchedule(self.checkpoint_rows)
        self.reporting = Reporting.of(self.node)
        # Results have only measures.
        self._output = dataclasses.replace(self.task, clause=dataclasses.replace(self.task.clause, partition_by=()))

    # The tables ---------------------------------------------------------------------------------------------------------

    def restore(self, database: Database) -> None:
        statements = self.statements
        state = self._state = self._new_state(database)
        self._types = ColumnTypes(database, f"SELECT * FROM {statements.retained_table}")
        self._schedule = CheckpointSchedule(self.checkpoint_rows)
        retained = {self.task.row_id(row): row for row in database.fetch(statements.retained)}
        checkpoint = EagerCheckpoint.read(database, statements.row_table, statements.thread_table)
        checkpoint.restore(state, retained)
        new = {self.task.row_id(row) for row in database.fetch(statements.arrived)}
        later = [row for row_id, row in retained.items() if row_id > checkpoint.upto and row_id not in new]
        deleted = (
            set(database.fetch(f"SELECT * FROM {statements.deleted_table}")) if statements.deleted_table else set()
        )
        self._refeed(later, sorted(deleted - set(self._deletions(database))), time_before(database))

    def _new_state(self, database: Database) -> EagerState:
        reread = lambda: database.fetch(self.statements.retained)  # noqa: E731
        return EagerState(self.task, self.reporting, database, self.statements.deleted is not None, reread)

    def _deletions(self, database: Database) -> list[Row]:
        """The deletions of this push."""
        return database.fetch(self.statements.deleted) if self.statements.deleted else []

    def _refeed(self, rows: list[Row], deletions: list[Row], now: int) -> None:
        """Processes rows again whose matches were already reported."""
        self._schedule.rows += len(rows)
        collections.deque(self._state.feed(rows, deletions), maxlen=0)
        collections.deque(self._state.elapse(now), maxlen=0)

    @property
    def is_checkpoint_due(self) -> bool:
        return self._schedule.is_due

    def checkpoint(self, database: Database) -> None:
        """Replaces the last checkpoint, and removes the rows deleted since."""
        statements = self.statements
        self._state.release_expired()
        checkpoint = EagerCheckpoint.of(self._state)
        if statements.deleted_table is not None:
            names = map(database.quoted, ("ts", "seq", "_place"))
            same = " AND ".join(f"g.{name} = {statements.retained_table}.{name}" for name in names)
            where = f"EXISTS (SELECT 1 FROM {statements.deleted_table} AS g WHERE {same})"
            database.execute(f"DELETE FROM {statements.retained_table} WHERE {where}")
            database.execute(f"DELETE FROM {statements.deleted_table}")
            self._state.deleted.clear()
        checkpoint.write(database, statements.row_table, statements.thread_table)
        self._schedule.restart(len(checkpoint))

    # A push -------------------------------------------------------------------------------------------------------------

    def advance(
        self, database: Database, now: int, seq: int, final: bool, arrived: Sequence[Rows] | None = None
    ) -> pa.Table | None:
        """Processes a push. The end of the stream decides nothing, as matches are reported when they are complete."""
        state = self._state
        rows = database.fetch(self.statements.arrived) if arrived is None else sorted(arrived[0], key=self.task.row_id)
        reports = [*state.feed(rows, self._deletions(database)), *state.elapse(now)]
        table = self._table(database, state, reports)
        state.release()
        self._schedule.rows += len(rows)
        return table

    def _table(self, database: Database, state: EagerState, reports: list[MatchReport]) -> pa.Table | None:
        if not reports:
            return None
        return EagerMatchRows(self._output, reports, state, self._types, self.single).table(database)

    def explained(self, pretty: Callable[[str], str]) -> str:
        intro = f"-- a machine reads these rows and writes matches, as they are complete, into {self.table}"
        return f"{intro}\n{pretty(self.statements.arrived)};\n{program_listing(self.task.program)}"

    # On demand ----------------------------------------------------------------------------------------------------------

    def write_current(self, database: Database, now: int) -> None:
        """Writes the matches over the rows in the window into `current_table`, as if these rows came together."""
        name = database.quoted(self.current_table)
        database.execute(f"DELETE FROM {name}")
        table = self._current(database, now) if self.reporting.window is not None else None
        if table is not None:
            database.append(name, table)

    def _current(self, database: Database, now: int) -> pa.Table | None:
        if not self._is_restored:
            self.ensure_restored(database)
            self._refeed(database.fetch(self.statements.arrived), self._deletions(database), now)
        state = EagerState(self.task, self.reporting, database)
        for row in self._in_window(database.fetch(self.statements.retained), now):
            key = self.task.key(row)
            if key not in state.partitions:
                state.partitions[key] = EagerPartition(BatchMatcher(state.steps, self.reporting.selection))
            partition = state.partitions[key]
            partition.rows.append(state.rows.add(row))
            partition.machine.feed(partition.rows[-1], now)
        matches = state.of_batches(BatchMatcher.current_matches)
        ends = [state.rows.row_id_of[match.path.rows()[-1]] for match in matches]
        return self._table(
            database, state, [state.report(match, ts, seq) for (ts, seq, _), match in zip(ends, matches, strict=True)]
        )

    def _in_window(self, rows: list[Row], now: int) -> list[Row]:
        window, batch, state = self.reporting.shrinking_window, self.reporting.batch, self._state
        if batch is not None:
            return rows[max(len(rows) - state.rows.count % batch, 0) :]
        if window is not None:
            ages = ((now - self.task.row_id(row)[0], len(rows) - 1 - place) for place, row in enumerate(rows))
            return [row for row, (age, newer) in zip(rows, ages, strict=True) if not window.has_left(age, newer)]
        return [row for row in rows if self.task.row_id(row) not in state.deleted]


class EagerMatchRows(MatchRows):
    """The rows of reports, with columns that belong to one row of each match."""

    def __init__(
        self,
        task: LiveTask,
        reports: list[MatchReport],
        state: EagerState,
        types: ColumnTypes,
        single: dict[str, tuple[str, str]],
    ) -> None:
        super().__init__(task, reports, state.rows, types)
        self._codes, self._single = state.codes, single

    def column(self, expression: exp.Expr) -> Array:
        if expression.name not in self._single or not isinstance(expression, exp.Column):
            return super().column(expression)
        symbol, name = self._single[expression.name]
        values, found = self._retained.values_of(column(name)), list[Any]()
        for report in self.reports:
            own = [
                row for row, code in zip(report.rows, report.codes or (), strict=True) if code == self._codes[symbol]
            ]
            found += [values[own[-1]] if own else None] * len(report.rows)
        return self.array(found, column(name))
