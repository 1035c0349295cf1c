"""Parts of nested values in statements: `CAST(part AS type)`, a part being of a column, an object, a list or a map.

Neutral statements say STRUCT_EXTRACT for a part of an object, and brackets for the n-th of a list, from 1, -1 being the
last, and for the value of a key. A database without nested types keeps JSON, and takes a part by its path.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sqlglot import exp

from windows.types import List, Map, Struct, canonical_type, shape

Step = str | int
"""The name of a part of an object, the key of a map, or a place in a list: from 0, -1 being the last."""


class Part(NamedTuple):
    """A part of the value of `base`: where it is, and its type."""

    base: exp.Expr
    steps: tuple[Step, ...]
    kind: str


def part(base: exp.Expr, kind: str, step: Step) -> tuple[exp.Expr, str] | None:
    """A step into a value of a type: the expression and the type of the part; None where there is no such part."""
    found = shape(kind)
    if found is None or (isinstance(step, str) and not isinstance(found, (Struct, Map))):
        return None
    if isinstance(found, Struct):
        named = found.find(step) if isinstance(step, str) else None
        return named and (exp.StructExtract(this=base, expression=exp.Literal.string(named[0])), named[1])
    if isinstance(found, Map):
        return (exp.Bracket(this=base, expressions=[exp.Literal.string(step)]), found.value) if step != "" else None
    return exp.Bracket(this=base, expressions=[_place(int(step))], offset=1), found.element


def typed(value: exp.Expr, kind: str) -> exp.Expr:
    """A part with its type, as statements have it."""
    return exp.Cast(this=value, to=_data_type(kind).copy())


def is_part(node: exp.Expr) -> bool:
    """Whether a node is a step into a value."""
    return isinstance(node, (exp.StructExtract, exp.Bracket))


def part_of(node: exp.Expr) -> Part | None:
    """What `CAST(part AS type)` asks for; None for any other node.

    >>> value = exp.StructExtract(this=exp.column("a"), expression=exp.Literal.string("tags"))
    >>> value = exp.Bracket(this=value, expressions=[exp.Literal.number(1)], offset=1)
    >>> part_of(typed(value, "VARCHAR"))[1:]
    (('tags', 0), 'VARCHAR')
    """
    if not isinstance(node, exp.Cast) or not is_part(node.this):
        return None
    steps: list[Step] = []
    base = node.this
    while is_part(base):
        steps.append(_step(base))
        base = base.this
    return Part(base, tuple(reversed(steps)), kind_of(node))


def kind_of(cast: exp.Cast) -> str:
    """The type that a cast is to.

    >>> kind_of(typed(exp.null(), "STRUCT(a DECIMAL(10, 2)[], b VARCHAR)"))
    'STRUCT(a DECIMAL(10, 2)[], b VARCHAR)'
    """
    return canonical_type(cast.to.sql("duckdb"))


def json_path(steps: tuple[Step, ...], last: Callable[[int], str]) -> exp.Expr:
    """A path of SQL's JSON functions, `$."b"[0]`; `last` writes a place from the end."""
    written = (f'."{step}"' if isinstance(step, str) else f"[{step if step >= 0 else last(step)}]" for step in steps)
    return exp.Literal.string("$" + "".join(written))


def is_nested_null(node: exp.Expr) -> bool:
    """Whether a node is a cast to a nested type, which is text or JSON without such types."""
    return isinstance(node, exp.Cast) and not is_part(node.this) and node.to.is_type(*_NESTED)


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A function of the database."""
    return exp.Anonymous(this=name, expressions=list(arguments))


_NESTED = (exp.DataType.Type.STRUCT, exp.DataType.Type.ARRAY, exp.DataType.Type.LIST, exp.DataType.Type.MAP)


@functools.lru_cache(maxsize=1024)
def _data_type(kind: str) -> exp.DataType:
    """Without the places of its names, which are none in a query's text."""
    found = exp.DataType.build(kind, dialect="duckdb")
    for node in found.walk():
        node.meta.clear()
    return found


def _place(step: int) -> exp.Expr:
    return exp.Literal.number(step + 1) if step >= 0 else exp.Neg(this=exp.Literal.number(-step))


def _step(node: exp.Expr) -> Step:
    step = node.expression if isinstance(node, exp.StructExtract) else node.expressions[0]
    if isinstance(step, exp.Neg):
        return -int(step.this.name)
    return str(step.name) if step.is_string else int(step.name) - 1


# Objects and lists that statements make of other values: `CAST({'a': x} AS STRUCT(…))`, `CAST(ARRAY_AGG(x ORDER BY …) AS T[])`

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
