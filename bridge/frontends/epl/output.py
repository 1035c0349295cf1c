"""Which results of a statement are reported and when: EPL's output, order by, limit and distinct."""

from __future__ import annotations

import dataclasses
import re

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl import expressions as epl_expressions
from bridge.frontends.epl.clauses import OutputClauses, OutputRate
from bridge.frontends.epl.cursor import period, whole
from bridge.frontends.epl.istream_rstream import (
    at_interval,
    filtered,
    has_both_streams,
    newest_first,
    reports_expiry,
)
from bridge.frontends.epl.named_windows import is_per_event
from bridge.frontends.expressions import Qualifiers, position_of, resolve
from bridge.query.epl_columns import Enumeration, PreviousRow, SubqueryColumn
from bridge.query.epl_output import FirstEvents, OrderLimitDistinct, OutputEvery, RStream, Snapshot, Throttle
from bridge.query.epl_patterns import EagerMatch
from bridge.query.nodes import Aggregate, Correlate, Filter, Map, Node, Stream, Window, is_plain_join, without_filters
from windows.extents import Range, Rows, Unbounded
from windows.sql import identifier

STOPS = ("OUTPUT", "ORDER BY", "LIMIT")


def output_clauses(cursor: Cursor, distinct: bool, names: Qualifiers) -> OutputClauses:
    """Steps over `output …`, `order by …`, `limit …`."""
    rate = _output_rate(cursor) if cursor.word() == "OUTPUT" else None
    order = _order(cursor, names) if cursor.take("ORDER BY") else ()
    limit, offset = _limit(cursor) if cursor.take("LIMIT") else (None, 0)
    return OutputClauses(distinct, rate, order, limit, offset)


def _output_rate(cursor: Cursor) -> OutputRate:
    position = cursor.expect("OUTPUT")
    is_explicit = cursor.word() in ("ALL", "FIRST", "LAST", "SNAPSHOT")
    kind = cursor.word().lower() if is_explicit else "all"
    cursor.at += is_explicit
    if not cursor.take("EVERY"):
        cursor.fail("output is supported as output [all | first | last] every n events, or every 5 seconds", position)
    counted = re.fullmatch(r"\d+", cursor.word()) and cursor.word(1) in ("EVENTS", "EVENT")
    if counted:
        count = whole(cursor, "the number of events")
        cursor.at += 1
        return OutputRate(kind, count, None, position, is_explicit)
    return OutputRate(kind, None, period(cursor), position, is_explicit)


def _order(cursor: Cursor, names: Qualifiers) -> tuple[exp.Ordered, ...]:
    terms = []
    while True:
        region = cursor.until((",", "ASC", "DESC", "LIMIT"))
        (this,) = resolve(
            cursor, [epl_expressions.single_expression(cursor, region, "an expression to order by")], names
        )
        descending = cursor.take("DESC")
        cursor.take("ASC")
        terms.append(exp.Ordered(this=this, desc=descending))
        if not cursor.take(","):
            return tuple(terms)


def _limit(cursor: Cursor) -> tuple[int, int]:
    """Steps over `2`, `2 offset 1`, or `1, 2` (the offset first)."""
    limit = whole(cursor, "the number of results", 0)
    if cursor.take(","):
        return whole(cursor, "the number of results", 0), limit
    return limit, whole(cursor, "the number of results left out", 0) if cursor.take("OFFSET") else 0


