"""Aggregates of a window that are computed in this process, for single events: its rows are in memory, too.

A statement is recognised by its form: aggregates over the rows of a window table that have the event's keys and are not
older than the window is long. The aggregates are those that Python computes as the database does: counts; sums, averages and
extremes of whole numbers, and of doubles that are not NaN, which are added in the order of arrival.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlglot import exp

from bridge.engine.computed import Compute, Row, computed
from bridge.engine.window_rows import WindowRows
from windows.times import NEVER

MOST_OF_KEY = 4_096
"""The number of rows of a key up to which an aggregate is computed row by row in Python."""

_EXACT = 2**53
"""The sum of absolute whole numbers up to which their average is the quotient of exact doubles."""

Values: TypeAlias = "list[Any]"

_total: Callable[[Values], Any] = (
    sum if sys.version_info < (3, 12) else functools.partial(functools.reduce, operator.add)
)
"""The sum of numbers in their order; later versions of `sum` compensate for rounding, which databases do not."""


class Arrival(NamedTuple):
    """What an INSERT adds to a window table for an event: the columns that are values of the event, by their places.

    `constants`: those that are the same number in every row. `condition`: where the INSERT adds no row for some events.
    """

    table: str
    places: Mapping[str, int]
    constants: Mapping[str, int]
    condition: exp.Expr | None


def arrival_of(insert: exp.Expr, place_of: Callable[[exp.Expr], int | None]) -> Arrival | None:
    """What an INSERT adds, over the values of an event; None where it adds more than a row or reads a table."""
    select = insert.expression if isinstance(insert, exp.Insert) else None
    if not isinstance(select, exp.Select) or any(
        v and p not in ("expressions", "where") for p, v in select.args.items()
    ):
        return None
    places, constants = dict[str, int](), dict[str, int]()
    for item in select.expressions:
        value, place = item.unalias(), place_of(item.unalias())
        if place is not None:
            places[item.alias_or_name] = place
        elif isinstance(value, exp.Literal) and not value.is_string and value.name.isdecimal():
            constants[item.alias_or_name] = int(value.name)
    where = select.args.get("where")
    return Arrival(insert.this.name, places, constants, None if where is None else where.this)


class _Aggregate(NamedTuple):
    """An aggregate over a value's column (None: over rows), and the type of its result."""

    name: str
    column: str | None
    type: str


