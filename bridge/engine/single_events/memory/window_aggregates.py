"""Aggregates over a window, computed in this process for single events from the rows of the window in memory.

They are the aggregates that Python computes as the database does: counts, also of distinct whole numbers and texts;
sums, averages and extremes of whole numbers, and of doubles that are not NaN, which are added in the order of arrival;
the values of the oldest and the newest row; and the functions in the database's `python_aggregates`, such as standard
deviations.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from bridge.engine.single_events.computed import Compute, Row
from bridge.engine.single_events.memory.running_totals import EXACT, KeyTotals, RunningTotals
from bridge.engine.single_events.memory.window_rows import KeyRows, LatestRows, MaintainedRows, WindowRows
from windows.databases import Database
from windows.databases.python_aggregates import PythonAggregate
from windows.times import NEVER

ONLY = "only"
"""The name of an aggregate whose value is that of the only row; NULL where there are several rows or none."""

EDGES = {"first": 0, "last": -1}
"""The aggregates that are the value of the oldest and of the newest row, and the places of these rows."""

MOST_OF_KEY = 16_384
"""The greatest number of rows of a key for which Python computes an aggregate row by row."""

MOST_OF_SLOW = 4_096
"""The same for an aggregate that takes several steps per row in Python."""

Values: TypeAlias = "list[Any]"

_total: Callable[[Values], Any] = (
    sum if sys.version_info < (3, 12) else lambda values: functools.reduce(operator.add, values, 0)
)
"""The sum of numbers in their order. The `sum` of Python 3.12 compensates for rounding; most databases do not."""


class ColumnAggregate(NamedTuple):
    """An aggregate over a column of values (None: over rows), and the type of its result.

    `of_doubles`: the function that computes it of doubles, if its name is not known here.
    """

    name: str
    column: str | None
    type: str
    of_doubles: PythonAggregate | None = None

    @property
    def is_joined(self) -> bool:
        """Whether some databases do not support it over window frames."""
        return self.name == "count distinct"

    @property
    def is_running(self) -> bool:
        """Whether its value can be updated by one further row."""
        return self.name in ("count", "sum", "avg", "min", "max")

    @property
    def is_safe(self) -> bool:
        """Whether the database can compute it without an error, whatever the values."""
        is_sum_of_doubles = self.name.endswith("sum") and self.type == "DOUBLE"
        is_other = self.name in ("count", "count distinct", "min", "max", *EDGES) or self.name.endswith("avg")
        return self.of_doubles is None and (is_sum_of_doubles or is_other)

    @property
    def function(self) -> Callable[[Values], Any] | None:
        """The function of the values that are not NULL; None where the memory of the rows knows the result itself."""
        if self.name in ("count distinct", ONLY, *EDGES):
            return None
        return _FUNCTIONS[self.name] if self.of_doubles is None else functools.partial(_of_doubles, self.of_doubles)


class WindowAggregate(MaintainedRows):
    """A SELECT of aggregates over the rows of a window, computed in this process after an event has come.

    `key`: the places of the event's values that select its rows; where one of `equal` is NULL, no row is selected.
    `reports_empty`: whether the SELECT also gives a row where the window has no rows.
    """

    def __init__(
        self, rows: WindowRows, arrive: Compute, key: Sequence[int], equal: Sequence[int],
        aggregates: Sequence[ColumnAggregate], columns: Sequence[str], finish: Compute, reports_empty: bool,
        arriving: Compute | None = None,
    ) -> None:  # fmt: skip
        super().__init__(rows, arrive)
        self.is_joined = reports_empty or isinstance(rows, LatestRows) or any(each.is_joined for each in aggregates)
        """Whether statements over many events may join each event with its rows, instead of using window frames."""
        self._key, self._equal, self._finish = key, equal, finish
        self.arriving = arriving
        """Gives an empty row for each row of the SELECT; None where the row that the event adds does not tell that."""
        self.is_safe = arriving is not None and all(each.is_safe for each in aggregates)
        """Whether the database can compute it for every event without an error, so that it may do so later."""
        self.items: Mapping[str, str | None] = {}
        """The columns of the SELECT; with their types if they are values of the event or aggregates."""
        self._none = KeyRows(len(columns)) if reports_empty else None
        self._columns = columns
        places = [None if each.column is None else columns.index(each.column) for each in aggregates]
        self._aggregates = [(each.name, each.function, place) for each, place in zip(aggregates, places, strict=True)]
        reads_rows = any(function is not None and place is not None for _, function, place in self._aggregates)
        self._most = MOST_OF_KEY if reads_rows else None
        if any(each.of_doubles is not None for each in aggregates):
            self._most = MOST_OF_SLOW

    @property
    def has_few_rows(self) -> bool:
        """Whether each key has few rows."""
        return self.rows.has_few_rows

    def take(self, row: Row) -> list[Row] | None:
        """Adds the rows of the event; returns the rows of the SELECT, None where the database has to compute them."""
        return self._results(row) if self.add(row) else None

    def _results(self, row: Row) -> list[Row] | None:
        """The rows of the SELECT for an event whose rows are in memory."""
        is_null = any(row[place] is None for place in self._equal)
        found = self._values(None if is_null else tuple([row[place] for place in self._key]), row[0])
        if found is None:
            return None
        return self._finish((*row, *found[0])) if found else []

    def _values(self, key: Row | None, ts: int) -> list[list[Any]] | None:
        """The aggregates of the rows of a key, if there are any; None where the database has to compute them."""
        own = (None if key is None else self.rows.of(key, ts)) or self._none
        if own is None:
            return []
        found = self._aggregated(own)
        return None if found is None else [found]

    def _aggregated(self, own: KeyRows) -> list[Any] | None:
        """The aggregates of the rows of a key; None where the database has to compute them."""
        if self._most is not None and len(own.times) > self._most:
            return None
        found: list[Any] = []
        for name, function, place in self._aggregates:
            if place is None:
                found.append(len(own.times))
                continue
            if name == ONLY:
                found.append(own.columns[place][0] if len(own.times) == 1 else None)
                continue
            if name in EDGES:
                found.append(own.columns[place][EDGES[name]] if own.times else None)
                continue
            if function is None:
                found.append(own.count_distinct(place))
                continue
            values = own.columns[place]
            if own.nulls:
                values = [value for value in values if value is not None]
            try:
                found.append(function(values))
            except (ArithmeticError, ValueError):
                return None
        return found


class ForeignAggregate(WindowAggregate):
    """The same over a window that another `stream` fills; events of the aggregate's own stream only read it."""

    def __init__(self, stream: str, rows: WindowRows, *others: Any) -> None:
        super().__init__(rows, *others)
        self.stream = stream

    def take(self, row: Row) -> list[Row] | None:
        return self._results(row) if self.is_loaded else None

    def prepare(self, database: Database, rows: Sequence[Row]) -> None:
        if not self.is_loaded:
            super().prepare(database, rows)


