"""OVER … RANGE of standard SQL: an aggregate over the rows of a time before each row, and all rows of the row's own time.

These are there when the row's time has passed. So each row leaves the window NOW then, and its values are looked up.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from bridge.frontends.sql.streaming.over_rows import OverRows
from bridge.frontends.sql.streaming.select_list import with_names
from bridge.frontends.sql.streaming.time_values import interval_ms
from bridge.frontends.sql.streaming.undecided import decide
from bridge.frontends.sql.streaming.window_groups import EVENT_TIME, with_event_time
from bridge.query.epl_columns import SubqueryColumn
from bridge.query.epl_output import RStream
from bridge.query.expressions import col
from bridge.query.nodes import Filter, Map, Node, Window
from windows.aggregates import filtered, ignores_nulls
from windows.extents import Now, Range, Unbounded
from windows.sql import change_columns


def is_range(window: exp.Window) -> bool:
    """Whether the frame of OVER is a range of time; it is, without a frame, for aggregates."""
    spec = window.args.get("spec")
    if isinstance(window.this, (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead)):
        return False
    return spec is None or spec.args.get("kind") == "RANGE"


class OverRange(OverRows):
    """The values of a select list OVER ranges of time. Each may have a frame of its own."""

    def node(self, below: Node, columns: tuple[exp.Expr, ...], qualify: tuple[exp.Expr, ...]) -> Node:
        """The query objects; `qualify` are conditions on the values."""
        below = decide(self.cursor, below)
        columns = with_names(self.cursor, columns, below)
        timed = with_event_time(below)
        node: Node = RStream(Window(timed, Now()))
        names: dict[exp.Expr, str] = {}
        for window in (found for each in (*columns, *qualify) for found in each.find_all(exp.Window)):
            if not is_range(window):
                self._fail("OVER a range of time beside OVER rows: put one of them into a sub-query", window)
            if window not in names:
                names[window] = f"over_{len(names) + 1}"
                node = self._looked_up(node, timed, window, names[window])
        if qualify:
            node = Filter(node, exp.and_(*(_of_row(each, names) for each in qualify)))
        return Map(node, tuple(self._named(column, names) for column in columns))

    def _looked_up(self, node: Node, timed: Node, window: exp.Window, name: str) -> SubqueryColumn:
        self._check_order(window)
        length = self._length(window)
        keys = window.args.get("partition_by") or ()
        mine, theirs = col(EVENT_TIME), col(EVENT_TIME, of=name)
        conditions: list[exp.Expr] = [exp.NullSafeEQ(this=key.copy(), expression=_qualified(key, name)) for key in keys]
        conditions.append(exp.LTE(this=theirs, expression=mine))
        if length is not None:
            since = exp.Sub(this=mine.copy(), expression=exp.Literal.number(length)) if length else mine.copy()
            conditions.append(exp.GTE(this=theirs.copy(), expression=since))
        # a millisecond after the row, the window still has what is `length` older than the row
        source = Window(timed, Unbounded() if length is None else Range(length + 2))
        return SubqueryColumn(node, name, source, exp.and_(*conditions), self._aggregate(window, name))

    def _length(self, window: exp.Window) -> int | None:
        """The milliseconds of a frame; None: all time."""
        spec = window.args.get("spec")
        if spec is None or spec.args.get("start") == "UNBOUNDED":
            return None
        start, end = spec.args.get("start"), spec.args.get("end")
        if end not in (None, "CURRENT ROW"):
            self._fail("a frame ends with the CURRENT ROW: the rows to come are not known", window)
        length = 0 if start == "CURRENT ROW" else interval_ms(start)
        if length is None or length < 0 or (start != "CURRENT ROW" and spec.args.get("start_side") != "PRECEDING"):
            self._fail("a frame is RANGE INTERVAL '5' SECOND PRECEDING, with days or less", window)
        return length

    def _aggregate(self, window: exp.Window, name: str) -> exp.Expr:
        function = window.this
        condition = None
        if isinstance(function, exp.Filter):
            function, condition = function.this, function.expression.this
        if not isinstance(function, exp.AggFunc) or isinstance(function, (exp.FirstValue, exp.LastValue)):
            self._fail(
                f"{function.sql()} OVER a range of time is not supported: aggregates without an order are", window
            )
        call = _qualified(function, name)
        if condition is None:
            return call
        if not ignores_nulls(call):
            self._fail(f"FILTER is not supported with {function.sql()}, which may count NULLs", window)
        return filtered(call, _qualified(condition, name))

    def _named(self, column: exp.Expr, names: dict[exp.Expr, str]) -> exp.Expr:
        if isinstance(column, exp.Star):
            self._refuse_star(column)
        value = column.this if isinstance(column, exp.Alias) else column
        if isinstance(value, exp.Column) and value.name.lower() == "ts" and value is column:
            self._fail("results OVER a range come a millisecond after ts: give it a name, ts AS t", column)
        changed = _of_row(value, names)
        if changed == column:
            return column
        name = exp.to_identifier(column.alias or value.sql(), quoted=not column.alias)
        return exp.alias_(changed, column.args["alias"].copy() if isinstance(column, exp.Alias) else name)

    def _refuse_star(self, star: exp.Expr) -> NoReturn:
        self._fail("* beside OVER is not supported over a stream: name the columns", star)


def _qualified(expression: exp.Expr, name: str) -> exp.Expr:
    """An expression over the rows that are looked up. Their ts is the time of the event."""

    def changed(column: exp.Column) -> exp.Expr:
        return col(EVENT_TIME, of=name) if column.name.lower() == "ts" else exp.column(column.this.copy(), table=name)

    return change_columns(expression, changed)


def _of_row(expression: exp.Expr, names: dict[exp.Expr, str]) -> exp.Expr:
    """An expression over the row itself, whose values OVER ranges are columns by now."""

    def changed(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Window):
            return col(names[node])
        return col(EVENT_TIME) if isinstance(node, exp.Column) and node.name.lower() == "ts" else node

    return expression.copy().transform(changed)
