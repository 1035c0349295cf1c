"""Statements that are aggregates over a window, recognised by their form, so that this process can compute them.

They are nested SELECTs that name and filter, around one of aggregates over the rows of a window table which have the event's
keys and are in the window: not older than it is long, or among its latest rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from bridge.engine.computed import KINDS, computed
from bridge.engine.window_aggregates import ColumnAggregate, WindowAggregate
from bridge.engine.window_rows import WindowRows
from windows.times import NEVER


class WindowInsertion(NamedTuple):
    """What an INSERT adds to a window table for an event: the columns that are values of the event, by their places.

    `constants`: those that are the same number in every row. `condition`: where the INSERT adds no row for some events.
    `is_safe`: whether its other columns cannot fail, so that they may be computed later.
    """

    table: str
    places: Mapping[str, int]
    constants: Mapping[str, int]
    condition: exp.Expr | None
    is_safe: bool


def insertion_of(insert: exp.Expr, place_of: Callable[[exp.Expr], int | None]) -> WindowInsertion | None:
    """What an INSERT adds, over the values of an event; None where it adds more than a row or reads a table."""
    select = insert.expression if isinstance(insert, exp.Insert) else None
    if not isinstance(select, exp.Select) or any(
        v and p not in ("expressions", "where") for p, v in select.args.items()
    ):
        return None
    places, constants, is_safe = dict[str, int](), dict[str, int](), True
    for item in select.expressions:
        value, place = item.unalias(), place_of(item.unalias())
        if place is not None:
            places[item.alias_or_name] = place
        elif isinstance(value, exp.Literal) and not value.is_string and value.name.isdecimal():
            constants[item.alias_or_name] = int(value.name)
        else:
            is_safe &= _is_sum_of_time(value, place_of)
    where = select.args.get("where")
    return WindowInsertion(insert.this.name, places, constants, None if where is None else where.this, is_safe)


def _is_sum_of_time(value: exp.Expr, place_of: Callable[[exp.Expr], int | None]) -> bool:
    """Whether a value is the timestamp and a number, or a number with a type."""
    if isinstance(value, exp.Cast):
        return isinstance(value.this, exp.Literal)
    return isinstance(value, exp.Add) and place_of(value.this) == 0 and isinstance(value.expression, exp.Literal)


_NAMES: Mapping[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
_WHOLE = ("SMALLINT", "INTEGER", "BIGINT")


class _UnknownFormError(Exception):
    """The statement has another form."""


def window_aggregate(
    statement: exp.Expr,
    insertions: Mapping[str, WindowInsertion],
    place_of: Callable[[exp.Expr], int | None],
    mark: Callable[[int, str], exp.Expr],
    types: Sequence[str],
    proven: Collection[str],
    compensates: bool = False,
) -> WindowAggregate | None:
    """What computes a SELECT over a window; None where only the database can.

    Args:
        statement: The SELECT, with the values of an event.
        insertions: What INSERTs add to window tables, by the names of these.
        place_of: The place of an event's value in its row; None for another expression.
        mark: The expression that stands for a value at a place of the row, of a type.
        types: The types of the columns of that row.
        proven: The types whose values the database compares and returns as Python does.
        compensates: Whether its sums of doubles make up for rounding.
    """
    try:
        return _Recognition(insertions, place_of, mark, types, proven, compensates).aggregate(statement)
    except _UnknownFormError:
        return None


class _Recognition:
    """Takes a SELECT apart: nested SELECTs that name and filter, around one of aggregates over a window table."""

    def __init__(
        self, insertions: Mapping[str, WindowInsertion], place_of: Callable[[exp.Expr], int | None],
        mark: Callable[[int, str], exp.Expr], types: Sequence[str], proven: Collection[str], compensates: bool,
    ) -> None:  # fmt: skip
        self._compensates = compensates
        self._all, self._place_of, self._mark, self._types, self._proven = insertions, place_of, mark, types, proven
        self._aggregates: list[ColumnAggregate] = []
        self._conditions: list[exp.Expr] = []
        self._keys: dict[str, int] = {}
        self._span: int | None = None
        self._alias = ""
        self._evicted: tuple[str, int, frozenset[str]] | None = None
        """The column that has the row which evicts a row, which one after it that is, and the keys of that window."""
        self._count: int | None = None

    def aggregate(self, statement: exp.Expr) -> WindowAggregate:
        items = self._items(statement)
        select = exp.select(*(exp.alias_(value, name, quoted=True) for name, value in items.items()), copy=False)
        if self._conditions:
            select.where(exp.and_(*self._conditions), copy=False)
        if any(value.find(exp.Column, exp.AggFunc) for value in [*items.values(), *self._conditions]):
            raise _UnknownFormError
        types = [*self._types, *(each.type for each in self._aggregates)]
        finish = computed(select, self._place_of, types, self._proven)
        columns = list(dict.fromkeys(each.column for each in self._aggregates if each.column is not None))
        arrive = computed(self._arriving([*self._keys, *columns]), self._place_of, self._types, self._proven)
        if finish is None or arrive is None:
            raise _UnknownFormError
        kinds = [KINDS[self._types[self._place(name)]] for name in [*self._keys, *columns]]
        rows = WindowRows(self._insertion.table, list(self._keys), columns, kinds, self._span, self._count)
        return WindowAggregate(rows, arrive, list(self._keys.values()), self._aggregates, columns, finish)

    def _arriving(self, names: Sequence[str]) -> exp.Select:
        """The SELECT of these columns of the row that the event adds."""
        values = [self._event_value(self._place(name)) for name in names]
        select = exp.select(*(exp.alias_(value, name, quoted=True) for name, value in zip(names, values, strict=True)))
        return select if self._insertion.condition is None else select.where(self._insertion.condition)

    def _items(self, select: exp.Expr) -> dict[str, exp.Expr]:
        """The values of a SELECT's columns by their names, and adds its conditions."""
        source = select.args["from_"].this if isinstance(select, exp.Select) and select.args.get("from_") else None
        if isinstance(source, exp.Table):
            return self._innermost(select, source, source.alias_or_name)
        if not isinstance(source, exp.Subquery):
            raise _UnknownFormError
        if source.this.find(exp.Lead) is not None and not source.this.find(exp.Subquery):
            return self._innermost(select, self._rows_with_evictions(source.this), source.alias_or_name)
        _refuse_other_clauses(select, ("expressions", "from_", "where", "order"))
        known = self._items(source.this)

        def value(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column):
                if node.name not in known:
                    raise _UnknownFormError
                return known[node.name].copy()
            return node

        if (where := select.args.get("where")) is not None:
            self._conditions.append(where.this.transform(value))
        return {item.alias_or_name: item.unalias().transform(value) for item in select.expressions}

    def _rows_with_evictions(self, select: exp.Expr) -> exp.Table:
        """The window table of a SELECT of its rows, each with the number of the row that evicts it."""
        _refuse_other_clauses(select, ("expressions", "from_"))
        for item in select.expressions:
            match item.unalias():
                case exp.Column():
                    pass
                case exp.Window(this=exp.Lead() as lead) as window if _orders_by_seq(window):
                    keys = frozenset(
                        key.name for key in window.args.get("partition_by") or () if isinstance(key, exp.Column)
                    )
                    if lead.this.name != "seq" or len(keys) < len(window.args.get("partition_by") or ()):
                        raise _UnknownFormError
                    self._evicted = item.alias_or_name, _number(lead.args["offset"]), keys
                case _:
                    raise _UnknownFormError
        source = select.args["from_"].this
        if not isinstance(source, exp.Table):
            raise _UnknownFormError
        return source

    def _innermost(self, select: exp.Expr, source: exp.Table, alias: str) -> dict[str, exp.Expr]:
        """The values of the SELECT of aggregates over the window table."""
        _refuse_other_clauses(select, ("expressions", "from_", "where", "having"))
        having = select.args["having"].this if select.args.get("having") else None
        if source.name not in self._all or having is None or having.sql() != "COUNT(*) > 0":
            raise _UnknownFormError
        self._insertion, self._alias = self._all[source.name], alias
        if (self._insertion.places.get("ts"), self._insertion.places.get("seq")) != (0, 1):
            raise _UnknownFormError
        for condition in _conjuncts(select.args["where"].this) if select.args.get("where") else ():
            self._take(condition)
        if self._evicted is not None and (self._count is None or self._evicted[2] != self._keys.keys()):
            raise _UnknownFormError  # the rows of other keys evict rows, too
        return {item.alias_or_name: self._value(item.unalias()) for item in select.expressions}

    def _take(self, condition: exp.Expr) -> None:
        """Notes what a condition says of the window's rows."""
        if condition.find(exp.Column) is None:
            self._conditions.append(condition.copy())
            return
        left, right = condition.this, condition.expression if isinstance(condition, exp.Binary) else None
        names = (self._name(left), self._name(right))
        places = (self._place_of(left), None if right is None else self._place_of(right))
        match condition:
            case exp.LTE() if (names[0], places[1]) in (("ts", 0), ("seq", 1)):
                pass  # they have come already
            case exp.LT() if places[0] == 0 and self._insertion.constants.get(names[1] or "") == NEVER:
                pass
            case exp.LT() if places[0] == 1 and self._evicted is not None and names[1] == self._evicted[0]:
                self._count = self._evicted[1]
            case exp.GTE() if names[0] == "seq" and isinstance(right, exp.Coalesce):
                self._count, keys = self._first_of_count(right)
                self._evicted = "", self._count, keys
            case exp.GT() if names[0] == "ts" and isinstance(right, exp.Sub) and self._place_of(right.this) == 0:
                self._span = _number(right.expression)
            case exp.NullSafeEQ() if names[0] is not None and places[1] is not None:
                self._keys[names[0]] = places[1]
            case exp.NullSafeEQ() if names[1] is not None and places[0] is not None:
                self._keys[names[1]] = places[0]
            case _:
                raise _UnknownFormError

    def _first_of_count(self, first: exp.Coalesce) -> tuple[int, frozenset[str]]:
        """The number of rows in a window that begins with this one, and its keys: the row so many rows before the event."""
        select = first.this.this if isinstance(first.this, exp.Subquery) else None
        if select is None or [each.sql() for each in first.expressions] != ["0"]:
            raise _UnknownFormError
        _refuse_other_clauses(select, ("expressions", "from_", "where", "order", "limit", "offset"))
        source, order = select.args["from_"].this, select.args["order"].expressions
        is_newest = len(order) == 1 and order[0].this.name == "seq" and bool(order[0].args.get("desc"))
        if not isinstance(source, exp.Table) or source.name != self._insertion.table or not is_newest:
            raise _UnknownFormError
        keys = set[str]()
        for condition in _conjuncts(select.args["where"].this):
            left, right = condition.this, condition.expression
            match condition:
                case exp.LT() if left.name == "seq" and self._place_of(right) == 1:
                    pass
                case exp.NullSafeEQ() if isinstance(left, exp.Column) and self._place_of(right) is not None:
                    keys.add(left.name)
                case _:
                    raise _UnknownFormError
        if [item.name for item in select.expressions] != ["seq"] or _number(select.args["limit"].expression) != 1:
            raise _UnknownFormError
        return _number(select.args["offset"].expression) + 2, frozenset(keys)

    def _name(self, node: exp.Expr | None) -> str | None:
        """The name of a column of the window table."""
        return node.name if isinstance(node, exp.Column) and node.table in ("", self._alias) else None

    def _value(self, node: exp.Expr) -> exp.Expr:
        """An expression over values of the event and aggregates, these as further values of its row."""
        name = _NAMES.get(type(node))
        if name is None:
            if isinstance(node, exp.Column):
                raise _UnknownFormError
            if self._place_of(node) is None:
                for key, value in list(node.args.items()):
                    if isinstance(value, exp.Expr) and not isinstance(value, exp.DataType):
                        node.set(key, self._value(value))
            return node
        aggregate = self._aggregate_of(node, name)
        if aggregate not in self._aggregates:
            self._aggregates.append(aggregate)
        return self._mark(len(self._types) + self._aggregates.index(aggregate), aggregate.type)

    def _aggregate_of(self, node: exp.Expr, name: str) -> ColumnAggregate:
        distinct = isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct)
        inner = self._name(node.this.expressions[0] if distinct else node.this)
        if any(value for part, value in node.args.items() if part not in ("this", "big_int")):
            raise _UnknownFormError
        if name == "count" and (isinstance(node.this, exp.Star) or inner == "seq"):
            return ColumnAggregate(name, None, "BIGINT")
        if inner is None:
            raise _UnknownFormError
        kind = self._types[self._place(inner)]
        if distinct and (len(node.this.expressions) > 1 or kind not in {*_WHOLE, "VARCHAR"}.intersection(self._proven)):
            raise _UnknownFormError
        if name == "count":
            return ColumnAggregate("count distinct" if distinct else name, inner, "BIGINT")
        if kind not in (*_WHOLE, "DOUBLE"):
            raise _UnknownFormError
        if self._compensates and kind == "DOUBLE" and name in ("sum", "avg"):
            return ColumnAggregate(f"compensated {name}", inner, "DOUBLE")
        return ColumnAggregate(name, inner, "DOUBLE" if name == "avg" or kind == "DOUBLE" else "BIGINT")

    def _place(self, name: str) -> int:
        if name not in self._insertion.places:
            raise _UnknownFormError
        return self._insertion.places[name]

    def _event_value(self, place: int) -> exp.Expr:
        return self._mark(place, self._types[place])


def _refuse_other_clauses(select: exp.Expr, clauses: Collection[str]) -> None:
    if any(value and part not in clauses for part, value in select.args.items()):
        raise _UnknownFormError


def _conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """The conditions that AND connects."""
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        return [*_conjuncts(condition.this), *_conjuncts(condition.expression)]
    return [condition]


def _orders_by_seq(window: exp.Window) -> bool:
    order = window.args.get("order")
    terms = order.expressions if order is not None else []
    plain = not any(
        value for part, value in window.args.items() if part not in ("this", "partition_by", "order", "over")
    )
    return plain and [term.this.name for term in terms] == ["seq"] and not terms[0].args.get("desc")


def _number(node: exp.Expr) -> int:
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdecimal():
        raise _UnknownFormError
    return int(node.name)
