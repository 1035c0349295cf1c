"""MATCH_RECOGNIZE over all rows of some keys at once, by the strategies of bounded data, with the moments of the live query."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge import query
from bridge.patterns.arrays import Ints
from bridge.patterns.conditions import conditions
from bridge.patterns.live.decision_times import AT_THE_END as IN_THE_END
from bridge.patterns.live.decision_times import BY_ROW, Searches, can_tell, searched
from bridge.patterns.members import Members
from bridge.patterns.output import Output, matches, prepared, shown
from bridge.patterns.rows import SortedRows, Source
from bridge.patterns.values import Fold, Number, Value, Valued, read, shift_of
from bridge.query.nodes import Node
from bridge.query.row_pattern import PerMatch, RowPattern
from bridge.spark.columns import AT_THE_END, BY_TIME, ORDER, PLACE
from windows.databases.duckdb import DuckDB
from windows.schema import Schema
from windows.sql import column

ROWS = 6_000_000
"""A piece of more rows goes through the live query, in bounded memory."""

TABLE = "cep_history"


@contextlib.contextmanager
def embedded() -> Iterator[DuckDB]:
    """A database of one's own, on one core."""
    with duckdb.connect(config={"threads": 1}) as connection:
        yield DuckDB(connection)


@dataclasses.dataclass(frozen=True)
class Answer:
    """The results, with ORDER's columns, and what they were found by.

    `times` and `places` are of the rows, partition by partition up to before `ends`; `starts` the first rows of the
    matches.
    """

    table: pa.Table
    starts: Ints
    searches: Searches
    times: Ints
    places: Ints
    ends: Ints


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
        with embedded() as database:
            return self.answer(database, schema, events, now).table

    def answer(self, database: DuckDB, schema: Schema, events: pa.Table, now: int) -> Answer:
        """The results, with how they were found; raises as `results`."""
        database.register_arrow(TABLE, events)
        try:
            return self._answer(database, schema, now)
        finally:
            database.unregister_arrow(TABLE)

    def _answer(self, database: DuckDB, schema: Schema, now: int) -> Answer:
        fields = _fields(schema)
        ordered = dataclasses.replace(self.clause, order_by=tuple(exp.Ordered(this=column(c)) for c in ("ts", PLACE)))
        asked = prepared(database, ordered, fields)
        needed = list(dict.fromkeys([*asked.needed, "ts", PLACE]))
        with SortedRows(database, Source(f"SELECT * FROM {TABLE}"), asked.clause, needed) as rows:
            task = asked.task(rows)
            found = matches(task)
            times, places = (np.asarray(values) for values in rows.columns([column("ts"), column(PLACE)]))
            searches = searched(task, found, times, now)
            told = searches.told_of(found)
            members = Members(found, task.program, rows.ends)
            which = shown(members, self.clause.per_match, len(rows))
            plain = dataclasses.replace(self.clause, order_by=())
            table = Output(database, rows, members, which).table(plain, list(schema.names), asked.measures)
            ends = rows.ends
        place = np.where(told.how == IN_THE_END, AT_THE_END, BY_TIME)
        by_row = told.how == BY_ROW
        place[by_row] = places[told.row[by_row]]
        each = which.match
        first = found.starts[each]
        order = [told.time[each], place[each], times[first], places[first], np.arange(len(each))]
        own = [table.column(name) for _, name in self.columns]
        names = [*ORDER, "ts", *(name for name, _ in self.columns)]
        whole = pa.Table.from_arrays([*map(pa.array, order), pa.array(order[0]), *own], names=names)
        return Answer(whole, found.starts, searches, times, places, ends)


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


def look_back(asked: Bounded, schema: Schema) -> int:
    """How many rows before a row, and before a match, matter to it."""
    shifts = [[abs(shift_of(node) or 0) for node in row.walk()] for row in _rows_read(asked.clause, schema)]
    return max(map(sum, shifts), default=0)


def numbered(asked: Bounded, schema: Schema) -> tuple[str, ...] | None:
    """The columns that are MATCH_NUMBER() as it is; None where others are computed from it."""
    read_by = {
        m.alias: valued for m, valued in zip(asked.clause.measures, _measures(asked.clause, schema), strict=True)
    }
    plain = {name for name, valued in read_by.items() if isinstance(valued.only, Number)}
    others = [atom for name, valued in read_by.items() if name not in plain for atom in valued.atoms]
    if any(isinstance(atom, Number) or (isinstance(atom, Fold) and atom.reads_number) for atom in others):
        return None
    return tuple(name for name, inner in asked.columns if inner in plain)


def _can_be_told(clause: RowPattern, schema: Schema) -> bool:
    """Whether it is one of the clauses of which `recognize.decided` knows, and no row waits for later ones by NEXT."""
    if not can_tell(clause, conditions(clause, _fields(schema), _is_no_aggregate)):
        return False
    return all((shift_of(node) or 0) <= 0 for row in _rows_read(clause, schema) for node in row.walk())


def _rows_read(clause: RowPattern, schema: Schema) -> list[exp.Expr]:
    """All that is read of single rows."""
    asked = conditions(clause, _fields(schema), _is_no_aggregate)
    valued = [*(c.rest for c in asked if c.rest is not None), *_measures(clause, schema)]
    atoms = [atom for found in valued for atom in found.atoms]
    return [*(c.row for c in asked if c.row is not None), *(atom.row for atom in atoms if isinstance(atom, Value))]


def _measures(clause: RowPattern, schema: Schema) -> list[Valued]:
    final = clause.per_match is PerMatch.ONE_ROW
    return [read(m.this, clause, _fields(schema), None, final, _is_no_aggregate) for m in clause.measures]


def _fields(schema: Schema) -> list[str]:
    return [*schema.names, "ts", PLACE]


def _is_no_aggregate(function: str) -> bool:
    return False
