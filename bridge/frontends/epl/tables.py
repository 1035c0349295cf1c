"""EPL's named windows: create window, and statements that begin with on."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from sqlglot import exp

from bridge.errors import QueryError
from bridge.frontends.cursor import Cursor, Region
from bridge.frontends.epl import expressions as epl_expressions
from bridge.frontends.epl.inputs import Item, item
from bridge.frontends.epl.schemas import CreateSchema, attributes_in_parentheses
from bridge.frontends.epl.views import view_of, window_over
from bridge.frontends.expressions import Qualifiers, position_of, resolve
from bridge.query.epl_patterns import TemporalMatch
from bridge.query.epl_state import INITIAL, Action, Change, ChangeTable, StateTable
from bridge.query.nodes import Aggregate, Filter, Map, Node, Stream, Window
from windows.schema import Attribute, Schema, TypeMismatch
from windows.sql import column_of, identifier


@dataclasses.dataclass(frozen=True)
class CreateWindow:
    """`create window W#keepall as S`: a window of rows like those of a stream, optionally one per key.

    `columns`: those of `create window W#keepall as (k string, v int)`, which is not like a stream. `chosen`: the
    columns of `create window W#keepall as select k as key from S`, by their names in the window.
    """

    name: str
    window: Window
    like: str
    columns: CreateSchema | None = None
    chosen: tuple[tuple[str, str], ...] = ()


def create_window(cursor: Cursor) -> CreateWindow:
    """Steps over `window W#keepall as S`, `… as select k, v from S`, or `… as (k string, v int)`, after `create`."""
    position = cursor.expect("WINDOW")
    name = cursor.name("a name for the window")
    view = view_of(cursor)
    if view is None or view.extent.jumps:
        cursor.fail("a named window has a window that is not a batch: #keepall, #time(5 sec), #length(5)", position)
    window = window_over(cursor, Stream(name), view, name)
    cursor.expect("AS", " (the stream whose columns it has)")
    chosen: tuple[tuple[str, str], ...] = ()
    if cursor.word() == "SELECT" and not cursor.take("SELECT", "*", "FROM"):
        chosen = _chosen_columns(cursor)
    if cursor.word() == "(":
        return CreateWindow(name, window, name, CreateSchema(name, attributes_in_parentheses(cursor)))
    return CreateWindow(name, window, cursor.name("the stream whose columns it has"), chosen=chosen)


def _chosen_columns(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """Steps over `select k, v as w from`; returns the columns by their names in the window."""
    cursor.expect("SELECT")
    chosen = list[tuple[str, str]]()
    while True:
        column = cursor.name("a column")
        chosen.append((cursor.name("a name for the column") if cursor.take("AS") else column, column))
        if not cursor.take(","):
            break
    cursor.expect("FROM", " (a named window has columns of a stream; others have types: as (k string, v int))")
    return tuple(chosen)


def trigger(cursor: Cursor) -> Item:
    """Steps over `B(…) as b`, or `pattern [ … ]`, after `on`."""
    found = item(cursor)
    sets = cursor.word() == "SET"
    if not isinstance(found.node, (Stream, Filter)) and not (sets and isinstance(found.node, TemporalMatch)):
        cursor.fail(
            "on wants a stream, perhaps with a filter; on … set also a pattern: insert into P select … from pattern […] names "
            "its matches, for on P",
            found.position,
        )
    if cursor.word() == "SELECT" and cursor.word(1) == "AND":
        cursor.fail("on … select and delete is not supported: on … select, and then on … delete")
    if cursor.word() not in ("SELECT", "SET", *VERBS):
        cursor.fail("on … select, on … set, on … update, on … merge and on … delete are supported; insert into inserts")
    return found


# State of EPL that events change: create table, and on … update, on … merge, on … delete

VERBS = ("DELETE", "UPDATE", "MERGE")

_STOPS = (",", "WHERE", "WHEN", "THEN")


@dataclasses.dataclass(frozen=True)
class CreateTable:
    """`create table T (k string primary key, total double)`."""

    table: StateTable


@dataclasses.dataclass(frozen=True)
class ChangeRows:
    """`on B as b update W as w set v = b.v where w.k = b.k`: how the events of `trigger` change a window or a table."""

    target: str
    trigger: Node
    change: Change
    text: str


# CREATE TABLE ---------------------------------------------------------------------------------------------------------


def create_table(cursor: Cursor) -> CreateTable:
    """Steps over `table T (k string primary key, total double)`, after `create`.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> create_table(EplCursor("table T (k string primary key, total double)")).table.key
    ('k',)
    """
    cursor.expect("TABLE")
    name = cursor.name("a name for the table")
    cursor.take("AS")
    cursor.expect("(", " (columns with their types)")
    columns, keys, aggregates = list[Attribute](), list[str](), list[tuple[str, str]]()
    while True:
        column, is_key, function = _column(cursor)
        columns.append(column)
        keys += [column.name] * is_key
        aggregates += [(column.name, function)] * bool(function)
        if not cursor.take(","):
            break
    cursor.expect(")")
    try:
        return CreateTable(StateTable(name, Schema(tuple(columns)), tuple(keys), tuple(aggregates)))
    except TypeMismatch as error:
        cursor.fail(str(error))


def _column(cursor: Cursor) -> tuple[Attribute, bool, str]:
    """A column, whether it belongs to the key, and the aggregate that it stores."""
    name = cursor.name("a column")
    position = cursor.position
    kind = cursor.name("the type of a column")
    if cursor.word() == "(":
        kind, function = aggregate_column(cursor, kind, position)
        return Attribute(name, kind), False, function
    if cursor.word() in ("[", "."):
        cursor.fail("arrays and classes are not supported as types: columns are flat")
    is_key = cursor.take("PRIMARY KEY")
    return Attribute(name, epl_expressions.type_of_name(cursor, kind, position)), is_key, ""


# ON … UPDATE, MERGE, DELETE -------------------------------------------------------------------------------------------


def change_rows(cursor: Cursor, by: Item, start: int) -> ChangeRows:
    """Steps over the clauses after `on B as b`. `start`: the offset of the statement."""
    verb = cursor.word()
    cursor.at += 1
    if verb != "UPDATE":
        cursor.take("FROM" if verb == "DELETE" else "INTO")
    target = cursor.name("a named window, or a table")
    row = cursor.name("an alias") if cursor.take("AS") or (cursor.has_name() and cursor.word() != "SET") else target
    reader = _ChangeReader(cursor, by.alias, row)
    change = getattr(reader, verb.lower())()
    return ChangeRows(target, by.node, change, cursor.slice(Region(start, cursor.at)))


@dataclasses.dataclass
class _ChangeReader:
    """Parses the clauses of a change, whose names refer to the event and to the row."""

    cursor: Cursor
    alias: str
    row: str

    def delete(self) -> Change:
        return Change(self.alias, self.row, self._where(), (Action("delete"),))

    def update(self) -> Change:
        action = Action("update", None, self._assignments())
        return Change(self.alias, self.row, self._where(), (action,))

    def merge(self) -> Change:
        condition = self._where()
        matched, unmatched = list[Action](), list[Action]()
        if self.cursor.word() != "WHEN":
            self.cursor.fail("merge says what is done: when matched then …, when not matched then …")
        while self.cursor.take("WHEN"):
            is_not = self.cursor.take("NOT")
            self.cursor.expect("MATCHED")
            (unmatched if is_not else matched).append(self._action(is_not))
        return Change(self.alias, self.row, condition, tuple(matched), tuple(unmatched))

    def _action(self, is_not: bool) -> Action:
        """`[and condition] then update set … | delete | insert select …`."""
        cursor = self.cursor
        condition = self._expression("a condition") if cursor.take("AND") else None
        cursor.expect("THEN")
        position = cursor.position
        if cursor.take("INSERT"):
            if not is_not:
                cursor.fail("when matched then insert is not supported: a statement of its own inserts", position)
            action = self._inserted(condition)
        elif is_not:
            cursor.fail("when not matched then insert is expected: there is no row to change", position)
        elif cursor.take("DELETE"):
            action = Action("delete", condition)
        else:
            cursor.expect("UPDATE", " (or delete)")
            action = Action("update", condition, self._assignments())
        if cursor.word() == "WHERE":
            cursor.fail("where is not supported here: when matched and … says when something is done")
        if cursor.word() == "THEN":
            cursor.fail("a second then is not supported: a statement of its own does it")
        return action

    def _assignments(self) -> tuple[tuple[str, exp.Expr], ...]:
        """`set v = b.v, w.n = n + 1`."""
        cursor = self.cursor
        cursor.expect("SET")
        found = []
        while True:
            name = cursor.name("a column")
            if cursor.take("."):
                if name.lower() != self.row.lower():
                    cursor.fail(f"columns of {self.row!r} are set, not of {name!r}")
                name = cursor.name("a column")
            cursor.expect("=", f" (set {name} = …)")
            found.append((name, self._expression("a value")))
            if not cursor.take(","):
                return tuple(found)

    def _inserted(self, condition: exp.Expr | None) -> Action:
        cursor = self.cursor
        if cursor.word() == "INTO":
            cursor.fail("insert into another stream is not supported here: a statement of its own does it")
        names = self._names() if cursor.word() == "(" else None
        cursor.expect("SELECT", " (insert select … as column, …)")
        start = cursor.position
        listed = epl_expressions.expression_list(cursor, self._region(_STOPS[1:]), "a list of columns")
        if listed == (exp.Star(),) and names is None:
            return Action("insert", condition, star=True)
        if any(column.is_star for column in listed):
            cursor.fail("a star stands alone here: insert select *", start)
        if names is not None and len(names) != len(listed):
            cursor.fail(f"{len(names)} columns are named, {len(listed)} are selected", start)
        values = resolve(cursor, (column.unalias() for column in listed), self._known(False))
        names = [self._name(column) for column in listed] if names is None else names
        return Action("insert", condition, tuple(zip(names, values, strict=True)))

    def _names(self) -> list[str]:
        self.cursor.expect("(")
        names = [self.cursor.name("a column")]
        while self.cursor.take(","):
            names.append(self.cursor.name("a column"))
        self.cursor.expect(")")
        return names

    def _name(self, column: exp.Expr) -> str:
        if not isinstance(column, (exp.Alias, exp.Column)):
            self.cursor.fail("a column is named: … as x", position_of(column))
        return str(column.alias_or_name)

    def _where(self) -> exp.Expr | None:
        return self._expression("a condition") if self.cursor.take("WHERE") else None

    def _expression(self, what: str) -> exp.Expr:
        found = epl_expressions.single_expression(self.cursor, self._region(_STOPS), what)
        return resolve(self.cursor, [found], self._known(True))[0]

    def _known(self, initial: bool) -> Qualifiers:
        return Qualifiers(None, (self.alias, self.row, *[INITIAL] * initial))

    def _region(self, stops: Collection[str]) -> Region:
        """Everything up to one of these words; the words inside a CASE belong to the CASE."""
        cursor, start, depth = self.cursor, self.cursor.at, 0
        while cursor.peek():
            word = cursor.word()
            if depth == 0 and (word in (*stops, ";", ")")):
                break
            depth += (word in ("(", "[", "CASE")) - (word in (")", "]", "END"))
            cursor.at += 1
        return Region(start, cursor.at)


# EPL's into table: the aggregates of a statement, stored in a table with a row per group

_OF_VALUES = {"sum": None, "min": "", "max": "", "avg": "DOUBLE", "stddev": "DOUBLE", "median": "DOUBLE"}
"""The aggregates in a table's columns, with their types; "": that of the values. Sums of integers are BIGINT."""


