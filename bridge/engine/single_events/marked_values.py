"""Marks that stand for the values of an event in the tree of a statement, and the statement with placeholders in their place."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from sqlglot import exp

from bridge.engine.single_events.computed import Compute
from windows.databases import Database

_MARK = re.compile(r"cep_value_(\d+)_cep")

Row = tuple[Any, ...]


class BoundStatement(NamedTuple):
    """A statement's text, and the `places` of the values in an event's row that its parameters take, in their order.

    `compute` gives the rows without the database, or None where it has to be asked.
    """

    text: str
    places: tuple[int, ...]
    compute: Compute | None = None

    def run(self, database: Database, row: Row) -> None:
        if self.places:
            database.execute_bound(self.text, [row[place] for place in self.places])
        else:
            database.execute(self.text)

    def read(self, database: Database, row: Row) -> list[Row]:
        if self.compute is not None and (rows := self.compute(row)) is not None:
            return rows
        if self.places:
            return database.fetch_bound(self.text, [row[place] for place in self.places])
        return database.fetch(self.text)


def parameter(place: int, kind: str, database: Database) -> exp.Expr:
    """The value at a place of an event's row, cast to a type of the database."""
    to = exp.DataType.build(kind, dialect=database.dialect, udt=True)
    return exp.Cast(this=exp.var(f"cep_value_{place}_cep"), to=to)


def place_of_value(node: exp.Expr) -> int | None:
    """The place of an event's value in its row, for a parameter cast to the type of its column; None for others."""
    mark = _MARK.fullmatch(node.this.name) if isinstance(node, exp.Cast) and isinstance(node.this, exp.Var) else None
    return None if mark is None else int(mark[1])


def marked_value(place: int, kind: str) -> exp.Expr:
    """The expression that stands for a value at a place of an event's row."""
    return exp.Cast(this=exp.var(f"cep_value_{place}_cep"), to=exp.DataType.build(kind))


def has_mark(statement: exp.Expr) -> bool:
    """Whether a text or a name in the statement looks like a marked value."""
    values = (value for node in statement.walk() for value in node.args.values())
    parts = (part for value in values for part in (value if isinstance(value, list) else (value,)))
    return any(isinstance(part, str) and is_marked(part) for part in parts)


def is_marked(text: str) -> bool:
    """Whether a text or a name looks like a marked value."""
    return _MARK.search(text) is not None


def marked(text: str, mark: str) -> BoundStatement:
    """The text with the driver's placeholders; a text without any is unchanged, as drivers do not look for any then."""
    places = tuple(map(int, _MARK.findall(text)))
    if not places:
        return BoundStatement(text, ())
    if mark != "?":
        text = text.replace("%", "%%")
    return BoundStatement(_MARK.sub(mark, text), places)
