"""Columns that are bounds of windows, in the results of a sub-query or a view.

They are marked, as rows may be grouped by them again: all results of a window have one time, that of its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.query.epl_output import OrderLimitDistinct
from bridge.query.nodes import Aggregate, Correlate, Filter, Map, Node, Union, Window
from windows.extents import Range

_MARK, _RESULT = "bound_of_window", "result_of_window"
OF_GROUPS, OF_ROWS = "groups", "rows"
"""Bounds of windows that have ended, one result per group; and bounds beside single rows, whose windows are still open."""


def mark(column: exp.Expr, what: str) -> exp.Expr:
    """The column, marked as a bound."""
    column.meta[_MARK] = what
    return column


def mark_result(columns: Iterable[exp.Expr]) -> None:
    """Marks columns as those of rows that stay what they are: groups of a window function, rows with values OVER others.

    As results of an aggregate they would be valid only until the next result of their group (rule W5).
    """
    for column in columns:
        column.meta[_RESULT] = True


def is_result(cursor: Cursor, node: Node) -> bool:
    """Whether the rows are those of `mark_result`, perhaps filtered, or with other columns."""
    match cursor.query_of(node):
        case Aggregate(_, columns):
            return any(column.meta_get(_RESULT) for column in columns)
        case Map(below, columns):
            return any(column.meta_get(_RESULT) for column in columns) or is_result(cursor, below)
        case Filter(below):
            return is_result(cursor, below)
        case Union(inputs):
            return all(is_result(cursor, below) for below in inputs)
    return False


def is_window_join(node: Node) -> bool:
    """Whether all rows of a join come at the ends of windows, as only rows of windows that jump arrive. Filters may follow."""
    if isinstance(node, Filter):
        return is_window_join(node.input)
    return isinstance(node, Correlate) and all(
        isinstance(below, Window) and isinstance(below.extent, Range) and below.extent.slide is not None
        for alias, below in node.inputs
        if node.driving in (None, alias)
    )


def check_ended(cursor: Cursor, node: Node, bounds: Collection[str], position: int) -> None:
    """Refuses to group rows by bounds of windows that are still open, or directly over a join of windows."""
    if OF_ROWS in bounds:
        cursor.fail(
            "these windows are those of single rows here: GROUP BY window_start, window_end directly over the window function",
            position,
        )
    if is_window_join(node):
        cursor.fail(
            "GROUP BY beside a join of windows is not supported: put the join into FROM, SELECT … FROM (SELECT a.window_start, "
            "a.window_end, … FROM … a JOIN … b ON …) GROUP BY window_start, window_end",
            position,
        )


def bounds_among(cursor: Cursor, node: Node, expressions: Iterable[exp.Expr]) -> set[str]:
    """What the columns among expressions over a node are bounds of: OF_GROUPS, OF_ROWS."""
    columns = [one for one in expressions if isinstance(one, exp.Column)]
    return {found for column in columns if (found := _bound_of(cursor, node, column)) is not None}


def _bound_of(cursor: Cursor, node: Node, column: exp.Column) -> str | None:
    return _bound(cursor, node, column.name.lower(), column.table.lower())


def _bound(cursor: Cursor, node: Node, name: str, alias: str = "") -> str | None:
    """What a column over a node is a bound of. `alias`: the input of a join that it is a column of."""
    match node := cursor.query_of(node):
        case Map(below, columns):
            for column in columns:
                if isinstance(column, exp.Star) and (found := _bound(cursor, below, name)) is not None:
                    return found
                if column.alias_or_name.lower() == name:
                    value = column.this if isinstance(column, exp.Alias) else column
                    inner = _bound_of(cursor, below, value) if isinstance(value, exp.Column) else None
                    return inner or column.meta_get(_MARK)
        case Aggregate(below, columns):  # the rows below, with values OVER others or numbers
            values = (each.this for each in columns if isinstance(each, exp.Alias) and each.alias.lower() == name)
            last = next(values, None)
            return _bound(cursor, below, last.this.name.lower()) if isinstance(last, exp.Last) else None
        case Filter(below) | Window(below) | OrderLimitDistinct(below):
            return _bound(cursor, below, name, alias)
        case Correlate(inputs) if is_window_join(node):  # its rows come where the windows end
            bounds = [_bound(cursor, below, name) for own, below in inputs if alias in ("", own.lower())]
            return OF_GROUPS if any(bounds) else None
        case Union(inputs):
            return _bound(cursor, inputs[0], name)
    return None
