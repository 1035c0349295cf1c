"""Windows that jump (W3): whether an event comes after a boundary, so that more than its own row is to be written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from bridge.engine.single_events.computed import Compute, Row
from bridge.engine.single_events.memory.window_rows import MOST_ROWS, RETRY
from bridge.rewrite.flow import Boundaries
from windows.databases import Database
from windows.sql import column, table
from windows.times import BEGINNING


class RowNumbers:
    """The number of the newest row of each key, in a table whose boundaries are at certain numbers of rows.

    The numbers are read from the table after two small pushes, and forgotten when rows are added in another way.
    `arrive` gives the keys of the rows that an event adds.
    """

    def __init__(self, boundaries: Boundaries, arrive: Compute) -> None:
        self._boundaries, self._arrive = boundaries, arrive
        self._numbers: dict[Any, int] | None = None
        self._wait = 1

    def forget(self) -> None:
        """Forgets the numbers, as other rows have come or gone."""
        if self._numbers is not None:
            self._numbers, self._wait = None, 1

    def are_passed(self, rows: Sequence[Row]) -> bool:
        """Whether one of the rows that these events add may be a boundary."""
        if self._numbers is None:
            return True
        added: dict[Any, int] = {}
        for row in rows:
            if (keys := self._arrive(row)) is None:
                return True
            for key in keys:
                number = added.get(key) or self._numbers.get(key, 0)
                added[key] = number + 1
                if self._is_boundary(number + 1):
                    return True
        return False

    def _is_boundary(self, number: int) -> bool:
        slide, origin = self._boundaries.slide, self._boundaries.origin
        assert origin is not None
        return number >= origin and (number - origin) % slide == 0

    def add(self, rows: Sequence[Row]) -> None:
        """Counts the rows of events that have taken effect."""
        numbers = self._numbers
        for row in rows if numbers is not None else ():
            keys = self._arrive(row)
            if keys is None or numbers is None:
                self.forget()
                return
            for key in keys:
                numbers[key] = numbers.get(key, 0) + 1
        self._bound()

    def prepare(self, database: Database) -> None:
        """Reads the numbers after enough small pushes."""
        self._wait -= 1
        if self._wait >= 0:
            return
        names = self._boundaries.keys or ()
        newest = exp.select(*map(column, names), exp.Max(this=column("_number")))
        newest = newest.from_(table(self._boundaries.rows)).group_by(*map(column, names)).limit(MOST_ROWS + 1)
        rows = database.fetch(database.render(newest))
        self._numbers = {tuple(row[:-1]): int(row[-1]) for row in rows if row[-1] is not None}
        self._bound()

    def _bound(self) -> None:
        if self._numbers is not None and len(self._numbers) > MOST_ROWS:
            self._numbers, self._wait = None, RETRY

    @property
    def is_known(self) -> bool:
        """Whether the numbers are in memory."""
        return self._numbers is not None


class NextBoundaries:
    """The boundaries of several operators. Before the next boundary, only the row of an event is written.

    Where boundaries are counted from the time of the first row, this time is read once, from the table that keeps it.
    """

    def __init__(self, times: Sequence[Boundaries], counts: Sequence[RowNumbers], database: Database) -> None:
        self._known = [(each.slide, each.origin) for each in times if each.origin is not None]
        self._first = [(each.slide, each.first) for each in times if each.origin is None]
        self._counts, self._database = counts, database
        self.forget()

    def __bool__(self) -> bool:
        return bool(self._known or self._first or self._counts)

    @property
    def keeps_rows(self) -> bool:
        """Whether numbers of rows may be in memory."""
        return bool(self._counts)

    def forget(self) -> None:
        """Forgets first rows and counts, as their tables may have changed."""
        self._counted: list[tuple[int, int]] | None = None if self._first else self._known
        for each in self._counts:
            each.forget()

    def note(self, database: Database, rows: Sequence[Row]) -> None:
        """Counts the rows of events that the database has processed, inside their transaction."""
        for each in self._counts:
            if each.is_known:
                each.add(rows)
            else:
                each.prepare(database)

    def add(self, rows: Sequence[Row]) -> None:
        """Counts the rows of events that are stored later."""
        for each in self._counts:
            each.add(rows)

    def are_passed(self, before: int, now: int, rows: Sequence[Row]) -> bool:
        """Whether a boundary is after `before` and not after `now`, or is a row of these events, or may be one."""
        if before == BEGINNING:
            return True
        return self._are_times_passed(before, now) or any(each.are_passed(rows) for each in self._counts)

    def _are_times_passed(self, before: int, now: int) -> bool:
        counted = self._counted
        if counted is None and (counted := self._with_first_rows()) is None:
            return True
        return any((now - origin) // slide > (before - origin) // slide for slide, origin in counted)

    def _with_first_rows(self) -> list[tuple[int, int]] | None:
        """All boundaries, with the times of first rows; None while some first row has not come."""
        found = list(self._known)
        for slide, first in self._first:
            rows = self._database.fetch(f"SELECT ts FROM {self._database.quoted(first)}")
            if not rows:
                return None
            found.append((slide, int(rows[0][0])))
        self._counted = found
        return found
