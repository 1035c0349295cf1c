"""Schemas: the names and types of a stream's attributes, and the check of what is pushed into it."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import operator
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_RESERVED = re.compile(
    r"ts|seq|_place|_expires|_out|_out_ts|_out_place|_zero|_rank|_number|_jump|_boundary|_before|_first|_first_seq|_state"
    r"|_path|_letters|_new|_from|_key\d+|_helper\d+|_by_.*|_o_(ts|seq|_.*)|(_t)+_place|_query|_k\d*|_n|_member|_within"
    r"|_back|_step|_side\d+|_part\d+|_starts|_stops|_segment|_batch|_open|_last|_row|_age|_e\d+|cep_parameter_\d+",
    re.IGNORECASE | re.DOTALL,
)
"""Names of the bridge's own columns: an event's time and number, and what windows and operators add to rows."""

TYPES = {
    "BOOLEAN": "BOOL LOGICAL",
    "SMALLINT": "SHORT INT2 INT16",
    "INTEGER": "INT INT4 INT32",
    "BIGINT": "LONG INT8 INT64",
    "DOUBLE": "FLOAT REAL FLOAT8 FLOAT64 DOUBLE_PRECISION",
    "VARCHAR": "STRING TEXT CHAR CHARACTER NVARCHAR STR",
    "DATE": "",
    "TIMESTAMP": "DATETIME",
}
"""The attribute types and the other names under which they are accepted; `DECIMAL(p, s)` is the ninth."""

_ALIASES = {alias: name for name, aliases in TYPES.items() for alias in (name, *aliases.split())}
_INTEGER_BITS = {"SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_PYTHON_TYPES: dict[Any, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    datetime.date: "DATE",
    datetime.datetime: "TIMESTAMP",
    decimal.Decimal: "DECIMAL(18, 6)",
}


class TypeMismatch(ValueError):
    """A value, type or name that does not fit a schema; the bridge raises it as its own `SchemaError`."""


@dataclasses.dataclass(frozen=True)
class Attribute:
    """One named and typed attribute; `type` is a key of `TYPES` or `DECIMAL(p, s)`.

    >>> Attribute("price", "double")
    Attribute(name='price', type='DOUBLE')
    """

    name: str
    type: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", canonical_type(self.type))


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
            if not isinstance(name, str) or not name or not is_text(name):
                raise TypeMismatch(f"{name!r} cannot be the name of an attribute")
            if is_reserved(name):
                raise TypeMismatch(
                    f"the attribute name {name!r} is the bridge's own (every event has it): rename yours"
                )
            if name.lower() in seen:
                raise TypeMismatch(f"duplicate attribute {name!r}: names that differ only in case are one name in SQL")
            seen[name.lower()] = name

    @classmethod
    def of(cls, source: Any) -> Schema:
        """A schema from a mapping name → type, a text `"a INTEGER, b VARCHAR"`, a dataclass, or a pyarrow schema."""
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
        """The attribute of this name: as written, else ignoring case, as SQL does; None where there is none."""
        lowered = name.lower()
        return next((a for a in self if a.name == name), None) or next(
            (a for a in self if a.name.lower() == lowered), None
        )


@dataclasses.dataclass(frozen=True)
class Reader:
    """Checks payloads against a schema and turns them into rows; built once a stream, used for every event.

    >>> Reader.of(Schema.of("a INTEGER, b VARCHAR")).row({"b": "x", "a": 1})
    (1, 'x')
    """

    schema: Schema
    checks: tuple[Callable[[Any], Any], ...]
    names: frozenset[str]

    @classmethod
    def of(cls, schema: Schema) -> Reader:
        return cls(schema, tuple(checker(attribute) for attribute in schema), frozenset(schema.names))

    def row(self, payload: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, ...]:
        """The values in schema order; an attribute that a mapping leaves out is NULL."""
        values = self._values(payload)
        return tuple(
            [None if value is None else check(value) for check, value in zip(self.checks, values, strict=True)]
        )

    def _values(self, payload: Mapping[str, Any] | Sequence[Any]) -> Sequence[Any]:
        if isinstance(payload, Mapping):
            if not self.names.issuperset(payload):
                self._refuse_unknown(payload)
            return [payload.get(name) for name in self.schema.names]
        if isinstance(payload, (str, bytes)) or not isinstance(payload, Sequence):
            raise TypeMismatch(f"a payload is a mapping or a sequence in schema order, not {type(payload).__name__}")
        if len(payload) != len(self.checks):
            raise TypeMismatch(f"{len(self.checks)} values are wanted ({self.schema}), not {len(payload)}")
        return payload

    def _refuse_unknown(self, payload: Mapping[str, Any]) -> None:
        for name in payload:
            if name not in self.names:
                raise TypeMismatch(f"unknown attribute {name!r}; the schema is ({self.schema})")


def canonical_type(text: str) -> str:
    """The one spelling of a type's name: `Integer` → `INTEGER`, `varchar(20)` → `VARCHAR`.

    >>> canonical_type("decimal(10,2)")
    'DECIMAL(10, 2)'
    """
    match = re.fullmatch(r"\s*(\w+(?:\s+precision)?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*", text, re.IGNORECASE)
    word = re.sub(r"\s+", "_", match[1].upper()) if match else ""
    if match and word in ("DECIMAL", "NUMERIC"):
        precision, scale = int(match[2] or 18), int(match[3] or (0 if match[2] else 3))
        if not 1 <= precision <= 38 or scale > precision:
            raise TypeMismatch(f"{text.strip()}: a DECIMAL has 1 to 38 digits, the scale among them")
        return f"DECIMAL({precision}, {scale})"
    if match and word in _ALIASES and (match[2] is None or _ALIASES[word] == "VARCHAR"):
        return _ALIASES[word]
    raise TypeMismatch(f"unknown type {text!r}; the types are {', '.join(TYPES)}, DECIMAL(p, s)")


def quoted(name: str) -> str:
    """`name` as SQL writes it: as it is where that is safe, else in double quotes."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def is_reserved(name: str) -> bool:
    """Whether the bridge has columns of this name, so that no attribute and no result can be called so."""
    return _RESERVED.fullmatch(name) is not None


