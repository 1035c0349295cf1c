"""Values of earlier rows of an event's partition, which a machine reads for PREV; held in memory where possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from bridge.engine.single_events.computed import Compute, Row
from bridge.engine.single_events.memory.window_memory import FilledWindow
from bridge.engine.single_events.memory.window_rows import MaintainedRows, WindowRows
from bridge.patterns.live.statements import Arrivals
from windows.databases import Database
from windows.sql import column, table
from windows.types import PYTHON_TYPES


def previous_rows(arrivals: Arrivals, filled: FilledWindow) -> PreviousRows | None:
    """The memory of the earlier rows that arrivals read; None where Python does not know the rows that an event adds.

    Args:
        arrivals: The arrivals of a machine.
        filled: The machine's table, which the INSERT of the event's stream fills.
    """
    names = [*arrivals.keys, *dict.fromkeys(each.column for each in arrivals.previous)]
    arrive = filled.arriving(names)
    if arrive is None:
        return None
    places = [filled.insertion.places[name] for name in names]
    return PreviousRows(arrivals, places[: len(arrivals.keys)], arrive, [filled.types[place] for place in places])


class PreviousRows(MaintainedRows):
    """The latest rows of each partition in a machine's table, with the columns that `arrivals` read."""

    def __init__(self, arrivals: Arrivals, places: Sequence[int], arrive: Compute, types: Sequence[str]) -> None:
        """`places`: of the keys in an event's row. `arrive`: computes keys and columns it adds, of these `types`."""
        self._columns = list(dict.fromkeys(each.column for each in arrivals.previous))
        self._reads = [(self._columns.index(each.column), each.back) for each in arrivals.previous]
        self._most = max(each.back for each in arrivals.previous)
        self._key, self._arrivals = places, arrivals
        self._text: str | None = None
        kinds = [PYTHON_TYPES[kind] for kind in types]
        super().__init__(WindowRows(arrivals.table, arrivals.keys, self._columns, kinds, None, self._most), arrive)

    def is_known(self, row: Row) -> bool:
        """Whether the row that the event adds can be kept in memory."""
        return self._arrive(row) is not None

    def values(self, database: Database, row: Row) -> tuple[Any, ...]:
        """The values that an event reads; the event itself is not among the rows yet."""
        if not self.is_loaded:
            return self._stored(database, row)
        own = self.rows.of(tuple([row[place] for place in self._key]), row[0])
        if own is None:
            return (None,) * len(self._reads)
        count = len(own.times)
        return tuple([own.columns[place][-back] if back <= count else None for place, back in self._reads])

    def _stored(self, database: Database, row: Row) -> tuple[Any, ...]:
        """The values, read from the table."""
        if self._text is None:
            order = [exp.Ordered(this=column(name), desc=True) for name in ("ts", "seq")]
            same = [exp.NullSafeEQ(this=column(key), expression=exp.Placeholder()) for key in self._arrivals.keys]
            select = exp.select(*map(column, self._columns)).from_(table(self._arrivals.table)).where(*same)
            self._text = database.render(select.order_by(*order).limit(self._most))
        keys = [row[place] for place in self._key]
        rows = database.fetch_bound(self._text, keys) if keys else database.fetch(self._text)
        return tuple([rows[back - 1][place] if back <= len(rows) else None for place, back in self._reads])
