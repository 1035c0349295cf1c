"""Partial aggregates, which are stored so that parts of the rows are not aggregated again (Gray et al. 1997)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import aggregate_calls, group_columns, offset_of, with_aggregates
from bridge.rewrite.joins.equations import is_whole, terms
from windows.aggregates import AggregateFunction, aggregate_of, first_argument
from windows.databases import Database
from windows.sql import aliased, column, computed_as


def steady_window(node: query.Aggregate) -> query.Window | None:
    """The window that an aggregate reads; None if it also reads a table, whose rows may change between two reads."""
    below, read = node.input, [*node.columns, *node.group_by]
    while isinstance(below, (query.Filter, query.Map)):
        read += [below.condition] if isinstance(below, query.Filter) else below.columns
        below = below.input
    reads_table = any(value.find(exp.Query, exp.Table) for value in read)
    return below if isinstance(below, query.Window) and not reads_table else None


@dataclasses.dataclass(frozen=True)
class Partials:
    """A select list computed from aggregates of parts of the rows.

    Args:
        calls: the aggregates that are stored for each part, by the names of their columns.
        own: values of the newest row (LAST), by the names of their columns.
        columns: the select list, over the columns of both and the groups' `_key…` columns.
    """

    calls: Mapping[str, exp.Expr]
    own: Mapping[str, exp.Expr]
    columns: tuple[exp.Expr, ...]

    @classmethod
    def of(cls, node: query.Aggregate) -> Partials | None:
        """The partial aggregates of a select list; None if one of its aggregates cannot be computed from parts."""
        if not all(map(_has_parts, aggregate_calls(node))):
            return None
        calls: dict[str, exp.Expr] = {}
        own: dict[str, exp.Expr] = {}

        def merged(call: exp.Expr) -> exp.Expr:
            name = next((name for name, other in calls.items() if other == call), f"_part{len(calls)}")
            calls[name] = call
            return known(call).merged(column(name))

        def value(call: exp.Expr) -> exp.Expr:
            if isinstance(call, exp.Last):
                name = next((name for name, other in own.items() if other == call.this), f"_own{len(own)}")
                own[name] = call.this
                return column(name)
            parts, argument = known(call).parts, first_argument(call)
            assert parts is not None
            found = (function(this=argument.copy()) for function in parts.functions)
            parts_of = [computed_as(part, call) if isinstance(part, exp.Sum) else part for part in found] or [call]
            return parts.combine(*map(merged, parts_of))

        keys = [column(name) for name in group_columns(node)]
        columns = tuple(aliased(with_aggregates(item.this, node, keys, value), item.alias) for item in node.columns)
        return cls(calls, own, columns)

    def is_exact(self, name: str) -> bool:
        """Whether a stored aggregate does not depend on the order in which its parts are merged."""
        argument = first_argument(self.calls[name])
        return known(self.calls[name]).is_exact or all(is_whole(term) for _, term in terms(argument))

    def of_rows(self) -> Iterator[tuple[str, exp.Expr]]:
        """The columns of a single row, by name."""
        for name, call in self.calls.items():
            argument = first_argument(call)
            yield name, known(call).of_row(argument.copy())

    def of_nothing(self) -> Iterator[tuple[str, exp.Expr]]:
        """The columns for an empty set of rows, by name."""
        for name, call in self.calls.items():
            yield name, known(call).over_nothing()

    def merged(self) -> Iterator[exp.Expr]:
        """The columns of several parts, merged."""
        for name, call in self.calls.items():
            yield aliased(known(call).merged(column(name)), name)


def can_move(parts: Partials, database: Database) -> Callable[[exp.Expr], bool]:
    """Whether a moving frame computes a partial aggregate exactly, and as fast as a growing frame."""

    def moves(call: exp.Expr) -> bool:
        return parts.is_exact(call.this.name) if known(call).slides else database.fast_sliding_min_max

    return moves


def known(call: exp.Expr) -> AggregateFunction:
    """The entry of a call's function in the table of aggregates; there must be one."""
    aggregate = aggregate_of(call)
    assert aggregate is not None
    return aggregate


def _has_parts(call: exp.Expr) -> bool:
    if isinstance(call, exp.Last):
        return not offset_of(call)
    aggregate = aggregate_of(call)
    if aggregate is None or aggregate.parts is None or isinstance(call.parent, (exp.Filter, exp.Window)):
        return False
    others = call.expressions[isinstance(call, exp.AnonymousAggFunc) :]
    return not others and not isinstance(call.this, exp.Distinct)
