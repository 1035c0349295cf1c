"""EPL's prev and prior: a value of the row so many before, which a table of the newest rows keeps."""

from __future__ import annotations

from sqlglot import exp

from bridge import query
from bridge.flow import Flow, Need, Selection, derived, named, number, over, table
from bridge.plan import Insert, Operator, Purge
from bridge.rewrite.network import Network, add_table, arrived, rewrite, row_columns
from bridge.scope import column


@rewrite.register
def _(node: query.Prior, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        operator.result = _with_prior(operator, node, network, below)

    return network.give(network.operator(node, build, f"Prior {node.name}"), node, need)


def _with_prior(operator: Operator, node: query.Prior, network: Network, below: Flow) -> Flow:
    raw = network.name("raw", node)
    keys = {f"_part{place}": key for place, key in enumerate(node.partition_by)}
    own = list(row_columns(below, column("_expires")))
    rows = below.arrivals.project({**{name: column(name) for name in own}, **keys, "_e0": node.value}).select()
    add_table(operator, raw, rows)
    operator.steps.append(Insert(raw, rows))
    apart, order = [column(key) for key in keys], [column(key) for key in below.key]

    def before(name: str) -> exp.Expr:
        return over(exp.Lag(this=column(name), offset=number(node.count)), apart, order)

    value = before("_e0")
    if node.within is not None:
        since = exp.Sub(this=column("ts"), expression=number(node.within))
        value = exp.Case().when(exp.GT(this=before("ts"), expression=since), value)
    known = exp.select(*map(column, own), named(value, node.name)).from_(table(raw))
    found = exp.select(*map(column, (*own, node.name))).from_(derived(known, "k"))
    operator.purges.append(_purge(raw, list(keys), node.count, below))
    return Flow(
        (*below.names, node.name),
        Selection.of(exp.Subquery(this=found.where(arrived("k", below))), [*own, node.name]),
        order=below.order,
        timed=below.timed,
        hidden=(*below.hidden, node.name),
    )


def _purge(raw: str, keys: list[str], count: int, below: Flow) -> Purge:
    """Rows that more than so many have come after, of their key."""
    newest = [exp.Ordered(this=column(name), desc=True) for name in below.key]
    place = over(exp.RowNumber(), map(column, keys), [])
    place.set("order", exp.Order(expressions=newest))
    return Purge.beyond(raw, below.key, place, count)
