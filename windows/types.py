"""Attribute types by name: scalar types, and types nested of them as in JSON.

`STRUCT(street VARCHAR, zip INTEGER)` is an object, `VARCHAR[]` a list, `MAP(VARCHAR, DOUBLE)` an object with any keys.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

TYPES = {
    "BOOLEAN": "BOOL LOGICAL",
    "SMALLINT": "SHORT INT2 INT16 BYTE",
    "INTEGER": "INT INT4 INT32",
    "BIGINT": "LONG INT8 INT64",
    "DOUBLE": "FLOAT REAL FLOAT8 FLOAT64 DOUBLE_PRECISION",
    "VARCHAR": "STRING TEXT CHAR CHARACTER NVARCHAR STR",
    "DATE": "",
    "TIMESTAMP": "DATETIME",
}
"""The attribute types, each with the other names that are accepted for it; `DECIMAL(p, s)` is the ninth."""

PYTHON_TYPES: Mapping[str, type] = {
    "SMALLINT": int,
    "INTEGER": int,
    "BIGINT": int,
    "DOUBLE": float,
    "VARCHAR": str,
    "BOOLEAN": bool,
}
"""The Python types of values of those types whose values Python computes with."""

_ALIASES = {alias: name for name, aliases in TYPES.items() for alias in (name, *aliases.split())}


_CONSTRAINT = re.compile(
    r"(.+?)\s+(NOT\s+NULL|NULL|PRIMARY\s+KEY|UNIQUE|DEFAULT\b.*|COMMENT\b.*)", re.IGNORECASE | re.DOTALL
)
"""A type with a constraint that SQL allows after it."""


class TypeMismatch(ValueError):
    """A value, type or name does not fit a schema; the bridge raises this as a `SchemaError`."""


class Struct(NamedTuple):
    """The type of an object: its fields, each with a name and a type."""

    fields: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"STRUCT({', '.join(f'{_field_name(name)} {kind}' for name, kind in self.fields)})"

    def find(self, name: str) -> tuple[str, str] | None:
        """The field of this name, else of a name that differs in case; None if there is none."""
        exact = [field for field in self.fields if field[0] == name]
        return next(iter(exact or [field for field in self.fields if field[0].lower() == name.lower()]), None)


class List(NamedTuple):
    """The type of a list: the type of its elements."""

    element: str

    def __str__(self) -> str:
        return f"{self.element}[]"


class MapType(NamedTuple):
    """The type of an object with any texts as keys: the type of its values."""

    value: str

    def __str__(self) -> str:
        return f"MAP(VARCHAR, {self.value})"


@functools.lru_cache(maxsize=1024)
def shape(text: str) -> Struct | List | MapType | None:
    """The structure of a nested type, None for a scalar type; the types within keep their spelling.

    >>> shape("STRUCT(street VARCHAR, tags VARCHAR[])[]")
    List(element='STRUCT(street VARCHAR, tags VARCHAR[])')
    >>> shape("STRUCT(street VARCHAR, tags VARCHAR[])").find("Tags")
    ('tags', 'VARCHAR[]')
    """
    text = text.strip()
    if text.endswith("[]"):
        return List(text[:-2].strip())
    found = re.fullmatch(r"(STRUCT|MAP)\s*\((.*)\)", text, re.IGNORECASE | re.DOTALL)
    if found is None:
        return None
    if found[1].upper() == "STRUCT":
        return Struct(tuple(name_and_type(part) for part in split_at_commas(found[2])))
    key, *values = split_at_commas(found[2])
    if len(values) != 1 or canonical_type(key) != "VARCHAR":
        raise TypeMismatch(f"{text}: a map reads MAP(VARCHAR, T): its keys are texts")
    return MapType(values[0])


_NAMED = re.compile(r'\s*(?:"((?:[^"]|"")+)"|(\w+))\s*:?\s*(\S.*)', re.DOTALL)


def name_and_type(text: str) -> tuple[str, str]:
    """Name and type of `a INTEGER`, `"b c" VARCHAR[]`, `d: DATE`."""
    found = _NAMED.fullmatch(text)
    if found is None:
        raise TypeMismatch(f"a schema reads 'name TYPE, name TYPE, ...'; not understood: {text.strip()!r}")
    return (found[1].replace('""', '"') if found[1] else found[2]), found[3].strip()


def split_at_commas(text: str) -> list[str]:
    """The parts of a text between its commas, apart from commas in parentheses or quotes.

    >>> split_at_commas("a DECIMAL(10, 2), b STRUCT(c DATE, d DATE)")
    ['a DECIMAL(10, 2)', 'b STRUCT(c DATE, d DATE)']
    """
    found, start, depth = [], 0, 0
    for match in re.finditer(r'"(?:[^"]|"")*"|[(),]', text):
        depth += (match[0] == "(") - (match[0] == ")")
        if match[0] == "," and depth == 0:
            found.append(text[start : match.start()].strip())
            start = match.end()
    return [*found, text[start:].strip()]


def is_nested(type_name: str) -> bool:
    """Whether a type is a STRUCT, a list or a MAP."""
    return shape(type_name) is not None


def scalars_of(type_name: str) -> Iterator[str]:
    """The scalar types within a type."""
    match shape(type_name):
        case Struct(fields):
            for _, kind in fields:
                yield from scalars_of(kind)
        case List(inner) | MapType(inner):
            yield from scalars_of(inner)
        case None:
            yield type_name


def canonical_type(text: str) -> str:
    """The canonical spelling of a type: `Integer` → `INTEGER`, `varchar(20)` → `VARCHAR`.

    Raises:
        TypeMismatch: if there is no such type.

    >>> canonical_type("decimal(10,2)"), canonical_type("struct(street text, tags text[])")
    ('DECIMAL(10, 2)', 'STRUCT(street VARCHAR, tags VARCHAR[])')
    """
    match shape(text):
        case Struct(fields):
            return str(Struct(tuple((name, canonical_type(kind)) for name, kind in _distinct(fields))))
        case List(element):
            return str(List(canonical_type(element)))
        case MapType(value):
            return str(MapType(canonical_type(value)))
    match = re.fullmatch(r"\s*(\w+(?:\s+precision)?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*", text, re.IGNORECASE)
    word = re.sub(r"\s+", "_", match[1].upper()) if match else ""
    if match and word in ("DECIMAL", "NUMERIC"):
        precision, scale = int(match[2] or 18), int(match[3] or (0 if match[2] else 3))
        if not 1 <= precision <= 38 or scale > precision:
            raise TypeMismatch(f"{text.strip()}: a DECIMAL has 1 to 38 digits, the scale among them")
        return f"DECIMAL({precision}, {scale})"
    if match and word in _ALIASES and (match[2] is None or _ALIASES[word] in ("VARCHAR", "TIMESTAMP")):
        return _ALIASES[word]
    if constraint := _CONSTRAINT.fullmatch(text.strip()):
        raise TypeMismatch(f"an attribute has a type and nothing else: {constraint[1]}, without {constraint[2]}")
    raise TypeMismatch(
        f"unknown type {text!r}; the types are {', '.join(TYPES)}, DECIMAL(p, s), and of these T[], "
        "STRUCT(name T, …) and MAP(VARCHAR, T)"
    )


def quoted(name: str) -> str:
    """A name in SQL: in double quotes unless it is a plain lower-case word."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def is_storable(value: str) -> bool:
    """Whether every database can store a text: it has no lone surrogate and no NUL."""
    return "\0" not in value and (value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value))


