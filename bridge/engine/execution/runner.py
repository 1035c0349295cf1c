"""Runs the plans in the database: one transaction per push."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bridge.engine.catalogue import QueryEntry
from bridge.engine.execution.due_times import DueTimes
from bridge.engine.execution.small_pushes import SmallPushes
from bridge.engine.execution.transactions import Receipt, TrialOver
from bridge.engine.execution.unread_tables import unread_tables
from bridge.engine.intake import EventBatch
from bridge.engine.results import PUSHES, Results
from bridge.engine.single_events.one_event import OneEventPlan
from bridge.errors import DatabaseError, QueryError
from bridge.rewrite.plan import Call, Insert, Operator, OutputInsert, Purge
from bridge.rewrite.state_tables import CLOCK
from windows.databases import Database
from windows.times import BEGINNING


class PushSteps(NamedTuple):
    """The steps of a push: texts and calls in order, the inboxes that they fill, and whether one reads the clock."""

    steps: list[str | Call]
    inboxes: set[str]
    timed: bool


class Runner(SmallPushes):
    """The state in one database and the statements over it. `now` and `seq`: time and number of the newest event."""

    def __init__(self, database: Database, durable: bool = False) -> None:
        super().__init__(database, durable)
        self._push_steps: dict[tuple[frozenset[str], bool, str, bool], PushSteps] = {}
        self._repeats = False
        """Whether events of the journal are pushed again, whose results are in the tables of results."""
        self._due_times = DueTimes(database)
        self._limited_queries: list[QueryEntry] | None = None
        """The active queries with limits; None if queries were added or removed since it was computed."""
        self.stored_clock = self._tables.clock() if self.stored is not None and self.stored.exist() else None
        """The time and the number of the newest event in the state that is to be resumed."""
        if self.stored_clock is not None:
            self._tables.names.append(database.own_name(CLOCK))
            return
        with self.transaction():
            self._tables.create_clock()
            if self.stored is not None:
                self.stored.create()

    def _outdate(self) -> None:
        self._is_set = False
        self._push_steps.clear()
        self._one_event_plans.clear()
        self._conflicts.clear()
        self._is_written = None
        self._limited_queries = None
        self._due_times.clear()
        self._housekeeping.forget()

    @property
    def _limited(self) -> list[QueryEntry]:
        """The active queries with limits."""
        if self._limited_queries is None:
            self._limited_queries = [entry for entry in self.active_queries() if entry.limits is not None]
        return self._limited_queries

    def set_clock(self, before: int, now: int, seq: int) -> None:
        """Sets the times that statements see, and the number of the newest event; a push sets them itself."""
        self._tables.set_clock(before, now, seq)

    # A push -----------------------------------------------------------------------------------------------------------

    def run_push(self, batches: Sequence[EventBatch], count: int, ts: int, receipts: Sequence[Receipt] = ()) -> Results:
        """Runs a push of `count` events up to the time `ts`, all of it or nothing, and stores its receipts.

        A push that is a single SELECT needs no transaction, nor does one that is stored together with later ones.
        """
        self.settle(count)
        self.has_committed = False
        if not (self._is_trial or self._limited or self._beginning()):
            found = self._run_small(batches, count, ts, receipts)
            if found is not None:
                return found
        with self.transaction(self._inboxes.unregister()):
            results = self.uncommitted = self.run(batches, count, ts)
            for receipt in receipts:
                receipt.write()
        return results

    def resume_from_tables(self) -> None:
        """Continues from the contents of the tables, after the connection was lost."""
        clock = self._tables.clock()
        if clock is None:
            raise DatabaseError("the state of this bridge is not in the database any more")
        self._inboxes.filled = self._all_inboxes()
        self.resume(*clock)

    def _all_inboxes(self) -> set[str]:
        """The inboxes of streams and of results."""
        of_streams = (entry.inbox for entry in self.catalogue.streams.values())
        return {*of_streams, *(inbox for operator in self.network.operators for inbox in operator.inboxes)}

    def transaction_of_push(self, count: int | None = None) -> contextlib.AbstractContextManager[None]:
        """The transaction of a push of `count` events (None: of any number of pushes), which `run` runs in it.

        The statements that read the results are settled before it, as not every database can roll back a new table.
        """
        self.settle(count)
        self.has_committed = False
        return self.transaction(self._inboxes.unregister())

    def run(self, batches: Sequence[EventBatch], count: int, ts: int, final: bool = False) -> Results:
        """Runs a push inside the caller's transaction: inboxes, operators in order, results, purge.

        `final`: no event follows, so everything that waits for later events is decided.
        """
        limited = self._limited
        began = time.monotonic() if limited else 0.0
        streams = [batch.stream.name.lower() for batch in batches]
        if self._conflicts.of(streams) and (count > 1 or (count and self._is_timed())):
            results = self._run_one_by_one(batches, ts, final)
        else:
            results = self._run_at_once(batches, count, ts, final)
        if limited:
            self._check_limits(results, time.monotonic() - began)
        return results

    def _check_limits(self, results: Results, seconds: float) -> None:
        """Raises QueryError if a push has taken longer than the limits allow, or a query has too many rows."""
        reported = {entry.name: len(rows) for entry, rows in results}
        for entry in self._limited:
            assert entry.limits is not None
            if seconds > entry.limits.seconds:
                raise QueryError(
                    f"a push with {entry.name!r} took {seconds:.1f} s: limits=Limits(seconds=…) allows more"
                )
            rows = reported.get(entry.name, 0)
            if self._housekeeping.since_purge == 0:
                tables = {
                    made.name
                    for operator in entry.operators
                    for made in operator.tables
                    if made.name in self._tables.names
                }
                rows = max([rows, *(self._tables.count(name) for name in tables)])
            if rows > entry.limits.rows:
                raise QueryError(f"{entry.name!r} has {rows} rows: limits=Limits(rows=…) allows more")

    def _is_timed(self) -> bool:
        return any(operator.timed for operator in self.active_operators())

    def _run_one_by_one(self, batches: Sequence[EventBatch], ts: int, final: bool) -> Results:
        """Runs each event as a push of its own, in the order of their numbers."""
        rows = sorted(((row[1], batch, row) for batch in batches for row in batch.tuples()), key=lambda found: found[0])
        found: dict[str, tuple[QueryEntry, list[Any]]] = {}
        timed = self._is_timed()

        def run(part: Sequence[EventBatch], count: int, ts: int, final: bool) -> None:
            for entry, results in self._run_at_once(part, count, ts, final):
                found.setdefault(entry.name, (entry, []))[1].extend(results)

        for _, batch, row in rows:
            if timed and BEGINNING < self.now < row[0]:
                run([], 0, row[0], False)  # what is due before the event must not see what it writes
            run([EventBatch(batch.stream, rows=[row])], 1, row[0], False)
        if final or ts > self.now:
            run([], 0, ts, final)
        return sorted(found.values(), key=lambda result: result[0].number)

    def _run_at_once(self, batches: Sequence[EventBatch], count: int, ts: int, final: bool) -> Results:
        """Runs all events at once, with each statement over all of them."""
        self._housekeeping.removed |= self._inboxes.empty()
        one = self._one_event_plan(batches, ts) if count == 1 and not (final or self._repeats) else None
        results = self._run_batches(batches, count, ts, final) if one is None else self._run_event(one, batches[0], ts)
        self.seq += count
        self.now = ts
        self._was_used = False
        return results

    def _run_event(self, plan: OneEventPlan, batch: EventBatch, ts: int) -> Results:
        """Runs one event by its plan."""
        seq, due = self.seq + 1, self._housekeeping.is_due(1)
        if due or self.is_durable or plan.reads_clock:
            self._set_clock(batch.first, ts, seq)
        self._begin(batch.first)
        is_passed = plan.may_pass_boundary(self.now, ts, batch.rows)
        outcome = plan.run(self.database, batch.rows, ts, seq, is_passed=is_passed)
        self._inboxes.skipped, self._inboxes.filled = batch, outcome.filled
        name = batch.stream.name.lower()
        self._end([batch], [name], 1, due)
        self._one_event_plans.outdate([name])
        return outcome.results

    def _run_batches(self, batches: Sequence[EventBatch], count: int, ts: int, final: bool) -> Results:
        """Writes events into their inboxes, and runs all steps."""
        streams = frozenset(batch.stream.name.lower() for batch in batches)
        filled = self._inboxes.fill(batches)
        seq, due = self.seq + count, self._housekeeping.is_due(count)
        plan = self._steps(streams, final, self.network.settings.kind(count))
        first = min((batch.first for batch in batches), default=ts)
        if due or not batches or self.is_durable or plan.timed:
            self._set_clock(first, ts, seq)
        self._begin(first)
        self._run_steps(plan.steps, ts, seq, final)
        results = self.results.read(self.database, streams, count, final, ts - first)
        self._inboxes.skipped, self._inboxes.filled = None, filled | plan.inboxes
        self._end(batches, streams, count, due)
        self._one_event_plans.outdate()
        return results

    def _set_clock(self, first: int, ts: int, seq: int) -> None:
        """Sets the clock; time begins with the first event, or with the first timestamp that time is advanced to."""
        self._tables.set_clock(first if self.now == BEGINNING else self.now, ts, seq)

    def _begin(self, first: int) -> None:
        """Notes the first time of all in the tables of operators whose windows begin with it."""
        for operator in self._beginning():
            self._tables.begin(operator, first)

    def _end(self, batches: Sequence[EventBatch], streams: Collection[str], count: int, due: bool) -> None:
        """Brings the rows in memory and the panes up to date, and purges if that is `due`."""
        housekeeping = self._housekeeping
        if self.most_in_process:
            self._one_event_plans.note(batches, streams, self.most_of)
        for step in housekeeping.pane_inserts(self.seq, count):
            self.database.execute(self._tables.text(step))
        if due:
            housekeeping.purge()
        housekeeping.since_purge = 0 if due else housekeeping.since_purge + count

    def _beginning(self) -> list[Operator]:
        """The operators that begin with the next push, the first one of all."""
        return [each for each in self.network.operators if each.beginning] if self.now == BEGINNING else []

    def _one_event_plan(self, batches: Sequence[EventBatch], ts: int) -> OneEventPlan | None:
        """The plan for an event, unless something else is due by its time."""
        if not batches[0].rows:
            return None
        plan = self._one_event_plans.of(batches[0].stream)
        return None if self._one_event_plans.dormant(batches[0].stream, plan).are_due(self.now, ts) else plan

    def _run_steps(self, steps: Sequence[str | Call], ts: int, seq: int, final: bool) -> None:
        for step in steps:
            if isinstance(step, str):
                self.database.execute(step)
            else:
                step.run(self.database, ts, seq, final)

    def _process_waiting(self, batches: Sequence[EventBatch], before: int, lacking: set[str]) -> set[str]:
        streams = frozenset(batch.stream.name.lower() for batch in batches)
        newest = max(batches, key=lambda batch: int(batch.rows[-1][1])).rows[-1]
        before = min(batch.first for batch in batches) if before == BEGINNING else before
        filled = self._inboxes.fill(batches)
        plan = self._steps(streams, False, self.network.settings.kind(sum(batch.count for batch in batches)))
        self._tables.set_clock(before, newest[0], newest[1])
        self._run_steps(plan.steps, newest[0], newest[1], False)
        if lacking:
            self._one_event_plans.forget(lacking)
        self._one_event_plans.outdate(streams)
        return filled | plan.inboxes

    def next_deadline(self, operators: Iterable[Operator] | None = None) -> int | None:
        """The next time at which these operators (None: any) may report something without an event.

        Machines whose memory is not restored do not count; a push restores it.
        """
        if self.now == BEGINNING:
            return None
        if self.is_durable:
            self.store_postponed()
        else:  # not every push sets the clock there
            with self.transaction():
                self._tables.set_clock(self.now, self.now, self.seq)
        return self._due_times.next(self.active_operators() if operators is None else operators, self.now)

    @property
    def awaits_push(self) -> bool:
        """Whether the memory of some machine is not restored yet."""
        machines = (step for operator in self.active_operators() for step in operator.steps)
        return not all(getattr(step, "is_restored", True) for step in machines)

    def fill_inbox(self) -> None:
        """Writes the last push's event into its inbox if that was skipped, and postponed events into their tables.

        This is done before the stream or the stored state is read.
        """
        if self._postponed or self._inboxes.skipped is not None:
            with self.transaction():
                if (batch := self._inboxes.skipped) is not None:
                    self._inboxes.filled = self._inboxes.filled | self._inboxes.fill([batch])
                    self._inboxes.skipped = None

    def _steps(self, streams: frozenset[str], final: bool, push: str) -> PushSteps:
        """The steps of a push of this kind into these streams; computed once."""
        known = self._push_steps.get((streams, final, push, self._repeats))
        if known is None:
            operators = self.active_operators()
            running = [o for o in operators if final or o.runs_at(streams)]
            steps = [step for operator in running for step in operator.steps]
            if self._repeats:
                steps = [step for step in steps if not isinstance(step, OutputInsert)]
            known = self._push_steps[streams, final, push, self._repeats] = PushSteps(
                [self._tables.text(step, push) if isinstance(step, (Insert, Purge)) else step for step in steps],
                {inbox for operator in running for inbox in operator.inboxes},
                any(operator.timed for operator in operators),
            )
        return known

    def result_texts(self, entry: QueryEntry) -> set[str]:
        """The statements that have read the results of a query so far."""
        found = [(each, each.text) for push in PUSHES for each in self.results.of(push)]
        found += [(each, each.unordered) for each, _ in found if each.unordered is not None]
        found += [(each, one.whole.text) for plan in self._one_event_plans.known for each, one in plan.results]
        found += [
            (each, one.quiet.text) for plan in self._one_event_plans.known for each, one in plan.results if one.quiet
        ]
        return {text for each, text in found if entry in each.members}

    def drop_unread(self) -> None:
        """Drops the tables that only on-demand queries would read. Neither such queries nor new queries may follow."""
        queries = self.catalogue.queries.values()
        results = [query.statement for entry in queries for _, query in entry.results.items()]
        unread = unread_tables(self.network.operators, results)
        for operator in self.network.operators:
            operator.forget(unread)
        self._inboxes.forget(unread)
        with self.transaction():
            for name in unread.intersection(self._tables.names):
                self._tables.drop(name)
        self.results.outdate()
        self._outdate()

    def purge(self) -> None:
        """Removes expired rows from all tables."""
        with self.transaction():
            self._tables.set_clock(self.now, self.now, self.seq)
            self._housekeeping.purge()

    def resume(self, now: int, seq: int) -> None:
        """Continues from the tables. `now` and `seq`: the time and the number of the newest event in them."""
        self._forget_steps()
        self._inboxes.skipped = None
        self.now, self.seq = now, seq

    def end_resumption(self, now: int, seq: int) -> None:
        """Continues from the tables after the definitions were executed; drops tables that none of them has claimed."""
        self.network.names.resuming = False
        journal = self._journal.read()
        with self.transaction():
            for inbox in sorted(self._all_inboxes()):
                self.database.execute(self._tables.emptying(inbox))
            for name in sorted(self._tables.left | (self._tables.absent - self.network.names.claimed)):
                self._tables.names.append(name)
                self._tables.drop(name)
            self._tables.left.clear()
            self._housekeeping.measure()
        self.resume(now, seq)
        self.catalogue.outbox.resume()
        if journal:
            self._push_again(journal)

    def _push_again(self, journal: Sequence[EventBatch]) -> None:
        """Pushes the events of the journal again: their results were reported, but their rows are not in the tables."""
        self._journal.restore(journal)
        count, newest = sum(batch.count for batch in journal), max(batch.rows[-1][0] for batch in journal)
        self._repeats = True
        try:
            with self.transaction_of_push(count):
                self.run(journal, count, newest)
        finally:
            self._repeats = False

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """A context in which a push that succeeds is rolled back at the end."""
        try:
            self.settle(None)
            self._is_trial = True
            yield
        except TrialOver:
            pass
        finally:
            self._is_trial = False
