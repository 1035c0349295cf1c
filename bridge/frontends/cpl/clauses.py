"""The clauses of CPL's INSERT INTO … SELECT … FROM, found by their words; sqlglot parses only the expressions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import exp

from bridge.errors import nearest
from bridge.frontends.cursor import Cursor
from bridge.frontends.expressions import expression_list, single_expression, without_aliases
from windows.extent import Extent
from windows.schema import TypeMismatch, canonical_type

WORDS = {
    "ORDER BY": "ORDER BY is not supported: results come in time order",
    "LIMIT": "LIMIT is not supported: results come as their events do",
    "JOIN": "JOIN is not supported: FROM a, b ON WINDOW w WHERE a.k = b.k joins two streams",
    "UNION": "UNION is not supported: SELECT * FROM a, b merges streams",
    "DISTINCT": "DISTINCT is not supported: GROUP BY the fields instead",
}
"""Clauses of SQL that CPL lacks, by their first word, with the reason and the alternative."""


_STOPS = frozenset(("FROM", "WHERE", "GROUP BY", "GROUP", "HAVING", "ON", "CREATE", "INSERT", *WORDS)) - {"DISTINCT"}


_SYNONYMS = {"MAXIMUM": exp.Max, "MINIMUM": exp.Min, "AVERAGE": exp.Avg}


class NamedStatement(NamedTuple):
    """A statement of CREATE SQL: its text and its offset, its store, how long answers are cached, its number of `?`."""

    text: str
    position: int
    store: str | None
    cache: int | None
    parameters: int
    reads: bool


class CplInput(NamedTuple):
    """One input of FROM."""

    alias: str
    name: str
    position: int


@dataclasses.dataclass
class OnSql:
    """One ON SQL: the statement that it names, the name of the result, and the fields, each with its offset."""

    statement: NamedStatement
    table: str
    fields: list[tuple[str, int]]
    columns: list[tuple[str, str | None]]
    left: bool
    position: int


@dataclasses.dataclass
class Clauses:
    """The clauses of a statement as written."""

    columns: tuple[exp.Expr, ...]
    items: list[CplInput]
    windows: list[Extent] = dataclasses.field(default_factory=list)
    sql: list[OnSql] = dataclasses.field(default_factory=list)
    where: exp.Expr | None = None
    group_by: tuple[exp.Expr, ...] = ()
    having: exp.Expr | None = None
    places: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def aggregates(self) -> bool:
        parts = [*self.columns, *([self.having] if self.having is not None else [])]
        return any(part.find(exp.AggFunc) for part in parts)

    @property
    def is_star(self) -> bool:
        return len(self.columns) == 1 and isinstance(self.columns[0], exp.Star)


def clauses_of(cursor: Cursor, windows: Mapping[str, Extent], statements: Mapping[str, NamedStatement]) -> Clauses:
    cursor.expect("SELECT", " (INSERT INTO output SELECT … FROM …)")
    _refuse(cursor)
    columns = tuple(map(_standard, expression_list(cursor, cursor.until(_STOPS), "a list of fields")))
    _refuse(cursor)
    cursor.expect("FROM")
    found = Clauses(columns, _inputs(cursor))
    _later_clauses(cursor, found, windows, statements)
    return found


def _later_clauses(
    cursor: Cursor, found: Clauses, windows: Mapping[str, Extent], statements: Mapping[str, NamedStatement]
) -> None:
    while True:
        _refuse(cursor)
        position, word = cursor.position, cursor.word()
        if cursor.take("GROUP", "-"):  # the paper lists the clause as GROUP-BY
            cursor.expect("BY")
            word = "GROUP BY"
        if word in found.places:
            cursor.fail(f"a second {word}", position)
        if cursor.take("ON", "WINDOW"):
            if found.windows:
                cursor.fail("a second ON WINDOW", position)
            found.windows = _windows(cursor, windows)
        elif cursor.take("ON", "SQL"):
            found.sql.append(_on_sql(cursor, statements, position))
        elif cursor.take("WHERE"):
            found.where = single_expression(cursor, cursor.until((",", *_STOPS)), "a condition")
        elif word == "GROUP BY":
            cursor.take("GROUP BY")
            found.group_by = without_aliases(
                cursor, expression_list(cursor, cursor.until(_STOPS), "a field to group by")
            )
        elif cursor.take("HAVING"):
            found.having = _standard(single_expression(cursor, cursor.until((",", *_STOPS)), "a condition"))
        elif word == "ON":
            cursor.at += 1
            cursor.fail(f"ON WINDOW or ON SQL is expected, not ON {cursor.next_text()}")
        else:
            return
        if word != "ON":
            found.places[word] = position


def _refuse(cursor: Cursor) -> None:
    if cursor.word() in WORDS:
        cursor.fail(WORDS[cursor.word()])


def _standard(expression: exp.Expr) -> exp.Expr:
    """The expression with standard names for the paper's aggregates: maximum, minimum, average."""

    def renamed(node: exp.Expr) -> exp.Expr:
        function = _SYNONYMS.get(node.name.upper()) if isinstance(node, exp.Anonymous) else None
        return function(this=node.expressions[0]) if function and len(node.expressions) == 1 else node

    return expression.transform(renamed)


