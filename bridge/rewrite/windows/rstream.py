"""The rows that leave a window, reported when they leave (EPL's rstream): as time passes, or evicted by an event."""

from __future__ import annotations

from sqlglot import exp

from bridge.query.epl_output import RStream
from bridge.rewrite.computable import COMPUTABLE, EvictedRows, LeftRows, OpenSessions, column_names
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Operator
from bridge.rewrite.windows.expiry import (
    evicting_inputs,
    expires_in_push,
    is_evicted_before_expiry,
    is_evicted_by,
    next_expiry,
)
from windows.sql import aliased, bigint_zero, column, derived_table, number, row_number
from windows.times import NEVER

_ARRIVAL_ORDER = ("_in_ts", "_in_seq", "_in_place")


@rewrite.register
def _(node: RStream, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        operator.result = _left_in_push(operator, node, network)

    return network.give(network.operator(node, build, "RStream"), node, need)


def _left_in_push(operator: Operator, node: RStream, network: Network) -> Flow:
    """The rows that left since the previous push, in the order of their arrival."""
    below = network.rewrite(node.input, Need.CONTENT)
    assert below.content is not None
    operator.deadlines.append(next_expiry(below))
    expired = _with_arrival(below, {"ts": column("_expires"), "seq": bigint_zero()}).where(*expires_in_push(below))
    left: exp.Query = expired
    if below.counted:
        evicted_first = is_evicted_before_expiry(below.content)
        by_these = is_evicted_by(below.content, evicting_inputs(node), network)
        evicted = _with_arrival(below, {"ts": column("_out_ts"), "seq": column("_out")}).where(by_these, evicted_first)
        left = exp.union(expired.where(exp.Not(this=exp.paren(evicted_first.copy()))), evicted, distinct=False)
    place = row_number(map(column, ("ts", "seq")), map(column, _ARRIVAL_ORDER))
    names = ("ts", "seq", *below.names)
    rows = exp.select(*map(column, names), aliased(number(NEVER), "_expires"), aliased(place, "_place"))
    rows = rows.from_(derived_table(left, "l"))
    if (mark := _mark(below)) is not None:
        rows = mark.of(rows)
    result = Selection.of(exp.Subquery(this=rows), ("ts", "seq", "_expires", "_place", *below.names))
    return Flow(below.names, result, order=("_place",), timed=True)


def _mark(below: Flow) -> LeftRows | None:
    """The mark of a window over rows of one stream, which this process computes for single events."""
    content = below.content
    assert content is not None
    if below.order or below.timed or below.jumping or below.late:
        return None
    values = {name: content.columns[name] for name in below.names}
    source = content.source
    match source.this.meta_get(COMPUTABLE) if isinstance(source, exp.Subquery) else None:
        case OpenSessions() as sessions:
            return LeftRows(sessions.table, values, content.conditions, sessions.keys, gap=sessions.gap)
        case EvictedRows() as evictions if below.size in (None, NEVER):
            rows = source.this.args["from_"].this
            return LeftRows(rows.name, values, content.conditions, evictions=evictions)
    if below.sessions_of is not None:
        return None
    if not below.counted and below.size not in (None, NEVER) and isinstance(source, exp.Table):
        return LeftRows(source.name, values, content.conditions, span=below.size)
    if below.last is None or not isinstance(below.last.rows.source, exp.Table):
        return None
    keys = column_names(below.last.keys)
    if keys is None:
        return None
    return LeftRows(below.last.rows.source.name, values, content.conditions, keys, count=below.last.size)


def _with_arrival(below: Flow, leaving: dict[str, exp.Expr]) -> exp.Select:
    """The content, each row with the ts and seq at which it leaves, and the ts and seq of its arrival."""
    assert below.content is not None
    place = column("_place") if below.order else bigint_zero()
    arrival = dict(zip(_ARRIVAL_ORDER, (column("ts"), column("seq"), place), strict=True))
    return below.content.project({**leaving, **arrival, **{name: column(name) for name in below.names}}).select()
