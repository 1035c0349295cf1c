"""Parts of nested values in statements: `CAST(part AS type)`, a part being of a column, an object, a list or a map.

Neutral statements say STRUCT_EXTRACT for a part of an object, and brackets for the n-th of a list, from 1, -1 being the
last, and for the value of a key. A database without nested types keeps JSON, and takes a part by its path.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from sqlglot import exp

from windows.types import Map, Struct, canonical_type, is_nested, shape

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


__all__ = ["Part", "call", "is_nested", "is_nested_null", "is_part", "json_path", "kind_of", "part", "part_of", "typed"]
