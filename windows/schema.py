"""Schemas: the names and types of a stream's attributes, and the check of payloads."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import functools
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from windows.types import (
    TYPES,
    List,
    MapType,
    Struct,
    TypeMismatch,
    canonical_type,
    decimal_size,
    is_nested,
    is_storable,
    name_and_type,
    quoted,
    split_at_commas,
    type_of_arrow,
    type_of_value,
)
from windows.values import CONVERSION_ERRORS, PartMismatch, conversion, converted, scalar_conversion

__all__ = [
    "TYPES", "Attribute", "Reader", "Schema", "TypeMismatch", "canonical_type", "checker", "decimal_size", "is_reserved",
    "is_storable", "quoted", "reserved_advice", "type_of_arrow", "type_of_value",
]  # fmt: skip

_RESERVED = re.compile(
    r"ts|seq|_place|_expires|_out|_out_ts|_out_place|_zero|_rank|_number|_jump|_boundary|_before|_first|_first_seq|_state"
    r"|_path|_symbols|_new|_from|_key\d+|_helper\d+|_by_.*|_o_(ts|seq|_.*)|(_t)+_place|_query|_k\d*|_n|_member|_within"
    r"|_back|_step|_side\d+|_part\d+|_starts|_stops|_segment|_batch|_open|_last|_row|_e\d+|cep_parameter_\d+"
    r"|_needed|_start|_covered|_matches|_version|_left",
    re.IGNORECASE | re.DOTALL,
)
"""Names of the bridge's own columns: an event's ts and seq, and those that windows and operators add."""

_PYTHON_TYPES: dict[Any, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    datetime.date: "DATE",
    datetime.datetime: "TIMESTAMP",
    decimal.Decimal: "DECIMAL(18, 6)",
}


@dataclasses.dataclass(frozen=True)
class Attribute:
    """A named attribute of a type: a key of `TYPES`, `DECIMAL(p, s)`, or a type nested of these (`windows.types`).

    >>> Attribute("price", "double")
    Attribute(name='price', type='DOUBLE')
    """

    name: str
    type: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", canonical_type(self.type))


def reserved_advice(name: str) -> str:
    """The advice for an attribute whose name is reserved."""
    if name.lower() == "ts":
        return "leave it out if it is the event's time, which is given with each event and read as ts, or rename yours"
    return "rename yours"


@dataclasses.dataclass(frozen=True)
class Schema:
    """The attributes of a stream, in order.

    >>> str(Schema.of({"symbol": "varchar", "price": "double"}))
    'symbol VARCHAR, price DOUBLE'
    """

    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for name in self.names:
            if not isinstance(name, str) or not name or not is_storable(name):
                raise TypeMismatch(f"{name!r} cannot be the name of an attribute")
            if is_reserved(name):
                raise TypeMismatch(
                    f"the attribute name {name!r} is the bridge's own (every event has it): {reserved_advice(name)}"
                )
            if name.lower() in seen:
                raise TypeMismatch(f"duplicate attribute {name!r}: names that differ only in case are one name in SQL")
            seen[name.lower()] = name

    @classmethod
    def of(cls, source: Any) -> Schema:
        """A schema from a mapping name → type, a text `"a INTEGER, b VARCHAR"`, a dataclass, or a pyarrow schema.

        Nested types are `STRUCT(…)`, `T[]` and `MAP(VARCHAR, T)`, or a mapping, a list of one type, `list[T]`, `dict[str, T]`.

        >>> str(Schema.of({"name": str, "address": {"street": str, "tags": [str]}}))
        'name VARCHAR, address STRUCT(street VARCHAR, tags VARCHAR[])'
        """
        if isinstance(source, Schema):
            return source
        if isinstance(source, str):
            return cls(tuple(_attributes_of_text(source)))
        if isinstance(source, Mapping):
            return cls(tuple(Attribute(name, _type_name(kind)) for name, kind in source.items()))
        if dataclasses.is_dataclass(source):
            kind = source if isinstance(source, type) else type(source)
            try:
                hints = typing.get_type_hints(kind)
            except (NameError, SyntaxError) as error:
                raise TypeMismatch(f"the types of {kind.__name__} cannot be read: {error}") from None
            return cls(tuple(Attribute(f.name, _type_name(hints[f.name])) for f in dataclasses.fields(source)))
        if hasattr(source, "names") and hasattr(source, "types"):
            return cls(tuple(map(Attribute, source.names, map(type_of_arrow, source.types))))
        raise TypeMismatch(
            f"a schema is a mapping, a text, a dataclass or a pyarrow schema, not {type(source).__name__}"
        )

    @property
    def names(self) -> list[str]:
        return [attribute.name for attribute in self.attributes]

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __str__(self) -> str:
        return ", ".join(f"{quoted(a.name)} {a.type}" for a in self.attributes)

    def find(self, name: str) -> Attribute | None:
        """The attribute of this name, else of a name that differs in case; None if there is none."""
        lowered = name.lower()
        return next((a for a in self if a.name == name), None) or next(
            (a for a in self if a.name.lower() == lowered), None
        )


@dataclasses.dataclass(frozen=True)
class Reader:
    """Checks payloads against a schema and turns them into rows; built once per stream, used for every event.

    >>> Reader.of(Schema.of("a INTEGER, b VARCHAR")).row({"b": "x", "a": 1})
    (1, 'x')
    """

    schema: Schema
    names: tuple[str, ...]
    conversions: tuple[Callable[[Any], Any], ...]
    checks: tuple[Callable[[Any], Any], ...]
    """The same conversions, with errors that name the attribute."""

    @classmethod
    def of(cls, schema: Schema) -> Reader:
        return cls(schema, tuple(schema.names), tuple(map(_conversion, schema)), tuple(map(checker, schema)))

    def row(self, payload: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, ...]:
        """The values in schema order; an attribute that a mapping omits is NULL. Raises `TypeMismatch`."""
        values = self._values(payload)
        try:
            return tuple(converted(values, self.conversions))
        except (TypeMismatch, *CONVERSION_ERRORS):
            return tuple(converted(values, self.checks))

    @functools.cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    def _values(self, payload: Mapping[str, Any] | Sequence[Any]) -> Sequence[Any]:
        if type(payload) is dict or isinstance(payload, Mapping):
            if not self._known.issuperset(payload):
                self._refuse_unknown(payload)
            return list(map(payload.get, self.names))
        if isinstance(payload, (str, bytes)) or not isinstance(payload, Sequence):
            raise TypeMismatch(f"a payload is a mapping or a sequence in schema order, not {type(payload).__name__}")
        if len(payload) != len(self.names):
            raise TypeMismatch(f"{len(self.names)} values are expected ({self.schema}), not {len(payload)}")
        return payload

    def _refuse_unknown(self, payload: Mapping[str, Any]) -> None:
        for name in payload:
            if name not in self._known:
                raise TypeMismatch(f"unknown attribute {name!r}; the schema is ({self.schema})")


def _conversion(attribute: Attribute) -> Callable[[Any], Any]:
    """The function that converts a value of an attribute; it raises `TypeMismatch` or any of `CONVERSION_ERRORS`."""
    return (conversion if is_nested(attribute.type) else scalar_conversion)(attribute.type)


def is_reserved(name: str) -> bool:
    """Whether a name is one of the bridge's own columns, so that no attribute or result may have it."""
    return _RESERVED.fullmatch(name) is not None


