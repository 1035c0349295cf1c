"""The present content of a continuous query, as a SELECT over the tables that operators keep."""

from __future__ import annotations

import dataclasses
from functools import singledispatch

from sqlglot import exp

from bridge import query
from bridge.engine.catalogue import Catalogue, QueryEntry
from bridge.errors import QueryError
from bridge.query.epl_output import OrderLimitDistinct
from bridge.query.epl_state import ChangedWindow
from bridge.query.nodes import Node
from bridge.rewrite.aggregates.aggregate import having_of
from bridge.rewrite.aggregates.join import per_jump
from bridge.rewrite.aggregates.snapshot import is_per_event, with_totals
from bridge.rewrite.aggregates.totals import Totals
from bridge.rewrite.flow import OUT, Flow, Need, Selection
from bridge.rewrite.joins.correlate import of_contents
from bridge.rewrite.network import Network, only_views
from bridge.rewrite.patterns import eager_match as eager
from bridge.rewrite.rows.order_limit import content_in_order
from windows.sql import bigint_zero, number
from windows.times import NEVER


@dataclasses.dataclass(frozen=True)
class PresentState:
    """The queries and operators of a bridge at the time `now`."""

    catalogue: Catalogue
    network: Network
    now: int

    def now_valid(self, flow: Flow) -> Flow:
        """The rows that are in a window now, treated as arrivals."""
        assert flow.content is not None
        content = flow.content
        conditions: list[exp.Expr] = [exp.GT(this=content.columns["_expires"].copy(), expression=number(self.now))]
        if flow.counted:
            conditions.append(exp.EQ(this=content.columns[OUT[1]].copy(), expression=number(NEVER)))
        rows = dataclasses.replace(content, conditions=(*content.conditions, *conditions))
        return dataclasses.replace(flow, arrivals=rows, content=None)


@singledispatch
def present_content(node: Node, state: PresentState, entry: QueryEntry) -> Flow:
    """The present content of a node in the tree of a continuous query."""
    raise QueryError(
        f"the results of {entry.name!r} are not kept: create a query over it that has a window, "
        f"such as SELECT * FROM {entry.name} WINDOW(RANGE 1 H), and ask that"
    )


@present_content.register
def _(node: query.Stream, state: PresentState, entry: QueryEntry) -> Flow:
    if found := state.catalogue.queries.get(node.name.lower()):
        return present_content(found.resolved.node, state, found)
    return state.network.rewrite(node, Need.RESULT)


@present_content.register
def _(node: query.Window, state: PresentState, entry: QueryEntry) -> Flow:
    return state.now_valid(state.network.content_of(node, entry.epoch, entry.inherits))


@present_content.register
def _(node: ChangedWindow, state: PresentState, entry: QueryEntry) -> Flow:
    return dataclasses.replace(
        state.now_valid(state.network.content_of(node, entry.epoch, entry.inherits)), counted=False
    )


@present_content.register
def _(node: query.Filter, state: PresentState, entry: QueryEntry) -> Flow:
    return present_content(node.input, state, entry).where(node.condition)


@present_content.register
def _(node: query.Map, state: PresentState, entry: QueryEntry) -> Flow:
    columns = {item.alias: item.this for item in node.columns}
    return present_content(node.input, state, entry).change(tuple(columns), columns)


@present_content.register
def _(node: query.IntoTable, state: PresentState, entry: QueryEntry) -> Flow:
    if only_views(node.input):
        return present_content.dispatch(object)(node, state, entry)  # its rows are in the table of results only
    return present_content(node.input, state, entry)


@present_content.register
def _(node: query.Union, state: PresentState, entry: QueryEntry) -> Flow:
    flows = [present_content(below, state, entry) for below in node.inputs]
    selects = [flow.arrivals.select(["ts", "seq", "_expires", *flow.names]) for flow in flows]
    merged = exp.Subquery(this=exp.union(*selects, distinct=False))
    return Flow(flows[0].names, Selection.of(merged, ["ts", "seq", "_expires", *flows[0].names]))


@present_content.register
def _(node: query.Aggregate, state: PresentState, entry: QueryEntry) -> Flow:
    if node.having is not None:
        return having_of(node, lambda whole: present_content(whole, state, entry))
    totals = Totals.stored(node, state.network, entry.epoch, entry.inherits)
    if totals is not None:
        return _present_totals(node, totals, state.now)
    below = present_content(node.input, state, entry)
    if is_per_event(node):
        return with_totals(node, below, lambda totals: present_content(totals, state, entry))
    order = {f"_o_{name}": column for name, column in below.arrivals.columns.items() if name in below.key}
    moment = {"ts": number(state.now), "seq": bigint_zero(), "_expires": number(NEVER)}
    columns = {**below.arrivals.columns, **order, **moment}
    rows = dataclasses.replace(below.arrivals, columns=columns)
    at_once = dataclasses.replace(below, arrivals=rows, order=tuple(order), jumping=True, counted=False)
    select = exp.Subquery(this=per_jump(node, at_once, state.network.database))
    names = tuple(item.alias for item in node.columns)
    keys = [f"_key{place}" for place in range(len(node.group_by))]
    return Flow(names, Selection.of(select, ["ts", "seq", "_expires", "_place", *keys, *names]), order=("_place",))


def _present_totals(node: query.Aggregate, totals: Totals, now: int) -> Flow:
    """The results of the existing groups, as of now."""
    rows = totals.present()
    moment = {"ts": number(now), "seq": bigint_zero(), "_expires": number(NEVER), "_place": rows.columns["seq"]}
    names = tuple(item.alias for item in node.columns)
    return Flow(names, dataclasses.replace(rows, columns={**rows.columns, **moment}), order=("_place",))


@present_content.register
def _(node: OrderLimitDistinct, state: PresentState, entry: QueryEntry) -> Flow:
    below = node.input
    while isinstance(below, (query.Filter, query.Map)):
        below = below.input
    if not isinstance(below, (query.Aggregate, query.EagerMatch)):
        return present_content.dispatch(object)(node, state, entry)  # only arriving rows are ordered
    return content_in_order(node, present_content(node.input, state, entry))


@present_content.register
def _(node: query.EagerMatch, state: PresentState, entry: QueryEntry) -> Flow:
    return eager.present(node, entry, state.network, state.now)


@present_content.register
def _(node: query.Correlate, state: PresentState, entry: QueryEntry) -> Flow:
    def part(below: Node) -> Flow | None:
        return None if isinstance(below, query.Relation) else present_content(below, state, entry)

    return of_contents(node, [part(below) for _, below in node.inputs], state.network)
