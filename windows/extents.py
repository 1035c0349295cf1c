"""The kinds of windows: which rows of a stream count at a time (docs/semantics.md, W1 to W11).

A new kind is a subclass of `Extent` here, a file in `bridge/rewrite/windows`, and one line in each language that has it.
In the pictures each column is a millisecond: `arrives` shows the row that arrives, `content` the rows in the window then.
"""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from windows.extent import Extent, Render, Role, as_sql
from windows.times import duration

_MS = r"\d+ ?[A-Z]+"


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

    syntax = (
        rf"RANGE (?P<size>{_MS})"
        rf"(?: SLIDE (?P<slide>{_MS})(?: OFFSET (?:(?P<offset>{_MS})|(?P<first>FIRST)))?| STEP (?P<step>{_MS}))?"
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

    syntax = r"ROWS (?P<count>\d+)(?: SLIDE (?P<slide>\d+)(?P<full> FULL)?)?"
    evicts = True

    count: int
    slide: int | None = None
    full: bool = False

    def __post_init__(self) -> None:
        for number in (self.count, *([] if self.slide is None else [self.slide])):
            _check_count("ROWS", number)
        if self.full and (self.slide is None or self.slide > self.count):
            raise ValueError(f"a full window slides by at most the rows that are in it: ROWS {self.count} SLIDE n FULL")

    jumps = property(lambda self: self.slide is not None)
    is_suffix = property(lambda self: self.slide is None)

    def has_left(self, age_ms: int, newer: int) -> bool:
        return newer >= self.count

    def sql(self, render: Render = as_sql) -> str:
        return f"ROWS {self.count}" + (f" SLIDE {self.slide}" if self.slide else "") + " FULL" * self.full


@dataclasses.dataclass(frozen=True)
class Batch(Extent):
    """W6: the rows from one for which `start` holds to the next later one for which `stop` holds, which reports them.

        arrives   a    b    c    d    e
                       start     stop
        content                  bcd                START … STOP …

    >>> import sqlglot
    >>> str(Batch(sqlglot.condition("a > 1"), sqlglot.condition("a < 0")))
    'START a > 1 STOP a < 0'
    """

    jumps = True
    evicts = True

    start: exp.Expr = dataclasses.field(metadata={"role": Role.CONDITION})
    stop: exp.Expr = dataclasses.field(metadata={"role": Role.CONDITION})

    def sql(self, render: Render = as_sql) -> str:
        return f"START {render(self.start)} STOP {render(self.stop)}"


@dataclasses.dataclass(frozen=True)
class Unbounded(Extent):
    """W4: every row, for ever.

    arrives   a    b    c
    content   a    ab   abc                     UNBOUNDED

    >>> str(Unbounded())
    'UNBOUNDED'
    """

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

    syntax = r"FIRST ROWS (?P<count>\d+)"

    count: int

    def __post_init__(self) -> None:
        _check_count("FIRST ROWS", self.count)

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

    syntax = rf"FIRST RANGE (?P<size>{_MS})"
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

    syntax = rf"SESSION (?P<gap>{_MS})"
    expires_by_time = True
    end_known = False

    gap: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap", duration(self.gap))

    def sql(self, render: Render = as_sql) -> str:
        return f"SESSION {self.gap} MS"


@dataclasses.dataclass(frozen=True)
class Top(Extent):
    """W9: the first `count` of all rows so far in an order, NULL least, of equal rows the newest (EPL's sort).

    A row that falls out does not return. With `last_of` a row also leaves when a newer one has equal values of these
    expressions (EPL's rank).

        arrives   5    3    9    4
        content   5    53   95   95                 ROWS 2 ORDER BY v DESC

    >>> import sqlglot
    >>> print(Top(3, (sqlglot.parse_one("SELECT 1 ORDER BY v DESC").args["order"].expressions[0],)))
    ROWS 3 ORDER BY v DESC
    """

    evicts = True
    may_evict_newest = True
    is_sorted = True

    count: int
    order: tuple[exp.Ordered, ...] = dataclasses.field(metadata={"role": Role.ORDER, "several": True})
    last_of: tuple[exp.Expr, ...] = dataclasses.field(default=(), metadata={"role": Role.VALUE, "several": True})

    def __post_init__(self) -> None:
        _check_count("ROWS", self.count)
        if not self.order:
            raise ValueError("ORDER BY wants an expression to order by")

    def sql(self, render: Render = as_sql) -> str:
        order = ", ".join(render(term.this) + " DESC" * bool(term.args.get("desc")) for term in self.order)
        last_of = f" LAST OF {', '.join(map(render, self.last_of))}" if self.last_of else ""
        return f"ROWS {self.count} ORDER BY {order}{last_of}"


@dataclasses.dataclass(frozen=True)
class Trailing(Extent):
    """W10: the oldest row leaves while it is `size` or more behind the newest, or while there are more than `count`.

    Rows leave as others arrive, not as time passes. They are behind in ts (milliseconds), or in the values of `of`
    (EPL's ext_timed, and expr).

        time      1    2    3    4    5    6
        arrives   a    b         c
        content   a    ab   ab   bc   bc   bc       TRAILING 3 MS

    >>> str(Trailing("5 S", 10))
    'TRAILING 5000 MS ROWS 10'
    """

    syntax = rf"TRAILING (?P<size>{_MS})(?: ROWS (?P<count>\d+))?"
    evicts = True
    may_evict_newest = True

    size: int
    count: int | None = None
    of: exp.Expr | None = dataclasses.field(default=None, metadata={"role": Role.VALUE})

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", duration(self.size))
        if self.count is not None:
            _check_count("ROWS", self.count)

    def sql(self, render: Render = as_sql) -> str:
        rows = "" if self.count is None else f" ROWS {self.count}"
        return f"TRAILING {self.size} MS{rows}" + ("" if self.of is None else f" OF {render(self.of)}")


@dataclasses.dataclass(frozen=True)
class Tumbling(Extent):
    """W11: batches of `size` milliseconds by the values of `of`, each reported by the first row beyond it.

    Boundaries are counted from `origin`, or from the first row (of each key). A row for which `of` is NULL is in no batch
    (EPL's ext_timed_batch).

        v         1    2    4    5    8
        arrives   a    b    c    d    e
        content             ab        cd            TUMBLING 3 MS OFFSET 1 MS OF v

    >>> import sqlglot
    >>> str(Tumbling("5 S", sqlglot.condition("v"))), str(Tumbling("5 S", sqlglot.condition("v"), 0))
    ('TUMBLING 5000 MS OF v', 'TUMBLING 5000 MS OFFSET 0 MS OF v')
    """

    jumps = True
    evicts = True

    size: int
    of: exp.Expr = dataclasses.field(metadata={"role": Role.TIME})
    origin: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", duration(self.size))
        if self.origin is not None and (isinstance(self.origin, bool) or not isinstance(self.origin, int)):
            raise ValueError(f"OFFSET wants a whole number of milliseconds, not {self.origin!r}")

    def sql(self, render: Render = as_sql) -> str:
        origin = "" if self.origin is None else f" OFFSET {self.origin} MS"
        return f"TUMBLING {self.size} MS{origin} OF {render(self.of)}"


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
    raise ValueError(
        "a window reads RANGE 5 S [SLIDE 1 S], ROWS 10 [SLIDE 5], FIRST ROWS 10, FIRST RANGE 5 S, SESSION 5 S, UNBOUNDED or "
        f"NOW, not {text!r}"
    )


def _check_count(word: str, count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"{word} wants a whole number of at least 1, not {count!r}")
