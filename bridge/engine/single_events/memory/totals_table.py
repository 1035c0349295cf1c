"""Tables of totals in memory, for single events: partial aggregates per group, for windows that rows never leave."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from bridge.engine.single_events.computed import Compute, Row
from bridge.engine.single_events.memory.running_totals import EXACT
from bridge.engine.single_events.memory.window_aggregates import WindowAggregate
from bridge.engine.single_events.memory.window_forms import UnknownFormError
from bridge.engine.single_events.memory.window_rows import MOST_ROWS, WindowRows
from bridge.rewrite.aggregates.totals import CALLS
from windows.databases import Database
from windows.sql import column, conjuncts, table
from windows.times import NEVER
from windows.types import PYTHON_TYPES

Merge = Callable[[Any, Any], Any]
"""Merges two values, neither of which is NULL. Raises `ArithmeticError` or `ValueError` where only the database can."""


class TotalsUpdate(NamedTuple):
    """The row that an event adds to a table of totals. `select` gives its columns as values of the event.

    `calls`: the aggregates by the names of their columns. `places`: the places of columns that are values of the event.
    """

    table: str
    select: exp.Select
    calls: Mapping[str, exp.Expr]
    places: Mapping[str, int]

    @property
    def keys(self) -> list[str]:
        """The columns of the group."""
        names = (item.alias_or_name for item in self.select.expressions)
        return [name for name in names if name.startswith("_key")]


class TotalsTable(WindowRows):
    """A table of totals in memory, by key: partial aggregates of whole numbers and doubles."""

    has_few_rows = True
    """The time per event does not depend on the number of rows."""

    _totals: dict[Any, list[Any]]

    def __init__(self, name: str, keys: Sequence[str], calls: Mapping[str, exp.Expr], kinds: Sequence[type]) -> None:
        super().__init__(name, keys, list(calls), kinds, None)
        self._merges = [_MERGES[type(call)] for call in calls.values()]

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._name

    def _empty(self) -> None:
        self._totals = {}

    def add(self, seq: int, ts: int, rows: Sequence[Row]) -> None:
        """Adds the row of the event `seq`; forgets the table if only the database knows the totals after that."""
        try:
            super().add(seq, ts, rows)
        except (ArithmeticError, ValueError):
            self.forget()

    def _add(self, ts: int, row: Sequence[Any]) -> None:
        key, parts = row[: self._keys], row[self._keys :]
        own = self._totals.get(key)
        if own is None:
            self._totals[key] = list(parts)
            return
        for place, value in enumerate(parts):
            if value is not None:
                before = own[place]
                own[place] = value if before is None else self._merges[place](before, value)

    def _size(self) -> int:
        return len(self._totals)

    _count_keys = _size

    def totals(self, key: Row) -> Sequence[Any] | None:
        """The partial aggregates of a key; None where it has no rows."""
        return self._totals.get(key)

    def _load(self, database: Database, ts: int, seq: int) -> bool:
        """Reads the table; False where it has too many rows, or values that Python would compute differently."""
        names = ("seq", *self._names)
        select = exp.select(*map(column, names)).from_(table(self._name)).limit(MOST_ROWS + 1)
        rows = database.fetch(database.render(select))
        if len(rows) > MOST_ROWS:
            return False
        for newest, *row in rows:
            if not newest <= seq or not all(map(_is_known, row, self._kinds)):
                return False
            self._totals[tuple(row[: self._keys])] = row[self._keys :]
        return True


class TotalsAggregate(WindowAggregate):
    """A SELECT of aggregates over a window that rows never leave, from the totals of the event's key.

    `places`: for each aggregate the place of its partial aggregate; for an average, the places of its sum and its
    count. `is_unconditional`: whether the SELECT gives a row whenever the event adds one to the totals.
    """

    rows: TotalsTable

    def __init__(
        self, rows: TotalsTable, arrive: Compute, key: Sequence[int], places: Sequence[tuple[int, int | None]],
        finish: Compute, is_unconditional: bool,
    ) -> None:  # fmt: skip
        arriving = self._arriving if is_unconditional else None
        super().__init__(rows, arrive, key, (), (), (), finish, reports_empty=False, arriving=arriving)
        self.is_safe = False  # totals may become too large
        self._places = places

    def _arriving(self, row: Row) -> list[Row] | None:
        added = self._arrive(row)
        return None if added is None else [()] * len(added)

    def _values(self, key: Row | None, ts: int) -> list[list[Any]] | None:
        own = None if key is None else self.rows.totals(key)
        if own is None:
            return []
        found: list[Any] = []
        for place, count in self._places:
            value = own[place]
            if type(value) is float and not math.isfinite(value):
                return None
            if count is not None and value is not None:
                if type(value) is int and abs(value) > EXACT:
                    return None
                value = float(value) / own[count]
            found.append(value)
        return [found]


class TotalsContent:
    """The totals that a SELECT reads for an event, and the aggregates that it computes from them."""

    def __init__(self, update: TotalsUpdate, types: Sequence[str], mark: Callable[[int, str], exp.Expr]) -> None:
        self._update, self._event_types, self._mark = update, types, mark
        self._names = list(update.calls)
        self._types = [self._type(name) for name in self._names]
        self._found: dict[tuple[int, int | None], str] = {}

    @property
    def types(self) -> list[str]:
        """The types of the aggregates."""
        return list(self._found.values())

    def items(self, select: exp.Select) -> dict[str, exp.Expr]:
        """The values of the columns of the SELECT that reads the table, by their names."""
        return {item.alias_or_name: self._value(item) for item in select.expressions}

    def conditions(self, select: exp.Select) -> list[exp.Expr]:
        """The conditions of the SELECT on the event; the other conditions choose the row of its key."""
        where = select.args.get("where")
        parts = [] if where is None else conjuncts(where.this)
        return [part.copy() for part in parts if part.find(exp.Column) is None]

    def has_conditions(self, conditions: Sequence[exp.Expr]) -> bool:
        """Whether an event must meet these conditions to be added to the totals."""
        where = self._update.select.args.get("where")
        own = [] if where is None else conjuncts(where.this)
        return all(condition in own for condition in conditions)

    def aggregate(
        self, finish: Compute, computes: Callable[[exp.Select], Compute | None], is_unconditional: bool
    ) -> TotalsAggregate:
        """The aggregate of the SELECT. `computes`: turns a SELECT of the event's values into a function."""
        keys = self._update.keys
        select = self._update.select.copy()
        read = (*keys, *self._names)
        select.set("expressions", [item for item in select.expressions if item.alias_or_name in read])
        arrive = computes(select)
        if arrive is None:
            raise UnknownFormError
        types = [*(self._event_types[self._place(key)] for key in keys), *self._types]
        if not all(kind in PYTHON_TYPES for kind in types):
            raise UnknownFormError
        rows = TotalsTable(self._update.table, keys, self._update.calls, [PYTHON_TYPES[kind] for kind in types])
        places = [self._place(key) for key in keys]
        return TotalsAggregate(rows, arrive, places, list(self._found), finish, is_unconditional)

    def _value(self, item: exp.Expr) -> exp.Expr:
        calls = item.meta_get(CALLS)
        if calls is None:
            return item.unalias()

        def marked(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.AggFunc):
                places = self._places(node)
                kind = "DOUBLE" if places[1] is not None else self._types[places[0]]
                self._found.setdefault(places, kind)
                return self._mark(len(self._event_types) + list(self._found).index(places), self._found[places])
            if isinstance(node, exp.Column):
                place = self._place(node.name)
                return self._mark(place, self._event_types[place])
            return node

        found: exp.Expr = calls.copy().transform(marked)
        return found

    def _places(self, call: exp.Expr) -> tuple[int, int | None]:
        """The places of the partial aggregates from which an aggregate is computed."""
        if isinstance(call, exp.Avg):
            total, count = (self._place_of(part(this=call.this.copy())) for part in (exp.Sum, exp.Count))
            return total, count
        return self._place_of(call), None

    def _place_of(self, call: exp.Expr) -> int:
        name = next((name for name, other in self._update.calls.items() if other == call), None)
        if name is None:
            raise UnknownFormError
        return self._names.index(name)

    def _place(self, name: str) -> int:
        """The place of a column's value in the event's row."""
        if name not in self._update.places:
            raise UnknownFormError
        return self._update.places[name]

    def _type(self, name: str) -> str:
        """The type of a partial aggregate."""
        call = self._update.calls[name]
        if isinstance(call, exp.Count):
            return "BIGINT"
        kind = self._event_types[self._place(name)]
        if type(call) not in _MERGES or kind not in ("SMALLINT", "INTEGER", "BIGINT", "DOUBLE"):
            raise UnknownFormError
        return "DOUBLE" if kind == "DOUBLE" else "BIGINT"


def _sum(before: Any, value: Any) -> Any:
    total = before + value
    if not (abs(total) <= NEVER if type(total) is int else math.isfinite(total)):
        raise OverflowError
    return total


def _least(before: Any, value: Any) -> Any:
    _refuse_two_zeros(before, value)
    return value if value < before else before


def _greatest(before: Any, value: Any) -> Any:
    _refuse_two_zeros(before, value)
    return value if value > before else before


def _refuse_two_zeros(before: Any, value: Any) -> None:
    """Raises `ValueError` for 0.0 and -0.0, as only the database knows which of them is less."""
    if value == before == 0 and math.copysign(1.0, value) != math.copysign(1.0, before):
        raise ValueError


_MERGES: Mapping[type[exp.Expr], Merge] = {exp.Count: _sum, exp.Sum: _sum, exp.Min: _least, exp.Max: _greatest}
"""The partial aggregates that Python merges as the databases do."""


def _is_known(value: Any, kind: type) -> bool:
    """Whether a value is NULL, or of this type and one with which Python computes as the database does."""
    if value is None:
        return True
    if isinstance(value, int) and type(value) is kind:
        return abs(value) <= NEVER
    return type(value) is kind and (not isinstance(value, float) or math.isfinite(value))
