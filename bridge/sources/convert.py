"""Conversion of a file's columns: attributes to the types of the schema, timestamps to milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.sources.arrow import EARLIEST, LATEST
from windows.arrow import arrow_type, conformed_to, is_nested, single_chunk
from windows.schema import Attribute, TypeMismatch

Array = Any
"""An Arrow array, whole or in chunks."""

_ZONE = r"(?:[Zz]|[+-]\d\d:?\d\d)\s*$"
_DAY = 86_400_000
_TO_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


class Unfit(ValueError):
    """Some value of a column does not fit its type."""


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds text, in any of its layouts."""
    return str(kind) in ("string", "large_string", "string_view")


def plain_array(column: Array) -> Array:
    """A column as one array, without dictionary encoding, its text of the type `string`."""
    whole = single_chunk(column)
    if pa.types.is_dictionary(whole.type):
        whole = whole.cast(whole.type.value_type)
    return whole.cast(pa.string()) if is_text(whole.type) else whole


def to_attribute(column: Array, attribute: Attribute) -> Array:
    """A column converted to an attribute's type. Raises Unfit if a value would be changed or is of another kind.

    >>> to_attribute(pa.array(["2024-01-01T10:00+02:00"]), Attribute("at", "TIMESTAMP"))[0].as_py().hour
    8
    """
    values, target = plain_array(column), arrow_type(attribute.type)
    if is_nested(attribute.type) and is_convertible(values.type, attribute):
        try:
            return conformed_to(values, attribute)
        except TypeMismatch as error:
            raise Unfit(str(error)) from None
    if is_text(values.type) and attribute.type == "TIMESTAMP":
        return times_of_texts(values)
    if pa.types.is_timestamp(values.type) and attribute.type == "TIMESTAMP":
        return _cast(_cast(values, pa.timestamp("us", values.type.tz), safe=False), target)
    if not is_convertible(values.type, attribute):
        raise Unfit(f"it is {values.type}, not {attribute.type}")
    whole_to_double = pa.types.is_integer(values.type) and attribute.type == "DOUBLE"
    return _cast(values, target, safe=not whole_to_double)


def is_convertible(kind: pa.DataType, attribute: Attribute) -> bool:
    """Whether a type and an attribute are of the same kind: numbers, texts, booleans, times, or nested."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return True
    if is_nested(attribute.type) or pa.types.is_nested(kind):
        return is_nested(attribute.type) and bool(pa.types.is_nested(kind))
    if is_text(kind):
        return attribute.type in ("VARCHAR", "DATE", "TIMESTAMP")
    families: list[Callable[[pa.DataType], bool]] = [pa.types.is_boolean, _is_number, pa.types.is_temporal]
    target = arrow_type(attribute.type)
    return any(test(kind) and test(target) for test in families)


def to_times(column: Array) -> Array:
    """Timestamps in milliseconds since 1970. Whole numbers are milliseconds, times without a zone are UTC.

    Raises Unfit for a value that is missing, out of range, or not a time.

    >>> to_times(pa.array(["1970-01-01 00:00:01", "1970-01-01T01:00:02+01:00"])).to_pylist()
    [1000, 2000]
    """
    times = _milliseconds(plain_array(column))
    if times.null_count:
        raise Unfit("the timestamp is missing")
    if len(times):
        extremes: Any = pc.min_max(times).as_py()
        low, high = extremes["min"], extremes["max"]
        if low < EARLIEST or high > LATEST:
            raise Unfit(f"the timestamp is out of range ({EARLIEST} to {LATEST} ms)")
    return times


def _milliseconds(values: Array) -> Array:
    kind = values.type
    if pa.types.is_timestamp(kind):
        times, divisor = _TO_MS[kind.unit]
        return _scaled(values.cast(pa.int64()), times, divisor)
    if pa.types.is_date(kind):
        return _scaled(values.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()), _DAY, 1)
    if is_text(kind):
        return _of_texts(values)
    if pa.types.is_null(kind) or _is_number(kind):
        return _cast(values, pa.int64())
    raise Unfit(f"a timestamp is whole milliseconds or a date with a time, not {kind}")


def _of_texts(values: Array) -> Array:
    """Texts of whole numbers and of dates with times, which one column may mix."""
    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid:
        pass
    whole = pc.match_substring_regex(values, r"^\s*-?\d{5,}\s*$")
    numbers = _cast(pc.utf8_trim_whitespace(pc.if_else(whole, values, None)), pa.int64())
    times = _scaled(times_of_texts(pc.if_else(whole, None, values)).cast(pa.int64()), 1, 1000)
    return pc.coalesce(numbers, times)


def times_of_texts(values: Array) -> Array:
    """ISO 8601 texts as timestamps in UTC. Digits after the microseconds are ignored."""
    short = pc.replace_substring_regex(pc.utf8_trim_whitespace(values), r"(\.\d{6})\d+", r"\1")
    zoned = pc.match_substring_regex(short, _ZONE)
    try:
        local = pc.if_else(zoned, None, short).cast(pa.timestamp("us"))
        if not pc.any(zoned).as_py():
            return local
        universal = pc.if_else(zoned, short, None).cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        raise Unfit("it is not a date with a time, such as 2024-12-31T23:59:59.999Z") from None
    return pc.coalesce(local, universal)


def _scaled(values: Array, times: int, divisor: int) -> Array:
    """The values times `times / divisor`, rounded down. NULL stays NULL."""
    if times == divisor == 1:
        return values
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    limit = 2**62 // times
    if len(numbers) and (numbers.min() < -limit or numbers.max() > limit):
        raise Unfit("the timestamp is out of range")
    return pa.array(numbers * times // divisor, pa.int64(), mask=np.asarray(values.is_null()))


def _cast(values: Array, target: pa.DataType, safe: bool = True) -> Array:
    try:
        return values if values.type == target else values.cast(target, safe=safe)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Unfit(str(error).splitlines()[0]) from None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
