"""Aggregates of many events on databases whose frame bounds must be constants: each is combined from two frames.

A RANGE frame over ts also contains later rows of the same ts, which a row must not see (O2). So one frame covers the
earlier timestamps, back to the window's length, and another the rows of the same ts that have arrived. This suits
counts and sums of integers: most databases compute a moving frame of these by subtracting the rows that leave it.

The rows of a ROWS window have unique numbers in place of timestamps.

For aggregates without subtraction a database would read the whole moving frame for each row: MIN and MAX, and sums of
doubles, where subtraction would change the last digits. For these, time is cut into blocks of the window's length. A
window then consists of the rear part of one block and the front part of the next, or is one whole block; both parts
only grow (van Herk 1992; Gil and Werman 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import (
    ReportedRows,
    begins_at_first,
    frame_columns,
    group_columns,
    sessions,
    with_aggregates,
)
from bridge.rewrite.aggregates.partials import known
from bridge.rewrite.flow import NTH, Flow
from windows.sql import aliased, column, derived_table, floor_to_multiple, number, over, running_frame

_BLOCK = "_block"


def over_constant_frames(
    node: query.Aggregate, below: Flow, can_move: Callable[[exp.Expr], bool], reported: ReportedRows | None = None
) -> exp.Select:
    """The reported rows, by default the arrivals, with their aggregates. Equal frames are written once.

    `can_move(call)`: whether a moving frame computes an aggregate exactly, and as fast as a growing frame.
    """
    assert below.content is not None
    reported = reported or ReportedRows.of_arrivals(below)
    keys = group_columns(node)
    frames = _Frames([column(name) for name in keys], below, can_move)
    names = dict.fromkeys(("ts", "seq", "_expires", *below.order, *frame_columns(below), *below.names))
    values = {**{name: column(name) for name in names}, **keys}
    columns = [
        aliased(with_aggregates(item.this, node, frames.keys, frames.of_window), item.alias) for item in node.columns
    ]
    if frames.in_blocks:
        values[_BLOCK] = fixed(floor_to_multiple(column(frames.axis), frames.size))
    rows: exp.Select = below.content.project(values).select()
    framed = exp.select(*map(column, rows.named_selects), *frames.columns(0))
    framed = framed.from_(derived_table(rows, "w")).where(*reported.within_reach)
    if frames.in_blocks:
        framed = exp.select(*map(column, framed.named_selects), *frames.columns(1)).from_(derived_table(framed, "b"))
    system = [column(name) for name in ("ts", "seq", "_expires", *below.order, *keys)]
    return exp.select(*system, *columns).from_(derived_table(framed, "a")).where(reported.is_reported)


class _Frames:
    """The frames that the aggregates need, each a column. Columns of level 1 are computed over columns of level 0."""

    def __init__(self, keys: Sequence[exp.Expr], below: Flow, can_move: Callable[[exp.Expr], bool]) -> None:
        self.keys = keys
        self.axis, self.size = (NTH, below.last.size) if below.last is not None else ("ts", below.size or 1)
        self._grows = begins_at_first(below)
        self._partition, self._order = [*keys, *sessions(below)], [column(name) for name in below.key]
        self._can_move = can_move
        self._levels: tuple[dict[exp.Expr, str], dict[exp.Expr, str]] = ({}, {})

    @property
    def in_blocks(self) -> bool:
        return bool(self._levels[1])

    def columns(self, level: int) -> list[exp.Expr]:
        """The columns of a level."""
        return [aliased(call, name) for call, name in self._levels[level].items()]

    def of_window(self, call: exp.Expr) -> exp.Expr:
        """The value of an aggregate over a row's window."""
        if self._grows:
            return self._column(0, over(call.copy(), self._partition, self._order, running_frame()))
        if not self._can_move(call):
            return self._of_same(call) if self.size == 1 else self._of_blocks(call)
        if self.axis == NTH:
            return self._column(0, over(call.copy(), self.keys, [column(NTH)], self._range()))
        return (
            self._of_same(call) if self.size == 1 else merged_parts(call, self._of_earlier(call), self._of_same(call))
        )

    def _of_earlier(self, call: exp.Expr) -> exp.Expr:
        """The value over the rows of the window with earlier timestamps."""
        return self._column(0, over(call.copy(), self.keys, [column("ts")], self._range(before=1)))

    def _of_same(self, call: exp.Expr) -> exp.Expr:
        """The value over the rows of the same timestamp, up to the row."""
        return self._column(0, over(call.copy(), [*self.keys, column(self.axis)], [column("seq")], running_frame()))

    def _of_blocks(self, call: exp.Expr) -> exp.Expr:
        """The value over the window's rows of the previous block, if it begins there, and of the row's own block."""
        block, place = [*self.keys, column(_BLOCK)], column(self.axis)
        front = self._column(0, over(call.copy(), block, [place, column("seq")], running_frame()))
        backwards = exp.WindowSpec(kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
        since = self._column(0, over(call.copy(), block, [exp.Neg(this=place)], backwards))
        rear, begin = (
            self._column(1, over(exp.FirstValue(this=value), self.keys, [place], self._range()))
            for value in (since, place)
        )
        return merged_parts(call, rear, front, exp.GTE(this=begin, expression=column(_BLOCK)))

    def _range(self, before: int = 0) -> exp.WindowSpec:
        """The frame from the beginning of the window to the row's place, or to `before` places before it."""
        start = {"start": fixed(number(self.size - 1)), "start_side": "PRECEDING"}
        if not before:
            return exp.WindowSpec(kind="RANGE", **start, end="CURRENT ROW")
        return exp.WindowSpec(kind="RANGE", **start, end=fixed(number(before)), end_side="PRECEDING")

    def _column(self, level: int, call: exp.Expr) -> exp.Expr:
        names = self._levels[level]
        return column(names.setdefault(call, f"_frame{level}_{len(names)}"))


def fixed(value: exp.Expr) -> exp.Expr:
    """Marks numbers that must stay in the text, as most databases accept only literals as bounds."""
    for literal in value.find_all(exp.Literal):
        literal.meta["fixed"] = True
    return value


def merged_parts(call: exp.Expr, earlier: exp.Expr, later: exp.Expr, is_all: exp.Expr | None = None) -> exp.Expr:
    """The value over both parts of a window; `is_all`: whether the later part is the whole window."""
    aggregate = known(call)
    if aggregate.empty is not None:
        return exp.paren(aggregate.pair(earlier, later))
    no_earlier, no_later = (exp.Is(this=part.copy(), expression=exp.null()) for part in (earlier, later))
    alone = no_earlier if is_all is None else exp.or_(is_all, no_earlier)
    both = exp.Case().when(alone, later.copy()).when(no_later, earlier.copy())
    return both.else_(aggregate.pair(earlier, later))
