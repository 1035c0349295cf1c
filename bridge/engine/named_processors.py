"""Output processors with a name: they get each result at least once, even results from before they were added (D5).

The results of their queries are rows of a table, written in the transaction of the push. Each processor has a position
in this table, which moves when its function has returned.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from bridge.check.scope import Field
from bridge.check.types import UNKNOWN
from bridge.engine.catalogue import Processor, QueryEntry
from bridge.engine.create import create
from bridge.engine.delivery import ProcessorFailure
from bridge.engine.durable import LoggedCall
from bridge.engine.execution.runner import Runner
from bridge.engine.own_table import OwnTable
from bridge.engine.result_set import arrow_table
from bridge.errors import NameTaken, QueryError
from bridge.query.codec import fingerprint
from bridge.query.nodes import Stream
from bridge.query.scripts import IntoTable
from bridge.stores.check import RESULT_ID, RESULT_NUMBER
from windows.databases import Database
from windows.schema import Attribute
from windows.values import converted

PROCESSORS = "cep_processors"

STORED_RESULTS = "stored results"
"""The kind of the definition that has the results of a query stored."""

AT_ONCE = 1_000
"""The number of results that are read at once; after these the position is stored."""


class Result(NamedTuple):
    """A result with its id, as named processors receive it and `Bridge.results` returns it.

    payload: The values by the names of the query's columns. timestamp: Milliseconds since 1970. id: A text that
    identifies the result; a result that is repeated, after a crash or in a replay, has the same id.

    >>> Result({"a": 1}, 1000, "q/1000/7/0").id
    'q/1000/7/0'
    """

    payload: dict[str, Any]
    timestamp: int
    id: str


@dataclasses.dataclass
class StoredResults:
    """The results of a query as rows of a table. `positions`: the newest result that each processor has received."""

    entry: QueryEntry
    query: str
    table: str
    positions: dict[str, int]
    processors: dict[str, Processor] = dataclasses.field(default_factory=dict)
    handed_over: dict[str, int] = dataclasses.field(default_factory=dict)
    """The number of results that each processor has received since the bridge was opened."""
    removed: int = 0
    """The newest result that all processors had received when rows were last removed."""
    generation: int = 0
    """How often the query has changed its columns, and so the table of its results."""


class NamedProcessors:
    """The named processors of a bridge."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._stored: dict[str, StoredResults] = {}
        self._table = OwnTable(runner, PROCESSORS, "query VARCHAR, name VARCHAR, number BIGINT")

    def resume(self) -> None:
        """Reads the stored positions."""
        for query, name, number in self._table.rows():
            if query in self._stored:  # else an earlier version was killed while it removed the query
                self._stored[query].positions[name] = int(number)

    def add(self, entry: QueryEntry, function: Callable[[Any], Any], batch: bool, name: str) -> Processor:
        """Adds a processor, which receives the results after its position."""
        stored = self._stored.get(entry.name.lower())
        if stored is not None and name in stored.processors:
            raise NameTaken(f"the query {entry.name!r} has a processor {name!r} already")
        self.subscribe(entry, name)
        handle = Processor(entry.name, function, batch, name)
        self._stored[entry.name.lower()].processors[name] = handle
        return handle

    def subscribe(self, entry: QueryEntry, name: str) -> None:
        """Has results stored, from now on, until the processor of this name has received or fetched them."""
        stored = self._stored.get(entry.name.lower())
        if stored is None or name not in stored.positions:
            self._table.create()
            self._begin(stored or self._store(entry), name)

    def unsubscribe(self, query: str, name: str) -> None:
        """Removes the position of a processor. Without any position, results are no longer stored."""
        stored = self._stored.get(query.lower())
        if stored is None or name not in stored.positions:
            return
        with self._runner.transaction():
            self._runner.restored_by(self._remember(stored))
            stored.positions.pop(name)
            stored.processors.pop(name, None)
            self._table.delete(query=query.lower(), name=name)
            if not stored.positions:
                self.forget(query)

    def remove(self, handle: Processor) -> bool:
        """Removes a processor and its position; returns whether it existed."""
        stored = self._stored.get(handle.query.lower())
        if stored is None or handle.name is None or stored.processors.get(handle.name) is not handle:
            return False
        self.unsubscribe(handle.query, handle.name)
        return True

    @property
    def has_stored(self) -> bool:
        """Whether the results of any query are stored."""
        return bool(self._stored)

    def names(self, query: str) -> list[str]:
        """The names of the processors of a query, including those of earlier processes."""
        stored = self._stored.get(query.lower())
        return [] if stored is None else list(stored.positions)

    def delivered(self, query: str) -> tuple[int, int]:
        """The number of a query's named processors here, and the most results that one received since the opening."""
        stored = self._stored.get(query.lower())
        return (0, 0) if stored is None else (len(stored.processors), max(stored.handed_over.values(), default=0))

    def waits(self, query: str) -> bool:
        """Whether there are results of a query that some processor has not received."""
        return any(self.undelivered(query, name, 1) for name in self.names(query))

    def undelivered(self, query: str, name: str, most: int) -> list[tuple[int, Result]]:
        """The next results of a query that a processor has not received, with their numbers."""
        stored = self._stored[query.lower()]
        rows = self._rows(stored, stored.positions[name], most)
        return [(number, _result(stored.entry, result, ts, values)) for number, result, ts, *values in rows]

    def advance(self, query: str, name: str, number: int) -> None:
        """Moves the position of a processor to the result of this number."""
        stored = self._stored[query.lower()]
        before = dict(stored.positions)
        stored.positions[name] = number
        try:
            self._store_positions(stored, before)
        except BaseException:
            stored.positions[name] = before[name]
            raise

    def is_stored(self, query: str) -> bool:
        """Whether the results of a query are stored."""
        return query.lower() in self._stored

    def forget(self, query: str) -> None:
        """Stops storing the results of a query."""
        stored = self._stored.get(query.lower())
        if stored is not None:
            with self._runner.transaction():
                self._runner.restored_by(self._remember(stored))
                del self._stored[query.lower()]
                self._runner.remove_query(self._runner.catalogue.query_entry(stored.query), logged=stored.query)
                self._table.delete(query=query.lower())
                self._runner.drop_own(stored.table)

    # Results ------------------------------------------------------------------------------------------------------------

    def deliver(self, errors: list[ProcessorFailure]) -> bool:
        """Calls each processor with the results after its position. A processor that raises gets them again later.

        Returns whether there were any results.
        """
        found = False
        for stored in list(self._stored.values()):
            moved = dict(stored.positions)
            try:
                for name, handle in list(stored.processors.items()):
                    self._deliver_to(stored, name, handle, errors)
            finally:
                self._store_positions(stored, moved)
            found |= moved != stored.positions
        return found

    def _deliver_to(self, stored: StoredResults, name: str, handle: Processor, errors: list[ProcessorFailure]) -> None:
        while rows := self._rows(stored, stored.positions[name], AT_ONCE):
            for number, count, argument in self._arguments(stored, handle, rows):
                try:
                    handle.function(argument)
                except Exception as error:
                    errors.append(ProcessorFailure(error, str(handle)))
                    stored.entry.last_error = f"{type(error).__name__}: {error}"
                    return
                stored.positions[name] = number
                stored.handed_over[name] = stored.handed_over.get(name, 0) + count
                if stored.processors.get(name) is not handle:
                    return
            if len(rows) < AT_ONCE:
                return

    def _arguments(self, stored: StoredResults, handle: Processor, rows: list[Any]) -> Iterator[tuple[int, int, Any]]:
        """The arguments of the function's calls, each with its newest result's number and its number of results."""
        entry = stored.entry
        if handle.batch:
            yield rows[-1][0], len(rows), arrow_table(entry.fields, [(row[2], *row[3:]) for row in rows])
            return
        for number, name, ts, *values in rows:
            yield number, 1, _result(entry, name, ts, values)

    def _rows(self, stored: StoredResults, after: int, most: int | None) -> list[Any]:
        """The stored results after this number: number, id, ts, and the values of the query's columns."""
        entry, quoted = stored.entry, self._table.quoted
        columns = ", ".join(map(quoted, (RESULT_NUMBER, RESULT_ID, "ts", *entry.names)))
        number = quoted(RESULT_NUMBER)
        sql = f"SELECT {columns} FROM {quoted(stored.table)} WHERE {number} > {after} ORDER BY {number}"
        sql += "" if most is None else f" LIMIT {most}"
        rows = self._runner.database.fetch(sql)
        return [(int(row[0]), str(row[1]), int(row[2]), *converted(row[3:], entry.decoders)) for row in rows]

    def _store_positions(self, stored: StoredResults, before: dict[str, int]) -> None:
        """Stores the positions that have moved, and removes the rows that all processors have received."""
        moved = {name: number for name, number in stored.positions.items() if before.get(name, number) != number}
        if not moved:
            return
        least = min(stored.positions.values())
        with self._runner.transaction():
            for name, number in moved.items():
                self._table.update({"number": number}, query=stored.entry.name.lower(), name=name)
            if least - stored.removed >= AT_ONCE:  # the newest row stays, as later rows are numbered after it
                table, column = self._table.quoted(stored.table), self._table.quoted(RESULT_NUMBER)
                self._runner.database.execute(f"DELETE FROM {table} WHERE {column} < {least}")
                stored.removed = least

    # Tables -------------------------------------------------------------------------------------------------------------

    def _store(self, entry: QueryEntry) -> StoredResults:
        """Has the results of a query stored from now on."""
        self.define(LoggedCall(0, 0, STORED_RESULTS, entry.name, "", "", self._runner.seq))
        return self._stored[entry.name.lower()]

    def define(self, definition: LoggedCall, table: str | None = None) -> None:
        """Executes a definition of the kind `STORED_RESULTS`. `table`: the one with the results, if it exists."""
        runner, entry = self._runner, self._runner.catalogue.query_entry(definition.name)
        kinds = {RESULT_NUMBER: "BIGINT", RESULT_ID: "VARCHAR", "ts": "BIGINT"}
        columns = [Attribute(name, kind) for name, kind in kinds.items()]
        columns += [Attribute(field.name, _known(field)) for field in entry.fields]
        with runner.transaction():
            generation = int(definition.option("generation") or 0)
            table = table or runner.create_results(entry.name, columns, RESULT_NUMBER, generation)
        query = f"results of {entry.name}"
        read = fingerprint(entry.resolved.node)
        node = IntoTable(Stream(entry.name), table, entry.name, None, (RESULT_NUMBER, RESULT_ID), read)
        create(query, node, "", runner, definition)
        runner.catalogue.query_entry(query).is_internal = True
        self._stored[entry.name.lower()] = StoredResults(entry, query, table, {}, generation=generation)

    def define_again(self, query: str) -> None:
        """Follows the replacement of a query: results are stored as before, or in another table if the columns differ.

        Raises `QueryError` if they differ and processors have not received all results.
        """
        before, entry = self._stored[query.lower()], self._runner.catalogue.query_entry(query)
        one, other = ([(field.name, field.type) for field in each.fields] for each in (before.entry, entry))
        if one != other and self.waits(query):
            raise QueryError(
                f"{query!r} has results that named processors ({', '.join(before.positions)}) have not received, with the "
                f"columns {', '.join(map(' '.join, one))}, not {', '.join(map(' '.join, other))}: let them receive these first, "
                "with the earlier query, or give the changed query another name"
            )
        generation = before.generation + (one != other)
        call = LoggedCall(0, 0, STORED_RESULTS, entry.name, "", "", self._runner.seq)
        self.define(
            call.with_options(generation=generation) if generation else call, before.table if one == other else None
        )
        stored = self._stored[query.lower()]
        stored.processors, stored.handed_over = before.processors, before.handed_over
        if one == other:
            stored.positions, stored.removed = before.positions, before.removed
        else:
            self._begin_again(stored, before)

    def _begin_again(self, stored: StoredResults, before: StoredResults) -> None:
        """Numbers the results from 1 again, in a new table."""
        stored.positions = dict.fromkeys(before.positions, 0)
        self._table.update({"number": 0}, query=stored.entry.name.lower())
        self._runner.drop_own(before.table)

    def _remember(self, stored: StoredResults) -> Callable[[], None]:
        """A function that restores what is stored now, and the processors of one of the queries."""
        known, positions, processors = dict(self._stored), dict(stored.positions), dict(stored.processors)

        def back() -> None:
            self._stored, stored.positions, stored.processors = known, positions, processors

        return back

    @contextlib.contextmanager
    def restored_on_error(self) -> Iterator[None]:
        """A context in which an error leaves what is stored unchanged."""
        before = dict(self._stored)
        try:
            yield
        except BaseException:
            self._stored = before
            raise

    def internal(self, query: str) -> list[QueryEntry]:
        """The internal query that stores the results of a query, if they are stored."""
        stored = self._stored.get(query.lower())
        return [] if stored is None else [self._runner.catalogue.query_entry(stored.query)]

    def read(self, query: str, after: str | None) -> list[Result]:
        """The stored results of a query, in order, or only those after the result with this id."""
        stored = self._stored[query.lower()]
        newest = 0
        if after is not None:
            number, table = self._table.quoted(RESULT_NUMBER), self._table.quoted(stored.table)
            sql = f"SELECT {number} FROM {table} WHERE {self._table.quoted(RESULT_ID)} = {self._runner.database.placeholder}"
            newest = max((int(found) for (found,) in self._runner.database.fetch_bound(sql, [after])), default=0)
        rows = self._rows(stored, newest, None)
        return [_result(stored.entry, name, ts, values) for _, name, ts, *values in rows]

    def _begin(self, stored: StoredResults, name: str) -> None:
        """Lets a new processor begin with the results from now on."""
        sql = f"SELECT COALESCE(MAX({self._table.quoted(RESULT_NUMBER)}), 0) FROM {self._table.quoted(stored.table)}"
        ((newest,),) = self._runner.database.fetch(sql)
        with self._runner.transaction():
            self._table.delete(query=stored.entry.name.lower(), name=name)
            self._table.insert((stored.entry.name.lower(), name, int(newest)))
        stored.positions[name] = int(newest)


