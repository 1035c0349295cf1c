"""What some SELECTs give, in terms in which this process can compute it for single events: marks of these SELECTs.

A mark is in the `meta` of the SELECT, under `COMPUTABLE`. It says the same as the SELECT does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from sqlglot import exp

COMPUTABLE = "computable"
"""The key of a mark in `meta`."""


class Mark:
    """What a SELECT gives. Copies of the SELECT share it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def of(self, select: exp.Select) -> exp.Select:
        """The SELECT, marked."""
        select.meta[COMPUTABLE] = self
        return select


@dataclasses.dataclass(frozen=True)
class LeftRows(Mark):
    """The rows that leave a window, with `ts` and `seq` of that, and `_place` in the order in which they came.

    Args:
        table: The table of the window's rows.
        values: The columns that they have besides, as expressions over the table's.
        conditions: The conditions on the table's rows.
        span: The milliseconds after which a row leaves; None: it is evicted by the row `count` places after it.
        count: The number of rows in the window, per value of `keys`.
        keys: Columns of the table.
    """

    table: str
    values: Mapping[str, exp.Expr]
    conditions: Sequence[exp.Expr]
    span: int | None
    count: int | None = None
    keys: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class EvictedRows(Mark):
    """The rows of a window's table, each with `_out`: the number of the event that evicts it, as `evict` finds it.

    Args:
        keys: The expressions whose values have windows of their own.
        values: The values that `evict` needs of a row.
        evict: Goes through the rows of a window, oldest first; gives the identity of each evicted row, and its evictor's.
    """

    keys: Sequence[exp.Expr]
    values: Sequence[exp.Expr]
    evict: Callable[[Sequence[tuple[Any, Any, Any]]], Sequence[tuple[Any, Any]]]


class EarlierValue(NamedTuple):
    """A column's value, `back` rows before a row of its key; NULL if that row is `within` milliseconds or more older."""

    column: str
    back: int
    within: int | None


@dataclasses.dataclass(frozen=True)
class RowsBefore(Mark):
    """The rows of a push with values of earlier rows.

    Args:
        table: The table that keeps the rows.
        rows: The SELECT of what a push adds to it.
        keys: The columns whose values have rows of their own.
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
    """The rows of a push that come `time` milliseconds or more after the last such row of their key.

    Args:
        last: The text of the statement of each key and the timestamp of its last such row.
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