def _inputs(cursor: Cursor) -> list[CplInput]:
    items = [_input(cursor)]
    while cursor.take(","):
        items.append(_input(cursor))
    return items


def _input(cursor: Cursor) -> CplInput:
    position = cursor.position
    if cursor.word() == "(":
        cursor.fail("a sub-query is a statement of its own: INSERT INTO x SELECT …, then FROM x")
    name = cursor.name("a stream")
    return CplInput(cursor.name("an alias") if cursor.take("AS") else name, name, position)


def _windows(cursor: Cursor, windows: Mapping[str, Extent]) -> list[Extent]:
    found = [_window(cursor, windows)]
    while cursor.take(","):
        found.append(_window(cursor, windows))
    return found


def _window(cursor: Cursor, windows: Mapping[str, Extent]) -> Extent:
    position = cursor.position
    name = cursor.name("the name of a window")
    if name.lower() not in windows:
        cursor.fail(f"unknown window {name!r}{nearest(name, list(windows))}: CREATE WINDOW declares it", position)
    return windows[name.lower()]


def _on_sql(cursor: Cursor, statements: Mapping[str, NamedStatement], position: int) -> OnSql:
    """`ON SQL [LEFT] query, result, field, …, column [type], …`: as many fields as the query has `?`."""
    left = cursor.take("LEFT")
    at = cursor.position
    name = cursor.name("the name of an SQL statement")
    if name.lower() not in statements:
        cursor.fail(f"unknown SQL statement {name!r}{nearest(name, list(statements))}: CREATE SQL declares it", at)
    named = statements[name.lower()]
    if left and not named.reads:
        cursor.fail(f"LEFT is for a SELECT: {name!r} changes rows", at)
    cursor.expect(",", " (the name of the statement's result)")
    table = cursor.name("a name for the result")
    found = OnSql(named, table, [], [], left, position)
    while cursor.take(","):
        at = cursor.position
        if len(found.fields) < named.parameters:
            found.fields.append((cursor.name("a field"), at))
        else:
            found.columns.append((cursor.name("a column of the result"), _type(cursor)))
    if len(found.fields) < named.parameters:
        cursor.fail(
            f"{name!r} has {named.parameters} parameters (?): name a field for each, there are {len(found.fields)}"
        )
    if not named.reads and len(found.columns) > 1:
        cursor.fail("a statement that changes rows gives one column, the number of rows that it changed")
    return found


def _type(cursor: Cursor) -> str | None:
    position = cursor.position
    if cursor.word() in ("", ",", ";", *_STOPS):
        return None
    region = cursor.until((",", *_STOPS))
    try:
        return canonical_type(cursor.slice(region))
    except TypeMismatch as error:
        cursor.fail(str(error), position)
