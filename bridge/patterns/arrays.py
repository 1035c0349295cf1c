"""Helpers for Arrow and numpy arrays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bridge.errors import QueryError
from windows.arrow import columns_of_rows
from windows.databases import Database

Array: TypeAlias = Any
"""A `pyarrow.Array`, whose type depends on the database."""

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


def take(array: Array, places: Ints) -> Array:
    """The values at these places; NULL at a negative one.

    >>> take(pa.array(["a", "b"]), np.array([1, -1])).to_pylist()
    ['b', None]
    """
    absent = places < 0
    return array.take(pa.array(places, pa.int64(), mask=absent) if absent.any() else pa.array(places))


def ranges(firsts: Ints, lasts: Ints) -> Ints:
    """The numbers of all ranges, each from one of `firsts` up to but without its end.

    >>> ranges(np.array([5, 9]), np.array([7, 12])).tolist()
    [5, 6, 9, 10, 11]
    """
    counts = lasts - firsts
    before = np.cumsum(counts) - counts
    found: Ints = np.arange(int(counts.sum())) + np.repeat(firsts - before, counts)
    return found


def arrow_columns(database: Database, sql: str, width: int) -> list[Array]:
    """The columns of a SELECT, each one array."""
    found = database.fetch_arrow(sql)
    if found is not None:
        return [_one(chunked) for chunked in found.columns]
    return list(map(_array, columns_of_rows(database.fetch(sql), width)))


def _one(chunked: Any) -> Array:
    return chunked.combine_chunks()


def _array(values: list[Any]) -> Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if all(value is None or (isinstance(value, (int, float)) and abs(value) <= 2**53) for value in values):
            return pa.array([None if value is None else float(value) for value in values])
        raise QueryError("a column has values of several types: CAST it in a sub-query") from None
