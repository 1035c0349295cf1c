"""Numbers of rows with a limit: `ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) … WHERE rn = 1`, and the first n by value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NoReturn

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.sql.streaming.bounds import OF_ROWS, bounds_among, mark_result
from bridge.frontends.sql.streaming.over_rows import NUMBERS, OverRows
from bridge.frontends.sql.streaming.times import times_of, without_time
from bridge.frontends.sql.streaming.undecided import RowsInWindows, UndecidedNode, decide
from bridge.frontends.sql.streaming.window_groups import EVENT_TIME, Grouping, group_by_windows
from bridge.frontends.sql.streaming.window_ranks import Numbering, end_of, last_of_rows, term_of
from bridge.query.epl_columns import SubqueryColumn
from bridge.query.expressions import col, count
from bridge.query.nodes import Aggregate, Filter, Map, Node, Window, as_text
from windows.extents import FirstRows, Rows, Top
from windows.sql import change_columns

_BEFORE = "rows_before"
"""The name of the rows that a row is compared with."""


@dataclasses.dataclass(frozen=True)
class RankedRows(UndecidedNode):
    """The rows of `input` with `columns`, and their number in a partition as the column `name`."""

    input: Node
    columns: tuple[exp.Expr, ...]
    name: str
    window: exp.Window
    position: int = 0
    place: int | None = None
    """The number's place among the columns; None: it is the last one."""

    def with_number(self, columns: tuple[exp.Expr, ...], number: exp.Expr) -> tuple[exp.Expr, ...]:
        """Inserts the number at its place. Fewer columns may be given, as a plain `ts` is left out of a select list."""
        place = len(columns) if self.place is None else min(self.place, len(columns))
        return (*columns[:place], number, *columns[place:])

    def decide(self, cursor: Cursor) -> Node:
        """Without a condition on it, the number is one of all rows so far, in the order of time."""
        number = exp.alias_(self.window.copy(), col(self.name).this)
        rows = decide(cursor, self.input)
        order = self.window.args.get("order")
        by_time = order is not None and all(self._is_time(cursor, term) for term in order.expressions)
        if not isinstance(self.window.this, exp.RowNumber) or not by_time:
            cursor.fail(
                f"{self.window.this.sql_name()} by values changes with every row: a query around it with WHERE {self.name} <= "
                "10 reports the rows that come among the first ten",
                self.position,
            )
        over = OverRows(cursor, self.position, times_of(cursor, rows))
        return over.node(rows, self.with_number(without_time(rows, self.columns), number), ())

    def _is_time(self, cursor: Cursor, term: exp.Ordered) -> bool:
        is_column = isinstance(term.this, exp.Column)
        return is_column and term.this.name.lower() in times_of(cursor, _rows(self.input))


@as_text.register
def _(node: RankedRows) -> str:
    return f"{node.input} (RANK)"


def _rows(node: Node) -> Node:
    return node.input if isinstance(node, RowsInWindows) else node


def ranking_of(node: Node, columns: tuple[exp.Expr, ...], position: int) -> RankedRows | None:
    """The select list as a RankedRows, if the only OVER in it is a column that numbers rows."""
    over = [column for column in columns if column.find(exp.Window)]
    if len(over) != 1 or not isinstance(over[0], exp.Alias) or not isinstance(over[0].this, exp.Window):
        return None
    if not isinstance(over[0].this.this, NUMBERS):
        return None
    others = tuple(column for column in columns if column is not over[0])
    before = columns[: next(place for place, column in enumerate(columns) if column is over[0])]
    place = sum(not (isinstance(column, exp.Column) and column.name.lower() == "ts") for column in before)
    return RankedRows(node, others, over[0].alias, over[0].this, position, place)


