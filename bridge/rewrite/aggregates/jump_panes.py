"""Aggregates of jumping windows of time, combined from panes: the rows of a group between two boundaries.

The state has one row per pane instead of the window's rows. So a push merges only its own events, and a jump only the
panes of its window ("No Pane, No Gain": Li, Maier, Tufte, Papadimos and Tucker 2005).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import group_columns
from bridge.rewrite.aggregates.partials import Partials, steady_window
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.plan import Operator
from bridge.rewrite.windows.time_range import at_boundaries, last_boundary
from windows.extents import Range
from windows.sql import aliased, column, derived_table, number
from windows.times import NEVER


def over_panes(node: query.Aggregate, network: Network) -> tuple[query.Aggregate, Flow] | None:
    """An aggregate of panes that has the same results, and the flow of the panes in a window as it jumps.

    None where the rows of the window are needed, by the aggregate or by on-demand queries.
    """
    window, parts = steady_window(node), Partials.of(node)
    if not network.settings.is_replay or window is None or parts is None or not _consists_of_panes(window):
        return None
    if node.on_change or node.every_change or parts.own or not all(map(parts.is_exact, parts.calls)):
        return None
    if any(_reads_time(value) for value in (*parts.calls.values(), *node.group_by, *_above_window(node.input))):
        return None  # above the window `ts` is the time of the jump, which a pane does not know
    below = network.rewrite(query.without_window(node.input), Need.ARRIVALS)
    if below.timed or below.order:
        return None

    def build(operator: Operator) -> None:
        operator.result = at_boundaries(operator, window, network, _panes(node, window, below, parts))

    key = ("Panes of jumps", node.input, node.group_by, tuple(parts.calls.items()))
    operator = network.operator(node.input, build, f"Panes({window.extent})", key=key)
    assert operator.result is not None
    by = tuple(column(name) for name in group_columns(node))
    return dataclasses.replace(node, columns=parts.columns, group_by=by), operator.result


def _consists_of_panes(window: query.Window) -> bool:
    """Whether each content consists of whole panes, whose boundaries are known before the first row."""
    extent = window.extent
    return (
        isinstance(extent, Range) and extent.slide is not None and not extent.first and extent.size % extent.slide == 0
    )


def _above_window(node: query.Node) -> Iterator[exp.Expr]:
    """The expressions of the filters and maps between an aggregate and its window."""
    while isinstance(node, (query.Filter, query.Map)):
        yield from (node.condition,) if isinstance(node, query.Filter) else node.columns
        node = node.input


def _reads_time(value: exp.Expr) -> bool:
    return any(each.name == "ts" for each in value.find_all(exp.Column))


def _panes(node: query.Aggregate, window: query.Window, below: Flow, parts: Partials) -> Flow:
    """The arrivals of each group and pane, merged; with the begin of the pane, and the number of its first row."""
    assert isinstance(window.extent, Range) and window.extent.slide is not None
    keys = group_columns(node)
    begin = last_boundary(column("ts"), window.extent.slide, number(window.extent.offset))
    rows = below.arrivals.project({"ts": begin, "seq": column("seq"), **keys, **dict(parts.of_rows())})
    by = [column(name) for name in ("ts", *keys)]
    first = aliased(exp.Min(this=column("seq")), "seq")
    select = exp.select(by[0], first, aliased(number(NEVER), "_expires"), *by[1:], *parts.merged())
    panes = select.from_(derived_table(rows.select(), "r")).group_by(*(each.copy() for each in by))
    names = (*keys, *parts.calls)
    return Flow(names, Selection.of(exp.Subquery(this=panes), ("ts", "seq", "_expires", *names)))
