"""EPL's prev and prior: values of rows so many before, which a table of the newest rows keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, add_table, arrived, order_columns, rewrite
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.variants import StatementWriter, Variants
from windows.sql import aliased, aliased_table, column, column_of, derived_table, null_safe_equal, number, over, table


class Before(NamedTuple):
    """A value of the row so many before, of the same keys; NULL where that is so many milliseconds older, or more."""

    value: exp.Expr
    rows: int
    within: int | None = None


@rewrite.register
def _(node: query.PreviousRow, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        value = Before(node.value, node.count, node.within)
        flow = with_rows_before(operator, node, network, below, below.names, node.partition_by, {node.name: value})
        operator.result = dataclasses.replace(flow, hidden=(*below.hidden, node.name))

    return network.give(network.operator(node, build, f"PreviousRow {node.name}"), node, need)


def with_rows_before(
    operator: Operator,
    node: query.Node,
    network: Network,
    below: Flow,
    names: Sequence[str],
    partition_by: Sequence[exp.Expr],
    values: Mapping[str, Before],
) -> Flow:
    """The arrivals with these of their columns, and the values of rows before them."""
    raw = network.name("raw", node)
    keys = {f"_part{place}": key for place, key in enumerate(partition_by)}
    own = ["ts", "seq", "_expires", *order_columns(below), *names]
    kept = {
        value: f"_e{place}" for place, value in enumerate(dict.fromkeys(before.value for before in values.values()))
    }
    columns = {**{name: column(name) for name in own}, **keys, **{name: value for value, name in kept.items()}}
    rows = below.arrivals.project(columns).select()
    by_index = network.database.uses_indexes and below.key == ("seq",)
    indexes = tuple(dict.fromkeys([("seq",), (*keys, "seq")]))
    add_table(operator, raw, rows, indexes if by_index else ())
    operator.steps.append(Insert(raw, rows))
    operator.purges.append(all_but_newest(raw, keys, max(before.rows for before in values.values()), below.key))
    newest = _Newest(raw, tuple(keys), below.key)

    def selected(at: Callable[[str, int], exp.Expr]) -> exp.Select:
        found = {name: _value(before, kept[before.value], at) for name, before in values.items()}
        return exp.select(*map(column, own), *(aliased(value, name) for name, value in found.items()))

    def all_in_order() -> Selection:
        known = derived_table(selected(newest.in_order).from_(table(raw)), "k")
        select = exp.select(*map(column, (*own, *values))).from_(known).where(arrived("k", below))
        return Selection.of(exp.Subquery(this=select), [*own, *values])

    def each_sought() -> Selection:
        select = selected(newest.sought).from_(aliased_table(raw, "k")).where(arrived("k", below))
        return Selection.of(exp.Subquery(this=select), [*own, *values])

    variants = (
        Variants(StatementWriter(all_in_order, "window functions"), few=StatementWriter(each_sought, "an index"))
        if by_index
        else None
    )
    return Flow((*names, *values), all_in_order(), order=below.order, timed=below.timed, variants=variants)


@dataclasses.dataclass(frozen=True)
class _Newest:
    """The table of the newest rows of these keys, in this order: what a column of it holds so many rows before one."""

    name: str
    keys: tuple[str, ...]
    order: tuple[str, ...]

    def in_order(self, value: str, back: int) -> exp.Expr:
        """Where all rows are read."""
        return over(exp.Lag(this=column(value), offset=number(back)), map(column, self.keys), map(column, self.order))

    def sought(self, value: str, back: int) -> exp.Expr:
        """By an index, before a row `k`."""
        alike = [null_safe_equal(column_of("o", key), column_of("k", key)) for key in self.keys]
        older = exp.LT(this=column_of("o", "seq"), expression=column_of("k", "seq"))
        found = exp.select(column_of("o", value)).from_(aliased_table(self.name, "o")).where(*alike, older)
        last = exp.Ordered(this=column_of("o", "seq"), desc=True)
        return exp.Subquery(this=found.order_by(last).limit(1).offset(back - 1))


def _value(before: Before, name: str, at: Callable[[str, int], exp.Expr]) -> exp.Expr:
    """The value that a column holds, where `at` tells what one of a row so many before does."""
    if before.within is None:
        return at(name, before.rows)
    since = exp.Sub(this=column("ts"), expression=number(before.within))
    return exp.Case().when(exp.GT(this=at("ts", before.rows), expression=since), at(name, before.rows))


def all_but_newest(name: str, keys: Iterable[str], count: int, order: Sequence[str]) -> Purge:
    """The rows of a table that come before so many of their keys, in this order."""
    newest = [exp.Ordered(this=column(one), desc=True) for one in order]
    place = over(exp.RowNumber(), map(column, keys), [])
    place.set("order", exp.Order(expressions=newest))
    return Purge.beyond(name, order, place, count)
