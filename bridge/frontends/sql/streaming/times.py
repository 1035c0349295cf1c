"""The columns of a query that are its time: `ts`, and names that a sub-query or a view gives it."""

from __future__ import annotations

from collections.abc import Mapping

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
    return frozenset(name for name, lag in lags_of(cursor, node).items() if lag == 0)


def lags_of(cursor: Cursor, node: Node) -> dict[str, int]:
    """The columns that are a fixed time before the ts of their row, by name in lower case: how many milliseconds.

    >>> from bridge.frontends.sql.statements import parse
    >>> lags_of(Cursor(""), parse("SELECT ts - 1 AS window_time, a FROM s"))
    {'ts': 0, 'window_time': 1}
    """
    found: dict[str, int] = {}
    match cursor.query_of(node):
        case Map(below, columns):
            known = lags_of(cursor, below)
            for item in columns:
                value = item.this if isinstance(item, exp.Alias) else item
                if isinstance(item, exp.Star):
                    found |= known
                elif (lag := _lag(value, known, below)) is not None:
                    found[item.alias_or_name.lower()] = lag
        case Filter(below):
            found = lags_of(cursor, below)
        case Window(below, extent) if not extent.jumps:
            found = lags_of(cursor, below)
        case Union((first, *others)):
            found = dict(
                set(lags_of(cursor, first).items()).intersection(*(lags_of(cursor, one).items() for one in others))
            )
    return {"ts": 0} | found


def _lag(value: exp.Expr, known: Mapping[str, int], below: Node) -> int | None:
    match value:
        case exp.Paren():
            return _lag(value.this, known, below)
        case exp.Column():
            of_row = value.table == "" or value.table.lower() == latest_of(below)
            return known.get(value.name.lower()) if of_row else None
        case exp.Add() | exp.Sub() if isinstance(value.expression, exp.Literal) and value.expression.name.isdigit():
            lag, by = _lag(value.this, known, below), int(value.expression.name)
            return None if lag is None else lag + (by if isinstance(value, exp.Sub) else -by)
    return None


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
