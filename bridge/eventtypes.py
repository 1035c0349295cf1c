"""EPL's event types: which schemas name others."""

from __future__ import annotations

from collections.abc import Callable

from bridge.errors import QueryError, nearest
from bridge.frontends.epl_scalars import TYPES
from bridge.frontends.epl_schema import CreateSchema
from windows.schema import Attribute, Schema, TypeMismatch, canonical_type
from windows.types import List, Struct, shape

Known = Callable[[str], Schema | None]
"""The schema of a name, None where there is none."""


def schema_of(declared: CreateSchema, known: Known, names: list[str]) -> Schema:
    """The attributes of a schema, with the types that it names found among those that are `known`.

    >>> from bridge.frontends.epl import parse
    >>> (person,) = parse("create schema Person (name string, homes Address[])")
    >>> str(schema_of(person, {"Address": Schema.of("city VARCHAR")}.get, ["Address"]))
    'name VARCHAR, homes STRUCT(city VARCHAR)[]'
    """
    try:
        return Schema(tuple(Attribute(name, _type(kind, known, names)) for name, kind in declared.attributes))
    except TypeMismatch as error:
        raise QueryError(str(error)) from None


def _type(kind: str, known: Known, names: list[str]) -> str:
    found = shape(kind)
    if isinstance(found, List):
        return str(List(_type(found.element, known, names)))
    try:
        return canonical_type(kind)
    except TypeMismatch:
        schema = known(kind)
    if schema is None:
        there = ", ".join(TYPES)
        raise QueryError(
            f"the type {kind!r} is not supported; there are {there}, and schemas{nearest(kind, names)}", words=[kind]
        )
    return str(Struct(tuple((attribute.name, attribute.type) for attribute in schema)))
