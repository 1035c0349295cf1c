"""The kinds of windows: which rows of a stream count at a time (docs/semantics.md, W1 to W11).

A new kind is a subclass of `Extent` here, a file in `bridge/rewrite/windows`, and one line in each language that has it.
The kinds that depend on values of the rows are in `windows/value_extents.py`. In the pictures each column is a millisecond:
`arrives` shows the row that arrives, `content` the rows in the window then.
"""

from __future__ import annotations

import dataclasses

from windows.extent import DURATION, Extent, Render, as_sql, check_count
from windows.times import duration
from windows.value_extents import Batch, Top, Trailing, Tumbling

__all__ = [
    "Batch", "FirstRange", "FirstRows", "Now", "Range", "Rows", "Session", "Top", "Trailing", "Tumbling", "Unbounded",
    "expected_extents", "parse_extent",
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Range(Extent):
    """W1: the rows of the last `size` milliseconds, each valid in `[ts, ts + size)`.

        time      1    2    3    4    5    6
        arrives   a    b         c
        content   a    ab   ab   bc   c    c        RANGE 3 MS

    W3 with `slide`: at each boundary `k * slide + offset` the content becomes the rows of the `size` milliseconds before
    it. Boundaries are counted from the first row with `first` (EPL's time_batch).

        time      1    2    3    4    5    6
        arrives   a    b         c
        content        a    a    ab   ab   bc       RANGE 4 MS SLIDE 2 MS

    With `step` rows leave only when time passes a multiple of it, up to `step` later (C4).

    >>> str(Range("2 s")), str(Range(500, slide=100)), str(Range(7, slide=5, offset=2)), str(Range(500, step=100))
    ('RANGE 2000 MS', 'RANGE 500 MS SLIDE 100 MS', 'RANGE 7 MS SLIDE 5 MS OFFSET 2 MS', 'RANGE 500 MS STEP 100 MS')
    >>> str(Range(5, slide=5, first=True))
    'RANGE 5 MS SLIDE 5 MS OFFSET FIRST'
    """

    example = "RANGE 5 S [SLIDE 1 S]"
    syntax = (
        rf"RANGE (?P<size>{DURATION})"
        rf"(?: SLIDE (?P<slide>{DURATION})(?: OFFSET (?:(?P<offset>{DURATION})|(?P<first>FIRST)))?| STEP (?P<step>{DURATION}))?"
    )
    holds_per_key = False
    expires_by_time = True

    size: int
    slide: int | None = None
    offset: int = 0
    step: int | None = None
    first: bool = False

    def __post_init__(self) -> None:
        for name in ("size", "slide", "offset", "step"):
            value = getattr(self, name)
            none = value == 0 if name == "offset" else value is None
            object.__setattr__(self, name, value if none else duration(value))
        if self.offset and (self.slide is None or self.offset >= self.slide):
            raise ValueError(f"OFFSET moves the boundaries of SLIDE by less than a slide; this is {self._text()}")
        if self.slide is not None and self.step is not None:
            raise ValueError("a window has SLIDE (it jumps) or STEP (its rows leave in steps), not both")
        if self.first and (self.slide is None or self.offset):
            raise ValueError("OFFSET FIRST counts the boundaries of SLIDE from the first row")

    jumps = is_timed = property(lambda self: self.slide is not None)
    is_suffix = property(lambda self: self.slide is None)
    begins_with_query = property(lambda self: self.first)

    @property
    def reach_ms(self) -> int | None:
        return None if self.first else 0 if self.slide is None else self.size + 1

    @property
    def lifetime_ms(self) -> int | None:
        return self.size + (self.step or 0) if self.slide is None else self.slide

    def has_left(self, age_ms: int, newer: int) -> bool:
        return age_ms >= self.size

    def check_keys(self) -> None:
        if self.first:
            raise ValueError("OFFSET FIRST counts from the first row of all: PARTITION BY is not supported")

    def sql(self, render: Render = as_sql) -> str:
        return self._text() + " OFFSET FIRST" * self.first

    def _text(self) -> str:
        parts = {"SLIDE": self.slide, "OFFSET": self.offset, "STEP": self.step}
        return f"RANGE {self.size} MS" + "".join(f" {word} {value} MS" for word, value in parts.items() if value)


@dataclasses.dataclass(frozen=True)
class Rows(Extent):
    """W2: the last `count` rows.

        arrives   a    b    c    d
        content   a    ab   bc   cd                 ROWS 2

    W3 with `slide`: the content is replaced at every `slide`-th row; with `full` only from the `count`-th row on (C3).

        arrives   a    b    c    d    e    f
        content        ab   ab   bcd  bcd  def      ROWS 3 SLIDE 2

    >>> str(Rows(10)), str(Rows(10, slide=5)), str(Rows(10, slide=5, full=True))
    ('ROWS 10', 'ROWS 10 SLIDE 5', 'ROWS 10 SLIDE 5 FULL')
    """

    example = "ROWS 10 [SLIDE 5]"
    syntax = r"ROWS (?P<count>\d+)(?: SLIDE (?P<slide>\d+)(?P<full> FULL)?)?"
    evicts = True

    count: int
    slide: int | None = None
    full: bool = False

    def __post_init__(self) -> None:
        for number in (self.count, *([] if self.slide is None else [self.slide])):
            check_count("ROWS", number)
        if self.full and (self.slide is None or self.slide > self.count):
            raise ValueError(f"a full window slides by at most the rows that are in it: ROWS {self.count} SLIDE n FULL")

    jumps = property(lambda self: self.slide is not None)
    is_suffix = property(lambda self: self.slide is None)

    def has_left(self, age_ms: int, newer: int) -> bool:
        return newer >= self.count

    def sql(self, render: Render = as_sql) -> str:
        return f"ROWS {self.count}" + (f" SLIDE {self.slide}" if self.slide else "") + " FULL" * self.full


@dataclasses.dataclass(frozen=True)
class Unbounded(Extent):
    """W4: every row, for ever.

    arrives   a    b    c
    content   a    ab   abc                     UNBOUNDED

    >>> str(Unbounded())
    'UNBOUNDED'
    """

    example = "UNBOUNDED"
    syntax = "UNBOUNDED"
    holds_per_key = False
    is_suffix = True
    reach_ms = 0

    def sql(self, render: Render = as_sql) -> str:
        return "UNBOUNDED"


@dataclasses.dataclass(frozen=True)
class Now(Extent):
    """W4: the rows of exactly the current timestamp.

    time      1    1    2    3
    arrives   a    b    c
    content   a    ab   c                       NOW

    >>> str(Now())
    'NOW'
    """

    example = "NOW"
    syntax = "NOW"
    holds_per_key = False
    expires_by_time = True
    reach_ms = 0
    lifetime_ms = 1

    def sql(self, render: Render = as_sql) -> str:
        return "NOW"


@dataclasses.dataclass(frozen=True)
class FirstRows(Extent):
    """W7: the first `count` rows, for ever; a later row does not enter (EPL's firstlength, and firstunique per key).

    arrives   a    b    c    d
    content   a    ab   ab   ab                 FIRST ROWS 2
    """

    example = "FIRST ROWS 3"
    syntax = r"FIRST ROWS (?P<count>\d+)"

    count: int

    def __post_init__(self) -> None:
        check_count("FIRST ROWS", self.count)

    def sql(self, render: Render = as_sql) -> str:
        return f"FIRST ROWS {self.count}"


@dataclasses.dataclass(frozen=True)
class FirstRange(Extent):
    """W7: the rows of the first `size` milliseconds after the query began, for ever (EPL's firsttime).

    A query begins at the newest timestamp when it is created, or at the first timestamp there is.

        time      1    2    3    4    5    6
        arrives   a    b         c
        content   a    ab   ab   ab   ab   ab       FIRST RANGE 3 MS
    """

    example = "FIRST RANGE 5 S"
    syntax = rf"FIRST RANGE (?P<size>{DURATION})"
    holds_per_key = False
    is_timed = True
    begins_with_query = True

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", duration(self.size))

    def sql(self, render: Render = as_sql) -> str:
        return f"FIRST RANGE {self.size} MS"


@dataclasses.dataclass(frozen=True)
class Session(Extent):
    """W8: the rows since the last `gap` milliseconds without a row; all leave together then (EPL's time_accum).

    The rows are valid until `gap` milliseconds after the newest one.

        time      1    2    3    4    5    6
        arrives   a    b                   c
        content   a    ab   ab   ab        c        SESSION 3 MS
    """

    example = "SESSION 5 S"
    syntax = rf"SESSION (?P<gap>{DURATION})"
    expires_by_time = True
    end_known = False

    gap: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap", duration(self.gap))

    def sql(self, render: Render = as_sql) -> str:
        return f"SESSION {self.gap} MS"


def parse_extent(text: str) -> Extent:
    """The extent of a text without expressions, of any kind that has a `syntax`.

    Raises:
        ValueError: if the text is of no kind, or its numbers do not fit together.

    >>> parse_extent("range 5 s slide 1 s")
    Range(size=5000, slide=1000, offset=0, step=None, first=False)
    >>> print(*(parse_extent(text) for text in ("first rows 3", "first range 5 s", "session 5 s", "now")), sep=", ")
    FIRST ROWS 3, FIRST RANGE 5000 MS, SESSION 5000 MS, NOW
    """
    plain = " ".join(text.upper().split())
    for kind in Extent.__subclasses__():
        if (extent := kind.parse(plain)) is not None:
            return extent
    raise ValueError(f"a window reads {expected_extents(text_only=True)}, not {text!r}")


def expected_extents(text_only: bool = False) -> str:
    """The texts of all kinds of windows, for a message; `text_only`: of those that `parse_extent` reads.

    >>> expected_extents(text_only=True)  # doctest: +ELLIPSIS
    'RANGE 5 S [SLIDE 1 S], ROWS 10 [SLIDE 5], UNBOUNDED, NOW, ... or TRAILING 5 S [ROWS 10]'
    """
    kinds = sorted(Extent.__subclasses__(), key=lambda kind: kind.__module__)
    *others, last = [kind.example for kind in kinds if kind.syntax or not text_only]
    return f"{', '.join(others)} or {last}"
