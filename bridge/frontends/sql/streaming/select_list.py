"""Select lists: their expressions before they become columns, their names, and DISTINCT."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.expressions import all_of
from bridge.frontends.sql.streaming.undecided import RowsInWindows, decide
from bridge.frontends.sql.streaming.window_groups import EVENT_TIME
from bridge.query.expressions import col
from bridge.query.nodes import Aggregate, Correlate, Filter, Map, Node, Stream, Union, Window
from windows.extents import FirstRows
from windows.sql import change_columns, under_own_name

_WITH_TIME = "beside_time"


def standard(expression: exp.Expr) -> exp.Expr:
    """The aggregates FIRST_VALUE, LAST_VALUE and LISTAGG as the bridge knows them."""

    def renamed(node: exp.Expr) -> exp.Expr:
        match node:
            case exp.FirstValue():
                return exp.First(this=node.this.copy())
            case exp.LastValue():
                return exp.Last(this=node.this.copy())
            case exp.Anonymous(this=str(name)) if name.upper() == "LISTAGG" and node.expressions:
                value, *separator = (each.copy() for each in node.expressions)
                return exp.GroupConcat(this=value, separator=separator[0] if separator else exp.Literal.string(","))
        return node

    return under_own_name(expression.copy().transform(renamed), expression)


def unaliased(key: exp.Expr, aliases: Mapping[str, exp.Expr], rows: RowsInWindows) -> exp.Expr:
    """A key or condition with the aliases of bounds replaced by the bounds."""

    def replaced(node: exp.Expr) -> exp.Expr:
        value = aliases.get(node.name.lower()) if isinstance(node, exp.Column) and not node.table else None
        return value.copy() if value is not None and rows.has_bound(value) else node

    return key.copy().transform(replaced)


def with_time_named(expression: exp.Expr, name: str) -> exp.Expr:
    """The expression with the column `name` in place of ts."""

    return change_columns(expression, lambda column: exp.column(name) if column.name.lower() == "ts" else column)


def is_star(columns: tuple[exp.Expr, ...]) -> bool:
    return len(columns) == 1 and columns[0] == exp.Star()


def distinct_rows(cursor: Cursor, node: Node, position: int, what: str = "DISTINCT") -> Node:
    """Each combination of the columns once, at its first row. A `ts` in the select list is one of them."""
    node = decide(cursor, node)
    names = names_of(cursor, node)
    if names is None:
        cursor.fail(f"{what} wants the columns by name: SELECT a, b instead of *", position)
    keys = [*names, "ts"] if lists_time(cursor, node) else names
    return Window(node, FirstRows(1), tuple(map(col, keys)))


def mark_time(node: Node) -> None:
    """Marks the columns of a select list that has a plain `ts`, which is not a column of the result."""
    match node:
        case Map(_, columns) | Aggregate(_, columns):
            for column in columns:
                column.meta[_WITH_TIME] = True
        case Filter(below) | Window(below):
            mark_time(below)
        case Union(inputs):
            for below in inputs:
                mark_time(below)


def lists_time(cursor: Cursor, node: Node) -> bool:
    """Whether a select list of the node, or of a part of a union, has a plain `ts`."""
    match cursor.query_of(node):
        case Map(_, columns) | Aggregate(_, columns):
            return any(column.meta_get(_WITH_TIME) for column in columns)
        case Filter(below) | Window(below):
            return lists_time(cursor, below)
        case Union(inputs):
            return any(lists_time(cursor, below) for below in inputs)
    return False


def rows_of_both(cursor: Cursor, left: Node, right: Node, position: int) -> Node:
    """Each row that two queries have, once, as soon as both have it.

    >>> from bridge.frontends.sql.statements import parse
    >>> print(parse("SELECT a FROM s INTERSECT SELECT b FROM t"))
    SELECT l.a AS a FROM (SELECT a FROM s) WINDOW(PARTITION BY a FIRST ROWS 1) AS l, \
(SELECT b FROM t) WINDOW(PARTITION BY b FIRST ROWS 1) AS r WHERE l.a IS NOT DISTINCT FROM r.b
    """
    with_time = lists_time(cursor, left)
    if with_time != lists_time(cursor, right):
        cursor.fail("INTERSECT wants ts on both sides, or on none", position)
    sides = [_with_named_time(cursor, node) if with_time else node for node in (left, right)]
    inputs = [
        (alias, distinct_rows(cursor, node, position, "INTERSECT")) for alias, node in zip("lr", sides, strict=True)
    ]
    own, others = (names_of(cursor, node) or [] for _, node in inputs)
    if len(own) != len(others):
        cursor.fail(f"INTERSECT wants as many columns on both sides, not {len(own)} and {len(others)}", position)
    same = [
        exp.NullSafeEQ(this=col(mine, of="l"), expression=col(its, of="r"))
        for mine, its in zip(own, others, strict=True)
    ]
    columns = tuple(exp.alias_(col(name, of="l"), col(name).this) for name in (own[:-1] if with_time else own))
    both = Map(Correlate(tuple(inputs), all_of(tuple(same))), columns)
    if with_time:
        mark_time(both)
    return both


def _with_named_time(cursor: Cursor, node: Node) -> Node:
    """The rows with their time as the last column, if the others are known by name."""
    names = names_of(cursor, node)
    return node if names is None else Map(node, (*map(col, names), exp.alias_(exp.column("ts"), EVENT_TIME)))


def with_names(cursor: Cursor, columns: tuple[exp.Expr, ...], node: Node) -> tuple[exp.Expr, ...]:
    """The select list with the columns of its input in place of `*`; unchanged if only the stream knows them."""
    names = names_of(cursor, node) if any(isinstance(column, exp.Star) for column in columns) else None
    if names is None:
        return columns
    return tuple(
        each for column in columns for each in (map(col, names) if isinstance(column, exp.Star) else (column,))
    )


def names_of(cursor: Cursor, node: Node) -> list[str] | None:
    """The names of the columns of a node; None if only its stream knows them."""
    match cursor.query_of(node):
        case Map(_, columns) | Aggregate(_, columns) if not any(
            isinstance(item.this, exp.Star) or isinstance(item, exp.Star) for item in columns
        ):
            return [item.alias_or_name or item.sql() for item in columns]
        case Filter(below) | Window(below):
            return names_of(cursor, below)
        case Union(inputs):
            return names_of(cursor, inputs[0])
        case Stream(_, schema) if schema is not None:
            return list(schema.names)
    return None
