"""Aggregates of many events where a frame's bound is a constant: two frames instead of one with a bound for each row.

RANGE frames over ts also count the rows of the same ts that come later, which a row does not see (O2). So one frame
takes the instants before, up to the window's length back, and another the rows of the same instant that have come.
Only for what is exact when put together from two parts, and when values are taken out of a sum again as some databases
do in a frame that moves: counts, sums of whole numbers, the least and the greatest.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from bridge import query
from bridge.flow import Flow, derived, named, over, so_far
from bridge.rewrite.frames import arrived, keys_of, listed, near
from bridge.scope import column

Frames = tuple[Callable[[exp.Expr], exp.Expr], Callable[[exp.Expr], exp.Expr]]
"""What makes of an aggregate that over the instants before, and that over the instant itself."""


def ranged(node: query.Aggregate, below: Flow) -> exp.Select:
    """The arrivals with their aggregates over the rows of their windows. Each frame stands once: few databases see equal ones."""
    assert below.content is not None and below.size is not None
    keys = keys_of(node)
    names = ("ts", "seq", "_expires", *below.names)
    rows = below.content.project({**{name: column(name) for name in names}, **keys}).select()
    partition: list[exp.Expr] = [column(name) for name in keys]
    frames = _frames(partition, below.size)
    computed: dict[exp.Expr, str] = {}

    def framed(call: exp.Expr) -> exp.Expr:
        return column(computed.setdefault(call, f"_frame{len(computed)}")) if isinstance(call, exp.Window) else call

    def joined(call: exp.Expr) -> exp.Expr:
        return _joined(call, *(framed(frame(call)) for frame in frames))

    columns = [named(listed(item.this, node, partition, joined), item.alias) for item in node.columns]
    found = exp.select(*map(column, rows.named_selects), *(named(call, name) for call, name in computed.items()))
    found = found.from_(derived(rows, "w")).where(*near(below))
    system = [column(name) for name in ("ts", "seq", "_expires", *keys)]
    return exp.select(*system, *columns).from_(derived(found, "a")).where(arrived(below))


def _frames(keys: list[exp.Expr], size: int) -> Frames:
    before = exp.WindowSpec(
        kind="RANGE", start=_fixed(size - 1), start_side="PRECEDING", end=_fixed(1), end_side="PRECEDING"
    )
    return (
        lambda call: over(call.copy(), keys, [column("ts")], before.copy()) if size > 1 else exp.null(),
        lambda call: over(call.copy(), [*keys, column("ts")], [column("seq")], so_far()),
    )


def _fixed(value: int) -> exp.Expr:
    """A number that must stand in the text: most databases take no other bound."""
    bound = exp.Literal.number(value)
    bound.meta["fixed"] = True
    return bound


def _joined(call: exp.Expr, before: exp.Expr, same: exp.Expr) -> exp.Expr:
    """Both parts together; NULL is the value of no rows, but for counts."""
    if isinstance(before, exp.Null):
        return same
    if isinstance(call, exp.Count):
        return exp.paren(exp.Add(this=before, expression=same))
    both: dict[type, exp.Expr] = {
        exp.Sum: exp.Add(this=before, expression=same),
        exp.Min: exp.Least(this=before, expressions=[same]),
        exp.Max: exp.Greatest(this=before, expressions=[same]),
    }
    lacking = [(before, same), (same, before)]
    cases = exp.Case()
    for missing, other in lacking:
        cases = cases.when(exp.Is(this=missing.copy(), expression=exp.null()), other.copy())
    return cases.else_(both[type(call)])
