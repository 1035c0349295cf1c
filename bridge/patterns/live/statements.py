"""What the machine of a stream and the strategies for many rows share: the clause, where they read, what they write."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge.patterns.arrays import Ints
from bridge.patterns.conditions import Condition
from bridge.patterns.members import Members
from bridge.patterns.output import Columns, Output, Shown
from bridge.patterns.values import Valued
from bridge.query.row_pattern import RowPattern
from nfa.program import Program
from windows.databases import Database
from windows.times import NEVER

Moment = tuple[int, int, int]
"""ts, seq and place of a row."""

BEGINNING: Moment = (-(2**62), 0, 0)


@dataclasses.dataclass(frozen=True)
class Texts:
    """The statements of one clause, in the database's SQL."""

    arrived: str
    """The rows of this push: key, ts, seq, place, letter, then `expressions`, by key and time."""
    kept: str
    """The same of all rows kept, in any order."""
    places: str
    """Where the partitions stand: key, then ts, seq, place of the last row that is not needed, index of the next one,
    index of the start, matches so far, and a number that grows from line to line."""
    place_table: str
    result_table: str


@dataclasses.dataclass
class Continuous:
    """One clause over a stream, its names found; `behind` rows before a start are kept for PREV."""

    clause: RowPattern
    conditions: tuple[Condition, ...]
    program: Program
    measures: tuple[Valued, ...]
    fields: tuple[str, ...]
    expressions: tuple[exp.Expr, ...]
    texts: Texts
    behind: int

    def results(
        self, database: Database, rows: Columns, members: Members, which: Shown, ts: Ints, seq: Ints
    ) -> pa.Table:
        """The rows shown as those of the result table, with the moment of each."""
        clause = dataclasses.replace(self.clause, order_by=())  # the stream's time is every result's, and no column
        fields = [name for name in self.fields if name != "ts"]
        answer = Output(database, rows, members, which).table(clause, fields, self.measures)
        system = [ts, seq, np.full(len(ts), NEVER), np.arange(len(ts))]
        names = ["ts", "seq", "_expires", "_place", *answer.column_names]
        return pa.Table.from_arrays([*map(pa.array, system), *answer.columns], names=names)
