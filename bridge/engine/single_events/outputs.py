"""Tables of results (`into=`, and those of named processors), filled with results that this process has computed.

A push of many events fills such a table by an INSERT from an inbox of results. Where this process computes the results
of an event, it inserts them itself within the push, and that inbox stays empty.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

from sqlglot import exp

from bridge.engine.catalogue import QueryEntry, ResultQuery
from bridge.engine.results import ResultStatement
from bridge.engine.single_events.marked_values import BoundStatement, Row, is_marked, marked, parameter
from bridge.query.scripts import IntoTable
from bridge.rewrite.plan import Call, Insert, Operator, OutputInsert, Purge, RowCall
from bridge.stores.check import RESULT_ID, RESULT_NUMBER
from windows.databases import Database
from windows.schema import Attribute
from windows.sql import column, identifier, number, table, table_names
from windows.types import PYTHON_TYPES


@dataclasses.dataclass(frozen=True, eq=False)
class TableOutput:
    """A table that gets the results of a query, by the step `insert` where the database computes them."""

    entry: QueryEntry
    insert: OutputInsert
    database: Database

    @functools.cached_property
    def result(self) -> ResultStatement:
        """The statement that reads the results that the table gets."""
        return ResultStatement([self.entry], self.query.statement, self.query.text)

    @property
    def query(self) -> ResultQuery:
        """The same for a single event; its text is equal where two tables get the same results."""
        return result_query(self.entry)

    @property
    def has_types(self) -> bool:
        """Whether this process computes values of the types of all columns."""
        fields = self.entry.fields
        if not all(field.type in PYTHON_TYPES for field in fields):
            return False
        return all(self.database.value_type(Attribute(field.name, field.type)) is not None for field in fields)

    def write(self, event: Row, rows: Sequence[Row]) -> None:
        """Inserts the results of an event: `ts` and the columns of the query."""
        places = range(len(rows)) if self.entry.flow.order else [0] * len(rows)
        for place, row in zip(places, rows, strict=True):
            name = f"{self.insert.writer}/{row[0]}/{event[1]}/{place}"
            self._statement.run(self.database, (name, *row))

    @functools.cached_property
    def _statement(self) -> BoundStatement:
        """The INSERT of one row. Its values: the id, `ts`, the columns of the query."""
        values = {RESULT_ID: (0, "VARCHAR"), "ts": (1, "BIGINT")}
        own = {field.name.lower(): (place, field.type) for place, field in enumerate(self.entry.fields, 2)}
        if RESULT_ID not in self.insert.system:
            del values[RESULT_ID]
        items = []
        for name in self.insert.columns:
            if name in self.insert.system and name == RESULT_NUMBER:
                items.append(self._next_number())
                continue
            place, kind = {**own, **values}[name.lower()]
            items.append(parameter(place, str(self.database.value_type(Attribute(name, kind))), self.database))
        names = [identifier(name) for name in self.insert.columns]
        insert = exp.insert(exp.select(*items), table(self.insert.table), columns=names)
        return marked(self.database.render(insert), self.database.placeholder)

    def _next_number(self) -> exp.Expr:
        newest = exp.select(exp.Max(this=column(RESULT_NUMBER))).from_(table(self.insert.table))
        return exp.Coalesce(this=exp.Subquery(this=newest), expressions=[number(0)]) + 1


def table_outputs(
    operators: Iterable[Operator], entries: Iterable[QueryEntry], database: Database
) -> list[TableOutput]:
    """The tables that operators fill with results that this process may compute, in the order of their steps."""
    found = []
    known = [entry for entry in entries if entry.direct is not None]
    for operator in operators:
        for step in operator.steps:
            if not isinstance(step, OutputInsert):
                continue
            own = [entry for entry in known if operator in entry.operators and _table_of(entry) == step.table]
            if own and not own[0].flow.timed and not any(map(is_marked, (step.table, *step.columns))):
                output = TableOutput(own[0], step, database)
                if output.has_types:
                    found.append(output)
    return found


def _table_of(entry: QueryEntry) -> str | None:
    node = entry.resolved.node
    return node.table if isinstance(node, IntoTable) else None


def result_query(entry: QueryEntry) -> ResultQuery:
    """The statement of the results of an event, without the inbox from which a table of results is filled."""
    return (entry.direct or entry.results).of("one")


def written_here(operators: Sequence[Operator], outputs: Sequence[TableOutput]) -> set[int]:
    """The ids of the steps that do not run where this process computes all results.

    These are the steps of the outputs, and each step that fills an inbox which only they and statements of results read.
    """
    written = {id(output.insert) for output in outputs}
    steps = [step for operator in operators for step in operator.steps]
    inboxes = {inbox for operator in operators for inbox in operator.inboxes} if written else set[str]()
    for step in steps:
        if id(step) not in written:
            inboxes -= {name for name in _names(step) if name != step.table}
    return written | {id(step) for step in steps if type(step) is Insert and step.table in inboxes}


def _names(step: Insert | Purge | Call) -> set[str]:
    """The tables that a step names."""
    if isinstance(step, RowCall):
        return {name for arrivals in step.arrivals for name in table_names(arrivals.select)}
    if isinstance(step, Insert):
        return set(table_names(step.statement("one")))
    return set(table_names(step.statement())) if isinstance(step, Purge) else set()
