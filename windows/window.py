"""Window extents: which rows of a stream a window holds (SEMANTICS section W)."""

from __future__ import annotations

import dataclasses
import datetime
import re

from sqlglot import exp

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

    A `slide` jumps at `k * slide + offset`. With `step` rows leave only when time passes a multiple of it, which is at
    most so much later (C4).

    >>> str(Range("2 s")), str(Range(500, slide=100)), str(Range(7, slide=5, offset=2)), str(Range(500, step=100))
    ('RANGE 2000 MS', 'RANGE 500 MS SLIDE 100 MS', 'RANGE 7 MS SLIDE 5 MS OFFSET 2 MS', 'RANGE 500 MS STEP 100 MS')
    """

    size: int
    slide: int | None = None
    offset: int = 0
    step: int | None = None

    def __post_init__(self) -> None:
        for name in ("size", "slide", "offset", "step"):
            value = getattr(self, name)
            none = value == 0 if name == "offset" else value is None
            object.__setattr__(self, name, value if none else duration(value))
        if self.offset and (self.slide is None or self.offset >= self.slide):
            raise ValueError(f"OFFSET moves the boundaries of SLIDE by less than a slide; this is {self._text()}")
        if self.slide is not None and self.step is not None:
            raise ValueError("a window has SLIDE (it jumps) or STEP (its rows leave in steps), not both")

    def __str__(self) -> str:
        return self._text()

    def _text(self) -> str:
        parts = {"SLIDE": self.slide, "OFFSET": self.offset, "STEP": self.step}
        return f"RANGE {self.size} MS" + "".join(f" {word} {value} MS" for word, value in parts.items() if value)


@dataclasses.dataclass(frozen=True)
class Rows:
    """W2: the last `count` rows; W3 with `slide`: after every `slide`-th row the content is renewed.

    With `full` for the first time when there are `count` rows, then after every `slide`-th one more (C3).

    >>> str(Rows(10)), str(Rows(10, slide=5)), str(Rows(10, slide=5, full=True))
    ('ROWS 10', 'ROWS 10 SLIDE 5', 'ROWS 10 SLIDE 5 FULL')
    """

    count: int
    slide: int | None = None
    full: bool = False

    def __post_init__(self) -> None:
        for number in (self.count, self.slide):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise ValueError(f"ROWS wants a whole number of at least 1, not {number!r}")
        if self.full and (self.slide is None or self.slide > self.count):
            raise ValueError(f"a full window slides by at most the rows that are in it: ROWS {self.count} SLIDE n FULL")

    def __str__(self) -> str:
        return f"ROWS {self.count}" + (f" SLIDE {self.slide}" if self.slide else "") + " FULL" * self.full


@dataclasses.dataclass(frozen=True)
class Batch:
    """W6: from the row for which `start` is true to the next later one for which `stop` is, told once, at that row.

    >>> import sqlglot
    >>> str(Batch(sqlglot.condition("a > 1"), sqlglot.condition("a < 0")))
    'START a > 1 STOP a < 0'
    """

    start: exp.Expr
    stop: exp.Expr

    def __str__(self) -> str:
        return f"START {self.start.sql()} STOP {self.stop.sql()}"


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


Extent = Range | Rows | Unbounded | Now | Batch


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
