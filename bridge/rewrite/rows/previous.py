"""EPL's prev and prior: values of the n-th row before, from a table of the newest rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from bridge import query
from bridge.rewrite.computable import EarlierValue, RowsBefore
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Insert, Operator
from bridge.rewrite.state_tables import add_table, all_but_newest, arrived, order_columns
from bridge.rewrite.stored_state import StoredState, StoredTable
from bridge.rewrite.variants import StatementWriter, Variants
from windows.sql import aliased, aliased_table, column, column_of, derived_table, null_safe_equal, number, over, table


class Before(NamedTuple):
    """A value `rows` rows before a row of the same key; NULL if that row is `within` milliseconds or more older."""

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
    """The arrivals, with the columns `names` and the values of earlier rows."""
    raw = network.name("raw", node)
    keys = {f"_part{place}": key for place, key in enumerate(partition_by)}
    own = ["ts", "seq", "_expires", *order_columns(below), *names]
    stored = {value: f"_e{at}" for at, value in enumerate(dict.fromkeys(before.value for before in values.values()))}
    columns = {**{name: column(name) for name in own}, **keys, **{name: value for value, name in stored.items()}}
    rows = below.arrivals.project(columns).select()
    by_index = network.database.uses_indexes and below.key == ("seq",)
    add_table(operator, raw, rows, tuple(dict.fromkeys([("seq",), (*keys, "seq")])) if by_index else ())
    operator.steps.append(Insert(raw, rows))
    operator.purges.append(
        all_but_newest(raw, map(column, keys), max(before.rows for before in values.values()), below.key)
    )
    newest = _Newest(raw, tuple(keys), below.key)
    held = StoredTable(raw, {**{name: name for name in (*own, *keys)}, **stored})
    operator.stored = _stored_state(node, partition_by, held, max(before.rows for before in values.values()))

    def with_values(source: exp.Expr, at: Callable[[str, int], exp.Expr]) -> exp.Select:
        found = {name: _value(before, stored[before.value], at) for name, before in values.items()}
        return exp.select(*map(column, own), *(aliased(value, name) for name, value in found.items())).from_(source)

    earlier = {name: EarlierValue(stored[each.value], each.rows, each.within) for name, each in values.items()}
    mark = RowsBefore(raw, rows, tuple(keys), below.key, earlier)

    def by_window_functions() -> Selection:
        known = derived_table(with_values(table(raw), newest.by_lag), "k")
        select = mark.of(exp.select(*map(column, (*own, *values))).from_(known).where(arrived("k", below)))
        return Selection.of(exp.Subquery(this=select), [*own, *values])

    def one_by_one() -> Selection:
        select = mark.of(with_values(aliased_table(raw, "k"), newest.by_index).where(arrived("k", below)))
        return Selection.of(exp.Subquery(this=select), [*own, *values])

    every = StatementWriter(by_window_functions, "window functions")
    variants = Variants(every, few=StatementWriter(one_by_one, "an index")) if by_index else None
    names = (*names, *values)
    return Flow(names, by_window_functions(), order=below.order, timed=below.timed, variants=variants)


def _stored_state(node: query.Node, keys: Sequence[exp.Expr], held: StoredTable, most: int) -> StoredState:
    source = node.input if isinstance(node, query.PreviousRow) else node
    return StoredState(("rows before", source, tuple(keys)), {"rows": held}, (most,))


@dataclasses.dataclass(frozen=True)
class _Newest:
    """The table of the newest rows per key, ordered; its methods give the value of a column `back` rows earlier."""

    name: str
    keys: tuple[str, ...]
    order: tuple[str, ...]

    def by_lag(self, value: str, back: int) -> exp.Expr:
        """The value before a row, in a scan of all rows."""
        return over(exp.Lag(this=column(value), offset=number(back)), map(column, self.keys), map(column, self.order))

    def by_index(self, value: str, back: int) -> exp.Expr:
        """The value before a row `k`, by an index."""
        same_key = [null_safe_equal(column_of("o", key), column_of("k", key)) for key in self.keys]
        older = exp.LT(this=column_of("o", "seq"), expression=column_of("k", "seq"))
        before = exp.select(column_of("o", value)).from_(aliased_table(self.name, "o")).where(*same_key, older)
        newest_first = exp.Ordered(this=column_of("o", "seq"), desc=True)
        return exp.Subquery(this=before.order_by(newest_first).limit(1).offset(back - 1))


def _value(before: Before, name: str, at: Callable[[str, int], exp.Expr]) -> exp.Expr:
    """The earlier value, or NULL if its row is too old. `at(column, back)` gives the column of an earlier row."""
    if before.within is None:
        return at(name, before.rows)
    since = exp.Sub(this=column("ts"), expression=number(before.within))
    return exp.Case().when(exp.GT(this=at("ts", before.rows), expression=since), at(name, before.rows))
