"""Aggregates of EPL: what they range over, and when they are told."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.scalars import position_of
from bridge.named import OF_EVENT, is_ever, tells_more
from bridge.query import Aggregate, Correlate, Node, Window, is_plain_join, unfiltered
from bridge.snapshot import Snapshot
from windows.extents import Top, Unbounded


@dataclasses.dataclass(frozen=True)
class Asked:
    """The columns of a statement with aggregates, its groups, and what HAVING says."""

    columns: tuple[exp.Expr, ...]
    keys: tuple[exp.Expr, ...]
    having: exp.Expr | None

    @property
    def is_per_event(self) -> bool:
        """Whether it asks for values of the single event, beside aggregates and groups."""
        asked = [*self.columns, *([] if self.having is None else [self.having])]
        return any(_own(part, self.keys) for part in asked)

    @property
    def position(self) -> int | None:
        """Where the columns stand."""
        return next((at for column in self.columns if (at := position_of(column)) is not None), None)


def aggregated(cursor: Cursor, node: Node, asked: Asked, position: int) -> Aggregate:
    """The aggregate over a node; a stream without a window has all its events, as #keepall has."""
    snapshot = isinstance(node, Snapshot)
    window = unfiltered(node.input if isinstance(node, Snapshot) else node)
    lists = [found for column in asked.columns for found in column.find_all(exp.ArrayAgg)]
    if isinstance(window, Correlate):
        _check_join(cursor, window, position)
        if lists:  # Esper lists an event once, in however many combinations it is
            cursor.fail(
                "window over a join is not supported: insert into names its results", lists[0].meta.get("start")
            )
        if asked.is_per_event:
            cursor.fail(
                "values of single events beside aggregates over a join are not supported: insert into names the join's results",
                asked.position or position,
            )
        return dataclasses.replace(
            _plain(node, asked), every_change=not snapshot
        )  # once an event, of all that it brings
    if lists and not isinstance(window, Window):
        cursor.fail("window wants a window: #keepall has all events", lists[0].meta.get("start"))
    if not isinstance(window, Window):
        node = window = Window(node, Unbounded())
    if snapshot and is_ever(_plain(node, asked)):
        cursor.fail(
            "firstever, lastever and countever are not supported with output snapshot", asked.position or position
        )
    if not asked.is_per_event:
        more = not snapshot and tells_more(window, node is not window, asked.keys)
        return dataclasses.replace(_plain(node, asked), every_change=more)
    if snapshot or isinstance(window.extent, Top) or getattr(window.extent, "slide", None) is not None:
        cursor.fail(
            "values of single events beside aggregates over this window are not supported: group by them, or aggregate them",
            asked.position or position,
        )
    return _per_event(node, asked)


def _check_join(cursor: Cursor, node: Correlate, position: int) -> None:
    if not is_plain_join(node):
        cursor.fail(
            "aggregates over this join are not supported: insert into names its results; of windows that are neither "
            "batches nor #time_accum, joined with inner joins, they are",
            position,
        )


def _plain(node: Node, asked: Asked) -> Aggregate:
    return Aggregate(node, asked.columns, asked.keys, asked.having)


def _per_event(node: Node, asked: Asked) -> Aggregate:
    """The event that enters is the newest of its group: its values are the last ones."""
    columns = tuple(_named(column, asked.keys) for column in asked.columns)
    having = None if asked.having is None else _last(asked.having, asked.keys)
    return Aggregate(node, columns, asked.keys, having)


def _named(column: exp.Expr, keys: Sequence[exp.Expr]) -> exp.Expr:
    if isinstance(column, exp.Alias):
        return exp.alias_(_last(column.this, keys), column.alias, quoted=True)
    if not _own(column, keys):
        return column
    name = column.name if isinstance(column, exp.Column) else column.sql()
    return exp.alias_(_last(column, keys), name, quoted=True)


def _last(value: exp.Expr, keys: Sequence[exp.Expr]) -> Any:
    if value in keys or isinstance(value, exp.AggFunc):
        return value.copy()
    if isinstance(value, exp.Column):
        last = exp.Last(this=value.copy())
        last.meta[OF_EVENT] = True
        return last
    result = value.copy()
    for child in list(result.iter_expressions()):
        child.replace(_last(child, keys))
    return result


def _own(value: exp.Expr, keys: Sequence[exp.Expr]) -> bool:
    """Whether it names a column that stands neither in an aggregate nor among the groups."""
    if value in keys or isinstance(value, exp.AggFunc):
        return False
    return isinstance(value, exp.Column) or any(_own(child, keys) for child in value.iter_expressions())
