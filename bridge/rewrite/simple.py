"""Filter, map and union (O1): they keep no state, so they are written into the statements of whoever reads them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from bridge import query
from bridge.check import column
from bridge.flow import OUT, Flow, Need, Selection, named, number, numbered, zero
from bridge.rewrite.network import Network, rewrite
from windows.window import NEVER


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
    flows = [network.rewrite(below, max(need, Need.ARRIVALS)) for below in node.inputs]
    ranked = any(flow.order for flow in flows) or _share_events(node, network)
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


def _share_events(node: query.Union, network: Network) -> bool:
    """Whether one event may give rows in two of the inputs."""
    seen: set[str] = set()
    for below in node.inputs:
        streams = network.streams(below)
        if not seen.isdisjoint(streams):
            return True
        seen |= streams
    return False


def _merged(flows: Sequence[Flow], parts: Sequence[Selection], ranked: bool, counted: bool) -> Selection:
    """All parts' rows; where one event gives several, the left input's stand first."""
    selects = [
        _branch(place, flow, part, ranked, counted) for place, (flow, part) in enumerate(zip(flows, parts, strict=True))
    ]
    names = ["ts", "seq", "_expires", *flows[0].names]
    if counted:
        names += OUT
    merged = Selection.of(exp.Subquery(this=exp.union(*selects, distinct=False)), names)
    if not ranked:
        return merged
    rank = numbered(map(column, ("ts", "seq")), map(column, ("_branch", "_inner")))
    columns = [named(value.copy(), name) for name, value in merged.columns.items()]
    outer = exp.select(*columns, named(rank, "_place")).from_(exp.alias_(merged.source, "u", table=True, quoted=True))
    return Selection.of(exp.Subquery(this=outer), [*names, "_place"])


def _branch(place: int, flow: Flow, part: Selection, ranked: bool, counted: bool) -> exp.Select:
    select = part.select(["ts", "seq", "_expires", *flow.names])
    if counted:
        for name in OUT:
            known = part.columns.get(name, number(NEVER)).copy()
            select = select.select(named(known, name))
    if ranked:
        inner = part.columns[flow.order[0]].copy() if flow.order else zero()
        select = select.select(named(number(place), "_branch"), named(inner, "_inner"))
    return select
