"""Sub-queries of EPL: what another window holds as a row arrives, as one column more."""

from __future__ import annotations

from sqlglot import exp

from bridge import query
from bridge.flow import Flow, Need, Selection, named, not_later, number, of, qualified, valid, whole
from bridge.plan import Operator
from bridge.rewrite.network import Network, rewrite


@rewrite.register
def _(node: query.Lookup, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        inner = network.rewrite(node.source, Need.CONTENT)
        operator.result = _looked_up(node, below, inner)

    return network.give(network.operator(node, build, f"Lookup {node.name}"), node, need)


def _looked_up(node: query.Lookup, below: Flow, inner: Flow) -> Flow:
    own = list(below.arrivals.columns)
    found = _found(node, below, inner)
    rows = exp.Subquery(this=below.arrivals.select()).as_("t", quoted=True)
    select = exp.select(*(of("t", name) for name in own), named(found, node.name)).from_(rows)
    return Flow(
        (*below.names, node.name),
        Selection.of(exp.Subquery(this=select), [*own, node.name]),
        order=below.order,
        timed=below.timed,
        hidden=(*below.hidden, node.name),
    )


def _found(node: query.Lookup, below: Flow, inner: Flow) -> exp.Expr:
    """The sub-query, over the rows `w` that are in the window as the row `t` arrives, its own event's among them."""
    assert inner.content is not None
    content, prefix = inner.content, f"{node.name}."
    timed = below.timed or inner.timed

    def meant(expression: exp.Expr) -> exp.Expr:
        def own(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column):
                return part
            if not part.name.startswith(prefix):
                return of("t", part.name)
            return whole(_computed(part.name.removeprefix(prefix), content))

        return expression.transform(own)

    inside = [not_later("w", "t", (), timed), *valid("w", "t", inner, timed=timed)]
    conditions = [*(_of_content(condition, content) for condition in inside), *content.conditions_of("w")]
    if node.condition is not None:
        conditions.append(whole(meant(node.condition)))
    rows = exp.select().from_(content.item("w")).where(*conditions)
    if node.value is None:
        return exp.Exists(this=rows.select(number(1)))
    value = meant(node.value)
    if node.operand is not None:
        return exp.In(this=whole(meant(node.operand)), query=exp.Subquery(this=rows.select(value)))
    if not value.find(exp.AggFunc):
        alone = exp.EQ(this=exp.Count(this=exp.Star()), expression=number(1))
        value = exp.Case().when(alone, exp.Min(this=value))
    return exp.Subquery(this=rows.select(value))


def _of_content(condition: exp.Expr, content: Selection) -> exp.Expr:
    """A condition on `w` with its columns as the content computes them."""

    def own(part: exp.Expr) -> exp.Expr:
        return _computed(part.name, content) if isinstance(part, exp.Column) and part.table == "w" else part

    return condition.transform(own)


def _computed(name: str, content: Selection) -> exp.Expr:
    return qualified(content.columns[name].copy(), "w")
