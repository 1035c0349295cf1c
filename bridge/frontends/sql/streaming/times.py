"""The columns of a query that are its time: `ts`, and names that a sub-query or a view gives it."""

from __future__ import annotations

from sqlglot import exp

from bridge.check.interval_join import partner_times
from bridge.frontends.cursor import Cursor
from bridge.query.nodes import Correlate, Filter, Map, Node, Stream, Union, Window


def times_of(cursor: Cursor, node: Node) -> frozenset[str]:
    """The names of the time of a node's rows, in lower case.

    >>> from bridge.frontends.sql.statements import parse
    >>> sorted(times_of(Cursor(""), parse("SELECT ts AS event_time, a FROM s")))
    ['event_time', 'ts']
    """
    return frozenset({"ts"} | _renamed(cursor, node))


def _renamed(cursor: Cursor, node: Node) -> set[str]:
    match node:
        case Map(below, columns):
            known = {"ts"} | _renamed(cursor, below)
            aliases = [item for item in columns if isinstance(item, (exp.Alias, exp.Column))]
            found = {item.alias_or_name.lower() for item in aliases if _is_one(item, known, below)}
            return found | (known if any(isinstance(item, exp.Star) for item in columns) else set())
        case Filter(below):
            return _renamed(cursor, below)
        case Window(below, extent) if not extent.jumps:
            return _renamed(cursor, below)
        case Union(inputs):
            return set.intersection(*(_renamed(cursor, below) for below in inputs))
        case Stream(name) if name.lower() in cursor.views:
            return _renamed(cursor, cursor.views[name.lower()])
    return set()


def _is_one(item: exp.Expr, known: set[str], below: Node) -> bool:
    value = item.this if isinstance(item, exp.Alias) else item
    if not isinstance(value, exp.Column) or value.name.lower() not in known:
        return False
    return value.table == "" or value.table.lower() == latest_of(below)


def latest_of(node: Node) -> str | None:
    """The input of a correlation whose time is that of each result, in lower case, as no other part is later."""
    while isinstance(node, Filter):
        node = node.input
    if not isinstance(node, Correlate):
        return None
    aliases = [alias.lower() for alias, _ in node.inputs]
    bounds = partner_times(node.condition, aliases)

    def is_latest(alias: str) -> bool:
        return all(bounds.get((other, alias), 1) <= 0 for other in aliases if other != alias)

    return next(filter(is_latest, aliases), None)


def without_time(node: Node, columns: tuple[exp.Expr, ...]) -> tuple[exp.Expr, ...]:
    """A select list without `ts`, which each result has anyway; unchanged if nothing else is in it."""
    latest = latest_of(node)

    def is_time(column: exp.Expr) -> bool:
        if not isinstance(column, exp.Column) or column.name.lower() != "ts":
            return False
        return column.table.lower() == latest if column.table else _keeps_time(node)

    others = tuple(column for column in columns if not is_time(column))
    return others or columns


def _keeps_time(node: Node) -> bool:
    """Whether the results have the times of the rows they come from."""
    match node:
        case Stream():
            return True
        case Window(below, extent):
            return not extent.jumps and _keeps_time(below)
        case Filter() | Map() | Union():
            return all(map(_keeps_time, node.inputs_of))
    return False
