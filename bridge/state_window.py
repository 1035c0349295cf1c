"""The step that keeps the versions of a window's rows: one event after the other, each seeing what those before it did."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bridge.changes import Change
from bridge.flow import INSERTED
from windows.databases import Database
from windows.extents import NEVER

Row = tuple[Any, ...]
Marked = tuple[str, list[int]]

_PLACES = 3
"""The columns of a version's identity: ts, seq and place."""


@dataclasses.dataclass(frozen=True)
class Changer:
    """One kind of change: its events, the table of the one at hand, what that finds, and what it inserts."""

    change: Change
    arrived: str
    cause: str
    clear: str
    found: str
    unmatched: str | None


@dataclasses.dataclass
class Versions:
    """Changes the rows of a window for each event of this push, in order, and inserts what comes.

    What an event changes comes before what it inserts; the rows as they are then are in the inbox, too.
    """

    table: str
    window: str
    inbox: str
    arrived: str
    changers: Sequence[Changer]
    leave: Marked

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Take the events of this push."""
        new: list[Row] = []
        entered: list[Row] = []
        moment, place = None, 0
        for ts, number, source, _, row in self._events(database):
            moment, place = (ts, number), 0 if (ts, number) != moment else place
            if source == len(self.changers):
                place += 1
                new.append((ts, number, INSERTED + place, NEVER, *row))
                continue
            self._enter(database, new, entered)
            for changed in self._changed(self.changers[source], (ts, number, row), database):
                place += 1
                new.append((ts, number, place, NEVER, *changed))
        self._enter(database, new, entered)
        if entered:
            database.insert(self.inbox, len(entered[0]), entered)

    def _events(self, database: Database) -> Iterator[tuple[int, int, int, int, Row]]:
        """All events of this push: ts, number, which of the changes or, last, what is inserted, place, columns."""
        texts = [*(changer.arrived for changer in self.changers), self.arrived]
        listed = [
            [(row[0], row[1], source, row[2], row[_PLACES:]) for row in database.fetch(text)]
            for source, text in enumerate(texts)
        ]
        return heapq.merge(*listed, key=lambda event: event[:4])

    def _enter(self, database: Database, new: list[Row], entered: list[Row]) -> None:
        if new:
            database.insert(self.window, len(new[0]) + 3, [(*row, NEVER, NEVER, NEVER) for row in new])
            entered += new
            new.clear()

    def _changed(self, changer: Changer, event: tuple[int, int, Row], database: Database) -> list[Row]:
        """What one event does; gives the rows that enter."""
        ts, number, row = event
        database.execute(changer.clear)
        database.insert(changer.cause, len(row) + _PLACES, [(ts, number, 0, *row)])
        found = database.fetch(changer.found)
        if not found:
            given = database.fetch(changer.unmatched) if changer.unmatched is not None else []
            return [tuple(values) for which, *values in given if which]
        entering = []
        text, order = self.leave
        for which, *values in found:
            if which:
                out = [ts, number, 0, *values[:_PLACES]]
                database.bind(text, [out[place] for place in order])
                if changer.change.matched[which - 1].kind == "update":
                    entering.append(tuple(values[_PLACES:]))
        return entering

    def forget(self) -> None:
        """It remembers nothing."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The events, and the statements for each."""
        parts = [f"{pretty(self.arrived)};", f"-- these rows enter {self.window}, after what the events change:"]
        for changer in self.changers:
            parts += [f"{pretty(changer.arrived)};", f"-- for each of these rows, alone in {changer.cause}:"]
            parts += [f"{pretty(text)};" for text in (changer.found, changer.unmatched) if text is not None]
        return "\n".join(parts)
