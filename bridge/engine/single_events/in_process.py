"""Results of single events that this process reads from values, from windows in memory and from reports of machines."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bridge.engine.results import Results, ResultStatement
from bridge.engine.single_events.computed import Compute, Row
from bridge.engine.single_events.memory.derived_results import DerivedResults
from bridge.engine.single_events.memory.window_aggregates import WindowAggregate
from bridge.engine.single_events.memory.window_changes import WindowChanges
from bridge.engine.single_events.memory.window_joins import WindowJoin
from bridge.engine.single_events.memory.window_memory import WindowMemory
from bridge.engine.single_events.outputs import TableOutput, result_query
from bridge.engine.single_events.reports import ReportReader
from bridge.engine.single_events.variables import EventVariables
from windows.databases import Database

if TYPE_CHECKING:
    import pyarrow as pa


class ReportsInTime:
    """The results reported as time passes, when an event comes that does not fill any of their windows."""

    is_joined = False

    def __init__(self, results: WindowChanges | DerivedResults) -> None:
        self._results = results

    @property
    def has_few_rows(self) -> bool:
        """Whether each key has few rows."""
        return self._results.has_few_rows

    @property
    def is_loaded(self) -> bool:
        """Whether the rows are in memory; events of other streams load them."""
        return self._results.is_loaded

    @property
    def has_left(self) -> bool:
        """Whether something may have been reported, or added to tables, since `begin`."""
        return not isinstance(self._results, DerivedResults) or self._results.has_left

    def begin(self, before: int) -> None:
        """Marks the rows that left a window up to this time as reported."""
        self._results.begin(before)

    def take(self, row: Row) -> list[Row] | None:
        """The results at an event; None where the database has to compute one."""
        return self._results.leave(row[0])

    def prepare(self, database: Database, rows: Sequence[Row]) -> None:
        """Marks the rows that left a window up to the last of these events as reported."""
        self._results.begin(rows[-1][0])

    def forget(self) -> None:
        """Does nothing: these events change no window."""


WindowReader = WindowAggregate | WindowJoin | DerivedResults | ReportsInTime
"""A reader of results from rows of windows in memory."""

ByTime = WindowChanges | DerivedResults | ReportsInTime
"""A reader of results that time alone may cause, too."""

Reader = Compute | WindowReader | ReportReader
"""A reader of the results of one statement."""


class FilledOutputs:
    """The outputs of a plan, and the readers of their results: those of `readers`, or `unheard` ones for outputs alone."""

    def __init__(self, readers: Sequence[tuple[ResultStatement, Reader]], outputs: Sequence[TableOutput]) -> None:
        self._outputs = outputs
        alone = [(result.members[0], reader) for result, reader in readers if len(result.members) == 1]
        self._readers = {result_query(entry).text: reader for entry, reader in alone} if outputs else {}
        self.unheard: list[Reader] = []
        self.of_readers: dict[int, list[TableOutput]] = {}

    def are_read(self, reader_of: Callable[[TableOutput], Reader | None]) -> bool:
        """Finds the reader of each output; returns whether this process computes the results of all outputs."""
        for output in self._outputs:
            reader = self._readers.get(output.query.text)
            if reader is None:
                reader = reader_of(output)
                if reader is None:
                    return False
                self._readers[output.query.text] = reader
                self.unheard.append(reader)
            if isinstance(reader, ReportReader | WindowChanges):
                return False
            self.of_readers.setdefault(id(reader), []).append(output)
        return True


class ComputedResults(NamedTuple):
    """The results of events, and those for tables of results: the table, the event, and its rows.

    `rows`: the rows of the events, with the values of variables. `set`: the variables that they set.
    """

    results: Results
    outputs: list[tuple[TableOutput, Row, Sequence[Row]]]
    rows: Sequence[Row]
    set: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class InProcess:
    """The readers of a plan's result statements, without the database. A later transaction writes the plan's tables.

    `memory`: the windows in memory that events of `stream` fill, also for readers of other streams. `checks`:
    results that the later transaction writes, and that the database cannot compute or store for all values. `waits`: all steps
    run in that transaction, for all events since. `is_by_time`: events of the stream add nothing to tables; only the
    time that they bring may. `outputs`: the tables that get the results of a reader, by its id; `unheard`: the readers
    whose results only such tables get. `variables`: the variables that the events read or set.
    """

    readers: Sequence[tuple[ResultStatement, Reader]]
    memory: WindowMemory | None
    stream: str
    checks: Sequence[WindowAggregate | DerivedResults] = ()
    waits: bool = False
    is_by_time: bool = False
    unheard: Sequence[Reader] = ()
    outputs: Mapping[int, Sequence[TableOutput]] = dataclasses.field(default_factory=dict)
    variables: EventVariables | None = None

    @property
    def changes_nothing(self) -> bool:
        """Whether the last events have added nothing to tables."""
        if not self.is_by_time:
            return False
        return not any(isinstance(reader, ReportsInTime) and reader.has_left for _, reader in self.readers)

    @functools.cached_property
    def _windows(self) -> list[WindowReader]:
        readers = [*(reader for _, reader in self.readers), *self.unheard]
        return [*(reader for reader in readers if isinstance(reader, WindowReader)), *self.checks]

    @functools.cached_property
    def _of_values(self) -> list[tuple[ResultStatement | None, Compute | WindowReader]]:
        """The readers of values and windows; without a statement if only tables get their results."""
        known = (*self.readers, *((None, reader) for reader in self.unheard))
        return [(result, reader) for result, reader in known if not isinstance(reader, ReportReader)]

    @functools.cached_property
    def is_joined(self) -> bool:
        """Whether a statement over many events may join each event with its rows."""
        return any(window.is_joined for window in self._windows)

    @property
    def has_few_rows(self) -> bool:
        """Whether each key of the windows has few rows, so that Python computes many events faster than a statement."""
        return bool(self._windows) and all(window.has_few_rows for window in self._windows)

    @property
    def is_ready(self) -> bool:
        """Whether the rows of all windows are in memory, and the values of variables."""
        are_known = self.variables is None or self.variables.is_loaded
        return are_known and all(window.is_loaded for window in self._windows)

    def prepare(self, database: Database, rows: Sequence[Row]) -> None:
        """Keeps the rows in memory up to date after events that the database has processed, inside their transaction."""
        for window in self._windows:
            window.prepare(database, rows)

    def forget(self) -> None:
        """Forgets the rows of windows, as their tables were changed in another way."""
        for window in self._windows:
            window.forget()

    def of_events(self, rows: Sequence[Row], before: int) -> ComputedResults | None:
        """The results that values and windows give for these events; None where the database has to compute some.

        `before`: the newest timestamp before these events.
        """
        for _, changes in self.readers:
            if isinstance(changes, ByTime):
                changes.begin(before)
        variables, known = self.variables, list[Row]()
        values = {} if variables is None else variables.memory.values
        found = ComputedResults([], [], rows if variables is None else known, values)
        several = [(result, reader, list[Row]()) for result, reader in self._of_values]
        for event in rows:
            row = event
            if variables is not None:
                extended = variables.row(event, values)
                if extended is None:
                    return None
                row = extended
                known.append(row)
            if any(check.take(row) is None for check in self.checks):
                return None
            if self.memory is not None:
                self.memory.note(self.stream, (event,))
            for _, reader, results in several:
                own = reader.take(row) if isinstance(reader, WindowReader) else reader(row)
                if own is None:
                    return None
                results += own
                if own and self.outputs:
                    found.outputs.extend((output, row, own) for output in self.outputs.get(id(reader), ()))
        for result, _, results in several:
            if result is not None:
                found.results.extend(result.distribute(results))
        if variables is None:
            return found
        variables.memory.set(values)
        return found._replace(set=variables.set_by(values))

    def of_reports(self, reports: Mapping[str, pa.Table]) -> Results | None:
        """The results that are columns of the reports of machines; None where the database has to read some."""
        found: Results = []
        for result, reader in self.readers if reports else ():
            if isinstance(reader, ReportReader) and (report := reports.get(reader.table)) is not None:
                if (rows := reader.read(report)) is None:
                    return None
                found += result.distribute(rows)
        return found

    def of_tables(self, database: Database, reports: Mapping[str, pa.Table]) -> Results:
        """The same as `of_reports`, read from the result tables after the reports were written."""
        found: Results = []
        for result, reader in self.readers:
            if isinstance(reader, ReportReader) and reader.table in reports:
                found += result.distribute(database.fetch(result.text))
        return found
