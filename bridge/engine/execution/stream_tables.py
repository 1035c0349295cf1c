"""Tables of events of one stream, apart from its inbox: those that wait, and those of the journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bridge.engine.catalogue import Catalogue, StreamEntry
from bridge.engine.durable import JOURNAL
from bridge.engine.tables import Tables
from bridge.rewrite.names import TableNames
from windows.databases import Database
from windows.values import converted

BUFFER = "buffer"
"""The kind of the tables in which a stream's events wait for their turn in time."""


def stored_events(table: str, own: int, stream: StreamEntry, database: Database) -> Iterator[tuple[Any, ...]]:
    """The rows of a table of events: its first `own` columns, which are whole numbers, and the values of the stream's inbox."""
    decoders = [database.decoder(attribute.type) for attribute in stream.schema]
    for row in database.fetch(f"SELECT * FROM {table}"):
        yield *map(int, row[:own]), *converted(converted(row[own:], decoders), stream.encoders)


class StreamTables:
    """Creates tables of events when they are first needed, and drops them with their stream."""

    def __init__(self, tables: Tables, names: TableNames, catalogue: Catalogue) -> None:
        self._tables, self._names, self._catalogue = tables, names, catalogue
        self._made: dict[tuple[str, str], str] = {}

    def own_name(self, kind: str, stream: str) -> str | None:
        """The quoted name of the table of this kind, if this process has made it."""
        name = self._made.get((kind, stream.lower()))
        return self._tables.quoted(name) if name in self._tables.names else None

    def create(self, kind: str, stream: str, columns: Sequence[str]) -> str:
        """Creates the table of this kind, or takes over that of the state, inside a transaction.

        Its columns are `columns`, which are whole numbers, and the attributes of the stream. Returns its quoted name.
        """
        with self._names.owned_by(f"stream {stream.lower()}"):
            name = self._names.of(kind, stream)
        own = [(column, "BIGINT") for column in columns]
        schema = self._catalogue.streams[stream.lower()].schema
        self._tables.create(name, [*own, *self._tables.columns(schema)])
        self._made[kind, stream.lower()] = name
        return self._tables.quoted(name)

    def exist(self, kind: str, stream: str) -> bool:
        """Whether the state has a table of this kind."""
        return self._names.is_known(f"stream {stream.lower()}", kind)

    def drop(self, stream: str) -> None:
        """Drops the tables of a stream that is removed, inside a transaction."""
        for kind in (BUFFER, JOURNAL):
            if self.own_name(kind, stream) is not None:
                self._tables.drop(self._made[kind, stream.lower()])
