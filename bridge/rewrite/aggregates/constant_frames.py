"""Aggregates of many events where a frame's bound is a constant: put together from two frames that may have one.

RANGE frames over ts also count the rows of the same ts that come later, which a row does not see (O2). So one frame
takes the instants before, up to the window's length back, and another the rows of the same instant that have come. That
is for counts and sums of whole numbers, of which most databases take out again what leaves a frame that moves.

The rows of a ROWS window have numbers in place of times, which no two of them share.

Where nothing can be taken out, a whole frame would be read for each row: the least and the greatest, and sums of doubles,
which would not be the same again. For these, time is cut into blocks as long as the window, which then begins in the
block before, or not before its own: it is a rear part of the one and a front part of the other, and these only grow (van
Herk 1992; Gil and Werman 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import Told, keys_of, listed
from bridge.rewrite.flow import NTH, Flow
from windows.sql import aliased, column, derived_table, floor_to_multiple, over, running_frame

_BLOCK = "_block"


def ranged(
    node: query.Aggregate, below: Flow, slides: Callable[[exp.Expr], bool], told: Told | None = None
) -> exp.Select:
    """The arrivals, or what else is told, with their aggregates. Each frame stands once: few databases see equal ones.

    `slides`: whether an aggregate is had of a frame that moves, exactly and as fast as of frames that only grow.
    """
    assert below.content is not None
    told = told or Told.of_arrivals(below)
    keys = keys_of(node)
    frames = _Frames([column(name) for name in keys], below, slides)
    names = dict.fromkeys(("ts", "seq", "_expires", *below.order, frames.axis, *below.names))
    values = {**{name: column(name) for name in names}, **keys}
    columns = [aliased(listed(item.this, node, frames.keys, frames.both), item.alias) for item in node.columns]
    if frames.in_blocks:
        values[_BLOCK] = _fixed(floor_to_multiple(column(frames.axis), frames.size))
    rows: exp.Select = below.content.project(values).select()
    found = (
        exp.select(*map(column, rows.named_selects), *frames.named(0)).from_(derived_table(rows, "w")).where(*told.near)
    )
    if frames.in_blocks:
        found = exp.select(*map(column, found.named_selects), *frames.named(1)).from_(derived_table(found, "b"))
    system = [column(name) for name in ("ts", "seq", "_expires", *below.order, *keys)]
    return exp.select(*system, *columns).from_(derived_table(found, "a")).where(told.told)


class _Frames:
    """The frames that the aggregates want, and the columns they become: some are over the columns that others gave."""

    def __init__(self, keys: Sequence[exp.Expr], below: Flow, slides: Callable[[exp.Expr], bool]) -> None:
        self.keys = keys
        self.axis, self.size = (NTH, below.last.size) if below.last is not None else ("ts", below.size or 1)
        self._slides = slides
        self._made: tuple[dict[exp.Expr, str], dict[exp.Expr, str]] = ({}, {})

    @property
    def in_blocks(self) -> bool:
        return bool(self._made[1])

    def named(self, level: int) -> list[exp.Expr]:
        """The columns of the first, or of those over these."""
        return [aliased(call, name) for call, name in self._made[level].items()]

    def both(self, call: exp.Expr) -> exp.Expr:
        """An aggregate over the window."""
        if not self._slides(call):
            return self._same(call) if self.size == 1 else self._of_blocks(call)
        if self.axis == NTH:
            return self._column(0, over(call.copy(), self.keys, [column(NTH)], self._range()))
        return self._same(call) if self.size == 1 else _joined(call, self._before(call), self._same(call))

    def _before(self, call: exp.Expr) -> exp.Expr:
        return self._column(0, over(call.copy(), self.keys, [column("ts")], self._range(before=1)))

    def _same(self, call: exp.Expr) -> exp.Expr:
        return self._column(0, over(call.copy(), [*self.keys, column(self.axis)], [column("seq")], running_frame()))

    def _of_blocks(self, call: exp.Expr) -> exp.Expr:
        """What the window has of the block before, if it begins there, and of the row's own block, up to the row."""
        block, place = [*self.keys, column(_BLOCK)], column(self.axis)
        front = self._column(0, over(call.copy(), block, [place, column("seq")], running_frame()))
        backwards = exp.WindowSpec(kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
        since = self._column(0, over(call.copy(), block, [exp.Neg(this=place)], backwards))
        rear, begun = (
            self._column(1, over(exp.FirstValue(this=value), self.keys, [place], self._range()))
            for value in (since, place)
        )
        return _joined(call, rear, front, exp.GTE(this=begun, expression=column(_BLOCK)))

    def _range(self, before: int = 0) -> exp.WindowSpec:
        """From the beginning of the window to the row's place, or to one before."""
        start = {"start": _fixed(exp.Literal.number(self.size - 1)), "start_side": "PRECEDING"}
        if not before:
            return exp.WindowSpec(kind="RANGE", **start, end="CURRENT ROW")
        return exp.WindowSpec(kind="RANGE", **start, end=_fixed(exp.Literal.number(before)), end_side="PRECEDING")

    def _column(self, level: int, call: exp.Expr) -> exp.Expr:
        made = self._made[level]
        return column(made.setdefault(call, f"_frame{level}_{len(made)}"))


def _fixed(value: exp.Expr) -> exp.Expr:
    """Numbers that must stand in the text: most databases take no other bound."""
    for literal in value.find_all(exp.Literal):
        literal.meta["fixed"] = True
    return value


def _joined(call: exp.Expr, before: exp.Expr, same: exp.Expr, is_one: exp.Expr | None = None) -> exp.Expr:
    """Both parts together, but where the latter is all; NULL is the value of no rows, but for counts."""
    if isinstance(call, exp.Count):
        return exp.paren(exp.Add(this=before, expression=same))
    both: dict[type, exp.Expr] = {
        exp.Sum: exp.Add(this=before, expression=same),
        exp.Min: exp.Least(this=before, expressions=[same]),
        exp.Max: exp.Greatest(this=before, expressions=[same]),
    }
    no_before, no_same = (exp.Is(this=part.copy(), expression=exp.null()) for part in (before, same))
    alone = no_before if is_one is None else exp.or_(is_one, no_before)
    return exp.Case().when(alone, same.copy()).when(no_same, before.copy()).else_(both[type(call)])