def at_rate(
    cursor: Cursor,
    node: Node,
    rate: OutputRate | None,
    groups: tuple[exp.Expr, ...] | None = None,
    keys: tuple[exp.Expr, ...] = (),
    condition: exp.Expr | None = None,
    of_last: bool = False,
) -> Node:
    """The results as reported by `output`.

    `groups`: the columns per which `last` reports one result and `first` counts.

    Events are counted per value of `keys`, including those for which HAVING's `condition` is not true. If `of_last`,
    the condition applies to the row that `last` has found; else `last` finds the last row for which it is true.
    """
    if rate is None or rate.kind == "first":
        node = filtered(node, condition)
    if rate is None:
        return node
    if rate.count is not None and not keys and _has_several(node):
        gathered: Node = OutputEvery(node, rate.count, rate.kind == "first")
        gathered = gathered if rate.kind == "first" else filtered(gathered, condition)
        return OrderLimitDistinct(gathered, last_of=()) if rate.kind == "last" else gathered
    if rate.count is not None:
        _check_counting(cursor, node, rate)
    if rate.kind == "first":
        is_of_events = rate.time is not None and not keys and _has_several(node)
        return (FirstEvents if is_of_events else Throttle)(node, rate.count, rate.time, groups or keys)
    extent = Rows(rate.count, rate.count) if rate.count is not None else Range(rate.time or 1, rate.time, first=True)
    batch: Node = Window(node, extent, keys)
    if rate.kind != "last":
        return filtered(batch, condition)
    if of_last:
        return filtered(OrderLimitDistinct(batch, last_of=groups or ()), condition)
    return OrderLimitDistinct(filtered(batch, condition), last_of=groups or ())


def _has_several(node: Node) -> bool:
    """Whether an event may have several results, so that reported results are counted: for a join or batches."""
    base = node
    while isinstance(base, (Filter, SubqueryColumn)):
        base = base.input
    return not isinstance(base, Aggregate) and _is_batch(base)


def _check_counting(cursor: Cursor, node: Node, rate: OutputRate) -> None:
    """Refuses to count events by their results unless each event has exactly one."""
    base = node
    while isinstance(base, (Filter, Map, SubqueryColumn, PreviousRow, Enumeration)):
        base = base.input
    batch = isinstance(base, Window) and base.extent.jumps
    several = isinstance(base, (Correlate, EagerMatch, RStream)) or batch
    if isinstance(base, Aggregate):
        several = base.every_change or base.having is not None or _is_batch(base.input)
    if several:
        cursor.fail(
            "output every n events is not supported here, as one event may have several results or none: give a time, "
            "or insert the results into a stream, and read that",
            rate.position,
        )


def snapshot(cursor: Cursor, node: Node, rate: OutputRate, aggregating: bool, all_groups: bool = False) -> Node:
    """`output snapshot every 2 sec` over a window: its content at these times, counted from the first row.

    An aggregate over a stream without a window is over all its events.
    """
    base = without_filters(node)
    is_content = isinstance(base, Stream) or (isinstance(base, Window) and not base.extent.jumps)
    if not is_content and not (isinstance(base, Correlate) and is_plain_join(base) and rate.time is not None):
        cursor.fail(
            f"output {rate.kind} is not supported here, but over a stream with a window that is not a batch; over an inner "
            "join of such windows, with a time",
            rate.position,
        )
    if aggregating and isinstance(base, Stream):
        node = Window(node, Unbounded())
    return Snapshot(node, rate.time, rate.count, all_groups)


def _is_batch(node: Node) -> bool:
    node = without_filters(node)
    return isinstance(node, Correlate) or (isinstance(node, Window) and node.extent.jumps)


def single_events(
    cursor: Cursor,
    node: Node,
    columns: tuple[exp.Expr, ...],
    clauses: OutputClauses,
    keys: tuple[exp.Expr, ...] = (),
    having: exp.Expr | None = None,
) -> Node:
    """A statement without aggregates; the results are ordered by values of the events, or by their columns."""
    marked = has_both_streams(node)
    if clauses.rate is not None and reports_expiry(node):
        if not marked and any(column.is_star for column in columns):
            cursor.fail("output of rstream * is not supported: name the columns", clauses.rate.position)
        node = at_interval(cursor, node, clauses.rate, having)
    else:
        node = at_rate(cursor, node, clauses.rate, keys=keys, condition=having)
    if marked and (clauses.distinct or clauses.limit is not None):
        cursor.fail(
            "irstream with distinct or limit is not supported: insert the results into a stream",
            position_of(columns[0]),
        )
    if clauses.is_arranged and not clauses.distinct:
        order = tuple(
            exp.Ordered(this=_aliased_value(term.this, columns), desc=term.args["desc"]) for term in clauses.order
        )
        arranged = OrderLimitDistinct(node, order, clauses.limit, clauses.offset)
        node = newest_first(arranged) if marked else arranged
    if columns != (exp.Star(),):
        node = Map(node, columns)
    return _by_columns(cursor, node, columns, clauses) if clauses.distinct else node


