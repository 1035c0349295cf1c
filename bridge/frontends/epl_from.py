"""What stands in FROM of an EPL statement: a stream with its filter and its windows."""

from __future__ import annotations

from typing import NamedTuple, cast

from bridge.frontends import epl_scalars
from bridge.frontends.cursor import Cursor
from bridge.frontends.epl_views import windowed, windows
from bridge.frontends.scalars import Names, resolved
from bridge.query import Filter, Node, Stream

RESERVED = frozenset(
    (
        "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "OUTPUT", "LIMIT", "INSERT", "INTO", "AS", "ON", "JOIN",
        "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "UNIDIRECTIONAL", "RETAIN", "MATCH_RECOGNIZE", "PATTERN", "AND", "OR",
        "NOT", "IN", "IS", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "CREATE", "DELETE", "UPDATE",
        "MERGE", "EVERY", "UNTIL", "WHILE", "DEFINE", "MEASURES", "DISTINCT", "ISTREAM", "RSTREAM", "IRSTREAM",
        "CONTEXT", "FOR", "UNION", "SET", "GROUP BY", "ORDER BY", "PARTITION BY",
    )
)  # fmt: skip
"""Words that are names in backticks only."""


class Item(NamedTuple):
    """An input: its alias, the node, where it stands, and whether its events alone are told."""

    alias: str
    node: Node
    position: int
    unidirectional: bool


def item(cursor: Cursor) -> Item:
    """`Stream(condition)#window(…) as alias`.

    >>> from bridge.frontends.epl_text import EplCursor
    >>> print(item(EplCursor("Trades(price > 1)#time(5 sec) as t")).node)
    SELECT * FROM (SELECT * FROM Trades WHERE price > 1) WINDOW(RANGE 5000 MS)
    """
    position = cursor.position
    if cursor.word() in ("SQL", "METHOD") and cursor.word(1) == ":":
        cursor.fail(f"{cursor.word().lower()}: is not supported: tables of the database are asked with cep.query")
    if cursor.word() == "(":
        cursor.fail("a sub-query is not supported in FROM: insert into names a statement's results")
    if cursor.word() == "PATTERN":
        from bridge.frontends.epl_pattern import pattern

        name, node, condition = "pattern", cast("Node", pattern(cursor)), None
    else:
        name = cursor.name("a stream")
        node = Stream(name)
        condition = filtered(cursor)
    view = windows(cursor)
    alias = _alias(cursor) or name
    if condition is not None:
        node = Filter(node, resolved(cursor, [condition], Names(alias, ()))[0])
    if view is not None:
        node = windowed(cursor, node, view, alias)
    return Item(alias, node, position, cursor.take("UNIDIRECTIONAL"))


def filtered(cursor: Cursor) -> epl_scalars.Expression | None:
    """`( condition, … )` after a stream's name: all of them hold."""
    if not cursor.take("("):
        return None
    if cursor.take(")"):
        return None
    conditions = epl_scalars.listed(cursor, cursor.until(()), "a condition")
    cursor.expect(")")
    found = conditions[0]
    for condition in conditions[1:]:
        found = epl_scalars.both(found, condition)
    return found


def _alias(cursor: Cursor) -> str | None:
    return cursor.name("an alias") if cursor.take("AS") or cursor.has_name() else None
