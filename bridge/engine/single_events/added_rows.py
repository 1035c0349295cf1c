"""The rows that INSERTs add to tables for one event, where they may be added later, along with those of other events.

Such a row consists of values of the event, or is a result of an aggregate over a window, or is a copy of such a result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from bridge.engine.single_events.bound_statements import BoundStatements
from bridge.engine.single_events.computed import Compute
from bridge.engine.single_events.memory.totals_table import TotalsUpdate
from bridge.engine.single_events.memory.window_aggregates import WindowAggregate
from bridge.engine.single_events.memory.window_content import WindowInsertion, is_next_number
from bridge.engine.single_events.memory.window_forms import has_other_clauses
from bridge.rewrite.flow import TIMES
from bridge.rewrite.plan import Insert, InsertMissing, Operator, OutputInsert, UpdateRows


class AddedRows(NamedTuple):
    """The rows that an INSERT adds: the row of an `insertion`, or the results of an `aggregate`."""

    insertion: WindowInsertion | None = None
    aggregate: WindowAggregate | None = None

    def keys(self, names: Sequence[str], bound: BoundStatements) -> Compute | None:
        """A function that computes these columns of each row that an event adds; None where only the database can."""
        if self.insertion is not None:
            return bound.arriving(self.insertion, names)
        return self.aggregate.arriving if self.aggregate is not None and not names else None


def totals_updates(
    operators: Sequence[Operator], bound: BoundStatements, empty: Collection[str]
) -> dict[str, TotalsUpdate]:
    """The rows that an event adds to tables of totals, by their names, where no other stream adds to them.

    `empty`: the inboxes of other streams.
    """
    own = frozenset([bound.stream])
    steps = [step for operator in operators if operator.sources == own for step in operator.steps]
    found = [bound.totals_update(step, empty) for step in steps if isinstance(step, UpdateRows)]
    return {each.table: each for each in found if each is not None}


def added_rows(
    operators: Sequence[Operator],
    taken: Collection[str],
    bound: BoundStatements,
    empty: Collection[str],
    totals: Mapping[str, TotalsUpdate],
) -> dict[str, AddedRows]:
    """The rows that the INSERTs of these operators add, by table. An INSERT that cannot run later is not among them.

    `taken`: tables that machines fill. `empty`: the inboxes of other streams. `totals`: what is added to tables of totals.
    """
    found: dict[str, AddedRows] = {}
    unknown = set(taken)
    own = frozenset([bound.stream])
    for operator in operators:
        jumps_in_time = operator.boundaries is not None and operator.boundaries.keys is None
        is_alone = operator.sources == own and (jumps_in_time or not operator.timed)
        for step in operator.steps:
            if isinstance(step, UpdateRows | InsertMissing | OutputInsert):
                continue
            added = _added(step, found, bound, empty, totals) if isinstance(step, Insert) and is_alone else None
            # An inbox has the rows of one push, not those of a window.
            is_window = added is not None and (added.insertion is None or step.table not in operator.inboxes)
            if added is None or not is_window or step.table in found or step.table in unknown:
                unknown.add(step.table)
                found.pop(step.table, None)
            else:
                found[step.table] = added
    return found


def _added(
    step: Insert,
    known: Mapping[str, AddedRows],
    bound: BoundStatements,
    empty: Collection[str],
    totals: Mapping[str, TotalsUpdate],
) -> AddedRows | None:
    """The rows that one INSERT adds; `known`: those that the INSERTs before it add."""
    if bound.row is None:
        return None

    def write() -> exp.Expr:
        return step.statement("one")

    read = bound.tables(step, write) - {step.table}
    if read == {bound.row.table}:
        insertion = bound.insertion(step, write)
        if insertion is not None and insertion.is_safe:
            return AddedRows(insertion)
    results = {table: each for table, each in known.items() if each.aggregate is not None}
    if len(read) == 1 and read <= results.keys():
        return results[next(iter(read))] if _is_copy(write().expression, step.table) else None
    insertions = {table: each.insertion for table, each in known.items() if each.insertion is not None}
    if read <= {bound.row.table, *insertions, *totals}:
        aggregate = bound.aggregate(step, lambda: _without_times(write().expression), insertions, empty, totals)
        return None if aggregate is None else AddedRows(aggregate=aggregate)
    return None


def _without_times(select: exp.Expr) -> exp.Expr:
    """The SELECT without the columns that each event has: its time and number, and the time at which its row expires."""
    kept = [item for item in select.expressions if item.alias_or_name not in TIMES]
    return select.copy().select(*kept, append=False) if isinstance(select, exp.Select) else select


def _is_copy(select: exp.Expr, into: str) -> bool:
    """Whether a SELECT gives each row of its table, and cannot fail."""
    if not isinstance(select, exp.Select) or has_other_clauses(select, ("expressions", "from_")):
        return False
    source = select.args["from_"].this
    values = [item.unalias() for item in select.expressions]
    is_safe = all(
        isinstance(value, exp.Column | exp.Literal) or _is_later(value) or is_next_number(value, into)
        for value in values
    )
    return is_safe and (isinstance(source, exp.Table) or _is_copy(source.this, into))


def _is_later(value: exp.Expr) -> bool:
    """Whether a value is the timestamp and a number of milliseconds."""
    is_sum = isinstance(value, exp.Add) and isinstance(value.this, exp.Column) and value.this.name == "ts"
    return is_sum and isinstance(value.expression, exp.Literal)
