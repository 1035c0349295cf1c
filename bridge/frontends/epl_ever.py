"""EPL's firstever, lastever, countever and rate: of all events there have been, whatever their window holds by then.

Beside a window each is looked up among all events as the other aggregates are told.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl_aggregates import Asked, aggregated
from bridge.frontends.epl_output import Told
from bridge.frontends.epl_prior import within
from bridge.named import EVER, RATE
from bridge.query import Correlate, Filter, Lookup, Map, Node, Stream, Window, unfiltered
from bridge.scope import column
from windows.window import FirstRange, FirstRows, Range, Unbounded

_KEPT = (Unbounded, FirstRows, FirstRange)
"""Windows that nothing leaves."""


def is_apart(node: Node, columns: Sequence[exp.Expr]) -> bool:
    """Whether columns are of other events than the window's: of all that ever came, or of the last so many seconds."""
    calls = [part for one in columns for part in one.walk() if EVER in part.meta]
    base = unfiltered(node)
    leaves = isinstance(base, Correlate) or (isinstance(base, Window) and not isinstance(base.extent, _KEPT))
    return bool(calls) and (leaves or any(RATE in call.meta for call in calls))


def ever(cursor: Cursor, node: Node, asked: Asked, told: Told, position: int) -> Node:
    """The aggregates over a window, with those of all events beside them."""
    position = asked.position or position
    base = unfiltered(node)
    if not isinstance(base, (Stream, Window)) or getattr(getattr(base, "extent", None), "slide", None) is not None:
        cursor.fail(
            "firstever, lastever, countever and rate are supported over one stream, without a window or with one that is "
            "no batch: insert into names the results",
            position,
        )
    if told.pace is not None or told.is_arranged or told.distinct:
        cursor.fail(
            "firstever, lastever and countever beside a window, and rate, are not supported with output, order by, limit "
            "or distinct: insert into names the results",
            position,
        )
    calls, inner, columns = _taken_apart(cursor, asked, position)
    keys = {key: f"key.{place}" for place, key in enumerate(asked.keys)}
    listed = [*inner, *(exp.alias_(key.copy(), name, quoted=True) for key, name in keys.items())]
    listed = listed or [exp.alias_(exp.Count(this=exp.Star()), "part.0", quoted=True)]
    found: Node = aggregated(cursor, node, Asked(tuple(listed), asked.keys, asked.having), position)
    for name, call in calls.items():
        found = _looked_up(cursor, found, node, name, call, keys, position)
    return Map(found, columns)


def _taken_apart(
    cursor: Cursor, asked: Asked, position: int
) -> tuple[dict[str, exp.Expr], list[exp.Expr], tuple[exp.Expr, ...]]:
    """The calls of all events by name; the values that the window gives; and the columns, of both."""
    calls: dict[str, exp.Expr] = {}
    inner: list[exp.Expr] = []

    def part(node: exp.Expr) -> exp.Expr:
        if EVER in node.meta:
            calls[name := f"ever.{len(calls) + 1}"] = node.copy()
            milliseconds = node.meta.get(RATE)
            return column(name) if milliseconds is None else _rate(name, milliseconds)
        if node not in asked.keys and not isinstance(node, (exp.AggFunc, exp.Column)):
            return node
        inner.append(exp.alias_(node.copy(), f"part.{len(inner) + 1}", quoted=True))
        return column(f"part.{len(inner)}")

    columns = []
    for one in asked.columns:
        if any(EVER in node.meta for node in one.walk()) and not isinstance(one, exp.Alias):
            cursor.fail("a column with firstever, lastever, countever or rate is named here: … as x", position)
        columns.append(exp.alias_(one.unalias().transform(part), one.alias_or_name or one.sql(), quoted=True))
    return calls, inner, tuple(columns)


def _rate(name: str, milliseconds: int) -> exp.Expr:
    """Events a second, once there was one so long ago."""
    count = exp.Mul(this=column(name), expression=exp.Literal.number(1000))
    passed = exp.Sub(this=column("ts"), expression=column(f"since.{name}"))
    is_full = exp.GTE(this=passed, expression=exp.Literal.number(milliseconds))
    return exp.Case().when(is_full, exp.Div(this=exp.paren(count), expression=exp.Literal.number(milliseconds)))


def _looked_up(
    cursor: Cursor, node: Node, source: Node, name: str, call: exp.Expr, keys: dict[exp.Expr, str], position: int
) -> Node:
    """The results with what a call gives of all events of their group."""

    def found(below: Node, name: str, events: Node, value: exp.Expr, place: int | None = None) -> Node:
        own = [exp.NullSafeEQ(this=column(mine), expression=within(name, key)) for key, mine in keys.items()]
        return Lookup(below, name, events, exp.and_(*own) if own else None, value, place=place)

    every = _all(source, Unbounded())
    milliseconds = call.meta.get(RATE)
    if milliseconds is not None:
        base = unfiltered(source)
        if isinstance(base, Window) and not isinstance(base.extent, Unbounded):
            cursor.fail("rate is supported without a window, and over #keepall: it has a time of its own", position)
        node = found(node, name, _all(source, Range(milliseconds)), exp.Count(this=exp.Star()))
        since = f"since.{name}"
        return found(node, since, every, exp.column("ts", table=exp.to_identifier(since, quoted=True)), -1)
    if isinstance(call, exp.Count):
        whole = isinstance(call.this, exp.Star)
        return found(node, name, every, exp.Count(this=exp.Star() if whole else within(name, call.this)))
    return found(node, name, every, within(name, call.this), -1 if isinstance(call, exp.First) else 0)


def _all(node: Node, extent: Unbounded | Range) -> Node:
    """The same events, in another window."""
    if isinstance(node, Filter) and isinstance(unfiltered(node), Window):
        return dataclasses.replace(node, input=_all(node.input, extent))
    return Window(node.input if isinstance(node, Window) else node, extent)
