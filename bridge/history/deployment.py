"""Brings the streams and queries of scripts into a durable bridge that may have those of an earlier deployment."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bridge.engine.bridge import Bridge
from bridge.engine.catalogue import StreamEntry
from bridge.engine.create import with_advice_in
from bridge.engine.session import session_of
from bridge.engine.subscription import waits
from bridge.engine.watch.changes import schema_of_stream, watched_columns
from bridge.engine.watch.columns import TableColumns
from bridge.errors import InUse, NameTaken, QueryError
from bridge.frontends.statements import CreateTableStream
from bridge.history.script import ReplayScript
from bridge.query.table_source import TableSource
from windows.databases import Database
from windows.schema import Schema


class Deployment:
    """The streams and queries of scripts, for one bridge.

    Unchanged definitions stay. A changed query is replaced (rule D7); a query that is in no script any more is removed.

    Args:
        cep: The bridge.
        scripts: The scripts. Each may read streams and queries of the scripts before it.
        into: Tables of results, by query.
        on_error: The effect of a query's error on a push, as for `create_query`.
        note: Called with a sentence about each change.

    >>> import tempfile
    >>> from bridge.engine.connect import connect
    >>> with tempfile.TemporaryDirectory() as folder, connect(f"sqlite:///{folder}/state.db") as cep:
    ...     for number in (5, 5, 6):
    ...         text = f"CREATE STREAM s (a INTEGER); CREATE QUERY high AS SELECT a FROM s WHERE a > {number}"
    ...         Deployment(cep, [ReplayScript.of(text)], note=print).deploy()
    the query high is new
    the query high has changed
    """

    def __init__(
        self,
        cep: Bridge,
        scripts: Sequence[ReplayScript],
        into: Mapping[str, str] | None = None,
        on_error: str = "refuse",
        note: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._cep, self._scripts, self._on_error, self._note = cep, scripts, on_error, note
        self.lost: dict[str, tuple[str, ...]] = {}
        """By changed query, in lower case, descriptions of the operators whose state is not kept."""
        self.anew: set[str] = set()
        """The queries, in lower case, that were removed because they read a changed one.

        They are created again if a script has them.
        """
        self._into = {name.lower(): table for name, table in (into or {}).items()}
        refuse_duplicates(scripts)
        if unknown := self._into.keys() - self._names:
            raise QueryError(f"no script has a query {min(unknown)!r} whose results could be in a table")

    def deploy(self, removes: bool = True) -> None:
        """Registers and creates everything that is new or changed, in one transaction.

        `removes`: removes what no script has.

        After an error nothing is deployed, and the bridge has to be closed.

        Raises:
            QueryError: A query is wrong.
            NameTaken: A stream of this name exists with other attributes, or reads another table.
        """
        with session_of(self._cep).all_or_nothing():
            self._deploy(removes)

    def _deploy(self, removes: bool) -> None:
        for script in self._scripts:
            self._register_streams(script)
            for table in script.tables:
                self._cep.create_query(table.name, table)
        with session_of(self._cep).expecting(node for script in self._scripts for node, _ in script.queries.values()):
            for script in self._scripts:
                self._create_queries(script)
        if removes:
            self._remove_queries()
            self._say_what_stays()
            self._remove_streams()

    # Streams ------------------------------------------------------------------------------------------------------------

    def _register_streams(self, script: ReplayScript) -> None:
        of_tables = {stream.name for stream in script.table_streams}
        for name, schema in script.declared.items():
            if name not in of_tables and not self._has_other(name, script):
                rules = script.time_rules.get(name)
                refuse_other(name, session_of(self._cep).catalogue.streams.get(name.lower()), schema)
                self._cep.register_stream(name, schema, **(rules._asdict() if rules else {}))
        for stream in script.table_streams:
            self._register_table(stream)

    def _has_other(self, name: str, script: ReplayScript) -> bool:
        """Whether another script declares the stream.

        This one only names, in a query, the attributes that it expects.
        """
        others = (other for other in self._scripts if other is not script and name not in script.streams)
        return any(name.lower() in _streams_of(other) for other in others)

    def _register_table(self, stream: CreateTableStream) -> None:
        """Registers the stream of a table. An existing one keeps its attributes if columns were added to the table."""
        session = session_of(self._cep)
        known = session.catalogue.streams.get(stream.name.lower())
        schema, is_kept = schema_of_table(stream, known, session.database)
        columns = stream.schema if known is None else watched_columns(schema) if stream.source.changes else schema
        self._cep.register_stream(stream.name, columns, **stream.source.arguments, **stream.rules._asdict())
        if is_kept:
            self._note(
                f"the columns of {stream.source.table} have changed, the stream {stream.name} keeps the earlier ones: {columns}"
            )

    def _remove_streams(self) -> None:
        declared = {name for script in self._scripts for name in _streams_of(script)}
        for name in [name for name in self._cep.streams if name.lower() not in declared]:
            with contextlib.suppress(InUse):  # a query that still has results to deliver reads it
                self._cep.remove_stream(name)
                self._note(f"the stream {name} is removed")

    # Queries ------------------------------------------------------------------------------------------------------------

    def _create_queries(self, script: ReplayScript) -> None:
        for name, (node, text) in script.queries.items():
            before = self._logged(name)
            try:
                self._replace(name, node)
            except QueryError as error:
                raise (with_advice_in(error, script.language).within(text) if text is not None else error) from None
            if before != (after := self._logged(name)):
                self._note(f"the query {name} {'has changed' if before and after else 'is new'}")
                if before and after:
                    self.lost[name.lower()] = session_of(self._cep).lost

    def _replace(self, name: str, node: Any) -> None:
        """Creates or replaces a query. Queries that read a changed one are removed first, and created again later."""
        options: dict[str, Any] = {"replace": True, "on_error": self._on_error}
        create = functools.partial(self._cep.create_query, name, node, into=self._into.get(name.lower()), **options)
        try:
            create()
        except InUse:
            for reader in reversed(list(self._readers(name))):
                if waits(self._cep, reader):
                    raise QueryError(
                        f"{reader!r} reads {name!r}, which has changed, and has results that are still to be delivered: deploy "
                        "the change when they are, or under another name"
                    ) from None
                self._cep.remove_query(reader)
                is_gone = reader.lower() not in self._names
                self.anew.add(reader.lower())
                self._note(f"the query {reader} {'is removed' if is_gone else f'begins anew, as it reads {name}'}")
            create()

    def _readers(self, name: str) -> Iterator[str]:
        """The queries that read a query, directly or through others, in the order of their creation."""
        found = {name.lower()}
        for query in self._cep.queries:
            readers = {other.lower() for read in found for other in session_of(self._cep).catalogue.readers(read)}
            if query.lower() in readers - found:
                found.add(query.lower())
                yield query

    def _remove_queries(self) -> None:
        """Removes the queries that no script has, unless they are read or still have results to deliver."""
        for name in self._obsolete:
            if not waits(self._cep, name):
                with contextlib.suppress(InUse):
                    self._cep.remove_query(name)
                    self._note(f"the query {name} is removed")

    def _say_what_stays(self) -> None:
        for name in self._obsolete:
            if readers := [reader for reader in self._readers(name) if reader.lower() in self._names]:
                raise InUse(f"{name!r} is in none of the files, and is read by {', '.join(map(repr, readers))}")
            self._note(f"the query {name} stays until its results are delivered: a later start removes it")

    @property
    def _obsolete(self) -> list[str]:
        """The queries that no script has; readers come before the queries that they read."""
        return [name for name in reversed(self._cep.queries) if name.lower() not in self._names]

    @property
    def _names(self) -> set[str]:
        return {name.lower() for script in self._scripts for name in script.queries}

    def _logged(self, name: str) -> tuple[str, str] | None:
        """The text that defines a query, and its result table."""
        entry = session_of(self._cep).catalogue.queries.get(name.lower())
        return None if entry is None else (entry.text, repr(entry.resolved.node))


def refuse_other(name: str, known: StreamEntry | None, schema: Schema, source: TableSource | None = None) -> None:
    """Raises `NameTaken` if the declaration differs from the `known` stream, of a table or (None) of pushed events."""
    if known is not None and (other := known.difference(schema, source)):
        raise NameTaken(
            f"there is a stream {name!r} already, {other}: under another name it is a new stream, and the earlier one is "
            "removed"
        )


def schema_of_table(stream: CreateTableStream, known: StreamEntry | None, database: Database) -> tuple[Schema, bool]:
    """The attributes of a table's stream, and whether they are the `known` stream's though the table has changed.

    Raises:
        SchemaError: The table or a column does not exist.
        NameTaken: The known stream is a different one.
    """
    columns = TableColumns(stream.source, database)
    schema, is_kept = schema_of_stream(columns, stream.name, stream.schema, stream.source, known)
    refuse_other(stream.name, known, schema, stream.source)
    return schema, is_kept


def refuse_duplicates(scripts: Sequence[ReplayScript]) -> None:
    """Raises QueryError for a name that is created in two scripts."""
    known: set[str] = set()
    for script in scripts:
        own = {*map(str.lower, script.queries), *_streams_of(script)}
        if twice := known & own:
            raise QueryError(f"{min(twice)!r} is created in two of the files")
        known |= own


def _streams_of(script: ReplayScript) -> set[str]:
    """The streams that a script declares, in lower case."""
    return {name.lower() for name in (*script.streams, *(stream.name for stream in script.table_streams))}
