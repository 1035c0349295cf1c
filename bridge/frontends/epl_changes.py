"""State of EPL that events change: create table, and on … update, on … merge, on … delete."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from sqlglot import exp

from bridge.changes import Action, Change, StateTable
from bridge.frontends import epl_scalars
from bridge.frontends.cursor import Cursor, Region
from bridge.frontends.epl_from import Item
from bridge.frontends.epl_into import aggregate_column
from bridge.frontends.scalars import Names, position_of, resolved
from bridge.query import Node
from windows.schema import Attribute, Schema, TypeMismatch

VERBS = ("DELETE", "UPDATE", "MERGE")
INITIAL = "initial"
"""Qualifies the columns of a row as they were before an update."""

_STOPS = (",", "WHERE", "WHEN", "THEN")


@dataclasses.dataclass(frozen=True)
class CreateTable:
    """`create table T (k string primary key, total double)`."""

    table: StateTable


@dataclasses.dataclass(frozen=True)
class ChangeRows:
    """`on B as b update W as w set v = b.v where w.k = b.k`: what the events of `trigger` do to a window, or a table."""

    target: str
    trigger: Node
    change: Change
    text: str


# CREATE TABLE ---------------------------------------------------------------------------------------------------------


def create_table(cursor: Cursor) -> CreateTable:
    """Step over `table T (k string primary key, total double)`, after `create`.

    >>> from bridge.frontends.epl_text import EplCursor
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
    """A column, whether it is of the key, and the aggregate that it holds."""
    name = cursor.name("a column")
    position = cursor.position
    kind = cursor.name("the type of a column")
    if cursor.word() == "(":
        kind, function = aggregate_column(cursor, kind, position)
        return Attribute(name, kind), False, function
    if cursor.word() in ("[", "."):
        cursor.fail("arrays and classes are not supported as types: columns are flat")
    is_key = cursor.take("PRIMARY KEY")
    return Attribute(name, epl_scalars.type_named(cursor, kind, position)), is_key, ""


# ON … UPDATE, MERGE, DELETE -------------------------------------------------------------------------------------------


def change_rows(cursor: Cursor, by: Item, start: int) -> ChangeRows:
    """Step over what stands after `on B as b`; `start`: where the statement begins."""
    verb = cursor.word()
    cursor.at += 1
    if verb != "UPDATE":
        cursor.take("FROM" if verb == "DELETE" else "INTO")
    target = cursor.name("a named window, or a table")
    row = cursor.name("an alias") if cursor.take("AS") or (cursor.has_name() and cursor.word() != "SET") else target
    reader = _Reader(cursor, by.alias, row)
    change = getattr(reader, verb.lower())()
    return ChangeRows(target, by.node, change, cursor.slice(Region(start, cursor.at)))


@dataclasses.dataclass
class _Reader:
    """Reads the clauses of a change, whose names are those of the event and of the row."""

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
        listed = epl_scalars.listed(cursor, self._region(_STOPS[1:]), "a list of columns")
        if listed == (exp.Star(),) and names is None:
            return Action("insert", condition, star=True)
        if any(column.is_star for column in listed):
            cursor.fail("a star stands alone here: insert select *", start)
        if names is not None and len(names) != len(listed):
            cursor.fail(f"{len(names)} columns are named, {len(listed)} are selected", start)
        values = resolved(cursor, (column.unalias() for column in listed), self._known(False))
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
        found = epl_scalars.single(self.cursor, self._region(_STOPS), what)
        return resolved(self.cursor, [found], self._known(True))[0]

    def _known(self, initial: bool) -> Names:
        return Names(None, (self.alias, self.row, *[INITIAL] * initial))

    def _region(self, stops: Collection[str]) -> Region:
        """Everything up to one of these words; those of CASE are its own."""
        cursor, start, depth = self.cursor, self.cursor.at, 0
        while cursor.peek():
            word = cursor.word()
            if depth == 0 and (word in (*stops, ";", ")")):
                break
            depth += (word in ("(", "[", "CASE")) - (word in (")", "]", "END"))
            cursor.at += 1
        return Region(start, cursor.at)
