"""What comes and what leaves (EPL's irstream and rstream), told every so long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from bridge.changes import Leaving
from bridge.frontends.cursor import Cursor
from bridge.frontends.epl_streams import NEW, both, is_both
from bridge.query import Arrange, Filter, Node, Window, in_order, walk
from bridge.scope import column
from windows.extents import Range

if TYPE_CHECKING:
    from bridge.frontends.epl_output import Pace


def tells_leaving(node: Node) -> bool:
    """Whether a statement's source gives what leaves."""
    return any(isinstance(below, Leaving) for below in walk(node))


def every_so_long(cursor: Cursor, node: Node, pace: Pace) -> Node:
    """Of each period first what came, then what left; of rstream this alone, in periods that begin with what comes."""
    check(cursor, pace)
    found = told(node if is_both(node) else _beside(cursor, node), pace, NEW)
    return found if is_both(node) else Filter(found, exp.Not(this=column(NEW)))


def told(node: Node, pace: Pace, mark: str) -> Arrange:
    """The rows of each period, those whose mark says that they came first; or the last of either kind."""
    batch = Window(node, Range(pace.time or 1, pace.time, first=True))
    return Arrange(batch, (in_order(f'"{mark}" DESC'),), last_of=(column(mark),) if pace.kind == "last" else None)


def check(cursor: Cursor, pace: Pace) -> None:
    """Refuses what is not told of both streams."""
    if pace.time is None or pace.kind not in ("all", "last"):
        cursor.fail(
            "what leaves is told by output [all | last] every so long alone: insert rstream into names it",
            pace.position,
        )


def _beside(cursor: Cursor, node: Node) -> Node:
    """What comes, beside what leaves."""
    if isinstance(node, Filter):
        return Filter(_beside(cursor, node.input), node.condition)
    assert isinstance(node, Leaving)
    return both(cursor, node.input, 0)
