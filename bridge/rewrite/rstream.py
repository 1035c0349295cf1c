"""What leaves a window, as it leaves it (EPL's rstream): pushed out by an event, or as time passes."""

from __future__ import annotations

from sqlglot import exp

from bridge import query
from bridge.changes import Leaving
from bridge.flow import OUT, Flow, Need, Selection, named, number, numbered, of, qualified, zero
from bridge.plan import Operator
from bridge.rewrite.network import Network, clock, rewrite
from bridge.scope import column
from windows.window import NEVER

_ORDER = ("_in_ts", "_in_seq", "_in_place")


@rewrite.register
def _(node: Leaving, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        operator.result = _left(node, network)

    return network.give(network.operator(node, build, "Leaving"), node, need)


def _left(node: Leaving, network: Network) -> Flow:
    """The rows that have left since the push before, in the order in which they came."""
    below = network.rewrite(node.input, Need.CONTENT)
    assert below.content is not None
    over = below.content.columns["_expires"]
    passed = [exp.GT(this=over.copy(), expression=clock("before")), exp.LTE(this=over.copy(), expression=clock("now"))]
    left: exp.Query = _told(below, {"ts": column("_expires"), "seq": zero()}).where(*passed)
    if below.counted:
        left = exp.union(left, _pushed_out(node, below, network), distinct=False)
    place = numbered(map(column, ("ts", "seq")), map(column, _ORDER))
    names = ("ts", "seq", *below.names)
    rows = exp.select(*map(column, names), named(number(NEVER), "_expires"), named(place, "_place"))
    rows = rows.from_(exp.Subquery(this=left).as_("l", quoted=True))
    found = Selection.of(exp.Subquery(this=rows), ("ts", "seq", "_expires", "_place", *below.names))
    return Flow(below.names, found, order=("_place",), timed=True)


def _told(below: Flow, moment: dict[str, exp.Expr]) -> exp.Select:
    assert below.content is not None
    came = dict(zip(_ORDER, (column("ts"), column("seq"), column("_place") if below.order else zero()), strict=True))
    return below.content.project({**moment, **came, **{name: column(name) for name in below.names}}).select()


def _pushed_out(node: Leaving, below: Flow, network: Network) -> exp.Select:
    """What the rows of this push have put out."""
    assert below.content is not None and isinstance(node.input, query.Window)
    pushers = network.rewrite(node.input.input, Need.ARRIVALS).arrivals.select(["ts", "seq"])
    outs = [qualified(below.content.columns[name].copy(), "q") for name in OUT[:2]]
    pairs = [exp.EQ(this=of("p", name), expression=out) for name, out in zip(("ts", "seq"), outs, strict=True)]
    source = exp.Subquery(this=pushers).as_("p", quoted=True)
    arrived = exp.select(number(1)).from_(source).where(*pairs)
    return _told(below, {"ts": column("_out_ts"), "seq": column("_out")}).where(exp.Exists(this=arrived))
