"""Sessions (W8): rows without a pause between them, which all expire together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.computable import OpenSessions, column_names
from bridge.rewrite.flow import SESSION, Flow, Need, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.plan import Operator
from bridge.rewrite.state_tables import clock, indexed_by
from bridge.rewrite.windows.window import on_arrival, purge_of, rewrite_window, window_table
from windows.extents import Session
from windows.sql import aliased, column, derived_table, number, over


@rewrite_window.register
def _(extent: Session, node: query.Window, network: Network, need: Need) -> Flow:
    def content(operator: Operator, arrivals: Flow) -> Flow:
        name, rows = window_table(
            operator, node, network, arrivals, lambda rows: indexed_by("_expires", rows, network.database)
        )
        sessions = _with_ends(rows, arrivals, extent.gap, node.partition_by)
        ended = exp.LTE(this=column("_expires"), expression=clock("now"))
        finished = dataclasses.replace(sessions, conditions=(*sessions.conditions, ended))
        operator.purges.append(purge_of(name, finished, arrivals.key))
        return dataclasses.replace(arrivals, content=sessions, sessions_of=node.partition_by)

    return on_arrival(node, network, need, content)


def _with_ends(content: Selection, flow: Flow, gap: int, keys: Sequence[exp.Expr]) -> Selection:
    """The rows, each with its session and the session's expiry: the ts of its newest row so far, plus the gap.

    A later row prolongs a session only before it ends, so results that were read before remain right.
    """
    order = [column(name) for name in flow.key]
    before = over(exp.Lag(this=column("ts"), offset=number(1)), keys, order)
    paused = exp.GTE(this=exp.Sub(this=column("ts"), expression=before), expression=number(gap))
    begins = exp.Case().when(paused, number(1)).else_(number(0))
    inner = content.select().select(aliased(begins, "_starts"))
    session = over(exp.Sum(this=column("_starts")), keys, order)
    middle = exp.select("*", aliased(session, SESSION)).from_(derived_table(inner, "i"))
    newest = over(exp.Max(this=column("ts")), [*keys, column(SESSION)], [])
    names = [name for name in content.columns if name != "_expires"]
    ends = aliased(exp.Add(this=newest, expression=number(gap)), "_expires")
    outer = exp.select(*map(column, names), ends, column(SESSION)).from_(derived_table(middle, "m"))
    columns = column_names(keys)
    if columns is not None and not flow.order and isinstance(content.source, exp.Table):
        outer = OpenSessions(content.source.name, columns, gap).of(outer)
    return Selection.of(exp.Subquery(this=outer), [*content.columns, SESSION])
