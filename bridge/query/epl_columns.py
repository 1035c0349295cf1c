"""EPL's additional columns: values of earlier rows, sub-queries, enumeration methods and the types of events."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.query.nodes import Map, Node, Stream

COMPUTED_KEY = "key."
"""The prefix of the names of columns with computed keys of match_recognize."""

OF_EVENT = "of_event"
"""The key in `meta` of a LAST that represents a value of the event itself beside aggregates."""

ALL_TIME = "all_time"
"""The key in `meta` of an aggregate over all events that ever arrived, whatever is in the window."""

RATE = "rate"
"""The key in `meta` of a count that is a rate; its value is the time span in milliseconds."""

TYPE = "typeof()"
"""The column with the name of an event's type. Results do not contain it."""


@dataclasses.dataclass(frozen=True)
class PreviousRow(Node):
    """Each row with one more column: a value of the row `count` rows earlier (EPL's prev and prior).

    If `partition_by` is given, only rows with equal keys count. If `within` is given, the value is NULL if that row is
    at least `within` milliseconds older.

    >>> from bridge.query import Stream, scalar
    >>> print(PreviousRow(Stream("s"), "before", scalar("v"), 1))
    SELECT * FROM s WITH before (v OF 1 ROWS BEFORE)
    """

    input: Node
    name: str
    value: exp.Expr
    count: int
    within: int | None = None
    partition_by: tuple[exp.Expr, ...] = ()


@dataclasses.dataclass(frozen=True)
class SubqueryColumn(Node):
    """Each row with one more column: the result, when the row arrives, of a sub-query over another window (EPL).

    The column is named `name`. `condition` and `value` name the columns of `source` as `name.column`; other columns are
    those of the row. The result is one of four:

    - with `value`: an aggregate, or the value of the only row that fulfils `condition`;
    - with `value` and `place`: the value of the row number `place`;
    - with `value` and `operand`: whether `operand` is among the values;
    - without `value`: whether a row fulfils `condition`.

    If `early`, the source is read as it was before the row's own event changed it.

    >>> from bridge.query import Stream, Window, scalar
    >>> print(SubqueryColumn(Stream("s"), "found", Window(Stream("t"), "ROWS 5"), scalar("k = found.k")))
    SELECT * FROM s WITH found (ROWS OF t WINDOW(ROWS 5) WHERE k = found.k)
    """

    input_fields = ("input", "source")

    input: Node
    name: str
    source: Node
    condition: exp.Expr | None = None
    value: exp.Expr | None = None
    operand: exp.Expr | None = None
    early: bool = False
    place: int | None = None


@dataclasses.dataclass(frozen=True)
class Enumeration(Node):
    """Each row with one more column: the result of an enumeration `method` on the list `values`.

    `body` is a condition or a value over an element (`name.element`) and the row; without `body`, it is the element.
    NULL elements do not count. If the list is NULL, the result is NULL.

    >>> from bridge.query import Stream, scalar
    >>> print(Enumeration(Stream("S"), "each.1", exp.column("tags"), "COUNT", scalar('"each.1.element" = k')))
    SELECT * FROM S WITH "each.1" (COUNT OF tags: "each.1.element" = k)
    """

    input: Node
    name: str
    values: exp.Expr
    method: str
    body: exp.Expr | None = None

    @property
    def element(self) -> str:
        """The name of an element in `body`."""
        return f"{self.name}.element"


# Types of events: typeof(a) -------------------------------------------------------------------------------------------


def with_type(stream: Stream) -> Map:
    """A stream with the type of its events, which is the stream's name.

    If events of other schemas belong to this stream (`bridge.frontends.epl.event_types`), their type is the name of
    their own schema.

    >>> print(with_type(Stream("s")))
    SELECT *, 's' AS "typeof()" FROM s
    """
    name = exp.alias_(exp.Literal.string(stream.name), TYPE, quoted=True)
    return Map(stream, (exp.Star(), name))


def with_types(node: Node) -> Node:
    """The tree with the types of the events of all its streams."""
    return with_type(node) if isinstance(node, Stream) else node.with_inputs(with_types)


def stream_of(node: Map) -> Stream | None:
    """The stream that was given to `with_type`; None for any other node."""
    return node.input if isinstance(node.input, Stream) and node == with_type(node.input) else None


def as_typeof(column: exp.Expr) -> exp.Expr:
    """A type in a select list, named as it was written: `typeof(a)`. Other columns are unchanged."""
    if isinstance(column, exp.Column) and column.name == TYPE:
        return exp.alias_(column, f"typeof({column.table})", quoted=True)
    return column


def is_type(name: str) -> bool:
    """Whether a column contains types, of a stream or of an event of a pattern: `typeof()`, `a_typeof()`."""
    return name == TYPE or name.endswith(f"_{TYPE}")
