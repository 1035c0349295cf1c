"""The calls that define the streams and queries of a durable bridge, logged so that they can be executed again."""

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
    """A definition, and the names in lower case of the queries and streams that it created and that still exist.

    `declares`: whether it created more, such as variables or tables. `is_whole`: whether nothing of it was removed.
    """

    definition: LoggedCall
    queries: set[str]
    streams: set[str]
    declares: bool
    is_whole: bool = True


class DefinitionLog:
    """The definitions of a bridge, in order; for a durable bridge they are also in a table.

    A removal deletes the definition from the log if nothing else of it remains; otherwise the removal is logged.
    Changes take effect with the transaction in which they are made.
    """

    def __init__(self, tables: CatalogueTables | None) -> None:
        self.entries: dict[Reference, LogEntry] = {}
        self.resumed: LoggedCall | None = None
        """The stored definition that is being executed again."""
        self.removals = collections.Counter[str]()
        """By name in lower case, the number of removals among the stored definitions that are still to be executed."""
        self._tables = tables
        self._last = 0
        """The greatest number of a definition so far."""
        self._references: dict[str, list[Reference]] = {}
        """By name in lower case, the definitions of that name; some may be gone."""
        self._before: dict[Reference, LogEntry] | None = None
        self._pending: list[Callable[[], None]] = []
        """The changes to be written to the table before the transaction is committed."""

    def named(self, name: str) -> list[LoggedCall]:
        """The definitions of queries that have this name."""
        found = (self.entries.get(each) for each in self._references.get(name.lower(), ()))
        return [each.definition for each in found if each is not None and each.definition.kind == "query"]

    def complete(self, name: str) -> list[LoggedCall]:
        """The definitions of this name whose queries and streams all exist."""
        return [each for each in self.named(name) if self.entries[each.reference].is_whole]

    def is_removed_later(self, name: str) -> bool:
        """Whether a stored definition that is still to be executed removes the query or stream of this name.

        Its tables are gone, or belong to a later query with the same operators.
        """
        return self.removals[name.lower()] > 0

    def add(
        self,
        definition: LoggedCall,
        queries: Collection[str] = (),
        streams: Collection[str] = (),
        declares: bool = False,
    ) -> None:
        """Logs a definition, inside the transaction that executes it."""
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
        """Logs the removal of a query or script, inside the transaction. `schemas`: of the existing streams, as text.

        Streams that its definition created have definitions of their own from then on.
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
        """Logs the removal of a stream, inside the transaction."""
        lowered = name.lower()
        for entry in [each for each in self.entries.values() if lowered in each.streams]:
            if entry.definition.kind == "stream":
                self._remove(entry)
            else:
                self._replace(entry, streams=entry.streams - {lowered}, is_whole=False)
                self.add(LoggedCall(0, 0, "remove stream", name, "", "", seq))

    def change_stream(self, name: str, **options: Any) -> None:
        """Changes the options of a stream that has a definition of its own, inside the transaction."""
        for entry in [each for each in self.entries.values() if each.definition.kind == "stream"]:
            if name.lower() in entry.streams:
                definition = entry.definition._replace(options="").with_options(**options)
                self._remove(entry)
                self._changed()[definition.reference] = dataclasses.replace(entry, definition=definition)
                if self._tables is not None:
                    self._pending.append(functools.partial(self._tables.add, definition))

    def store(self, database: Database) -> None:
        """Writes the changes to the table, at the end of the transaction that executes them.

        Where DDL commits, all of a change is then in one transaction, after the tables that it needs were created.
        """
        if self._pending:
            database.begin_again()
            for write in self._pending:
                write()
            self._pending.clear()

    def commit(self) -> None:
        """Marks the transaction as committed."""
        self._before = None

    def rollback(self) -> None:
        """Restores the entries after a failed transaction."""
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
        """The entries, ready for a change; `rollback` restores them."""
        if self._before is None:
            self._before = dict(self.entries)
        return self.entries
