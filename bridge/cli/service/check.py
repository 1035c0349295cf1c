"""`cepbridge watch --check`: what would be read and created, without doing anything."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator, Mapping

import bridge
from bridge.cli.service.settings import WatchSettings
from bridge.engine.durable import LoggedCall
from bridge.engine.own_place import has_schema
from bridge.engine.resume import OBJECTS
from bridge.engine.session import session_of
from bridge.engine.stored_status import StoredStatus, stored_status
from bridge.engine.watch.changes import changes_schema, triggers_of
from bridge.engine.watch.columns import TableColumns
from bridge.errors import BridgeError, DatabaseError
from bridge.frontends.statements import CreateTableStream
from bridge.history.deployment import Deployment
from bridge.history.script import ReplayScript
from bridge.query.codec import loaded
from bridge.query.scripts import IntoTable
from bridge.rewrite.state_tables import CLOCK
from windows.databases import Database, Refused, dialect_of, open_database
from windows.schema import Schema


def report(settings: WatchSettings) -> str:
    """What a start would do, as text.

    Raises:
        DatabaseError: The database cannot be opened.
        SchemaError: A table that is to be read is not there, or a column of it.
        QueryError: A query is wrong.
    """
    logging.getLogger("bridge").addHandler(logging.NullHandler())  # what a bridge in memory warns of is in the report
    try:
        database = open_database(settings.url)
        try:
            return "\n".join(_Report(settings, database).lines())
        finally:
            database.close()
    except Refused as error:
        raise DatabaseError(str(error)) from None


class _Report:
    def __init__(self, settings: WatchSettings, database: Database) -> None:
        self._settings, self._database = settings, database
        self._streams = {
            stream.name: self._schema(stream) for script in settings.scripts for stream in script.table_streams
        }
        self._stored = self._stored_status()
        self._lost: Mapping[str, tuple[str, ...]] = {}
        """By query, the operators whose state is not kept."""

    def lines(self) -> Iterator[str]:
        yield from _section("reads", self._reads())
        yield from _section("creates", self._creates())
        yield from _section("triggers", self._triggers())
        yield from _section("queries", self._queries())
        yield from _section("sends", self._sends())
        yield "nothing was done"

    def _schema(self, stream: CreateTableStream) -> Schema:
        schema, _ = TableColumns(stream.source, self._database).schema(stream.schema)
        return changes_schema(schema) if stream.source.changes else schema

    def _stored_status(self) -> StoredStatus | None:
        """The state that is there already."""
        connection = self._settings.connection
        with contextlib.suppress(DatabaseError):
            return stored_status(self._settings.url, connection.get("name"), connection.get("schema"))
        return None

    # Sections -----------------------------------------------------------------------------------------------------------

    def _table_streams(self) -> Iterator[CreateTableStream]:
        for script in self._settings.scripts:
            yield from script.table_streams

    def _reads(self) -> Iterator[str]:
        for stream in self._table_streams():
            yield f"{stream.name}: {stream.source}, as ({self._streams[stream.name]})"
        yield from (f"{name}: a table that queries join with" for name in self._relations())

    def _creates(self) -> Iterator[str]:
        schema = self._settings.connection.get("schema")
        if not has_schema(self._database, schema):
            yield f"the schema {schema}"
        for name in self._settings.queries.values():
            table = self._table_of(name)
            if table is not None and self._database.relation(table) is None:
                yield f"the table {table}, with the results of {name}"
        try:
            tables = self._planned()
        except BridgeError as error:
            if dialect_of(self._settings.url) == "sqlite":
                raise
            yield f"tables for streams and queries, which cannot be named without the database ({error})"
            return
        there = {} if self._stored is None else self._stored.state_rows
        new = [name for name in tables if name not in there and name != self._database.own_name(CLOCK)]
        yield "tables of the bridge (cep_…): " + (
            f"those of its catalogue, {', '.join(new)}"
            if self._stored is None
            else ", ".join(new) or "none that are new"
        )

    def _triggers(self) -> Iterator[str]:
        for stream in self._table_streams():
            if stream.source.changes:
                outbox = self._database.own_name(f"cep_changes_{stream.name.lower()}")
                triggers = triggers_of(self._database, outbox, self._streams[stream.name], stream.source)
                yield f"on {stream.source.table}: {', '.join(triggers.names)}, which write into {outbox}"

    def _queries(self) -> Iterator[str]:
        stored = self._stored_queries()
        for script in self._settings.scripts:
            for name, (node, _) in script.queries.items():
                before = stored.pop(name.lower(), None)
                is_same = before is not None and before.language == OBJECTS and loaded(before.text) == node
                lost = ", ".join(self._lost.get(name.lower(), ()))
                is_replaced = "changed, is replaced" + (f" and begins without the state of {lost}" if lost else "")
                yield f"{name}: {'new' if before is None else 'unchanged' if is_same else is_replaced}"
        for each in stored.values():
            yield f"{each.name}: in none of the files, {'stays' if self._settings.keep else 'is removed'}"

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

    # Planning -----------------------------------------------------------------------------------------------------------

    def _table_of(self, query: str) -> str | None:
        """The table of a query's results."""
        into = {name.lower(): table for name, table in self._settings.into.items()}
        for script in self._settings.scripts:
            node = script.queries.get(query, (None, None))[0]
            if isinstance(node, IntoTable):
                return node.table
        return into.get(query.lower())

    def _relations(self) -> list[str]:
        """The tables of the database that queries read beside streams."""
        known = {name.lower() for script in self._settings.scripts for name in (*script.declared, *script.queries)}
        known |= {name.lower() for name in self._streams}
        names = (node.name for script in self._settings.scripts for node in script.nodes)
        return [
            name
            for name in dict.fromkeys(names)
            if name.lower() not in known and self._database.relation(name) is not None
        ]

    def _planned(self) -> list[str]:
        """The tables of the queries' state, as a bridge in memory plans them."""
        own = "sqlite://" if self._database.dialect == "sqlite" else "duckdb://"
        with bridge.connect(own, name=self._settings.connection.get("name")) as cep:
            for name, url in self._settings.datastores.items():
                cep.register_datastore(name, url)
            of_results = (self._table_of(name) for name in self._settings.queries.values())
            there = [name for name in of_results if name is not None and self._database.relation(name) is not None]
            for name in dict.fromkeys([*self._relations(), *there]):
                self._copy(cep, name)
            declared = {name: schema for script in self._settings.scripts for name, schema in script.declared.items()}
            streams = {**declared, **self._streams}
            for name, schema in streams.items():
                cep.register_stream(name, schema)
            session = session_of(cep)
            for call in self._stored_queries().values():
                with contextlib.suppress(BridgeError):  # its stream is declared otherwise now
                    session.define(call)
            plain = [_without_streams(script, streams) for script in self._settings.scripts]
            deployment = Deployment(cep, plain, self._settings.into)
            deployment.deploy(removes=False)
            self._lost = deployment.lost
            return sorted(session.state_tables())

    def _stored_queries(self) -> dict[str, LoggedCall]:
        """The definitions of the queries that are there, by their names in lower case."""
        known = () if self._stored is None else self._stored.definitions
        return {each.name.lower(): each for each in known if each.kind == "query"}

    def _copy(self, cep: bridge.Bridge, name: str) -> None:
        """Makes an empty table with the columns of one in the database."""
        *schema, _ = name.split(".")
        there = self._database.relation(name)
        assert there is not None
        columns = ", ".join(f"{cep.database.quoted(each.name)} {cep.database.column_type(each)}" for each in there)
        if schema:
            cep.database.execute(f"CREATE SCHEMA IF NOT EXISTS {schema[-1]}")
        cep.database.execute(f"CREATE TABLE {name} ({columns})")


def _without_streams(script: ReplayScript, streams: dict[str, Schema]) -> ReplayScript:
    """The script without the streams that are registered already."""
    others = {name: schema for name, schema in script.streams.items() if name not in streams}
    return dataclasses.replace(script, streams=others, table_streams=[])


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield title
        yield from (f"  {line}" for line in found)
