"""The streams, queries and tables of a bridge in its database: created together, dropped when nothing needs them."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from bridge.check.resolve import ResolvedNode, resolve_stream, without_event_types
from bridge.check.scope import Field
from bridge.engine.catalogue import Catalogue, QueryEntry, ResultQuery, StreamEntry
from bridge.engine.durable import CatalogueTables
from bridge.engine.execution.definition_log import DefinitionLog
from bridge.engine.execution.garbage import pause_collection
from bridge.engine.execution.stream_tables import StreamTables
from bridge.engine.execution.takeover import Replacement, take_over
from bridge.engine.inboxes import Inboxes
from bridge.engine.results import ResultStatements, StatementMerger
from bridge.engine.tables import Tables
from bridge.errors import DatabaseError, QueryError
from bridge.query.epl_state import StateTable
from bridge.query.nodes import Node, Stream, walk
from bridge.query.table_source import TableSource
from bridge.query.time_rules import NO_RULES, TimeRules
from bridge.rewrite import Network
from bridge.rewrite.conflicts import uses, written_tables
from bridge.rewrite.flow import Flow, Selection
from bridge.rewrite.names import TableNames
from bridge.rewrite.network import in_order
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.variants import Variants
from windows.databases import Database
from windows.databases.base import PREFIX
from windows.databases.refused import refusals_at
from windows.schema import Attribute, Reader, Schema
from windows.sql import aliased, ascending, column, table
from windows.times import BEGINNING


class Plans(abc.ABC):
    """The catalogue, the network of operators, and the tables of both. `seq`: the number of the newest event."""

    def __init__(self, database: Database, durable: bool = False) -> None:
        self.database = database
        self.catalogue = Catalogue(database)
        self.is_durable = durable
        """Whether the state and its catalogue stay in the database when the process ends."""
        self.stored = CatalogueTables(database) if durable else None
        known = self.stored.names() if self.stored is not None and self.stored.exist() else []
        present = database.table_names()
        named = {row.name for row in known if row.belongs == row.name}
        names = TableNames({*present, *named}, durable, known, database.own_name(PREFIX))
        self.log = DefinitionLog(self.stored)
        self.network = Network(database, self.catalogue, table_names=names)
        self.leading_columns: tuple[str, ...] = ("ts",)
        """The columns of results before the columns of the query."""
        self.expected: frozenset[str] = frozenset()
        """The tables that queries write that are still to be created."""
        self.lost: tuple[str, ...] = ()
        """Descriptions of the operators whose state the last replacement of a query has not kept."""
        self.now = BEGINNING
        self.seq = 0
        self._tables = Tables(database, names, self.stored)
        self._tables.resume(named, present)
        self.stream_tables = StreamTables(self._tables, names, self.catalogue)
        self.results = ResultStatements(StatementMerger(database, self.network, self._tables, self.transaction))
        self._inboxes = Inboxes(database, self.network, self._tables)
        self._created = 0
        self._excluded: frozenset[str] = frozenset()
        self._replaced = Replacement()
        """The queries that are being replaced; their operators stay until the replacement is complete."""

    @abc.abstractmethod
    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """A transaction: all of the block takes effect, or nothing."""

    @abc.abstractmethod
    def remember_definitions(self) -> None:
        """Has the present definitions restored if the current transaction does not take effect."""

    @abc.abstractmethod
    def _outdate(self) -> None:
        """Notes that operators were added or removed."""

    def add_stream(
        self, name: str, schema: Schema, rules: TimeRules = NO_RULES, source: TableSource | None = None
    ) -> StreamEntry:
        """Creates the inbox of a stream and adds the stream to the catalogue."""
        owner = "" if self.log.is_removed_later(name) else f"stream {name.lower()}"
        with self.network.names.owned_by(owner):
            inbox = self.network.name("inbox", Stream(name))
        self._tables.create(inbox, [("ts", "BIGINT"), ("seq", "BIGINT"), *self._tables.columns(schema)], key="seq")
        encoders = tuple(self.database.encoder(attribute) for attribute in schema)
        entry = StreamEntry(name, schema, inbox, Reader.of(schema), encoders, rules=rules, source=source)
        self.catalogue.streams[name.lower()] = entry
        return entry

    def create_outbox(self, stream: str, columns: Callable[[], str]) -> str:
        """Creates the outbox of a table's changes with these column definitions, unless it exists; returns its name."""
        with self.network.names.owned_by(f"changes {stream.lower()}"):
            name = self.network.name("changes", Stream(stream))
        self._tables.create_from(name, columns)
        return name

    def is_known_table(self, name: str) -> bool:
        """Whether the state has a table of this name that belongs to the bridge."""
        return f"{name} itself" in self.network.names.rows

    def create_own(self, name: str, schema: Schema) -> bool:
        """Creates a table that has the same name in every bridge; False if the state has it already."""
        return self._tables.create_own(name, self._tables.columns(schema))

    def create_results(self, query: str, columns: Sequence[Attribute], key: str, generation: int = 0) -> str:
        """Creates the table for a query's results, unless it exists; one per generation. Returns its name."""
        with self.network.names.owned_by(f"results {query.lower()}" + (f" {generation}" if generation else "")):
            name = self.network.name("results", Stream(query))
        if name not in self._tables.names:
            self._tables.create(name, [(each.name, self.database.result_type(each)) for each in columns], key)
        return name

    def drop_own(self, name: str) -> None:
        """Drops a table of the bridge, inside a transaction."""
        self._tables.drop(name)

    def remove_stream(self, entry: StreamEntry) -> None:
        self._inboxes.unregister()
        with self.transaction():
            self.remember_definitions()
            del self.catalogue.streams[entry.name.lower()]
            self.catalogue.declarations.event_types.forget(entry.name)
            self._inboxes.forget([entry.inbox])
            self.log.remove_stream(entry.name, self.seq)
            self._tables.drop(entry.inbox)
            self.stream_tables.drop(entry.name)

    def create_state(self, state: StateTable) -> None:
        """Creates a table that statements change."""
        is_new = self._tables.create_own(state.name, self._tables.columns(state.schema))
        if state.key:
            self._tables.index(state.name, [state.key])
        if state.row and is_new:
            row = exp.Insert(this=table(state.name), expression=exp.select(*(value.copy() for value in state.row)))
            self.database.execute(self.database.render(row))
        self.catalogue.tables[state.name.lower()] = state

    def is_left(self, table: str) -> bool:
        """Whether a table belongs to the state that is being resumed."""
        return table in self._tables.left

    def add_query(self, name: str, node: Node, text: str) -> None:
        """Resolves and rewrites a tree, creates its tables, and lets the database parse one of its statements.

        If it is refused, the caller undoes what was added to operators.
        """
        self._refuse_stopped(node)
        with pause_collection():
            resolved = without_event_types(resolve_stream(node, self.catalogue), self.catalogue)
            self._outdate()
            planned = self.catalogue.queries[name.lower()] = self._planned(name, resolved, text)
        planned.definition = node
        self._check_timed()

    def _refuse_stopped(self, node: Node) -> None:
        """Raises QueryError for a tree that reads the results of a query that an error has stopped."""
        for name in self.catalogue.names_of(node):
            entry = self.catalogue.queries.get(name.lower())
            if entry is not None and entry.stopped and self.log.resumed is None:
                raise QueryError(f"the query {entry.name!r} is stopped: resume_query starts it again", words=[name])

    def _check_timed(self) -> None:
        """Refuses queries that read and write a table as time passes: they would see it as it is at the end."""
        for state in self.catalogue.tables:
            timed = [entry for entry in self.catalogue.queries.values() if entry.timed]
            counts = [uses(entry.resolved.node, state, self.database) for entry in timed]
            if any(writes for _, writes in counts) and sum(map(sum, counts)) > 1:
                raise QueryError(
                    f"two statements that time alone drives cannot both use the table {state!r}: one of them, and events"
                )

    @contextlib.contextmanager
    def expecting(self, trees: Iterable[Node]) -> Iterator[None]:
        """A context in which trees are created one by one that belong together, such as those of a script."""
        with contextlib.suppress(QueryError):  # the error is raised when the query is created
            self.expected = written_tables(trees, self.database)
        try:
            yield
        finally:
            self.expected = frozenset()

    def _planned(self, name: str, resolved: ResolvedNode, text: str) -> QueryEntry:
        inherits = self._inherited()
        flow, operators, derived = self.network.plan(resolved.node, self.seq, inherits)
        if missed := self.network.names.missed:
            raise DatabaseError(
                f"the state of the query {name!r} cannot be resumed: this version of the program plans it differently from the "
                f"one that wrote it ({', '.join(missed)} not found). Open it with that version, or begin anew with "
                "connect(url, fresh=True)"
            )
        self._tables.store_names()
        indexed = {id(operator): counts for operator, counts in self.network.changed.values()}
        for operator in in_order(operator for operator, _ in self.network.changed.values()):
            self._create_tables(operator, indexed[id(operator)])
        computes = self._computes(resolved.node)
        results = self._result_queries(flow, resolved.visible, computes)
        direct = self._result_queries(flow.direct, resolved.visible, computes) if flow.direct is not None else None
        # A name or type that only the database knows is refused here, not at an event; every variant has the same ones.
        if self.log.resumed is None:
            self.database.fetch(results.of(self._first_push).text)
        sources, timed = self.network.concerns(resolved.node)
        decoders = tuple(self.database.decoder(field.type) for field in resolved.visible)
        in_arrow = all(self.database.is_exact_in_arrow(field.type) for field in resolved.visible)
        self._created += 1
        return QueryEntry(
            name, text, resolved, self.seq, flow, operators, derived, sources, timed, results, self._created, decoders,
            in_arrow, written_tables([resolved.node], self.database), computes, direct, inherits,
        )  # fmt: skip

    def _inherited(self) -> Mapping[str, int]:
        """The epochs of operators that a query takes over from those that it replaces, by fingerprint (rule D7)."""
        if self.log.resumed is not None:
            return self.log.resumed.option("inherits") or {}
        found: dict[str, int] = {}
        for entry in self._replaced.inheritable:
            found |= self.network.epochs(self._replaced.operators(entry), entry.own_epochs)
        return found

    @contextlib.contextmanager
    def replacing(self, name: str, replaced: Replacement) -> Iterator[Mapping[str, int]]:
        """A transaction in which the caller creates what replaces these queries, the outputs of `name`.

        Operators that both need keep their state; processors stay. On an error all is as before. The context gives the
        epochs that the new queries take over.
        """
        before = list(self.network.operators)
        self._replaced = replaced
        try:
            with self.transaction():
                self.remember_definitions()
                for entry in replaced.entries:
                    del self.catalogue.queries[entry.name.lower()]
                self.catalogue.scripts.pop(name.lower(), None)
                for logged in (*(entry.name for entry in replaced.entries if entry.is_internal), name):
                    self.log_removal(logged)
                yield self._inherited()
                for entry in replaced.entries:
                    if (new := self.catalogue.queries.get(entry.name.lower())) is not None:
                        new.processors = entry.processors
                self.lost = take_over(self.network, before, replaced, self.catalogue.queries.values())
                self._replaced = Replacement()
                self._drop_unused()
        finally:
            self._replaced = Replacement()
            self.results.outdate()
            self._outdate()

    def exclude(self, names: Iterable[str]) -> None:
        """Keeps the queries of these names, in lower case, out of pushes, along with the stopped queries."""
        self._excluded = frozenset(names)
        self.results.outdate()
        self._outdate()

    def active_queries(self) -> list[QueryEntry]:
        """The queries that take part in pushes."""
        entries = self.catalogue.queries.items()
        return [entry for name, entry in entries if not entry.stopped and name not in self._excluded]

    def active_operators(self) -> list[Operator]:
        """The operators that the active queries need, inputs before their readers."""
        active = self.active_queries()
        if len(active) == len(self.catalogue.queries):
            return self.network.operators
        needed = {id(operator) for entry in active for operator in entry.operators}
        return [operator for operator in self.network.operators if id(operator) in needed]

    def remove_query(self, entry: QueryEntry, logged: str | None = None) -> None:
        """Drops the tables that no other query needs. `logged`: the removed query or script, which is to be logged."""
        with self.transaction():
            self.remember_definitions()
            del self.catalogue.queries[entry.name.lower()]
            self.results.outdate()
            self._outdate()
            if logged is not None:
                self.log_removal(logged)
            self._drop_unused()

    def log_removal(self, name: str) -> None:
        """Logs that the query or script of this name is removed."""
        schemas = {name: str(stream.schema) for name, stream in self.catalogue.streams.items()}
        self.log.remove_query(name, self.seq, schemas)

    def _drop_unused(self) -> None:
        """Drops the tables that no query needs."""
        gone = [made.name for operator in self._forget_unused() for made in operator.tables]
        used = {table for entry in self.catalogue.queries.values() for table in entry.derived}
        gone += self.network.keep_derived(used)
        self._tables.forget_texts(self.network.operators)
        self._inboxes.forget(gone)
        for name in gone:
            if name in self._tables.names:
                self._tables.drop(name)

    def forget_undone(self) -> None:
        """After a refusal, whose transaction has removed the tables: forgets what used them."""
        self._forget_unused()
        self._tables.forget_texts()
        self._outdate()

    def leave(self) -> None:
        """Leaves all tables in the database for the next bridge."""
        self._inboxes.unregister()

    def drop(self) -> None:
        """Removes all tables of this runner from the database; rows that wait for a data store become dead letters."""
        from bridge.rewrite.tables.read_store import Read

        self._inboxes.unregister()
        with self.transaction():
            for step in (step for operator in self.network.operators for step in operator.steps):
                if isinstance(step, Read):
                    step.give_up(self.database)
            for name in list(self._tables.names):
                self._tables.drop(name)
            self.catalogue.outbox.close()
            self._tables.drop_catalogue()

    def _result_queries(self, flow: Flow, fields: Sequence[Field], computes: bool) -> Variants[ResultQuery]:
        """The statements that read the results of a flow. `computes`: whether integers may be results of arithmetic."""
        names, types = [field.name for field in fields], tuple(field.type for field in fields)
        order = [ascending(column(c)) for c in ("ts", "seq", *flow.order)]
        columns: list[exp.Expr] = [column(c) for c in self.leading_columns]
        for name, kind in zip(names, types, strict=True):
            value = column(name)
            exact = self.database.exact(value, kind) if computes else value
            columns.append(value if exact is value else aliased(exact, name))

        def statement(rows: Selection) -> exp.Expr:
            item = exp.Subquery(this=rows.select(["ts", "seq", *flow.order, *names])).as_("r", quoted=True, copy=False)
            select = exp.select(*(each.copy() for each in columns)).from_(item, copy=False)
            return select.order_by(*(each.copy() for each in order), copy=False)

        return flow.writers.map(lambda writer: ResultQuery(writer.map(statement), self.database.render, types))

    def _computes(self, tree: Node) -> bool:
        """Whether a tree has arithmetic that may overflow, or reads a query that has such arithmetic."""
        nodes = list(walk(tree))
        entries = (self.catalogue.queries.get(node.name.lower()) for node in nodes if isinstance(node, Stream))
        return any(map(_has_arithmetic, nodes)) or any(entry.computes for entry in entries if entry is not None)

    def _create_tables(self, operator: Operator, indexed: Sequence[int]) -> None:
        """Creates what a plan has added to an operator: tables, and further indexes of existing tables.

        The database prepares each new step, so that a name or type that only it knows is refused now, not at an event.
        """
        for made, count in zip(operator.tables, indexed, strict=False):
            self._tables.index(made.name, made.indexes, done=count)
        for made in operator.tables[len(indexed) :]:
            if not made.is_late or made.name in self._tables.left:
                self._tables.create_planned(made)
            if made.name == operator.beginning and self.now != BEGINNING and self.log.resumed is None:
                self._tables.begin(operator, self.now)
        if self.log.resumed is not None:  # the database has accepted the steps before
            operator.probes.clear()
            return
        while operator.probes:
            statement, place = operator.probes.pop()
            with refusals_at(place):
                self.database.prepare(self.database.render(statement))
        for step in operator.steps:
            if isinstance(step, (Insert, Purge)):
                self._tables.prepare(step, self._first_push)

    @property
    def _first_push(self) -> str:
        """The kind of push whose statements are prepared at creation."""
        return "any" if self.database.prefers_bulk else "few"

    def _forget_unused(self) -> list[Operator]:
        entries = (*self.catalogue.queries.values(), *self._replaced.entries)
        return self.network.keep(operator for entry in entries for operator in entry.operators)


def _has_arithmetic(node: Node) -> bool:
    """Whether values of a node's rows may be results of arithmetic. Those of its condition are not in its rows."""
    parts = (value for name, value in vars(node).items() if name != "condition")
    values = (value if isinstance(value, tuple) else (value,) for value in parts)
    expressions = (each for several in values for each in several if isinstance(each, exp.Expr))
    return any(expression.find(exp.Add, exp.Sub, exp.Mul) for expression in expressions)
