"""MATCH_RECOGNIZE over all rows of some keys at once, by the strategies of bounded data, with the moments of the live query."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge import query
from bridge.query import Node
from bridge.recognize.answer import matches, prepared
from bridge.recognize.clause import PerMatch, RowPattern
from bridge.recognize.conditions import conditions
from bridge.recognize.decided import AT_THE_END as IN_THE_END
from bridge.recognize.decided import BY_ROW, can_tell, searched
from bridge.recognize.members import Members
from bridge.recognize.output import Output, shown
from bridge.recognize.rows import SortedRows, Source
from bridge.recognize.values import Value, read, shift_of
from bridge.scope import column
from bridge.spark.order import AT_THE_END, BY_TIME, ORDER, PLACE
from windows.databases.duckdb import DuckDB
from windows.schema import Schema

ROWS = 6_000_000
"""A piece of more rows goes through the live query, in bounded memory."""

TABLE = "cep_history"


@dataclasses.dataclass(frozen=True)
class Bounded:
    """A query that is a clause over a stream, but for the choice of `columns`: (name shown, name in the clause)."""

    stream: str
    clause: RowPattern
    columns: tuple[tuple[str, str], ...]

    def results(self, schema: Schema, events: pa.Table, now: int) -> pa.Table:
        """The results, in any order, with ORDER's columns; `events` are `ts`, the attributes, and PLACE.

        Raises QueryError or ExhaustedError where it cannot be told like this.
        """
        with duckdb.connect(config={"threads": 1}) as connection:
            database = DuckDB(connection)
            connection.register(TABLE, events)
            return self._answer(database, schema, now)

    def _answer(self, database: DuckDB, schema: Schema, now: int) -> pa.Table:
        fields = [*schema.names, "ts", PLACE]
        ordered = dataclasses.replace(self.clause, order_by=tuple(exp.Ordered(this=column(c)) for c in ("ts", PLACE)))
        asked = prepared(database, ordered, fields)
        needed = list(dict.fromkeys([*asked.needed, "ts", PLACE]))
        with SortedRows(database, Source(f"SELECT * FROM {TABLE}"), asked.clause, needed) as rows:
            task = asked.task(rows)
            found = matches(task)
            times, places = (np.asarray(values) for values in rows.columns([column("ts"), column(PLACE)]))
            told = searched(task, found, times, now).told_of(found)
            members = Members(found, task.program, rows.ends)
            which = shown(members, self.clause.per_match, len(rows))
            plain = dataclasses.replace(self.clause, order_by=())
            table = Output(database, rows, members, which).table(plain, list(schema.names), asked.measures)
        place = np.where(told.how == IN_THE_END, AT_THE_END, BY_TIME)
        by_row = told.how == BY_ROW
        place[by_row] = places[told.row[by_row]]
        each = which.match
        order = [told.time[each], place[each], places[found.starts][each], np.arange(len(each))]
        own = [table.column(name) for _, name in self.columns]
        return pa.Table.from_arrays(
            [*map(pa.array, order), pa.array(order[0]), *own], names=[*ORDER, "ts", *(name for name, _ in self.columns)]
        )


def bounded(node: Node, columns: Iterable[str], streams: Mapping[str, Schema]) -> Bounded | None:
    """The query as a Bounded, of the clause's output `columns`; None where the live query has to tell.

    Its time and order must follow from what the searches looked at: see `recognize.decided`.
    """
    shown_as = tuple((name, name) for name in columns)
    while isinstance(node, query.Map):
        if not all(isinstance(item.this, exp.Column) for item in node.columns):
            return None
        own = {item.alias: item.this.name for item in node.columns}
        if any(name not in own for _, name in shown_as) or "ts" in own.values():
            return None
        shown_as = tuple((name, own[inner]) for name, inner in shown_as)
        node = node.input
    if not isinstance(node, query.MatchRecognize) or not isinstance(node.input, query.Stream):
        return None
    schema = streams.get(node.input.name)
    if schema is None or not _can_be_told(node.pattern, schema):
        return None
    return Bounded(node.input.name, node.pattern, shown_as)


def _can_be_told(clause: RowPattern, schema: Schema) -> bool:
    """Whether it is one of the clauses of which `recognize.decided` knows, and no row waits for later ones by NEXT."""
    fields = [*schema.names, "ts", PLACE]
    asked = conditions(clause, fields, _is_no_aggregate)
    if not can_tell(clause, asked):
        return False
    final = clause.per_match is PerMatch.ONE_ROW
    measures = [read(m.this, clause, fields, None, final, _is_no_aggregate) for m in clause.measures]
    atoms = [atom for valued in (*(c.rest for c in asked), *measures) if valued is not None for atom in valued.atoms]
    rows = [*(c.row for c in asked if c.row is not None), *(atom.row for atom in atoms if isinstance(atom, Value))]
    return all((shift_of(node) or 0) <= 0 for row in rows for node in row.walk())


def _is_no_aggregate(function: str) -> bool:
    return False
