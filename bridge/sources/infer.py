"""The types of columns without types: of texts, of JSON, of Python values, and of several files together."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bridge.sources.arrays import Array, is_number, is_text
from bridge.sources.times import WHOLE, are_timestamps

_LONG = r"^\s*[-+]?\d{19,}\s*$"
_DATE = r"^\d{4}-\d\d-\d\d$"

WIDEST = pa.decimal128(38, 0)
"""The type of whole numbers beyond 64 bits."""

UNFIT = (pa.ArrowException, OverflowError, UnicodeEncodeError)


def type_of_texts(texts: Array, kind: pa.DataType, place: str) -> pa.DataType:
    """The type of a CSV column that pyarrow reads as `kind`.

    Whole numbers beyond 64 bits, for example, are DOUBLE there.

    Warns of a DOUBLE that cannot keep all digits; `place` names the column.

    >>> print(type_of_texts(pa.array(["1", "10000000000000000001"]), pa.float64(), "t.csv: column 'id'"))
    decimal128(38, 0)
    """
    if is_text(kind) and are_timestamps(texts):
        return pa.timestamp("us")
    if not pa.types.is_floating(kind):
        return kind
    if pc.all(pc.match_substring_regex(texts, WHOLE)).as_py():
        return WIDEST
    if pc.any(pc.match_substring_regex(texts, _LONG)).as_py():
        _warn_of_digits(place)
    return kind


def type_of_values(values: list[Any], place: str) -> pa.DataType:
    """The type of JSON or Python values; if they are of several kinds, that of most of them.

    Texts that are all dates or all times have the type of dates or times. `place` names the column in a warning.

    >>> print(type_of_values([1, "n/a", 3], "t.ndjson: column 'v'"))
    int64
    """
    counts = Counter(float if kind is int else kind for kind in map(type, values) if kind is not type(None))
    if not counts:
        return pa.null()
    most = counts.most_common(1)[0][0]
    kinds = (int, float) if most is float else (most,)
    same = [value for value in values if type(value) in kinds]
    return _type_of_numbers(same, place) if most is float else _type_of_family(same)


def _type_of_numbers(values: list[Any], place: str) -> pa.DataType:
    large = any(type(value) is int and not -(2**63) <= value < 2**63 for value in values)
    if all(type(value) is int for value in values):
        return WIDEST if large else pa.int64()
    if large:
        _warn_of_digits(place)
    return pa.float64()


def _type_of_family(values: list[Any]) -> pa.DataType:
    """The type of values of one kind; of lists and objects of several types, the one that most have."""
    try:
        array = pa.array(values)
        return _type_of_string(array) if pa.types.is_string(array.type) else array.type
    except UNFIT:
        pass
    types: Counter[pa.DataType] = Counter()
    for value in values:
        try:
            types[pa.array([value]).type] += 1
        except UNFIT:
            continue
    return types.most_common(1)[0][0] if types else pa.string()


def _type_of_string(texts: Array) -> pa.DataType:
    if pc.all(pc.match_substring_regex(texts, _DATE)).as_py():
        return pa.date32()
    return pa.timestamp("us") if are_timestamps(texts) else pa.string()


def _warn_of_digits(place: str) -> None:
    warnings.warn(
        f"{place} has whole numbers of 19 digits and more beside fractions: as a DOUBLE it keeps 15 to 17 digits; declare it "
        "as DECIMAL(38, n) or VARCHAR with CREATE STREAM (schemas= in Python)",
        stacklevel=2,
    )


def common_types(all_columns: list[Mapping[str, pa.DataType]], are_texts: bool) -> dict[str, pa.DataType]:
    """The type of each column of several files. `are_texts`: whether a column of several kinds is text.

    >>> print(common_types([{"v": pa.int64()}, {"v": pa.float64()}], False)["v"])
    double
    """
    types: dict[str, pa.DataType] = {}
    for columns in all_columns:
        for name, kind in columns.items():
            known = types.get(name, kind)
            types[name] = _common(known, kind) or (pa.string() if are_texts else known)
    return types


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that includes the values of two types; None if they are of different kinds."""
    one, other = (kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (one, other))
    if one == other or pa.types.is_null(other) or (is_text(one) and is_text(other)):
        return one
    if pa.types.is_null(one):
        return other
    if is_number(one) and is_number(other):
        return _common_number(one, other)
    times = [kind for kind in (one, other) if pa.types.is_timestamp(kind)]
    if times and all(pa.types.is_timestamp(kind) or pa.types.is_date(kind) for kind in (one, other)):
        return times[0]
    return None


def _common_number(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(one) or pa.types.is_floating(other):
        return pa.float64()
    sizes = [_size(kind) for kind in (one, other)]
    if not any(pa.types.is_decimal(kind) or pa.types.is_uint64(kind) for kind in (one, other)):
        return pa.int64()
    scale = max(scale for _, scale in sizes)
    return pa.decimal128(min(38, max(digits - own for digits, own in sizes) + scale), scale)


def _size(kind: pa.DataType) -> tuple[int, int]:
    """The number of digits of an exact number, and the number of them after its point."""
    return (kind.precision, kind.scale) if pa.types.is_decimal(kind) else (20 if pa.types.is_uint64(kind) else 19, 0)
