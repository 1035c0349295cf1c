"""The inboxes: tables with the events of the current push, or Arrow tables registered in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bridge.engine.intake import EventBatch
from bridge.engine.tables import Tables
from bridge.rewrite import Network
from windows.databases import Database

if TYPE_CHECKING:
    import pyarrow as pa

TRUNCATED_FROM = 1_000
"""The number of events in a push from which TRUNCATE empties an inbox faster than DELETE."""


class Inboxes:
    """The inboxes of streams and results. `filled`: the tables whose rows are to be deleted before the next push.

    `skipped`: the event of the last push, if its values were bound and its inbox was not filled.
    """

    def __init__(self, database: Database, network: Network, tables: Tables) -> None:
        self._database, self._network, self._tables = database, network, tables
        self.filled: set[str] = set()
        self.skipped: EventBatch | None = None
        self._events = 0
        self.registered: dict[str, pa.Table] = {}
        """The Arrow tables registered in place of inboxes, by the inboxes' names."""

    def fill(self, batches: Sequence[EventBatch]) -> set[str]:
        """Writes events into their inboxes; returns the tables that have rows then."""
        filled: set[str] = set()
        self._events = sum(batch.count for batch in batches)
        for batch in batches:
            rows = batch.named() if self._database.zero_copy_arrow else None
            if rows is not None and rows.num_rows >= self._network.settings.registered_from:
                self._register(batch.stream.inbox, rows)
            else:
                batch.insert(self._database, self._tables.quoted(batch.stream.inbox))
                filled.add(batch.stream.inbox)
        return filled

    def empty(self) -> bool:
        """Deletes the rows of the previous push; returns whether there were any."""
        for inbox in self.filled:
            self._database.execute(self._tables.emptying(inbox, self._events >= TRUNCATED_FROM))
        self._events = 0
        return bool(self.filled)

    def forget(self, names: Iterable[str]) -> None:
        """Forgets tables that are dropped."""
        self.filled = self.filled - set(names)

    def _register(self, inbox: str, rows: pa.Table) -> None:
        """Lets the statements read an Arrow table under the inbox's name."""
        self._database.register_arrow(inbox, rows)
        self.registered[inbox] = rows

    def unregister(self) -> dict[str, pa.Table]:
        """Ends all registrations, and returns what was registered.

        This is done between transactions: a rollback would restore registrations of tables that no longer exist.
        """
        registered, self.registered = self.registered, {}
        for inbox in registered:
            self._database.unregister_arrow(inbox)
        return registered

    def register(self, tables: Mapping[str, Any]) -> None:
        """Registers Arrow tables again, after a transaction was rolled back."""
        self.unregister()
        for inbox, rows in tables.items():
            self._register(inbox, rows)
