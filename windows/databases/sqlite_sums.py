"""Sums of whole numbers that may pass 64 bits on the way to a smaller total, which SQLite's own do not."""

from __future__ import annotations


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
