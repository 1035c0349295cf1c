"""Finds the events that must be pushed one by one: one of their queries writes a table that another one uses."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from bridge.engine.catalogue import QueryEntry
from bridge.rewrite.conflicts import conflicts, used_tables
from windows.databases import Database


class ConflictingStreams:
    """The tables that force events to be pushed one by one, found once for these queries.

    `entries`: all queries, by name.
    """

    def __init__(self, entries: Mapping[str, QueryEntry], database: Database) -> None:
        self._entries, self._database = entries, database
        self._known: dict[frozenset[str], frozenset[str]] = {}

    def clear(self) -> None:
        """Forgets everything, as queries were added or removed."""
        self._known.clear()
        vars(self).pop("tables", None)

    @functools.cached_property
    def tables(self) -> frozenset[str]:
        """All such tables; names are in lower case."""
        trees = [entry.resolved.node for entry in self._entries.values()]
        return frozenset(conflicts(trees, self._database))

    def of(self, streams: Iterable[str]) -> frozenset[str]:
        """The conflicting tables of the queries that run when an event of these streams comes, or when time passes."""
        if not self.tables:
            return self.tables
        names = frozenset(streams)
        if names not in self._known:
            entries = (each for each in self._entries.values() if each.runs_at(names))
            used = (used_tables(each.resolved.node, self._database) for each in entries)
            self._known[names] = self.tables.intersection(*[frozenset[str]().union(*used)])
        return self._known[names]
