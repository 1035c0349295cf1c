"""Aggregates by window frames: one pass over the rows, whatever the number of rows in a single window.

The bound of a frame is computed per row: a RANGE frame over ts would also contain later rows of the same ts (O2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import AT_LEAST, NTH, SESSION, Flow, Selection
from bridge.rewrite.windows.row_count import oldest_seq, stored_rows
from windows.nested import is_list
from windows.sql import aliased, column, column_of, computed_as, derived_table, null_safe_equal, number, over
from windows.times import NEVER

_BACK = "_back"
"""The number of rows before a row that are in its window."""


@dataclasses.dataclass(frozen=True)
class ReportedRows:
    """Conditions on the rows of a window: on those that a reported row may see, and on those that are reported."""

    within_reach: Sequence[exp.Expr]
    is_reported: exp.Expr

    @classmethod
    def of_arrivals(cls, below: Flow) -> ReportedRows:
        """The condition that reports the arrivals of this push."""
        return cls(within_reach(below), arrived_in_push(below))


def over_frames(node: query.Aggregate, below: Flow, reported: ReportedRows | None = None) -> exp.Select:
    """`agg OVER (PARTITION BY group ORDER BY seq ROWS BETWEEN _back PRECEDING AND CURRENT ROW)` of the reported rows.

    By default these are the arrivals.
    """
    assert below.content is not None
    reported = reported or ReportedRows.of_arrivals(below)
    keys = group_columns(node)
    groups = [column(name) for name in keys]
    partition: list[exp.Expr] = [*groups, *sessions(below)]
    order: list[exp.Expr] = [column(name) for name in below.key]
    content, extra = below.content, frame_columns(below)
    back: exp.Expr = column(_BACK)
    if below.last is not None and _is_group(node, below):
        content, extra, back = stored_rows(content, below.last), [], number(below.last.size - 1)
    names = ("ts", "seq", "_expires", *below.order, *extra, *below.names)
    source = content.project({**{name: column(name) for name in names}, **keys}).select()
    if back == column(_BACK):
        counted = aliased(_rows_before(partition, order, below), _BACK)
        rows = derived_table(source, "w", copy=False)
        source = exp.select(*map(column, source.named_selects), counted).from_(rows, copy=False)
    source = source.where(*reported.within_reach)

    def framed(call: exp.Expr) -> exp.Expr:
        return _over_frame(call, partition, order, back)

    columns = [aliased(with_aggregates(item.this, node, groups, framed), item.alias) for item in node.columns]
    system = [column(name) for name in ("ts", "seq", "_expires", *below.order, *keys)]
    computed = exp.select(*system, *columns).from_(derived_table(source, "f", copy=False), copy=False)
    outer = exp.select(*(column(each.alias_or_name) for each in (*system, *columns))).where(reported.is_reported)
    return outer.from_(derived_table(computed, "a", copy=False), copy=False)


def _is_group(node: query.Aggregate, below: Flow) -> bool:
    """Whether the keys of the last rows are those of the group, so that each frame has the same number of rows."""
    content, last = below.content, below.last
    if content is None or last is None or content.conditions or not reads_last_rows(node, below):
        return False
    return all(content.value(key) in last.keys for key in node.group_by)


def _rows_before(partition: list[exp.Expr], order: list[exp.Expr], below: Flow) -> exp.Expr:
    """The number of rows before a row that are in its window.

    For a window of time, it is the number of rows up to the row's timestamp, minus the number of rows that have expired
    by then: the difference of two frames that end at the row. A frame that ends `size` earlier is five times slower on
    DuckDB.
    """

    def counted(start: exp.Expr | str, axis: str = "ts") -> exp.Expr:
        spec = exp.WindowSpec(kind="RANGE", start=start, start_side="PRECEDING", end="CURRENT ROW")
        return over(exp.Count(this=exp.Star()), partition, [column(axis)], spec)

    if below.last is not None:
        return exp.Sub(this=counted(number(below.last.size - 1), NTH), expression=number(1))
    place = exp.Sub(this=over(exp.RowNumber(), partition, order), expression=number(1))
    if begins_at_first(below):
        return place
    assert below.size is not None
    expired = exp.Sub(this=counted("UNBOUNDED"), expression=counted(number(below.size - 1)))
    return exp.Sub(this=place, expression=exp.paren(expired))


def _over_frame(call: exp.Expr, partition: list[exp.Expr], order: list[exp.Expr], back: exp.Expr) -> exp.Expr:
    """An aggregate over the frame of a row: the row, and at most `back` rows before it."""
    if isinstance(call, exp.Cast):  # of a list
        return exp.Cast(this=_over_frame(call.this, partition, order, back), to=call.to.copy())
    if isinstance(call, exp.Count) and isinstance(call.this, exp.Star) and back == column(_BACK):
        return exp.paren(exp.Add(this=back.copy(), expression=number(1)))
    away = offset_of(call)
    if isinstance(call, exp.Last) and away:
        before = over(exp.Lag(this=call.this.copy(), offset=number(away)), partition, order)
        return exp.Case().when(exp.GTE(this=back.copy(), expression=number(away)), before)
    if isinstance(call, exp.First):
        first, nth = exp.FirstValue(this=call.this.copy()), number(away + 1)
        function: exp.Expr = exp.NthValue(this=call.this.copy(), offset=nth) if away else first
    else:
        function = exp.LastValue(this=call.this.copy()) if isinstance(call, exp.Last) else call.copy()
    spec = exp.WindowSpec(kind="ROWS", start=back.copy(), start_side="PRECEDING", end="CURRENT ROW")
    return over(function, partition, order, spec)


# The rows of a window ---------------------------------------------------------------------------------------------------


def arrived_in_push(below: Flow) -> exp.Expr:
    """Whether a row of the window arrived with this push."""
    return exp.GTE(this=column("seq"), expression=first_arrival("seq", below))


def within_reach(below: Flow) -> list[exp.Expr]:
    """Conditions on the rows that some arrival can still see; the other rows only wait for a purge."""
    if below.size is None or below.size == NEVER:
        return []
    size = number(below.size)
    size.meta[AT_LEAST] = True
    since = exp.Sub(this=first_arrival("ts", below), expression=size)
    return [exp.GT(this=column("ts"), expression=since)]


def first_arrival(name: str, below: Flow) -> exp.Expr:
    """The least `ts` or `seq` of the arrivals."""
    return _of_arrivals(exp.Min(this=column(name)), name, below)


def last_arrival(below: Flow) -> exp.Expr:
    """The greatest `ts` of the arrivals."""
    return _of_arrivals(exp.Max(this=column("ts")), "ts", below)


def _of_arrivals(value: exp.Expr, name: str, below: Flow) -> exp.Expr:
    arrivals = derived_table(below.arrivals.select([name]), "n")
    return exp.Subquery(this=exp.select(value).from_(arrivals))


def reads_last_rows(node: query.Aggregate, below: Flow) -> bool:
    """Whether the window is the last n rows, numbered together for all rows of a group."""
    if not below.is_last_rows or node.on_change:
        return False
    assert below.last is not None and below.content is not None
    groups = [below.content.value(key) for key in node.group_by]
    return all(key in groups for key in below.last.keys)


def is_cumulative(node: query.Aggregate, below: Flow) -> bool:
    """Whether all rows of a group leave the window at once, as sessions do, or never: all rows up to the arrival."""
    if below.counted or below.jumping or below.late:
        return False
    if below.size == NEVER or below.sessions_of is None:
        return below.size == NEVER
    assert below.content is not None
    groups = [below.content.value(key) for key in node.group_by]
    return SESSION in below.content.columns and all(key in groups for key in below.sessions_of)


def begins_at_first(below: Flow) -> bool:
    """Whether each frame of such a window begins with the first row of its partition."""
    return below.size == NEVER or below.sessions_of is not None


def sessions(below: Flow) -> list[exp.Expr]:
    """The column that tells the sessions of a group apart, if the window has any."""
    return [] if below.sessions_of is None else [column(SESSION)]


def frame_columns(below: Flow) -> list[str]:
    """The columns of a window's content that its frames need, in addition to those of every flow."""
    return [*([NTH] if below.last else []), *([] if below.sessions_of is None else [SESSION])]


