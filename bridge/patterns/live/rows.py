"""Rows of a stream as live machines have them in memory: their ids, known values, and partitions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import pyarrow as pa
from sqlglot import exp

from bridge.patterns.arrays import Array
from bridge.patterns.conditions import Condition
from bridge.patterns.members import Members
from bridge.patterns.output import MatchInput, OutputRows, ResultColumns
from bridge.patterns.task import skip_of
from bridge.patterns.values import MatchExpression
from bridge.query.row_pattern import RowPattern
from nfa import skip as modes
from nfa.program import Program
from windows.arrow import array_of
from windows.databases import Database

RowId: TypeAlias = tuple[int, int, int]
"""The ts, seq and place of a row, by which the rows of a stream are ordered."""

BEGINNING: RowId = (-(2**62), 0, 0)
"""A row id before the id of every row."""

NAN = float("nan")

Key: TypeAlias = tuple[Any, ...]
"""A partition's values of the PARTITION BY columns."""

Row: TypeAlias = tuple[Any, ...]
"""A row as the database gives it: key, ts, seq, place, symbol set, then the values of the task's expressions."""

Machine = TypeVar("Machine")


@dataclasses.dataclass(frozen=True)
class LiveTask:
    """A row pattern clause over a stream: its graded conditions, its measures, and the row expressions that they read.

    `fields` are the input's columns; PREV reads at most `behind` rows before a start.
    """

    clause: RowPattern
    conditions: tuple[Condition, ...]
    program: Program
    measures: tuple[MatchExpression, ...]
    expressions: tuple[exp.Expr, ...]
    fields: tuple[str, ...] = ()
    behind: int = 0

    @functools.cached_property
    def key_width(self) -> int:
        """The number of PARTITION BY columns."""
        return len(self.clause.partition_by)

    def key(self, row: Row) -> Key:
        """The key of a row. NaN, which does not equal itself in Python, is the same object in every key."""
        key = row[: self.key_width]
        for value in key:
            if value != value:
                return tuple(NAN if value != value else value for value in key)
        return key

    def row_id(self, row: Row) -> RowId:
        ts, seq, place = row[self.key_width : self.key_width + 3]
        return ts, seq, place

    def column(self, expression: exp.Expr) -> int:
        """The place of an expression's value in a Row."""
        return self.key_width + 4 + self.expressions.index(expression)

    def output(self, database: Database, rows: MatchInput, members: Members, which: OutputRows) -> pa.Table:
        """The result columns that the clause itself defines."""
        clause = dataclasses.replace(self.clause, order_by=())  # ts orders every stream and is already in the results
        fields = [name for name in self.fields if name != "ts"]
        return ResultColumns(database, rows, members, which).table(clause, fields, self.measures)


class RetainedRows:
    """The rows that open matches may need, each with a number; implements `machine.Known` for conditions."""

    def __init__(self, task: LiveTask, database: Database) -> None:
        self.task, self.database = task, database
        self.clause, self.conditions, self.program = task.clause, task.conditions, task.program
        self.symbol_set_of: dict[int, int] = {}
        self.time_of: dict[int, int] = {}
        self.row_id_of: dict[int, RowId] = {}
        self.values: dict[exp.Expr, dict[int, Any]] = {expression: {} for expression in task.expressions}
        self.count = 0
        """The number of rows added so far; the next row gets it as its number."""

    def __len__(self) -> int:
        return len(self.symbol_set_of)

    @property
    def skip(self) -> modes.Skip:
        return skip_of(self.clause, self.clause.skip)

    @property
    def within(self) -> int | None:
        return self.clause.within

    def values_of(self, expression: exp.Expr) -> dict[int, Any]:
        return self.values[expression]

    def type_of(self, expression: exp.Expr) -> None:
        """The Arrow type: unknown, as the values come one by one."""

    def arrays_of(self, names: Sequence[str]) -> list[Array]:
        raise NotImplementedError("aggregates that only the database knows are refused over streams")

    def add(self, row: Row) -> int:
        """Adds a row; returns its number."""
        number, self.count = self.count, self.count + 1
        first = self.task.key_width
        row_id = self.row_id_of[number] = self.task.row_id(row)
        self.time_of[number] = row_id[0]
        self.symbol_set_of[number] = row[first + 3]
        for known, value in zip(self.values.values(), row[first + 4 :], strict=False):
            known[number] = value
        return number

    def drop(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            del self.symbol_set_of[number], self.time_of[number], self.row_id_of[number]
            for known in self.values.values():
                del known[number]


@dataclasses.dataclass
class Partition(Generic[Machine]):
    """A partition's machine, and the numbers of its rows that may still be needed; the first has the index `base`."""

    machine: Machine
    rows: list[int] = dataclasses.field(default_factory=list)
    base: int = 0

    @property
    def end(self) -> int:
        """The index of the next row."""
        return self.base + len(self.rows)

    def row(self, index: int) -> int:
        """The number of the row with an index in the partition."""
        return self.rows[index - self.base]

    def release(self, first: int) -> list[int]:
        """Drops the rows before the index `first`; returns their numbers."""
        released = self.rows[: first - self.base]
        del self.rows[: first - self.base]
        self.base = first
        return released


class ColumnTypes:
    """The Arrow types of a statement's columns; none on databases that do not give Arrow."""

    def __init__(self, database: Database, select: str) -> None:
        shape = database.fetch_arrow(f"SELECT * FROM ({select}) AS q WHERE 1 = 0")
        self._types: Sequence[pa.DataType] = shape.schema.types if shape is not None else []

    def array(self, values: list[Any], place: int) -> Array:
        """Values of the column at a place as an Arrow array."""
        return array_of(values, self._types[place]) if self._types else pa.array(values)
