"""Resolves windows over streams, and determines what is known of the rows that leave them (section W)."""

from __future__ import annotations

from typing import cast

from sqlglot import exp

from bridge import query
from bridge.check.resolve import Namespace, ResolvedNode, resolve
from bridge.check.scope import Scope, condition_of, order_term, scalar
from bridge.check.types import UNKNOWN, place, type_of
from bridge.errors import QueryError
from bridge.query.epl_state import ChangedWindow
from bridge.query.nodes import Node, is_plain_join
from windows.extent import Extent, Role

WINDOWS = "WINDOW(RANGE 5 S), WINDOW(ROWS 100) or WINDOW(UNBOUNDED)"
"""Windows to suggest for an input without one, in SQL."""


@resolve.register
def _(node: query.Window, names: Namespace) -> ResolvedNode:
    below = resolve(node.input, names)
    if isinstance(below.node, query.Relation):
        raise QueryError(f"{below.node.name!r} is a table of the database: it has no time, so no window")
    keys = tuple(scalar(key, Scope(below.fields)) for key in node.partition_by)
    if keys:
        _check_keys(node.extent)
    if not node.extent.holds_per_key:
        keys = ()  # a time window has the same rows with and without keys (W2)
    window = query.Window(below.node, _extent(node.extent, below), keys)
    return ResolvedNode(window, below.fields, True, node.extent.expiry_known_on_arrival)


def _check_keys(extent: Extent) -> None:
    try:
        extent.check_keys()
    except ValueError as error:
        raise QueryError(str(error)) from None


def _extent(extent: Extent, below: ResolvedNode) -> Extent:
    """The extent with checked expressions, each by its role, over the columns of the window's input."""
    scope = Scope(below.fields)

    def checked(expression: exp.Expr, role: Role, name: str) -> exp.Expr:
        match role:
            case Role.CONDITION:
                return condition_of(expression, scope, name.upper())
            case Role.TIME:
                return _milliseconds(expression, scope)
            case Role.ORDER:
                return order_term(cast("exp.Ordered", expression), scope)
        return scalar(expression, scope)

    return extent.map_expressions(checked)


def _milliseconds(of: exp.Expr, scope: Scope) -> exp.Expr:
    found = scalar(of, scope)
    kind = type_of(found, scope.type_of)
    if kind not in ("SMALLINT", "INTEGER", "BIGINT", UNKNOWN):
        raise QueryError(f"a time is a whole number of milliseconds; {of.sql()} is {kind}", position=place(of))
    return found


def no_window(node: Node, alias: str | None) -> str:
    """The message for an input of a correlation that has no window."""
    name = query.source_name(node) or alias or "its input"
    return f"a correlation needs a window: write {name} {WINDOWS}"


def is_known_to_end(node: Node) -> bool:
    """Whether results over a node have a window themselves (W5); a session's end is not known when its rows arrive."""
    if isinstance(node, query.Window):
        return node.extent.end_known
    if isinstance(node, query.Match):
        return True  # it has its own WITHIN
    if isinstance(node, ChangedWindow):
        return False
    return all(map(is_known_to_end, node.inputs_of))


def is_known_to_change(node: Node) -> bool:
    """Whether all times are known at which rows enter and leave; a join's rows leave with the first of their parts."""
    if isinstance(node, query.Correlate):
        return is_plain_join(node)
    return isinstance(node, (query.Window, ChangedWindow))


def may_evict_newest(node: Node) -> bool:
    """Whether the newest row may leave first; then it does not determine how long the content lasts."""
    if isinstance(node, query.Window):
        return node.extent.may_evict_newest
    return any(map(may_evict_newest, node.inputs_of))
