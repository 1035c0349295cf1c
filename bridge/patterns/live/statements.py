"""The statements and tables of live machines, in the SQL of their database. Names of tables are quoted."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, TypeAlias

from sqlglot import exp

from windows.sql import column_of

Rows: TypeAlias = "list[tuple[Any, ...]]"


PREVIOUS = "_previous"
"""The qualifier of values of earlier rows in the SELECT of `Arrivals`."""


class PreviousValue(NamedTuple):
    """The value of a column `back` rows before a row of the same partition; NULL if there is no such row."""

    column: str
    back: int

    @property
    def placeholder(self) -> exp.Column:
        """The expression that represents the value in a SELECT."""
        return column_of(PREVIOUS, f"{self.back}.{self.column}")


class Arrivals(NamedTuple):
    """The SELECT of the rows that a push adds to a machine's table; it reads the inboxes, not that table.

    It computes everything that is stored of a row, so it fails if a value cannot be stored. `previous`: the values of
    earlier rows that it reads. `keys`: the columns of the partition.
    """

    table: str
    select: exp.Select
    previous: tuple[PreviousValue, ...] = ()
    keys: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class MachineStatements:
    """The statements of a machine over the rows of one input."""

    arrived: str
    """The rows of this push, with the columns of `rows.Row`."""
    retained: str
    """All retained rows, with the same columns."""
    rows: str = dataclasses.field(default="", kw_only=True)
    """The name of the table of retained rows."""


@dataclasses.dataclass(frozen=True)
class LateStorage:
    """The storage of a push's rows after the machine has seen them: of many rows, it needs few later."""

    rows: str
    """The retained rows and those of this push, with the columns of `MachineStatements.retained`."""
    store: str
    """Adds all rows of this push to the table of retained rows."""
    needed: str
    """The table of the ids of the rows that are needed: ts, seq, place."""
    keep: tuple[str, ...]
    """Statements that reduce the retained rows and the rows of this push to the rows in that table."""
    empty: str
    """Removes all ids from that table."""


@dataclasses.dataclass(frozen=True)
class DecidedStatements(MachineStatements):
    """The statements of a DecidedMachine."""

    progress: str
    """The progress of each partition: key; ts, seq, place of the last row not needed; index of the next row; index of
    the start; index after the furthest match; number of matches so far; version, which grows from line to line.
    """
    progress_table: str
    late: LateStorage | None = None
    """None if a step before the machine stores the rows of each push."""


@dataclasses.dataclass(frozen=True)
class EagerStatements(MachineStatements):
    """The statements of an EagerMachine; they give rows in the order of their ids."""

    retained_table: str
    row_table: str
    thread_table: str
    """The tables of a checkpoint: `ROWS` and `THREADS`."""
    deleted_table: str | None = None
    """The rows deleted since the last checkpoint: ts and seq of the deleting event, then ts, seq, place of the row."""
    deleted: str | None = None
    """The deletions of this push."""


@dataclasses.dataclass(frozen=True)
class TemporalTables:
    """The tables of a TemporalMachine's checkpoint."""

    events: str
    state: str
