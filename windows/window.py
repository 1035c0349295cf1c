"""Window extents: which rows of a stream a window holds (SEMANTICS section W)."""

from __future__ import annotations

import dataclasses
import datetime
import re

NEVER = 2**63 - 1
"""The `_expires` and `_out` of a row that nothing has pushed out yet."""

UNITS = {
    "MS": 1, "MILLISECOND": 1, "MILLISECONDS": 1, "MSEC": 1, "S": 1000, "SEC": 1000, "SECOND": 1000, "SECONDS": 1000,
    "M": 60_000, "MIN": 60_000, "MINUTE": 60_000, "MINUTES": 60_000, "H": 3_600_000, "HOUR": 3_600_000,
    "HOURS": 3_600_000, "D": 86_400_000, "DAY": 86_400_000, "DAYS": 86_400_000, "WEEK": 604_800_000,
    "WEEKS": 604_800_000,
}  # fmt: skip
"""Milliseconds a unit."""


@dataclasses.dataclass(frozen=True)
class Range:
    """W1: the rows of the last `size` milliseconds, valid in `[ts, ts + size)`; W3 with `slide`.

    >>> str(Range("2 s")), str(Range(500, slide=100))
    ('RANGE 2000 MS', 'RANGE 500 MS SLIDE 100 MS')
    """

    size: int
    slide: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", duration(self.size))
        if self.slide is not None:
            object.__setattr__(self, "slide", duration(self.slide))

    def __str__(self) -> str:
        return f"RANGE {self.size} MS" + (f" SLIDE {self.slide} MS" if self.slide else "")


@dataclasses.dataclass(frozen=True)
class Rows:
    """W2: the last `count` rows; W3 with `slide`: after every `slide`-th row the content is renewed.

    >>> str(Rows(10)), str(Rows(10, slide=5))
    ('ROWS 10', 'ROWS 10 SLIDE 5')
    """

    count: int
    slide: int | None = None

    def __post_init__(self) -> None:
        for number in (self.count, self.slide):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise ValueError(f"ROWS wants a whole number of at least 1, not {number!r}")

    def __str__(self) -> str:
        return f"ROWS {self.count}" + (f" SLIDE {self.slide}" if self.slide else "")


@dataclasses.dataclass(frozen=True)
class Unbounded:
    """W4: every row, for ever.

    >>> str(Unbounded())
    'UNBOUNDED'
    """

    def __str__(self) -> str:
        return "UNBOUNDED"


@dataclasses.dataclass(frozen=True)
class Now:
    """W4: the rows of exactly the current timestamp.

    >>> str(Now())
    'NOW'
    """

    def __str__(self) -> str:
        return "NOW"


Extent = Range | Rows | Unbounded | Now


def duration(value: int | str | datetime.timedelta) -> int:
    """Milliseconds of a whole number (milliseconds), a text with a unit, or a timedelta.

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
