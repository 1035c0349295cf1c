"""Helpers for Arrow and numpy arrays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Array: TypeAlias = Any
"""A `pyarrow.Array`; its type depends on the database."""

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


def taken(array: Array, places: Ints) -> Array:
    """The values at these places; NULL at a negative one.

    >>> taken(pa.array(["a", "b"]), np.array([1, -1])).to_pylist()
    ['b', None]
    """
    absent = places < 0
    return array.take(pa.array(places, pa.int64(), mask=absent) if absent.any() else pa.array(places))


def ranges(firsts: Ints, lasts: Ints) -> Ints:
    """The numbers from each of the firsts to before its end.

    >>> ranges(np.array([5, 9]), np.array([7, 12])).tolist()
    [5, 6, 9, 10, 11]
    """
    counts = lasts - firsts
    before = np.cumsum(counts) - counts
    found: Ints = np.arange(int(counts.sum())) + np.repeat(firsts - before, counts)
    return found