def limit_in(condition: exp.Expr, is_number: Callable[[exp.Expr], bool]) -> tuple[int, int] | None:
    """The least and the greatest number that a condition `rn <= 3` lets through; None for another condition.

    >>> import sqlglot
    >>> def shown(text):
    ...     return limit_in(sqlglot.condition(text), lambda node: node.name == "rn")
    >>> shown("rn <= 3"), shown("rn = 1"), shown("rn BETWEEN 2 AND 3"), shown("4 > rn"), shown("a < 3")
    ((1, 3), (1, 1), (2, 3), (1, 3), None)
    """
    if isinstance(condition, exp.Paren):
        return limit_in(condition.this, is_number)
    if isinstance(condition, exp.Between) and is_number(condition.this):
        low, high = _whole(condition.args["low"]), _whole(condition.args["high"])
        return None if low is None or high is None else (low, high)
    if not isinstance(condition, (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
        return None
    left, right = condition.this, condition.expression
    if isinstance(condition, (exp.GT, exp.GTE)) or (isinstance(condition, exp.EQ) and is_number(right)):
        left, right = right, left
    number = _whole(right)
    if not is_number(left) or number is None:
        return None
    if isinstance(condition, exp.EQ):
        return number, number
    return 1, number - isinstance(condition, (exp.LT, exp.GT))


def _whole(node: exp.Expr) -> int | None:
    return int(node.name) if isinstance(node, exp.Literal) and node.name.isdigit() and not node.is_string else None


@dataclasses.dataclass(frozen=True)
class QualifiedNumber:
    """The number of rows that a QUALIFY limits."""

    window: exp.Window
    limit: tuple[int, int]


def qualified_number(conditions: tuple[exp.Expr, ...]) -> QualifiedNumber | None:
    """The number of rows that is all that QUALIFY limits."""
    if len(conditions) != 1:
        return None
    windows = list(conditions[0].find_all(exp.Window))
    limit = limit_in(conditions[0], lambda node: isinstance(node, exp.Window))
    if len(windows) != 1 or limit is None or not isinstance(windows[0].this, NUMBERS):
        return None
    return QualifiedNumber(windows[0], limit)


# The first n ----------------------------------------------------------------------------------------------------------


class FirstOfRank:
    """The rows whose number is at most `count`, each when it gets such a number.

    `numbered`: the number is selected. `limited`: other conditions read it, too. `time` is the name of the time of the rows
    in the result, after `node` was called.
    """

    def __init__(
        self, cursor: Cursor, rows: RankedRows, limit: tuple[int, int], numbered: bool, limited: bool = False
    ) -> None:
        self.cursor, self.rows, self.numbered, self.limited = cursor, rows, numbered, limited
        self.least, self.count = limit
        self.time = "ts"
        self.kind = rows.window.this
        order = rows.window.args.get("order")
        self.order = tuple(order.expressions) if order else ()
        self.keys = tuple(key.copy() for key in rows.window.args.get("partition_by") or ())
        if self.count < 1:
            self._fail("the numbers of rows begin with 1: no row has such a number")
        if not self.order:
            self._fail(f"ORDER BY is missing in OVER: which row is number 1 of {rows.name} is not known")

    def node(self) -> Node:
        """The query objects."""
        rows = self.rows.input
        if isinstance(rows, RowsInWindows) and any(map(rows.has_bound, self.keys)):
            return self._of_windows(rows)
        below = decide(self.cursor, rows)
        columns = without_time(below, self.rows.columns)
        if bounds := bounds_among(self.cursor, below, self.keys):
            return self._of_groups(below, columns, bounds)
        is_by_time = self._is_by_time(below)
        keeps_number = is_by_time and not self.order[0].args.get("desc")
        if self.least > 1 or (self.limited and not keeps_number):
            self._fail(
                f"what is number {self.least} may get another number later: WHERE {self.rows.name} <= {self.count}, or the "
                "first of a window by PARTITION BY window_start, window_end"
            )
        if is_by_time:
            return self._by_time(below, columns)
        return self._by_value(below, columns)

    def _is_by_time(self, below: Node) -> bool:
        (first, *others), times = self.order, times_of(self.cursor, below)
        by_time = isinstance(first.this, exp.Column) and first.this.name.lower() in times and not others
        if by_time and not isinstance(self.kind, exp.RowNumber):
            self._fail("RANK by time gives rows of one time the same number: ROW_NUMBER() has one row first")
        return by_time

    def _by_time(self, below: Node, columns: tuple[exp.Expr, ...]) -> Node:
        """The first rows are never replaced; a newest row replaces the one before it, and is number 1."""
        descending = self.order[0].args.get("desc")
        window = Window(below, Rows(self.count) if descending else FirstRows(self.count), self.keys)
        if not self.numbered:
            return Map(window, columns)
        if descending or self.count == 1:
            return Map(window, self._listed(columns, exp.Literal.number(1)))
        listed = self._listed(tuple(map(last_of_rows, columns)), count())
        mark_result(listed)
        return Aggregate(window, listed, self.keys)

    def _listed(self, columns: tuple[exp.Expr, ...], value: exp.Expr) -> tuple[exp.Expr, ...]:
        return self.rows.with_number(columns, exp.alias_(value, col(self.rows.name).this))

    def _by_value(self, below: Node, columns: tuple[exp.Expr, ...]) -> Node:
        """The number at the entry: how many rows are before this one in the order, itself included."""
        if isinstance(self.kind, exp.DenseRank):
            self._fail("DENSE_RANK is not supported: RANK() or ROW_NUMBER() is")
        window = Window(below, Top(self.count + 1, tuple(term_of(term) for term in self.order)), self.keys)
        same = [exp.NullSafeEQ(this=key.copy(), expression=_before(key)) for key in self.keys]
        is_rank = isinstance(self.kind, exp.Rank)
        condition = exp.and_(*same, _is_before(self.order, or_equal=not is_rank))
        number: exp.Expr = col(_BEFORE)
        if is_rank:
            number = exp.Add(this=number, expression=exp.Literal.number(1))
        counted = SubqueryColumn(below, _BEFORE, window, condition, count())
        limit = exp.LTE(this=number.copy(), expression=exp.Literal.number(self.count))
        listed = self._listed(columns, number) if self.numbered else columns
        return Map(Filter(counted, limit), listed)

    # In windows

    def _of_windows(self, rows: RowsInWindows) -> Node:
        """The numbers in the windows of a window function, at their end."""
        keys = tuple(key for key in self.keys if not rows.has_bound(key))
        (first, *others), listed = self.order, self._with_event_time()
        by_time = isinstance(first.this, exp.Column) and first.this.name.lower() in times_of(self.cursor, rows.input)
        is_number = isinstance(self.kind, exp.RowNumber)
        if by_time and not others and is_number and (self.least, self.count) == (1, 1):
            if self.numbered:
                listed = self._listed(listed, exp.Literal.number(1))
            function = exp.Last if first.args.get("desc") else exp.First
            columns = tuple(_of_group(column, rows, function) for column in listed)
            return group_by_windows(rows, Grouping(columns, (), keys, ()))
        if rows.function.kind not in ("TUMBLE", "HOP"):
            self._fail(
                f"the first rows by value in windows of {rows.function.kind} are not supported: TUMBLE and HOP are"
            )
        return self._numbered(Numbering(end_of(rows), listed, keys, self.order).with_time(EVENT_TIME), rows)

    def _of_groups(self, below: Node, columns: tuple[exp.Expr, ...], bounds: set[str]) -> Node:
        """The numbers of the results of a window, which all have its end as their time."""
        if OF_ROWS in bounds:
            self._fail("these windows are those of single rows: number the rows directly over the window function")
        keys = tuple(key for key in self.keys if not bounds_among(self.cursor, below, [key]))
        return self._numbered(Numbering(below, columns, keys, self.order), None)

    def _numbered(self, numbering: Numbering, rows: RowsInWindows | None) -> Node:
        if isinstance(self.kind, exp.DenseRank) and len(self.order) > 1:
            self._fail("DENSE_RANK by several values is not supported: RANK() is")
        numbering = numbering._replace(kind=type(self.kind))
        name = self.rows.name if self.numbered else None
        return numbering.node((self.least, self.count), name, self.rows.with_number, rows)

    def _with_event_time(self) -> tuple[exp.Expr, ...]:
        """The columns, in which the time of the event is not called ts: the result has the time of the window's end."""
        listed = []
        for column in self.rows.columns:
            if isinstance(column, exp.Column) and column.name.lower() == "ts":
                self.time = EVENT_TIME
                listed.append(exp.alias_(column.copy(), EVENT_TIME))
            else:
                listed.append(column)
        return tuple(listed)

    def _fail(self, message: str) -> NoReturn:
        self.cursor.fail(message, self.rows.position)


def _of_group(column: exp.Expr, rows: RowsInWindows, function: type[exp.Expr]) -> exp.Expr:
    """A column of the first or last row of a group; the bounds of the window are those of the group."""
    value = column.this if isinstance(column, exp.Alias) else column
    changed = change_columns(value, lambda named: named if rows.bound(named) else function(this=named.copy()))
    return exp.alias_(changed, col(column.alias_or_name).this)


def _before(value: exp.Expr) -> exp.Expr:
    """An expression over a row of the ones before."""
    return change_columns(value, lambda named: exp.column(named.this.copy(), table=_BEFORE))


def _is_before(order: tuple[exp.Ordered, ...], or_equal: bool) -> exp.Expr:
    """Whether another row comes before this one in an order, where NULL is least."""
    first, *others = order
    mine, other = first.this.copy(), _before(first.this)
    if first.args.get("desc"):
        mine, other = other, mine
    strict: exp.Expr = exp.or_(
        exp.LT(this=other, expression=mine),
        exp.and_(
            exp.Is(this=other.copy(), expression=exp.Null()),
            exp.Not(this=exp.Is(this=mine.copy(), expression=exp.Null())),
        ),
    )
    equal: exp.Expr = exp.NullSafeEQ(this=mine.copy(), expression=other.copy())
    if others:
        return exp.or_(strict, exp.and_(equal, _is_before(tuple(others), or_equal)))
    return exp.or_(strict, equal) if or_equal else strict
