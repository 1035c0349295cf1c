"""What all forms of aggregates share: the select list and GROUP BY over the rows of a window, joined with what reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import listed, offset_of
from bridge.rewrite.flow import FROM
from bridge.rewrite.network import Network
from windows.nested import list_of, made
from windows.sql import aliased, column, column_of, derived_table, number, over, row_number

Values = Callable[[exp.Expr], exp.Expr]


def guarded(expression: exp.Expr) -> exp.Expr:
    """The arguments of an aggregate, NULL where the outer join found no row: a window that expiry has emptied."""
    here = exp.Not(this=exp.Is(this=column("seq"), expression=exp.null()))

    def safe(value: exp.Expr) -> exp.Expr:
        return exp.Case().when(here.copy(), value.copy())

    if not isinstance(expression, exp.AggFunc):
        return safe(expression)
    call = expression.copy()
    if isinstance(call.this, exp.Distinct):
        call.this.set("expressions", [safe(value) for value in call.this.expressions])
    else:
        call.set("this", safe(call.this))
    return call


@dataclasses.dataclass(frozen=True)
class Aggregation:
    """The select list and GROUP BY over a joined source whose window rows are called `w`.

    `order` ranks the rows of one (ts, seq), where the arrivals do not; `age` orders the window's rows by their coming;
    `begun` is where a jump's rows begin.
    FIRST, LAST and SQLite's STDDEV need a value per group that a window function computes below the grouping.
    """

    node: query.Aggregate
    value: Values
    keys: Sequence[exp.Expr]
    trigger: Sequence[exp.Expr]
    rows: exp.Expr
    age: Sequence[exp.Expr]
    order: Sequence[exp.Expr] = ()
    begun: exp.Expr | None = None

    def select(self, source: exp.Select, network: Network) -> exp.Select:
        helpers: dict[str, exp.Expr] = {}

        def value(call: exp.Expr) -> exp.Expr:
            return self._aggregate(call, helpers, network)

        columns = [_called(listed(item.this, self.node, self.keys, value), item.alias) for item in self.node.columns]
        system: list[exp.Expr] = [_called(part.copy(), part.name) for part in self.trigger]
        if self.order:
            rank = row_number([part.copy() for part in self.trigger[:2]], self.order)
            system = [part for part in system if part.alias != "_place"] + [aliased(rank, "_place")]
        if self.begun is not None:
            system.append(_called(self.begun.copy(), FROM))
        groups = [_called(key.copy(), key.name) for key in self.keys]
        by = [part.copy() for part in (*self.trigger, *self.keys)]
        if helpers:
            source = _with_helpers(source, helpers, [*columns, *system, *groups, *by])
        return source.select(*system, *groups, *columns).group_by(*by)

    def _aggregate(self, call: exp.Expr, helpers: dict[str, exp.Expr], network: Network) -> exp.Expr:
        if isinstance(call, exp.Count) and isinstance(call.this, exp.Star):
            return self.rows.copy()
        if isinstance(call, (exp.First, exp.Last, exp.NthValue)):
            return exp.Min(this=self._helper(helpers, self._edge(call)))
        if (values := made(call)) is not None and values.element is not None:
            in_order = [exp.Ordered(this=part.copy(), desc=False) for part in self.age]
            there = exp.GT(this=self.rows.copy(), expression=number(0))
            return exp.Case().when(there, list_of(self.value(values.element), values.kind, in_order))
        over_window = self.value(call)
        if isinstance(call, (exp.Stddev, exp.StddevSamp)) and network.database.dialect == "sqlite":
            return self._stddev(over_window.this, helpers)
        return over_window

    def _edge(self, call: exp.Expr) -> exp.Expr:
        """FIRST and LAST: the value of the group's oldest or newest row, or of one so many rows from there.

        NTH_VALUE … FROM LAST is that of the rows that have one.
        """
        order = [exp.Ordered(this=part.copy(), desc=not isinstance(call, exp.First)) for part in self.age]
        if isinstance(call, exp.NthValue):
            is_null = exp.Is(this=self.value(call.this), expression=exp.null())
            order.insert(0, exp.Ordered(this=exp.Case().when(is_null, number(1)).else_(number(0)), desc=False))
        value, away, spec = self.value(call.this), offset_of(call), None
        function: exp.Expr = exp.FirstValue(this=value)
        if away:
            function = exp.NthValue(this=value, offset=number(away + 1))
            ends = {"start": "UNBOUNDED", "start_side": "PRECEDING", "end": "UNBOUNDED", "end_side": "FOLLOWING"}
            spec = exp.WindowSpec(kind="ROWS", **ends)
        window = over(function, [*self.trigger, *self.keys], [], spec)
        window.set("order", exp.Order(expressions=order))
        return window

    def _stddev(self, value: exp.Expr, helpers: dict[str, exp.Expr]) -> exp.Expr:
        """Two passes, as the one-pass sum of squares loses the digits of values far from zero."""
        mean = self._helper(helpers, over(exp.Avg(this=value.copy()), [*self.trigger, *self.keys], []))
        distance = exp.paren(exp.Sub(this=exp.paren(value.copy()), expression=mean))
        squares = exp.Sum(this=exp.Mul(this=distance, expression=distance.copy()))
        count = exp.Count(this=value.copy())
        fewer = exp.paren(exp.Sub(this=count, expression=number(1)))
        return exp.Sqrt(this=exp.Div(this=squares, expression=exp.Nullif(this=fewer, expression=number(0))))

    def _helper(self, helpers: dict[str, exp.Expr], window: exp.Expr) -> exp.Expr:
        name = next((name for name, known in helpers.items() if known == window), f"_helper{len(helpers) + 1}")
        helpers[name] = window
        return column(name)


def _called(value: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(value, name, quoted=True)


def _with_helpers(source: exp.Select, helpers: dict[str, exp.Expr], readers: Sequence[exp.Expr]) -> exp.Select:
    """The source as a sub-query that also gives the helpers; its readers then name its columns `"alias.column"`."""
    used = [found for reader in readers for found in reader.find_all(exp.Column) if found.table]
    read = dict.fromkeys((found.table, found.name) for found in used)
    inner = source.select(*(_called(column_of(alias, name), f"{alias}.{name}") for alias, name in read))
    inner = inner.select(*(_called(window, name) for name, window in helpers.items()))
    for found in used:
        found.set("this", exp.to_identifier(f"{found.table}.{found.name}", quoted=True))
        found.set("table", None)
    return exp.select().from_(derived_table(inner, "h"))
