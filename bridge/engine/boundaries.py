"""Windows that jump at times (W3): whether an event comes after a boundary, so that more than its row is to be written."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.rewrite.flow import Boundaries
from windows.databases import Database
from windows.times import BEGINNING


class BoundaryTimes:
    """The boundaries of several operators. Before the next one, an event's row is all that they get.

    Where boundaries are counted from the first row, its time is read from the table that keeps it, once.
    """

    def __init__(self, boundaries: Sequence[Boundaries], database: Database) -> None:
        self._known = [(each.slide, each.origin) for each in boundaries if each.origin is not None]
        self._first = [(each.slide, each.first) for each in boundaries if each.origin is None]
        self._database = database
        self.forget()

    def __bool__(self) -> bool:
        return bool(self._known or self._first)

    def forget(self) -> None:
        """The tables that keep the first rows may have changed."""
        self._counted: list[tuple[int, int]] | None = None if self._first else self._known

    def are_passed(self, before: int, now: int) -> bool:
        """Whether one is later than `before` and not later than `now`, or may be."""
        if before == BEGINNING:
            return True
        counted = self._counted
        if counted is None and (counted := self._with_first_rows()) is None:
            return True
        return any((now - origin) // slide > (before - origin) // slide for slide, origin in counted)

    def _with_first_rows(self) -> list[tuple[int, int]] | None:
        """All boundaries, with the times of first rows; None while one has not come."""
        found = list(self._known)
        for slide, table in self._first:
            rows = self._database.fetch(f"SELECT ts FROM {self._database.quoted(table)}")
            if not rows:
                return None
            found.append((slide, int(rows[0][0])))
        self._counted = found
        return found
