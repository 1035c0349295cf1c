"""`cepbridge watch --check`: a report of what would be read and created, without doing anything."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterable, Iterator, Sequence

import click

import bridge
from bridge.cli.service.outputs import WEBHOOK, Outputs
from bridge.cli.service.settings import WITHOUT_TABLE, WatchSettings
from bridge.engine.durable import LoggedCall
from bridge.engine.namespace import has_schema, use_namespace
from bridge.engine.refusal import DATABASE_REFUSES
from bridge.engine.resume import OBJECTS
from bridge.engine.session import session_of
from bridge.engine.stored_status import StoredStatus, stored_status
from bridge.engine.subscription import Subscription
from bridge.engine.watch.changes import outbox_of, triggers_of
from bridge.engine.watch.columns import TableColumns
from bridge.errors import BridgeError, DatabaseError, QueryError
from bridge.frontends.statements import CreateTableStream
from bridge.history.deployment import Deployment, refuse_other, schema_of_table
from bridge.history.script import ReplayScript
from bridge.query.codec import loaded
from bridge.query.nodes import Node, Stream, walk
from bridge.query.scripts import IntoTable
from bridge.query.table_source import TableSource
from bridge.rewrite.state_tables import CLOCK
from windows.databases import Database, Refused, open_database
from windows.databases.base import PREFIX
from windows.databases.triggers import ChangeTriggers
from windows.schema import Schema
from windows.sql import table_of


def report(settings: WatchSettings) -> str:
    """A report of what a start would do.

    Raises:
        DatabaseError: The database cannot be opened.
        SchemaError: A table that is to be read, or a column of it, does not exist.
        QueryError: A query is wrong.
    """
    logging.getLogger("bridge").addHandler(logging.NullHandler())  # the report contains its warnings
    try:
        database = open_database(settings.url)
        try:
            use_namespace(database, settings.connection.get("name"), None)
            return "\n".join(_Report(settings, database).lines())
        finally:
            database.close()
    except Refused as error:
        raise DatabaseError(str(error)) from None


class _Report:
    def __init__(self, settings: WatchSettings, database: Database) -> None:
        self._settings, self._database = settings, database
        self._stored = self._stored_status()
        self._rehearsal = _Rehearsal(settings, database, () if self._stored is None else self._stored.definitions)

    def lines(self) -> Iterator[str]:
        yield from _section("reads", self._reads())
        yield from _section("streams", self._streams())
        yield from _section("creates", self._creates())
        yield from _section("triggers", self._triggers())
        yield from _section("queries", self._queries())
        yield from _section("sends", self._sends())
        yield "nothing was done"

    def _stored_status(self) -> StoredStatus | None:
        """The existing state, if there is one."""
        connection = self._settings.connection
        with contextlib.suppress(DatabaseError):
            return stored_status(self._settings.url, connection.get("name"), connection.get("schema"))
        return None

    # Sections -----------------------------------------------------------------------------------------------------------

    def _reads(self) -> Iterator[str]:
        for stream in self._rehearsal.table_streams:
            self._refuse_without_rights(stream.name, stream.source)
            yield f"{stream.name}: {stream.source}, as ({self._rehearsal.streams[stream.name]})"
        yield from (f"{name}: a table that queries join with" for name in self._rehearsal.relations)

    def _refuse_without_rights(self, stream: str, source: TableSource) -> None:
        """Raises DatabaseError if it is known that the table may not be read, or its changes not be written down."""
        table = table_of(source.table).sql(self._database.dialect, identify=True)
        try:
            self._database.fetch(f"SELECT 1 FROM {table} WHERE 1 = 0")
            triggers = self._triggers_of(stream, source) if source.changes else None
            allowed = triggers is None or not triggers.right or self._database.fetch(triggers.right)[0][0]
        except Refused as error:
            raise DatabaseError(
                f"the stream {stream!r} reads {source.table}, which the database refuses: {error}"
            ) from None
        if not allowed:
            raise DatabaseError(
                f"the stream {stream!r} records the changes of {source.table} by triggers, which this role may not create: "
                f"GRANT TRIGGER ON {table} TO … gives the right"
            )

    def _triggers_of(self, stream: str, source: TableSource) -> ChangeTriggers:
        return triggers_of(self._database, outbox_of(self._database, stream), self._rehearsal.streams[stream], source)

    def _streams(self) -> Iterator[str]:
        declared = {name.lower() for name in self._rehearsal.streams}
        for name in self._rehearsal.streams:
            yield f"{name}: {'unchanged' if name.lower() in self._rehearsal.known else 'new'}"
        yield from (f"{name}: {WITHOUT_TABLE}" for name in self._settings.without_table)
        for name in self._rehearsal.known:
            if name not in declared:
                yield f"{name}: in none of the files, {self._fate}"

    def _creates(self) -> Iterator[str]:
        schema = self._settings.connection.get("schema")
        if not has_schema(self._database, schema):
            yield f"the schema {schema}"
        for name in self._settings.queries.values():
            table = self._rehearsal.table_of(name)
            if table is not None and self._database.relation(table) is None:
                yield f"the table {table}, with the results of {name}"
        if self._rehearsal.error is not None:
            yield (
                f"tables for streams and queries, which cannot be named without the database ({self._rehearsal.error})"
            )
            return
        there = {} if self._stored is None else self._stored.state_rows
        new = [name for name in self._rehearsal.tables if name not in there and name != self._database.own_name(CLOCK)]
        yield "tables of the bridge (cep_…): " + (
            f"those of its catalogue, {', '.join(new)}"
            if self._stored is None
            else ", ".join(new) or "none that are new"
        )

    def _triggers(self) -> Iterator[str]:
        for stream in self._rehearsal.table_streams:
            if stream.source.changes:
                triggers = self._triggers_of(stream.name, stream.source)
                outbox = outbox_of(self._database, stream.name)
                yield f"on {stream.source.table}: {', '.join(triggers.names)}, which write into {outbox}"

    def _queries(self) -> Iterator[str]:
        stored = self._rehearsal.stored_queries
        for script in self._settings.scripts:
            for name, (node, _) in script.queries.items():
                yield f"{name}: {self._rehearsal.fate(name, node, stored.pop(name.lower(), None))}"
        for each in stored.values():
            yield f"{each.name}: in none of the files, {self._fate}"

    @property
    def _fate(self) -> str:
        return "stays" if self._settings.keep else "is removed"

    def _sends(self) -> Iterator[str]:
        in_tables = {name.lower() for name in self._settings.in_tables}
        for name in self._settings.queries.values():
            is_read = name.lower() in self._settings.read
            url, channels = self._settings.webhook_of(name), self._settings.channels_of(name, is_read)
            yield from (f"{name}: to the channel {channel}" for channel in channels)
            if url is not None:
                yield f"{name}: to a webhook"
            elif not channels and not is_read and name.lower() not in in_tables:
                yield f"{name}: to standard output"


class _Rehearsal:
    """A trial of the start in a bridge in memory, with the stored definitions and empty copies of the tables.

    streams: The streams that the scripts declare. known: The stored streams, in lower case. tables: The tables of the
    bridge after the start. error: The error that ended the trial early, as the database in memory differs from the real
    one.

    Raises the errors that the start would raise.
    """

    def __init__(self, settings: WatchSettings, database: Database, definitions: Sequence[LoggedCall]) -> None:
        self._settings, self._database, self._definitions = settings, database, definitions
        self.table_streams = [stream for script in settings.scripts for stream in script.table_streams]
        self.streams: dict[str, Schema] = {}
        self.known: list[str] = []
        self.tables: list[str] = []
        self.error: BridgeError | None = None
        self._deployment: Deployment | None = None
        with bridge.connect(database.in_memory_url or "duckdb://", name=settings.connection.get("name")) as cep:
            self._define(cep)
            self._declare(cep)
            self.relations = self._relations()
            try:
                self._deploy(cep)
            except (QueryError, DatabaseError) as error:
                of_database = isinstance(error, DatabaseError) or error.message.startswith(DATABASE_REFUSES)
                if database.in_memory_url is not None or not of_database:
                    raise
                self.error, self._deployment = error, None

    @property
    def stored_queries(self) -> dict[str, LoggedCall]:
        """The stored definitions of queries, by name in lower case."""
        return {each.name.lower(): each for each in self._definitions if each.kind == "query"}

    def fate(self, name: str, node: Node, before: LoggedCall | None) -> str:
        """The effect of the start on a query, in words."""
        if before is None:
            return "new"
        if self._deployment is None:
            is_same = before.language == OBJECTS and loaded(before.text) == node
            return "unchanged" if is_same else "changed, is replaced"
        if name.lower() in self._deployment.anew:
            return "begins anew, as it reads a query that has changed"
        if name.lower() not in self._deployment.lost:
            return "unchanged"
        lost = ", ".join(self._deployment.lost[name.lower()])
        return "changed, is replaced" + (f" and begins without the state of {lost}" if lost else "")

    def table_of(self, query: str) -> str | None:
        """The result table of a query, if it has one."""
        into = {name.lower(): table for name, table in self._settings.into.items()}
        for script in self._settings.scripts:
            node = script.queries.get(query, (None, None))[0]
            if isinstance(node, IntoTable):
                return node.table
        return into.get(query.lower())

    def _define(self, cep: bridge.Bridge) -> None:
        """Executes the stored definitions. A stream of a table has no table here."""
        for name, url in self._settings.datastores.items():
            cep.register_datastore(name, url)
        session = session_of(cep)
        streams = {each.name.lower() for each in self._definitions if each.kind == "stream"}
        read = self._named(node for tree in map(_tree, self._definitions) for node in _streams_in(tree))
        for name in (*self._result_tables(), *(name for name in read if name.lower() not in streams)):
            self._copy(cep, name)
        for call in self._definitions:
            if call.kind == "stored results":
                continue
            with contextlib.suppress(BridgeError):  # the query needs something that only the real database has
                session.define(call._replace(options="") if call.kind == "stream" else call)
                if call.kind == "stream":
                    source = TableSource.of_json(call.option("source"))
                    session.catalogue.streams[call.name.lower()].source = source
        self.known = list(session.catalogue.streams)

    def _declare(self, cep: bridge.Bridge) -> None:
        """Registers the streams of the scripts."""
        known = session_of(cep).catalogue.streams
        for stream in self.table_streams:
            there = known.get(stream.name.lower())
            schema, _ = schema_of_table(stream, there, self._database)
            self.streams[stream.name] = schema
            if there is None:
                cep.register_stream(stream.name, schema)
            if there is None and stream.schema is None:
                self._say_what_is_left_out(stream)
        for script in self._settings.scripts:
            for name, schema in script.declared.items():
                if name not in self.streams:
                    refuse_other(name, known.get(name.lower()), schema)
                    self.streams[name] = schema
                    cep.register_stream(name, schema)

    def _say_what_is_left_out(self, stream: CreateTableStream) -> None:
        """Reports columns that are left out, before an error of a query that names one."""
        advice = TableColumns(stream.source, self._database).advice(stream.name)
        if advice is not None:
            click.echo(f"warning: {advice}", err=True)

    def _deploy(self, cep: bridge.Bridge) -> None:
        for name in self.relations:
            self._copy(cep, name)
        plain = [_without_streams(script, self.streams) for script in self._settings.scripts]
        self._deployment = Deployment(cep, plain, self._settings.into)
        self._deployment.deploy(removes=not self._settings.keep)
        Outputs(cep, self._settings).attach()
        for query in cep.queries:
            if self._settings.webhook_of(query) is not None:
                Subscription(cep, query, WEBHOOK)
        tables, indexes = map(self._database.own_name, (PREFIX, f"{PREFIX}index_"))
        names = (name for name in cep.database.table_names() if name.lower().startswith(tables))
        self.tables = sorted(name for name in names if not name.lower().startswith(indexes))

    def _result_tables(self) -> list[str]:
        """The result tables in the database."""
        names = (self.table_of(name) for name in self._settings.queries.values())
        return [name for name in names if name is not None and self._database.relation(name) is not None]

    def _relations(self) -> list[str]:
        """The tables of the database that queries of the scripts read in addition to streams."""
        queries = {name.lower() for script in self._settings.scripts for name in script.queries}
        known = queries | {name.lower() for name in self.streams}
        names = self._named(node for script in self._settings.scripts for node in script.nodes)
        return [name for name in names if name.lower() not in known]

    def _named(self, nodes: Iterable[Stream]) -> list[str]:
        """The tables of the database that are named where a stream could be."""
        names = dict.fromkeys(node.name for node in nodes)
        return [name for name in names if self._database.relation(name) is not None]

    def _copy(self, cep: bridge.Bridge, name: str) -> None:
        """Creates an empty table with the columns of one in the database, unless it exists."""
        if cep.database.relation(name) is not None:
            return
        *schema, _ = name.split(".")
        there = self._database.relation(name)
        assert there is not None
        own = cep.database
        columns = ", ".join(f"{own.quoted(each.name)} {own.declared_type(each)}" for each in there)
        if schema and own.has_schemas:
            own.execute(f"CREATE SCHEMA IF NOT EXISTS {own.quoted(schema[-1])}")
        own.execute(f"CREATE TABLE {table_of(name).sql(own.dialect)} ({columns})")


def _without_streams(script: ReplayScript, streams: dict[str, Schema]) -> ReplayScript:
    """The script without the streams that are registered already."""
    others = {name: schema for name, schema in script.streams.items() if name not in streams}
    return dataclasses.replace(script, streams=others, table_streams=[])


def _tree(call: LoggedCall) -> object:
    """The query objects of a stored definition; None for a text."""
    return loaded(call.text) if call.kind == "query" and call.language == OBJECTS else None


def _streams_in(tree: object) -> Iterator[Stream]:
    return (node for node in walk(tree) if isinstance(node, Stream)) if isinstance(tree, Node) else iter(())


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield title
        yield from (f"  {line}" for line in found)
