"""Values of attributes: their check, their conversion, and their JSON for databases without nested types.

Equal values have equal JSON: objects have all their fields in the type's order, maps have their keys sorted.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import operator
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from windows.types import List, MapType, Struct, TypeMismatch, decimal_size, shape

Convert = Callable[[Any], Any]
"""Converts a value that is not NULL."""

CONVERSION_ERRORS = (TypeError, ValueError, ArithmeticError)
"""The errors that conversions of scalar values raise."""

_INTEGER_BITS = {"SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}


def converted(values: Sequence[Any], conversions: Sequence[Convert | None]) -> list[Any]:
    """Each value after its conversion; NULL stays NULL.

    >>> converted([1, None, "2"], [None, int, int])
    [1, None, 2]
    """
    return [
        convert(value) if convert is not None and value is not None else value
        for value, convert in zip(values, conversions, strict=True)
    ]


class PartMismatch(TypeMismatch):
    """A part of a nested value does not fit; `path` is its place, `.street` or `[2]`."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}")


def conversion(kind: str) -> Convert:
    """The function that checks and converts a value (not None) of a type; it raises `TypeMismatch`.

    >>> conversion("STRUCT(street VARCHAR, tags VARCHAR[])")({"tags": ("a", None)})
    {'street': None, 'tags': ['a', None]}
    """
    match shape(kind):
        case Struct(fields):
            return _to_struct(kind, fields)
        case List(element):
            return _to_list(kind, element)
        case MapType(value):
            return _to_map(kind, value)
    plain = scalar_conversion(kind)

    def convert(value: Any) -> Any:
        try:
            return plain(value)
        except TypeMismatch:
            raise
        except CONVERSION_ERRORS:
            raise _unfit(kind, value) from None

    return convert


def scalar_conversion(kind: str) -> Convert:
    """The same function for a scalar type; it raises `TypeMismatch` or any of `CONVERSION_ERRORS`."""
    return _CONVERSIONS.get(kind) or _to_decimal(*typing.cast("tuple[int, int]", decimal_size(kind)))


def _unfit(kind: str, value: Any) -> TypeMismatch:
    return TypeMismatch(f"it is {kind}: {value!r} ({type(value).__name__}) does not fit")


# Nested values --------------------------------------------------------------------------------------------------------


def _to_struct(kind: str, fields: Sequence[tuple[str, str]]) -> Convert:
    converts = [(name, conversion(part)) for name, part in fields]
    known = {name for name, _ in fields}

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _unfit(kind, value)
        if not known.issuperset(value):
            wrong = next(name for name in value if name not in known)
            raise PartMismatch(f".{wrong}", f"there is no such part; it is {kind}")
        return {name: _part(f".{name}", part, value.get(name)) for name, part in converts}

    return convert


def _to_list(kind: str, element: str) -> Convert:
    part = conversion(element)

    def convert(value: Any) -> list[Any]:
        if hasattr(value, "tolist"):
            value = value.tolist()  # an array of NumPy's
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise _unfit(kind, value)
        return [_part(f"[{place}]", part, each) for place, each in enumerate(value)]

    return convert


def _to_map(kind: str, of: str) -> Convert:
    key, part = conversion("VARCHAR"), conversion(of)

    def convert(value: Any) -> dict[str, Any]:
        try:
            pairs = dict(value)  # Arrow's maps are lists of pairs
        except (TypeError, ValueError):
            raise _unfit(kind, value) from None
        return {
            _part(f"[{name!r}]", key, name): _part(f"[{name!r}]", part, pairs[name]) for name in sorted(pairs, key=str)
        }

    return convert


def _part(path: str, convert: Convert, value: Any) -> Any:
    """A converted part; errors within it get its path."""
    if value is None:
        return None
    try:
        return convert(value)
    except PartMismatch as error:
        raise PartMismatch(path + error.path, error.reason) from None
    except TypeMismatch as error:
        raise PartMismatch(path, str(error)) from None


# JSON -----------------------------------------------------------------------------------------------------------------