@dataclasses.dataclass(frozen=True)
class IntoTableStatement:
    """`into table T select sum(v) as total from S group by k`."""

    table: str
    node: Aggregate
    text: str


def aggregate_column(cursor: Cursor, function: str, position: int) -> tuple[str, str]:
    """Steps over `(double)` in `sum(double)`, the type of a column; returns its own type, and the aggregate in SQL.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> aggregate_column(EplCursor("(int)"), "sum", 0), aggregate_column(EplCursor("(*)"), "count", 0)
    (('BIGINT', 'SUM'), ('BIGINT', 'COUNT'))
    """
    name = function.lower()
    cursor.expect("(")
    if name == "count" and cursor.take("*"):
        cursor.expect(")")
        return "BIGINT", "COUNT"
    if name not in _OF_VALUES and name != "count":
        known = ", ".join(f"{one}(…)" for one in ("count", *_OF_VALUES))
        cursor.fail(f"{function}(…) in a table is not supported; there are {known}", position)
    place = cursor.position
    of = epl_expressions.type_of_name(cursor, cursor.name("the type of what is aggregated"), place)
    cursor.expect(")")
    if name == "count":
        return "BIGINT", "COUNT"
    kind = _OF_VALUES[name]
    if kind is None:
        kind = "DOUBLE" if of == "DOUBLE" else "BIGINT"
    return kind or of, "STDDEV" if name == "stddev" else name.upper()


