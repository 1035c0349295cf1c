"""Methods of lists with conditions (EPL): a sub-query over the elements of each row's list."""

from __future__ import annotations

from sqlglot import exp

from bridge.check.epl import CONDITIONAL, method_type
from bridge.check.types import type_of
from bridge.query.epl_columns import Enumeration
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.joins.subquery_column import with_column
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Operator
from windows.aggregates import aggregate_named
from windows.sql import column_of, number
from windows.types import List, shape


@rewrite.register
def _(node: Enumeration, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        operator.result = with_column(node.name, below, _of_list(node, network))

    return network.give(network.operator(node, build, f"Enumeration {node.name}"), node, need)


def _of_list(node: Enumeration, network: Network) -> exp.Expr:
    """The method's value, as a sub-query over the elements `w` of the list of a row `t`."""
    types = network.types(node.input)
    kind = shape(type_of(node.values, lambda column: types[column.name]))
    assert isinstance(kind, List) and node.body is not None
    types[node.element] = kind.element
    values = _over(node.values, {})
    item, element, place = network.database.elements(values, kind.element, "w")
    body = _over(node.body, {node.element: element})
    rows = exp.select().from_(item).where(_is_there(element))
    if node.method not in CONDITIONAL:
        if node.method == "AVG":
            body = exp.cast(body, "DOUBLE")
        aggregate = aggregate_named(node.method)
        assert aggregate is not None
        value = aggregate.call(body)
        return exp.cast(exp.Subquery(this=rows.select(value)), method_type(node.method, _type(node.body, types)))
    holds = exp.Case().when(body, number(1)).else_(number(0))
    rows = rows.where(exp.EQ(this=holds, expression=number(0 if node.method == "ALL" else 1)))
    if node.method in ("FIRST", "LAST"):
        order = exp.Ordered(this=place, desc=node.method == "LAST", nulls_first=node.method == "FIRST")
        return exp.Subquery(this=rows.select(element).order_by(order).limit(1))
    result: exp.Expr = exp.Subquery(this=rows.select(exp.Count(this=exp.Star())))
    if node.method != "COUNT":
        result = exp.Exists(this=rows.select(number(1)))
    if node.method == "ALL":
        result = exp.Not(this=result)
    return exp.Case().when(_is_there(values.copy()), result)


def _type(body: exp.Expr, types: dict[str, str]) -> str:
    return type_of(body, lambda column: types[column.name])


def _is_there(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))


def _over(expression: exp.Expr, known: dict[str, exp.Expr]) -> exp.Expr:
    """An expression over the row `t` and the `known` values of other names."""

    def own(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        return known[node.name].copy() if node.name in known else column_of("t", node.name)

    return expression.transform(own)
