"""The results of a live machine in a push, as rows of its result table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge.patterns.arrays import Array, Ints
from bridge.patterns.live.rows import ColumnTypes, Key, LiveTask, RetainedRows
from bridge.patterns.members import Members
from bridge.patterns.output import MatchInput, OutputRows, output_rows
from bridge.query.row_pattern import PerMatch
from nfa.arrays.matches import matches_of
from windows.databases import Database
from windows.times import NEVER


class MatchReport(NamedTuple):
    """A match that is reported at a time by the event `seq` (0: by time alone), or a row that is in no match.

    `rows` are the numbers of its rows; an empty match has the number of its start. `codes` are the instructions that took
    the rows; None for a row in no match. `number` is MATCH_NUMBER().
    """

    ts: int
    seq: int
    key: Key
    rows: list[int]
    codes: list[int] | None
    number: int = 1


def system_columns(ts: Ints | list[int], seq: Ints | list[int]) -> dict[str, Array]:
    """The first columns of every result table, for results with these times and events."""
    count = len(ts)
    columns = {"ts": ts, "seq": seq, "_expires": np.full(count, NEVER), "_place": np.arange(count)}
    return {name: pa.array(values, pa.int64()) for name, values in columns.items()}


def result_table(
    task: LiveTask, database: Database, rows: MatchInput, members: Members, which: OutputRows, ts: Ints, seq: Ints
) -> pa.Table:
    """The rows `which` of a clause's result table.

    `ts` and `seq` are the time and the event at which each is reported.
    """
    output = task.output(database, rows, members, which)
    system = system_columns(ts, seq)
    return pa.Table.from_arrays([*system.values(), *output.columns], names=[*system, *output.column_names])


class MatchRows:
    """The rows of reports as an input of sorted rows, in which each report is a partition."""

    def __init__(
        self, task: LiveTask, reports: Sequence[MatchReport], retained: RetainedRows, types: ColumnTypes
    ) -> None:
        self.task, self.reports, self._retained, self._types = task, reports, retained, types
        self.numbers = [number for report in reports for number in report.rows]
        self.ends = np.cumsum(np.array([len(report.rows) for report in reports], np.int64))
        self._firsts = [0, *self.ends[:-1].tolist()]

    def table(self, database: Database) -> pa.Table:
        """The reports as rows of the result table."""
        clause = self.task.clause
        members = self._members()
        which = output_rows(members, clause.per_match, len(self))
        if clause.per_match is PerMatch.WITH_UNMATCHED:
            which = which.take(np.argsort(which.row, kind="stable"))
        report = self._report_of(which.row)
        ts = np.array([report.ts for report in self.reports], np.int64)[report]
        seq = np.array([report.seq for report in self.reports], np.int64)[report]
        return result_table(self.task, database, self, members, which, ts, seq)

    def _members(self) -> Members:
        matches = [(first, one) for first, one in zip(self._firsts, self.reports, strict=True) if one.codes is not None]
        codes = [one.codes or [] for _, one in matches]
        found = matches_of(
            [first for first, _ in matches], [*map(len, codes)], [code for some in codes for code in some]
        )
        members = Members(found, self.task.program, self.ends)
        members.numbers = np.array([one.number for _, one in matches], np.int64)  # within the partition
        return members

    def _report_of(self, rows: Ints) -> Ints:
        return np.searchsorted(self.ends, rows, side="right")

    # As `output.Columns` ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.numbers)

    def columns(self, expressions: Sequence[exp.Expr]) -> list[Array]:
        return [self.column(expression) for expression in expressions]

    def column(self, expression: exp.Expr) -> Array:
        """The value of an expression in each row."""
        values = self._retained.values_of(expression)
        return self.array([values[number] for number in self.numbers], expression)

    def array(self, values: list[Any], expression: exp.Expr) -> Array:
        """Values of an expression as an Arrow array."""
        return self._types.array(values, self._retained.task.column(expression))

    def key(self, name: str, rows: Ints) -> Array:
        place = [key.name for key in self.task.clause.partition_by].index(name)
        return self._types.array([self.reports[at].key[place] for at in self._report_of(rows).tolist()], place)
