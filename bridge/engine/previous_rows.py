"""Values of the rows before an event in its partition, which a machine reads for PREV: in memory where that is known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlglot import exp

from bridge.engine.computed import KINDS, Compute, Row, computed
from bridge.engine.window_content import WindowInsertion
from bridge.engine.window_rows import MaintainedRows, WindowRows
from bridge.patterns.live.statements import Arrivals
from windows.databases import Database
from windows.sql import column, table


def previous_rows(
    arrivals: Arrivals,
    insertion: WindowInsertion,
    place_of: Callable[[exp.Expr], int | None],
    mark: Callable[[int, str], exp.Expr],
    types: Sequence[str],
    proven: Collection[str],
) -> PreviousRows | None:
    """What has the earlier rows that arrivals read; None where Python does not know what an event adds to them.

    Args:
        arrivals: The arrivals of a machine.
        insertion: What the INSERT into its table adds for an event.
        place_of: The place of an event's value in its row; None for another expression.
        mark: The expression that stands for a value at a place of the row, of a type.
        types: The types of the columns of that row.
        proven: The types whose values the database compares and returns as Python does.
    """
    names = [*arrivals.keys, *dict.fromkeys(each.column for each in arrivals.previous)]
    if not set(names) <= insertion.places.keys():
        return None
    places = [insertion.places[name] for name in names]
    select = exp.select(*(exp.alias_(mark(place, types[place]), f"_{place}", quoted=True) for place in places))
    if insertion.condition is not None:
        select = select.where(insertion.condition.copy())
    arrive = computed(select, place_of, types, proven)
    if arrive is None:
        return None
    return PreviousRows(arrivals, places[: len(arrivals.keys)], arrive, [types[place] for place in places])


class PreviousRows(MaintainedRows):
    """The latest rows of each partition in a machine's table, with the columns that `arrivals` read of them."""

    def __init__(self, arrivals: Arrivals, places: Sequence[int], arrive: Compute, types: Sequence[str]) -> None:
        """`places`: those of the keys in an event's row; `arrive`: keys and columns that it adds, of these `types`."""
        self._columns = list(dict.fromkeys(each.column for each in arrivals.previous))
        self._reads = [(self._columns.index(each.column), each.back) for each in arrivals.previous]
        self._most = max(each.back for each in arrivals.previous)
        self._key, self._arrivals = places, arrivals
        self._text: str | None = None
        kinds = [KINDS[kind] for kind in types]
        super().__init__(WindowRows(arrivals.table, arrivals.keys, self._columns, kinds, None, self._most), arrive)

    def is_known(self, row: Row) -> bool:
        """Whether what the event adds can be kept in memory."""
        return self._arrive(row) is not None

    def values(self, database: Database, row: Row) -> tuple[Any, ...]:
        """The values that an event reads, which is not among the rows yet."""
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
