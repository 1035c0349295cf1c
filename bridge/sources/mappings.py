"""Rows that are mappings, such as dictionaries and rows of SQLAlchemy, as an Arrow table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from bridge.errors import SourceError
from bridge.sources.arrays import Array
from bridge.sources.infer import UNFIT, WIDEST, type_of_values


def is_mapping(row: Any) -> bool:
    """Whether a row is a mapping from the names of its columns to values."""
    return isinstance(row, Mapping) or hasattr(row, "_mapping")


def table_of_mappings(name: str, rows: Iterable[Any]) -> pa.Table:
    """The rows as a table with the columns of all of them. A key that a row lacks is NULL.

    Raises SourceError for a row that is not a mapping, and for a value of another kind than most of its column.

    >>> table_of_mappings("s", [{"ts": 1, "a": "x"}, {"ts": 2, "b": 0.5}]).to_pylist()
    [{'ts': 1, 'a': 'x', 'b': None}, {'ts': 2, 'a': None, 'b': 0.5}]
    """
    mappings: list[Mapping[str, Any]] = []
    for number, row in enumerate(rows, 1):
        if not is_mapping(row):
            raise SourceError(f"{name}, row {number}: {row!r} is not a mapping, as the rows before it are")
        mappings.append(row if isinstance(row, Mapping) else row._mapping)
    names = dict.fromkeys(key for row in mappings for key in row)
    return pa.table({str(key): _array(name, str(key), [row.get(key) for row in mappings]) for key in names})


def _array(name: str, column: str, values: list[Any]) -> Array:
    place = f"{name}: column {column!r}"
    try:
        array: Array = pa.array(values)
        return array if not pa.types.is_uint64(array.type) else array.cast(WIDEST)
    except UNFIT:
        pass
    kind = type_of_values(values, place)
    for number, value in enumerate(values, 1):
        try:
            pa.array([value], kind)
        except UNFIT:
            reason = f"{value!r} is not of the type of most others, {kind}"
            raise SourceError(
                f"{name}, row {number}: column {column!r}: {reason}: convert it, or leave it out"
            ) from None
    return pa.array(values, kind)
