"""Window extents: which rows of a stream a window holds (SEMANTICS section W)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from sqlglot import exp

from windows.times import duration


@dataclasses.dataclass(frozen=True)
class Range:
    """W1: the rows of the last `size` milliseconds, valid in `[ts, ts + size)`; W3 with `slide`.

    A `slide` jumps at `k * slide + offset`, or counted from the `first` row (EPL's time_batch). With `step` rows leave
    only when time passes a multiple of it, which is at most so much later (C4).

    >>> str(Range("2 s")), str(Range(500, slide=100)), str(Range(7, slide=5, offset=2)), str(Range(500, step=100))
    ('RANGE 2000 MS', 'RANGE 500 MS SLIDE 100 MS', 'RANGE 7 MS SLIDE 5 MS OFFSET 2 MS', 'RANGE 500 MS STEP 100 MS')
    >>> str(Range(5, slide=5, first=True))
    'RANGE 5 MS SLIDE 5 MS OFFSET FIRST'
    """

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

    def __str__(self) -> str:
        return self._text() + " OFFSET FIRST" * self.first

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
        for number in (self.count, *([] if self.slide is None else [self.slide])):
            _check_count("ROWS", number)
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


@dataclasses.dataclass(frozen=True)
class FirstRows:
    """W7: the first `count` rows, for ever; a later row does not enter (EPL's firstlength, and firstunique per key).

    >>> str(FirstRows(3))
    'FIRST ROWS 3'
    """

    count: int

    def __post_init__(self) -> None:
        _check_count("FIRST ROWS", self.count)

    def __str__(self) -> str:
        return f"FIRST ROWS {self.count}"


@dataclasses.dataclass(frozen=True)
class FirstRange:
    """W7: the rows of the first `size` milliseconds after the query began, for ever (EPL's firsttime).

    A query begins with the newest time at its creation, or with the first time there is.

    >>> str(FirstRange("5 S"))
    'FIRST RANGE 5000 MS'
    """

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", duration(self.size))

    def __str__(self) -> str:
        return f"FIRST RANGE {self.size} MS"


@dataclasses.dataclass(frozen=True)
class Session:
    """W8: the rows since time last passed `gap` milliseconds without one; then all leave at once (EPL's time_accum).

    The rows are valid until the newest one's ts + gap.

    >>> str(Session("5 S"))
    'SESSION 5000 MS'
    """

    gap: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap", duration(self.gap))

    def __str__(self) -> str:
        return f"SESSION {self.gap} MS"


@dataclasses.dataclass(frozen=True)
class Top:
    """W9: of all rows so far the first `count` in an order, of equal ones the newest; NULL is least (EPL's sort).

    Whatever falls out of them leaves for good. With `last_of` a row also leaves when a newer one has equal values of
    these (EPL's rank).

    >>> import sqlglot
    >>> print(Top(3, (sqlglot.parse_one("SELECT 1 ORDER BY v DESC").args["order"].expressions[0],)))
    ROWS 3 ORDER BY v DESC
    """

    count: int
    order: tuple[exp.Ordered, ...]
    last_of: tuple[exp.Expr, ...] = ()

    def __post_init__(self) -> None:
        _check_count("ROWS", self.count)
        if not self.order:
            raise ValueError("ORDER BY wants an expression to order by")

    def __str__(self) -> str:
        last_of = f" LAST OF {_texts(self.last_of)}" if self.last_of else ""
        return f"ROWS {self.count} ORDER BY {', '.join(map(ordered, self.order))}{last_of}"


@dataclasses.dataclass(frozen=True)
class Trailing:
    """W10: the oldest row leaves while it is `size` or more behind the newest, or there are more than `count`.

    Rows leave as others come, not as time passes; they are behind in ts (milliseconds), or in what `of` gives (EPL's
    ext_timed, and expr).

    >>> str(Trailing("5 S", 10))
    'TRAILING 5000 MS ROWS 10'
    """

    size: int
    count: int | None = None
    of: exp.Expr | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", duration(self.size))
        if self.count is not None:
            _check_count("ROWS", self.count)

    def __str__(self) -> str:
        of = "" if self.of is None else f" OF {self.of.sql()}"
        return f"TRAILING {self.size} MS" + ("" if self.count is None else f" ROWS {self.count}") + of


@dataclasses.dataclass(frozen=True)
class Tumbling:
    """W11: batches by the time that `of` gives, `size` milliseconds each, told with the first row that is beyond.

    Their boundaries are counted from `origin`, or from the first row (of each key); a row for which `of` is NULL is in
    none (EPL's ext_timed_batch).

    >>> import sqlglot
    >>> str(Tumbling("5 S", sqlglot.condition("v"))), str(Tumbling("5 S", sqlglot.condition("v"), 0))
    ('TUMBLING 5000 MS OF v', 'TUMBLING 5000 MS OFFSET 0 MS OF v')
    """

    size: int
    of: exp.Expr
    origin: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", duration(self.size))
        if self.origin is not None and (isinstance(self.origin, bool) or not isinstance(self.origin, int)):
            raise ValueError(f"OFFSET wants a whole number of milliseconds, not {self.origin!r}")

    @property
    def slide(self) -> int:
        """The content is told as a whole."""
        return self.size

    def __str__(self) -> str:
        return f"{self.head} OF {self.of.sql()}"

    @property
    def head(self) -> str:
        """What stands before OF."""
        return f"TUMBLING {self.size} MS" + ("" if self.origin is None else f" OFFSET {self.origin} MS")


Extent = Range | Rows | Unbounded | Now | Batch | FirstRows | FirstRange | Session | Top | Trailing | Tumbling


def with_expressions(extent: Extent, change: Callable[[exp.Expr], exp.Expr]) -> Extent:
    """The extent with its expressions `change`d, those of its order among them."""
    match extent:
        case Batch(start, stop):
            return Batch(change(start), change(stop))
        case Trailing(of=exp.Expr() as of):
            return dataclasses.replace(extent, of=change(of))
        case Tumbling(of=of):
            return dataclasses.replace(extent, of=change(of))
        case Top(count, order, last_of):
            ordered = tuple(exp.Ordered(this=change(term.this), desc=term.args["desc"]) for term in order)
            return Top(count, ordered, tuple(map(change, last_of)))
    return extent


BY_KEY = (Rows, Batch, FirstRows, Session, Top, Trailing, Tumbling)
"""Extents that hold other rows with PARTITION BY than without."""


def ordered(item: exp.Ordered) -> str:
    """A term of an order, as it is written."""
    text: str = item.this.sql()
    return text + " DESC" * bool(item.args.get("desc"))


def _texts(expressions: Iterable[exp.Expr]) -> str:
    return ", ".join(expression.sql() for expression in expressions)


def _check_count(word: str, count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"{word} wants a whole number of at least 1, not {count!r}")
