"""Runs the plans in the database: tables that come and go, and one transaction a push."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from bridge.check.resolve import Resolved, streaming, without_types
from bridge.check.scope import Field
from bridge.engine.catalogue import Catalogue, QueryEntry, ResultQuery, StreamEntry
from bridge.engine.housekeeping import Upkeep
from bridge.engine.intake import Batch
from bridge.engine.one_event import Single, Singles
from bridge.engine.results import Grouping, Reports, Results
from bridge.engine.tables import Tables
from bridge.errors import QueryError
from bridge.query.epl_state import StateTable
from bridge.query.nodes import Node, Stream
from bridge.rewrite import Network
from bridge.rewrite.conflicts import conflicts, uses, written
from bridge.rewrite.flow import Flow, Selection
from bridge.rewrite.network import CLOCK
from bridge.rewrite.plan import Call, Insert, Operator, Purge
from bridge.rewrite.variants import Variants
from windows.databases import Database, Refused
from windows.schema import Reader, Schema
from windows.sql import ascending, table
from windows.times import BEGINNING

if TYPE_CHECKING:
    import pyarrow as pa

NOTHING: Mapping[str, Any] = {}


class Work(NamedTuple):
    """What a push does: texts and calls in their order, the inboxes they fill, and whether any reads the clock."""

    steps: list[str | Call]
    inboxes: set[str]
    timed: bool


class Runner:
    """The state in one database and the statements over it. `now` and `seq`: time and number of the newest event."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.catalogue = Catalogue(database)
        self.network = Network(database, self.catalogue)
        self.told: tuple[str, ...] = ("ts",)
        """What results say of their time and place before their columns."""
        self.expected: frozenset[str] = frozenset()
        """Tables that queries will write which are still to be created."""
        self.now = BEGINNING
        self.seq = 0
        self._tables = Tables(database)
        self.reports = Reports(Grouping(database, self.network, self._tables, self.transaction))
        self._upkeep = Upkeep(database, self.network, self._tables, self.reports)
        self._filled: set[str] = set()
        self._lent: dict[str, pa.Table] = {}
        self._created = 0
        self._works: dict[tuple[frozenset[str], bool, str], Work] = {}
        self._singles = Singles(self.network, self.reports, self.catalogue.streams)
        self._unfilled: Batch | None = None
        """The event of the last push, where it did not go through its inbox."""
        self._serial: bool | None = None
        self._is_set = True
        """Whether the tables of constants are those of the queries there are."""
        with self.transaction():
            self._create_clock()

    # Streams and queries ----------------------------------------------------------------------------------------------

    def add_stream(self, name: str, schema: Schema) -> StreamEntry:
        """Makes the inbox of a stream and enters it in the catalogue."""
        inbox = self.network.name("inbox", Stream(name))
        self._tables.create(inbox, [("ts", "BIGINT"), ("seq", "BIGINT"), *self._tables.columns(schema)], key="seq")
        encoders = tuple(self.database.encoder(attribute) for attribute in schema)
        entry = StreamEntry(name, schema, inbox, Reader.of(schema), encoders)
        self.catalogue.streams[name.lower()] = entry
        return entry

    def add_buffer(self, name: str) -> str:
        """Makes the table in which a stream's events wait; gives its quoted name."""
        buffer = self.network.name("buffer", Stream(name))
        schema = self.catalogue.streams[name.lower()].schema
        self._tables.create(buffer, [("ts", "BIGINT"), ("seq", "BIGINT"), *self._tables.columns(schema)])
        return self._tables.quoted(buffer)

    def remove_stream(self, entry: StreamEntry) -> None:
        del self.catalogue.streams[entry.name.lower()]
        self.catalogue.declarations.event_types.forget(entry.name)
        self._filled = self._filled - {entry.inbox}
        self._take_back()
        with self.transaction():
            self._tables.drop(entry.inbox)

    def create_state(self, state: StateTable) -> None:
        """Makes a table that statements change."""
        self._tables.create(state.name, self._tables.columns(state.schema))
        if state.key:
            self._tables.index(state.name, [state.key])
        if state.row:
            row = exp.Insert(this=table(state.name), expression=exp.select(*(value.copy() for value in state.row)))
            self.database.execute(self.database.render(row))
        self.catalogue.tables[state.name.lower()] = state

    def add_query(self, name: str, node: Node, text: str) -> None:
        """Resolves and rewrites a tree, makes its tables, and lets the database read a statement of it once.

        Where it is refused, the caller takes back what it has added to operators.
        """
        resolved = without_types(streaming(node, self.catalogue), self.catalogue)
        self._forget_works()
        self.catalogue.queries[name.lower()] = self._planned(name, resolved, text)
        self._check_timed()

    def _check_timed(self) -> None:
        """What time alone makes read and write a table would see it as it is when all of that time has passed."""
        for state in self.catalogue.tables:
            timed = [entry for entry in self.catalogue.queries.values() if entry.timed]
            counts = [uses(entry.resolved.node, state, self.database) for entry in timed]
            if any(writes for _, writes in counts) and sum(map(sum, counts)) > 1:
                raise QueryError(
                    f"two statements that time alone drives cannot both use the table {state!r}: one of them, and events"
                )

    @contextlib.contextmanager
    def expecting(self, trees: Iterable[Node]) -> Iterator[None]:
        """Trees that are created one by one, but belong together, as those of a script."""
        with contextlib.suppress(QueryError):  # which is told when the query is created
            self.expected = written(trees, self.database)
        try:
            yield
        finally:
            self.expected = frozenset()

    def _planned(self, name: str, resolved: Resolved, text: str) -> QueryEntry:
        known = {id(each): [len(made.indexes) for made in each.tables] for each in self.network.operators}
        flow, operators, derived = self.network.plan(resolved.node, self.seq)
        for operator in self.network.operators:
            self._create_tables(operator, known.get(id(operator), []))
        results = self._results(flow, resolved.visible)
        # A name or type that only the database knows is wrong here, not at an event; every variant of the statement has it.
        self.database.fetch(results.of("any" if self.database.prefers_bulk else "few").text)
        sources, timed = self.network.concerns(resolved.node)
        decoders = tuple(self.database.decoder(field.type) for field in resolved.visible)
        in_arrow = all(self.database.is_exact_in_arrow(field.type) for field in resolved.visible)
        self._created += 1
        return QueryEntry(
            name, text, resolved, self.seq, flow, operators, derived, sources, timed, results, self._created, decoders,
            in_arrow,
        )  # fmt: skip

    def remove_query(self, entry: QueryEntry) -> None:
        """Drops the tables that no other query needs."""
        del self.catalogue.queries[entry.name.lower()]
        self.reports.outdate()
        self._forget_works()
        with self.transaction():
            gone = [made.name for operator in self._forget_unused() for made in operator.tables]
            used = {table for entry in self.catalogue.queries.values() for table in entry.derived}
            gone += self.network.keep_derived(used)
            self._filled = self._filled - set(gone)
            for name in gone:
                if name in self._tables.names:
                    self._tables.drop(name)

    def undo(self, queries: Iterable[str], streams: Iterable[str], tables: Iterable[str] = ()) -> None:
        """After a refusal: the transaction has removed the tables; this forgets what stood on them."""
        for name in tables:
            self.catalogue.tables.pop(name, None)
        for name in queries:
            self.catalogue.queries.pop(name.lower(), None)
        for stream in streams:
            self.catalogue.streams.pop(stream.lower(), None)
        self._forget_unused()
        self._tables.forget_texts()
        self._forget_works()

    def close(self) -> None:
        """Removes all tables of this runner from the database; what waits for a data store is a dead letter."""
        from bridge.rewrite.tables.read_store import Read

        self._take_back()
        with self.transaction():
            for step in (step for operator in self.network.operators for step in operator.steps):
                if isinstance(step, Read):
                    step.give_up(self.database)
            for name in list(self._tables.names):
                self._tables.drop(name)
            self.catalogue.outbox.close()

    def _results(self, flow: Flow, fields: Sequence[Field]) -> Variants[ResultQuery]:
        """The statements that read the results of a flow."""
        names, types = [field.name for field in fields], tuple(field.type for field in fields)
        order = [ascending(exp.column(c, quoted=True)) for c in ("ts", "seq", *flow.order)]
        columns = [exp.column(c, quoted=True) for c in (*self.told, *names)]

        def statement(rows: Selection) -> exp.Expr:
            item = exp.Subquery(this=rows.select(["ts", "seq", *flow.order, *names])).as_("r", quoted=True, copy=False)
            return exp.select(*columns).from_(item, copy=False).order_by(*order)

        return flow.written.map(lambda writer: ResultQuery(writer.map(statement), self.database.render, types))

    def _create_tables(self, operator: Operator, indexed: Sequence[int]) -> None:
        """Makes what a plan has added to an operator: tables, and indexes of those that had so many."""
        for made, count in zip(operator.tables, indexed, strict=False):
            self._tables.index(made.name, made.indexes, done=count)
        for made in operator.tables[len(indexed) :]:
            if not made.is_late:
                self._tables.make(made)
        while operator.probes:
            self.database.fetch(self.database.render(operator.probes.pop()))

    def _forget_works(self) -> None:
        self._is_set = False
        self._works.clear()
        self._singles.clear()
        self._serial = None
        self._upkeep.forget()

    def _forget_unused(self) -> list[Operator]:
        return self.network.keep(operator for entry in self.catalogue.queries.values() for operator in entry.operators)

    # Reports ----------------------------------------------------------------------------------------------------------

    def _group_reports(self, count: int | None) -> None:
        """For a push of so many events, or any: what reports is settled before it begins."""
        if not self._is_set:
            self._set_constants()
        for push in self.reports.before(None if self._one_by_one() else count):
            self._regroup(push)

    def _set_constants(self) -> None:
        """Queries have come or gone since the last push: those that differ in constants are told apart by a table."""
        statements = [one for operator in self.network.operators for one in operator.settings()]
        if statements:
            with self.transaction():
                for statement in statements:
                    self.database.execute(self.database.render(statement))
        for operator in self.network.operators:
            operator.settings = list
        self._is_set = True

    def _regroup(self, push: str) -> None:
        """Queries that differ in constants alone report by one statement, where the database can."""
        self._singles.clear()
        for name in self.reports.regroup(push, self.catalogue.queries.values()):
            with self.transaction():
                self._tables.drop(name)

    # A push -----------------------------------------------------------------------------------------------------------

    def push(self, batches: Sequence[Batch], count: int, ts: int) -> Results:
        """One push, all of it or nothing. What is one question alone needs no transaction."""
        self._group_reports(count)
        alone = self._singles.of(batches[0].stream) if count == 1 and batches[0].rows else None
        busy = self._filled or self._lent or self._upkeep.is_due(count) or self._upkeep.folds(self.seq, count)
        if alone is not None and alone.asks_once and not busy:
            return self._ask(alone, batches[0], ts)
        with self.transaction(self._take_back()):
            return self.take(batches, count, ts)

    def _ask(self, alone: Single, batch: Batch, ts: int) -> Results:
        """One event that only asks: what `_take` would do of it."""
        results = alone.run(self.database, batch.rows[0])
        self._unfilled, self.seq, self.now = batch, self.seq + 1, ts
        self._upkeep.since_purge += 1
        return results

    def pushing(self, count: int | None = None) -> contextlib.AbstractContextManager[None]:
        """The transaction of a push of so many events, or of any number of pushes.

        What reports is settled before: not every database can take a new table back.
        """
        self._group_reports(count)
        return self.transaction(self._take_back())

    def _lend(self, inbox: str, rows: pa.Table) -> None:
        """Lets the statements read an inbox's rows where they are, instead of from its table."""
        self.database.register_arrow(inbox, rows)
        self._lent[inbox] = rows

    def _take_back(self) -> dict[str, pa.Table]:
        """Ends all lending, between transactions: one rolled back would bring back what is not there any more."""
        lent, self._lent = self._lent, {}
        for inbox in lent:
            self.database.unregister_arrow(inbox)
        return lent

    def take(self, batches: Sequence[Batch], count: int, ts: int, final: bool = False) -> Results:
        """One push inside the caller's transaction: inboxes, operators in order, results, purge.

        `final`: nothing will come after it, so all that waits for more is told.
        """
        if self._one_by_one() and (count > 1 or (count and self._is_timed())):
            return self._take_each(batches, ts, final)
        return self._take(batches, count, ts, final)

    def _one_by_one(self) -> bool:
        """Whether a query reads what another one writes, so that each event must see what those before it wrote."""
        if self._serial is None:
            trees = [entry.resolved.node for entry in self.catalogue.queries.values()]
            self._serial = bool(conflicts(trees, self.database))
        return self._serial

    def _is_timed(self) -> bool:
        return any(operator.timed for operator in self.network.operators)

    def _take_each(self, batches: Sequence[Batch], ts: int, final: bool) -> Results:
        rows = sorted(((row[1], batch, row) for batch in batches for row in batch.tuples()), key=lambda found: found[0])
        found: dict[str, tuple[QueryEntry, list[Any]]] = {}
        timed = self._is_timed()

        def take(taken: Sequence[Batch], count: int, ts: int, final: bool) -> None:
            for entry, results in self._take(taken, count, ts, final):
                found.setdefault(entry.name, (entry, []))[1].extend(results)

        for _, batch, row in rows:
            if timed and BEGINNING < self.now < row[0]:
                take([], 0, row[0], False)  # what is due before the event does not see what it writes
            take([Batch(batch.stream, rows=[row])], 1, row[0], False)
        if final or ts > self.now:
            take([], 0, ts, final)
        return sorted(found.values(), key=lambda result: result[0].number)

    def _take(self, batches: Sequence[Batch], count: int, ts: int, final: bool) -> Results:
        for inbox in self._filled:
            self.database.execute(self._tables.emptying(inbox))
            self._upkeep.removed = True
        streams = frozenset(batch.stream.name.lower() for batch in batches)
        alone = self._singles.of(batches[0].stream) if count == 1 and batches[0].rows and not final else None
        filled = set() if alone is not None else self._fill(batches)
        due = self._upkeep.is_due(count)
        work = alone or self._work(streams, final, "few" if count <= self.network.settings.few else "any")
        first = min((batch.first for batch in batches), default=ts)
        if due or not batches or work.timed:
            # Time begins with the first event, or with the first moment that one is told of.
            self._set_clock(first if self.now == BEGINNING else self.now, ts, self.seq + count)
        if isinstance(work, Single):
            results = work.run(self.database, batches[0].rows[0])
        else:
            results = self._run(work, streams, count, ts, final, ts - first)
        filled.update(work.inboxes)
        for step in self._upkeep.folds(self.seq, count):
            self.database.execute(self._tables.text(step))
        if due:
            self._upkeep.purge()
        self._unfilled = batches[0] if alone is not None else None
        self._filled, self._upkeep.since_purge = filled, 0 if due else self._upkeep.since_purge + count
        self.seq += count
        self.now = ts
        return results

    def _fill(self, batches: Sequence[Batch]) -> set[str]:
        """Brings the events into their inboxes; the tables among these."""
        filled: set[str] = set()
        for batch in batches:
            rows = batch.named() if self.database.zero_copy_arrow else None
            if rows is not None and rows.num_rows >= self.network.settings.registered_from:
                self._lend(batch.stream.inbox, rows)
            else:
                batch.insert(self.database, self._tables.quoted(batch.stream.inbox))
                filled.add(batch.stream.inbox)
        return filled

    def _run(self, work: Work, streams: frozenset[str], count: int, ts: int, final: bool, lasting: int) -> Results:
        for step in work.steps:
            if isinstance(step, str):
                self.database.execute(step)
            else:
                step.run(self.database, ts, self.seq + count, final)
        return self.reports.read(self.database, streams, count, final, lasting)

    def fill_up(self) -> None:
        """Brings the event of the last push into its inbox, if it went by it: somebody asks for the stream itself."""
        if (batch := self._unfilled) is not None:
            with self.transaction():
                self._filled, self._unfilled = self._filled | self._fill([batch]), None

    def _work(self, streams: frozenset[str], final: bool, push: str) -> Work:
        """What a push into these streams, of `few` events or `any` number, means for the operators, found once."""
        known = self._works.get((streams, final, push))
        if known is None:
            concerned = [o for o in self.network.operators if final or o.concerned(streams)]
            steps = [step for operator in concerned for step in operator.steps]
            known = self._works[streams, final, push] = Work(
                [self._tables.text(step, push) if isinstance(step, (Insert, Purge)) else step for step in steps],
                {inbox for operator in concerned for inbox in operator.inboxes},
                any(operator.timed for operator in self.network.operators),
            )
        return known

    def purge(self) -> None:
        """Removes what has expired from all tables."""
        with self.transaction():
            self._set_clock(self.now, self.now, self.seq)
            self._upkeep.purge()

    def _create_clock(self) -> None:
        self.database.execute(self.database.render(exp.Drop(tables=[table(CLOCK)], kind="TABLE", exists=True)))
        self._tables.create(CLOCK, [("before", "BIGINT"), ("now", "BIGINT"), ("seq", "BIGINT")])
        self.database.insert(self._tables.quoted(CLOCK), 3, [(BEGINNING, BEGINNING, 0)])

    def _set_clock(self, before: int, now: int, seq: int) -> None:
        """Time and number of the newest event, for statements and, with what the inboxes hold, for a restart."""
        values = {"before": before, "now": now, "seq": seq}
        settings = ", ".join(f"{self._tables.quoted(name)} = {value}" for name, value in values.items())
        self.database.execute(f"UPDATE {self._tables.quoted(CLOCK)} SET {settings}")

    def resume(self, now: int, seq: int) -> None:
        """Goes on from the tables as they are: `now` and `seq` are time and number of the newest event in them."""
        self._forget_steps()
        self._unfilled = None
        self.now, self.seq = now, seq

    def _forget_steps(self) -> None:
        """What steps remember beside their tables is no longer so."""
        for operator in self.network.operators:
            for step in operator.steps:
                if not isinstance(step, (Insert, Purge)):
                    step.forget()

    @contextlib.contextmanager
    def transaction(self, lent: Mapping[str, pa.Table] = NOTHING) -> Iterator[None]:
        """All of the block or nothing: on an error also what this object remembers goes back, and what was `lent`."""
        remembered = (self._filled, self._unfilled, self.seq, self.now)
        tables, since_purge = list(self._tables.names), self._upkeep.since_purge
        try:
            self.database.begin()  # inside: one that is interrupted may have begun the transaction
            yield
            self.database.commit()
        except BaseException:
            self._filled, self._unfilled, self.seq, self.now = remembered
            self._tables.names, self._upkeep.since_purge = tables, since_purge
            self._upkeep.take_back()
            self._forget_steps()
            with contextlib.suppress(Refused):
                self.database.rollback()
            with contextlib.suppress(Refused):
                self._take_back()
                for name, rows in lent.items():
                    self._lend(name, rows)
            raise
        self._upkeep.tidy(self.seq)
