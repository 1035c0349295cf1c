"""EPL's firstever, lastever, countever and rate: of all events there have been, whatever their window holds by then.

Beside a window each is looked up among all events as the other aggregates are told.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl_aggregates import Asked, aggregated
from bridge.frontends.epl_output import Told
from bridge.frontends.epl_prior import of_same, within
from bridge.named import EVER, RATE
from bridge.query import Aggregate, Correlate, Filter, Lookup, Map, Node, Stream, Window, unfiltered
from bridge.scope import column
from windows.extents import FirstRange, FirstRows, Range, Rows, Unbounded

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
    return Map(_Running(node, keys).beside(cursor, found, calls, position), columns)


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


@dataclasses.dataclass(frozen=True)
class _Running:
    """Aggregates of all events of a node so far, or of the last while, as each event leaves them: those of its group."""

    node: Node
    keys: Mapping[exp.Expr, str]

    def beside(self, cursor: Cursor, told: Node, calls: Mapping[str, exp.Expr], position: int) -> Node:
        """The results that are told, with what the calls come to by then, by their names."""
        every = {name: _value(call) for name, call in calls.items() if RATE not in call.meta}
        rates = {name: call.meta[RATE] for name, call in calls.items() if RATE in call.meta}
        base = unfiltered(self.node)
        if rates and isinstance(base, Window) and not isinstance(base.extent, Unbounded):
            cursor.fail("rate is supported without a window, and over #keepall: it has a time of its own", position)
        every |= {f"since.{name}": exp.Min(this=column("ts")) for name in rates}
        told = self._found(told, every, Unbounded())
        for name, milliseconds in rates.items():
            told = self._found(told, {name: exp.Count(this=exp.Star())}, Range(milliseconds))
        return told

    def _found(self, told: Node, values: Mapping[str, exp.Expr], extent: Unbounded | Range) -> Node:
        """The results with values that the last event of their group left."""
        named = {**{name: key for key, name in self.keys.items()}, **values}
        listed = tuple(exp.alias_(value.copy(), name, quoted=True) for name, value in named.items())
        own = tuple(map(column, self.keys.values()))
        last = Window(Aggregate(_all(self.node, extent), listed, tuple(self.keys)), Rows(1), own)
        for name in values:
            told = Lookup(told, name, last, of_same(name, own), within(name, column(name)), place=0)
        return told


def _value(call: exp.Expr) -> exp.Expr:
    """The aggregate, as one over a window that holds all events."""
    found = call.copy()
    found.meta.pop(EVER)
    return found


def _all(node: Node, extent: Unbounded | Range) -> Node:
    """The same events, in another window."""
    if isinstance(node, Filter) and isinstance(unfiltered(node), Window):
        return dataclasses.replace(node, input=_all(node.input, extent))
    return Window(node.input if isinstance(node, Window) else node, extent)
