"""The making of plans for single events: steps and results bound to the event's values, and what this process computes."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence

from sqlglot import exp

from bridge.engine.catalogue import ResultQuery, StreamEntry
from bridge.engine.results import ResultStatement
from bridge.engine.single_events.added_rows import added_rows, totals_updates
from bridge.engine.single_events.bound_statements import BoundStatements, Unbound, row_of
from bridge.engine.single_events.boundaries import NextBoundaries, RowNumbers
from bridge.engine.single_events.in_process import FilledOutputs, InProcess, Reader, ReportsInTime
from bridge.engine.single_events.memory.totals_table import TotalsAggregate, TotalsUpdate
from bridge.engine.single_events.memory.window_changes import WindowChanges
from bridge.engine.single_events.memory.window_content import WindowInsertion
from bridge.engine.single_events.memory.window_memory import FilledWindow, WindowMemory
from bridge.engine.single_events.one_event import BoundaryCall, EventStatement, MachineReader, MachineStep, OneEventPlan
from bridge.engine.single_events.outputs import TableOutput, result_query, written_here
from bridge.engine.single_events.postponed import is_unfailing
from bridge.engine.single_events.reports import report_reader
from bridge.patterns.live.statements import Arrivals
from bridge.rewrite.aggregates.snapshot import PeriodicReports
from bridge.rewrite.flow import Boundaries
from bridge.rewrite.plan import Insert, InsertMissing, Operator, OutputInsert, Purge, RowCall
from bridge.rewrite.state_tables import CLOCK
from windows.databases import Database
from windows.sql import table_names


def one_event_plan(
    stream: StreamEntry,
    operators: Sequence[Operator],
    results: Sequence[ResultStatement],
    empty: Collection[str],
    database: Database,
    bound: BoundStatements | None = None,
    memory: WindowMemory | None = None,
    outputs: Sequence[TableOutput] = (),
) -> OneEventPlan | None:
    """The plan for an event of this stream, with these operators and result statements; None where one needs the inbox.

    `empty`: the inboxes of the other streams. `bound`: the statements that an earlier plan has bound. `memory`: the
    rows of tables in memory; None where no rows may be held. `outputs`: the tables that get results.
    """
    bound = bound or BoundStatements(stream, row_of(stream, database), database)
    if bound.row is None:
        return None
    bound.begin()
    try:
        return _Planning(operators, empty, bound, database, memory, outputs).plan(results)
    except Unbound:
        return None


class _Planning:
    """The steps of a plan, bound one after the other."""

    def __init__(
        self, operators: Sequence[Operator], empty: Collection[str], bound: BoundStatements, database: Database,
        memory: WindowMemory | None, outputs: Sequence[TableOutput],
    ) -> None:  # fmt: skip
        self._operators, self._memory, self._outputs = operators, memory, outputs
        self._steps = [step for operator in operators for step in operator.steps]
        self._machines = [step for step in self._steps if isinstance(step, RowCall)]
        self._reported = reported = {machine.table for machine in self._machines}
        self._inboxes = frozenset(inbox for operator in operators for inbox in operator.inboxes) - reported
        self._database, self._bound, self._empty = database, bound, empty
        stored = {arrivals.table for machine in self._machines for arrivals in machine.arrivals}
        self._added = added_rows(operators, stored, bound, empty, self._totals) if memory is not None else {}
        """The rows that the INSERTs add, by table, where they may be added later."""
        counts = self._row_numbers()
        known = dict.fromkeys(each.boundaries for each in operators if each.boundaries is not None)
        boundaries = [each for each in known if each.keys is None or each in counts]
        jumping = [operator for operator in operators if operator.boundaries in boundaries]
        times = [each for each in boundaries if each.keys is None]
        self._boundaries, self._known = NextBoundaries(times, list(counts.values()), database), set(boundaries)
        self._waiting = {*empty, *(each.rows for each in boundaries), *itertools.chain(*(o.inboxes for o in jumping))}
        """The tables that are empty, or are read as empty while no boundary is passed."""
        rows = {each.rows for each in boundaries}
        own = {operator.number for operator in jumping if any(made.name in rows for made in operator.tables)}
        self._late = {id(step) for operator in jumping if operator.number not in own for step in operator.steps}
        """The steps that do nothing before the next boundary, apart from the steps that read such tables."""
        self._late |= {id(step) for each in jumping for step in each.steps if isinstance(step, PeriodicReports)}
        first_rows = {each.first for each in boundaries}
        self._late |= {id(step) for operator in jumping for step in operator.steps if step.table in first_rows}
        self._quiet = {*self._waiting, *reported}
        self._derived = {*self._inboxes, *reported}
        self._binds = False

    def plan(self, results: Sequence[ResultStatement]) -> OneEventPlan:
        inserts: dict[str, Insert] = {}
        found = [step for step in self._bound_steps(inserts) if step is not None]
        read = [(each, self._statement(each, functools.partial(result_of_one_event, each))) for each in results]
        results_bound = [(each, statement) for each, statement in read if statement is not None]
        steps = [step for step in found if isinstance(step, EventStatement)]
        statements = [*steps, *(each for _, each in results_bound)]
        clock = self._database.own_name(CLOCK)
        timed = any(clock in statement.whole.text for statement in statements)
        timed |= any(isinstance(step, BoundaryCall) for step in found)
        running = [step for step in self._steps if isinstance(step, Insert) and self._runs(step)]
        late = self._inboxes - {step.table for step in running}
        is_timed_now = any(clock in each.quiet.text for each in steps if each.quiet is not None)
        computed_here = written_here(self._operators, self._outputs)
        rows = list(inserts.values())
        added = [step for step in running if step.table not in inserts and id(step) not in computed_here]
        is_known = {step.table for step in added} <= {*self._added, *self._totals} and not is_timed_now
        in_process = self._in_process(results_bound, running) if is_known else None
        stores = rows if in_process is None else [*rows, *added]
        computed = all(step.is_computed for step in found if isinstance(step, MachineStep))
        # On servers nothing is computed here: the database has accepted a SELECT of the same values at the push.
        is_embedded = bool(self._bound.proven)
        can_fail = is_embedded and not computed and not all(self._is_safe(step) for step in inserts.values())
        return OneEventPlan(
            found,
            results_bound,
            self._inboxes,
            late,
            stores,
            can_fail,
            timed,
            self._binds,
            self._boundaries,
            in_process,
            can_wait=self._can_wait(results),
        )

    def _bound_steps(self, inserts: dict[str, Insert]) -> list[EventStatement | BoundaryCall | MachineStep | None]:
        """The steps with the values of an event; None for a step that does nothing.

        The INSERTs that store the rows of machines are put into `inserts`, by table.
        """
        stored = {arrivals.table for step in self._machines for arrivals in step.arrivals}
        steps: list[EventStatement | BoundaryCall | MachineStep | None] = []
        for step in self._steps:
            if isinstance(step, RowCall):
                steps.append(self._machine(step, inserts))
            elif isinstance(step, Insert) and step.table in stored:
                inserts[step.table] = step
            elif isinstance(step, (Insert, Purge)):
                # InsertMissing follows the UPDATE of the existing rows, with a SELECT of the same rows.
                merges = isinstance(step, InsertMissing) and self._bound.is_one_row(step, self._empty)
                update = steps.pop() if merges else None
                statement = self._statement(step, functools.partial(_of_step, step))
                steps.append(update._replace(otherwise=statement) if isinstance(update, EventStatement) else statement)
            elif isinstance(step, PeriodicReports) and id(step) in self._late:
                steps.append(BoundaryCall(step))
            else:
                raise Unbound
        return steps

    def _is_safe(self, step: Insert) -> bool:
        """Whether an INSERT cannot fail when it adds rows of events that have been reported already."""
        insertion = self._bound.insertion(step, functools.partial(_of_step, step))
        return insertion is not None and insertion.is_safe

    def _runs(self, step: Insert) -> bool:
        """Whether an INSERT adds rows for an event before the next boundary."""
        write = functools.partial(_of_step, step)
        waiting = self._waiting - {step.table}
        return id(step) not in self._late and self._bound.of(step, write, waiting) is not None

    def _in_process(
        self, results: Sequence[tuple[ResultStatement, EventStatement]], running: Collection[Insert]
    ) -> InProcess | None:
        """The readers of these results without the database; None where part of the plan needs the database.

        `running`: the INSERTs that add rows before the next boundary.
        """
        is_empty = not (results or running or self._bound.has_more_values)
        if is_empty or any(isinstance(step, Purge) for step in self._steps):
            return None
        tables = {step.table for step in running}
        added = {table: each for table, each in self._added.items() if table in tables}
        insertions = {table: each.insertion for table, each in added.items() if each.insertion is not None}
        readers = []
        for each, statement in results:
            if self._waits(each):
                continue
            reader = statement.whole.compute or self._reader(each, insertions)
            is_timed = statement.quiet is not None and self._database.own_name(CLOCK) in statement.quiet.text
            if reader is None or (is_timed and not isinstance(reader, WindowChanges | ReportsInTime)):
                return None
            readers.append((each, reader))
        filled = {id(step) for step in running}
        outputs = FilledOutputs(readers, [each for each in self._outputs if id(each.insert) in filled])
        if not outputs.are_read(lambda output: self._output_reader(output, insertions)):
            return None
        computed = {id(each.aggregate): each.aggregate for each in added.values() if each.aggregate is not None}
        reading = [*(reader for _, reader in readers), *outputs.unheard, *computed.values()]
        # A reader of totals notices when they become too large for the database, which then has to refuse the event.
        if not self._totals.keys() <= {each.rows.name for each in reading if isinstance(each, TotalsAggregate)}:
            return None
        checks = [each for each in computed.values() if not each.is_safe]
        return InProcess(
            readers, self._memory, self._bound.stream, checks, unheard=outputs.unheard, outputs=outputs.of_readers
        )

    def _output_reader(self, output: TableOutput, insertions: Mapping[str, WindowInsertion]) -> Reader | None:
        """The reader of the results that a table gets."""
        write = functools.partial(result_of_one_event, output.result, is_direct=True)
        statement = self._bound.of(output.query, write, self._empty)
        if statement is None or statement.compute is not None:
            return None if statement is None else statement.compute
        return self._reader(output.result, insertions)

    def _can_wait(self, results: Sequence[ResultStatement]) -> bool:
        """Whether an event may be processed later, up to the next boundary: no result is due, and no step can fail."""
        if self._memory is None or self._machines or self._boundaries.keeps_rows or not self._boundaries:
            return False
        if not self._bound.are_sums_safe:
            return False
        steps = [step for step in self._steps if id(step) not in self._late]
        if not (all(map(self._waits, results)) and all(isinstance(step, Insert | Purge) for step in steps)):
            return False
        running = [step for step in steps if isinstance(step, Purge) or (isinstance(step, Insert) and self._runs(step))]
        return all(is_unfailing(_of_step(step)) and not isinstance(step, OutputInsert) for step in running)

    def _row_numbers(self) -> dict[Boundaries, RowNumbers]:
        """The row counters of windows that jump after a number of rows, where the rows that an event adds are known."""
        found: dict[Boundaries, RowNumbers] = {}
        for operator in self._operators:
            boundaries = operator.boundaries
            if boundaries is not None and boundaries.keys is not None and boundaries.rows in self._added:
                arrive = self._added[boundaries.rows].keys(boundaries.keys, self._bound)
                if arrive is not None:
                    found.setdefault(boundaries, RowNumbers(boundaries, arrive))
        return found

    @functools.cached_property
    def _totals(self) -> dict[str, TotalsUpdate]:
        """The rows that an event adds to tables of totals."""
        return {} if self._memory is None else totals_updates(self._operators, self._bound, self._empty)

    def _reader(self, result: ResultStatement, insertions: Mapping[str, WindowInsertion]) -> Reader | None:
        """The reader of the results of a statement: columns of a machine's reports, aggregates over a window, or a join."""
        if len(result.members) > 1:
            return None
        member = result.members[0]
        types = [field.type for field in member.fields]
        one = result_query(member)
        read = result.statement if member.direct is None else one.statement
        reader = report_reader(read, types, self._bound.proven)
        if reader is not None and reader.table in self._reported:
            return reader
        if (entering := member.results.entering) is not None:
            return self._changes(entering, insertions)
        if self._bound.has_more_values:  # rows of an aggregate that reports changes may have been inlined
            changes = self._bound.changes(one, one.statement.copy, insertions)
            if changes is not None:
                return changes
        aggregate = self._bound.aggregate(one, one.statement.copy, insertions, self._empty, self._totals, self._memory)
        if aggregate is not None or self._memory is None or self._database.nested_loops_only:
            return aggregate  # a database of nested loops joins one event as fast as this process
        write = functools.partial(result_of_one_event, result, is_direct=True)
        return self._bound.join(result if member.direct is None else one, write, self._memory, self._empty)

    def _changes(
        self, entering: ResultQuery, insertions: Mapping[str, WindowInsertion]
    ) -> WindowChanges | ReportsInTime | None:
        """The aggregate at an event; for events of another stream, at rows that leave the window up to their time."""
        write = entering.statement.copy
        tables, row = self._bound.tables(entering, write), self._bound.row
        if row is None or row.table in tables:
            return self._bound.changes(entering, write, insertions)
        filled = [self._memory.filled(table) for table in tables] if self._memory is not None else []
        windows = [window for window in filled if window is not None]
        changes = windows[0].changes(entering, write) if len(windows) == 1 else None
        return None if changes is None else ReportsInTime(changes)

    def _statement(self, source: object, write: Callable[[], exp.Expr]) -> EventStatement | None:
        row = self._bound.row
        self._binds |= row is not None and row.table in self._bound.tables(source, write)
        whole = self._bound.of(source, write, self._empty)
        if whole is None or not (self._machines or self._boundaries):
            return None if whole is None else EventStatement(whole, whole)
        is_late = self._waits(source) if isinstance(source, ResultStatement) else id(source) in self._late
        # A table of rows is read as it is: a new row is numbered among the rows before the event.
        quiet = self._quiet - {source.table} if isinstance(source, Insert) else self._quiet
        return EventStatement(whole, None if is_late else self._bound.of(source, write, quiet))

    def _waits(self, result: ResultStatement) -> bool:
        """Whether a statement has no results before the next boundary."""
        if all(member.flow.boundaries in self._known for member in result.members):
            return True
        return self._bound.of(result, functools.partial(result_of_one_event, result), self._waiting) is None

    def _machine(self, machine: RowCall, inserts: Mapping[str, Insert]) -> MachineStep:
        if not machine.arrivals:
            raise Unbound
        steps = [inserts[each.table] for each in machine.arrivals]
        stored = (self._bound.of(step, functools.partial(_of_step, step), self._empty) for step in steps)
        reads = [self._arrivals(each, machine, inserts[each.table]) for each in machine.arrivals]
        return MachineStep(machine, reads, [insert for insert in stored if insert is not None])

    def _arrivals(self, arrivals: Arrivals, machine: RowCall, insert: Insert) -> MachineReader:
        """The reader of the rows of the event; raises Unbound where they are results of another operator."""
        if not self._bound.tables(arrivals, arrivals.select.copy).isdisjoint(self._derived):
            raise Unbound
        if not arrivals.previous:
            return MachineReader(self._bound.of(arrivals, arrivals.select.copy, self._empty))
        if not self._bound.reads_rows(arrivals.select, self._empty):
            return MachineReader(None)
        own = frozenset([self._bound.stream])
        insertion = self._bound.insertion(insert, functools.partial(_of_step, insert))
        sources = [each.sources for each in self._operators if id(machine) in map(id, each.steps)]
        if insertion is None or sources != [own]:
            raise Unbound
        return MachineReader(*self._bound.of_arrivals(arrivals, insertion, self._empty))


