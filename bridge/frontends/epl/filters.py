"""The condition in parentheses after a stream: `Trade(price > 10)`."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from bridge.frontends.cursor import Cursor, Region
from bridge.frontends.epl import expressions as epl_scalars


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


def condition(cursor: Cursor, listed: Listed | None = None) -> exp.Expr:
    """The condition up to the next clause, `listed` reading it."""
    region = cursor.until((",", *STOPS, *_JOINS))
    if listed is None:
        return epl_scalars.single(cursor, region, "a condition")
    return epl_scalars.alone(cursor, region, listed(region, "a condition"), "a condition")


STOPS = ("FROM", "WHERE", "GROUP BY", "HAVING", "OUTPUT", "ORDER BY", "LIMIT", "FOR", "MATCH_RECOGNIZE", "ON")


_JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER")


Listed = Callable[[Region, str], tuple[exp.Expr, ...]]
