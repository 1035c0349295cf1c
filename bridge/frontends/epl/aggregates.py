"""Aggregates of EPL: the rows that they are computed over, and when they are reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl.clauses import OutputClauses
from bridge.frontends.epl.istream_rstream import NEW, PREVIOUS, is_mark
from bridge.frontends.epl.named_windows import has_all_time, reports_expired_groups
from bridge.frontends.epl.previous import of_same, within
from bridge.frontends.expressions import position_of
from bridge.query.epl_columns import ALL_TIME, OF_EVENT, RATE, PreviousRow, SubqueryColumn
from bridge.query.epl_output import Snapshot
from bridge.query.nodes import (
    Aggregate,
    Correlate,
    Filter,
    Map,
    Node,
    Stream,
    Union,
    Window,
    is_plain_join,
    without_filters,
)
from windows.extents import Range, Rows, Unbounded
from windows.sql import column, number
from windows.sql import column as by_name


@dataclasses.dataclass(frozen=True)
class AggregateRequest:
    """The columns of a statement with aggregates, its groups, and the condition of HAVING."""

    columns: tuple[exp.Expr, ...]
    keys: tuple[exp.Expr, ...]
    having: exp.Expr | None

    @property
    def is_per_event(self) -> bool:
        """Whether there are values of the single event beside aggregates and groups."""
        parts = [*self.columns, *([] if self.having is None else [self.having])]
        return any(_reads_event(part, self.keys) for part in parts)

    @property
    def position(self) -> int | None:
        """The offset of the columns."""
        return next((at for column in self.columns if (at := position_of(column)) is not None), None)


def aggregate_over(cursor: Cursor, node: Node, request: AggregateRequest, position: int) -> Aggregate:
    """The aggregate over a node. A stream without a window has all its events, as with #keepall."""
    snapshot = isinstance(node, Snapshot)
    window = without_filters(node.input if isinstance(node, Snapshot) else node)
    lists = [found for column in request.columns for found in column.find_all(exp.ArrayAgg)]
    if isinstance(window, Correlate):
        _check_join(cursor, window, position)
        if lists:  # Esper lists an event once, even if it is in several combinations
            cursor.fail(
                "window over a join is not supported: insert the join's results into a stream",
                lists[0].meta_get("start"),
            )
        if request.is_per_event:
            cursor.fail(
                "values of single events beside aggregates over a join are not supported: insert its results into a stream",
                request.position or position,
            )
        return dataclasses.replace(
            _aggregate(node, request), every_change=not snapshot
        )  # once per event, over all its combinations
    if lists and not isinstance(window, Window):
        cursor.fail("window wants a window: #keepall has all events", lists[0].meta_get("start"))
    if not isinstance(window, Window):
        node = window = Window(node, Unbounded())
    if snapshot and has_all_time(_aggregate(node, request)):
        cursor.fail(
            "firstever, lastever and countever are not supported with output snapshot", request.position or position
        )
    if not request.is_per_event:
        more = not snapshot and reports_expired_groups(window, node is not window, request.keys)
        return dataclasses.replace(_aggregate(node, request), every_change=more)
    if snapshot or window.extent.is_sorted or window.extent.jumps:
        cursor.fail(
            "values of single events beside aggregates over this window are not supported: group by them, or aggregate them",
            request.position or position,
        )
    return _per_event(node, request)


def _check_join(cursor: Cursor, node: Correlate, position: int) -> None:
    if not is_plain_join(node):
        cursor.fail(
            "aggregates are supported over an inner join of windows that are neither batches nor #time_accum: insert the "
            "results of any other join into a stream, and read that",
            position,
        )


def _aggregate(node: Node, request: AggregateRequest) -> Aggregate:
    return Aggregate(node, request.columns, request.keys, request.having)


def _per_event(node: Node, request: AggregateRequest) -> Aggregate:
    """An aggregate with values of the event that enters: as it is the newest of its group, LAST gives them."""
    columns = tuple(_named_column(column, request.keys) for column in request.columns)
    having = None if request.having is None else _last(request.having, request.keys)
    return Aggregate(node, columns, request.keys, having)


def _named_column(column: exp.Expr, keys: Sequence[exp.Expr]) -> exp.Expr:
    if isinstance(column, exp.Alias):
        return exp.alias_(_last(column.this, keys), column.alias, quoted=True)
    if not _reads_event(column, keys):
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


def _reads_event(value: exp.Expr, keys: Sequence[exp.Expr]) -> bool:
    """Whether a value reads a column that is neither inside an aggregate nor among the groups."""
    if value in keys or isinstance(value, exp.AggFunc):
        return False
    return isinstance(value, exp.Column) or any(_reads_event(child, keys) for child in value.iter_expressions())


