"""Rows of window tables in memory, read also for events of other streams than the one whose events fill the table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import NamedTuple

from sqlglot import exp

from bridge.engine.single_events.computed import Compute, Row
from bridge.engine.single_events.memory.window_changes import WindowChanges
from bridge.engine.single_events.memory.window_content import WindowContent, WindowInsertion
from bridge.engine.single_events.memory.window_forms import UnknownFormError
from bridge.engine.single_events.memory.window_rows import MaintainedRows
from windows.types import PYTHON_TYPES


class FilledWindow(NamedTuple):
    """A window table to which events of one stream alone add rows.

    Args:
        stream: The stream's name.
        insertion: The row that an event adds.
        types: The types of the columns of the event's row.
        arriving: Gives the function for some columns of the row that an event adds; None where only the database can.
        changes: Gives the aggregate for a SELECT of results at events and at rows that leave the window; None where only
            the database can.
    """

    stream: str
    insertion: WindowInsertion
    types: Sequence[str]
    arriving: Callable[[Sequence[str]], Compute | None]
    changes: Callable[[object, Callable[[], exp.Expr]], WindowChanges | None]

    def type_of(self, name: str) -> str | None:
        """The type of a column; None unless the column is a value of the event."""
        place = self.insertion.places.get(name)
        return None if place is None else self.types[place]


class FilledContent(WindowContent):
    """The rows of a window that a SELECT reads for an event; another stream than the event's may fill the window.

    `types`: the types of the event's values. `is_own`: whether the event fills the window. `others`: the conditions on
    the rows that do not bound the window.
    """

    def __init__(
        self,
        select: exp.Select,
        window: FilledWindow,
        place_of: Callable[[exp.Expr], int | None],
        types: Sequence[str],
        is_own: bool,
    ) -> None:
        self.window, self._types, self._adds_event = window, types, is_own
        self.others: list[exp.Expr] = []
        super().__init__(select, {window.insertion.table: window.insertion}, place_of)

    def _take_other(self, condition: exp.Expr) -> None:
        self.others.append(condition)

    def _add_key(self, name: str, place: int, condition: exp.Expr) -> None:
        kind = self.window.type_of(name)
        if kind is None:
            raise UnknownFormError
        if name in self.keys or PYTHON_TYPES.get(kind) is not PYTHON_TYPES.get(self._types[place]):
            self.others.append(condition)
            return
        self.keys[name] = place
        if isinstance(condition, exp.EQ):
            self.equal.add(name)

    @property
    def form(self) -> Row:
        """The bounds of the window; windows of the same columns and bounds share their rows in memory."""
        bounds = self._span, self._count, self._evicted, self._session
        return self.insertion.table, tuple(self.keys), tuple(self._others), *bounds


class WindowMemory:
    """The rows of windows in memory, by the names of the streams that fill them.

    `filled`: gives the INSERT that fills a window table; None where several streams, or results, fill it.
    """

    def __init__(self, filled: Callable[[str], FilledWindow | None]) -> None:
        self.filled = filled
        self._rows: dict[str, list[tuple[Hashable, MaintainedRows]]] = {}

    def find(self, stream: str, form: Hashable) -> MaintainedRows | None:
        """The rows in memory with this form, which is the table, the columns and the bounds of the window."""
        return next((rows for own, rows in self._rows.get(stream, ()) if own == form), None)

    def add(self, stream: str, form: Hashable, rows: MaintainedRows) -> None:
        """Registers rows, to which events of the stream are added from now on."""
        found = self._rows.setdefault(stream, [])
        if not any(rows is each for _, each in found):
            found.append((form, rows))

    def note(self, stream: str, events: Sequence[Row]) -> None:
        """Adds events of a stream to all its rows in memory."""
        for _, rows in self._rows.get(stream, ()):
            for event in events:
                rows.add(event)

    def forget(self, streams: Collection[str] | None = None) -> None:
        """Forgets the rows of tables that these streams (None: all) fill, as they were changed in another way."""
        for stream in self._rows if streams is None else streams:
            for _, rows in self._rows.get(stream, ()):
                rows.forget()

    def clear(self) -> None:
        """Removes all rows, as nobody reads them any more."""
        self._rows.clear()
