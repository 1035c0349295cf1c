"""Numbers of the rows of a window, which are decided at its end: `PARTITION BY window_start, window_end, k ORDER BY v`.

All rows of a window come at one time. They are sorted by key and value, and counted per key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlglot import exp

from bridge.frontends.expressions import all_of
from bridge.frontends.sql.streaming.bounds import OF_GROUPS, mark, mark_result
from bridge.frontends.sql.streaming.select_list import with_time_named
from bridge.frontends.sql.streaming.undecided import RowsInWindows, bounds_at_end
from bridge.frontends.sql.streaming.window_groups import with_event_time
from bridge.query.epl_output import OrderLimitDistinct
from bridge.query.expressions import col, count
from bridge.query.nodes import Aggregate, Filter, Map, Node, Window
from windows.extents import Now
from windows.sql import change_columns

_EQUAL = "equal_value"
"""The beginning of the names of the values that rows of one rank share."""

_NUMBER = "row_rank"
"""The name of a number that is not selected."""

Columns = tuple[exp.Expr, ...]


def end_of(rows: RowsInWindows) -> Node:
    """All rows of each window at its end, with their own times as one more column."""
    return Window(with_event_time(rows.input), rows.function.extent)


class Numbering(NamedTuple):
    """The rows of an instant, with columns, numbered per key in an order."""

    rows: Node
    columns: Columns
    keys: Columns
    order: tuple[exp.Ordered, ...]
    kind: type[exp.Expr] = exp.RowNumber
    """ROW_NUMBER, RANK or DENSE_RANK."""

    def with_time(self, name: str) -> Numbering:
        """The same with the time of the event in place of ts, which is that of the window's end."""
        columns, keys = (tuple(with_time_named(each, name) for each in listed) for listed in (self.columns, self.keys))
        order = tuple(
            exp.Ordered(this=with_time_named(one.this, name), desc=one.args.get("desc")) for one in self.order
        )
        return self._replace(columns=columns, keys=keys, order=order)

    def node(
        self,
        limit: tuple[int, int],
        number: str | None,
        placed: Callable[[Columns, exp.Expr], Columns],
        windowed: RowsInWindows | None,
    ) -> Node:
        """The rows whose numbers are within `limit`. `number`: the name of the number, if it is selected.

        `placed` puts it among the columns. `windowed`: the rows whose bounds the columns name.
        """
        least, most = limit
        if not self.keys and number is None and least == 1 and self.kind is exp.RowNumber:
            arranged = OrderLimitDistinct(self.rows, tuple(map(term_of, self.order)), most)
            return Map(arranged, tuple(_bounded(column, windowed) for column in self.columns))
        terms = (*(exp.Ordered(this=key.copy(), desc=False) for key in self.keys), *map(term_of, self.order))
        own = [column for column in self.columns if not _has_bound(column, windowed)]
        name = number or _NUMBER
        counted = self._counted(Window(OrderLimitDistinct(self.rows, terms), Now()), tuple(own), col(name).this)
        conditions: list[exp.Expr] = [exp.LTE(this=col(name), expression=exp.Literal.number(most))]
        if least > 1:
            conditions.append(exp.GTE(this=col(name), expression=exp.Literal.number(least)))
        listed = tuple(
            _bounded(column, windowed) if _has_bound(column, windowed) else col(column.alias_or_name)
            for column in self.columns
        )
        listed = listed if number is None else placed(listed, col(number))
        mark_result(listed)
        return Map(Filter(counted, all_of(tuple(conditions))), listed)

    def _counted(self, ordered: Node, own: Columns, name: exp.Identifier) -> Node:
        """The rows of an instant in their order, each with its number, which equal rows share if it is a rank."""
        listed = tuple(map(last_of_rows, own))
        if self.kind is exp.RowNumber:
            return Aggregate(ordered, (*listed, exp.alias_(count(), name)), self.keys)
        values = [*self.keys, *(term.this for term in self.order)]
        if self.kind is exp.DenseRank:
            return Aggregate(ordered, (*listed, exp.alias_(_count_of_values(values[-1]), name)), self.keys)
        equal = [exp.alias_(value.copy(), col(f"{_EQUAL}{place}").this) for place, value in enumerate(values, 1)]
        keys = tuple(col(column.alias) for column in equal)
        numbered = Aggregate(
            ordered,
            (*listed, *equal[: len(self.keys)], *map(last_of_rows, equal[len(self.keys) :]), exp.alias_(count(), name)),
            self.keys,
        )
        # of equal rows the first one has come already, and its number is the least
        least = exp.alias_(exp.Min(this=exp.column(name.copy())), name.copy())
        named = (exp.alias_(col(column.alias_or_name), col(column.alias_or_name).this) for column in own)
        return Aggregate(Window(numbered, Now()), (*map(last_of_rows, named), least), keys)


def _count_of_values(value: exp.Expr) -> exp.Expr:
    """The number of different values, NULL among them."""
    has_null = exp.Case().when(exp.Is(this=value.copy(), expression=exp.Null()), exp.Literal.number(1))
    different = exp.Count(this=exp.Distinct(expressions=[value.copy()]))
    return exp.Add(this=different, expression=exp.Max(this=has_null.else_(exp.Literal.number(0))))


def term_of(term: exp.Ordered) -> exp.Ordered:
    """A term of ORDER BY without what a database would need."""
    return exp.Ordered(this=term.this.copy(), desc=bool(term.args.get("desc")))


def last_of_rows(column: exp.Expr) -> exp.Expr:
    """A column of the newest row of a window."""
    value = column.this if isinstance(column, exp.Alias) else column
    changed = change_columns(value, lambda named: exp.Last(this=named.copy()))
    return exp.alias_(changed, col(column.alias_or_name).this)


def _has_bound(column: exp.Expr, windowed: RowsInWindows | None) -> bool:
    return windowed is not None and windowed.has_bound(column)


def _bounded(column: exp.Expr, windowed: RowsInWindows | None) -> exp.Expr:
    """A column with the bounds of the window, whose end is the time of the row."""
    if windowed is None or not _has_bound(column, windowed):
        return column
    bounds = bounds_at_end(windowed.function)

    def bounded(named: exp.Column) -> exp.Expr:
        bound = windowed.bound(named)
        return named if bound is None else bounds[bound].copy()

    value = column.this if isinstance(column, exp.Alias) else column
    named = exp.alias_(change_columns(value, bounded), col(column.alias_or_name).this)
    return named if windowed.bound(value) is None else mark(named, OF_GROUPS)
