"""Queries whose pushes take time proportional to their events on every database, so that pushes may be of any size."""

from __future__ import annotations

from bridge import query
from bridge.query.nodes import Node, is_plain_join, without_filters
from bridge.rewrite.aggregates.partials import Partials
from windows.extents import Range, Rows

OVERLAPS = 4
"""The greatest number of overlapping contents of a jumping window for which pushes may be of any size."""


def is_linear(node: Node, joins_by_range: bool = False) -> bool:
    """Whether a tree has only filters, maps, unions, row patterns, and aggregates by window frames or of few jumps.

    A join of each event with the rows of a window may take time proportional to both. `joins_by_range`: an index finds
    the rows of a time range, so a join over sliding windows of time reads no other rows, however many were pushed.

    >>> from bridge.frontends.sql.statements import parse
    >>> is_linear(parse("SELECT k, SUM(v) AS t FROM s WINDOW(RANGE 5 S) WHERE v > 1 GROUP BY k"))
    True
    >>> is_linear(parse("SELECT SUM(v) AS t FROM s WINDOW(PARTITION BY k ROWS 5)"))
    False
    >>> is_linear(parse("SELECT v FROM s WINDOW(RANGE 5 S), t WINDOW(RANGE 1 S) WHERE s.k = t.k"), joins_by_range=True)
    True
    """
    match node:
        case query.Stream():
            return True
        case query.Filter() | query.Map() | query.Union() | query.MatchRecognize():
            return all(is_linear(below, joins_by_range) for below in node.inputs_of)
        case query.Aggregate():
            window = without_filters(node.input)
            if not isinstance(window, query.Window) or not is_linear(window.input, joins_by_range):
                return False
            return _is_framed(node, window) or _jumps_far(node, window)
        case query.Correlate():
            plain = joins_by_range and is_plain_join(node)
            return plain and all(_slides(below, joins_by_range) for below in node.inputs_of)
        case _:
            return False


def _slides(node: Node, joins_by_range: bool) -> bool:
    """Whether a node is a sliding window of time whose input takes time proportional to its events."""
    if not isinstance(node, query.Window) or not isinstance(node.extent, Range):
        return False
    return node.extent.slide is None and node.extent.step is None and is_linear(node.input, joins_by_range)


def _jumps_far(node: query.Aggregate, window: query.Window) -> bool:
    """Whether a window jumps so far that each row is in few of its contents."""
    extent = window.extent
    if not isinstance(extent, Range) or extent.slide is None or node.on_change or node.every_change:
        return False
    return extent.size <= OVERLAPS * extent.slide


def _is_framed(node: query.Aggregate, window: query.Window) -> bool:
    """Whether an aggregate over a window is computed by window frames: rows leave in their order, per group."""
    match window.extent:
        case Range(slide=None, step=None) | Rows(slide=None):
            leave_in_order = all(key in node.group_by for key in window.partition_by)
        case _:
            return False
    parts = Partials.of(node)
    return leave_in_order and parts is not None and not parts.own and not (node.on_change or node.every_change)
