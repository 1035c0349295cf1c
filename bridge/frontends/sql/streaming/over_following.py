"""OVER the rows that follow: LEAD, and aggregates over `ROWS BETWEEN CURRENT ROW AND n FOLLOWING`.

A row and the n rows after it are a match of the row pattern `A B{0,n}`, which begins at each row. It is reported when the
last of these rows has come. At the end of the streams, a match with fewer rows is reported, too.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from bridge.frontends.sql.streaming.over_rows import OverRows
from bridge.frontends.sql.streaming.select_list import with_names
from bridge.frontends.sql.streaming.undecided import decide
from bridge.query.expressions import col
from bridge.query.nodes import Filter, Map, MatchRecognize, Node
from bridge.query.row_pattern import RowPattern, Skip
from nfa.parse import parse_pattern
from windows.sql import change_columns

_AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)


def is_following(window: exp.Window) -> bool:
    """Whether OVER reads rows after the row."""
    spec = window.args.get("spec")
    return isinstance(window.this, exp.Lead) or (spec is not None and spec.args.get("end_side") == "FOLLOWING")


class OverFollowing(OverRows):
    """The values of a select list OVER rows that follow. LAG may stand beside them."""

    def node(self, below: Node, columns: tuple[exp.Expr, ...], qualify: tuple[exp.Expr, ...]) -> Node:
        """The query objects; `qualify` are conditions on the values."""
        below = decide(self.cursor, below)
        columns = with_names(self.cursor, columns, below)
        windows = [found for each in (*columns, *qualify) for found in each.find_all(exp.Window)]
        keys = windows[0].args.get("partition_by") or ()
        for window in windows:
            self._check_order(window)
            self._check_window(window, keys)
        self.following = max(self._reach(window) for window in windows)
        listed = [*map(self._listed, columns), *(exp.Alias(this=each) for each in qualify)]
        measures = tuple(
            exp.Alias(this=self._measure(value.this), alias=exp.to_identifier(f"value_{place}"))
            for place, value in enumerate(listed)
        )
        pattern = RowPattern(
            parse_pattern(f"A B{{0,{self.following}}}"),
            measures=measures,
            partition_by=tuple(key.copy() for key in keys),
            skip=Skip("TO NEXT ROW"),
        )
        node: Node = MatchRecognize(below, pattern)
        values = [col(measure.alias) for measure in measures]
        if qualify:
            node = Filter(node, exp.and_(*values[len(columns) :]))
        named = zip(values, listed[: len(columns)], strict=False)
        return Map(node, tuple(exp.alias_(value, column.args["alias"].copy()) for value, column in named))

    def _check_window(self, window: exp.Window, keys: list[exp.Expr] | tuple[()]) -> None:
        if (window.args.get("partition_by") or ()) != keys:
            self._fail(
                "several OVER in a SELECT must have the same PARTITION BY: put one of them into a sub-query", window
            )
        if not all(isinstance(key, exp.Column) for key in keys):
            self._fail("PARTITION BY wants columns here: compute the key in a sub-query", window)
        if not is_following(window) and not isinstance(window.this, exp.Lag):
            self._fail("OVER rows that follow beside OVER other rows: put one of them into a sub-query", window)

    def _reach(self, window: exp.Window) -> int:
        """The number of rows after the row that a value reads."""
        if isinstance(window.this, (exp.Lead, exp.Lag)):
            return self._distance(window.this) if isinstance(window.this, exp.Lead) else 0
        spec = window.args["spec"]
        end = spec.args.get("end")
        if (
            spec.args.get("kind") != "ROWS"
            or spec.args.get("start") != "CURRENT ROW"
            or not isinstance(end, exp.Literal)
        ):
            self._fail("a frame of rows to come is ROWS BETWEEN CURRENT ROW AND n FOLLOWING", window)
        return int(end.name)

    def _listed(self, column: exp.Expr) -> exp.Alias:
        """A column with its name."""
        if isinstance(column, exp.Star):
            self._fail("* beside OVER is not supported over a stream: name the columns", column)
        if isinstance(column, exp.Column) and column.name.lower() == "ts":
            self._fail("results OVER rows that follow come later than ts: give it a name, ts AS t", column)
        if isinstance(column, exp.Alias):
            return column
        is_column = isinstance(column, exp.Column)
        name = column.this.copy() if is_column else exp.to_identifier(column.sql(), quoted=True)
        return exp.Alias(this=column.copy(), alias=name)

    def _measure(self, node: exp.Expr) -> exp.Expr:
        """An expression over the row, which is A, and the rows that follow, B."""
        match node:
            case exp.Window():
                return self._of_rows(node)
            case exp.Column():
                return exp.column(node.this.copy(), table="A")
            case exp.AggFunc():
                self._fail("an aggregate beside OVER: put the GROUP BY into a sub-query", node)
        changed = node.copy()
        for key, value in node.args.items():
            if isinstance(value, exp.Expr) and not isinstance(value, exp.Identifier):
                changed.set(key, self._measure(value))
            elif isinstance(value, list):
                changed.set(key, [self._measure(each) if isinstance(each, exp.Expr) else each for each in value])
        return changed

    def _of_rows(self, window: exp.Window) -> exp.Expr:
        function = window.this
        if isinstance(function, (exp.Lead, exp.Lag)):
            return self._other_row(function)
        if not isinstance(function, _AGGREGATES) or function.find(exp.Distinct):
            self._refuse(function, window)
        if self._reach(window) != self.following:
            self._fail("several OVER in a SELECT must reach equally far here: put one of them into a sub-query", window)
        changed: exp.Expr = function.copy()
        return changed

    def _refuse(self, function: exp.Expr, window: exp.Window) -> NoReturn:
        self._fail(
            f"{function.sql()} OVER rows that follow is not supported: COUNT, SUM, AVG, MIN, MAX and LEAD are", window
        )

    def _other_row(self, function: exp.Lead | exp.Lag) -> exp.Expr:
        """The value of an earlier or later row, or the default if there is none."""
        distance = self._distance(function)

        def there(value: exp.Expr) -> exp.Expr:
            if not distance:
                return self._measure(value)
            is_lead = isinstance(function, exp.Lead)
            row = self._in_row(value, "B" if is_lead else "A")
            places = [exp.Literal.number(distance - is_lead)]
            return exp.Anonymous(this="FIRST" if is_lead else "PREV", expressions=[row, *places])

        default = function.args.get("default")
        if default is None:
            return there(function.this)
        is_there = exp.Not(this=exp.Is(this=there(exp.column("ts")), expression=exp.Null()))
        return exp.Case().when(is_there, there(function.this)).else_(self._measure(default))

    def _in_row(self, value: exp.Expr, variable: str) -> exp.Expr:
        return change_columns(value, lambda column: exp.column(column.this.copy(), table=variable))
