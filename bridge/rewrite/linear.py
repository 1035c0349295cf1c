"""Which queries take time in proportion to the events of a push on every database, so that a push may be as large as it likes."""

from __future__ import annotations

from bridge import query
from bridge.query.nodes import Node, without_filters
from bridge.rewrite.aggregates.partials import Partials
from windows.extents import Range, Rows


def is_linear(node: Node) -> bool:
    """Whether a tree has only filters, maps, unions, row patterns, and aggregates that are window frames.

    What joins each event with the rows of a window may take time in proportion to both.

    >>> from bridge.frontends.sql.statements import parse
    >>> is_linear(parse("SELECT k, SUM(v) AS t FROM s WINDOW(RANGE 5 S) WHERE v > 1 GROUP BY k"))
    True
    >>> is_linear(parse("SELECT SUM(v) AS t FROM s WINDOW(PARTITION BY k ROWS 5)"))
    False
    """
    match node:
        case query.Stream():
            return True
        case query.Filter() | query.Map() | query.Union() | query.MatchRecognize():
            return all(map(is_linear, node.inputs_of))
        case query.Aggregate():
            window = without_filters(node.input)
            return isinstance(window, query.Window) and _is_framed(node, window) and is_linear(window.input)
        case _:
            return False


def _is_framed(node: query.Aggregate, window: query.Window) -> bool:
    """Whether an aggregate over a window is window frames: its rows leave in their order, per group."""
    match window.extent:
        case Range(slide=None, step=None) | Rows(slide=None):
            leave_in_order = all(key in node.group_by for key in window.partition_by)
        case _:
            return False
    parts = Partials.of(node)
    return leave_in_order and parts is not None and not parts.own and not (node.on_change or node.every_change)