def decimal_size(type_name: str) -> tuple[int, int] | None:
    """The precision and scale of `DECIMAL(p, s)`; None for other types."""
    match = re.fullmatch(r"DECIMAL\((\d+), (\d+)\)", type_name)
    return (int(match[1]), int(match[2])) if match else None


def scale_of(type_name: str) -> int | None:
    """The digits after the point of a DECIMAL type; None for other types."""
    size = decimal_size(type_name)
    return size[1] if size else None


def type_of_value(value: Any) -> str | None:
    """The attribute type of a Python value; None for None, and for other classes.

    >>> type_of_value(True), type_of_value(1), type_of_value(datetime.date(2024, 2, 29)), type_of_value(None)
    ('BOOLEAN', 'BIGINT', 'DATE', None)
    """
    kinds = {
        bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR", datetime.date: "DATE",
        datetime.datetime: "TIMESTAMP", decimal.Decimal: "DECIMAL(38, 10)",
    }  # fmt: skip
    return kinds.get(type(value))


def type_of_arrow(kind: Any) -> str:
    """The attribute type that holds every value of an Arrow type. Raises `TypeMismatch` if there is none."""
    text = str(kind)
    if text.startswith("dictionary"):
        return type_of_arrow(kind.value_type)
    if text.startswith("struct"):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return canonical_type(str(Struct(tuple((field.name, type_of_arrow(field.type)) for field in fields))))
    if text.startswith(("list", "large_list", "fixed_size_list")):
        return str(List(type_of_arrow(kind.value_type)))
    if text.startswith("map") and type_of_arrow(kind.key_type) == "VARCHAR":
        return str(MapType(type_of_arrow(kind.item_type)))
    if text.startswith("decimal"):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if text.startswith("timestamp"):
        return "TIMESTAMP"
    names = {
        "bool": "BOOLEAN", "int8": "SMALLINT", "int16": "SMALLINT", "uint8": "SMALLINT", "int32": "INTEGER",
        "uint16": "INTEGER", "int64": "BIGINT", "uint32": "BIGINT", "halffloat": "DOUBLE", "float": "DOUBLE",
        "double": "DOUBLE", "string": "VARCHAR", "large_string": "VARCHAR", "string_view": "VARCHAR",
        "date32[day]": "DATE", "null": "VARCHAR",
    }  # fmt: skip
    if text in names:
        return names[text]
    raise TypeMismatch(f"no attribute type for the Arrow type {text}")


def _field_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else '"' + name.replace('"', '""') + '"'


def _distinct(fields: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """The fields of an object. Raises `TypeMismatch` for names that are not distinct, or cannot be written."""
    lowered = [name.lower() for name, _ in fields]
    for name, _ in fields:
        if lowered.count(name.lower()) > 1:
            raise TypeMismatch(
                f"two parts of an object are called {name!r}: names that differ only in case are one name"
            )
        if re.search(r'["\\]', name) or not name.isprintable() or not is_storable(name):
            raise TypeMismatch(f"{name!r} cannot be the name of a part of an object")
    return fields