def into_table(cursor: Cursor, name: str, node: Node, start: int, position: int) -> IntoTableStatement:
    """The statement after `into table T`. `position`: the offset of `into`."""
    if not isinstance(node, Aggregate) or node.having is not None:
        cursor.fail(
            "into table wants aggregates of one stream or join, without having, output and order by: into table T "
            "select sum(v) as total from S group by k",
            position,
        )
    return IntoTableStatement(name, node, cursor.slice(Region(start, cursor.at)))


# Tables that store a statement's aggregates (EPL's into table): a row per group, always up to date

EVENT, ROW = "result", "row"


def stored_aggregates(table: StateTable, node: Aggregate) -> Node:
    """The results of an aggregate, each put into the table on arrival, under the key of its group.

    >>> from bridge.query.nodes import Stream, Window

    >>> from bridge.query.expressions import sum
    >>> from windows.schema import Schema
    >>> table = StateTable("T", Schema.of("k VARCHAR, total BIGINT"), ("k",), (("total", "SUM"),))
    >>> totals = Aggregate(Window(Stream("S"), "ROWS 3"), [sum("v").as_("total")], ["k"])
    >>> print(stored_aggregates(table, totals))
    SELECT "total" FROM (SELECT SUM(v) AS total, k AS "k" FROM S WINDOW(ROWS 3) GROUP BY k) CHANGING TABLE T
    """
    if len(node.group_by) != len(table.key):
        raise QueryError(
            f"the table {table.name!r} has the key ({', '.join(table.key)}), and the statement groups by "
            f"{len(node.group_by)} columns: they must be the same",
            words=[table.name],
        )
    columns = {_name(column): column.unalias() for column in node.columns}
    values: dict[str, exp.Expr] = {}
    for name, value in columns.items():
        if value.find(exp.AggFunc) is not None:
            values[_target_column(table, name, value)] = _result(name)
    if missing := [name for name, _ in table.aggregates if name not in values]:
        raise QueryError(f"one statement gives all aggregates of {table.name!r}: {missing[0]!r} is left out")
    more = []
    for key, group in zip(table.key, node.group_by, strict=True):
        if key not in columns:
            more.append(exp.alias_(group.copy(), key, quoted=True))
        elif columns[key] != group:
            raise QueryError(
                f"the column {key!r} is the key of {table.name!r}, which is {group.sql()} here", words=[key]
            )
        values[key] = _result(key)
    put = Change(EVENT, ROW, unmatched=(Action("upsert", None, tuple(values.items())),), always=True)
    changed = ChangeTable(dataclasses.replace(node, columns=(*node.columns, *more)), table, put)
    return Map(changed, tuple(exp.column(identifier(name)) for name in columns)) if more else changed


def _name(column: exp.Expr) -> str:
    return str(column.alias if isinstance(column, exp.Alias) else column.name or column.sql())


def _target_column(table: StateTable, name: str, value: exp.Expr) -> str:
    """The column of the table for this aggregate."""
    known = {column.lower(): (column, function) for column, function in table.aggregates}
    column, function = known.get(name.lower(), ("", ""))
    if not isinstance(value, exp.AggFunc) or value.sql_name() != function:
        there = ", ".join(f"{one} {function}" for one, function in table.aggregates) or "none"
        raise QueryError(f"the table {table.name!r} has no such aggregate {name!r}; there is {there}", words=[name])
    return column


def _result(name: str) -> exp.Column:
    return column_of(EVENT, name)
