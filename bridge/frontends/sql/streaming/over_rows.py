"""OVER of standard SQL: an aggregate over the rows before each row, `ROWS n PRECEDING`, and LAG.

A row and the n rows before it are the window `ROWS n + 1`; in it the row itself is the last one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from typing import NoReturn

from sqlglot import exp

from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.expressions import position_of
from bridge.frontends.sql.streaming.bounds import mark_result
from bridge.frontends.sql.streaming.select_list import with_names
from bridge.frontends.sql.streaming.undecided import decide
from bridge.query.expressions import count
from bridge.query.nodes import Aggregate, Node, Window
from windows.extent import Extent
from windows.extents import Rows, Unbounded
from windows.sql import under_own_name

_PLACE = "place_of_over"
NUMBERS = (exp.RowNumber, exp.Rank, exp.DenseRank)
"""The functions that number the rows of a partition."""


def has_over(expressions: Iterable[exp.Expr]) -> bool:
    """Whether an expression has a value OVER other rows."""
    return any(expression.find(exp.Window) for expression in expressions)


def give_places(cursor: Cursor, region: Region, expressions: Iterable[exp.Expr]) -> int:
    """Gives each OVER of a region its position, which sqlglot does not store; returns that of the first one."""
    places = [token.start for token in cursor.tokens[region.start : region.end] if word_of(token) == "OVER"]
    windows = [node for expression in expressions for node in expression.dfs() if isinstance(node, exp.Window)]
    for window, place in zip(windows, places, strict=False):
        window.meta[_PLACE] = place
    _check_nulls(cursor, region)
    return places[0]


def _check_nulls(cursor: Cursor, region: Region) -> None:
    """Refuses NULLS FIRST and NULLS LAST that contradict the order here; sqlglot gives each dialect another default."""
    words = [word_of(token) for token in cursor.tokens[region.start : region.end]]
    for place, (before, word, after) in enumerate(zip(words, words[1:], words[2:], strict=False), region.start + 1):
        if word == "NULLS" and after in ("FIRST", "LAST") and (after == "FIRST") == (before == "DESC"):
            cursor.fail(
                "NULL is less than all values here: ASC has it first, and DESC last", cursor.tokens[place].start
            )


def without_over(column: exp.Expr) -> exp.Expr:
    """The expression with the function and the clauses of each OVER as operands, which are checked like others."""

    def opened(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Window):
            return node
        order = node.args.get("order")
        terms = [term.this.copy() for term in order.expressions] if order else []
        return exp.Tuple(
            expressions=[node.this.copy(), *(key.copy() for key in node.args.get("partition_by") or ()), *terms]
        )

    return column.copy().transform(opened)


@dataclasses.dataclass(frozen=True)
class _OverFrame:
    """The rows of one OVER: the keys, and how many rows; `rows` is None for all so far.

    LAG looks at rows of its own: `least` is how many there must be.
    """

    keys: tuple[exp.Expr, ...]
    rows: int | None = None
    least: int = 1
    is_exact: bool = True


class OverRows:
    """The values of a select list OVER rows, as aggregates. `position`: that of the first OVER. `times`: names of the time."""

    def __init__(self, cursor: Cursor, position: int, times: Collection[str]) -> None:
        self.cursor, self.position, self.times = cursor, position, times

    def node(self, below: Node, columns: tuple[exp.Expr, ...], qualify: tuple[exp.Expr, ...]) -> Node:
        """The query objects; `qualify` are conditions on the values."""
        below = decide(self.cursor, below)
        columns = with_names(self.cursor, columns, below)
        windows = [node for each in (*columns, *qualify) for node in each.find_all(exp.Window)]
        frames = [self._frame(window) for window in windows]
        keys = frames[0].keys
        if any(frame.keys != keys for frame in frames):
            self._fail(
                "several OVER in a SELECT must have the same PARTITION BY here: put one of them into a sub-query",
                windows[-1],
            )
        extent = self._extent(frames, windows)
        listed = tuple(self._column(column, keys) for column in columns)
        having = tuple(self._of_row(condition, keys) for condition in qualify)
        condition = exp.and_(*having) if having else None
        mark_result(listed)
        return Aggregate(Window(below, extent, keys), listed, keys, condition)

    def _extent(self, frames: list[_OverFrame], windows: list[exp.Window]) -> Extent:
        exact = {frame.rows for frame in frames if frame.is_exact}
        least = max(frame.least for frame in frames)
        if len(exact) > 1 or any(rows is not None and rows < least for rows in exact):
            self._fail(
                "several OVER in a SELECT must have the same rows here (ROWS n PRECEDING, with n at least the distance of LAG): "
                "put one of them into a sub-query",
                windows[-1],
            )
        rows = exact.pop() if exact else least
        return Unbounded() if rows is None else Rows(rows)

    # Frames

    def _frame(self, window: exp.Window) -> _OverFrame:
        if window.args.get("alias"):
            self._fail("a named window is not supported: write its clauses in OVER ( … )", window)
        self._check_order(window)
        keys = tuple(key.copy() for key in window.args.get("partition_by") or ())
        function = window.this
        if isinstance(function, exp.Lag):
            return _OverFrame(keys, least=self._distance(function) + 1, is_exact=False)
        if isinstance(function, exp.RowNumber):
            return _OverFrame(keys)
        if isinstance(function, (exp.Rank, exp.DenseRank, exp.Ntile, exp.PercentRank, exp.CumeDist)):
            name = function.sql_name()
            self._fail(
                f"{name} needs rows that have not come: LAG looks back, and WHERE rn <= n around ROW_NUMBER() has the first n",
                window,
            )
        rows = self._rows(window)
        return _OverFrame(keys, rows, rows or 1)

    def _distance(self, lag: exp.Lag | exp.Lead) -> int:
        offset = lag.args.get("offset")
        if offset is None:
            return 1
        if not (isinstance(offset, exp.Literal) and offset.name.isdigit() and not offset.is_string):
            self._fail(f"{lag.sql_name()} wants a whole number of rows: {lag.sql_name()}(v, 2)", lag)
        return int(offset.name)

    def _check_order(self, window: exp.Window) -> None:
        order = window.args.get("order")
        if order is None:
            self._fail("ORDER BY ts is missing in OVER: the rows to come are not known", window)
        first, *others = order.expressions
        if not (isinstance(first.this, exp.Column) and first.this.name.lower() in self.times) or others:
            self._fail("values OVER another order than that of time change with every row: ORDER BY ts", window)
        if first.args.get("desc"):
            self._fail("OVER (ORDER BY ts DESC) reads rows that have not come: ORDER BY ts", window)
        spec = window.args.get("spec")
        if spec is not None and (spec.args.get("kind") == "GROUPS" or spec.args.get("exclude") is not None):
            self._fail("GROUPS and EXCLUDE are not supported: a frame is one of ROWS, or of a RANGE of time", window)

    def _rows(self, window: exp.Window) -> int | None:
        """The number of rows of a frame; None: all so far."""
        spec = window.args["spec"]
        start, end = spec.args.get("start"), spec.args.get("end")
        if end is not None and end != "CURRENT ROW":
            self._fail("a frame ends with the CURRENT ROW: the rows to come are not known", window)
        if start == "CURRENT ROW":
            return 1
        if spec.args.get("start_side") != "PRECEDING":
            self._fail("a frame begins with rows PRECEDING: the rows to come are not known", window)
        if start == "UNBOUNDED":
            return None
        if not (isinstance(start, exp.Literal) and start.name.isdigit()):
            self._fail("a frame is ROWS n PRECEDING or ROWS UNBOUNDED PRECEDING", window)
        return int(start.name) + 1

    # Values

    def _column(self, column: exp.Expr, keys: tuple[exp.Expr, ...]) -> exp.Expr:
        if isinstance(column, exp.Star):
            self._fail("* beside OVER is not supported over a stream: name the columns", column)
        if isinstance(column, exp.Alias):
            changed = column.copy()
            changed.set("this", self._of_row(column.this, keys))
            return changed
        return under_own_name(self._of_row(column, keys), column)

    def _of_row(self, node: exp.Expr, keys: tuple[exp.Expr, ...]) -> exp.Expr:
        """An expression over a row and its frame as one over the window: columns are those of its last row."""
        if node in keys:
            return node.copy()
        if isinstance(node, exp.Window):
            return self._value(node)
        if isinstance(node, exp.Column):
            return exp.Last(this=node.copy())
        if isinstance(node, (exp.AggFunc, exp.Filter)):
            self._fail("an aggregate beside OVER: put the GROUP BY into a sub-query", node)
        changed = node.copy()
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr) and not isinstance(value, exp.Identifier):
                changed.set(key, self._of_row(value, keys))
            elif isinstance(value, list):
                changed.set(key, [self._of_row(each, keys) if isinstance(each, exp.Expr) else each for each in value])
        return changed

    def _value(self, window: exp.Window) -> exp.Expr:
        function: exp.Expr = window.this
        match function:
            case exp.RowNumber():
                return count()
            case exp.Lag():
                return self._lag(function)
            case exp.FirstValue():
                return exp.First(this=function.this.copy())
            case exp.LastValue():
                return exp.Last(this=function.this.copy())
        if not isinstance(function, (exp.AggFunc, exp.Filter, exp.Anonymous)):
            self._fail(f"{function.sql()} OVER is not supported: an aggregate, ROW_NUMBER() or LAG(v) is", window)
        return function.copy()

    def _lag(self, lag: exp.Lag) -> exp.Expr:
        distance = self._distance(lag)
        value = exp.Last(this=lag.this.copy(), expression=exp.Literal.number(distance))
        default = lag.args.get("default")
        if default is None:
            return value
        there = exp.GT(this=count(), expression=exp.Literal.number(distance))
        return exp.Case().when(there, value).else_(self._of_row(default, ()))

    def _fail(self, message: str, node: exp.Expr) -> NoReturn:
        found = node.meta_get(_PLACE) or position_of(node)
        self.cursor.fail(message, self.position if found is None else found)
