"""EPL's prev and prior: values of earlier events, each replaced by a column that a PreviousRow adds to the rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl.istream_rstream import mark
from bridge.frontends.expressions import Qualifiers, position_of, resolve
from bridge.query.epl_columns import ALL_TIME, RATE, PreviousRow, SubqueryColumn
from bridge.query.epl_patterns import EagerMatch, TemporalMatch
from bridge.query.nodes import Correlate, Node, Window
from windows.extents import Rows
from windows.sql import identifier

BEFORE = "before."
"""The prefix of the names of these columns."""

_EVER: dict[str, type[exp.Expr]] = {"firstever": exp.First, "lastever": exp.Last, "countever": exp.Count}

LIMIT = 1_000
"""The greatest number of events that they look back."""


@dataclasses.dataclass(frozen=True)
class _PrevCall:
    name: str
    function: str
    value: exp.Expr
    count: int
    position: int | None


def with_whole_events(column: exp.Expr, names: Qualifiers) -> exp.Expr:
    """A column of the list, in which `window(s)` becomes a list of the events of the stream `s`."""
    for found in column.find_all(exp.ArrayAgg):
        of = found.this
        if isinstance(of, exp.Column) and not of.table and of.name == names.own:
            found.set("this", exp.Star())
    return column


class PreviousValues:
    """The calls of prev and prior in a statement; if `both` streams are reported, also the calls of istream."""

    def __init__(self, cursor: Cursor, both: bool = False) -> None:
        self.cursor, self.both = cursor, both
        self.calls: list[_PrevCall] = []

    def extracted(self, column: exp.Expr) -> exp.Expr:
        """The expression with a column in place of each call."""
        if isinstance(column, exp.Anonymous) and column.name.lower() == "window":
            column = exp.alias_(column, f"window({', '.join(one.sql() for one in column.expressions)})", quoted=True)
        holder = exp.Paren(this=column)
        for node in list(holder.find_all(exp.Anonymous)):
            if node.name.lower() in ("prev", "prior", "prevtail", "prevcount"):
                call = self._known(self._call(node))
                node.replace(exp.column(identifier(call.name)))
            elif node.name.lower() == "istream" and self.both and not node.expressions:
                node.replace(mark(node))
            elif node.name.lower() == "nth":
                node.replace(self._nth(node))
            elif node.name.lower() == "window":
                node.replace(self._window(node))
            elif node.name.lower() == "rate":
                node.replace(self._rate(node))
            elif (make := _EVER.get(node.name.lower())) is not None:
                node.replace(self._ever(node, make))
        result: exp.Expr = holder.this.pop()
        return result

    def _known(self, call: _PrevCall) -> _PrevCall:
        """The same call, or an equal earlier one: a range names its value more than once."""
        for known in self.calls:
            if dataclasses.replace(call, name=known.name, position=known.position) == known:
                return known
        self.calls.append(call)
        return call

    def _call(self, node: exp.Anonymous) -> _PrevCall:
        """`prev(1, v)`, `prev(v, 1)`, `prev(v)`, `prior(1, v)`, `prevtail(1, v)`, `prevcount(v)`."""
        function, at = node.name.lower(), node.meta_get("start", position_of(node))
        numbers = [a for a in node.expressions if isinstance(a, exp.Literal) and a.is_int]
        values = [a for a in node.expressions if a not in numbers]
        count = int(numbers[0].name) if numbers else int(function == "prev")
        if len(values) != 1 or len(numbers) > 1 or (function == "prior" and not numbers) or not 0 <= count <= LIMIT:
            self.cursor.fail(f"{function} wants a number of events, at most {LIMIT}, and a value: {function}(1, v)", at)
        if values[0].find(exp.AggFunc, exp.Anonymous, exp.Typeof):
            self.cursor.fail(f"{function} wants an attribute of the event", at)
        return _PrevCall(f"{BEFORE}{len(self.calls) + 1}", function, values[0].copy(), count, at)

    def _ever(self, node: exp.Anonymous, make: type[exp.Expr]) -> exp.Expr:
        """`firstever(v)`: an aggregate over all events that ever came."""
        if len(node.expressions) != 1:
            self.cursor.fail(f"{node.name.lower()} wants one value", node.meta_get("start", position_of(node)))
        found = make(this=node.expressions[0].copy())
        found.meta[ALL_TIME] = True
        return found

    def _rate(self, node: exp.Anonymous) -> exp.Expr:
        """`rate(5)`, `rate(1.5)`: the number of events per second over this number of seconds."""
        (seconds,) = node.expressions if len(node.expressions) == 1 else (None,)
        if not isinstance(seconds, exp.Literal) or seconds.is_string or not float(seconds.name) * 1000 >= 1:
            at = node.meta_get("start", position_of(node))
            self.cursor.fail("rate wants a number of seconds: rate(5)", at)
        found = exp.Count(this=exp.Star())
        found.meta[ALL_TIME], found.meta[RATE] = True, round(float(seconds.name) * 1000)
        return found

    def _nth(self, node: exp.Anonymous) -> exp.Expr:
        """`nth(v, 2)`: among the values of the window (or group) that are not NULL, the one 2 before the last."""
        value, away = [*node.expressions, None, None][:2]
        is_whole = isinstance(away, exp.Literal) and away.is_int
        if len(node.expressions) != 2 or value is None or away is None or not is_whole:
            at = node.meta_get("start", position_of(node))
            self.cursor.fail("nth wants a value and a number of events: nth(v, 2)", at)
        return exp.NthValue(this=value.copy(), offset=away.copy(), from_first=False)

    def _window(self, node: exp.Anonymous) -> exp.Expr:
        """`window(v)`, `window(*)`: the values, or events, of the window, the oldest first."""
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Distinct):
            self.cursor.fail("window wants one value: window(v), or window(*)", node.meta_get("start"))
        found = exp.ArrayAgg(this=node.expressions[0].copy())
        found.meta.update(node.meta)
        return found

    def over(self, node: Node, names: Qualifiers, context: tuple[exp.Expr, ...] = ()) -> Node:
        """The node with the values of earlier events that have the same keys of a context."""
        base = node
        for call in self.calls:
            if isinstance(base, (Correlate, EagerMatch, TemporalMatch)):
                self.cursor.fail(
                    f"{call.function} is supported over one stream: insert a join's results into a stream",
                    call.position,
                )
            (value,) = resolve(self.cursor, [call.value], names)
            if isinstance(base, Window):
                node = self._within(node, base, call, value, context)
            elif call.function == "prior":
                node = PreviousRow(node, call.name, value, call.count, None, context)
            else:
                self.cursor.fail(f"{call.function} wants a window: prior is of all events", call.position)
        return node

    def _within(
        self, node: Node, window: Window, call: _PrevCall, value: exp.Expr, context: tuple[exp.Expr, ...]
    ) -> Node:
        """The value of an earlier event, with the same keys, that is still in the window.

        For prior, of any earlier event.
        """
        extent, keys = window.extent, window.partition_by
        if extent.jumps:
            self.cursor.fail(
                f"{call.function} over this window is not supported: over #length, #time and #keepall it is",
                call.position,
            )
        if call.function == "prior":
            return PreviousRow(node, call.name, value, call.count, None, context)
        if call.function == "prev" and isinstance(extent, Rows) and extent.count <= call.count:
            self.cursor.fail(
                f"the window holds {extent.count} events: {call.count} before is none of it", call.position
            )
        if call.function == "prev" and extent.membership_by_age:
            return PreviousRow(node, call.name, value, call.count, extent.lifetime_ms, keys)
        condition = of_same(call.name, keys)
        if call.function == "prevcount":
            return SubqueryColumn(node, call.name, window, condition, exp.Count(this=exp.Star()))
        place = -1 - call.count if call.function == "prevtail" else call.count
        return SubqueryColumn(node, call.name, window, condition, within(call.name, value), place=place)


def of_same(name: str, keys: Sequence[exp.Expr]) -> exp.Expr | None:
    """The condition that a row looked up under a name has the same keys; None without keys."""
    same = [exp.NullSafeEQ(this=key.copy(), expression=within(name, key)) for key in keys]
    return exp.and_(*same) if same else None


def within(name: str, value: exp.Expr) -> exp.Expr:
    """A value, rewritten over the rows that are looked up under a name."""

    def qualified(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        return exp.column(node.this.copy(), table=identifier(name))

    found: exp.Expr = value.transform(qualified)
    return found
