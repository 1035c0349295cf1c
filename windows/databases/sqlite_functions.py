"""Functions in Python that SQLite lacks: the bridge's own, whose names begin with cep_, and those of standard SQL."""

from __future__ import annotations

import collections
import math
import re
from typing import Any

from windows.databases.python_aggregates import deviation_in_two_passes
from windows.databases.sqlite_sql import remainder


def create_functions(driver: Any) -> None:
    """Adds the functions to a connection of the module sqlite3."""
    scalars = {
        "regexp": (2, _matches), "floor": (1, _floor), "cep_double": (1, _double), "cep_integer": (1, _integer),
        "cep_total": (3, exact_total), "cep_remainder": (3, remainder),
    }  # fmt: skip
    for name, (arguments, function) in scalars.items():
        driver.create_function(name, arguments, function, deterministic=True)
    driver.create_aggregate("cep_list", -1, _JsonList)
    driver.create_aggregate("cep_earliest", 2, _EarliestValue)
    driver.create_aggregate("cep_latest", 2, _LatestValue)
    for name in ("stddev", "stddev_samp"):
        driver.create_window_function(name, 1, _StandardDeviation)


def _integer(value: Any) -> Any:
    """Returns an integer; raises ValueError for a double, to which SQLite rounds an integer beyond 64 bits."""
    if type(value) is float:
        raise ValueError
    return value


def _matches(pattern: str | None, text: Any) -> bool | None:
    """The function of the operator `text REGEXP pattern`, which SQLite lacks."""
    if pattern is None or text is None:
        return None
    return re.search(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern, str(text)) is not None


def _floor(number: float | None) -> float | None:
    return number if number is None or not math.isfinite(number) else math.floor(number)  # SQLAlchemy's fails at NULL


def _double(value: float | None) -> str | None:
    """A double with all its digits, which SQLite's own text lacks."""
    if value is None:
        return None
    return repr(float(value)) if math.isfinite(value) else "9e999" if value > 0 else "-9e999"


def exact_total(before: int | None, high: int | None, low: int | None) -> int | None:
    """A total and the sum of further numbers, given by the sums of their upper and lower 32 bits; None for none.

    Raises:
        ValueError: It is beyond 64 bits, or a number was, which SQLite has rounded to a double. (The driver has other words
            for an OverflowError: a text too long.)

    >>> exact_total(-(2**63), 2**31, 7), exact_total(None, -1, 2**32 - 1), exact_total(5, None, None)
    (7, -1, 5)
    """
    if high is None or low is None:
        return before
    total = (before or 0) + (high << 32) + low
    if type(total) is not int or not -(2**63) <= total < 2**63:
        raise ValueError
    return total


class _StandardDeviation:
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


class _JsonList:
    """The JSON of a list: a step takes the JSON of an element, then the keys that order it."""

    def __init__(self) -> None:
        self._elements: list[tuple[Any, ...]] = []

    def step(self, text: str, *keys: Any) -> None:
        self._elements.append((*keys, len(self._elements), text))

    def finalize(self) -> str | None:
        return f"[{','.join(element[-1] for element in sorted(self._elements))}]" if self._elements else None


class _LatestValue:
    """The value, also NULL, of the row of a group with the greatest place.

    >>> latest = _LatestValue()
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


class _EarliestValue(_LatestValue):
    """The value, also NULL, of the row of a group with the least place."""

    def step(self, value: Any, place: Any) -> None:
        if place is not None and (self._place is None or place < self._place):
            self._value, self._place = value, place
