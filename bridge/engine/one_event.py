"""Plans for an event pushed alone: its values are bound in the statements in place of the inbox, which is not filled.

The statements are those of any push, and shorter: the results of one event have one `ts` and `seq`, so they need not be
sorted by them; joins with the inboxes of other streams, which are empty, are dropped. A machine gets the event's rows from
a SELECT of their own; where it reports nothing, what reads its results is left out.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

from bridge.engine.bound_statements import BoundStatement, BoundStatements, Row, Unbound, row_of
from bridge.engine.catalogue import StreamEntry
from bridge.engine.in_process import InProcess, Reader
from bridge.engine.reports import report_reader
from bridge.engine.results import Results, ResultStatement
from bridge.engine.window_recognition import Insertion
from bridge.patterns.live.statements import Arrivals, Rows
from bridge.rewrite.plan import Insert, Operator, Purge, RowCall
from bridge.rewrite.state_tables import CLOCK
from windows.databases import Database

if TYPE_CHECKING:
    import pyarrow as pa


class EventStatement(NamedTuple):
    """A statement, and what is left of it while no machine has reported anything; None where nothing is left."""

    whole: BoundStatement
    quiet: BoundStatement | None

    def of(self, reported: bool) -> BoundStatement | None:
        return self.whole if reported else self.quiet


class MachineStep(NamedTuple):
    """A machine, what reads its rows of an event (None: there are none), and what stores them."""

    machine: RowCall
    reads: Sequence[BoundStatement | None]
    inserts: Sequence[BoundStatement]

    def take(self, database: Database, rows: Sequence[Row], now: int, seq: int) -> pa.Table | None:
        """The results; nothing is stored."""
        arrived = [
            [] if bound is None else [found for row in rows for found in bound.read(database, row)]
            for bound in self.reads
        ]
        return self.machine.take(database, arrived, now, seq)

    @property
    def is_computed(self) -> bool:
        """Whether no statement reads its rows of an event."""
        return all(bound is None or bound.compute is not None for bound in self.reads)

    def store(self, database: Database, row: Row) -> None:
        """Stores what `take` has changed."""
        for insert in self.inserts:
            insert.run(database, row)
        self.machine.write_progress(database, self.machine.progress())
        if self.machine.is_checkpoint_due:
            self.machine.checkpoint(database)


class Outcome(NamedTuple):
    """The results of an event, the inboxes of results that have rows then, and what machines have still to write."""

    results: Results
    filled: set[str]
    progress: Sequence[tuple[RowCall, Rows]]


@dataclasses.dataclass(frozen=True, eq=False)
class OneEventPlan:
    """What an event of one stream runs, pushed alone: the steps, what reads results, and the inboxes that INSERTs fill.

    `stores`: the INSERTs that store the rows of machines, as for events in the inbox. `timed`: whether a statement reads the
    clock. `binds`: whether a statement reads the event, not only machines. `in_process`: what reads the results
    without the database; None where only the database can.
    """

    steps: Sequence[EventStatement | MachineStep]
    results: Sequence[tuple[ResultStatement, EventStatement]]
    inboxes: frozenset[str]
    stores: Sequence[Insert]
    timed: bool
    binds: bool
    in_process: InProcess | None = None

    @functools.cached_property
    def machines(self) -> list[RowCall]:
        """Its machines."""
        return [step.machine for step in self.steps if isinstance(step, MachineStep)]

    @functools.cached_property
    def is_one_select(self) -> bool:
        """Whether it writes nothing and reads by one statement at most, so that it needs no transaction."""
        return not self.steps and not self.timed and len(self.results) <= 1

    @functools.cached_property
    def _is_quiet(self) -> bool:
        """Whether only machines run while these report nothing."""
        statements = [
            *(step for step in self.steps if isinstance(step, EventStatement)),
            *(each for _, each in self.results),
        ]
        return bool(self.machines) and all(statement.quiet is None for statement in statements)

    def can_store_later(self, in_process: InProcess | None) -> bool:
        """Whether an event may be stored with later ones: what keeps its rows has them in memory, too.

        `in_process`: what reads the results without the database; None where the database reads them.
        """
        in_memory = self._is_quiet if in_process is None else in_process.is_ready
        return in_memory and all(each.is_restored and not each.is_checkpoint_due for each in self.machines)

    @functools.cached_property
    def takes_several(self) -> bool:
        """Whether it also runs several events at once, which are then computed in this process."""
        if self.is_one_select:
            return all(statement.whole.compute is not None for _, statement in self.results)
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
        """Whether a statement of the next push reads the time before it, or a machine does that makes its memory anew."""
        return self.timed or not all(machine.is_restored for machine in self.machines)

    def run(
        self,
        database: Database,
        rows: Sequence[Row],
        now: int,
        seq: int,
        before_report: Callable[[], object] | None = None,
    ) -> Outcome:
        """Runs an event in a transaction, with its row, time and number; or events (`takes_several`), with those of the last.

        `before_report`: they are stored later, and this is called before the first results of a machine are written.
        """
        row = rows[0]
        filled, progress, reported = set(self.inboxes), list[tuple[RowCall, Rows]](), False
        for step in self.steps:
            if isinstance(step, EventStatement):
                if (bound := step.of(reported)) is not None:
                    bound.run(database, row)
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
        self, database: Database, rows: Sequence[Row], now: int, seq: int, before_report: Callable[[], object]
    ) -> Outcome | None:
        """`run` where the results are read in this process; None where only the database knows some, and nothing is changed.

        Only what a machine reports may have to be written and read after all.
        """
        assert self.in_process is not None
        found = self.in_process.of_events(rows)
        if found is None:
            return None
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
        return Outcome(found, filled, progress)

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


def one_event_plan(
    stream: StreamEntry,
    operators: Sequence[Operator],
    results: Sequence[ResultStatement],
    empty: Collection[str],
    database: Database,
    bound: BoundStatements | None = None,
) -> OneEventPlan | None:
    """The plan for an event of this stream, of these operators and result statements; None where one needs the inbox.

    `empty`: the inboxes of the other streams. `bound`: what an earlier plan has bound.
    """
    bound = bound or BoundStatements(stream, row_of(stream, database), database)
    if bound.row is None:
        return None
    bound.begin()
    try:
        return _Planning(operators, empty, bound, database).plan(results)
    except Unbound:
        return None


class _Planning:
    """The steps of a plan, bound one after the other."""

    def __init__(
        self, operators: Sequence[Operator], empty: Collection[str], bound: BoundStatements, database: Database
    ) -> None:
        self._operators = operators
        self._steps = [step for operator in operators for step in operator.steps]
        self._machines = [step for step in self._steps if isinstance(step, RowCall)]
        self._reported = reported = {machine.table for machine in self._machines}
        self._inboxes = frozenset(inbox for operator in operators for inbox in operator.inboxes) - reported
        self._database, self._bound, self._empty = database, bound, empty
        self._quiet = {*empty, *reported}
        self._derived = {*self._inboxes, *reported}
        self._binds = False

    def plan(self, results: Sequence[ResultStatement]) -> OneEventPlan:
        stored = {arrivals.table: step for step in self._machines for arrivals in step.arrivals}
        inserts: dict[str, Insert] = {}
        steps: list[EventStatement | MachineStep | None] = []
        for step in self._steps:
            if isinstance(step, RowCall):
                steps.append(self._machine(step, inserts))
            elif isinstance(step, Insert) and step.table in stored:
                inserts[step.table] = step
            elif isinstance(step, (Insert, Purge)):
                steps.append(self._statement(step, functools.partial(_of_step, step)))
            else:
                raise Unbound
        read = [(each, self._statement(each, functools.partial(_of_one_event, each))) for each in results]
        found = [step for step in steps if step is not None]
        results_bound = [(each, statement) for each, statement in read if statement is not None]
        statements = [
            *(step for step in found if isinstance(step, EventStatement)),
            *(each for _, each in results_bound),
        ]
        clock = self._database.own_name(CLOCK)
        timed = any(clock in statement.whole.text for statement in statements)
        in_process = None if timed or self._inboxes else self._in_process(results_bound)
        if in_process is not None:
            inserts |= {step.table: step for step in self._steps if isinstance(step, Insert)}
        stores = list(inserts.values())
        return OneEventPlan(found, results_bound, self._inboxes, stores, timed, self._binds, in_process)

    def _in_process(self, results: Sequence[tuple[ResultStatement, EventStatement]]) -> InProcess | None:
        """What reads these results without the database; None where something of the plan needs it."""
        insertions = self._window_insertions()
        if insertions is None or not results:
            return None
        readers = []
        for each, statement in results:
            reader = statement.whole.compute or self._reader(each, insertions)
            if reader is None:
                return None
            readers.append((each, reader))
        return InProcess(readers)

    def _window_insertions(self) -> dict[str, Insertion] | None:
        """What the steps add to window tables; None where a step does more, or another stream adds rows to such a table."""
        found: dict[str, Insertion] = {}
        own, stored = frozenset([self._bound.stream]), {each.table for step in self._machines for each in step.arrivals}
        for operator in self._operators:
            for step in operator.steps:
                if isinstance(step, RowCall) or step.table in stored:
                    continue
                if not isinstance(step, Insert) or operator.timed or operator.sources != own or self._bound.row is None:
                    return None
                read = {each.name for each in step.statement().find_all(exp.Table)} - {step.table}
                insertion = self._bound.insertion(step, functools.partial(_of_step, step))
                if insertion is None or step.table in found or read != {self._bound.row.table}:
                    return None
                found[step.table] = insertion
        return found

    def _reader(self, result: ResultStatement, insertions: Mapping[str, Insertion]) -> Reader | None:
        """What reads the results of a statement: columns of what a machine reports, or aggregates over a window."""
        if len(result.members) > 1:
            return None
        member = result.members[0]
        types = [field.type for field in member.fields]
        reader = report_reader(result.statement, types, self._database.python_types)
        if reader is not None and reader.table in self._reported:
            return reader
        few = member.results.of("few")
        return self._bound.aggregate(few, few.statement.copy, insertions, self._empty)

    def _statement(self, source: object, write: Callable[[], exp.Expr]) -> EventStatement | None:
        row = self._bound.row
        self._binds |= row is not None and row.table in self._bound.tables(source, write)
        whole = self._bound.of(source, write, self._empty)
        if whole is None or not self._machines:
            return None if whole is None else EventStatement(whole, whole)
        return EventStatement(whole, self._bound.of(source, write, self._quiet))

    def _machine(self, machine: RowCall, inserts: Mapping[str, Insert]) -> MachineStep:
        if not machine.arrivals:
            raise Unbound
        steps = [inserts[each.table] for each in machine.arrivals]
        stored = (self._bound.of(step, functools.partial(_of_step, step), self._empty) for step in steps)
        reads = [self._arrivals(each) for each in machine.arrivals]
        return MachineStep(machine, reads, [insert for insert in stored if insert is not None])

    def _arrivals(self, arrivals: Arrivals) -> BoundStatement | None:
        """What reads the rows of the event; raises Unbound where they are results of another operator."""
        if not self._bound.tables(arrivals, arrivals.select.copy).isdisjoint(self._derived):
            raise Unbound
        return self._bound.of(arrivals, arrivals.select.copy, self._empty)


def _of_step(step: Insert | Purge) -> exp.Expr:
    return step.statement("one") if isinstance(step, Insert) else step.statement()


def _of_one_event(result: ResultStatement) -> exp.Expr:
    """The statement without ORDER BY `ts` and `seq`, which are equal in its rows unless time alone gives rows."""
    statement = result.statement.copy()
    order = statement.args.get("order")
    if order is not None and not result.timed:
        kept = [term for term in order.expressions if term.this.name not in ("ts", "seq")]
        statement.set("order", exp.Order(expressions=kept) if kept else None)
    return statement
