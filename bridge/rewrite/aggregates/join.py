"""The select list and GROUP BY over window rows joined with the rows that report results; several methods share them.

Where a window jumps, its rows themselves report the results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import offset_of, with_aggregates
from bridge.rewrite.computable import EDGE
from bridge.rewrite.flow import FROM, Flow, Selection
from windows.aggregates import aggregate_of, with_arguments
from windows.databases import Database
from windows.nested import constructor_of, list_of
from windows.sql import aliased, column, column_of, derived_table, identifier, number, over, qualify_columns, row_number


def null_without_row(expression: exp.Expr) -> exp.Expr:
    """An aggregate's call, or a value, with NULL for its arguments where the outer join found no row."""
    here = exp.Not(this=exp.Is(this=column("seq"), expression=exp.null()))

    def guarded(value: exp.Expr) -> exp.Expr:
        return exp.Case().when(here.copy(), value.copy())

    return with_arguments(expression, guarded) if isinstance(expression, exp.AggFunc) else guarded(expression)


@dataclasses.dataclass(frozen=True)
class GroupedJoin:
    """An aggregate over a join whose window rows have the alias `w`, grouped by the row that reports a result.

    FIRST and LAST need a value per group that a window function computes below the grouping, unless `database` has an
    aggregate for them.

    Args:
        node: the aggregate.
        value: an expression of the select list, over the columns of `w`.
        keys: the values of GROUP BY.
        trigger: the columns of the row or timestamp whose result is reported.
        rows: the number of window rows of a group.
        age: the columns that order the window's rows by their arrival.
        order: the columns that order the results of one (ts, seq); empty: the trigger's own columns do.
        begun: the first place of a jump's rows, if the window jumps.
        database: if given, it may have an aggregate for FIRST and LAST.
    """

    node: query.Aggregate
    value: Callable[[exp.Expr], exp.Expr]
    keys: Sequence[exp.Expr]
    trigger: Sequence[exp.Expr]
    rows: exp.Expr
    age: Sequence[exp.Expr]
    order: Sequence[exp.Expr] = ()
    begun: exp.Expr | None = None
    database: Database | None = None

    def select(self, source: exp.Select) -> exp.Select:
        """The results, from a SELECT without columns over the join."""
        helpers: dict[str, exp.Expr] = {}

        def value(call: exp.Expr) -> exp.Expr:
            return self._aggregate(call, helpers)

        columns = [
            _as(with_aggregates(item.this, self.node, self.keys, value), item.alias) for item in self.node.columns
        ]
        system: list[exp.Expr] = [_as(part.copy(), part.name) for part in self.trigger]
        if self.order:
            rank = row_number([part.copy() for part in self.trigger[:2]], self.order)
            system = [part for part in system if part.alias != "_place"] + [_as(rank, "_place")]
        if self.begun is not None:
            system.append(_as(self.begun.copy(), FROM))
        groups = [_as(key.copy(), key.name) for key in self.keys]
        by = [part.copy() for part in (*self.trigger, *self.keys)]
        if helpers:
            source = _with_helpers(source, helpers, [*columns, *system, *groups, *by])
        return source.select(*system, *groups, *columns).group_by(*by, copy=False)

    def _aggregate(self, call: exp.Expr, helpers: dict[str, exp.Expr]) -> exp.Expr:
        if isinstance(call, exp.Count) and isinstance(call.this, exp.Star):
            return self.rows.copy()
        known = aggregate_of(call)
        if known is not None and known.is_edge:
            if (own := self._edge_of_database(call)) is not None:
                return own
            return exp.Min(this=self._helper(helpers, self._edge(call)))
        if (values := constructor_of(call)) is not None and values.element is not None:
            in_order = [exp.Ordered(this=part.copy(), desc=False) for part in self.age]
            some = exp.GT(this=self.rows.copy(), expression=number(0))
            return exp.Case().when(some, list_of(self.value(values.element), values.kind, in_order))
        return self.value(call)

    def _edge_of_database(self, call: exp.Expr) -> exp.Expr | None:
        """The value of the group's oldest or newest row, as an aggregate of the database."""
        if self.database is None or len(self.age) != 1 or isinstance(call, exp.NthValue) or offset_of(call):
            return None
        found = self.database.value_at_edge(self.value(call.this), self.age[0], not isinstance(call, exp.First))
        if found is not None:
            found.meta[EDGE] = "first" if isinstance(call, exp.First) else "last"
        return found

    def _edge(self, call: exp.Expr) -> exp.Expr:
        """FIRST and LAST: the value of the group's oldest or newest row, or of the n-th row from there.

        NTH_VALUE … FROM LAST is the value of the n-th newest row whose value is not NULL.
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

    def _helper(self, helpers: dict[str, exp.Expr], window: exp.Expr) -> exp.Expr:
        """The column of a window function that is computed below the grouping."""
        name = next((name for name, known in helpers.items() if known == window), f"_helper{len(helpers) + 1}")
        helpers[name] = window
        return column(name)


def _as(value: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(value, name, quoted=True)


def _with_helpers(source: exp.Select, helpers: dict[str, exp.Expr], readers: Sequence[exp.Expr]) -> exp.Select:
    """The source as a sub-query that also computes the helpers; its readers then use columns named `"alias.column"`."""
    used = [each for reader in readers for each in reader.find_all(exp.Column) if each.table]
    read = dict.fromkeys((each.table, each.name) for each in used)
    inner = source.select(*(_as(column_of(alias, name), f"{alias}.{name}") for alias, name in read))
    inner = inner.select(*(_as(window, name) for name, window in helpers.items()))
    for each in used:
        each.set("this", identifier(f"{each.table}.{each.name}"))
        each.set("table", None)
    return exp.select().from_(derived_table(inner, "h"))


def per_jump(node: query.Aggregate, below: Flow, database: Database) -> exp.Select:
    """One result per jump and group (W3), in the order of the groups' first rows; a jump's arrivals are its content."""
    rows = below.arrivals
    keys = [column(f"_key{place}") for place in range(len(node.group_by))]
    inner = rows.select(["ts", "seq", "_expires", *dict.fromkeys((*below.order, *below.jump))])
    inner = inner.select(*(aliased(rows.value(key), f"_key{place}") for place, key in enumerate(node.group_by)))
    inner = inner.select(*(aliased(rows.columns[name].copy(), f"_in_{name}") for name in below.names))
    source = inner
    rank, *others = below.order or ("_rank",)
    if others or not below.order:
        rank = "_rank"
        ranked = exp.select("*", aliased(row_number(map(column, ("ts", "seq")), map(column, below.order)), rank))
        source = ranked.from_(derived_table(inner, "i"))
    renamed = {name: column(f"_in_{name}") for name in below.names}

    def value(expression: exp.Expr) -> exp.Expr:
        return Selection(exp.null(), {**renamed, "ts": column("ts")}).value(expression, "w")

    trigger = [column_of("w", name) for name in ("ts", "seq", "_expires", *below.jump)]
    grouped = GroupedJoin(
        node, value, [qualify_columns(key, "w") for key in keys], trigger, exp.Count(this=column_of("w", "seq")),
        [column_of("w", rank)],
        order=[exp.Min(this=column_of("w", rank))],
        begun=exp.Min(this=column_of("w", "_place")) if below.counted else None,
        database=database,
    )  # fmt: skip
    return grouped.select(exp.select().from_(derived_table(source, "w")))
