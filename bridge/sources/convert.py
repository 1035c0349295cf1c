"""Conversion of a file's columns to the types of the schema."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from bridge.sources.arrays import Array, Unfit, cast, is_bytes, is_number, is_text, plain_array
from bridge.sources.times import times_of_texts
from windows.arrow import arrow_type, conformed_to, is_nested
from windows.schema import Attribute, TypeMismatch


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
        return cast(cast(values, pa.timestamp("us", values.type.tz), safe=False), target)
    if pa.types.is_time(values.type) and attribute.type == "VARCHAR":
        return _text_of_times(values)
    if not is_convertible(values.type, attribute):
        raise Unfit(f"it is {values.type}, not {attribute.type}")
    whole_to_double = pa.types.is_integer(values.type) and attribute.type == "DOUBLE"
    return cast(values, target, safe=not whole_to_double)


def is_convertible(kind: pa.DataType, attribute: Attribute) -> bool:
    """Whether a type and an attribute are of the same kind: numbers, texts, booleans, times, or nested.

    A time of day is a text, and so are bytes, which must be UTF-8.
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return True
    if is_nested(attribute.type) or pa.types.is_nested(kind):
        return is_nested(attribute.type) and bool(pa.types.is_nested(kind))
    if is_text(kind):
        return attribute.type in ("VARCHAR", "DATE", "TIMESTAMP")
    if is_bytes(kind) or pa.types.is_time(kind):
        return attribute.type == "VARCHAR"
    families: list[Callable[[pa.DataType], bool]] = [pa.types.is_boolean, is_number, pa.types.is_temporal]
    target = arrow_type(attribute.type)
    return any(test(kind) and test(target) for test in families)


def _text_of_times(values: Array) -> Array:
    """Times of day as ISO 8601 texts, without zeros at their end."""
    text = pc.replace_substring_regex(values.cast(pa.string()), r"(\.\d*?)0+$", r"\1")
    return pc.replace_substring_regex(text, r"\.$", "")
