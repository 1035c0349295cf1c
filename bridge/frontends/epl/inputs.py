"""The inputs in FROM of an EPL statement: streams with their filters and windows."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, cast

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl.expressions import JOINS, condition, event_filter
from bridge.frontends.epl.pattern import pattern
from bridge.frontends.epl.views import view_of, window_over
from bridge.frontends.expressions import Qualifiers, TagColumns, resolve
from bridge.query.epl_patterns import EventColumns, TemporalMatch
from bridge.query.epl_state import OnSelect
from bridge.query.nodes import Correlate, Filter, Node, Stream, Window

RESERVED = frozenset(
    (
        "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "OUTPUT", "LIMIT", "INSERT", "INTO", "AS", "ON", "JOIN",
        "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "UNIDIRECTIONAL", "RETAIN", "MATCH_RECOGNIZE", "PATTERN", "AND", "OR",
        "NOT", "IN", "IS", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "CREATE", "DELETE", "UPDATE",
        "MERGE", "EVERY", "UNTIL", "WHILE", "DEFINE", "MEASURES", "DISTINCT", "ISTREAM", "RSTREAM", "IRSTREAM",
        "CONTEXT", "FOR", "UNION", "SET", "GROUP BY", "ORDER BY", "PARTITION BY",
    )
)  # fmt: skip
"""Words that are names only in backticks."""


class Item(NamedTuple):
    """An input: its alias, its node, its offset, and whether only its events are reported."""

    alias: str
    node: Node
    position: int
    unidirectional: bool


def item(cursor: Cursor) -> Item:
    """`Stream(condition)#window(…) as alias`.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> print(item(EplCursor("Trades(price > 1)#time(5 sec) as t")).node)
    SELECT * FROM (SELECT * FROM Trades WHERE price > 1) WINDOW(RANGE 5000 MS)
    """
    position = cursor.position
    if cursor.word() in ("SQL", "METHOD") and cursor.word(1) == ":":
        cursor.fail(f"{cursor.word().lower()}: is not supported: tables of the database are queried with cep.query")
    if cursor.word() == "(":
        cursor.fail("a sub-query is not supported in FROM: insert its results into a stream, and read that")
    if cursor.word() == "PATTERN":
        name, node, condition = "pattern", cast("Node", pattern(cursor)), None
    else:
        name = cursor.name("a stream")
        node = Stream(name)
        condition = event_filter(cursor)
        if cursor.word() == "[":
            cursor.fail(
                "the events of a list, S[items], are not supported: methods look at its elements, items.anyOf(x => x.v > 5), "
                "or push each as an event"
            )
    view = view_of(cursor)
    alias = _alias(cursor) or name
    if condition is not None:
        node = Filter(node, resolve(cursor, [condition], Qualifiers(alias, ()))[0])
    if view is not None:
        node = window_over(cursor, node, view, alias)
    return Item(alias, node, position, cursor.take("UNIDIRECTIONAL"))


def _alias(cursor: Cursor) -> str | None:
    return cursor.name("an alias") if cursor.take("AS") or cursor.has_name() else None


# FROM in EPL: several streams, joined, in one direction or all, inner or outer


@dataclasses.dataclass(frozen=True)
class Joins:
    """The inputs, the conditions of ON, and which inputs are also reported without a partner."""

    items: list[Item]
    conditions: list[exp.Expr]
    outer: str = ""
    position: int = 0
    is_on_select: bool = False


def read_joins(cursor: Cursor) -> Joins:
    """Steps over `A#time(5) as a, B#length(1) as b`, or `A#… as a left outer join B#… as b on …`."""
    items, conditions = [item(cursor)], list[exp.Expr]()
    outer, position = "", cursor.position
    while True:
        if cursor.take(","):
            items.append(item(cursor))
        elif cursor.word() in JOINS:
            position = cursor.position
            if cursor.word() in ("LEFT", "RIGHT", "FULL"):
                outer = cursor.word()
                cursor.at += 1
                cursor.expect("OUTER")
            else:
                cursor.take("INNER")
            cursor.expect("JOIN")
            items.append(item(cursor))
            cursor.expect("ON")
            conditions.append(condition(cursor))
        else:
            break
        if outer and len(items) > 2:
            cursor.fail(
                "an outer join of more than two streams is not supported: insert that of two into a stream", position
            )
    return Joins(items, conditions, outer, position)


def joined_by_trigger(cursor: Cursor, by: Item, columns: tuple[exp.Expr, ...]) -> Joins:
    """`on B as b select … from W as w`: an event, joined with the rows of a named window."""
    position = cursor.position
    found = item(cursor)
    if not isinstance(found.node, Stream):
        cursor.fail("on … select reads a named window", position)
    if exp.Star() in columns:
        cursor.fail("on … select names its columns, or those of the window: w.*", position)
    return Joins([by._replace(unidirectional=True), found], [], is_on_select=True)


def correlated(cursor: Cursor, joins: Joins) -> Correlate:
    """The join, still without its condition."""
    seen: set[str] = set()
    for alias, node, position, unidirectional in joins.items:
        if isinstance(node, TemporalMatch) and not unidirectional:
            cursor.fail(
                "a pattern in a join wants a window, such as #length(1) or #time(…), or unidirectional", position
            )
        if alias.lower() in seen:
            cursor.fail(f"two inputs are called {alias!r}: give one of them an alias", position)
        seen.add(alias.lower())
    driving = [found for found in joins.items if found.unidirectional]
    if len(driving) > 1:
        cursor.fail("one stream of a join can be unidirectional", driving[1].position)
    if driving and isinstance(driving[0].node, Window):
        cursor.fail("a stream that is unidirectional has no window: only its events are reported", driving[0].position)
    left, right = joins.items[0].alias, joins.items[1].alias
    outer = {"LEFT": [left], "RIGHT": [right], "FULL": [left, right]}.get(joins.outer, [])
    inputs = tuple((found.alias, found.node) for found in joins.items)
    kind = OnSelect if joins.is_on_select else Correlate
    return kind(inputs, None, frozenset(outer), driving[0].alias if driving else None)


def scope_of(joins: Joins) -> Qualifiers:
    """The qualifiers of a join's columns: its aliases, and the tags of its patterns if only one input has them."""
    aliases = tuple(found.alias for found in joins.items)
    inside: dict[tuple[str | None, str], TagColumns] = {}
    columns = [(one.alias, tag) for one in joins.items for tag in _event_columns(one.node)]
    for alias, tag in columns:
        found = TagColumns(alias, tag.prefix, tag.is_one)
        inside[alias, tag.alias] = found
        if tag.alias not in aliases and sum(other.alias == tag.alias for _, other in columns) == 1:
            inside[None, tag.alias] = found
    return Qualifiers(None, aliases, inside)


def _event_columns(node: Node) -> tuple[EventColumns, ...]:
    while isinstance(node, Window):
        node = node.input
    return node.event_columns if isinstance(node, TemporalMatch) else ()


def tags_of(node: Node) -> tuple[str, ...]:
    """The tags of a node that is a pattern or a window over one."""
    return tuple(column.alias for column in _event_columns(node))
