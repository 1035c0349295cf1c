"""Tables that only on-demand queries read. A replay has no such queries, so these tables need no rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from bridge.rewrite.plan import Insert, Operator, Purge
from windows.sql import table_names


def unread_tables(operators: Sequence[Operator], results: Iterable[exp.Expr]) -> set[str]:
    """The tables of operators that are read neither by `results` nor by steps that the results depend on.

    `results`: the statements that read the results of queries.
    """
    own = {made.name for operator in operators for made in operator.tables}
    read = {name for statement in results for name in table_names(statement)}
    fills: list[tuple[str, set[str]]] = []
    for operator in operators:
        read.update(_always_read(operator, own))
        for step in (*operator.steps, *operator.purges, *operator.pane_inserts):
            if isinstance(step, Insert):
                statements = [step.statement(push) for push, _ in step.variants.items()]
                fills.append((step.table, {name for each in statements for name in table_names(each)}))
            elif isinstance(step, Purge):
                fills.append((step.table, set(table_names(step.condition))))
    unread = own - read
    while found := [names for filled, names in fills if filled not in unread and not names.isdisjoint(unread)]:
        unread.difference_update(*found)
    return unread


def _always_read(operator: Operator, own: Iterable[str]) -> Iterator[str]:
    """The tables that this process reads itself, or in steps that are not single statements."""
    yield from (operator.constants, operator.totals)
    if operator.row_count is not None:
        yield operator.row_count.table
    if operator.boundaries is not None:
        yield from (operator.boundaries.rows, operator.boundaries.first)
    for statement in operator.deadlines:
        yield from table_names(statement)
    for step in operator.steps:
        if not isinstance(step, (Insert, Purge)):
            text = step.explained(str)
            yield from (name for name in own if name in text)
            yield from (made.name for made in operator.tables)
