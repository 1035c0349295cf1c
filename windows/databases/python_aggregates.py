"""Aggregate functions in Python whose results equal a database's, bit by bit, for the same values in the same order."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

PythonAggregate: TypeAlias = Callable[[Collection[Any]], "float | None"]
"""The aggregate of numbers that are not NULL.

Raises ArithmeticError or ValueError if only the database can compute it.
"""


def deviation_in_two_passes(values: Collection[float]) -> float | None:
    """The standard deviation of a sample: the mean first, then the distances from it.

    >>> deviation_in_two_passes([1.0, 2.0, 3.0]), deviation_in_two_passes([1.0])
    (1.0, None)
    """
    count = len(values)
    if count < 2:
        return None
    mean = sum(values) / count
    distances = [value - mean for value in values]
    return math.sqrt(sum(distance * distance for distance in distances) / (count - 1))


def deviation_in_one_pass(values: Collection[float]) -> float | None:
    """The standard deviation of a sample by Welford's algorithm: each value changes the mean and the sum of squares.

    >>> deviation_in_one_pass([1.0, 2.0, 3.0]), deviation_in_one_pass([1.0])
    (1.0, None)
    """
    if len(values) < 2:
        return None
    mean = squares = 0.0
    for count, value in enumerate(values, 1):
        distance = value - mean
        mean += distance / count
        squares += distance * (value - mean)
    return math.sqrt(squares / (len(values) - 1))


def median(values: Collection[float]) -> float | None:
    """The middle value, or the mean of the two. Raises ValueError if it may be 0.0 or -0.0 by the order of sorting.

    >>> median([4, 1, 2]), median([4, 1, 2, 3]), median([])
    (2.0, 2.5, None)
    """
    if not values:
        return None
    ordered = sorted(values)
    last = len(ordered) - 1
    found = float(ordered[last // 2])
    if last % 2:
        found = found * 0.5 + float(ordered[last // 2 + 1]) * 0.5
    if found == 0 and len({math.copysign(1.0, value) for value in values if value == 0}) > 1:
        raise ValueError
    return found
