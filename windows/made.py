"""Objects and lists that statements make of other values: `CAST({'a': x} AS STRUCT(…))`, `CAST(ARRAY_AGG(x ORDER BY …) AS T[])`.

The cast has the types of what is within, which a database that keeps nested values as JSON wants to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sqlglot import exp

from windows.parts import call, kind_of, typed
from windows.types import List, Struct, shape

FieldValue = tuple[str, exp.Expr, str]
"""A part of an object that is made: its name, value and type."""


class Made(NamedTuple):
    """What a node makes: an object of these parts, or a list of these values in an order."""

    fields: tuple[FieldValue, ...] = ()
    element: exp.Expr | None = None
    kind: str = ""
    order: tuple[exp.Expr, ...] = ()


def object_of(fields: Iterable[FieldValue]) -> exp.Expr:
    """An object of these parts.

    >>> object_of([("a", exp.column("x"), "INTEGER")]).sql("duckdb")
    "CAST({'a': x} AS STRUCT(a INT))"
    """
    found = list(fields)
    parts = [exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=value) for name, value, _ in found]
    return typed(exp.Struct(expressions=parts), str(Struct(tuple((name, kind) for name, _, kind in found))))


def list_of(value: exp.Expr, kind: str, order: Sequence[exp.Expr] = ()) -> exp.Expr:
    """The values of a group as a list, NULL among them; of no rows it is NULL.

    >>> list_of(exp.column("x"), "INTEGER", [exp.Ordered(this=exp.column("ts"))]).sql("duckdb")
    'CAST(ARRAY_AGG(x ORDER BY ts) AS INT[])'
    """
    ordered = exp.Order(this=value, expressions=list(order)) if order else value
    return typed(exp.ArrayAgg(this=ordered), str(List(kind)))


def is_list(node: object) -> bool:
    """Whether a node makes a list."""
    return isinstance(node, exp.Cast) and isinstance(node.this, exp.ArrayAgg)


def is_object(node: object) -> bool:
    """Whether a node makes an object."""
    return isinstance(node, exp.Cast) and isinstance(node.this, exp.Struct)


def made(node: exp.Expr) -> Made | None:
    """What a node makes; None for any other node.

    >>> made(list_of(exp.column("x"), "INTEGER")).kind
    'INTEGER'
    """
    if not isinstance(node, exp.Cast) or not (is_list(node) or is_object(node)):
        return None
    found = shape(kind_of(node))
    if isinstance(found, Struct):
        values = (part.expression for part in node.this.expressions)
        return Made(tuple((name, value, kind) for (name, kind), value in zip(found.fields, values, strict=True)))
    assert isinstance(found, List)
    value = node.this.this
    order = tuple(value.expressions) if isinstance(value, exp.Order) else ()
    return Made(element=value.this if order else value, kind=found.element, order=order)


def json_text(fields: Iterable[FieldValue], text: Callable[[exp.Expr, str], exp.Expr]) -> list[exp.Expr]:
    """The texts that, joined, are the JSON of an object; `text` gives that of a value of a type, NULL for NULL.

    >>> print(*(part.sql() for part in json_text([("a", exp.column("x"), "INTEGER")], lambda value, kind: value)))
    '{"a":' COALESCE(x, 'null') '}'
    """
    found: list[exp.Expr] = []
    for place, (name, value, kind) in enumerate(fields):
        found += [exp.Literal.string(f'{"," if place else "{"}"{name}":'), or_null(text(value, kind))]
    return [*found, exp.Literal.string("}")]


def or_null(text: exp.Expr) -> exp.Expr:
    """JSON's null for a value that is NULL."""
    return call("COALESCE", text, exp.Literal.string("null"))


def truth_text(value: exp.Expr) -> exp.Expr:
    """The text of a truth value in JSON."""
    truths = exp.Case().when(value, exp.Literal.string("true"))
    return truths.when(exp.Not(this=value.copy()), exp.Literal.string("false"))


__all__ = [
    "FieldValue",
    "Made",
    "is_list",
    "is_object",
    "json_text",
    "list_of",
    "made",
    "object_of",
    "or_null",
    "truth_text",
]