def json_writer(kind: str) -> Convert:
    """The function that writes a checked value of a nested type as JSON.

    >>> json_writer("STRUCT(street VARCHAR, at DATE[])")({"street": "é", "at": [datetime.date(2024, 2, 29)]})
    '{"street":"é","at":["2024-02-29"]}'
    """
    write = _writer(kind)

    def text(value: Any) -> str:
        try:
            return write(value)
        except PartMismatch as error:
            raise TypeMismatch(f"{error.path}: {error.reason}") from None

    return text


def json_reader(kind: str) -> Convert:
    """The function that reads the JSON of a nested type, as a text or as parsed by a driver.

    >>> json_reader("STRUCT(street VARCHAR, at DATE[])")('{"street":"é","at":["2024-02-29"]}')
    {'street': 'é', 'at': [datetime.date(2024, 2, 29)]}
    """
    read = _reader(kind)
    return lambda value: read(json.loads(value, parse_float=decimal.Decimal) if isinstance(value, str) else value)


def _writer(kind: str) -> Callable[[Any], str]:
    match shape(kind):
        case Struct(fields):
            parts = [(json.dumps(name, ensure_ascii=False) + ":", name, _or_null(part)) for name, part in fields]
            return lambda value: "{" + ",".join([key + part(value[name]) for key, name, part in parts]) + "}"
        case List(inner):
            element = _or_null(inner)
            return lambda value: "[" + ",".join(map(element, value)) + "]"
        case MapType(inner):
            each = _or_null(inner)
            return lambda value: "{" + ",".join([f"{_text(key)}:{each(value[key])}" for key in value]) + "}"
    return _WRITERS.get(kind, str)


def _or_null(kind: str) -> Callable[[Any], str]:
    write = _writer(kind)
    return lambda value: "null" if value is None else write(value)


def _text(value: str) -> str:
    if "\0" in value:
        raise PartMismatch("", f"{value!r}: JSON of this database holds no NUL: leave it out, or use DuckDB")
    return json.dumps(value, ensure_ascii=False)


def _double(value: float) -> str:
    if not math.isfinite(value):
        raise PartMismatch("", f"JSON has no {value}: push NULL, or use DuckDB")
    return repr(value)


_WRITERS: dict[str, Callable[[Any], str]] = {
    "VARCHAR": _text, "DOUBLE": _double, "BOOLEAN": lambda value: "true" if value else "false",
    "DATE": lambda value: f'"{value.isoformat()}"', "TIMESTAMP": lambda value: f'"{timestamp_text(value)}"',
}  # fmt: skip


def timestamp_text(value: datetime.datetime) -> str:
    """A timestamp as text, always with microseconds, so that texts compare as timestamps do."""
    return value.isoformat(sep=" ", timespec="microseconds")


def _reader(kind: str) -> Convert:
    match shape(kind):
        case Struct(fields):
            parts = [(name, _reader_or_null(part)) for name, part in fields]
            return lambda value: {name: part(value.get(name)) for name, part in parts}
        case List(inner):
            element = _reader_or_null(inner)
            return lambda value: [element(each) for each in value]
        case MapType(inner):
            each = _reader_or_null(inner)
            return lambda value: {key: each(value[key]) for key in sorted(value)}
    readers: dict[str, Convert] = {
        "DOUBLE": float, "DATE": datetime.date.fromisoformat, "TIMESTAMP": datetime.datetime.fromisoformat,
    }  # fmt: skip
    size = decimal_size(kind)
    if size is None:
        return readers.get(kind, lambda value: value)
    unit, context = decimal.Decimal(1).scaleb(-size[1]), decimal.Context(prec=80)
    return lambda value: decimal.Decimal(str(value)).quantize(unit, context=context)


def _reader_or_null(kind: str) -> Convert:
    read = _reader(kind)
    return lambda value: None if value is None else read(value)


# Scalar values --------------------------------------------------------------------------------------------------------


def _to_boolean(value: Any) -> bool:
    if _is_boolean(value):
        return bool(value)
    raise TypeError


def _is_boolean(value: Any) -> bool:
    """Whether a value is a boolean of Python or NumPy."""
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
    value.encode()  # refuses a lone surrogate here, not later in the database
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