class RunningAggregate(WindowAggregate):
    """The same over a window that rows never leave, from a total per key."""

    rows: RunningTotals

    def _values(self, key: Row | None, ts: int) -> list[list[Any]] | None:
        own = None if key is None else self.rows.totals(key)
        if own is None:
            if self._none is None:
                return []
            own = KeyTotals(len(self._none.columns))
        try:
            return [
                [own.rows if place is None else own.totals[place].value(name) for name, _, place in self._aggregates]
            ]
        except (ArithmeticError, ValueError):
            return None


def _compensated(values: Values) -> float:
    """The sum of doubles as SQLite computes it from version 3.43 on (Kahan and Babuška)."""
    total = error = 0.0
    for value in values:
        after = total + value
        error += (total - after) + value if abs(total) > abs(value) else (value - after) + total
        total = after
    return total + error


def _sum(values: Values, sum_of: Callable[[Values], Any] = _total) -> Any:
    if not values:
        return None
    total = sum_of(values)
    if type(total) is int:
        if sum(map(abs, values)) > NEVER:
            raise OverflowError
    elif not math.isfinite(total):
        raise OverflowError
    return total


def _average(values: Values, sum_of: Callable[[Values], Any] = _total) -> float | None:
    if not values:
        return None
    if type(values[0]) is int and sum(map(abs, values)) > EXACT:
        raise OverflowError
    found = sum_of(values) / len(values)
    if not math.isfinite(found):
        raise OverflowError
    return float(found)


def _of_doubles(function: PythonAggregate, values: Values) -> float | None:
    found = function(list(map(float, values)))
    if found is not None and not math.isfinite(found):
        raise OverflowError
    return found


def _extreme(choose: Callable[..., Any], values: Values) -> Any:
    """The least or greatest value. Where there are both 0.0 and -0.0, only the database knows which of them it is."""
    found = choose(values, default=None)
    if found == 0 and type(found) is float and len({math.copysign(1.0, value) for value in values if value == 0}) > 1:
        raise ValueError
    return found


_FUNCTIONS: Mapping[str, Callable[[Values], Any]] = {
    "count": len,
    "sum": _sum,
    "avg": _average,
    "compensated sum": functools.partial(_sum, sum_of=_compensated),
    "compensated avg": functools.partial(_average, sum_of=_compensated),
    "min": functools.partial(_extreme, min),
    "max": functools.partial(_extreme, max),
}
