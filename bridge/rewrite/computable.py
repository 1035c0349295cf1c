"""Marks of SELECTs, which describe their rows in terms that this process can compute for single events.

A mark is in the `meta` of the SELECT, under `COMPUTABLE`. It describes exactly the rows of the SELECT.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from sqlglot import exp

COMPUTABLE = "computable"
"""The key of a mark in `meta`."""


Row = tuple[Any, ...]

EDGE = "edge"
"""The key in `meta` of an aggregate of the database that is FIRST or LAST of a group's rows: which of them it is."""


def column_names(trees: Sequence[exp.Expr]) -> list[str] | None:
    """The names of these columns; None if one is another expression."""
    return [tree.name for tree in trees] if all(isinstance(tree, exp.Column) for tree in trees) else None


class Mark:
    """A description of a SELECT's rows. Copies of the SELECT share it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def of(self, select: exp.Select) -> exp.Select:
        """The SELECT, with this mark."""
        select.meta[COMPUTABLE] = self
        return select


class OpenWindow(Protocol):
    """A window to which rows are added one by one."""

    def add(self, row: Any, values: Row) -> list[Any]:
        """Adds a row, by its identity and the values that decide; returns the rows that it evicts, maybe itself."""


class Evict(abc.ABC):
    """Finds the rows that leave a window when others come."""

    evicts_oldest: ClassVar[bool] = False
    """Whether rows leave in the order in which they have come."""

    @abc.abstractmethod
    def window(self) -> OpenWindow:
        """An empty window."""

    def __call__(self, rows: Iterable[tuple[Any, Row, Row]]) -> list[tuple[Any, Any]]:
        """Each evicted row with the row that evicted it, of rows by identity, key and values, oldest first."""
        windows = collections.defaultdict[Row, OpenWindow](self.window)
        return [(other, row) for row, key, values in rows for other in windows[key].add(row, values)]


@dataclasses.dataclass(frozen=True)
class EvictedRows(Mark):
    """The rows of a window's table, each with `_out`: the number of the event that evicts it, computed by `evict`.

    Args:
        keys: The expressions whose values each have a window of their own.
        values: The values that `evict` needs of a row.
        evict: Finds the evicted rows.
    """

    keys: Sequence[exp.Expr]
    values: Sequence[exp.Expr]
    evict: Evict


@dataclasses.dataclass(frozen=True)
class OpenSessions(Mark):
    """The rows of a window's table, each with the end of its session: `gap` milliseconds after its newest row.

    Args:
        table: The table.
        keys: The columns whose values each have sessions of their own.
        gap: The milliseconds without a row after which a session has ended.
    """

    table: str
    keys: Sequence[str]
    gap: int


@dataclasses.dataclass(frozen=True)
class LeftRows(Mark):
    """The rows that leave a window, with the `ts` and `seq` at which they leave, and `_place` in the order of arrival.

    Args:
        table: The table of the window's rows.
        values: Their further columns, as expressions over the table's columns.
        conditions: The conditions on the table's rows.
        keys: Columns of the table, each of whose values has a window of its own.
        span: The milliseconds after which a row leaves; None: it does not leave in this way.
        count: The number of rows in the window: the row `count` places after a row evicts it.
        gap: The milliseconds after its newest row at which all rows of a session leave.
        evictions: A step computes which rows leave.
    """

    table: str
    values: Mapping[str, exp.Expr]
    conditions: Sequence[exp.Expr]
    keys: Sequence[str] = ()
    span: int | None = None
    count: int | None = None
    gap: int | None = None
    evictions: EvictedRows | None = None


class EarlierValue(NamedTuple):
    """The value of a column `back` rows before a row of the same key; NULL if that row is `within` ms or more older."""

    column: str
    back: int
    within: int | None


@dataclasses.dataclass(frozen=True)
class RowsBefore(Mark):
    """The rows of a push, with values of earlier rows.

    Args:
        table: The table that keeps the rows.
        rows: The SELECT of the rows that a push adds to the table.
        keys: The columns that separate the rows: earlier rows have equal values in them.
        order: The columns that order the rows.
        values: The values of earlier rows, by the names of their columns.
    """

    table: str
    rows: exp.Select
    keys: Sequence[str]
    order: Sequence[str]
    values: Mapping[str, EarlierValue]


@dataclasses.dataclass(frozen=True)
class AfterPauses(Mark):
    """For each key, the rows of a push that come `time` milliseconds or more after the last such row.

    Args:
        last: The text of a statement that gives each key with the timestamp of its last such row.
        rows: The SELECT of the rows of a push, in any order.
        keys: The columns of the key.
        order: The columns that order the rows.
        time: The length of a pause.
    """

    last: str
    rows: exp.Select
    keys: Sequence[str]
    order: Sequence[str]
    time: int


@dataclasses.dataclass(frozen=True)
class DisjointRows(Mark):
    """For each key, the matches of a push that begin after the last reported match; each is its last row.

    Args:
        last: The text of a statement that gives each key with the number of the last row of a reported match, in order.
        rows: The SELECT of the matches of a push, in any order, with the number of the first row as `_first`.
        keys: The columns of the key.
    """

    last: str
    rows: exp.Select
    keys: Sequence[str]