_NAMES: Mapping[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
_WHOLE = ("SMALLINT", "INTEGER", "BIGINT")


class WindowAggregate:
    """A SELECT of aggregates over the rows of a window, computed in this process after an event has come."""

    def __init__(
        self, rows: WindowRows, arrive: Compute, key: Sequence[int], aggregates: Sequence[_Aggregate], columns: Sequence[str],
        finish: Compute,
    ) -> None:  # fmt: skip
        self.rows = rows
        self._arrive, self._key, self._finish = arrive, key, finish
        self._functions = [
            (_FUNCTIONS[each.name], None if each.column is None else columns.index(each.column)) for each in aggregates
        ]

    def add(self, row: Row) -> bool:
        """Adds what the event adds to the window; False where only the database knows what that is."""
        if (rows := self._arrive(row)) is None:
            self.rows.forget()
            return False
        self.rows.add(row[1], row[0], rows)
        return self.rows.is_loaded

    def take(self, row: Row) -> list[Row] | None:
        """Adds what the event adds, and gives the rows of the SELECT for it; None where the database has to compute them."""
        if not self.add(row):
            return None
        own = self.rows.of(tuple([row[place] for place in self._key]), row[0])
        if own is None:
            return []
        if len(own.times) > MOST_OF_KEY:
            return None
        found: list[Any] = []
        for function, place in self._functions:
            values = own.times if place is None else own.columns[place]
            if own.nulls and place is not None:
                values = [value for value in values if value is not None]
            try:
                found.append(function(values))
            except (ArithmeticError, ValueError):
                return None
        return self._finish((*row, *found))


def _sum(values: Values) -> Any:
    if not values:
        return None
    total = _total(values)
    if type(total) is int:
        if sum(map(abs, values)) > NEVER:
            raise OverflowError
    elif not math.isfinite(total):
        raise OverflowError
    return total


def _average(values: Values) -> float | None:
    if not values:
        return None
    if type(values[0]) is int and sum(map(abs, values)) > _EXACT:
        raise OverflowError
    found = _total(values) / len(values)
    if not math.isfinite(found):
        raise OverflowError
    return float(found)


_FUNCTIONS: Mapping[str, Callable[[Values], Any]] = {
    "count": len,
    "sum": _sum,
    "avg": _average,
    "min": functools.partial(min, default=None),
    "max": functools.partial(max, default=None),
}


class _OtherwiseError(Exception):
    """The statement has another form."""


def window_aggregate(
    statement: exp.Expr,
    arrivals: Mapping[str, Arrival],
    place_of: Callable[[exp.Expr], int | None],
    mark: Callable[[int, str], exp.Expr],
    types: Sequence[str],
    proven: Collection[str],
) -> WindowAggregate | None:
    """What computes a SELECT over a window; None where only the database can.

    Args:
        statement: The SELECT, with the values of an event.
        arrivals: What INSERTs add to window tables, by the names of these.
        place_of: The place of an event's value in its row; None for another expression.
        mark: The expression that stands for a value at a place of the row, of a type.
        types: The types of the columns of that row.
        proven: The types whose values the database compares and returns as Python does.
    """
    try:
        return _Recognition(arrivals, place_of, mark, types, proven).aggregate(statement)
    except _OtherwiseError:
        return None


class _Recognition:
    """Takes a SELECT apart: nested SELECTs that name and filter, around one of aggregates over a window table."""

    def __init__(
        self, arrivals: Mapping[str, Arrival], place_of: Callable[[exp.Expr], int | None],
        mark: Callable[[int, str], exp.Expr], types: Sequence[str], proven: Collection[str],
    ) -> None:  # fmt: skip
        self._all, self._place_of, self._mark, self._types, self._proven = arrivals, place_of, mark, types, proven
        self._aggregates: list[_Aggregate] = []
        self._conditions: list[exp.Expr] = []
        self._keys: dict[str, int] = {}
        self._span: int | None = None
        self._alias = ""

    def aggregate(self, statement: exp.Expr) -> WindowAggregate:
        items = self._items(statement)
        select = exp.select(*(exp.alias_(value, name, quoted=True) for name, value in items.items()), copy=False)
        if self._conditions:
            select.where(exp.and_(*self._conditions), copy=False)
        if any(value.find(exp.Column, exp.AggFunc) for value in [*items.values(), *self._conditions]):
            raise _OtherwiseError
        types = [*self._types, *(each.type for each in self._aggregates)]
        finish = computed(select, self._place_of, types, self._proven)
        columns = list(dict.fromkeys(each.column for each in self._aggregates if each.column is not None))
        rows = WindowRows(self._arrival.table, list(self._keys), columns, self._span)
        arrive = computed(self._arriving([*self._keys, *columns]), self._place_of, self._types, self._proven)
        if finish is None or arrive is None:
            raise _OtherwiseError
        return WindowAggregate(rows, arrive, list(self._keys.values()), self._aggregates, columns, finish)

    def _arriving(self, names: Sequence[str]) -> exp.Select:
        """The SELECT of these columns of the row that the event adds."""
        values = [self._event_value(self._place(name)) for name in names]
        select = exp.select(*(exp.alias_(value, name, quoted=True) for name, value in zip(names, values, strict=True)))
        return select if self._arrival.condition is None else select.where(self._arrival.condition)

    def _items(self, select: exp.Expr) -> dict[str, exp.Expr]:
        """The values of a SELECT's columns by their names, and adds its conditions."""
        source = select.args["from_"].this if isinstance(select, exp.Select) and select.args.get("from_") else None
        if isinstance(source, exp.Table):
            return self._innermost(select, source)
        if not isinstance(source, exp.Subquery):
            raise _OtherwiseError
        _refuse_other_clauses(select, ("expressions", "from_", "where", "order"))
        known = self._items(source.this)

        def value(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column):
                if node.name not in known:
                    raise _OtherwiseError
                return known[node.name].copy()
            return node

        if (where := select.args.get("where")) is not None:
            self._conditions.append(where.this.transform(value))
        return {item.alias_or_name: item.unalias().transform(value) for item in select.expressions}

    def _innermost(self, select: exp.Expr, source: exp.Table) -> dict[str, exp.Expr]:
        """The values of the SELECT of aggregates over the window table."""
        _refuse_other_clauses(select, ("expressions", "from_", "where", "having"))
        having = select.args["having"].this if select.args.get("having") else None
        if source.name not in self._all or having is None or having.sql() != "COUNT(*) > 0":
            raise _OtherwiseError
        self._arrival, self._alias = self._all[source.name], source.alias_or_name
        if (self._arrival.places.get("ts"), self._arrival.places.get("seq")) != (0, 1):
            raise _OtherwiseError
        for condition in select.args["where"].this.flatten() if select.args.get("where") else ():
            self._take(condition.unnest())
        return {item.alias_or_name: self._value(item.unalias()) for item in select.expressions}

    def _take(self, condition: exp.Expr) -> None:
        """Notes what a condition says of the window's rows."""
        if isinstance(condition, exp.And):
            for part in condition.flatten():
                self._take(part.unnest())
            return
        if condition.find(exp.Column) is None:
            self._conditions.append(condition.copy())
            return
        left, right = condition.this, condition.expression if isinstance(condition, exp.Binary) else None
        names = (self._name(left), self._name(right))
        places = (self._place_of(left), None if right is None else self._place_of(right))
        match condition:
            case exp.LTE() if (names[0], places[1]) in (("ts", 0), ("seq", 1)):
                pass  # they have come already
            case exp.LT() if places[0] == 0 and self._arrival.constants.get(names[1] or "") == NEVER:
                pass
            case exp.GT() if names[0] == "ts" and isinstance(right, exp.Sub) and self._place_of(right.this) == 0:
                self._span = _number(right.expression)
            case exp.NullSafeEQ() if names[0] is not None and places[1] is not None:
                self._keys[names[0]] = places[1]
            case exp.NullSafeEQ() if names[1] is not None and places[0] is not None:
                self._keys[names[1]] = places[0]
            case _:
                raise _OtherwiseError

    def _name(self, node: exp.Expr | None) -> str | None:
        """The name of a column of the window table."""
        return node.name if isinstance(node, exp.Column) and node.table in ("", self._alias) else None

    def _value(self, node: exp.Expr) -> exp.Expr:
        """An expression over values of the event and aggregates, these as further values of its row."""
        name = _NAMES.get(type(node))
        if name is None:
            if isinstance(node, exp.Column):
                raise _OtherwiseError
            if self._place_of(node) is None:
                for key, value in list(node.args.items()):
                    if isinstance(value, exp.Expr) and not isinstance(value, exp.DataType):
                        node.set(key, self._value(value))
            return node
        aggregate = self._aggregate_of(node, name)
        if aggregate not in self._aggregates:
            self._aggregates.append(aggregate)
        return self._mark(len(self._types) + self._aggregates.index(aggregate), aggregate.type)

    def _aggregate_of(self, node: exp.Expr, name: str) -> _Aggregate:
        inner = self._name(node.this)
        if any(value for part, value in node.args.items() if part not in ("this", "big_int")):
            raise _OtherwiseError
        if name == "count" and (isinstance(node.this, exp.Star) or inner == "seq"):
            return _Aggregate(name, None, "BIGINT")
        if inner is None:
            raise _OtherwiseError
        kind = self._types[self._place(inner)]
        if name == "count":
            return _Aggregate(name, inner, "BIGINT")
        if kind not in (*_WHOLE, "DOUBLE"):
            raise _OtherwiseError
        return _Aggregate(name, inner, "DOUBLE" if name == "avg" or kind == "DOUBLE" else "BIGINT")

    def _place(self, name: str) -> int:
        if name not in self._arrival.places:
            raise _OtherwiseError
        return self._arrival.places[name]

    def _event_value(self, place: int) -> exp.Expr:
        return self._mark(place, self._types[place])


def _refuse_other_clauses(select: exp.Expr, clauses: Collection[str]) -> None:
    if any(value and part not in clauses for part, value in select.args.items()):
        raise _OtherwiseError


def _number(node: exp.Expr) -> int:
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdecimal():
        raise _OtherwiseError
    return int(node.name)
