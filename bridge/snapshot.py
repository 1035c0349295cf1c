"""Query object for what a window holds, told as a whole every so often (EPL's output snapshot, and output all of groups)."""

from __future__ import annotations

import dataclasses

from bridge.query import Node


@dataclasses.dataclass(frozen=True)
class Snapshot(Node):
    """What a window holds: every so many milliseconds, counted from the first row, or after every so many rows.

    An aggregate over it is told each time: without groups of an empty window, too; with `ever` of every group there has
    been.

    >>> from bridge.query import Stream, Window
    >>> print(Snapshot(Window(Stream("s"), "ROWS 5"), time=5000))
    SELECT * FROM s WINDOW(ROWS 5) AS IT IS EVERY 5000 MS
    """

    input: Node
    time: int | None = None
    count: int | None = None
    ever: bool = False

    def __str__(self) -> str:
        every = f"{self.count} ROWS" if self.time is None else f"{self.time} MS"
        return f"{self.input} AS IT IS EVERY {every}" + " FOR ALL GROUPS" * self.ever

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)
