"""Streams, filters, maps and unions (O1): they have no state, so they are parts of the statements that read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import OUT, Flow, Need, Selection
from bridge.rewrite.network import Network, rewrite
from windows.sql import aliased, column, column_of, derived_table, lexicographically_before, number, row_number, table
from windows.times import NEVER


@rewrite.register
def _(node: query.Stream, network: Network, need: Need) -> Flow:
    source = network.source(node.name)
    if source.node is not None:
        return network.under(source.epoch, source.inherits)(source.node, need)
    columns = {
        "ts": column("ts"),
        "seq": column("seq"),
        "_expires": number(NEVER),
        **{name: column(name) for name in source.names},
    }
    return Flow(source.names, Selection(table(source.inbox or ""), columns))


@rewrite.register
def _(node: query.Filter, network: Network, need: Need) -> Flow:
    return network.rewrite(node.input, need).where(node.condition)


@rewrite.register
def _(node: query.Map, network: Network, need: Need) -> Flow:
    below = network.rewrite(node.input, need)
    columns = {item.alias: item.this for item in node.columns}
    return below.change(tuple(columns), columns)


@rewrite.register
def _(node: query.Union, network: Network, need: Need) -> Flow:
    inputs = list(_inputs(node))
    flows = [network.rewrite(below, max(need, Need.ARRIVALS)) for below in inputs]
    ranked = any(flow.order for flow in flows) or _share_events(inputs, network)
    counted = any(flow.counted for flow in flows) and need is Need.CONTENT
    content = None
    if need is Need.CONTENT:
        content = _merged(flows, [flow.content for flow in flows if flow.content], ranked, counted)
    sizes = {flow.size for flow in flows}
    return Flow(
        flows[0].names,
        _merged(flows, [flow.arrivals for flow in flows], ranked, counted=False),
        content,
        order=("_place",) if ranked else (),
        counted=counted,
        timed=any(flow.timed for flow in flows),
        size=sizes.pop() if len(sizes) == 1 else None,
    )


def _inputs(node: query.Union) -> Iterator[query.Node]:
    """The inputs in order; a union within a union is replaced by its inputs."""
    for below in node.inputs:
        yield from _inputs(below) if isinstance(below, query.Union) else [below]


def _share_events(inputs: Sequence[query.Node], network: Network) -> bool:
    """Whether one event may give rows in two of the inputs."""
    seen: set[str] = set()
    for below in inputs:
        streams = network.streams(below)
        if not seen.isdisjoint(streams):
            return True
        seen |= streams
    return False


def _merged(flows: Sequence[Flow], parts: Sequence[Selection], ranked: bool, counted: bool) -> Selection:
    """The rows of all parts. If one event gives several rows, those of the left input come first."""
    selects = [
        _branch(place, flow, part, ranked, counted) for place, (flow, part) in enumerate(zip(flows, parts, strict=True))
    ]
    names = ["ts", "seq", "_expires", *flows[0].names]
    if counted:
        names += OUT
    rows = exp.union(*selects, distinct=False)
    merged = Selection.of(exp.Subquery(this=rows), names)
    if not ranked:
        return merged
    columns = {**merged.columns, "_place": row_number(map(column, ("ts", "seq")), map(column, ("_branch", "_inner")))}
    if counted:
        columns["_out_place"] = _out_place(rows)
    outer = exp.select(*(aliased(value.copy(), name) for name, value in columns.items()))
    source = exp.alias_(merged.source, "u", table=True, quoted=True)
    return Selection.of(exp.Subquery(this=outer.from_(source)), columns)


def _out_place(rows: exp.Query) -> exp.Expr:
    """The place from which a row is out, counted among all parts' rows of the event that evicts it.

    0 stays 0: the row is out when that event begins.
    """
    earlier = lexicographically_before(
        [
            (column_of("v", "_branch"), column_of("u", "_branch")),
            (column_of("v", "_inner"), column_of("u", "_out_place")),
        ]
    )
    count = exp.select(exp.Add(this=exp.Count(this=exp.Star()), expression=number(1)))
    count = count.from_(derived_table(rows.copy(), "v"))
    count = count.where(
        column_of("v", "ts").eq(column_of("u", "_out_ts")), column_of("v", "seq").eq(column_of("u", "_out")), earlier
    )
    within = exp.and_(column_of("u", "_out").neq(number(NEVER)), column_of("u", "_out_place").neq(number(0)))
    return exp.Case().when(within, exp.Subquery(this=count)).else_(column_of("u", "_out_place"))


def _branch(place: int, flow: Flow, part: Selection, ranked: bool, counted: bool) -> exp.Select:
    """The rows of one part. If it has at most one row per event, that row's place is 1."""
    one = exp.cast(number(1), "BIGINT")
    select = part.select(["ts", "seq", "_expires", *flow.names])
    if counted:
        known = {name: part.columns[name] if flow.counted else number(NEVER) for name in OUT}
        if flow.counted and not flow.order:
            known[OUT[2]] = one
        select = select.select(*(aliased(value.copy(), name) for name, value in known.items()))
    if ranked:
        inner = part.columns[flow.order[0]].copy() if flow.order else one.copy()
        select = select.select(aliased(number(place), "_branch"), aliased(inner, "_inner"))
    return select


def as_inserted(node: query.Node, network: Network) -> bool:
    """Whether the rows of a tree belong to one stream, are stored in order, and are read in this order.

    A window that jumps stores the rows of each content in any order.
    """
    while isinstance(node, (query.Filter, query.Map, query.Window)):
        if isinstance(node, query.Window) and node.extent.jumps:
            return False
        node = node.input
    return (
        network.database.insertion_ordered and isinstance(node, query.Stream) and network.source(node.name).node is None
    )
