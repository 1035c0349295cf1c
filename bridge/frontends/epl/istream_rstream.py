"""The reported streams of an EPL statement: rows that enter (istream), rows that leave (rstream), or both, marked."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.query.epl_columns import PreviousRow
from bridge.query.epl_output import OrderLimitDistinct, RStream
from bridge.query.epl_patterns import EagerMatch, TemporalMatch
from bridge.query.expressions import in_order
from bridge.query.nodes import Correlate, Filter, Map, Node, Union, Window, is_plain_join, walk, without_filters
from windows.extents import Range
from windows.sql import column

if TYPE_CHECKING:
    from bridge.frontends.epl.clauses import OutputRate


PREVIOUS = "previous."
"""The prefix of the names of columns with the previous values of aggregates."""

NEW = "istream"
"""The column that is true for rows that enter, and false for rows that leave; a statement calls it `istream()`."""


def expired_rows(cursor: Cursor, node: Node, position: int) -> RStream:
    """The rows that leave a window. `position`: the offset of rstream."""
    if not isinstance(node, Window):
        cursor.fail("rstream wants one stream with a window: #time(5 sec), #length(5)", position)
    return RStream(node)


def both_streams(cursor: Cursor, node: Node, position: int) -> Node:
    """The rows that enter, and the rows that leave, if any can; at one time, rows that enter come first.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> from bridge.query.nodes import Stream
    >>> print(both_streams(EplCursor("irstream"), Window(Stream("s"), "ROWS 5"), 0))
    SELECT *, TRUE AS istream FROM s WINDOW(ROWS 5) \
UNION ALL SELECT *, FALSE AS istream FROM s WINDOW(ROWS 5) RSTREAM
    """
    if isinstance(node, (EagerMatch, TemporalMatch)):
        return node
    return Union((_marked(node, exp.true()), _marked(RStream(node), exp.false())))


def check_join(cursor: Cursor, node: Node, position: int) -> None:
    """Refuses rstream and irstream if it is not known when combinations leave."""
    assert isinstance(node, Correlate)
    if not is_plain_join(node):
        cursor.fail(
            "rstream and irstream are supported of an inner join of windows that are neither batches nor #time_accum: "
            "insert the results of any other join into a stream, and read that",
            position,
        )


def of_join(node: Node, columns: tuple[exp.Expr, ...], both: bool) -> Node:
    """The combinations that leave with the first of their parts.

    If `both`, preceded by those that enter, all marked.
    """
    left = Map(RStream(node), _valued(columns, exp.false()))
    return Union((Map(node, _valued(columns, exp.true())), left)) if both else left


def _marked(node: Node, value: exp.Expr) -> Map:
    return Map(node, (exp.Star(), exp.alias_(value, NEW)))


def has_both_streams(node: Node) -> bool:
    """Whether the source of a statement has rows that enter and rows that leave."""
    return isinstance(without_filters(node), Union)


def streams_of(node: Node) -> str:
    """The words before the list of columns, if rows may leave."""
    below = list(walk(node))
    if any(isinstance(one, Filter) and one.condition == exp.Not(this=column(NEW)) for one in below):
        return "RSTREAM"
    if any(isinstance(one, Union) for one in below):
        return "IRSTREAM"
    left = any(
        isinstance(one, RStream) or (isinstance(one, PreviousRow) and one.name.startswith(PREVIOUS)) for one in below
    )
    return "RSTREAM" if left else ""


def with_mark_over(columns: tuple[exp.Expr, ...], node: Node) -> tuple[exp.Expr, ...]:
    """The columns of a list over `node`, from `both_streams`, followed by the mark if they do not name it."""
    star = has_both_streams(node) and any(column.is_star for column in columns)
    columns = columns if star else with_mark(columns)
    return columns if has_both_streams(node) else _valued(columns, exp.true())  # matches never leave


def with_mark(columns: tuple[exp.Expr, ...]) -> tuple[exp.Expr, ...]:
    """The columns of a list, followed by the mark if they do not name it."""
    if any(is_mark(one) for column in columns for one in column.walk()):
        return columns
    return (*columns, exp.alias_(exp.column(NEW), NEW, quoted=True))


def mark(call: exp.Expr) -> exp.Expr:
    """`istream()` as the column that it is; with that name if it stands alone."""
    found = exp.column(NEW)
    return found if isinstance(call.parent, exp.Alias) else exp.alias_(found, f"{NEW}()", quoted=True)


def is_mark(value: exp.Expr) -> bool:
    """Whether a value is the mark."""
    return isinstance(value, exp.Column) and value.name == NEW and not value.table


def _valued(columns: tuple[exp.Expr, ...], value: exp.Expr) -> tuple[exp.Expr, ...]:
    """The columns with a value for the mark."""
    return tuple(column.transform(lambda one: value.copy() if is_mark(one) else one) for column in columns)


def newest_first(node: OrderLimitDistinct) -> OrderLimitDistinct:
    """The same order, first of the rows that enter, then of the rows that leave."""
    return dataclasses.replace(node, order_by=(in_order(f"{NEW} DESC"), *node.order_by))


# Rows that enter and leave (EPL's irstream and rstream), reported at intervals


def reports_expiry(node: Node) -> bool:
    """Whether the source of a statement has rows that leave."""
    return any(isinstance(below, RStream) for below in walk(node))


def at_interval(cursor: Cursor, node: Node, rate: OutputRate, condition: exp.Expr | None = None) -> Node:
    """In each period, first the rows that entered, then those that left; for rstream only the latter.

    `condition`: that of HAVING, which does not affect the periods.
    """
    check_rate(cursor, rate)
    found = per_period(node if has_both_streams(node) else _with_arrivals(cursor, node), rate, NEW, condition)
    return found if has_both_streams(node) else Filter(found, exp.Not(this=column(NEW)))


def per_period(node: Node, rate: OutputRate, mark: str, condition: exp.Expr | None = None) -> OrderLimitDistinct:
    """The rows of each period, marked by whether they entered first; or the last row of each kind."""
    batch = Window(node, Range(rate.time or 1, rate.time, first=True))
    return OrderLimitDistinct(
        filtered(batch, condition),
        (in_order(f'"{mark}" DESC'),),
        last_of=(column(mark),) if rate.kind == "last" else None,
    )


def filtered(node: Node, condition: exp.Expr | None) -> Node:
    """The rows for which the condition is true; all if there is none."""
    return node if condition is None else Filter(node, condition)


def check_rate(cursor: Cursor, rate: OutputRate) -> None:
    """Refuses rates that are not supported for both streams."""
    if rate.time is None or rate.kind not in ("all", "last"):
        cursor.fail(
            "output [all | last] every 5 sec reports what leaves, and nothing else does: insert rstream into names it",
            rate.position,
        )


def _with_arrivals(cursor: Cursor, node: Node) -> Node:
    """The rows that enter, together with those that leave."""
    if isinstance(node, Filter):
        return Filter(_with_arrivals(cursor, node.input), node.condition)
    assert isinstance(node, RStream)
    return both_streams(cursor, node.input, 0)
