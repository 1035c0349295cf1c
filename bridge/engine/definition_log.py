"""The calls that have defined the streams and queries of a durable bridge, so that they can be carried out again."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

from bridge.engine.durable import CatalogueTables, LoggedCall, Reference
from windows.databases import Database


@dataclasses.dataclass
class LogEntry:
    """A definition, and the names in lower case of the queries and streams that it made and that are still there.

    `declares`: whether it made more than these, such as variables or tables. `is_whole`: whether none of it was removed.
    """

    definition: LoggedCall
    queries: set[str]
    streams: set[str]
    declares: bool
    is_whole: bool = True


class DefinitionLog:
    """The definitions of a bridge, in order; those of a durable bridge are in a table, too.

    What is removed leaves the log where nothing else of its definition remains; else the removal is logged. Changes take
    effect with the transaction in which they are made.
    """

    def __init__(self, tables: CatalogueTables | None) -> None:
        self.entries: dict[Reference, LogEntry] = {}
        self.resumed: LoggedCall | None = None
        """The stored definition that is being carried out again."""
        self.removals = collections.Counter[str]()
        """By name in lower case, the removals among the stored definitions that are still to be carried out."""
        self._tables = tables
        self._last = 0
        """The greatest number that a definition has had."""
        self._references: dict[str, list[Reference]] = {}
        """By name in lower case, the definitions that were made under it; some may be gone."""
        self._before: dict[Reference, LogEntry] | None = None
        self._pending: list[Callable[[], None]] = []
        """The changes to be written to the table before the transaction commits."""

    def named(self, name: str) -> list[LoggedCall]:
        """The definitions of queries that were made under this name."""
        found = (self.entries.get(each) for each in self._references.get(name.lower(), ()))
        return [each.definition for each in found if each is not None and each.definition.kind == "query"]

    def complete(self, name: str) -> list[LoggedCall]:
        """The definitions of this name all of whose queries and streams are there."""
        return [each for each in self.named(name) if self.entries[each.reference].is_whole]

    def is_removed_later(self, name: str) -> bool:
        """Whether a stored definition that is still to be carried out removes the query or stream of this name.

        Its tables are gone, or are those of a later one of the same operators.
        """
        return self.removals[name.lower()] > 0

    def add(
        self,
        definition: LoggedCall,
        queries: Collection[str] = (),
        streams: Collection[str] = (),
        declares: bool = False,
    ) -> None:
        """Logs a definition, inside the transaction that carries it out."""
        if self.resumed is not None:
            definition = self.resumed
        elif definition.number == 0:
            definition = definition._replace(number=self._last + 1)
        self._last = max(self._last, definition.number)
        self._changed()[definition.reference] = LogEntry(definition, set(queries), set(streams), declares)
        named = self._references.setdefault(definition.name.lower(), [])
        named[:] = [each for each in named if each in self.entries or each in (self._before or ())]
        named.append(definition.reference)
        if self._tables is not None and self.resumed is None:
            self._pending.append(functools.partial(self._tables.add, definition))

    def remove_query(self, name: str, seq: int, schemas: Mapping[str, str]) -> None:
        """A query or a script is removed, inside the transaction; `schemas`: the text of each stream's that is there.

        Streams that its definition made are defined by themselves from then on.
        """
        lowered = name.lower()
        for entry in list(self.entries.values()):
            if entry.definition.kind == "stop query" and entry.definition.name.lower() == lowered:
                self._remove(entry)
                continue
            whole = entry.definition.kind == "query" and entry.definition.name.lower() == lowered
            if not whole and lowered not in entry.queries:
                continue
            if entry.declares or (entry.queries - {lowered} and not whole):
                self._replace(entry, queries=entry.queries - {lowered}, is_whole=False)
                self.add(LoggedCall(0, 0, "remove query", name, "", "", seq))
                continue
            self._remove(entry)
            number, _ = entry.definition.reference
            for part, stream in enumerate(sorted(entry.streams & schemas.keys()), 1):
                self.add(
                    LoggedCall(number, part, "stream", stream, "", schemas[stream], entry.definition.seq), (), [stream]
                )

    def remove_stream(self, name: str, seq: int) -> None:
        """A stream is removed, inside the transaction."""
        lowered = name.lower()
        for entry in [each for each in self.entries.values() if lowered in each.streams]:
            if entry.definition.kind == "stream":
                self._remove(entry)
            else:
                self._replace(entry, streams=entry.streams - {lowered}, is_whole=False)
                self.add(LoggedCall(0, 0, "remove stream", name, "", "", seq))

    def change_stream(self, name: str, **options: Any) -> None:
        """A stream that has a definition of its own gets other options, inside the transaction."""
        for entry in [each for each in self.entries.values() if each.definition.kind == "stream"]:
            if name.lower() in entry.streams:
                definition = entry.definition._replace(options="").with_options(**options)
                self._remove(entry)
                self._changed()[definition.reference] = dataclasses.replace(entry, definition=definition)
                if self._tables is not None:
                    self._pending.append(functools.partial(self._tables.add, definition))

    def store(self, database: Database) -> None:
        """Writes what has changed, at the end of the transaction that carries it out.

        Where DDL commits, all of a change is in one transaction then, after the tables that it needs were made.
        """
        if self._pending:
            database.begin_again()
            for write in self._pending:
                write()
            self._pending.clear()

    def commit(self) -> None:
        """The transaction has taken effect."""
        self._before = None

    def rollback(self) -> None:
        """The transaction has not taken effect."""
        self._pending.clear()
        if self._before is not None:
            self.entries, self._before = self._before, None

    def _replace(self, entry: LogEntry, **changes: Any) -> None:
        self._changed()[entry.definition.reference] = dataclasses.replace(entry, **changes)

    def _remove(self, entry: LogEntry) -> None:
        del self._changed()[entry.definition.reference]
        if self._tables is not None and self.resumed is None:
            self._pending.append(functools.partial(self._tables.remove, entry.definition.reference))

    def _changed(self) -> dict[Reference, LogEntry]:
        """The entries, to be changed; they are as now again after a `rollback`."""
        if self._before is None:
            self._before = dict(self.entries)
        return self.entries