# Previous values of aggregates (EPL's rstream and irstream): a group's last report, or the aggregate over no events

_KEY = "key."


def reported_changes(
    cursor: Cursor, which: str, columns: tuple[exp.Expr, ...], aggregate: Callable[[tuple[exp.Expr, ...]], Aggregate]
) -> Node:
    """The results of `rstream` over an aggregate, or of `irstream` with the mark among the columns.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> from bridge.query.nodes import Stream, Window
    >>> def made(columns):
    ...     return Aggregate(Window(Stream("s"), "ROWS 5"), columns)
    >>> print(reported_changes(EplCursor("rstream"), "RSTREAM", (exp.alias_(exp.Count(this=exp.Star()), "n"),), made))
    SELECT COALESCE("previous.1", 0) AS "n" FROM \
(SELECT COUNT(*) AS n FROM s WINDOW(ROWS 5)) WITH "previous.1" ("n" OF 1 ROWS BEFORE)
    """
    marks = [is_mark(column.unalias()) for column in columns]
    listed = tuple(column for column, mark in zip(columns, marks, strict=True) if not mark)
    made = _with_keys(aggregate(listed), listed)
    node, before = _with_values_before(cursor, which, made, listed)

    def reported(is_new: bool) -> Map:
        found: list[exp.Expr] = []
        place = 0
        for item, mark in zip(columns, marks, strict=True):
            place += not mark
            own: exp.Expr = exp.true() if is_new else exp.false()
            if not mark:
                own = by_name(_alias_of(item)) if is_new else before.get(place, by_name(_alias_of(item))).copy()
            found.append(exp.alias_(own, _alias_of(item), quoted=True))
        return Map(node, tuple(found))

    return reported(False) if which == "RSTREAM" else Union((reported(True), reported(False)))


def _with_keys(aggregate: Aggregate, columns: tuple[exp.Expr, ...]) -> Aggregate:
    """The aggregate with those of its keys as further columns that are not among the columns yet."""
    values = [column.unalias() for column in columns]
    hidden = tuple(
        exp.alias_(key.copy(), f"{_KEY}{place}", quoted=True)
        for place, key in enumerate(aggregate.group_by, 1)
        if key not in values
    )
    return dataclasses.replace(aggregate, columns=(*aggregate.columns, *hidden))


def _with_values_before(
    cursor: Cursor, which: str, aggregate: Aggregate, columns: tuple[exp.Expr, ...]
) -> tuple[Node, dict[int, exp.Expr]]:
    """The aggregate with each group's values before, and the expressions that read these, by column number."""
    names = {column.unalias(): _alias_of(column) for column in aggregate.columns}
    keys = tuple(by_name(names[key]) for key in aggregate.group_by)
    node: Node = aggregate
    before: dict[int, exp.Expr] = {}
    for place, item in enumerate(columns, 1):
        value = item.unalias()
        if value in aggregate.group_by:
            continue
        if not isinstance(value, exp.AggFunc):
            cursor.fail(
                f"{which.lower()} reports groups and aggregates alone: insert them into a stream, and compute with its columns",
                position_of(value),
            )
        called = f"{PREVIOUS}{place}"
        node = PreviousRow(node, called, by_name(_alias_of(item)), 1, None, keys)
        counts = isinstance(value, exp.Count)
        none = [number(0)]
        before[place] = exp.Coalesce(this=by_name(called), expressions=none) if counts else by_name(called)
    return node, before


def _alias_of(column: exp.Expr) -> str:
    if isinstance(column, exp.Alias):
        return str(column.alias)
    return column.name if isinstance(column, exp.Column) and column.name != NEW else column.sql()


# EPL's firstever, lastever, countever and rate: over all events so far, whatever is still in the window


def needs_running_aggregates(node: Node, columns: Sequence[exp.Expr]) -> bool:
    """Whether columns are over other events than the window's: all events so far, or those of the last seconds."""
    calls = [part for one in columns for part in one.walk() if part.meta_get(ALL_TIME) is not None]
    base = without_filters(node)
    leaves = isinstance(base, Correlate) or (isinstance(base, Window) and base.extent.leaves)
    return bool(calls) and (leaves or any(call.meta_get(RATE) is not None for call in calls))


