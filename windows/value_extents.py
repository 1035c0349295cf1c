"""The kinds of windows that depend on values of the rows (docs/semantics.md, W6 and W9 to W11)."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from windows.extent import DURATION, Extent, Render, Role, as_sql, check_count
from windows.times import duration


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

    example = "START v > 9 STOP v < 5"
    jumps = True
    evicts = True

    start: exp.Expr = dataclasses.field(metadata={"role": Role.CONDITION})
    stop: exp.Expr = dataclasses.field(metadata={"role": Role.CONDITION})

    def sql(self, render: Render = as_sql) -> str:
        return f"START {render(self.start)} STOP {render(self.stop)}"


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

    example = "ROWS 3 ORDER BY v"
    evicts = True
    may_evict_newest = True
    is_sorted = True

    count: int
    order: tuple[exp.Ordered, ...] = dataclasses.field(metadata={"role": Role.ORDER, "several": True})
    last_of: tuple[exp.Expr, ...] = dataclasses.field(default=(), metadata={"role": Role.VALUE, "several": True})

    def __post_init__(self) -> None:
        check_count("ROWS", self.count)
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

    example = "TRAILING 5 S [ROWS 10]"
    syntax = rf"TRAILING (?P<size>{DURATION})(?: ROWS (?P<count>\d+))?"
    evicts = True
    may_evict_newest = True

    size: int
    count: int | None = None
    of: exp.Expr | None = dataclasses.field(default=None, metadata={"role": Role.VALUE})

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", duration(self.size))
        if self.count is not None:
            check_count("ROWS", self.count)

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

    example = "TUMBLING 5 S OF v"
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
