"""GROUP BY the windows of a window function: an aggregate over a window that jumps, and its bounds as columns."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from sqlglot import exp

from bridge.frontends.expressions import all_of
from bridge.frontends.sql.streaming.bounds import OF_GROUPS, mark, mark_result
from bridge.frontends.sql.streaming.undecided import END, START, TIME, RowsInWindows, bounds_at_end, moved, period_start
from bridge.frontends.sql.streaming.window_functions import WindowFunction
from bridge.query.epl_output import OrderLimitDistinct, RStream
from bridge.query.expressions import col, count
from bridge.query.nodes import Aggregate, Filter, Map, Node, Window
from windows.extents import Now, Session
from windows.sql import conjuncts, with_operands

EVENT_TIME, _SESSION_TIME = "event_ts", "session_ts"
"""The columns with the time of a row in a window that jumps, and in a session."""


class Grouping(NamedTuple):
    """The clauses of a SELECT that groups by windows. `keys` are those beside the window."""

    columns: tuple[exp.Expr, ...]
    conditions: tuple[exp.Expr, ...]
    keys: tuple[exp.Expr, ...]
    having: tuple[exp.Expr, ...]


def group_by_windows(rows: RowsInWindows, by: Grouping) -> Node:
    """The query objects: `Map` over `Aggregate` over a window, whose results have the end of the window as their time.

    >>> from bridge.frontends.sql.statements import parse
    >>> print(parse("SELECT window_start, COUNT(*) AS n FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' SECOND) "
    ...             "GROUP BY window_start, window_end"))
    SELECT ts - 1000 AS window_start, n FROM (SELECT COUNT(*) AS n FROM s WINDOW(RANGE 1000 MS SLIDE 1000 MS))
    """
    conditions, by = parts_of(by.conditions), by._replace(having=parts_of(by.having))
    before = [condition for condition in conditions if not rows.has_bound(condition)]
    below = Filter(rows.input, all_of(tuple(before))) if before else rows.input
    timed = _timed(rows, by)
    if timed != by:  # in a window that jumps, ts is the time of the jump
        below = with_event_time(below)
        by = timed
    having = [condition for condition in by.having if not rows.has_bound(condition)]
    after = [condition for condition in (*conditions, *by.having) if rows.has_bound(condition)]
    windows = _windows(rows, below, by.keys)
    if windows.once_per_instant is not None:  # earlier results of the instant are of a part of the group
        having, after = [], [*after, *having]
    lifter = _Lifter(rows, windows.bounds, [*windows.added])
    columns = tuple(map(lifter.column, by.columns))
    kept = [*windows.kept, *(lifter.value(condition) for condition in after)]
    if not (kept or windows.added or any(map(rows.has_bound, by.columns))):
        lifter.columns = list(by.columns)
        columns = ()
    aggregated = lifter.columns or [exp.alias_(count(), "n")]
    mark_result((*aggregated, *columns))
    node: Node = Aggregate(
        windows.node, tuple(aggregated), windows.keys, all_of(tuple(having)) if having else None
    )  # fmt: skip
    if windows.once_per_instant is not None:
        node = OrderLimitDistinct(node, last_of=tuple(map(lifter.key, windows.once_per_instant)))
    node = Filter(node, all_of(tuple(kept))) if kept else node
    if not columns:
        return node
    for column, selected in zip(columns, by.columns, strict=True):
        if rows.bound(selected.this if isinstance(selected, exp.Alias) else selected) is not None:
            mark(column, OF_GROUPS)
    return Map(node, columns)


def with_event_time(node: Node) -> Node:
    """The rows with their ts as one more column, which stays when a window or a join gives them another time."""
    return Map(node, (exp.Star(), exp.alias_(exp.column("ts"), EVENT_TIME)))


def regroup_by_windows(
    node: Node, columns: tuple[exp.Expr, ...], keys: tuple[exp.Expr, ...], having: tuple[exp.Expr, ...]
) -> Node:
    """Groups of the results of windows by the bounds of these windows.

    All results of a window have one time, so the last result over those of an instant is over all of them.
    """
    lifter = _Lifter(None, {}, [])
    listed = tuple(map(lifter.column, columns))
    kept = tuple(lifter.value(condition) for condition in having)
    last_of = tuple(map(lifter.key, keys))
    last: Node = OrderLimitDistinct(Aggregate(Window(node, Now()), tuple(lifter.columns), keys), last_of=last_of)
    mark_result(listed)
    return Map(Filter(last, all_of(kept)) if kept else last, listed)


def parts_of(conditions: tuple[exp.Expr, ...]) -> tuple[exp.Expr, ...]:
    """The conditions, each part that AND joins by itself."""
    return tuple(part for condition in conditions for part in conjuncts(condition))


def _timed(rows: RowsInWindows, by: Grouping) -> Grouping:
    """The clauses with the time of the event in place of ts, but for conditions, which stand before the window."""

    def timed(node: exp.Expr) -> exp.Expr:
        if rows.bound(node) is not None:
            return node.copy()
        if isinstance(node, exp.Column) and node.name.lower() == "ts":
            return exp.column(EVENT_TIME)
        return with_operands(node, timed)

    def all_timed(expressions: tuple[exp.Expr, ...]) -> tuple[exp.Expr, ...]:
        return tuple(map(timed, expressions))

    return by._replace(columns=all_timed(by.columns), keys=all_timed(by.keys), having=all_timed(by.having))


class _Windows(NamedTuple):
    """The windows below an aggregate: the content, its keys, and the bounds over the aggregate's results.

    `added`: columns of the aggregate beside the selected ones. `kept`: conditions on its results.
    `once_per_instant`: the keys of which only the last result of an instant counts.
    """

    node: Node
    keys: tuple[exp.Expr, ...]
    bounds: dict[str, exp.Expr]
    added: tuple[exp.Expr, ...] = ()
    kept: tuple[exp.Expr, ...] = ()
    once_per_instant: tuple[exp.Expr, ...] | None = None


def _windows(rows: RowsInWindows, below: Node, keys: tuple[exp.Expr, ...]) -> _Windows:
    function, ts = rows.function, exp.column("ts")
    if function.kind == "SESSION":
        return _sessions(function, below, keys)
    if function.kind == "CUMULATE":
        # The content is that of the last `size` milliseconds, in which two periods may meet: each is a group.
        start = col("window_start")
        node = Window(Map(below, (exp.Star(), exp.alias_(period_start(function), "window_start"))), function.extent)
        inside = exp.LTE(this=ts, expression=moved(start, function.size))
        bounds = bounds_at_end(function) | {START: moved(start, -function.lag)}
        return _Windows(node, (*keys, start), bounds, (start,), (inside,))
    return _Windows(Window(below, function.extent), keys, bounds_at_end(function))


def _sessions(function: WindowFunction, below: Node, keys: tuple[exp.Expr, ...]) -> _Windows:
    """All rows of a session leave its window together, a millisecond after its end: then they are grouped."""
    timed = Map(below, (exp.Star(), exp.alias_(exp.column("ts"), _SESSION_TIME)))
    leaving = RStream(Window(timed, Session(function.size + 1), keys))
    times = exp.column(_SESSION_TIME)
    ends = [exp.alias_(exp.Min(this=times.copy()), "window_start")]
    ts, lag = exp.column("ts"), function.lag
    bounds = {START: moved(col("window_start"), -lag), END: moved(ts, -1 - lag), TIME: moved(ts, -2 - lag)}
    return _Windows(Window(leaving, Now()), keys, bounds, tuple(ends), once_per_instant=keys)


class _Lifter:
    """Splits expressions into columns of the aggregate and expressions over its results, where the bounds are known."""

    def __init__(self, rows: RowsInWindows | None, bounds: dict[str, exp.Expr], columns: list[exp.Expr]) -> None:
        self.rows, self.bounds, self.columns = rows, bounds, columns

    def _has_bound(self, node: exp.Expr) -> bool:
        return self.rows is not None and self.rows.has_bound(node)

    def column(self, column: exp.Expr) -> exp.Expr:
        """A column of the select list, over the results of the aggregate."""
        value = column.this if isinstance(column, exp.Alias) else column
        name = column.alias if isinstance(column, exp.Alias) else _name(value)
        if not self._has_bound(value):
            self.columns.append(column)
            return col(name)
        lifted = self.value(value)
        return lifted if isinstance(lifted, exp.Column) and lifted.name == name else exp.alias_(lifted, col(name).this)

    def value(self, node: exp.Expr) -> exp.Expr:
        """An expression over the results of the aggregate."""
        bound = None if self.rows is None else self.rows.bound(node)
        if bound is not None:
            return self.bounds[bound].copy()
        if not self._has_bound(node):
            return node.copy() if isinstance(node, (exp.Literal, exp.Var, exp.DataType)) else self._added(node)
        changed = node.copy()
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                changed.set(key, self._operand(value))
            elif isinstance(value, list):
                changed.set(key, [self.value(each) if isinstance(each, exp.Expr) else each for each in value])
        return changed

    def _operand(self, value: exp.Expr) -> exp.Expr:
        lifted = self.value(value)
        needs = isinstance(lifted, exp.Binary) and not isinstance(value, exp.Binary)
        return exp.Paren(this=lifted) if needs else lifted

    def key(self, key: exp.Expr) -> exp.Expr:
        """A key of GROUP BY over the results of the aggregate."""
        return self._added(key)

    def _added(self, value: exp.Expr) -> exp.Expr:
        for column in self.columns:
            if column == value or (isinstance(column, exp.Alias) and column.this == value):
                return col(column.alias_or_name)
        taken = {column.alias_or_name.lower() for column in self.columns}
        if isinstance(value, exp.Column) and value.name.lower() not in taken:
            self.columns.append(value)
            return col(value.name)
        name = next(name for place in range(1, len(taken) + 2) if (name := f"value{place}") not in taken)
        self.columns.append(exp.alias_(value.copy(), name))
        return col(name)


def _name(value: exp.Expr) -> str:
    return value.name if isinstance(value, exp.Column) else value.sql()


def with_columns(
    rows: RowsInWindows, conditions: tuple[exp.Expr, ...], columns: tuple[exp.Expr, ...]
) -> RowsInWindows | None:
    """The same rows with other columns and fewer rows; None if a bound is in an expression."""
    if any(map(rows.has_bound, conditions)):
        return None
    below = Filter(rows.input, all_of(conditions)) if conditions else rows.input
    if len(columns) == 1 and isinstance(columns[0], exp.Star):
        return dataclasses.replace(rows, input=below)
    listed: list[tuple[str, str | None]] = []
    values = []
    for column in columns:
        value = column.this if isinstance(column, exp.Alias) else column
        name = column.alias if isinstance(column, exp.Alias) else _name(value)
        if (bound := rows.bound(value)) is not None:
            listed.append((name, bound))
        elif rows.has_bound(value) or isinstance(value, exp.Star):
            return None
        else:
            values.append(column)
            listed.append((name, None))
    return dataclasses.replace(rows, input=Map(below, tuple(values)) if values else below, columns=tuple(listed))
