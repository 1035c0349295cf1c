"""DISTINCT, ORDER BY, LIMIT and OFFSET among the results of one event or timestamp."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Operator
from windows.sql import aliased, column, derived_table, number, over, row_number

_EVENT = ("ts", "seq")


@rewrite.register
def _(node: query.OrderLimitDistinct, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        rows = _ordered(node, below)
        operator.result = Flow(below.names, rows, order=("_place",), timed=below.timed, hidden=below.hidden)

    return network.give(network.operator(node, build, "OrderLimitDistinct"), node, need)


def content_in_order(node: query.OrderLimitDistinct, below: Flow) -> Flow:
    """The present content of a query: all its rows are ordered and limited, as the rows of one event are."""
    return Flow(below.names, _ordered(node, below, ()), order=("_place",), hidden=below.hidden)


def _ordered(node: query.OrderLimitDistinct, below: Flow, of: Sequence[str] = _EVENT) -> Selection:
    """The remaining results, each with its place among the results with equal columns `of`, by default of one event."""
    own = [*_EVENT, "_expires", *below.names]
    rows = below.arrivals.select(dict.fromkeys([*own, *below.order]))
    order = below.order or ("seq",)
    place = row_number(map(column, of), map(column, order if of else (*_EVENT, *order)))
    select = exp.select(*map(column, own), aliased(place, "_place")).from_(derived_table(rows, "a"))
    if node.distinct:
        compared = [name for name in below.names if name not in below.hidden]
        select = _first_of(select, own, map(column, (*of, *compared)), [column("_place")])
    if node.last_of is not None:
        select = _last_of(select, own, (*map(column, of), *node.last_of))
    terms = [_nulls_least(term) for term in node.order_by]
    ranked = exp.Window(
        this=exp.RowNumber(),
        partition_by=[column(name) for name in of],
        order=exp.Order(expressions=[*terms, exp.Ordered(this=column("_place"))]),
    )
    select = exp.select(*map(column, own), aliased(ranked, "_rank")).from_(derived_table(select, "r"))
    results = exp.select(*map(column, own), aliased(column("_rank"), "_place")).from_(derived_table(select, "t"))
    if node.offset:
        results = results.where(exp.GT(this=column("_rank"), expression=number(node.offset)))
    if node.limit is not None:
        results = results.where(exp.LTE(this=column("_rank"), expression=number(node.offset + node.limit)))
    return Selection.of(exp.Subquery(this=results), [*own, "_place"])


def _first_of(
    select: exp.Select, own: Sequence[str], keys: Iterable[exp.Expr], order: Sequence[exp.Expr]
) -> exp.Select:
    """The first of the results that have equal keys."""
    place = over(exp.RowNumber(), list(keys), order)
    numbered = exp.select(*map(column, (*own, "_place")), aliased(place, "_n")).from_(derived_table(select, "d"))
    first = exp.select(*map(column, (*own, "_place"))).from_(derived_table(numbered, "f"))
    return first.where(exp.EQ(this=column("_n"), expression=number(1)))


def _last_of(select: exp.Select, own: Sequence[str], keys: Sequence[exp.Expr]) -> exp.Select:
    """The last of the results that have equal keys, at the place of the first one."""
    groups = list(keys)
    begins = over(exp.Min(this=column("_place")), groups, [])
    ends = over(exp.Max(this=column("_place")), groups, [])
    names = map(column, (*own, "_place"))
    both = exp.select(*names, aliased(begins, "_first"), aliased(ends, "_last")).from_(derived_table(select, "g"))
    last = exp.select(*map(column, own), aliased(column("_first"), "_place")).from_(derived_table(both, "l"))
    return last.where(exp.EQ(this=column("_place"), expression=column("_last")))


def _nulls_least(term: exp.Ordered) -> exp.Ordered:
    descending = bool(term.args["desc"])
    return exp.Ordered(this=term.this.copy(), desc=descending, nulls_first=not descending)
