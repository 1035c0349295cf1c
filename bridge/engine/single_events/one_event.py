"""Plans for an event pushed alone: its values are bound in the statements instead of being written to the inbox.

The statements are those of any push, but shorter: the results of one event have one `ts` and `seq`, so they need not be
sorted by these, and joins with the inboxes of other streams, which are empty, are dropped. A machine gets the event's
rows from a SELECT of its own. Where the machine reports nothing, the statements that read its results are left out.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from bridge.engine.results import Results, ResultStatement
from bridge.engine.single_events.boundaries import NextBoundaries
from bridge.engine.single_events.in_process import InProcess
from bridge.engine.single_events.marked_values import BoundStatement, Row
from bridge.engine.single_events.memory.previous_rows import PreviousRows
from bridge.engine.single_events.variables import EventVariables
from bridge.patterns.live.statements import Rows
from bridge.rewrite.plan import Call, Insert, RowCall
from windows.databases import Database

if TYPE_CHECKING:
    import pyarrow as pa


NOTHING: Mapping[str, Any] = MappingProxyType({})


class EventStatement(NamedTuple):
    """A statement, and its form while no machine has reported anything and no boundary is passed (None: no statement).

    `otherwise`: an INSERT that runs only if this UPDATE has changed no row.
    """

    whole: BoundStatement
    quiet: BoundStatement | None
    otherwise: EventStatement | None = None

    def of(self, reported: bool) -> BoundStatement | None:
        return self.whole if reported else self.quiet

    def run(self, database: Database, row: Row, reported: bool) -> None:
        """Runs the statement for an event, in the form that is needed."""
        bound = self.of(reported)
        if bound is None:
            return
        if self.otherwise is None or not bound.places:
            bound.run(database, row)
        elif database.modify_bound(bound.text, [row[place] for place in bound.places]):
            return
        if self.otherwise is not None:
            self.otherwise.run(database, row, reported)


class BoundaryCall(NamedTuple):
    """A step that is not one statement and runs only when a boundary is passed."""

    call: Call


class MachineReader(NamedTuple):
    """The statement that reads a machine's rows of an event, or None. `previous`: the earlier rows that it reads."""

    statement: BoundStatement | None
    previous: PreviousRows | None = None

    def rows(self, database: Database, rows: Sequence[Row]) -> list[Row]:
        """The machine's rows for these events."""
        statement, previous = self
        if statement is None:
            return []
        found: list[Row] = []
        for row in rows:
            if previous is None:
                found += statement.read(database, row)
            else:
                found += statement.read(database, (*row, *previous.values(database, row)))
                previous.add(row)
        return found


class MachineStep(NamedTuple):
    """A machine, the readers of its rows of an event, and the statements that store these rows."""

    machine: RowCall
    reads: Sequence[MachineReader]
    inserts: Sequence[BoundStatement]

    @property
    def previous(self) -> list[PreviousRows]:
        """The earlier rows that the machine reads."""
        return [read.previous for read in self.reads if read.previous is not None]

    def take(self, database: Database, rows: Sequence[Row], now: int, seq: int) -> pa.Table | None:
        """The results of these events; nothing is stored yet."""
        arrived = [read.rows(database, rows) for read in self.reads]
        return self.machine.take(database, arrived, now, seq)

    @property
    def is_computed(self) -> bool:
        """Whether no statement reads its rows of an event."""
        return all(read.statement is None or read.statement.compute is not None for read in self.reads)

    def store(self, database: Database, row: Row) -> None:
        """Stores what `take` has changed."""
        for insert in self.inserts:
            insert.run(database, row)
        self.machine.write_progress(database, self.machine.progress())
        if self.machine.is_checkpoint_due:
            self.machine.checkpoint(database)


class Outcome(NamedTuple):
    """The results of an event, the inboxes of results that have rows then, and what machines still have to write.

    `rows`: the rows of the events with the values of variables, if a step reads these; `set`: the variables that they set.
    """

    results: Results
    filled: set[str]
    progress: Sequence[tuple[RowCall, Rows]]
    rows: Sequence[Row] = ()
    set: Mapping[str, Any] = NOTHING


