"""Arrow arrays on their way into a stream: plain layouts, kinds of types, and casts that do not change values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from windows.arrow import single_chunk

Array = Any
"""An Arrow array, whole or in chunks."""


class Unfit(ValueError):
    """Raised if some value of a column does not fit its type."""


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds text, in any of its layouts."""
    return str(kind) in ("string", "large_string", "string_view")


def is_bytes(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds bytes, in any of its layouts."""
    return str(kind) in ("binary", "large_binary", "binary_view") or bool(pa.types.is_fixed_size_binary(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def plain_array(column: Array) -> Array:
    """A column as one array, without dictionary encoding, its text of the type `string`."""
    whole = single_chunk(column)
    if pa.types.is_dictionary(whole.type):
        whole = whole.cast(whole.type.value_type)
    return whole.cast(pa.string()) if is_text(whole.type) else whole


def cast(values: Array, target: pa.DataType, safe: bool = True) -> Array:
    """The values as an Arrow type. If `safe`, raises Unfit for a value that would be changed."""
    try:
        return values if values.type == target else values.cast(target, safe=safe)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Unfit(str(error).splitlines()[0]) from None
