"""Which rows a push has put out of a window: those that time ends, and those that other rows push out."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from bridge import query
from bridge.query.epl_state import ChangedWindow
from bridge.query.nodes import Node
from bridge.rewrite.flow import OUT, Flow, Need, Selection
from bridge.rewrite.network import Network, clock
from windows.sql import column_of, number, qualify_columns
from windows.times import NEVER


def expired_now(below: Flow) -> list[exp.Expr]:
    """Whether time has put a row out of the window since the push before: by its own time where it can, which has an index."""
    assert below.content is not None
    over, ends = below.content.columns["_expires"], [clock("before"), clock("now")]
    if below.size not in (None, NEVER):
        over, ends = (
            below.content.columns["ts"],
            [exp.Sub(this=end, expression=number(below.size or 0)) for end in ends],
        )
    return [exp.GT(this=over.copy(), expression=ends[0]), exp.LTE(this=over.copy(), expression=ends[1])]


def is_put_out_first(content: Selection) -> exp.Expr:
    """Whether a row is put out by others before time does it."""
    return exp.LT(this=content.columns["_out_ts"].copy(), expression=content.columns["_expires"].copy())


def put_out_by(content: Selection, pushers: Sequence[Node], network: Network) -> exp.Expr:
    """Whether rows of this push, of these nodes, have put a row out."""
    selects = [network.rewrite(one, Need.ARRIVALS).arrivals.select(["ts", "seq"]) for one in pushers]
    arrived = exp.Subquery(this=selects[0] if len(selects) == 1 else exp.union(*selects, distinct=False))
    outs = [qualify_columns(content.columns[name].copy(), "q") for name in OUT[:2]]
    pairs = [exp.EQ(this=column_of("p", name), expression=out) for name, out in zip(("ts", "seq"), outs, strict=True)]
    return exp.Exists(this=exp.select(number(1)).from_(arrived.as_("p", quoted=True)).where(*pairs))


def pushers(node: Node) -> list[Node]:
    """Whose rows put others out of the windows that are read, perhaps filtered or joined."""
    found: list[Node] = []
    for below in node.inputs_of:
        if isinstance(below, query.Window):
            found.append(below.input)
        elif isinstance(below, ChangedWindow):
            found += [trigger for trigger, _ in below.changes]
        else:
            found += pushers(below)
    return found
