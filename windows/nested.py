"""Nested values in statements: `CAST(part AS type)` reads a part of an object, a list or a map.

Neutral statements have STRUCT_EXTRACT for a field of an object, and brackets for an element of a list (1 is the first, -1
the last) or the value of a key. A database without nested types stores JSON, and reads a part by its path.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sqlglot import exp

from windows.sql import identifier, number
from windows.types import List, MapType, Struct, canonical_type, shape

Step = str | int
"""A field's name, the key of a map, or a place in a list: 0 is the first, -1 the last."""


class NestedPart(NamedTuple):
    """A part of the value of `base`: the steps to it, and its type."""

    base: exp.Expr
    steps: tuple[Step, ...]
    kind: str


def step_into(base: exp.Expr, kind: str, step: Step) -> tuple[exp.Expr, str] | None:
    """The expression and the type of a part of a value; None if values of its type have no such part."""
    found = shape(kind)
    if found is None or (isinstance(step, str) and not isinstance(found, (Struct, MapType))):
        return None
    if isinstance(found, Struct):
        named = found.find(step) if isinstance(step, str) else None
        return named and (exp.StructExtract(this=base, expression=exp.Literal.string(named[0])), named[1])
    if isinstance(found, MapType):
        return (exp.Bracket(this=base, expressions=[exp.Literal.string(step)]), found.value) if step != "" else None
    return exp.Bracket(this=base, expressions=[list_place(int(step))], offset=1), found.element


def with_type(value: exp.Expr, kind: str) -> exp.Expr:
    """`CAST(value AS kind)`."""
    return exp.Cast(this=value, to=_data_type(kind).copy())


def is_part(node: exp.Expr) -> bool:
    """Whether a node reads a part of a value."""
    return isinstance(node, (exp.StructExtract, exp.Bracket))


def nested_part(node: exp.Expr) -> NestedPart | None:
    """The part that `CAST(part AS type)` reads; None for other nodes.

    >>> value = exp.StructExtract(this=exp.column("a"), expression=exp.Literal.string("tags"))
    >>> value = exp.Bracket(this=value, expressions=[exp.Literal.number(1)], offset=1)
    >>> nested_part(with_type(value, "VARCHAR"))[1:]
    (('tags', 0), 'VARCHAR')
    """
    if not isinstance(node, exp.Cast) or not is_part(node.this):
        return None
    steps: list[Step] = []
    base = node.this
    while is_part(base):
        steps.append(_step(base))
        base = base.this
    return NestedPart(base, tuple(reversed(steps)), kind_of(node))


def kind_of(cast: exp.Cast) -> str:
    """The type of a cast.

    >>> kind_of(with_type(exp.null(), "STRUCT(a DECIMAL(10, 2)[], b VARCHAR)"))
    'STRUCT(a DECIMAL(10, 2)[], b VARCHAR)'
    """
    return canonical_type(cast.to.sql("duckdb"))


def json_path(steps: tuple[Step, ...], last: Callable[[int], str]) -> exp.Expr:
    """A path for SQL's JSON functions, `$."b"[0]`; `last(place)` writes a place from the end."""
    written = (f'."{step}"' if isinstance(step, str) else f"[{step if step >= 0 else last(step)}]" for step in steps)
    return exp.Literal.string("$" + "".join(written))


def is_nested_null(node: exp.Expr) -> bool:
    """Whether a node is a cast to a nested type, which a database without such types needs as another type."""
    return isinstance(node, exp.Cast) and not is_part(node.this) and node.to.is_type(*_NESTED)


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A call of a function of the database."""
    return exp.Anonymous(this=name, expressions=list(arguments))


_NESTED = (exp.DataType.Type.STRUCT, exp.DataType.Type.ARRAY, exp.DataType.Type.LIST, exp.DataType.Type.MAP)


@functools.lru_cache(maxsize=1024)
def _data_type(kind: str) -> exp.DataType:
    """The type, without positions of its names: they would not be positions in the query's text."""
    found = exp.DataType.build(kind, dialect="duckdb")
    for node in found.walk():
        node.meta.clear()
    return found


def list_place(step: int) -> exp.Expr:
    """A place in a list as in SQL, where the first element is 1 and the last one -1."""
    return number(step + 1 if step >= 0 else step)


def _step(node: exp.Expr) -> Step:
    step = node.expression if isinstance(node, exp.StructExtract) else node.expressions[0]
    if isinstance(step, exp.Neg):
        return -int(step.this.name)
    return str(step.name) if step.is_string else int(step.name) - 1


# Constructors of objects and lists: `CAST({'a': x} AS STRUCT(…))`, `CAST(ARRAY_AGG(x ORDER BY …) AS T[])`

FieldValue = tuple[str, exp.Expr, str]
"""A field of an object: its name, value and type."""


