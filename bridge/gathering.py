"""Query object for results that are told together once there are enough of them (EPL's output every n events of joins)."""

from __future__ import annotations

import dataclasses

from bridge.query import Node


@dataclasses.dataclass(frozen=True)
class Gathered(Node):
    """The rows since the last time, told with the event that makes them `count` or more; what one event brings stays together.

    With `first` what the first event brings, at once, and nothing of the others.

    >>> from bridge.query import Stream
    >>> print(Gathered(Stream("s"), 3))
    SELECT * FROM s GATHERED 3 ROWS
    """

    input: Node
    count: int
    first: bool = False

    def __str__(self) -> str:
        return f"{self.input} GATHERED {'FIRST OF ' * self.first}{self.count} ROWS"

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)
