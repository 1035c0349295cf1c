"""MATCH_RECOGNIZE over all rows of some keys at once, by the strategies for bounded rows.

The results have the timestamps and the order of the continuous query.
"""

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
from bridge.patterns.live.decision_times import BY_ROW, Searches, decision_times, has_decision_times
from bridge.patterns.members import Members
from bridge.patterns.output import ResultColumns, matches, output_rows, prepare
from bridge.patterns.rows import SortedRows, Source
from bridge.patterns.values import MatchAggregate, MatchExpression, MatchNumber, Value, read, shift_of
from bridge.query.nodes import Node
from bridge.query.row_pattern import PerMatch, RowPattern
from bridge.spark.columns import AT_THE_END, BY_TIME, ORDER, PLACE
from windows.databases.duckdb import DuckDB
from windows.schema import Schema
from windows.sql import column

ROWS = 6_000_000
"""A piece with more rows is computed by the continuous query, in bounded memory."""

TABLE = "cep_history"
"""The table of the events in the private database."""


@contextlib.contextmanager
def private_database() -> Iterator[DuckDB]:
    """A database in memory, on one core."""
    with duckdb.connect(config={"threads": 1}) as connection:
        yield DuckDB(connection)


@dataclasses.dataclass(frozen=True)
class BoundedResult:
    """The results, with the columns of ORDER, and the searches that found them.

    `starts`: the first rows of the matches. `times`, `places`: TIME and PLACE of all rows, partition by partition.
    `ends`: the ends of the partitions.
    """

    table: pa.Table
    starts: Ints
    searches: Searches
    times: Ints
    places: Ints
    ends: Ints


@dataclasses.dataclass(frozen=True)
class BoundedQuery:
    """A query that is a clause over a stream and a choice of its columns: (name in the query, name in the clause)."""

    stream: str
    clause: RowPattern
    columns: tuple[tuple[str, str], ...]

    def results(self, schema: Schema, events: pa.Table, now: int) -> pa.Table:
        """The results, in any order, with the columns of ORDER. `events`: `ts`, the attributes, and PLACE.

        Raises QueryError or ExhaustedError if the strategies cannot find them.
        """
        with private_database() as database:
            return self.search(database, schema, events, now).table

    def search(self, database: DuckDB, schema: Schema, events: pa.Table, now: int) -> BoundedResult:
        """The results, with the searches. Raises the same errors as `results`."""
        database.register_arrow(TABLE, events)
        try:
            return self._search(database, schema, now)
        finally:
            database.unregister_arrow(TABLE)

    def _search(self, database: DuckDB, schema: Schema, now: int) -> BoundedResult:
        fields = _fields(schema)
        ordered = dataclasses.replace(self.clause, order_by=tuple(exp.Ordered(this=column(c)) for c in ("ts", PLACE)))
        clause = prepare(database, ordered, fields)
        needed = list(dict.fromkeys([*clause.needed, "ts", PLACE]))
        with SortedRows(database, Source(f"SELECT * FROM {TABLE}"), clause.clause, needed) as rows:
            task = clause.task(rows)
            found = matches(task)
            times, places = (np.asarray(values) for values in rows.columns([column("ts"), column(PLACE)]))
            searches = decision_times(task, found, times, now)
            decisions = searches.decisions_of(found)
            members = Members(found, task.program, rows.ends)
            which = output_rows(members, self.clause.per_match, len(rows))
            plain = dataclasses.replace(self.clause, order_by=())
            table = ResultColumns(database, rows, members, which).table(plain, list(schema.names), clause.measures)
            ends = rows.ends
        place = np.where(decisions.how == IN_THE_END, AT_THE_END, BY_TIME)
        by_row = decisions.how == BY_ROW
        place[by_row] = places[decisions.row[by_row]]
        each = which.match
        first = found.starts[each]
        order = [decisions.time[each], place[each], times[first], places[first], np.arange(len(each))]
        own = [table.column(name) for _, name in self.columns]
        names = [*ORDER, "ts", *(name for name, _ in self.columns)]
        whole = pa.Table.from_arrays([*map(pa.array, order), pa.array(order[0]), *own], names=names)
        return BoundedResult(whole, found.starts, searches, times, places, ends)


def bounded_query(node: Node, columns: Iterable[str], streams: Mapping[str, Schema]) -> BoundedQuery | None:
    """The query as a BoundedQuery with these output `columns`; None if only the continuous query can compute it.

    The timestamps and the order of its matches must follow from the rows that the searches read: see
    `bridge.patterns.live.decision_times`.
    """
    outputs = tuple((name, name) for name in columns)
    while isinstance(node, query.Map):
        if not all(isinstance(item.this, exp.Column) for item in node.columns):
            return None
        own = {item.alias: item.this.name for item in node.columns}
        if any(name not in own for _, name in outputs) or "ts" in own.values():
            return None
        outputs = tuple((name, own[inner]) for name, inner in outputs)
        node = node.input
    if not isinstance(node, query.MatchRecognize) or not isinstance(node.input, query.Stream):
        return None
    schema = streams.get(node.input.name)
    if schema is None or not _is_supported(node.pattern, schema):
        return None
    return BoundedQuery(node.input.name, node.pattern, outputs)


def rows_before(bounded: BoundedQuery, schema: Schema) -> int:
    """The number of rows before a row, or before a match, that its conditions and measures read."""
    shifts = [[abs(shift_of(node) or 0) for node in row.walk()] for row in _rows_read(bounded.clause, schema)]
    return max(map(sum, shifts), default=0)


def match_number_columns(bounded: BoundedQuery, schema: Schema) -> tuple[str, ...] | None:
    """The columns that are MATCH_NUMBER() itself; None if other columns are computed from it."""
    read_by = {
        m.alias: valued for m, valued in zip(bounded.clause.measures, _measures(bounded.clause, schema), strict=True)
    }
    plain = {name for name, valued in read_by.items() if isinstance(valued.only, MatchNumber)}
    others = [atom for name, valued in read_by.items() if name not in plain for atom in valued.atoms]
    if any(
        isinstance(atom, MatchNumber) or (isinstance(atom, MatchAggregate) and atom.reads_match_number)
        for atom in others
    ):
        return None
    return tuple(name for name, inner in bounded.columns if inner in plain)


def _is_supported(clause: RowPattern, schema: Schema) -> bool:
    """Whether `decision_times` supports the clause, and no row is read by NEXT."""
    if not has_decision_times(clause, conditions(clause, _fields(schema), _is_aggregate)):
        return False
    return all((shift_of(node) or 0) <= 0 for row in _rows_read(clause, schema) for node in row.walk())


def _rows_read(clause: RowPattern, schema: Schema) -> list[exp.Expr]:
    """The expressions over single rows in conditions and measures."""
    compiled = conditions(clause, _fields(schema), _is_aggregate)
    valued = [*(c.rest for c in compiled if c.rest is not None), *_measures(clause, schema)]
    atoms = [atom for expression in valued for atom in expression.atoms]
    return [*(c.row for c in compiled if c.row is not None), *(atom.row for atom in atoms if isinstance(atom, Value))]


def _measures(clause: RowPattern, schema: Schema) -> list[MatchExpression]:
    final = clause.per_match is PerMatch.ONE_ROW
    return [read(m.this, clause, _fields(schema), None, final, _is_aggregate) for m in clause.measures]


def _fields(schema: Schema) -> list[str]:
    return [*schema.names, "ts", PLACE]


def _is_aggregate(function: str) -> bool:
    return False
