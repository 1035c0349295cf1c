"""What leaves a window, as it leaves it (EPL's rstream): pushed out by an event, or as time passes."""

from __future__ import annotations

from sqlglot import exp

from bridge.query.epl_output import RStream
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Operator
from bridge.rewrite.windows.expiry import expired_now, is_put_out_first, pushers, put_out_by
from windows.sql import aliased, bigint_zero, column, derived_table, number, row_number
from windows.times import NEVER

_ORDER = ("_in_ts", "_in_seq", "_in_place")


@rewrite.register
def _(node: RStream, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        operator.result = _left(node, network)

    return network.give(network.operator(node, build, "RStream"), node, need)


def _left(node: RStream, network: Network) -> Flow:
    """The rows that have left since the push before, in the order in which they came."""
    below = network.rewrite(node.input, Need.CONTENT)
    assert below.content is not None
    expired = _told(below, {"ts": column("_expires"), "seq": bigint_zero()}).where(*expired_now(below))
    left: exp.Query = expired
    if below.counted:
        first = is_put_out_first(below.content)
        gone = put_out_by(below.content, pushers(node), network)
        pushed_out = _told(below, {"ts": column("_out_ts"), "seq": column("_out")}).where(gone, first)
        left = exp.union(expired.where(exp.Not(this=exp.paren(first.copy()))), pushed_out, distinct=False)
    place = row_number(map(column, ("ts", "seq")), map(column, _ORDER))
    names = ("ts", "seq", *below.names)
    rows = exp.select(*map(column, names), aliased(number(NEVER), "_expires"), aliased(place, "_place"))
    rows = rows.from_(derived_table(left, "l"))
    found = Selection.of(exp.Subquery(this=rows), ("ts", "seq", "_expires", "_place", *below.names))
    return Flow(below.names, found, order=("_place",), timed=True)


def _told(below: Flow, moment: dict[str, exp.Expr]) -> exp.Select:
    assert below.content is not None
    came = dict(
        zip(_ORDER, (column("ts"), column("seq"), column("_place") if below.order else bigint_zero()), strict=True)
    )
    return below.content.project({**moment, **came, **{name: column(name) for name in below.names}}).select()
