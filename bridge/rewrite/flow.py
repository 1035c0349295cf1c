"""Selections, to which filters and maps add no sub-query, and flows, which are the rows that an operator emits."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlglot import exp

from bridge.rewrite.variants import StatementWriter, Variants
from windows.sql import (
    aliased,
    column,
    column_of,
    lexicographically_before,
    number,
    parenthesized,
    qualify_columns,
    row_number,
)
from windows.times import NEVER

TIMES = ("ts", "seq", "_expires")
"""Columns of every flow in addition to its order: time and number of the row, and its expiry from the window."""


class Need(enum.IntEnum):
    """The need of an operator's reader: its result as a SELECT, its arrivals in a table, or also the window."""

    RESULT = 0
    ARRIVALS = 1
    CONTENT = 2


@dataclasses.dataclass(frozen=True)
class Selection:
    """`SELECT columns FROM source WHERE conditions`, in parts, which a filter or a map changes."""

    source: exp.Expr
    columns: Mapping[str, exp.Expr]
    conditions: tuple[exp.Expr, ...] = ()

    @classmethod
    def of(cls, source: exp.Expr, names: Iterable[str]) -> Selection:
        """All rows of a table or sub-query, with the columns of these names."""
        return cls(source, {name: column(name) for name in names})

    def value(self, expression: exp.Expr, alias: str | None = None) -> exp.Expr:
        """An expression over this selection's columns, rewritten over its source's columns, qualified by `alias`."""

        def substituted(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            below = self.columns[node.name].copy()
            return below if node is expression else parenthesized(below)

        return qualify_columns(expression.transform(substituted), alias)

    def where(self, condition: exp.Expr) -> Selection:
        return dataclasses.replace(self, conditions=(*self.conditions, self.value(condition)))

    def project(self, columns: Mapping[str, exp.Expr]) -> Selection:
        """The same rows with other columns, given as expressions over this selection's columns."""
        return dataclasses.replace(self, columns={name: self.value(value) for name, value in columns.items()})

    def item(self, alias: str) -> exp.Expr:
        """The source as an item of FROM with this alias."""
        return exp.alias_(self.source.copy(), alias, table=True, quoted=True)

    def conditions_of(self, alias: str) -> list[exp.Expr]:
        return [qualify_columns(condition.copy(), alias) for condition in self.conditions]

    def select(self, names: Iterable[str] | None = None) -> exp.Select:
        """The selection as a statement with these columns, or all."""
        wanted = self.columns if names is None else list(names)
        select = exp.select(*(aliased(self.columns[name].copy(), name) for name in wanted), copy=False)
        conditions = (condition.copy() for condition in self.conditions)
        return select.from_(_as_item(self.source), copy=False).where(*conditions, copy=False)


class LastRows(NamedTuple):
    """The content of a ROWS window: the last `size` rows per value of `keys`; `rows` selects them from its table."""

    size: int
    keys: tuple[exp.Expr, ...]
    rows: Selection


@dataclasses.dataclass(frozen=True)
class Boundaries:
    """The boundaries of a window that jumps: the times `origin + k * slide`, in ms, or the rows with such numbers.

    Before the next boundary, statements that read the rows of the table `rows` find none. `origin` is None if it is the
    time of the first row, which the table `first` keeps. `keys`: the columns of that table per whose values rows are
    counted; None if boundaries are times.
    """

    rows: str
    slide: int
    origin: int | None
    first: str = ""
    keys: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Flow:
    """The rows that an operator emits.

    `arrivals` are the rows of the current push, `content` those of the window. `order` names the columns that order
    rows of one (ts, seq); without them there is at most one such row. Content that is `counted` has the columns `OUT`:
    the row that evicted a row from a ROWS window. `timed` rows may come as time passes; they have seq 0, which comes
    before every event of that ts. `jumping` arrivals are a window's whole content; `jump` names the columns that
    identify the jumps of one (ts, seq). `late`: readers of an event see this content as it was before the event.
    `size`: the milliseconds for which every row is valid, if they are equal for all rows. `last`: the ROWS window,
    whose content has `NTH`. `sessions_of`: the keys of a SESSION window, whose content has `SESSION`. `variants`: the
    ways to write the arrivals of a result that is not in a table; `brief` and `long` variants compare a push with the
    `window` (milliseconds), of which a brief push spans at most 1/`brief`. `boundaries`: the boundaries at which alone
    rows come and leave; None if they may do so at any time. `direct`: the same rows as a SELECT, where the arrivals are
    in an inbox from which tables of results are filled.
    """

    names: tuple[str, ...]
    arrivals: Selection
    content: Selection | None = None
    order: tuple[str, ...] = ()
    counted: bool = False
    timed: bool = False
    jumping: bool = False
    jump: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    size: int | None = None
    last: LastRows | None = None
    sessions_of: tuple[exp.Expr, ...] | None = None
    variants: Variants[StatementWriter[Selection]] | None = None
    window: int = 0
    brief: int = 0
    late: bool = False
    boundaries: Boundaries | None = None
    direct: Flow | None = None

    @property
    def system(self) -> tuple[str, ...]:
        """The columns of the arrivals that are not attributes."""
        return (*TIMES, *self.order)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that order the rows."""
        return ("ts", "seq", *self.order) if self.timed else ("seq", *self.order)

    @property
    def is_last_rows(self) -> bool:
        """Whether the content is the last rows of a window, ordered by their numbers alone."""
        numbered = self.last is not None and self.content is not None and NTH in self.content.columns
        return numbered and not (self.timed or self.order or self.jumping or self.late)

    @property
    def place_of_event(self) -> exp.Expr:
        """The place of an arrival among those of its event, from 0; it does not depend on the size of a push (D5)."""
        if not self.order:
            return number(0)
        place = row_number([column("ts"), column("seq")], map(column, self.order))
        return exp.paren(exp.Sub(this=place, expression=number(1)))

    def change(self, names: tuple[str, ...], columns: Mapping[str, exp.Expr]) -> Flow:
        """The flow with other attributes, computed by a map."""

        def mapped(selection: Selection) -> Selection:
            system = {name: column(name) for name in selection.columns if name in {*_SYSTEM, *self.order, *self.jump}}
            return selection.project({**system, **columns})

        return dataclasses.replace(
            self,
            names=names,
            arrivals=mapped(self.arrivals),
            content=self.content and mapped(self.content),
            hidden=(),
            variants=self.variants and self.variants.map(lambda writer: writer.map(mapped)),
            direct=None,
        )

    def where(self, condition: exp.Expr) -> Flow:
        def filtered(selection: Selection) -> Selection:
            return selection.where(condition)

        return dataclasses.replace(
            self,
            arrivals=filtered(self.arrivals),
            content=self.content and filtered(self.content),
            variants=self.variants and self.variants.map(lambda writer: writer.map(filtered)),
            direct=None,
        )

    @property
    def writers(self) -> Variants[StatementWriter[Selection]]:
        """The ways to write the arrivals; at least one."""
        return self.variants or Variants(StatementWriter(lambda: self.arrivals))


PLAIN = (
    exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ,
    exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.Between, exp.Add, exp.Sub, exp.Neg,
)  # fmt: skip
"""Expressions that cannot fail, whatever their values."""

OUT = ("_out_ts", "_out", "_out_place")
"""Columns of `counted` content: ts, seq and place of the row that has evicted this one."""

NTH = "_nth"
"""Column of the content of a ROWS window: the row's number among those of its key."""

SESSION = "_segment"
"""Column of the content of a SESSION window: the number of the row's session among those of its key."""

AT_LEAST = "at_least"
"""Marks a number that may be replaced by a greater one: then more rows are read, with the same results."""

INSERTED = 1_000_000_000
"""The first place of rows that an event inserts into a changeable window; rows that it changes have lower places."""

FROM = "_from"
"""Column of a result over a whole jump: the first place of the jump's rows."""

_SYSTEM = {*TIMES, "_place", *OUT, NTH, SESSION}


def not_later(row: str, than: str, order: tuple[str, ...], timed: bool, strictly: bool = False) -> exp.Expr:
    """Whether the row of alias `row` comes before the row of alias `than`, or is the same row.

    The first condition bounds the rows by one column, which a join or an index can use.
    """
    columns = ("ts", "seq", *order) if timed else ("seq", *order)
    *others, final = columns
    condition: exp.Expr = (exp.LT if strictly else exp.LTE)(
        this=column_of(row, final), expression=column_of(than, final)
    )
    for name in reversed(others):
        less = exp.LT(this=column_of(row, name), expression=column_of(than, name))
        bound = exp.LTE(this=column_of(row, name), expression=column_of(than, name))
        condition = exp.and_(bound, exp.or_(less, condition))
    return condition


def valid(
    row: str,
    at: str,
    flow: Flow,
    order: tuple[str, ...] = (),
    timed: bool = False,
    bounded: bool = False,
    exempt: exp.Expr | None = None,
) -> list[exp.Expr]:
    """The conditions under which a row of the window (alias `row`) has not expired when the row `at` has arrived.

    `order`: the columns that order the rows of one event, if `at` is a row of the same flow. `bounded` adds that the
    row is not newer than `at`, so that an index on time finds only the rows of a sliding window. Rows for which
    `exempt` holds stay although rows of the same timestamp evict them.
    """
    conditions: list[exp.Expr] = [exp.LT(this=column_of(at, "ts"), expression=column_of(row, "_expires"))]
    if flow.size is not None and flow.size != NEVER:
        since = exp.Sub(this=column_of(at, "ts"), expression=number(flow.size))
        conditions = [exp.GT(this=column_of(row, "ts"), expression=since)]
        if bounded:
            conditions.append(exp.LTE(this=column_of(row, "ts"), expression=column_of(at, "ts")))
    if flow.counted:
        names = [("ts", "_out_ts"), ("seq", "_out")] if timed else [("seq", "_out")]
        names += [("_place", "_out_place")] if order else []
        pairs: list[tuple[exp.Expr, exp.Expr]] = [(column_of(at, mine), column_of(row, its)) for mine, its in names]
        (mine, its), *others = pairs
        bound = [exp.LTE(this=mine.copy(), expression=its.copy())] if others else []
        # First, as DuckDB joins ranges by the first two plain conditions: the time alone would keep nearly all rows.
        conditions = [*bound, exp.or_(lexicographically_before(pairs), exempt), *conditions]
    return conditions


def arrived_and_valid(row: str, at: str, flow: Flow, timed: bool) -> list[exp.Expr]:
    """The conditions under which a row of another window (`row`) has arrived before the row `at` and has not expired.

    Rows of the same event count. A `late` window is seen as it was before the event.
    """
    if not flow.late:
        return [not_later(row, at, (), timed), *valid(row, at, flow, timed=timed)]
    pairs = [("ts", "_out_ts"), ("seq", "_out")] if timed else [("seq", "_out")]
    gone = lexicographically_before([(column_of(row, its), column_of(at, mine)) for mine, its in pairs])
    return [not_later(row, at, (), timed, strictly=True), exp.Not(this=exp.paren(gone))]


def _as_item(source: exp.Expr) -> exp.Expr:
    if isinstance(source, exp.Subquery):
        return exp.alias_(source.copy(), "q", table=True, quoted=True, copy=False)
    return source.copy()