@dataclasses.dataclass(frozen=True, eq=False)
class OneEventPlan:
    """The plan of a single event of one stream: the steps, the readers of results, and the inboxes that INSERTs fill.

    `stores`: the INSERTs that store the rows of machines, as for events in the inbox; `can_fail`: whether one may fail
    later, as the database has to compute something. `timed`: whether a statement reads the clock. `binds`: whether a
    statement reads the event; otherwise only machines do. `boundaries`: the boundaries of windows that jump;
    `late_inboxes` are filled only when one is passed. `in_process`: the readers of the results without the database,
    until the next boundary; None where only the database can. `can_wait`: nothing reads an event before the next
    boundary. `may_run_later`: no step can fail, so all steps may run after the push.
    """

    steps: Sequence[EventStatement | BoundaryCall | MachineStep]
    results: Sequence[tuple[ResultStatement, EventStatement]]
    inboxes: frozenset[str]
    late_inboxes: frozenset[str]
    stores: Sequence[Insert]
    can_fail: bool
    timed: bool
    binds: bool
    boundaries: NextBoundaries
    in_process: InProcess | None = None
    can_wait: bool = False
    may_run_later: bool = False

    @functools.cached_property
    def machines(self) -> list[RowCall]:
        """Its machines."""
        return [step.machine for step in self.steps if isinstance(step, MachineStep)]

    @functools.cached_property
    def is_one_select(self) -> bool:
        """Whether it writes nothing and reads by one statement at most, so that it needs no transaction."""
        return not (self.steps or self.timed or self.variables) and len(self.results) <= 1

    @functools.cached_property
    def is_plain_select(self) -> bool:
        """Whether it is one SELECT and runs in no other way: no rows are in memory, and no event can wait."""
        return self.is_one_select and self.in_process is None and not self.can_wait

    @functools.cached_property
    def needs_transaction(self) -> bool:
        """Whether the database has to process each event at once, by statements that change tables."""
        return not (self.is_one_select or self.in_process is not None or self.can_wait or self._is_quiet)

    @functools.cached_property
    def _is_quiet(self) -> bool:
        """Whether only machines run as long as they report nothing."""
        statements = [
            *(step for step in self.steps if isinstance(step, EventStatement)),
            *(each for _, each in self.results),
        ]
        return bool(self.machines) and all(statement.quiet is None for statement in statements)

    @functools.cached_property
    def _previous(self) -> list[PreviousRows]:
        """The earlier rows that machines read."""
        return [each for step in self.steps if isinstance(step, MachineStep) for each in step.previous]

    @functools.cached_property
    def statements_of_event(self) -> int:
        """The number of statements per event before the next boundary; 0 where this process computes the results."""
        if self.in_process is not None or self.can_wait:
            return 0
        steps = [step for step in self.steps if isinstance(step, EventStatement)]
        return sum(each.quiet is not None for each in [*steps, *(each for _, each in self.results)])

    @property
    def is_ready_in_process(self) -> bool:
        """Whether the rows from which this process computes the results are in memory."""
        return self.in_process is not None and self.in_process.is_ready

    @functools.cached_property
    def keeps_rows(self) -> bool:
        """Whether rows of tables may be in memory."""
        return self.in_process is not None or bool(self._previous) or self.boundaries.keeps_rows

    @functools.cached_property
    def keeps_memory(self) -> bool:
        """Whether rows of tables, or the times of boundaries, may be in memory."""
        return self.keeps_rows or bool(self.boundaries)

    def note(self, database: Database, rows: Sequence[Row]) -> None:
        """Keeps the rows in memory up to date after events that the database has processed, inside their transaction."""
        rows = self._padded(rows)
        if self.in_process is not None:
            self.in_process.prepare(database, rows)
        self.boundaries.note(database, rows)
        for previous in self._previous:
            previous.prepare(database, rows)

    @property
    def variables(self) -> EventVariables | None:
        """The variables that events read or set in this process, if there are any."""
        return None if self.in_process is None else self.in_process.variables

    def _padded(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows of events whose variables are not known."""
        return rows if self.variables is None else self.variables.padded(rows)

    def may_pass_boundary(self, before: int, now: int, rows: Sequence[Row]) -> bool:
        """Whether a window may jump after `before` and not after `now`, the time of the last event."""
        return bool(self.boundaries) and self.boundaries.are_passed(before, now, self._padded(rows))

    def forget(self) -> None:
        """Forgets the rows in memory, as their tables may have changed."""
        self.boundaries.forget()
        if self.in_process is not None:
            self.in_process.forget()
        for previous in self._previous:
            previous.forget()

    def can_store_later(self, in_process: InProcess | None, rows: Sequence[Row]) -> bool:
        """Whether these events may be stored together with later ones: each memory of rows is loaded and can take them.

        `in_process`: the readers of the results without the database; None where the database reads them.
        """
        in_memory = self._is_quiet if in_process is None else in_process.is_ready
        return (
            in_memory
            and not self.can_fail
            and all(each.is_restored and not each.is_checkpoint_due for each in self.machines)
            and all(each.is_loaded and all(map(each.is_known, self._padded(rows))) for each in self._previous)
        )

    @functools.cached_property
    def is_computed(self) -> bool:
        """Whether the plan is one SELECT of values, which this process computes."""
        return self.is_one_select and all(statement.whole.compute is not None for _, statement in self.results)

    @functools.cached_property
    def takes_several(self) -> bool:
        """Whether the plan also runs several events at once, which are then computed in this process."""
        if self.is_one_select:
            return self.is_computed or self.in_process is not None
        if self.can_wait:
            return True
        machines = [step for step in self.steps if isinstance(step, MachineStep)]
        in_process = self.in_process is not None or (self._is_quiet and not self.binds)
        return in_process and all(step.is_computed for step in machines)

    def compute(self, rows: Sequence[Row]) -> Results | None:
        """The results of one SELECT for each of these events; None where one has to be computed by the database."""
        found: Results = []
        for result, statement in self.results:
            several = [statement.whole.compute(row) for row in rows] if statement.whole.compute is not None else [None]
            if None in several:
                return None
            found += result.distribute([one for some in several for one in some or ()])
        return found

    @property
    def reads_clock(self) -> bool:
        """Whether the next push reads the time before it: in a statement, or in a machine that restores its memory."""
        return self.timed or not all(machine.is_restored for machine in self.machines)

    def run(
        self,
        database: Database,
        rows: Sequence[Row],
        now: int,
        seq: int,
        before_report: Callable[[], object] | None = None,
        is_passed: bool = False,
    ) -> Outcome:
        """Runs an event in a transaction; or several (`takes_several`). `now`, `seq`: time and number of the last one.

        `before_report`: the events are stored later, and this is called before the first results of a machine are
        written. `is_passed`: whether there may be a boundary between the previous event and this one.
        """
        row, reported = rows[0], is_passed
        filled = set(self.inboxes if is_passed else self.inboxes - self.late_inboxes)
        progress: list[tuple[RowCall, Rows]] = []
        for step in self.steps:
            if isinstance(step, EventStatement):
                step.run(database, row, reported)
                continue
            if isinstance(step, BoundaryCall):
                if is_passed:
                    step.call.run(database, now, seq, False)
                continue
            machine, results = step.machine, step.take(database, rows, now, seq)
            if before_report is None:
                step.store(database, row)
            else:
                progress.append((machine, machine.progress()))
            if results is not None:
                if not reported and before_report is not None:
                    before_report()
                reported = True
                database.append(database.quoted(machine.table), results)
                filled.add(machine.table)
        return Outcome(self.read(database, rows, reported), filled, progress)

    def run_in_process(
        self,
        database: Database,
        rows: Sequence[Row],
        now: int,
        seq: int,
        before_report: Callable[[], object],
        before: int,
    ) -> Outcome | None:
        """`run` where this process reads the results; None where only the database knows some: then nothing is changed.

        Only reports of machines may still have to be written and read, and results into tables. `before`: the newest
        timestamp before the events.
        """
        assert self.in_process is not None
        computed = self.in_process.of_events(rows, before)
        if computed is None:
            return None
        found, rows = computed.results, computed.rows
        self.boundaries.add(rows)
        if computed.outputs:
            before_report()
            for output, event, own in computed.outputs:
                output.write(event, own)
        progress: list[tuple[RowCall, Rows]] = []
        reports: dict[str, pa.Table] = {}
        for step in self.steps:
            if isinstance(step, MachineStep):
                results = step.take(database, rows, now, seq)
                progress.append((step.machine, step.machine.progress()))
                if results is not None:
                    reports[step.machine.table] = results
        reported = self.in_process.of_reports(reports)
        if reported is None:
            before_report()
            for table, results in reports.items():
                database.append(database.quoted(table), results)
            reported, filled = self.in_process.of_tables(database, reports), set(reports)
        else:
            filled = set()
        found += reported
        if len(found) > 1:
            found.sort(key=lambda result: result[0].number)
        return Outcome(found, filled, progress, rows, computed.set)

    def read(self, database: Database, rows: Sequence[Row], reported: bool = False) -> Results:
        """The results, after all steps; `reported`: whether a machine has reported something."""
        found: Results = []
        for result, statement in self.results:
            if (bound := statement.of(reported)) is not None:
                read = bound.read(database, rows[0]) if len(rows) == 1 else database.fetch(result.text)
                found += result.distribute(read)
        if len(self.results) > 1:
            found.sort(key=lambda result: result[0].number)
        return found
