"""DISTINCT and UNION: each combination of the columns once, at its first row."""

from __future__ import annotations

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.sql.undecided import decide
from bridge.query.expressions import col
from bridge.query.nodes import Aggregate, Filter, Map, Node, Union, Window
from windows.extents import FirstRows


def distinct_rows(cursor: Cursor, node: Node, position: int, what: str = "DISTINCT") -> Node:
    """Each combination of the columns once, at its first row."""
    node = decide(cursor, node)
    names = names_of(node)
    if names is None:
        cursor.fail(f"{what} wants the columns by name: SELECT a, b instead of *", position)
    return Window(node, FirstRows(1), tuple(map(col, names)))


def names_of(node: Node) -> list[str] | None:
    """The names of the columns of a node; None if only its stream knows them."""
    match node:
        case Map(_, columns) | Aggregate(_, columns) if not any(
            isinstance(item.this, exp.Star) or isinstance(item, exp.Star) for item in columns
        ):
            return [item.alias_or_name or item.sql() for item in columns]
        case Filter(below) | Window(below):
            return names_of(below)
        case Union(inputs):
            return names_of(inputs[0])
    return None
