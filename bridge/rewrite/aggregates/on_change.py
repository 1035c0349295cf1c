"""Aggregates told at every change of their window (EMIT ON EVERY CHANGE): as rows enter, and as rows leave.

A moment is an event, or an instant of time. What it changes is told once a group, over the window as the moment leaves
it: the groups that got rows first, in the order of these, then those that only lost some, also when nothing is left.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import keys_of
from bridge.rewrite.aggregates.join import Aggregation, guarded
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


def at_changes(node: query.Aggregate, below: Flow, network: Network) -> exp.Select:
    """The groups that each moment changes, as it leaves them."""
    return told_at(node, below, network, _moments(node, below, network))


def told_at(
    node: query.Aggregate,
    below: Flow,
    network: Network,
    told: exp.Query,
    window: tuple[Selection, list[exp.Expr]] | None = None,
) -> exp.Select:
    """Each moment `t` and group of `told` joined with the rows `w` that are in the window after it; `_age` orders them.

    `window`: these rows, and when they are in it, if somebody knows better.
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
    rest = Aggregation(
        node,
        lambda expression: content.value(guarded(expression), "w"),
        keys,
        [column_of("t", name) for name in ("ts", "seq", "_expires")],
        exp.Count(this=column_of("w", "seq")),
        [column_of("w", name) for name in ("ts", "seq", *below.order)],
        order=[exp.Min(this=column_of("t", "_age"))],
    )
    moments = derived_table(told, "t")
    joined = exp.select().from_(moments).join(content.item("w"), on=exp.and_(*conditions), join_type="left")
    return rest.select(joined, network)


def _moments(node: query.Aggregate, below: Flow, network: Network) -> exp.Select:
    """The moments with the groups they change; `_age` orders these by the rows that enter, then by those that leave."""
    assert below.content is not None
    keys = keys_of(node)
    age = sortable_text(column(name) for name in ("ts", "seq", *below.order))
    last = concatenated([exp.Literal.string("9"), age.copy()])  # after every age: numbers as text begin with less
    entering = _told(below.arrivals, {"ts": column("ts"), "seq": column("seq")}, age, keys)
    expiring: exp.Query = (timed := _expiring(below, last, keys))
    if below.counted:
        first = is_evicted_before_expiry(below.content)
        pushed_out = _pushed_out(node, below, network, last, keys).where(first)
        expiring = exp.union(timed.where(exp.Not(this=exp.paren(first.copy()))), pushed_out, distinct=False)
    changes = exp.union(entering, expiring, distinct=False)
    names = ("ts", "seq", *keys)
    moments = exp.select(
        *map(column, names), aliased(number(NEVER), "_expires"), aliased(exp.Min(this=column("_age")), "_age")
    )
    return moments.from_(derived_table(changes, "c")).group_by(*map(column, names))


def _told(rows: Selection, moment: Mapping[str, exp.Expr], age: exp.Expr, keys: Mapping[str, exp.Expr]) -> exp.Select:
    return rows.project({**moment, "_age": age, **keys}).select()


def _expiring(below: Flow, age: exp.Expr, keys: Mapping[str, exp.Expr]) -> exp.Select:
    """What time has put out of the window since the push before."""
    assert below.content is not None
    return _told(below.content, {"ts": column("_expires"), "seq": bigint_zero()}, age, keys).where(
        *expires_in_push(below)
    )


def _pushed_out(
    node: query.Aggregate, below: Flow, network: Network, age: exp.Expr, keys: Mapping[str, exp.Expr]
) -> exp.Select:
    """What the rows of this push have put out, also those that a filter above the window hides."""
    assert below.content is not None
    told = _told(below.content, {"ts": column("_out_ts"), "seq": column("_out")}, age, keys)
    return told.where(is_evicted_by(below.content, evicting_inputs(node), network))
