"""The rows of a window that a SELECT reads for an event, recognised by the form of its FROM and WHERE.

They are rows of a window table that have the event's keys and are in the window: not older than its length, or among
its latest rows, per value of other columns where it is partitioned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from bridge.engine.single_events.computed import has_only_values
from bridge.engine.single_events.memory.evicting_rows import EvictingRows, TrailingRows
from bridge.engine.single_events.memory.running_totals import RunningTotals
from bridge.engine.single_events.memory.window_forms import (
    SessionForm,
    UnknownFormError,
    has_other_clauses,
    number_of,
    orders_by_seq,
    refuse_other_clauses,
    session_form,
)
from bridge.engine.single_events.memory.window_rows import (
    EvictedKeys,
    ExpiringRows,
    LatestRows,
    SessionRows,
    WindowRows,
)
from bridge.rewrite.computable import COMPUTABLE, EvictedRows
from windows.sql import aliased, conjuncts, table_names
from windows.times import NEVER
from windows.types import PYTHON_TYPES


class WindowInsertion(NamedTuple):
    """The row that an INSERT adds to a window table for an event. `places`: of the event's values that are its columns.

    `constants`: the columns with the same number in every row. `condition`: the events for which a row is added; None:
    all. `is_safe`: whether its other columns cannot fail, so that they may be computed later.
    """

    table: str
    places: Mapping[str, int]
    constants: Mapping[str, int]
    condition: exp.Expr | None
    is_safe: bool


def insertion_of(insert: exp.Expr, place_of: Callable[[exp.Expr], int | None]) -> WindowInsertion | None:
    """The row that an INSERT adds, made of an event's values; None where it adds other rows or reads a table."""
    select = _over_values(insert.expression) if isinstance(insert, exp.Insert) else None
    if not isinstance(select, exp.Select) or not has_only_values(select):
        return None
    places, constants, is_safe = dict[str, int](), dict[str, int](), True
    for item in select.expressions:
        value, place = item.unalias(), place_of(item.unalias())
        if place is not None:
            places[item.alias_or_name] = place
        elif isinstance(value, exp.Literal) and not value.is_string and value.name.isdecimal():
            constants[item.alias_or_name] = int(value.name)
        else:
            is_safe &= _is_sum_of_time(value, place_of) or is_next_number(value, insert.this.name)
    where = select.args.get("where")
    return WindowInsertion(insert.this.name, places, constants, None if where is None else where.this, is_safe)


def arriving_row(
    insertion: WindowInsertion, names: Sequence[str], types: Sequence[str], mark: Callable[[int, str], exp.Expr]
) -> exp.Select:
    """A SELECT of some columns of the row that an event adds. It gives no row for an event that adds none.

    `types`: the types of the event's values. `mark`: the expression for the value at a place, of a type.

    Raises:
        UnknownFormError: A column is not a value of the event.
    """
    if not insertion.places.keys() >= set(names):
        raise UnknownFormError
    places = [insertion.places[name] for name in names]
    select = exp.select(*(mark(place, types[place]) for place in places), copy=False)
    return select if insertion.condition is None else select.where(insertion.condition.copy())


def _over_values(select: exp.Expr) -> exp.Expr:
    """A SELECT from a sub-query of one row, with that row's values in place of its columns; other SELECTs unchanged."""
    source = select.args["from_"].this if select.args.get("from_") else None
    if not isinstance(select, exp.Select) or not isinstance(source, exp.Subquery) or not has_only_values(source.this):
        return select
    values = {item.alias_or_name: item.unalias() for item in source.this.expressions}

    def value(node: exp.Expr) -> exp.Expr:
        is_known = isinstance(node, exp.Column) and node.table == source.alias and node.name in values
        return values[node.name].copy() if is_known else node

    items = [aliased(item.unalias().transform(value), item.alias_or_name) for item in select.expressions]
    over = exp.select(*items, copy=False)
    for where in filter(None, (source.this.args.get("where"), select.args.get("where"))):
        over.where(where.this.transform(value), copy=False)
    return select if has_other_clauses(select, ("expressions", "from_", "where")) else over


