"""EPL's create schema: events with attributes, which may be nested, or be events of other schemas."""

from __future__ import annotations

import dataclasses

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl.expressions import TYPES
from windows.schema import TypeMismatch, canonical_type, is_reserved, reserved_advice

_REPRESENTATIONS = ("JSON", "MAP", "OBJECTARRAY", "AVRO")
"""Esper's representations of events; here, all are rows."""


@dataclasses.dataclass(frozen=True)
class CreateSchema:
    """`create schema S (a int, b Other[])`: names and types as written.

    `Other` is resolved when all schemas are known.
    """

    name: str
    attributes: tuple[tuple[str, str], ...]
    inherits: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class CreateVariant:
    """`create variant schema V as A, B`: a stream of the events of several types."""

    name: str
    members: tuple[str, ...]


def create_variant(cursor: Cursor) -> CreateVariant:
    """Steps over `variant schema V as A, B`, after `create`."""
    cursor.expect("VARIANT")
    cursor.expect("SCHEMA")
    name = cursor.name("a name for the stream")
    cursor.expect("AS")
    return CreateVariant(name, _names(cursor))


def _names(cursor: Cursor) -> tuple[str, ...]:
    found = list[str]()
    while not found or cursor.take(","):
        if cursor.word() == "*":
            cursor.fail("a variant schema of any events is not supported: name those that it takes")
        found.append(cursor.name("the name of a schema"))
    return tuple(found)


def create_schema(cursor: Cursor) -> CreateSchema:
    """Steps over `schema S (a int, b Other[])`, after `create`.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> create_schema(EplCursor("schema Person (name string, address Address, tags string[])")).attributes
    (('name', 'VARCHAR'), ('address', 'Address'), ('tags', 'VARCHAR[]'))
    """
    if cursor.word() in _REPRESENTATIONS:
        cursor.at += 1
    cursor.expect("SCHEMA")
    name = cursor.name("a name for the events")
    cursor.take("AS")
    attributes = attributes_in_parentheses(cursor)
    inherits: tuple[str, ...] = ()
    if cursor.take("INHERITS"):
        cursor.take("FROM")
        inherits = _names(cursor)
    if cursor.word() == "COPYFROM":
        cursor.fail("copyfrom is not supported: inherits has the attributes of another schema, or write them")
    if cursor.word() in ("STARTTIMESTAMP", "ENDTIMESTAMP"):
        cursor.fail(f"{cursor.word().lower()} is not supported: events have a ts of their own")
    return CreateSchema(name, attributes, inherits)


def attributes_in_parentheses(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """Steps over `(a int, b Other[])`; `( )` has no attributes."""
    cursor.expect("(", " (attributes with their types; other events and classes cannot be copied)")
    attributes = [] if cursor.word() == ")" else [_attribute(cursor, ())]
    while attributes and cursor.take(","):
        attributes.append(_attribute(cursor, tuple(attributes)))
    cursor.expect(")")
    return tuple(attributes)


def _attribute(cursor: Cursor, before: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    position = cursor.position
    name = cursor.name("an attribute")
    kind = _type(cursor)
    if name.lower() in [other.lower() for other, _ in before]:
        cursor.fail(f"duplicate attribute {name!r}: names that differ only in case are one name in SQL", position)
    if is_reserved(name):
        cursor.fail(
            f"the attribute name {name!r} is the bridge's own (every event has it): {reserved_advice(name)}", position
        )
    return name, kind


def _type(cursor: Cursor) -> str:
    """`string`, `Other`, `decimal(10, 2)`, `map(string, double)`, each optionally with `[]`."""
    position, start = cursor.position, cursor.at
    name = cursor.name("the type of an attribute")
    if cursor.word() == ".":
        cursor.fail("classes are not supported as types: name a schema, or map(string, double)")
    if cursor.take("("):
        cursor.until(())
        cursor.expect(")")
        name = cursor.text[position : cursor.tokens[cursor.at - 1].end + 1]
    several = ""
    while cursor.take("["):
        cursor.take("PRIMITIVE")
        cursor.expect("]")
        several += "[]"
    if name.lower() in TYPES:
        return TYPES[name.lower()] + several
    try:
        return canonical_type(name) + several
    except TypeMismatch as error:
        if cursor.at - start > 1 + 2 * len(several):
            cursor.fail(str(error), position)
        return name + several