def with_running_aggregates(
    cursor: Cursor, node: Node, request: AggregateRequest, output: OutputClauses, position: int
) -> Node:
    """The aggregates over a window, combined with those over all events."""
    position = request.position or position
    base = without_filters(node)
    if not isinstance(base, (Stream, Window)) or (isinstance(base, Window) and base.extent.jumps):
        cursor.fail(
            "firstever, lastever, countever and rate are supported over one stream, without a window or with one that is "
            "not a batch: insert the results into a stream, and read that",
            position,
        )
    if output.rate is not None or output.is_arranged or output.distinct:
        cursor.fail(
            "firstever, lastever and countever beside a window, and rate, are not supported with output, order by, limit "
            "or distinct: insert the results into a stream, and read that",
            position,
        )
    calls, inner, columns = _split_columns(cursor, request, position)
    keys = {key: f"key.{place}" for place, key in enumerate(request.keys)}
    listed = [*inner, *(exp.alias_(key.copy(), name, quoted=True) for key, name in keys.items())]
    listed = listed or [exp.alias_(exp.Count(this=exp.Star()), "part.0", quoted=True)]
    found: Node = aggregate_over(cursor, node, AggregateRequest(tuple(listed), request.keys, request.having), position)
    return Map(_RunningAggregates(node, keys).with_calls(cursor, found, calls, position), columns)


def _split_columns(
    cursor: Cursor, request: AggregateRequest, position: int
) -> tuple[dict[str, exp.Expr], list[exp.Expr], tuple[exp.Expr, ...]]:
    """The calls over all events, by name; the values that the window gives; and the columns, which combine both."""
    calls: dict[str, exp.Expr] = {}
    inner: list[exp.Expr] = []

    def part(node: exp.Expr) -> exp.Expr:
        if node.meta_get(ALL_TIME) is not None:
            calls[name := f"ever.{len(calls) + 1}"] = node.copy()
            milliseconds = node.meta_get(RATE)
            return column(name) if milliseconds is None else _rate(name, milliseconds)
        if node not in request.keys and not isinstance(node, (exp.AggFunc, exp.Column)):
            return node
        inner.append(exp.alias_(node.copy(), f"part.{len(inner) + 1}", quoted=True))
        return column(f"part.{len(inner)}")

    columns = []
    for one in request.columns:
        if any(node.meta_get(ALL_TIME) is not None for node in one.walk()) and not isinstance(one, exp.Alias):
            cursor.fail("a column with firstever, lastever, countever or rate is named here: … as x", position)
        columns.append(exp.alias_(one.unalias().transform(part), one.alias_or_name or one.sql(), quoted=True))
    return calls, inner, tuple(columns)


def _rate(name: str, milliseconds: int) -> exp.Expr:
    """Events per second, as soon as the first event is that old."""
    count = exp.Mul(this=column(name), expression=number(1000))
    passed = exp.Sub(this=column("ts"), expression=column(f"since.{name}"))
    is_full = exp.GTE(this=passed, expression=number(milliseconds))
    return exp.Case().when(is_full, exp.Div(this=exp.paren(count), expression=number(milliseconds)))


@dataclasses.dataclass(frozen=True)
class _RunningAggregates:
    """Aggregates over all events of a node so far, or over the last seconds, as of each event: those of its group."""

    node: Node
    keys: Mapping[exp.Expr, str]

    def with_calls(self, cursor: Cursor, results: Node, calls: Mapping[str, exp.Expr], position: int) -> Node:
        """The results, with the current values of the calls under their names."""
        every = {name: _value(call) for name, call in calls.items() if call.meta_get(RATE) is None}
        rates = {name: call.meta[RATE] for name, call in calls.items() if call.meta_get(RATE) is not None}
        base = without_filters(self.node)
        if rates and isinstance(base, Window) and not isinstance(base.extent, Unbounded):
            cursor.fail("rate is supported without a window, and over #keepall: it has a time of its own", position)
        every |= {f"since.{name}": exp.Min(this=column("ts")) for name in rates}
        results = self._with_values(results, every, Unbounded())
        for name, milliseconds in rates.items():
            results = self._with_values(results, {name: exp.Count(this=exp.Star())}, Range(milliseconds))
        return results

    def _with_values(self, results: Node, values: Mapping[str, exp.Expr], extent: Unbounded | Range) -> Node:
        """The results with the values as of the last event of their group."""
        named = {**{name: key for key, name in self.keys.items()}, **values}
        listed = tuple(exp.alias_(value.copy(), name, quoted=True) for name, value in named.items())
        own = tuple(map(column, self.keys.values()))
        last = Window(Aggregate(_all(self.node, extent), listed, tuple(self.keys)), Rows(1), own)
        for name in values:
            results = SubqueryColumn(results, name, last, of_same(name, own), within(name, column(name)), place=0)
        return results


def _value(call: exp.Expr) -> exp.Expr:
    """The aggregate as one over a window that contains all events."""
    found = call.copy()
    found.meta.pop(ALL_TIME)
    return found


def _all(node: Node, extent: Unbounded | Range) -> Node:
    """The same events in another window."""
    if isinstance(node, Filter) and isinstance(without_filters(node), Window):
        return dataclasses.replace(node, input=_all(node.input, extent))
    return Window(node.input if isinstance(node, Window) else node, extent)
