"""Arrow types and arrays for attribute types."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from windows.schema import Attribute, TypeMismatch, checker, decimal_size
from windows.types import List, MapType, Struct, is_nested, shape, type_of_arrow


def arrow_type(type_name: str) -> Any:
    """The Arrow type of an attribute type; None if only the database knows it.

    >>> print(arrow_type("STRUCT(a INTEGER, b VARCHAR[])"))
    struct<a: int32, b: list<item: string>>
    """
    import pyarrow as pa

    match shape(type_name):
        case Struct(fields):
            return pa.struct([(name, arrow_type(kind)) for name, kind in fields])
        case List(element):
            return pa.list_(arrow_type(element))
        case MapType(value):
            return pa.map_(pa.string(), arrow_type(value))
    size = decimal_size(type_name)
    if size:
        return pa.decimal128(*size)
    return {
        "BOOLEAN": pa.bool_(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(), "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(), "VARCHAR": pa.string(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"),
    }.get(type_name)  # fmt: skip


def nested_array(values: Sequence[Any], type_name: str) -> Any:
    """Python values of a nested type as an Arrow array.

    >>> nested_array([{"k": 1.0}, None], "MAP(VARCHAR, DOUBLE)").to_pylist()
    [[('k', 1.0)], None]
    """
    import pyarrow as pa

    pairs = _with_pairs(type_name)
    return pa.array(values if pairs is None else list(map(pairs, values)), arrow_type(type_name))


def single_chunk(column: Any) -> Any:
    """The chunks of a column as one array; a single chunk is not copied.

    >>> import pyarrow
    >>> single_chunk(pyarrow.chunked_array([[1], [2]])).to_pylist()
    [1, 2]
    """
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def values_of(column: Any) -> list[Any]:
    """The values of an Arrow column in Python, maps as dictionaries."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError) as error:
        raise TypeMismatch(
            f"a date or timestamp is not in the years 1 to 9999 ({error}): use DuckDB, which takes it, or declare a VARCHAR"
        ) from None
    undo = _without_pairs(column.type)
    return values if undo is None else [undo(value) for value in values]


def array_of(values: Sequence[Any], kind: Any) -> Any:
    """Fetched values of a column as an Arrow array; `kind` is used for nested values, and if all are NULL.

    >>> array_of([None], arrow_type("DATE")).type
    DataType(date32[day])
    """
    import pyarrow as pa

    if pa.types.is_nested(kind):
        return nested_array(values, type_of_arrow(kind))
    array = pa.array(values)
    return array.cast(kind) if pa.types.is_null(array.type) else array


def conformed_to(column: Any, attribute: Attribute) -> Any:
    """A column of nested values, converted to the attribute's type. Fields that objects omit are NULL.

    Raises:
        TypeMismatch: if a value does not fit.
    """
    if column.type == arrow_type(attribute.type):
        return column
    check = checker(attribute)
    return nested_array([None if value is None else check(value) for value in column.to_pylist()], attribute.type)


def _with_pairs(type_name: str) -> Callable[[Any], Any] | None:
    """The function that turns the maps within a value into lists of pairs; None if a type has no maps."""
    match shape(type_name):
        case Struct(fields):
            changes = {name: change for name, kind in fields if (change := _with_pairs(kind)) is not None}
            if not changes:
                return None
            return lambda value: value and {**value, **{name: changes[name](value[name]) for name in changes}}
        case List(element):
            inner = _with_pairs(element)
            return None if inner is None else lambda value: value and [inner(each) for each in value]
        case MapType(element):
            change = _with_pairs(element) or (lambda value: value)
            return lambda value: None if value is None else [(key, change(each)) for key, each in value.items()]
    return None


def _without_pairs(kind: Any) -> Callable[[Any], Any] | None:
    """The inverse of `_with_pairs`: the function that turns lists of pairs into maps, for an Arrow type."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        parts = {field.name: undo for field in kind if (undo := _without_pairs(field.type)) is not None}
        if not parts:
            return None
        return lambda value: value and {**value, **{name: parts[name](value[name]) for name in parts}}
    if pa.types.is_map(kind):
        change = _without_pairs(kind.item_type) or (lambda value: value)
        return lambda value: None if value is None else {key: change(each) for key, each in sorted(value)}
    inner = _without_pairs(kind.value_type) if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
    return None if inner is None else lambda value: value and [inner(each) for each in value]


__all__ = [
    "array_of",
    "arrow_type",
    "columns_of_rows",
    "conformed_to",
    "is_nested",
    "nested_array",
    "type_of_arrow",
    "values_of",
]


def columns_of_rows(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """The values of each column of fetched rows. (`zip` with one argument per row takes several times as long.)

    >>> columns_of_rows([(1, "x"), (2, "y")], 2), columns_of_rows([], 2)
    ([[1, 2], ['x', 'y']], [[], []])
    """
    return [list(map(operator.itemgetter(place), rows)) for place in range(width)]


def ids_table(names: Sequence[str], ids: Sequence[Any]) -> Any:
    """A table of whole numbers.

    >>> ids_table(["ts", "seq"], [[1000, 2000], [1, 2]]).to_pylist()
    [{'ts': 1000, 'seq': 1}, {'ts': 2000, 'seq': 2}]
    """
    import pyarrow as pa

    return pa.table({name: pa.array(values, pa.int64()) for name, values in zip(names, ids, strict=True)})