def _is_sum_of_time(value: exp.Expr, place_of: Callable[[exp.Expr], int | None]) -> bool:
    """Whether a value is the timestamp plus a number, or is a number with a type."""
    if isinstance(value, exp.Cast):
        return isinstance(value.this, exp.Literal)
    return isinstance(value, exp.Add) and place_of(value.this) == 0 and isinstance(value.expression, exp.Literal)


def is_next_number(value: exp.Expr, into: str) -> bool:
    """Whether a value is the next row number of a key in the table that the row is added to."""
    if not (isinstance(value, exp.Add) and isinstance(value.this, exp.Coalesce)):
        return False
    newest, place = value.this.this, value.expression
    select = newest.this if isinstance(newest, exp.Subquery) else None
    if not isinstance(select, exp.Select) or not isinstance(place, exp.Window | exp.Literal):
        return False
    is_place = isinstance(place, exp.Literal) or isinstance(place.this, exp.RowNumber)
    is_newest = [type(item) for item in select.expressions] == [exp.Max] and select.expressions[
        0
    ].this.name == "_number"
    return is_place and is_newest and set(table_names(select)) == {into}


class WindowContent:
    """The rows that a SELECT reads, described by their parts.

    `keys`: the columns that must equal values of the event, with the places of these; `equal`: the keys that NULL never
    matches. `conditions`: the conditions of the SELECT on values of the event alone.
    """

    _adds_event = True
    """Whether the event itself is among the rows."""
    _is_open = False
    """Whether the rows of a session that has ended are left out."""

    def __init__(
        self, select: exp.Select, insertions: Mapping[str, WindowInsertion], place_of: Callable[[exp.Expr], int | None]
    ) -> None:
        self._place_of = place_of
        self.keys: dict[str, int] = {}
        self.equal: set[str] = set()
        self.conditions: list[exp.Expr] = []
        self._span: int | None = None
        self._count: int | None = None
        self._session: SessionForm | None = None
        self._evicted: tuple[str, int, frozenset[str]] | None = None
        """The column with the evicting row's number, its distance from the evicted row, and the keys of the window."""
        self._evictions: EvictedRows | None = None
        """How a step finds the evicted rows."""
        source = select.args["from_"].this
        self._alias = source.alias_or_name
        if isinstance(source, exp.Subquery):
            self._session = session_form(source.this)
            source = self._session.table if self._session is not None else self._rows_with_evictions(source.this)
        if not isinstance(source, exp.Table) or source.name not in insertions:
            raise UnknownFormError
        self.insertion = insertions[source.name]
        if (self.insertion.places.get("ts"), self.insertion.places.get("seq")) != (0, 1):
            raise UnknownFormError
        self._take_all(conjuncts(select.args["where"].this) if select.args.get("where") else [])

    @property
    def columns(self) -> list[str]:
        """The columns that decide which rows are read; `rows` has them in memory."""
        return [*self.keys, *self._others]

    @property
    def evicting(self) -> list[str]:
        """The further columns in memory by which a step finds the evicted rows."""
        nodes = () if self._evictions is None else (*self._evictions.keys, *self._evictions.values)
        if not all(isinstance(node, exp.Column) for node in nodes):
            raise UnknownFormError
        return [node.name for node in nodes]

    @property
    def evicts_oldest(self) -> bool:
        """Whether a step finds the evicted rows, which are the oldest."""
        return self._evictions is not None and self._evictions.evict.evicts_oldest

    @property
    def _others(self) -> list[str]:
        """The columns by which rows evict each other where these are not the keys."""
        keys = self.keys.keys() if self._evicted is None else self._evicted[2]
        return [] if keys == self.keys.keys() else sorted(keys)

    @property
    def _keeps_all(self) -> bool:
        """Whether rows never leave the window."""
        return self._span is None and self._count is None and self._evicted is None and self._session is None

    def rows(self, columns: Sequence[str], types: Sequence[str], can_run: bool = False) -> WindowRows:
        """The memory of these rows, with these columns. `types`: those of the event's values.

        `can_run`: whether totals of the columns suffice where rows never leave the window.
        """
        table, keys = self.insertion.table, list(self.keys)
        kinds = [PYTHON_TYPES[types[self.place(name)]] for name in [*self.columns, *columns]]
        if can_run and self._keeps_all and {*kinds[len(keys) :]} <= {int, float}:
            return RunningTotals(table, keys, columns, kinds)
        if self._session is not None:
            if not (self._is_open and self._session.keys <= self.keys.keys()):
                raise UnknownFormError
            places = [keys.index(name) for name in sorted(self._session.keys)]
            return SessionRows(table, keys, columns, kinds, places, self._session.gap)
        if (evictions := self._evictions) is not None:
            return self._evicting_rows(evictions, columns, kinds, types)
        if self._evicted is None or self._evicted[2] == self.keys.keys():
            return WindowRows(table, keys, columns, kinds, self._span, self._count)
        if self._span is not None or self._count is None:
            raise UnknownFormError
        return LatestRows(table, keys, self._others, columns, kinds, self._count)

    def _evicting_rows(
        self, evictions: EvictedRows, columns: Sequence[str], kinds: Sequence[type], types: Sequence[str]
    ) -> WindowRows:
        keys, by = list(self.keys), self.evicting
        windows, values = by[: len(evictions.keys)], by[len(evictions.keys) :]
        kinds = [*kinds, *(PYTHON_TYPES[types[self.place(name)]] for name in by)]
        if evictions.evict.evicts_oldest and {*windows} <= self.keys.keys():
            return TrailingRows(self.insertion.table, keys, columns, kinds, windows, values, evictions.evict)
        return EvictingRows(self.insertion.table, keys, columns, kinds, windows, values, evictions.evict)

    def changing_rows(self, columns: Sequence[str], types: Sequence[str]) -> ExpiringRows | EvictedKeys:
        """The memory of these rows that also knows when rows leave, by time or by newer rows."""
        if self._session is not None:
            raise UnknownFormError
        if self._evicted is not None:
            rows = self.rows(columns, types)
            if not isinstance(rows, EvictedKeys):
                raise UnknownFormError
            return rows
        if self._span is None or self._count is not None:
            raise UnknownFormError
        kinds = [PYTHON_TYPES[types[self.place(name)]] for name in [*self.keys, *columns]]
        return ExpiringRows(self.insertion.table, list(self.keys), columns, kinds, self._span)

    def place(self, name: str) -> int:
        """The place of a column's value in the event's row."""
        if name not in self.insertion.places:
            raise UnknownFormError
        return self.insertion.places[name]

    def _rows_with_evictions(self, select: exp.Expr) -> exp.Table:
        """The window table of a SELECT that gives its rows, each with the number of the row that evicts it."""
        if isinstance(mark := select.meta_get(COMPUTABLE), EvictedRows):
            self._evictions, self._evicted = mark, ("_out", 0, frozenset())
            table: exp.Table = select.args["from_"].this
            return table
        refuse_other_clauses(select, ("expressions", "from_"))
        for item in select.expressions:
            match item.unalias():
                case exp.Column(name=name) if name == item.alias_or_name:
                    pass
                case exp.Literal() | exp.Window(this=exp.RowNumber()):
                    pass  # no recognised condition reads it
                case exp.Window(this=exp.Lead(this=exp.Column(name="ts"))):
                    pass
                case exp.Window(this=exp.Lead() as lead) as window if orders_by_seq(window):
                    keys = frozenset(
                        key.name for key in window.args.get("partition_by") or () if isinstance(key, exp.Column)
                    )
                    if lead.this.name != "seq" or len(keys) < len(window.args.get("partition_by") or ()):
                        raise UnknownFormError
                    self._evicted = item.alias_or_name, number_of(lead.args["offset"]), keys
                case _:
                    raise UnknownFormError
        source = select.args["from_"].this
        if not isinstance(source, exp.Table):
            raise UnknownFormError
        return source

    def _take_all(self, conditions: Sequence[exp.Expr]) -> None:
        for condition in conditions:
            self._take(condition)
        if self._evicted is not None:
            column, _, evicting = self._evicted
            if self._count is None or not (column or evicting <= self.keys.keys()):
                raise UnknownFormError

    def _take(self, condition: exp.Expr) -> None:
        """Notes how a condition restricts the window's rows."""
        if condition.find(exp.Column) is None:
            self.conditions.append(condition.copy())
            return
        left, right = condition.this, condition.expression if isinstance(condition, exp.Binary) else None
        names = (self.name_of(left), self.name_of(right))
        places = (self._place_of(left), None if right is None else self._place_of(right))
        match condition:
            case exp.LTE() if (names[0], places[1]) in (("ts", 0), ("seq", 1)):
                pass  # always true: these rows have come already
            case exp.LT() if places[0] == 0 and self._session is not None and names[1] == "_expires":
                self._is_open = True
            case exp.LT() if places[0] == 0 and self.insertion.constants.get(names[1] or "") == NEVER:
                pass
            case exp.LT() if places[0] == 1 and self._evicted is not None and names[1] == self._evicted[0]:
                self._count = self._evicted[1]
            case exp.GTE() if names[0] == "seq" and isinstance(right, exp.Coalesce):
                self._count, keys = self._first_of_count(right)
                self._evicted = "", self._count, keys
            case exp.GT() if names[0] == "ts" and isinstance(right, exp.Sub) and self._place_of(right.this) == 0:
                self._span = number_of(right.expression)
            case exp.NullSafeEQ() | exp.EQ() if names[0] is not None and places[1] is not None:
                self._add_key(names[0], places[1], condition)
            case exp.NullSafeEQ() | exp.EQ() if names[1] is not None and places[0] is not None:
                self._add_key(names[1], places[0], condition)
            case _:
                self._take_other(condition)

    def _take_other(self, condition: exp.Expr) -> None:
        """Takes a condition that does not bound the window; refused here."""
        raise UnknownFormError

    def _add_key(self, name: str, place: int, condition: exp.Expr) -> None:
        """Notes a key: a column that must equal the event's value of the same column."""
        if self.place(name) != place:
            raise UnknownFormError
        self.keys[name] = place
        if isinstance(condition, exp.EQ):
            self.equal.add(name)

    def _first_of_count(self, first: exp.Coalesce) -> tuple[int, frozenset[str]]:
        """The size and the keys of a window whose first row this expression gives, counted back from the event."""
        select = first.this.this if isinstance(first.this, exp.Subquery) else None
        if select is None or [each.sql() for each in first.expressions] != ["0"]:
            raise UnknownFormError
        refuse_other_clauses(select, ("expressions", "from_", "where", "order", "limit", "offset"))
        source, order = select.args["from_"].this, select.args["order"].expressions
        is_newest = len(order) == 1 and order[0].this.name == "seq" and bool(order[0].args.get("desc"))
        if not isinstance(source, exp.Table) or source.name != self.insertion.table or not is_newest:
            raise UnknownFormError
        keys, last = set[str](), 1
        for condition in conjuncts(select.args["where"].this):
            left, right = condition.this, condition.expression
            match condition:
                case exp.LT() if left.name == "seq" and self._place_of(right) == 1:
                    last = 2 if self._adds_event else 1
                case exp.LTE() if left.name == "seq" and self._place_of(right) == 1:
                    last = 1
                case exp.NullSafeEQ() if isinstance(left, exp.Column) and self._place_of(right) is not None:
                    keys.add(left.name)
                case _:
                    raise UnknownFormError
        if [item.name for item in select.expressions] != ["seq"] or number_of(select.args["limit"].expression) != 1:
            raise UnknownFormError
        return number_of(select.args["offset"].expression) + last, frozenset(keys)

    def name_of(self, node: exp.Expr | None) -> str | None:
        """The name of a column of the window table."""
        return node.name if isinstance(node, exp.Column) and node.table in ("", self._alias) else None


def is_window(source: exp.Expr) -> bool:
    """Whether a SELECT reads a table, or a table's rows with the row that evicts each or the end of its session."""
    return isinstance(source, exp.Table) or (
        (source.this.find(exp.Lead) is not None and source.this.find(exp.Subquery) is None)
        or session_form(source.this) is not None
        or isinstance(source.this.meta_get(COMPUTABLE), EvictedRows)
    )


def replace_columns(node: exp.Expr, values: Mapping[str, exp.Expr]) -> exp.Expr:
    """The expression with values in place of the columns of their names. Raises UnknownFormError for any other column."""

    def value(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column):
            return part
        if part.name not in values:
            raise UnknownFormError
        return values[part.name].copy()

    return node.transform(value)
