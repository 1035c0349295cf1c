"""Aggregates of parts: what is kept of some rows, so that it need not be made of them again (Gray et al. 1997).

Counts, sums, averages, the least and the greatest can be put together from those of parts of the rows; what is told of
the newest row alone needs no other ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import aggregates, keys_of, listed, offset_of
from bridge.rewrite.joins.equations import is_whole, terms
from windows.sql import aliased, column


@dataclasses.dataclass(frozen=True)
class Parts:
    """`kept`: the aggregates that are kept of some rows, by the names of their columns; `own`: values of the newest row.

    `columns` is the select list made of both.
    """

    kept: Mapping[str, exp.AggFunc]
    own: Mapping[str, exp.Expr]
    columns: tuple[exp.Expr, ...]

    @classmethod
    def of(cls, node: query.Aggregate) -> Parts | None:
        """Those of an aggregate's select list, over the columns `_key…` of its groups; None where one has no parts."""
        if not all(map(_has_parts, aggregates(node))):
            return None
        kept: dict[str, exp.AggFunc] = {}
        own: dict[str, exp.Expr] = {}

        def part(call: exp.AggFunc) -> exp.Expr:
            known = next((name for name, other in kept.items() if other == call), f"_part{len(kept)}")
            kept[known] = call
            return together(call, known)

        def value(call: exp.Expr) -> exp.Expr:
            if isinstance(call, exp.Last):
                name = next((name for name, other in own.items() if other == call.this), f"_own{len(own)}")
                own[name] = call.this
                return column(name)
            assert isinstance(call, exp.AggFunc)
            if not isinstance(call, exp.Avg):
                return part(call)
            total, count = part(exp.Sum(this=call.this.copy())), part(exp.Count(this=call.this.copy()))
            some = exp.Nullif(this=count, expression=exp.Literal.number(0))
            return exp.Div(this=exp.cast(total, "DOUBLE"), expression=exp.cast(some, "DOUBLE"))

        keys = [column(name) for name in keys_of(node)]
        columns = tuple(aliased(listed(item.this, node, keys, value), item.alias) for item in node.columns)
        return cls(kept, own, columns)

    def is_exact(self, part: str) -> bool:
        """Whether it is the same in whichever order it is put together: all but sums of doubles are."""
        call = self.kept[part]
        return not isinstance(call, exp.Sum) or all(is_whole(term) for _, term in terms(call.this))

    def of_rows(self) -> Iterator[tuple[str, exp.Expr]]:
        """The columns of a single row, by their names."""
        for name, call in self.kept.items():
            yield name, _of_row(call)

    def of_parts(self) -> Iterator[exp.Expr]:
        """The columns of several parts together."""
        for name, call in self.kept.items():
            yield aliased(together(call, name), name)


def together(call: exp.AggFunc, name: str) -> exp.Expr:
    """The aggregate made of its parts, which stand in the column of this name."""
    if isinstance(call, exp.Count):
        return exp.cast(exp.Sum(this=column(name)), "BIGINT")
    return type(call)(this=column(name))


def nothing_of(call: exp.AggFunc) -> exp.Expr:
    """Its column where there are no rows."""
    return exp.cast(exp.Literal.number(0), "BIGINT") if isinstance(call, exp.Count) else exp.null()


def _of_row(call: exp.AggFunc) -> exp.Expr:
    value: exp.Expr = call.this.copy()
    if not isinstance(call, exp.Count):
        return value
    one = exp.cast(exp.Literal.number(1), "BIGINT")
    if isinstance(value, exp.Star):
        return one
    is_null = exp.Is(this=value, expression=exp.null())
    return exp.Case().when(is_null, nothing_of(call)).else_(one)


def _has_parts(call: exp.Expr) -> bool:
    if isinstance(call, exp.Last):
        return not offset_of(call)
    alone = type(call) in (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max) and not call.expressions
    return alone and not isinstance(call.this, exp.Distinct) and not isinstance(call.parent, (exp.Filter, exp.Window))
