"""EPL's typeof(a): the name of an event's type, a column that streams are given where a statement asks for it.

Of a stream whose events may be those of other schemas (`bridge.frontends.epl.event_types`) it is the name of each event's own.
"""

from __future__ import annotations

from sqlglot import exp

from bridge.query.nodes import Map, Node, Stream

TYPE = "typeof()"
"""The column; results are rid of it."""


def typed(stream: Stream) -> Map:
    """A stream with the type of its events.

    >>> print(typed(Stream("s")))
    SELECT *, 's' AS "typeof()" FROM s
    """
    name = exp.alias_(exp.Literal.string(stream.name), TYPE, quoted=True)
    return Map(stream, (exp.Star(), name))


def stream_of(node: Map) -> Stream | None:
    """The stream that `typed` was given; None for any other node."""
    return node.input if isinstance(node.input, Stream) and node == typed(node.input) else None


def with_types(node: Node) -> Node:
    """The tree with the types of the events of all its streams."""
    return typed(node) if isinstance(node, Stream) else node.with_inputs(with_types)


def named(column: exp.Expr) -> exp.Expr:
    """A column of a list under the name that it has as it is written: `typeof(a)`."""
    if isinstance(column, exp.Column) and column.name == TYPE:
        return exp.alias_(column, f"typeof({column.table})", quoted=True)
    return column


def is_type(name: str) -> bool:
    """Whether a column is this one, of a stream or of one of several: `typeof()`, `a_typeof()`."""
    return name == TYPE or name.endswith(f"_{TYPE}")
