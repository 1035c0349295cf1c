"""Aggregates over windows that rows never leave, for single events: a total per key in memory, not the rows.

So the cost of an event does not depend on the number of rows, and the memory depends on the number of keys alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from bridge.engine.single_events.computed import Row
from bridge.engine.single_events.memory.window_rows import MOST_ROWS, WindowRows
from windows.databases import Database
from windows.sql import column, table
from windows.times import NEVER

EXACT = 2**53
"""The sum of the absolute values of whole numbers up to which their average is the quotient of exact doubles."""


class Total:
    """The totals of the values of a column so far, without NULLs; they give `SUM`, `AVG`, `MIN`, `MAX` and `COUNT`."""

    __slots__ = ("absolute", "count", "greatest", "least", "sum", "zeros")

    def __init__(self) -> None:
        self.count = 0
        self.sum: Any = 0
        self.absolute: Any = 0
        """An upper bound of the sum of the absolute values."""
        self.least: Any = None
        self.greatest: Any = None
        self.zeros = 0
        """The signs of zeros among the doubles: 1 for 0.0, 2 for -0.0, 3 for both."""

    def add(self, value: Any) -> None:
        """Adds the value of a row."""
        self.count += 1
        self.sum += value
        self.absolute += abs(value)
        if self.count == 1:
            self.least = self.greatest = value
        elif value < self.least:
            self.least = value
        elif value > self.greatest:
            self.greatest = value
        if value == 0 and type(value) is float:
            self.zeros |= 1 if math.copysign(1.0, value) > 0 else 2

    def start(self, count: int, total: Any, least: Any, greatest: Any) -> None:
        """Takes over the aggregates that the database has computed of the earlier rows."""
        self.count, self.sum, self.least, self.greatest = count, total, least, greatest
        if count:
            self.absolute = count * max(abs(least), abs(greatest))
            if type(least) is float and least <= 0 <= greatest:
                self.zeros = 3  # which zeros there are is not known

    def value(self, name: str) -> Any:
        """The value of an aggregate. Raises `ArithmeticError` or `ValueError` where only the database knows it."""
        if name == "count":
            return self.count
        if not self.count:
            return None
        if name in ("min", "max"):
            found = self.least if name == "min" else self.greatest
            if found == 0 and self.zeros == 3:
                raise ValueError
            return found
        is_whole = type(self.sum) is int
        if not (self.absolute <= (EXACT if name == "avg" else NEVER) if is_whole else math.isfinite(self.sum)):
            raise OverflowError
        return self.sum / self.count if name == "avg" else self.sum


class KeyTotals:
    """The number of rows of one key, and the totals of its columns."""

    __slots__ = ("rows", "totals")

    def __init__(self, width: int) -> None:
        self.rows = 0
        self.totals = [Total() for _ in range(width)]

    def add(self, values: Sequence[Any]) -> None:
        self.rows += 1
        for total, value in zip(self.totals, values, strict=True):
            if value is not None:
                total.add(value)


class RunningTotals(WindowRows):
    """The totals of a window table whose rows never leave, by key. The columns are whole numbers or doubles."""

    has_few_rows = True
    """The time per event does not depend on the number of rows."""

    _totals: dict[Any, KeyTotals]

    def __init__(self, name: str, keys: Sequence[str], columns: Sequence[str], kinds: Sequence[type]) -> None:
        super().__init__(name, keys, columns, kinds, None)
        self._columns = columns
        self._is_whole = float not in kinds[len(keys) :]

    def _empty(self) -> None:
        self._totals = {}

    def _add(self, ts: int, row: Sequence[Any]) -> None:
        key = row[: self._keys]
        own = self._totals.get(key)
        if own is None:
            own = self._totals[key] = KeyTotals(len(self._columns))
        own.add(row[self._keys :])

    def _size(self) -> int:
        return len(self._totals)

    _count_keys = _size

    def totals(self, key: Row) -> KeyTotals | None:
        """The totals of a key; None where it has no rows."""
        return self._totals.get(key)

    def _load(self, database: Database, ts: int, seq: int) -> bool:
        """Reads the totals; False where the table has values that were not pushed.

        The database adds whole numbers, and doubles if there are too many; otherwise they are added here, in order.
        """
        rows = exp.Count(this=exp.Star())
        bounds = [f(this=column(name)) for name in self._columns for f in (exp.Min, exp.Max)]
        whole = exp.select(rows, exp.Max(this=column("seq")), *bounds).from_(table(self._name))
        count, newest, *found = database.fetch(database.render(whole))[0]
        if not count:
            return True
        if not self._is_whole and count <= MOST_ROWS:
            return super()._load(database, ts, seq)
        kinds = [kind for kind in self._kinds[self._keys :] for _ in range(2)]
        if newest > seq or any(v is not None and type(v) is not k for v, k in zip(found, kinds, strict=True)):
            return False
        if any(type(value) is int and abs(value) * count > NEVER for value in found):
            return False  # a sum could be too great for the database
        functions = (exp.Count, exp.Sum, exp.Min, exp.Max)
        values = [function(this=column(name)) for name in self._columns for function in functions]
        keys = [column(name) for name in self._names[: self._keys]]
        select = exp.select(*keys, rows.copy(), *values).from_(table(self._name)).limit(MOST_ROWS + 1)
        groups = database.fetch(database.render(select.group_by(*keys) if keys else select))
        return len(groups) <= MOST_ROWS and all(map(self._start, groups))

    def _start(self, row: Row) -> bool:
        """Takes the totals of a key; False where some value was not pushed."""
        key, columns = tuple(row[: self._keys]), self._kinds[self._keys :]
        if any(v is not None and (type(v) is not k or v != v) for v, k in zip(key, self._kinds, strict=False)):
            return False
        own = self._totals[key] = KeyTotals(len(columns))
        own.rows = row[self._keys]
        for place, kind in enumerate(columns):
            count, total, least, greatest = row[self._keys + 1 + 4 * place :][:4]
            if count:
                if not math.isfinite(total) or type(total) is not kind:
                    return False
                own.totals[place].start(count, total, least, greatest)
        return True
