"""Pushes of one event or a few that change only memory; a durable bridge stores their events in its journal."""

from __future__ import annotations

import abc
import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence

from bridge.engine.execution.conflicting_streams import ConflictingStreams
from bridge.engine.execution.transactions import Receipt, Transactions
from bridge.engine.intake import EventBatch
from bridge.engine.results import Results
from bridge.engine.single_events.in_process import InProcess
from bridge.engine.single_events.one_event import OneEventPlan
from bridge.engine.single_events.one_event_plans import OneEventPlans
from bridge.engine.single_events.postponed import PostponedPush
from bridge.query.nodes import Node
from bridge.rewrite.conflicts import changed_tables
from bridge.rewrite.plan import Operator
from windows.databases import Database
from windows.databases.base import PREFIX
from windows.times import BEGINNING

NO_TRANSACTION = contextlib.nullcontext()


class SmallPushes(Transactions):
    """Transactions, and pushes that need none: they change only memory, or are one SELECT."""

    def __init__(self, database: Database, durable: bool = False) -> None:
        super().__init__(database, durable)
        self._one_event_plans = OneEventPlans(
            database,
            self.active_operators,
            self.results,
            self.catalogue.streams,
            lambda: bool(self.most_in_process),
            self.next_deadline,
            self.active_queries,
        )
        self._conflicts = ConflictingStreams(self.catalogue.queries, database)
        self._is_written: bool | None = None
        self.has_connection_alone = False
        """Whether only the bridge has the connection, so that nobody else can read or change tables between pushes."""
        self._was_used = False
        """Whether others have run statements since the last push with a transaction."""
        self._proven = frozenset(database.python_types)
        """The types that this process computed with as the database does when plans were last made."""
        self._is_set = True
        """Whether the tables of constants fit the present queries."""
        self.uncommitted: Results = []
        """The results of the newest push, even if it is not known whether the push has taken effect."""

    def share_connection(self, is_lasting: bool = True) -> None:
        """Writes all rows into their tables, for others to read or change; the next push reads them again.

        `is_lasting`: each push does so from now on.
        """
        self.store_postponed()
        if self.has_connection_alone:
            self.has_connection_alone = not is_lasting
            self._was_used = True
            self._one_event_plans.forget()
            if is_lasting:
                self._one_event_plans.clear()

    @abc.abstractmethod
    def next_deadline(self, operators: Iterable[Operator] | None = None) -> int | None:
        """The next time at which these operators (None: any) may report something without an event."""

    def settle(self, count: int | None) -> None:
        """Before a push of `count` events (None: of any number): brings the statements that read results up to date."""
        self._follow_settings()
        if not self._is_set:
            self._set_constants()
        if not self.results.are_settled(count):
            for push in self.results.outdated(None if self._conflicts.tables else count, self.most_of_any_plan):
                self._regroup(push)

    def _set_constants(self) -> None:
        """Fills the tables of constants again, if queries were added or removed since the last push."""
        statements = [one for operator in self.network.operators for one in operator.settings()]
        if statements:
            with self.transaction():
                for statement in statements:
                    self.database.execute(self.database.render(statement))
        for operator in self.network.operators:
            operator.settings = list
        self._is_set = True

    def _regroup(self, push: str) -> None:
        """Settles again which queries share a statement, and drops tables of constants that are no longer read."""
        self._one_event_plans.clear()
        for name in self.results.regroup(push, self.active_queries()):
            with self.transaction():
                self._tables.drop(name)

    def _follow_settings(self) -> None:
        """Notices if the program has changed how the database compares, for example by a collation."""
        if self._was_used and self._proven != (proven := frozenset(self.database.python_types)):
            self._proven = proven
            self._one_event_plans.unbind()

    def store_postponed(self) -> None:
        """Writes postponed events into their tables, before these are read."""
        if self.has_postponed:
            with self.transaction():
                pass

    def leave(self) -> None:
        """Leaves all tables in the database for the next bridge, with all rows."""
        self.store_postponed()
        super().leave()

    def drop(self) -> None:
        """Removes all tables, and forgets postponed events."""
        self._postponed.clear()
        super().drop()

    @property
    def most_in_process(self) -> int:
        """The greatest number of events in a push that may be computed in this process; 0: none."""
        is_possible = self.has_connection_alone and self._has_python_types
        return self.network.settings.in_process if is_possible and not self._writes_own_tables() else 0

    @property
    def most_of_any_plan(self) -> int:
        """The same for the plan that accepts the most."""
        most = self.most_in_process
        return max(most, self.network.settings.in_process_quick) if most else 0

    def most_of(self, plan: OneEventPlan) -> int:
        """The same for this plan."""
        found = plan.in_process
        if found is None:
            return self.most_in_process
        if found.outputs:  # each result is an INSERT of its own
            return min(self.most_in_process, self.network.settings.few)
        is_quick = found.has_few_rows or (found.is_joined and self.database.nested_loops_only)
        return self.most_of_any_plan if is_quick else self.most_in_process

    @functools.cached_property
    def _has_python_types(self) -> bool:
        """Whether this process computes with values of any type as the database does."""
        return bool(self.database.python_types)

    def _forget_steps(self) -> None:
        super()._forget_steps()
        self._one_event_plans.forget()

    def _must_run_now(self, plan: OneEventPlan, stream: str) -> bool:
        """Whether the database must process an event at once, as it may read what an earlier one has written.

        Variables that are in memory are not read from the database.
        """
        shared = self._conflicts.of([stream.lower()])
        return bool(shared) and (plan.variables is None or not plan.variables.tables >= shared)

    def _writes_own_tables(self) -> bool:
        """Whether a query changes a table of the bridge, so that a push may change what other queries read."""
        if self._is_written is None:
            self._is_written = any(name.startswith(PREFIX) for name in changed_tables(self._trees(), self.database))
        return self._is_written

    def _trees(self) -> list[Node]:
        return [entry.resolved.node for entry in self.catalogue.queries.values()]

    def _run_small(
        self, batches: Sequence[EventBatch], count: int, ts: int, receipts: Sequence[Receipt]
    ) -> Results | None:
        """Runs a push that is one SELECT, or whose changes are written with later ones; None if it needs more.

        `receipts`: what is stored with the push, such as the position of its source.
        """
        if self.is_durable and not self._may_use_journal:
            return None
        plan = self._plan_of(batches, count)
        if plan is None or plan.needs_transaction or self._inboxes.registered or self._was_used:
            return None
        if self.is_durable and not self._journal.has_table(batches[0].stream):
            self._journal.make_table(batches[0].stream)
            self.has_committed = False
        if self._one_event_plans.dormant(batches[0].stream, plan).are_due(self.now, ts):
            return None
        if plan.is_plain_select:
            return self._run_select(plan, batches[0], ts, receipts)
        is_noted = bool(receipts) and not self.is_durable
        is_passed = plan.may_pass_boundary(self.now, ts, batches[0].rows)
        in_process = plan.in_process if count <= self.most_of(plan) and not is_passed else None
        may_postpone = self.has_connection_alone and not (plan.is_computed or is_noted or is_passed)
        may_postpone = may_postpone and not self._must_run_now(plan, batches[0].stream.name)
        waits = self._waits(plan, in_process)
        may_postpone = may_postpone and self._postponed.accept(waits)
        if may_postpone and waits and plan.can_wait and not self._housekeeping.is_due_with(self.seq, count):
            return self._let_wait(plan, batches[0], ts, receipts)
        can_postpone = may_postpone and plan.can_store_later(in_process, batches[0].rows)
        if can_postpone and in_process is not None:
            if self._housekeeping.is_due(count):
                self._purge_before()
            return self._run_postponed(plan, batches[0], ts, receipts, True, waits)
        if plan.is_one_select:
            return self._run_select(plan, batches[0], ts, receipts)
        if can_postpone and not self._housekeeping.is_due_with(self.seq, count):
            return self._run_postponed(plan, batches[0], ts, receipts, False)
        return None

    @property
    def _may_use_journal(self) -> bool:
        """Whether the events of a push may be in the journal. If they are pushed again, all queries take part."""
        return self.has_connection_alone and self._has_python_types and not self._excluded

    def _waits(self, plan: OneEventPlan, in_process: InProcess | None) -> bool:
        """Whether all steps run later for an event: it can only wait, or it can and others have to."""
        if in_process is not None and in_process.waits:
            return True
        if in_process is None:
            return plan.can_wait
        return (plan.can_wait or plan.may_run_later) and self._one_event_plans.let_wait

    def _plan_of(self, batches: Sequence[EventBatch], count: int) -> OneEventPlan | None:
        """The plan that runs these events without a transaction, if there is one."""
        few = self.network.settings.few
        is_small = count == 1 or count <= max(few, self.most_of_any_plan)
        if not is_small or len(batches) != 1 or not batches[0].rows or not self.results.are_current("few"):
            return None
        waiting = self._one_event_plans.waiting(batches[0].stream)
        takes = waiting is not None and count <= self.most_of(waiting) and (count == 1 or waiting.takes_several)
        if waiting is not None and takes and waiting.is_ready_in_process:  # which may read variables
            return waiting
        plan = self._one_event_plans.of(batches[0].stream)
        if plan is None or count == 1:
            return plan
        return plan if plan.takes_several and count <= max(few, self.most_of(plan)) else None

    def _purge_before(self) -> None:
        """Removes expired rows before a push without a transaction."""
        with self.transaction():
            self._tables.set_clock(self.now, self.now, self.seq)
            self._housekeeping.purge()
            self._housekeeping.since_purge = 0
        self.has_committed = False

    def _run_select(
        self, plan: OneEventPlan, batch: EventBatch, ts: int, receipts: Sequence[Receipt]
    ) -> Results | None:
        """Runs events whose plan is one SELECT, as `_run_batches` would; None if that has to run them."""
        count = len(batch.rows)
        # Panes can be made later, unless a statement reads them.
        if not plan.is_computed and (
            self._postponed or self.is_durable or self._housekeeping.is_due_with(self.seq, count)
        ):
            return None
        if self._housekeeping.is_due(count):
            self._purge_before()
        if count > 1 and self._inboxes.filled:
            self._empty_inboxes()
        if self._inboxes.filled:
            return None
        results = plan.read(self.database, batch.rows) if count == 1 else plan.compute(batch.rows)
        if results is not None:
            self.uncommitted = results
            with self._stored(batch, receipts):
                self._pass(batch, ts)
        return results

    def _stored(
        self, batch: EventBatch, receipts: Sequence[Receipt], in_process: bool = True
    ) -> contextlib.AbstractContextManager[None]:
        """The transaction in which a durable bridge stores the events of a push in its journal; none for others.

        If statements have changed tables in a transaction that has begun, unless `in_process`, this push must not run
        again: then all that is postponed is written, too.
        """
        return self._storing(batch, receipts, in_process) if self.is_durable else NO_TRANSACTION

    @contextlib.contextmanager
    def _storing(self, batch: EventBatch, receipts: Sequence[Receipt], in_process: bool) -> Iterator[None]:
        is_written = self._in_transaction and not in_process
        with self.transaction(stores_postponed=False):
            yield
            if is_written:
                self._write_postponed()
            else:
                self._journal.add(batch)
            for receipt in receipts:
                receipt.write()

    def _pass(self, batch: EventBatch, ts: int) -> None:
        """Notes that the events of a batch have taken effect without filling an inbox."""
        self._inboxes.skipped, self.seq, self.now = batch, self.seq + len(batch.rows), ts
        self._housekeeping.since_purge += len(batch.rows)
        self._one_event_plans.outdate([batch.stream.name.lower()])

    def _let_wait(self, plan: OneEventPlan, batch: EventBatch, ts: int, receipts: Sequence[Receipt]) -> Results:
        """Takes events that nothing reads before the next boundary."""
        self.uncommitted = []
        with self._stored(batch, receipts):
            self._postponed.add(PostponedPush(batch, plan, self.now, waits=True))
            self._pass(batch, ts)
        return []

    def _empty_inboxes(self) -> None:
        """Removes the rows that the previous push has left, before a push that fills no inbox."""
        with self.transaction():
            self._housekeeping.removed |= self._inboxes.empty()
            self._inboxes.filled = set()
        self.has_committed = False

    def _run_postponed(
        self, plan: OneEventPlan, batch: EventBatch, ts: int, receipts: Sequence[Receipt], in_process: bool,
        waits: bool = False,
    ) -> Results | None:  # fmt: skip
        """Runs events that are stored with later ones; a transaction begins with the first results of a machine.

        None if the database has to compute some results. `waits`: all steps run later, too.
        """
        remembered, seq = self._position(), self.seq + len(batch.rows)
        try:
            with contextlib.ExitStack() as stack:
                run = functools.partial(plan.run_in_process, before=self.now) if in_process else plan.run
                is_timed = plan.timed and not (in_process and self.is_durable)
                begin = functools.partial(self._begin_report, stack, is_timed, batch.first, ts, seq)
                outcome = run(self.database, batch.rows, ts, seq, begin)
                if outcome is None:
                    return None
                self.uncommitted = outcome.results
                stack.enter_context(self._stored(batch, receipts, in_process))
                if not (waits and plan.in_process is not None and plan.in_process.changes_nothing):
                    event = PostponedPush(
                        batch,
                        plan,
                        self.now,
                        outcome.progress,
                        waits,
                        is_noted=True,
                        rows=outcome.rows,
                        set=outcome.set,
                    )
                    self._postponed.add(event)
                self._inboxes.filled = self._inboxes.filled | outcome.filled
                self._pass(batch, ts)
            self.has_committed = True
        except BaseException:
            if not self.has_committed:
                self._go_back(remembered)
            raise
        return outcome.results

    def _begin_report(self, stack: contextlib.ExitStack, is_timed: bool, first: int, ts: int, seq: int) -> None:
        """Begins the transaction in which events that are stored later have results.

        `is_timed`: sets the clock, for statements. That of a state is the time of the newest event that is not in the journal.
        """
        stack.enter_context(self.transaction(stores_postponed=False))
        self._housekeeping.removed |= self._inboxes.empty()
        self._inboxes.filled = set()
        if is_timed:
            self._tables.set_clock(first if self.now == BEGINNING else self.now, ts, seq)
