"""Aggregates reported at every change of their window (EMIT ON EVERY CHANGE): as rows enter, and as rows leave.

A change point is an event, or a timestamp at which rows expire. Each group that it changes is reported once, over the
window after the change: first the groups that got rows, in the order of these rows, then the groups that only lost
rows, even if they are empty now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import group_columns
from bridge.rewrite.aggregates.join import GroupedJoin, null_without_row
from bridge.rewrite.flow import Flow, Selection, not_later, valid
from bridge.rewrite.network import Network
from bridge.rewrite.windows.expiry import evicting_inputs, expires_in_push, is_evicted_before_expiry, is_evicted_by
from windows.sql import (
    aliased,
    bigint_zero,
    column,
    column_of,
    concatenated,
    derived_table,
    null_safe_equal,
    number,
    sortable_text,
)
from windows.times import NEVER

LEAVING = "leaving"
"""In `meta`, marks the SELECT of a single event's reports if it also reports the rows that leave the window."""


class ExitReports(NamedTuple):
    """How the groups that lose rows are reported.

    Args:
        is_empty_reported: Whether a group is also reported if it has become empty.
        by_oldest_left: Whether their oldest remaining rows order the groups of a timestamp; else the rows that leave.
    """

    is_empty_reported: bool
    by_oldest_left: bool


def at_every_change(node: query.Aggregate, below: Flow, network: Network) -> exp.Select:
    """The groups that each change point changes, over the window after it."""
    return at_points(node, below, change_points(node, below, network))


def at_points(
    node: query.Aggregate, below: Flow, points: exp.Query, window: tuple[Selection, list[exp.Expr]] | None = None
) -> exp.Select:
    """Each change point and group `t` joined with the rows `w` that are in the window after it; `_age` orders them.

    `window`: the rows, and the conditions under which a row is in the window, if these are simpler than in general.
    """
    assert below.content is not None
    content, inside = below.content, [not_later("w", "t", (), timed=True), *valid("w", "t", below, timed=True)]
    if window is not None:
        content, inside = window
    keys = [column_of("t", f"_key{place}") for place in range(len(node.group_by))]
    groups = [content.value(key, "w") for key in node.group_by]
    conditions = [
        *inside,
        *(null_safe_equal(group, key.copy()) for group, key in zip(groups, keys, strict=True)),
        *content.conditions_of("w"),
    ]
    grouped = GroupedJoin(
        node,
        lambda expression: content.value(null_without_row(expression), "w"),
        keys,
        [column_of("t", name) for name in ("ts", "seq", "_expires")],
        exp.Count(this=column_of("w", "seq")),
        [column_of("w", name) for name in below.key],
        order=[exp.Min(this=column_of("t", "_age"))],
    )
    joined = exp.select().from_(derived_table(points, "t"))
    return grouped.select(joined.join(content.item("w"), on=exp.and_(*conditions), join_type="left"))


def change_points(node: query.Aggregate, below: Flow, network: Network) -> exp.Select:
    """The change points with the groups that they change; `_age` orders these by entering, then by leaving rows."""
    assert below.content is not None
    keys = group_columns(node)
    age = sortable_text(column(name) for name in ("ts", "seq", *below.order))
    last = concatenated([exp.Literal.string("9"), age.copy()])  # after every age: these begin with a smaller digit
    entering = _groups(below.arrivals, {"ts": column("ts"), "seq": column("seq")}, age, keys)
    expiring = _groups(below.content, {"ts": column("_expires"), "seq": bigint_zero()}, last, keys)
    expiring = expiring.where(*expires_in_push(below))
    leaving: exp.Query = expiring
    if below.counted:
        evicted_first = is_evicted_before_expiry(below.content)
        # Includes rows that a filter above the window hides.
        evicted = _groups(below.content, {"ts": column("_out_ts"), "seq": column("_out")}, last, keys)
        evicted = evicted.where(is_evicted_by(below.content, evicting_inputs(node), network)).where(evicted_first)
        leaving = exp.union(expiring.where(exp.Not(this=exp.paren(evicted_first.copy()))), evicted, distinct=False)
    changes = exp.union(entering, leaving, distinct=False)
    names = ("ts", "seq", *keys)
    points = exp.select(
        *map(column, names), aliased(number(NEVER), "_expires"), aliased(exp.Min(this=column("_age")), "_age")
    )
    return points.from_(derived_table(changes, "c")).group_by(*map(column, names))


def _groups(rows: Selection, point: Mapping[str, exp.Expr], age: exp.Expr, keys: Mapping[str, exp.Expr]) -> exp.Select:
    """The groups of rows, each with the point at which it changes."""
    return rows.project({**point, "_age": age, **keys}).select()