def aggregates(cursor: Cursor, node: Aggregate, clauses: OutputClauses) -> Node:
    """A statement with aggregates; the results are ordered by their columns."""
    rate = clauses.rate
    if rate is not None and rate.kind == "all" and rate.is_explicit and node.group_by:
        node = _of_all_groups(cursor, node, rate)
        clauses = dataclasses.replace(clauses, rate=None)
    groups = None
    if clauses.rate is not None and node.group_by and clauses.rate.kind in ("last", "first"):
        groups = tuple(_column(cursor, key, node.columns, clauses.rate.position) for key in node.group_by)
    condition = None
    if clauses.rate is not None and clauses.rate.kind != "first":
        condition, base = _with_having_column(node)
    else:
        base = node
    result = at_rate(cursor, base, clauses.rate, groups, condition=condition, of_last=not is_per_event(node))
    if clauses.is_arranged or clauses.distinct:
        result = _by_columns(cursor, result, node.columns, clauses)
    if condition is None:
        return result
    return Map(result, tuple(exp.column(identifier(_name_of(one))) for one in node.columns))


_HAVING = "having."
"""The name of the column with the truth of HAVING."""


def _with_having_column(node: Aggregate) -> tuple[exp.Expr | None, Aggregate]:
    """The column with the truth of HAVING (None without it), and the aggregate with that column and all results."""
    if node.having is None or any(column.is_star for column in node.columns):
        return None, node
    columns = (*node.columns, exp.alias_(node.having.copy(), _HAVING, quoted=True))
    condition = exp.column(identifier(_HAVING))
    return condition, dataclasses.replace(node, columns=columns, having=None)


def _name_of(column: exp.Expr) -> str:
    return column.alias_or_name or column.sql()


def _of_all_groups(cursor: Cursor, node: Aggregate, rate: OutputRate) -> Aggregate:
    """Every group that has occurred, reported each time with its present values."""
    if is_per_event(node):
        cursor.fail(
            "output all with values of single events beside groups is not supported: leave all out", rate.position
        )
    return dataclasses.replace(
        node, input=snapshot(cursor, node.input, rate, True, all_groups=True), every_change=False
    )


def _by_columns(cursor: Cursor, node: Node, columns: tuple[exp.Expr, ...], clauses: OutputClauses) -> Node:
    whole_rows = columns == (exp.Star(),)
    order = tuple(
        term if whole_rows else exp.Ordered(this=_column(cursor, term.this, columns, None), desc=term.args["desc"])
        for term in clauses.order
    )
    return OrderLimitDistinct(node, order, clauses.limit, clauses.offset, clauses.distinct)


def _column(cursor: Cursor, value: exp.Expr, columns: tuple[exp.Expr, ...], position: int | None) -> exp.Expr:
    """The column of the list with this value or this name."""
    for column in columns:
        of = column.this if isinstance(column, exp.Alias) else column
        name = column.alias if isinstance(column, exp.Alias) else column.name or column.sql()
        is_name = isinstance(value, exp.Column) and not value.table and value.name.lower() == name.lower()
        if is_name or value in (of, of.this if isinstance(of, exp.Last) else of):
            break
    else:
        at = position_of(value)
        cursor.fail(f"{value.sql()} is not a column of the list: name it there", position if at is None else at)
    return exp.column(identifier(name))


def _aliased_value(value: exp.Expr, columns: tuple[exp.Expr, ...]) -> exp.Expr:
    """The value that an alias of the list stands for."""
    aliases: dict[str, exp.Expr] = {
        column.alias.lower(): column.this for column in columns if isinstance(column, exp.Alias)
    }
    if isinstance(value, exp.Column) and not value.table and value.name.lower() in aliases:
        value = aliases[value.name.lower()].copy()
    return value
