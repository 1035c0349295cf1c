"""Times in milliseconds: durations as text, and the two limits of time."""

from __future__ import annotations

import datetime
import re

BEGINNING = -(2**60)
"""The time before every event."""

NEVER = 2**63 - 1
"""The `_expires` of a row that does not expire, and the `_out` of a row that is not evicted."""

UNITS = {
    "MS": 1, "MILLISECOND": 1, "MILLISECONDS": 1, "MSEC": 1, "S": 1000, "SEC": 1000, "SECOND": 1000, "SECONDS": 1000,
    "M": 60_000, "MIN": 60_000, "MINUTE": 60_000, "MINUTES": 60_000, "H": 3_600_000, "HOUR": 3_600_000,
    "HOURS": 3_600_000, "D": 86_400_000, "DAY": 86_400_000, "DAYS": 86_400_000, "WEEK": 604_800_000,
    "WEEKS": 604_800_000,
}  # fmt: skip
"""Milliseconds per unit."""


def duration(value: int | str | datetime.timedelta) -> int:
    """The milliseconds of an integer (milliseconds), a text with a unit, or a timedelta.

    Raises:
        ValueError: if the text has no known unit, or the duration is not positive.

    >>> duration("2 MIN"), duration(datetime.timedelta(seconds=1)), duration(500)
    (120000, 1000, 500)
    """
    if isinstance(value, datetime.timedelta):
        value = value // datetime.timedelta(milliseconds=1)
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]+)\s*", value)
        if not match or match[2].upper() not in UNITS:
            raise ValueError(f"a duration reads like '500 MS' (units: {', '.join(UNITS)}), not {value!r}")
        value = int(match[1]) * UNITS[match[2].upper()]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**62:
        raise ValueError(f"a duration is a positive whole number of milliseconds, not {value!r}")
    return value