def table_of_results(entry: QueryEntry) -> str | None:
    """The table that the results of a query are written into, with their ids; None without `into`."""
    node = entry.resolved.node
    return node.table if isinstance(node, IntoTable) and RESULT_ID in node.system else None


def results_in_table(entry: QueryEntry, after: str | None, database: Database) -> list[Result]:
    """The results of a query in its result table, in order, or only those after the result with this id."""
    table = table_of_results(entry)
    if table is None:
        raise QueryError(
            f"the results of {entry.name!r} are not stored: create_query(…, into=table) stores them, and so does "
            "add_output_processor(…, name=name)"
        )
    columns = ", ".join(map(database.quoted, (RESULT_ID, "ts", *entry.names)))
    since = None if after is None else _moment(after)
    sql = f"SELECT {columns} FROM {database.quoted(table)}"
    sql += "" if since is None else f" WHERE {database.quoted('ts')} >= {since[0]}"
    found = [(_moment(row[0]), row) for row in database.fetch(sql)]
    found = sorted((each for each in found if since is None or each[0] > since), key=lambda each: each[0])
    return [_result(entry, name, int(ts), converted(values, entry.decoders)) for _, (name, ts, *values) in found]


def _result(entry: QueryEntry, name: str, ts: int, values: Sequence[Any]) -> Result:
    return Result(dict(zip(entry.names, values, strict=True)), ts, name)


def _moment(name: str) -> tuple[int, ...]:
    """The timestamp, number and place that the id of a result consists of."""
    try:
        _, *numbers = name.rsplit("/", 3)
        ts, seq, place = map(int, numbers)
    except (AttributeError, ValueError):
        raise QueryError(f"the id of a result is like 'query/1000/7/0', not {name!r}") from None
    return ts, seq, place


def _known(field: Field) -> str:
    if field.type == UNKNOWN:
        raise QueryError(
            f"the type of {field.name!r} is not known: CAST({field.name} AS …) says it", words=[field.name]
        )
    return field.type
