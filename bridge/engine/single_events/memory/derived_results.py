"""Results of several steps that this process computes for single events.

The steps read only the rows of the event, results that it has just added to tables, and rows in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from bridge.engine.single_events.computed import Row
from bridge.engine.single_events.memory.derived_rows import AcceptedRows, Memory, Moment, RowSource, UnknownRowsError
from bridge.engine.single_events.memory.window_aggregates import WindowAggregate
from bridge.engine.single_events.memory.window_rows import RETRY, WindowRows
from windows.databases import Database
from windows.times import BEGINNING


class DerivedResults:
    """The results of one statement for events of the only stream that it reads. `leave` gives results as time passes.

    `tables`: the rows that are added to tables of results, in the order of the steps. `memories`: the rows of tables
    that these need. `aggregates`: the aggregates among the steps, which have their own memory. `computed_tables`:
    tables of which this process computes every value, so that the steps which fill them cannot fail after that.
    """

    is_joined = has_few_rows = False

    def __init__(
        self,
        tables: Mapping[str, RowSource],
        results: RowSource,
        memories: Sequence[Memory],
        aggregates: Sequence[WindowAggregate],
        computed_tables: Collection[str] = (),
    ) -> None:
        self.computed_tables = frozenset(computed_tables)
        self._tables, self._results = tables, results
        self._memories: list[Memory | WindowRows] = [*memories, *(each.rows for each in aggregates)]
        self.is_loaded = False
        self.has_left = False
        """Whether something was added to tables, or reported, since `begin`."""
        self._wait = 1

    def accept(self, accept: Callable[[Row], bool]) -> None:
        """Leaves to the database the events with a result that is not accepted."""
        self._results = AcceptedRows(self._results, accept)

    def begin(self, before: int) -> None:
        """Drops from memory the rows that left a window up to this time, which the database has reported already."""
        if self.is_loaded and before != BEGINNING:
            self.leave(before)
        self.has_left = False

    def take(self, row: Row) -> list[Row] | None:
        """The results of an event; None where the database has to compute some."""
        return self._of(Moment(row, row[0], {}))

    def leave(self, until: int) -> list[Row] | None:
        """The results of time passing up to this one, without an event; None where only the database knows some."""
        return self._of(Moment(None, until, {}))

    def _of(self, moment: Moment) -> list[Row] | None:
        if not self.is_loaded:
            return None
        try:
            for name, rows in self._tables.items():
                moment.tables[name] = rows.of(moment)
            results = self._results.of(moment)
            self.has_left |= bool(results) or any(moment.tables.values())
            return results
        except (UnknownRowsError, ArithmeticError, TypeError):
            self.forget()
            return None

    def prepare(self, database: Database, rows: Sequence[Row]) -> None:
        """Adds events that the database has processed to the memory, or reads the tables; inside their transaction."""
        if self.is_loaded:
            for row in rows:
                self.take(row)
            return
        self._wait -= 1
        if self._wait >= 0:
            return
        ts, seq = rows[-1][:2]
        self.is_loaded = all(memory.load(database, ts, seq) for memory in self._memories)
        if not self.is_loaded:
            self._give_up(RETRY)

    def forget(self) -> None:
        """Forgets the rows in memory, as the tables were changed in another way."""
        if self.is_loaded:
            self._give_up(1)

    def _give_up(self, wait: int) -> None:
        self.is_loaded, self._wait = False, wait
        for memory in self._memories:
            memory.forget()
