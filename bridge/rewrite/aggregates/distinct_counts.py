"""COUNT(DISTINCT v) for each row in one pass, over a window whose rows leave in the order of their arrival.

A value enters the window with a row before which the window has no row of this value. It leaves with a row after which
the window has none. So the number of values is the number of rows that brought a value in, minus the number of rows
that left and took one out: two frames that only grow. LAG and LEAD, partitioned by the value, find the previous and the
next row of the same value, so values are equal exactly where DISTINCT says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.constant_frames import fixed, over_constant_frames
from bridge.rewrite.aggregates.frames import ReportedRows, aggregate_calls, begins_at_first, sessions
from bridge.rewrite.aggregates.panes import Panes
from bridge.rewrite.aggregates.partials import Partials, can_move
from bridge.rewrite.flow import NTH, OUT, Flow, Selection
from bridge.rewrite.variants import StatementWriter
from windows.databases.base import Database
from windows.sql import aliased, cast_to, column, derived_table, number, over, running_frame, unused

_Counted = tuple[query.Aggregate, Flow, ReportedRows]
"""An aggregate, its rows, and the condition on the rows that are reported."""


def over_distinct_counts(
    node: query.Aggregate, below: Flow, database: Database, reported: ReportedRows | None = None
) -> StatementWriter[exp.Select] | None:
    """The reported rows, by default the arrivals, with their aggregates.

    None if no aggregate is COUNT(DISTINCT v), or if another one cannot be computed from parts. The rows of the window
    leave in the order of their arrival, or never.
    """
    counted = _with_counts(node, below, reported or ReportedRows.of_arrivals(below))
    parts = counted and Partials.of(counted[0])
    if counted is None or parts is None or (parts.calls and below.order and reported is None):
        return None
    node, flow, reported = counted
    in_parts = Panes.of_rows(node, flow, parts).in_parts()
    return StatementWriter(
        lambda: over_constant_frames(*in_parts, can_move(parts, database), reported),
        "window frames, over the values that come and go",
    )


def _with_counts(node: query.Aggregate, below: Flow, reported: ReportedRows) -> _Counted | None:
    """The aggregate with `LAST(count)` for each COUNT(DISTINCT v), over rows with the counts; None without any."""
    assert below.content is not None
    arguments = list(dict.fromkeys(call.this.expressions[0] for call in aggregate_calls(node) if _counts_values(call)))
    if not arguments:
        return None
    names = {value: unused(f"_distinct{place}", below.content.columns) for place, value in enumerate(arguments)}

    def last_count(part: exp.Expr) -> exp.Expr:
        return exp.Last(this=column(names[part.this.expressions[0]])) if _counts_values(part) else part

    columns = tuple(item.transform(last_count) for item in node.columns)
    content = _Counts(node, below, names).content(reported.within_reach)
    flow = dataclasses.replace(below, names=(*below.names, *names.values()), content=content, variants=None)
    return dataclasses.replace(node, columns=columns), flow, ReportedRows((), reported.is_reported)


def _counts_values(call: exp.Expr) -> bool:
    """Whether an expression is `COUNT(DISTINCT v)` of one value, over all rows."""
    distinct = call.this if isinstance(call, exp.Count) and isinstance(call.this, exp.Distinct) else None
    if distinct is None or len(distinct.expressions) != 1:
        return False
    return not call.expressions and not isinstance(call.parent, (exp.Filter, exp.Window))


@dataclasses.dataclass(frozen=True)
class _Counts:
    """The counts of the values in `names`, each in a column of this name."""

    node: query.Aggregate
    below: Flow
    names: Mapping[exp.Expr, str]

    def content(self, within_reach: Sequence[exp.Expr]) -> Selection:
        """The rows that fulfil the conditions, with the counts."""
        assert self.below.content is not None
        names = [name for name in self.below.content.columns if name not in OUT]
        values = {self._name(name, "value"): value for value, name in self.names.items()}
        keys = dict(zip(map(self._group, range(len(self.node.group_by))), self.node.group_by, strict=True))
        rows = self.below.content.project({**{name: column(name) for name in names}, **keys, **values}).select()
        near = exp.select(*map(column, rows.named_selects), *self._neighbours()).from_(derived_table(rows, "d"))
        near = near.where(*within_reach)
        counts = [aliased(self._count(name), name) for name in self.names.values()]
        counted = exp.select(*map(column, names), *counts).from_(derived_table(near, "d"))
        return Selection.of(exp.Subquery(this=counted), [*names, *self.names.values()])

    def _neighbours(self) -> Iterator[exp.Expr]:
        """The places on the axis of the previous and the next row of the same value."""
        for name in self.names.values():
            same = [*self._groups, column(self._name(name, "value"))]
            for side, function in (("before", exp.Lag), ("after", exp.Lead)):
                place = over(function(this=column(self._axis)), same, self._order)
                yield aliased(place, self._name(name, side))

    def _count(self, name: str) -> exp.Expr:
        """The number of values that have entered, minus the number that have left."""
        value, before, after = (column(self._name(name, part)) for part in ("value", "before", "after"))
        is_null = exp.Is(this=value, expression=exp.null())
        if begins_at_first(self.below):
            come = _one_unless(exp.or_(is_null, exp.Not(this=exp.Is(this=before, expression=exp.null()))))
            return cast_to(over(exp.Sum(this=come), self._groups, self._order, running_frame()), "BIGINT")
        place, size = column(self._axis), fixed(number(self._size))
        is_there = exp.GT(this=before, expression=exp.Sub(this=place, expression=size))
        is_followed = exp.LT(this=after, expression=exp.Add(this=place.copy(), expression=size.copy()))
        comes, goes = (exp.Sum(this=_one_unless(exp.or_(is_null, near))) for near in (is_there, is_followed))
        come = over(comes, self._groups, self._order, running_frame())
        gone = exp.Coalesce(this=over(goes, self._groups, [place], self._frame_before()), expressions=[number(0)])
        return cast_to(exp.paren(exp.Sub(this=come, expression=gone)), "BIGINT")

    def _frame_before(self) -> exp.WindowSpec:
        """The frame of the rows that have left the window."""
        size = fixed(number(self._size))
        return exp.WindowSpec(kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end=size, end_side="PRECEDING")

    @property
    def _axis(self) -> str:
        return "ts" if self.below.last is None else NTH

    @property
    def _size(self) -> int:
        size = self.below.size if self.below.last is None else self.below.last.size
        assert size is not None
        return size

    @property
    def _groups(self) -> list[exp.Expr]:
        return [*(column(self._group(place)) for place in range(len(self.node.group_by))), *sessions(self.below)]

    @property
    def _order(self) -> list[exp.Expr]:
        return [column(name) for name in self.below.key]

    def _group(self, place: int) -> str:
        return self._unused(f"_distinct_key{place}")

    def _name(self, name: str, part: str) -> str:
        return self._unused(f"{name}_{part}")

    def _unused(self, name: str) -> str:
        assert self.below.content is not None
        return unused(name, self.below.content.columns)


def _one_unless(condition: exp.Expr) -> exp.Expr:
    """1 where the condition is not true."""
    return exp.Case().when(condition, number(0)).else_(number(1))