def rows_by_index(node: query.Aggregate, below: Flow) -> tuple[Selection, exp.Expr]:
    """The stored rows of a window of last rows, and the condition that a row `w` of `t`'s group is recent enough."""
    assert below.content is not None and below.last is not None
    kept = below.last.rows
    groups = [below.content.value(key) for key in node.group_by]
    same_key = [
        null_safe_equal(kept.value(key, "o"), column_of("t", f"_key{groups.index(key)}")) for key in below.last.keys
    ]
    since = exp.GTE(this=column_of("w", "seq"), expression=oldest_seq(below, column_of("t", "seq"), same_key))
    return stored_rows(below.content, below.last), since


# The select list --------------------------------------------------------------------------------------------------------


def group_columns(node: query.Aggregate) -> dict[str, exp.Expr]:
    """The expressions of GROUP BY, by the names of their columns."""
    return {f"_key{place}": key for place, key in enumerate(node.group_by)}


def aggregate_calls(node: query.Aggregate) -> list[exp.Expr]:
    """The calls of aggregates in the select list."""
    return [call for item in node.columns for call in item.find_all(exp.AggFunc)]


def offset_of(call: exp.Expr) -> int:
    """The distance in rows that FIRST, LAST or NTH_VALUE looks from the edge of the window: 2 for `LAST(v, 2)`."""
    away = call.args.get("offset" if isinstance(call, exp.NthValue) else "expression")
    away = away if isinstance(call, (exp.First, exp.Last, exp.NthValue)) else None
    return 0 if away is None else int(away.name)


def with_aggregates(
    expression: exp.Expr, node: query.Aggregate, keys: Sequence[exp.Expr], value: Callable[[exp.Expr], exp.Expr]
) -> exp.Expr:
    """An expression of the select list, with `keys` for the GROUP BY expressions and `value(call)` for aggregates."""
    if expression in node.group_by:
        return keys[node.group_by.index(expression)].copy()
    if isinstance(expression, exp.AggFunc) or is_list(expression):
        return value(expression) if isinstance(expression, exp.Avg) else computed_as(value(expression), expression)
    result = expression.copy()
    for child in list(result.iter_expressions()):
        child.replace(with_aggregates(child, node, keys, value))
    return result