def filled_window(
    table: str, operators: Sequence[Operator], bound_of: Callable[[str], BoundStatements | None]
) -> FilledWindow | None:
    """The INSERT that fills a window table; None unless events of one stream add at most a row of their values each.

    Args:
        table: The name of the table.
        operators: All operators.
        bound_of: Gives the bound statements for a stream of this name; None where there is no such stream.
    """
    found = [(operator, step) for operator in operators for step in operator.steps if step.table == table]
    if len(found) != 1:
        return None
    operator, step = found[0]
    if not isinstance(step, Insert):
        return None
    bound = bound_of(next(iter(operator.sources))) if len(operator.sources) == 1 else None
    if bound is None or bound.row is None or operator.timed or operator.boundaries is not None:
        return None
    read = set(table_names(step.statement())) - {table}
    insertion = bound.insertion(step, functools.partial(_of_step, step))
    return bound.filled(insertion) if insertion is not None and read == {bound.row.table} else None


def _of_step(step: Insert | Purge) -> exp.Expr:
    return step.statement("one") if isinstance(step, Insert) else step.statement()


def result_of_one_event(result: ResultStatement, is_direct: bool = False) -> exp.Expr:
    """The statement without ORDER BY `ts` and `seq`, which are equal in all its rows unless time alone gives rows.

    `is_direct`: without the inbox from which a table of results is filled.
    """
    member = result.members[0]
    alone = member.results.one if len(result.members) == 1 else None
    if is_direct and member.direct is not None:
        alone = result_query(member)
    statement = (result if alone is None else alone).statement.copy()
    order = statement.args.get("order")
    if order is not None and not result.timed:
        kept = [term for term in order.expressions if term.this.name not in ("ts", "seq")]
        statement.set("order", exp.Order(expressions=kept) if kept else None)
    return statement
