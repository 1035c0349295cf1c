"""The windows that queries have over the results of other queries (W5): a result leaves with the rows it came from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import cast

from sqlglot import exp

from bridge.rewrite.flow import FROM, OUT, Flow, Selection
from bridge.rewrite.plan import Purge
from windows.sql import aliased, column, column_of, lexicographically_before, null_safe_equal, number
from windows.times import NEVER


def leaving_with(flow: Flow, origins: Sequence[tuple[Flow, dict[str, str]]]) -> Flow:
    """The content joined with the rows it came from: a result leaves with the first of them, or is absent with it."""
    assert flow.content is not None
    own = [name for name in flow.content.columns if name not in OUT]
    joined = exp.select(*(column_of("d", name) for name in own)).from_(flow.content.item("d"))
    leave: dict[str, exp.Expr] | None = {name: column_of("d", name) for name in OUT} if flow.counted else None
    for place, (origin, pairs) in enumerate(origins, 1):
        alias = f"o{place}"
        select = cast("Selection", origin.content).select([*pairs, *OUT])
        by_jump = not set(origin.jump).isdisjoint(pairs)
        rows = exp.Subquery(this=select.distinct() if by_jump else select)
        on = exp.and_(
            *(_paired(column_of(alias, its), column_of("d", own), its in origin.jump) for its, own in pairs.items())
        )
        joined = joined.join(rows.as_(alias, quoted=True), on=on)
        out: dict[str, exp.Expr] = {name: column_of(alias, name) for name in OUT}
        if by_jump:
            out[OUT[2]] = _place_of_jump(flow.content, out)
        elif any(theirs != mine for theirs, mine in pairs.items()):
            out[OUT[2]] = _end_or_begin(out)
        leave = out if leave is None else _first(leave, out)
    joined = joined.select(*(aliased(value, name) for name, value in (leave or {}).items()))
    content = Selection.of(exp.Subquery(this=joined), [*own, *OUT])
    return dataclasses.replace(flow, content=content, counted=True, last=None, sessions_of=None)


def _paired(left: exp.Expr, right: exp.Expr, nullable: bool) -> exp.Expr:
    return null_safe_equal(left, right) if nullable else exp.EQ(this=left, expression=right)


def _place_of_jump(content: Selection, out: Mapping[str, exp.Expr]) -> exp.Expr:
    """The place, among the results of the event that brings the next jump, from which this jump's have left."""
    count = exp.select(exp.Add(this=exp.Count(this=exp.Star()), expression=number(1))).from_(content.item("v"))
    pairs = [(column_of("v", own), out[name].copy()) for name, own in zip(OUT, ("ts", "seq"), strict=False)]
    earlier = exp.LT(this=column_of("v", FROM), expression=out[OUT[2]])
    count = count.where(*(exp.EQ(this=mine, expression=its) for mine, its in pairs), earlier)
    never = out[OUT[1]].copy().eq(number(NEVER))
    return exp.Case().when(never, number(NEVER)).else_(exp.Subquery(this=count))


def _end_or_begin(out: Mapping[str, exp.Expr]) -> exp.Expr:
    """The place, in the event that put a part out, from which its result has left; the part has no place there.

    A result of that same event stays to its end (O3: all rows of one event meet). Other results have left when it
    begins.
    """
    made_then = exp.and_(*(out[its].copy().eq(column_of("d", own)) for its, own in ((OUT[0], "ts"), (OUT[1], "seq"))))
    return exp.Case().when(made_then, number(NEVER)).else_(number(0))


def _first(left: Mapping[str, exp.Expr], right: Mapping[str, exp.Expr]) -> dict[str, exp.Expr]:
    """The columns of whichever of two places comes first."""
    earlier = lexicographically_before([(left[name].copy(), right[name].copy()) for name in OUT])
    return {name: exp.Case().when(earlier.copy(), left[name].copy()).else_(right[name].copy()) for name in OUT}


def purge_expired_results(name: str, flow: Flow) -> Purge:
    """A purge of rows that have been replaced, or have left with a row they came from."""
    keys = [column(key) for key in flow.key]
    inside = cast("Selection", flow.content).where(exp.EQ(this=column(OUT[1]), expression=number(NEVER)))
    row = exp.Tuple(expressions=keys) if len(keys) > 1 else keys[0]
    return Purge(name, exp.Not(this=exp.In(this=row, query=exp.Subquery(this=inside.select(flow.key)))))