def checker(attribute: Attribute) -> Callable[[Any], Any]:
    """The function that checks and converts a value (not None) of an attribute; it raises `TypeMismatch`."""
    name, kind, convert = attribute.name, attribute.type, _conversion(attribute)

    def check(value: Any) -> Any:
        try:
            return convert(value)
        except PartMismatch as error:
            raise TypeMismatch(f"attribute {name!r}, {name}{error.path}: {error.reason}") from None
        except TypeMismatch as error:
            reason = str(error).removeprefix(f"it is {kind}")
            verb = f" is {kind}" if reason != str(error) else ": "
            raise TypeMismatch(f"attribute {name!r}{verb}{reason}") from None
        except CONVERSION_ERRORS:
            raise TypeMismatch(
                f"attribute {name!r} is {kind}: {value!r} ({type(value).__name__}) does not fit"
            ) from None

    return check


def _attributes_of_text(text: str) -> Iterator[Attribute]:
    """The attributes of `a INTEGER, "b c" DECIMAL(10, 2)`; a colon may stand between name and type."""
    return (Attribute(*name_and_type(part)) for part in split_at_commas(text))


def _type_name(kind: Any) -> str:
    """The type that a mapping or a dataclass names: by a text, a Python type (also `int | None`) or an Arrow type."""
    if isinstance(kind, str):
        return kind
    if isinstance(kind, Mapping):
        return str(Struct(tuple((name, canonical_type(_type_name(part))) for name, part in kind.items())))
    if isinstance(kind, list) and len(kind) == 1:
        return str(List(_type_name(kind[0])))
    if dataclasses.is_dataclass(kind):
        return str(Struct(tuple((a.name, a.type) for a in Schema.of(kind))))
    if typing.get_origin(kind) in (list, dict):
        of, inner = (List, 0) if typing.get_origin(kind) is list else (MapType, 1)
        return str(of(_type_name(typing.get_args(kind)[inner])))
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        return _type_name(options[0]) if len(options) == 1 else _type_name(None)
    if isinstance(kind, type) and kind in _PYTHON_TYPES:
        return _PYTHON_TYPES[kind]
    if type(kind).__module__.startswith("pyarrow"):
        return type_of_arrow(kind)
    raise TypeMismatch(f"unknown type {kind!r}")


def relation_schema(columns: Sequence[tuple[str, str]]) -> Schema:
    """The schema of a relation from names and types. Unlike for streams, names may be reserved and types unknown."""
    attributes = []
    for name, kind in columns:
        attribute = object.__new__(Attribute)
        object.__setattr__(attribute, "name", name)
        object.__setattr__(attribute, "type", _known_type(kind))
        attributes.append(attribute)
    schema = object.__new__(Schema)
    object.__setattr__(schema, "attributes", tuple(attributes))
    return schema


def _known_type(kind: str) -> str:
    try:
        return canonical_type(kind)
    except TypeMismatch:
        return "UNKNOWN"
