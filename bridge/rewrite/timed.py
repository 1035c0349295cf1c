"""The nodes that report something as time passes, without an event."""

from __future__ import annotations

from bridge import query
from bridge.query.epl_output import RStream, Snapshot
from bridge.query.nodes import Node
from bridge.query.scripts import ReadSQL
from nfa.temporal.tree import is_timed


def reports_by_time(node: Node) -> bool:
    """Whether time alone makes a node report, apart from the nodes that it reads.

    >>> from bridge.query import Aggregate, Stream, Window
    >>> windows = [Window(Stream("s"), text) for text in ("RANGE 1 S", "ROWS 5")]
    >>> [reports_by_time(Aggregate(window, ["COUNT(*) AS n"], on_change=True)) for window in windows]
    [True, False]
    """
    match node:
        case query.Window():
            return node.extent.is_timed
        case query.Aggregate():
            return (node.on_change or node.every_change) and _may_expire(node)
        case RStream():
            return _may_expire(node)
        case Snapshot():
            return node.time is not None
        case ReadSQL():
            return node.store is not None  # rows may have waited for the store
        case query.MatchRecognize():
            return node.pattern.within is not None
        case query.EagerMatch():
            return node.interval is not None
        case query.TemporalMatch():
            return is_timed(node.pattern)
    return False


def _may_expire(node: Node) -> bool:
    """Whether time alone may make rows leave the content of a node; not if only newer rows evict them."""
    if isinstance(node, query.Window):
        return node.extent.expires_by_time or node.extent.is_timed
    return not node.inputs_of or any(map(_may_expire, node.inputs_of))
