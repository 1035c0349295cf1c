"""EPL's output clauses: which results are reported, when, and in which order; and the rows that leave a window."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.query.expressions import in_order, scalars
from bridge.query.nodes import Node, set_fields


@dataclasses.dataclass(frozen=True)
class Snapshot(Node):
    """The whole content of a window, every `time` milliseconds counted from the first row, or every `count` rows.

    An Aggregate over it is reported each time, without groups whose window is empty; if `all_groups`, with every group
    that ever had a row.

    >>> from bridge.query import Stream, Window
    >>> print(Snapshot(Window(Stream("s"), "ROWS 5"), time=5000))
    SELECT * FROM s WINDOW(ROWS 5) SNAPSHOT EVERY 5000 MS
    """

    input: Node
    time: int | None = None
    count: int | None = None
    all_groups: bool = False


@dataclasses.dataclass(frozen=True)
class OutputEvery(Node):
    """The rows since the last output, as soon as there are at least `count` (EPL's `output every n events` of joins).

    The rows of one event stay together. If `first`, only the rows of the first event since the last output, at once.

    >>> from bridge.query import Stream
    >>> print(OutputEvery(Stream("s"), 3))
    SELECT * FROM s OUTPUT EVERY 3 ROWS
    """

    input: Node
    count: int
    first: bool = False


@dataclasses.dataclass(frozen=True)
class OrderLimitDistinct(Node):
    """The rows of one event or timestamp, after distinct, order by and limit (EPL).

    The steps, in order: `distinct` removes duplicates; `last_of` keeps the last row per group of these expressions, for
    `()` the last of all; `order_by` sorts, NULL first; the first `offset` rows are left out, then `limit` rows are
    taken.

    >>> from bridge.query import Stream, Window
    >>> print(OrderLimitDistinct(Window(Stream("s"), "ROWS 3 SLIDE 3"), ["v DESC"], limit=2))
    SELECT * FROM s WINDOW(ROWS 3 SLIDE 3) PER EVENT (ORDER BY v DESC LIMIT 2)
    """

    input: Node
    order_by: tuple[exp.Ordered, ...] = ()
    limit: int | None = None
    offset: int = 0
    distinct: bool = False
    last_of: tuple[exp.Expr, ...] | None = None

    def __post_init__(self) -> None:
        last_of = None if self.last_of is None else scalars(self.last_of)
        set_fields(self, order_by=tuple(map(in_order, self.order_by)), last_of=last_of)


@dataclasses.dataclass(frozen=True)
class Throttle(Node):
    """The first of every `count` rows, or of every `time` milliseconds counted from the first row (EPL's output first).

    If `partition_by` is given: the first of every `count` rows with equal keys; or each row that is at least `time`
    milliseconds after the last reported row with its keys.

    >>> from bridge.query import Stream
    >>> print(Throttle(Stream("s"), time=5000))
    SELECT * FROM s OUTPUT FIRST EVERY 5000 MS
    """

    input: Node
    count: int | None = None
    time: int | None = None
    partition_by: tuple[exp.Expr, ...] = ()


@dataclasses.dataclass(frozen=True)
class FirstEvents(Throttle):
    """All rows of the first event of every `time` milliseconds, if an event has several, in joins or batches.

    >>> from bridge.query import Stream
    >>> print(FirstEvents(Stream("s"), time=5000))
    SELECT * FROM s OUTPUT FIRST EVERY 5000 MS
    """


@dataclasses.dataclass(frozen=True)
class RStream(Node):
    """EPL's rstream: the rows that leave a window, each when it leaves, in the order of their arrival.

    >>> from bridge.query import Stream, Window
    >>> print(RStream(Window(Stream("s"), "ROWS 5")))
    SELECT * FROM s WINDOW(ROWS 5) RSTREAM
    """

    input: Node
