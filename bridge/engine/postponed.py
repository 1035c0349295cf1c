"""Events whose rows are stored later, together: until then only what is in memory reads them.

That is for databases whose state ends with the process. Each transaction begins by storing them, so whatever reads tables
finds them there; only the push of another such event does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bridge.engine.inboxes import Inboxes
from bridge.engine.intake import EventBatch
from bridge.engine.one_event import OneEventPlan
from bridge.engine.tables import Tables
from bridge.patterns.live.statements import Rows
from bridge.rewrite import Network
from bridge.rewrite.plan import RowCall
from windows.databases import Database


class PostponedEvent(NamedTuple):
    """The events of a push, the plan that they have run, and what machines have still to write."""

    batch: EventBatch
    plan: OneEventPlan
    progress: Sequence[tuple[RowCall, Rows]]

    @property
    def seq(self) -> int:
        """The number of the first one."""
        seq: int = self.batch.rows[0][1]
        return seq


class PostponedEvents:
    """The events that the tables lack, in their order."""

    def __init__(self, database: Database, inboxes: Inboxes, tables: Tables, network: Network) -> None:
        self._database, self._inboxes, self._tables, self._network = database, inboxes, tables, network
        self._events: list[PostponedEvent] = []

    def __bool__(self) -> bool:
        return bool(self._events)

    def add(self, event: PostponedEvent) -> None:
        """Adds an event that has taken effect."""
        self._events.append(event)

    def clear(self) -> None:
        """They are in the tables, and the transaction of that has taken effect."""
        self._events.clear()

    def undo(self, seq: int) -> None:
        """Removes the events after this number, which have not taken effect."""
        while self._events and self._events[-1].seq > seq:
            self._events.pop()

    def store(self) -> None:
        """Writes rows and progress, inside a transaction; the inboxes are empty then."""
        self._inboxes.empty()
        self._inboxes.filled = set()
        rows: dict[OneEventPlan, list[tuple[Any, ...]]] = {}
        progress: dict[int, tuple[RowCall, Rows]] = {}
        for batch, plan, lines in self._events:
            rows.setdefault(plan, []).extend(batch.rows)
            for machine, some in lines:
                progress.setdefault(id(machine), (machine, []))[1].extend(some)
        streams = {event.plan: event.batch.stream for event in self._events}
        for plan, own in rows.items():
            if not plan.stores:
                continue
            filled = self._inboxes.fill([EventBatch(streams[plan], rows=own)])
            for insert in plan.stores:
                self._database.execute(self._tables.text(insert, self._network.settings.kind(len(own))))
            filled |= plan.inboxes.intersection(insert.table for insert in plan.stores)
            for inbox in filled:
                self._database.execute(self._tables.emptying(inbox))
        for machine, written in progress.values():
            machine.write_progress(self._database, written)