def is_text(value: str) -> bool:
    """Whether every database can hold it as a name: no lone surrogate, no NUL."""
    return "\0" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)


def decimal_size(type_name: str) -> tuple[int, int] | None:
    """Precision and scale of `DECIMAL(p, s)`, None for any other type."""
    match = re.fullmatch(r"DECIMAL\((\d+), (\d+)\)", type_name)
    return (int(match[1]), int(match[2])) if match else None


def checker(attribute: Attribute) -> Callable[[Any], Any]:
    """A function that checks and converts one value (not None) of this attribute, or raises `TypeMismatch`."""
    name, kind = attribute.name, attribute.type
    convert = _CONVERSIONS.get(kind) or _to_decimal(*typing.cast("tuple[int, int]", decimal_size(kind)))

    def check(value: Any) -> Any:
        try:
            return convert(value)
        except TypeMismatch as error:
            raise TypeMismatch(f"attribute {name!r}: {error}") from None
        except (TypeError, ValueError, ArithmeticError):
            raise TypeMismatch(
                f"attribute {name!r} is {kind}: {value!r} ({type(value).__name__}) does not fit"
            ) from None

    return check


def _to_boolean(value: Any) -> bool:
    if _is_boolean(value):
        return bool(value)
    raise TypeError


def _is_boolean(value: Any) -> bool:
    """Whether it is Python's or NumPy's."""
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _to_integer(bits: int) -> Callable[[Any], int]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def convert(value: Any) -> int:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
        if not low <= number <= high:
            raise TypeMismatch(f"{number} is out of range for {bits} bits ({low} to {high})")
        return number

    return convert


def _to_double(value: Any) -> float:
    if _is_boolean(value) or isinstance(value, (str, bytes, bytearray)):
        raise TypeError
    return float(value)


def _to_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # a lone surrogate is no text: refused here, not by the database later
    return str(value)


def _to_decimal(precision: int, scale: int) -> Callable[[Any], decimal.Decimal]:
    unit = decimal.Decimal(1).scaleb(-scale)
    context = decimal.Context(prec=precision, traps=[decimal.InvalidOperation, decimal.Inexact])

    def convert(value: Any) -> decimal.Decimal:
        if isinstance(value, bool):
            raise TypeError
        number = value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))
        if not number.is_finite():
            raise TypeMismatch(f"DECIMAL has no {value}")
        return number.quantize(unit, context=context)

    return convert


def _to_date(value: Any) -> datetime.date:
    if isinstance(value, str):
        return datetime.date.fromisoformat(value)
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise TypeError
    return value


def _to_timestamp(value: Any) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime.datetime):
        raise TypeError
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "BOOLEAN": _to_boolean,
    **{name: _to_integer(bits) for name, bits in _INTEGER_BITS.items()},
    "DOUBLE": _to_double,
    "VARCHAR": _to_text,
    "DATE": _to_date,
    "TIMESTAMP": _to_timestamp,
}


_NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|(\w+))\s*(:)?')
_TYPE = re.compile(r"\s*([^\W\d][^,(]*(?:\([^)]*\))?)\s*(?:(,)|$)")


def _attributes_of_text(text: str) -> Iterator[Attribute]:
    """`a INTEGER, "b c" DECIMAL(10, 2)` (a colon may stand between name and type)."""
    position, more = 0, True
    while more:
        name = _NAME.match(text, position)
        kind = _TYPE.match(text, name.end()) if name else None
        if not name or not kind:
            raise TypeMismatch(
                f"a schema reads 'name TYPE, name TYPE, ...'; not understood: {text[position:].strip()!r}"
            )
        yield Attribute(name[1].replace('""', '"') if name[1] else name[2], kind[1])
        position, more = kind.end(), kind[2] is not None


def _type_name(kind: Any) -> str:
    """The type of a mapping's value or a dataclass field: a text, a Python type (also `int | None`), an Arrow type."""
    if isinstance(kind, str):
        return kind
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        return _type_name(options[0]) if len(options) == 1 else _type_name(None)
    if isinstance(kind, type) and kind in _PYTHON_TYPES:
        return _PYTHON_TYPES[kind]
    if type(kind).__module__.startswith("pyarrow"):
        return type_of_arrow(kind)
    raise TypeMismatch(f"unknown type {kind!r}")


def type_of_value(value: Any) -> str | None:
    """The attribute type of a Python value; None for NULL, and for what is of no such type.

    >>> type_of_value(True), type_of_value(1), type_of_value(datetime.date(2024, 2, 29)), type_of_value(None)
    ('BOOLEAN', 'BIGINT', 'DATE', None)
    """
    kinds = {
        bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR", datetime.date: "DATE",
        datetime.datetime: "TIMESTAMP", decimal.Decimal: "DECIMAL(38, 10)",
    }  # fmt: skip
    return kinds.get(type(value))


def type_of_arrow(kind: Any) -> str:
    """The attribute type that holds every value of an Arrow type."""
    text = str(kind)
    if text.startswith("dictionary"):
        return type_of_arrow(kind.value_type)
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