class Constructor(NamedTuple):
    """The construction of a value: an object of `fields`, or a list of type `kind`.

    The list has `values`, or those of a group's `element`, in an order.
    """

    fields: tuple[FieldValue, ...] = ()
    values: tuple[exp.Expr, ...] = ()
    element: exp.Expr | None = None
    kind: str = ""
    order: tuple[exp.Expr, ...] = ()


def object_of(fields: Iterable[FieldValue]) -> exp.Expr:
    """The constructor of an object.

    >>> object_of([("a", exp.column("x"), "INTEGER")]).sql("duckdb")
    "CAST({'a': x} AS STRUCT(a INT))"
    """
    found = list(fields)
    parts = [exp.PropertyEQ(this=identifier(name), expression=value) for name, value, _ in found]
    return with_type(exp.Struct(expressions=parts), str(Struct(tuple((name, kind) for name, _, kind in found))))


def list_of(value: exp.Expr, kind: str, order: Sequence[exp.Expr] = ()) -> exp.Expr:
    """The list of a group's values, with NULLs; NULL for no rows.

    >>> list_of(exp.column("x"), "INTEGER", [exp.Ordered(this=exp.column("ts"))]).sql("duckdb")
    'CAST(ARRAY_AGG(x ORDER BY ts) AS INT[])'
    """
    ordered = exp.Order(this=value, expressions=list(order)) if order else value
    return with_type(exp.ArrayAgg(this=ordered), str(List(kind)))


def is_list(node: object) -> bool:
    """Whether a node constructs a list."""
    return isinstance(node, exp.Cast) and isinstance(node.this, exp.ArrayAgg)


def array_of(values: Iterable[exp.Expr], kind: str) -> exp.Expr:
    """The list of these values, which are of type `kind`.

    >>> array_of([exp.column("x"), exp.column("y")], "INTEGER").sql("duckdb")
    'CAST([x, y] AS INT[])'
    """
    return with_type(exp.Array(expressions=list(values)), str(List(kind)))


def is_array(node: object) -> bool:
    """Whether a node constructs the list of some values."""
    return isinstance(node, exp.Cast) and isinstance(node.this, exp.Array)


def is_object(node: object) -> bool:
    """Whether a node constructs an object."""
    return isinstance(node, exp.Cast) and isinstance(node.this, exp.Struct)


def constructor_of(node: exp.Expr) -> Constructor | None:
    """The object or list that a node constructs; None for other nodes.

    >>> constructor_of(list_of(exp.column("x"), "INTEGER")).kind
    'INTEGER'
    """
    if not isinstance(node, exp.Cast) or not (is_list(node) or is_object(node) or is_array(node)):
        return None
    found = shape(kind_of(node))
    if isinstance(found, Struct):
        values = (part.expression for part in node.this.expressions)
        return Constructor(tuple((name, value, kind) for (name, kind), value in zip(found.fields, values, strict=True)))
    assert isinstance(found, List)
    if is_array(node):
        return Constructor(values=tuple(node.this.expressions), kind=found.element)
    value = node.this.this
    order = tuple(value.expressions) if isinstance(value, exp.Order) else ()
    return Constructor(element=value.this if order else value, kind=found.element, order=order)


def json_text(fields: Iterable[FieldValue], text: Callable[[exp.Expr, str], exp.Expr]) -> list[exp.Expr]:
    """Texts whose concatenation is the JSON of an object; `text(value, type)` is the JSON of a value, NULL for NULL.

    >>> print(*(step_into.sql() for step_into in json_text([("a", exp.column("x"), "INTEGER")], lambda value, kind: value)))
    '{"a":' COALESCE(x, 'null') '}'
    """
    found: list[exp.Expr] = []
    for place, (name, value, kind) in enumerate(fields):
        found += [exp.Literal.string(f'{"," if place else "{"}"{name}":'), or_null(text(value, kind))]
    return [*found, exp.Literal.string("}")]


def json_array_text(values: Sequence[exp.Expr], text: Callable[[exp.Expr], exp.Expr]) -> list[exp.Expr]:
    """Texts whose concatenation is the JSON of a list; `text(value)` is the JSON of a value, NULL for NULL.

    >>> print(*(part.sql() for part in json_array_text([exp.column("x"), exp.column("y")], lambda value: value)))
    '[' COALESCE(x, 'null') ',' COALESCE(y, 'null') ']'
    """
    found: list[exp.Expr] = [exp.Literal.string("[")]
    for place, value in enumerate(values):
        found += [*([exp.Literal.string(",")] if place else []), or_null(text(value))]
    return [*found, exp.Literal.string("]")]


def or_null(text: exp.Expr) -> exp.Expr:
    """`COALESCE(text, 'null')`."""
    return call("COALESCE", text, exp.Literal.string("null"))


def truth_text(value: exp.Expr) -> exp.Expr:
    """The JSON of a boolean."""
    truths = exp.Case().when(value, exp.Literal.string("true"))
    return truths.when(exp.Not(this=value.copy()), exp.Literal.string("false"))
