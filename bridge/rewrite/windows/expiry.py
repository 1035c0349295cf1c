"""The rows that leave a window in this push: conditions for expiry by time, and for eviction by other rows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from bridge import query
from bridge.query.epl_state import ChangedWindow
from bridge.query.nodes import Node
from bridge.rewrite.flow import OUT, Flow, Need, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.state_tables import clock
from windows.sql import aliased, column, column_of, derived_table, number, qualify_columns
from windows.times import NEVER


def expires_in_push(below: Flow) -> list[exp.Expr]:
    """The conditions under which a row expires after the previous push's time, and not after now.

    If every row is valid for the same time, they are conditions on `ts`, which has an index.
    """
    assert below.content is not None
    expiry, ends = below.content.columns["_expires"], [clock("before"), clock("now")]
    if below.size not in (None, NEVER):
        expiry = below.content.columns["ts"]
        ends = [exp.Sub(this=end, expression=number(below.size or 0)) for end in ends]
    return [exp.GT(this=expiry.copy(), expression=ends[0]), exp.LTE(this=expiry.copy(), expression=ends[1])]


def next_expiry(below: Flow) -> exp.Query:
    """A statement of the next time at which a row expires, as `due`."""
    assert below.content is not None
    size = below.size if below.size not in (None, NEVER) else None
    name = "_expires" if size is None else "ts"
    now = clock("now") if size is None else exp.Sub(this=clock("now"), expression=number(size))
    later = below.content.select([name]).where(exp.GT(this=below.content.columns[name].copy(), expression=now))
    due: exp.Expr = exp.Min(this=column(name))
    due = due if size is None else exp.Add(this=due, expression=number(size))
    found = exp.select(aliased(due, "due")).from_(derived_table(later, "e"))
    expires = exp.LT(this=column("due"), expression=number(NEVER))
    return exp.select(column("due")).from_(derived_table(found, "d")).where(expires)


def is_evicted_before_expiry(content: Selection) -> exp.Expr:
    """Whether other rows evict a row before it expires."""
    return exp.LT(this=content.columns["_out_ts"].copy(), expression=content.columns["_expires"].copy())


def is_evicted_by(content: Selection, nodes: Sequence[Node], network: Network) -> exp.Expr:
    """Whether a row is evicted by a row that one of the nodes gave in this push."""
    selects = [network.rewrite(node, Need.ARRIVALS).arrivals.select(["ts", "seq"]) for node in nodes]
    arrivals = exp.Subquery(this=selects[0] if len(selects) == 1 else exp.union(*selects, distinct=False))
    outs = [qualify_columns(content.columns[name].copy(), "q") for name in OUT[:2]]
    pairs = [exp.EQ(this=column_of("p", name), expression=out) for name, out in zip(("ts", "seq"), outs, strict=True)]
    return exp.Exists(this=exp.select(number(1)).from_(arrivals.as_("p", quoted=True)).where(*pairs))


def evicting_inputs(node: Node) -> list[Node]:
    """The nodes whose rows evict others from the windows that a node reads, possibly through filters or joins."""
    inputs: list[Node] = []
    for below in node.inputs_of:
        if isinstance(below, query.Window):
            inputs.append(below.input)
        elif isinstance(below, ChangedWindow):
            inputs += [trigger for trigger, _ in below.changes]
        else:
            inputs += evicting_inputs(below)
    return inputs
