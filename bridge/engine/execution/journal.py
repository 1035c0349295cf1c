"""The journal of a durable bridge: the events of pushes whose rows are not in the tables yet.

A push that this process computes stores its events here, in a transaction of its own. What it changes in windows and
patterns is written later, together with the changes of other pushes (`single_events/postponed.py`), by a transaction
that empties the journal. If the process ends before that, the next one pushes the events again. Their results were
reported before, so only the changes in the tables count (rules D1 and D2).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable

from bridge.engine.catalogue import StreamEntry
from bridge.engine.durable import JOURNAL
from bridge.engine.execution.plans import Plans
from bridge.engine.execution.stream_tables import stored_events
from bridge.engine.intake import EventBatch


class Journal:
    """The tables of the journal, one per stream: time, number and attributes of each event."""

    def __init__(self, plans: Plans) -> None:
        self._plans = plans
        self._tables: dict[str, tuple[StreamEntry, str]] = {}
        """The quoted names of the tables, by the names of their streams."""
        self._filled: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._filled)

    def has_table(self, stream: StreamEntry) -> bool:
        """Whether the table of a stream, not of an earlier one of its name, is known to exist."""
        known = self._tables.get(stream.name)
        return known is not None and known[0] is stream

    def make_table(self, stream: StreamEntry) -> None:
        """Creates the table of a stream, unless it exists. Not inside a transaction."""
        stored, tables = self._plans.stored, self._plans.stream_tables
        with self._plans.transaction():
            if stored is not None and not tables.exist(JOURNAL, stream.name):
                stored.mark_layout()
            name = tables.create(JOURNAL, stream.name, ("ts", "seq"))
        self._tables[stream.name] = stream, name

    def add(self, batch: EventBatch) -> None:
        """Stores the events of a push, inside its transaction."""
        _, table = self._tables[batch.stream.name]
        self._filled.add(table)
        batch.insert(self._plans.database, table)

    def empty(self) -> None:
        """Removes all events, inside the transaction that writes their changes."""
        for table in self._filled:
            self._plans.database.execute(f"DELETE FROM {table}")

    def clear(self) -> None:
        """Notes that the transaction of `empty` has taken effect."""
        self._filled.clear()

    def read(self) -> list[EventBatch]:
        """The events that an earlier process has left in the journal. Not inside a transaction."""
        database, tables = self._plans.database, self._plans.stream_tables
        found = []
        for stream in self._plans.catalogue.streams.values():
            if not tables.exist(JOURNAL, stream.name):
                continue
            self.make_table(stream)
            _, table = self._tables[stream.name]
            if rows := sorted(stored_events(table, 2, stream, database), key=operator.itemgetter(1)):
                found.append(EventBatch(stream, rows=rows))
        return found

    def restore(self, batches: Iterable[EventBatch]) -> None:
        """Notes that these events, which `read` has returned, are in the journal."""
        self._filled.update(self._tables[batch.stream.name][1] for batch in batches)
