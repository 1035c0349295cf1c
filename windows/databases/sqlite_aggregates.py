"""Aggregates that SQLite lacks, and sums that may pass 64 bits on the way to a smaller total, which its own do not."""

from __future__ import annotations

import collections
from typing import Any

from windows.databases.python_aggregates import deviation_in_two_passes


def exact_total(before: int | None, high: int | None, low: int | None) -> int | None:
    """A total and the sum of further numbers, given by the sums of their upper and lower 32 bits; None for none.

    Raises:
        OverflowError: It is beyond 64 bits, or a number was, which SQLite has rounded to a double.

    >>> exact_total(-(2**63), 2**31, 7), exact_total(None, -1, 2**32 - 1), exact_total(5, None, None)
    (7, -1, 5)
    """
    if high is None or low is None:
        return before
    total = (before or 0) + (high << 32) + low
    if type(total) is not int or not -(2**63) <= total < 2**63:
        raise OverflowError
    return total


class StandardDeviation:
    """STDDEV_SAMP, which SQLite lacks: NULL for fewer than two values.

    It takes two passes, as the sum of squares loses the digits of values far from zero. Its window frames must not be
    empty, on which Python 3.11 crashes: so it has no parts in `windows.aggregates`.
    """

    def __init__(self) -> None:
        self._values: collections.deque[float] = collections.deque()

    def step(self, value: float | None) -> None:
        if value is not None:
            self._values.append(float(value))

    def inverse(self, value: float | None) -> None:
        """The oldest row leaves a window frame."""
        if value is not None:
            self._values.popleft()

    def value(self) -> float | None:
        return deviation_in_two_passes(self._values)

    finalize = value


class JsonList:
    """The JSON of a list: a step takes the JSON of an element, then the keys that order it."""

    def __init__(self) -> None:
        self._elements: list[tuple[Any, ...]] = []

    def step(self, text: str, *keys: Any) -> None:
        self._elements.append((*keys, len(self._elements), text))

    def finalize(self) -> str | None:
        return f"[{','.join(element[-1] for element in sorted(self._elements))}]" if self._elements else None


class LatestValue:
    """The value, also NULL, of the row of a group with the greatest place.

    >>> latest = LatestValue()
    >>> for value, place in ("a", 1), (None, 3), ("b", 2):
    ...     latest.step(value, place)
    >>> print(latest.finalize())
    None
    """

    def __init__(self) -> None:
        self._value: Any = None
        self._place: Any = None

    def step(self, value: Any, place: Any) -> None:
        if place is not None and (self._place is None or place > self._place):
            self._value, self._place = value, place

    def finalize(self) -> Any:
        return self._value


class EarliestValue(LatestValue):
    """The value, also NULL, of the row of a group with the least place."""

    def step(self, value: Any, place: Any) -> None:
        if place is not None and (self._place is None or place < self._place):
            self._value, self._place = value, place
