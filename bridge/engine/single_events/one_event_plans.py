"""The plans for single events of all streams."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from sqlglot import exp

from bridge.engine.catalogue import QueryEntry, StreamEntry
from bridge.engine.intake import EventBatch
from bridge.engine.results import ResultStatement, ResultStatements
from bridge.engine.single_events.bound_statements import BoundStatements, row_of
from bridge.engine.single_events.derived_recognition import derived_results
from bridge.engine.single_events.dormant import DormantOperators
from bridge.engine.single_events.memory.derived_results import DerivedResults
from bridge.engine.single_events.memory.window_memory import FilledWindow, WindowMemory
from bridge.engine.single_events.one_event import OneEventPlan
from bridge.engine.single_events.one_event_planning import filled_window, one_event_plan
from bridge.engine.single_events.outputs import table_outputs
from bridge.engine.single_events.variable_planning import plan_with_variables
from bridge.engine.single_events.variables import VariableMemory
from bridge.engine.single_events.waiting_plans import waiting_plan
from bridge.rewrite.plan import Operator
from bridge.rewrite.tables.put_rows import PutRows
from windows.databases import Database


class OneEventPlans:
    """The plan for an event of each stream, worked out once."""

    def __init__(
        self,
        database: Database,
        operators: Callable[[], Sequence[Operator]],
        results: ResultStatements,
        streams: Mapping[str, StreamEntry],
        in_memory: Callable[[], bool],
        next_due: Callable[[Sequence[Operator]], int | None],
        entries: Callable[[], Sequence[QueryEntry]],
    ) -> None:
        self._entries = entries
        self._database, self._operators, self._results, self._streams = database, operators, results, streams
        self._in_memory, self._next_due = in_memory, next_due
        self._known: dict[str, OneEventPlan | None] = {}
        self._waiting: dict[str, OneEventPlan | None] = {}
        self._derived: dict[int, tuple[ResultStatement | PutRows, DerivedResults | None]] = {}
        self._bound: dict[str, tuple[StreamEntry, BoundStatements]] = {}
        self._memory = WindowMemory(self._filled)
        self._variables = VariableMemory(database)
        self._timers: DormantOperators | None = None
        self._dormant: dict[str, DormantOperators] = {}

    def clear(self) -> None:
        """Forgets all plans, as operators or result statements have changed."""
        self._known.clear()
        self._waiting.clear()
        self._derived.clear()
        self._timers = None
        self._dormant.clear()
        self._memory.clear()
        self._variables.forget()
        for _, bound in self._bound.values():
            bound.begin()

    def unbind(self) -> None:
        """Forgets all plans and bound statements, as the database now computes differently."""
        self.clear()
        self._bound.clear()

    def forget(self, streams: Collection[str] | None = None) -> None:
        """Forgets the rows in memory of tables that events of these streams (None: of any) have changed otherwise."""
        if streams is None:
            self._variables.forget()
        for plans in (self._known, self._waiting):
            for plan in plans.values() if streams is None else map(plans.get, streams):
                if plan is not None:
                    plan.forget()
        self._memory.forget(streams)
        self.outdate(streams)

    def note(
        self, batches: Sequence[EventBatch], streams: Collection[str], most: Callable[[OneEventPlan], int]
    ) -> None:
        """Keeps the rows in memory up to date after a push into these streams that the database has processed.

        `most`: gives the number of events of a push up to which they are added to the rows in memory of a plan.
        """
        name = batches[0].stream.name.lower() if len(batches) == 1 else ""
        known = (self._known.get(name), self._waiting.get(name))
        plans = [plan for plan in known if plan is not None and plan.keeps_memory]
        keeping = [plan for plan in plans if plan.keeps_rows]
        if keeping and 0 < len(batches[0].rows) <= min(map(most, keeping)):
            self._memory.note(name, batches[0].rows)
            for plan in keeping:
                plan.note(self._database, batches[0].rows)
        elif plans or not name:
            self.forget(streams)
        else:
            self._memory.forget(streams)
        self._variables.note()

    def dormant(self, stream: StreamEntry, plan: OneEventPlan | None) -> DormantOperators:
        """The operators that a plan for an event of a stream leaves out. When one is due, a push runs all steps."""
        name = stream.name.lower()
        is_waiting = plan is not None and plan is self._waiting.get(name)
        return self._timers_alone if is_waiting else self._dormant[name]

    @property
    def _timers_alone(self) -> DormantOperators:
        """The operators that read no stream."""
        if self._timers is None:
            self._timers = DormantOperators(self._operators(), self._database)
        return self._timers

    def outdate(self, streams: Collection[str] | None = None) -> None:
        """Forgets when dormant operators are due: events of these streams have come, or (None) all steps have run."""
        for dormant in self._dormant.values():
            dormant.outdate(streams)

    @property
    def known(self) -> list[OneEventPlan]:
        """All plans worked out so far."""
        return [plan for plan in self._known.values() if plan is not None]

    @property
    def let_wait(self) -> bool:
        """Whether events of some stream can only wait for the next boundary; then all events that can wait do so."""
        waiting = (plan.in_process for plan in self._waiting.values() if plan is not None)
        if any(in_process is not None and in_process.waits for in_process in waiting):
            return True
        return any(plan.can_wait and plan.in_process is None for plan in self.known)

    def of(self, stream: StreamEntry) -> OneEventPlan | None:
        """The plan for an event of this stream; None where a step needs the inbox."""
        name = stream.name.lower()
        if name not in self._known:
            timers = self._timers_alone
            plan, dormant = self._without(stream, timers), timers
            if plan is None or plan.statements_of_event:
                others = DormantOperators(self._operators(), self._database, name, self._next_due)
                if len(others.operators) > len(timers.operators):
                    shorter = self._without(stream, others)
                    if shorter is not None and (plan is None or shorter.statements_of_event < plan.statements_of_event):
                        plan, dormant = shorter, others
            self._known[name], self._dormant[name] = plan, dormant
        return self._known[name]

    def waiting(self, stream: StreamEntry) -> OneEventPlan | None:
        """The plan that computes the results of an event of this stream in this process, and runs all steps later.

        Variables are read and set in this process, too. None where another plan is as fast, or where only the database
        knows one of the results.
        """
        name = stream.name.lower()
        if name not in self._waiting:
            plan = self.of(stream)
            asks = plan is None or plan.statements_of_event > 0 or self._dormant[name] is not self._timers_alone
            self._waiting[name] = self._waiting_plan(stream) if self._in_memory() and asks else None
        return self._waiting[name]

    def _waiting_plan(self, stream: StreamEntry) -> OneEventPlan | None:
        operators, results = self._concerned(stream, self._timers_alone)
        others, bound, memory = self._others(stream), self._bound_of(stream), self._memory
        if any(operator.variables for operator in operators):
            others |= {inbox for operator in self._timers_alone.operators for inbox in operator.inboxes}
            outputs = table_outputs(operators, self._entries(), self._database)
            known = {name for operator in self._operators() for name in operator.variables}
            plan = plan_with_variables(
                stream, operators, results, others, bound, memory, self._variables, known, outputs
            )
            if plan is not None:
                return plan
        return waiting_plan(operators, results, others, bound, memory, self._derived_results, self._put_rows)

    def _derived_results(self, result: ResultStatement) -> DerivedResults | None:
        """The computation of a statement over one stream for its events; None where only the database can."""
        known = self._derived.get(id(result))
        if known is None:
            found = self._derive(result.statement, result.sources) if len(result.members) == 1 else None
            known = self._derived[id(result)] = result, found
        return known[1]

    def _put_rows(self, step: PutRows) -> DerivedResults | None:
        """The computation of the rows that a step puts into a table, for events whose rows the table certainly takes."""
        known = self._derived.get(id(step))
        if known is None:
            sources = next(
                operator.sources for operator in self._operators() if any(step is own for own in operator.steps)
            )
            if (found := self._derive(step.rows, sources)) is not None:
                found.accept(step.is_storable)
            known = self._derived[id(step)] = step, found
        return known[1]

    def _derive(self, statement: exp.Expr, sources: Collection[str]) -> DerivedResults | None:
        """The computation of a statement that reads these streams; None where only the database can."""
        bound = self._bound_of_name(next(iter(sources))) if len(sources) == 1 else None
        if bound is None:
            return None
        return derived_results(statement, self._operators(), bound, self._filled, self._database)

    def _concerned(
        self, stream: StreamEntry, dormant: DormantOperators
    ) -> tuple[list[Operator], Sequence[ResultStatement]]:
        """The operators and the result statements of a plan for an event of a stream."""
        streams = frozenset([stream.name.lower()])
        operators = [operator for operator in dormant.without(self._operators()) if operator.runs_at(streams)]
        return operators, dormant.without_results(self._results.at(streams, 1, final=False))

    def _others(self, stream: StreamEntry) -> set[str]:
        """The inboxes of other streams, which are empty."""
        return {other.inbox for other in self._streams.values()} - {stream.inbox}

    def _without(self, stream: StreamEntry, dormant: DormantOperators) -> OneEventPlan | None:
        """The plan for an event of a stream, of the operators that it concerns and that are not dormant."""
        operators, results = self._concerned(stream, dormant)
        empty = self._others(stream) | {inbox for operator in dormant.operators for inbox in operator.inboxes}
        memory = self._memory if self._in_memory() else None
        outputs = table_outputs(operators, self._entries(), self._database) if memory is not None else []
        bound = self._bound_of(stream)
        return one_event_plan(stream, operators, results, empty, self._database, bound, memory, outputs)

    def _filled(self, table: str) -> FilledWindow | None:
        """The INSERT that fills a window table."""
        return filled_window(table, self._operators(), self._bound_of_name)

    def _bound_of_name(self, name: str) -> BoundStatements | None:
        stream = self._streams.get(name)
        return None if stream is None else self._bound_of(stream)

    def _bound_of(self, stream: StreamEntry) -> BoundStatements:
        """The bound statements for this stream, not for an earlier stream of the same name."""
        known = self._bound.get(stream.name.lower())
        if known is None or known[0] is not stream:
            known = stream, BoundStatements(stream, row_of(stream, self._database), self._database)
            self._bound[stream.name.lower()] = known
        return known[1]
