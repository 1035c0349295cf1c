"""Tables of which each event puts one row in place of the row with its key (EPL's into table)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from bridge.errors import DatabaseError
from bridge.query.epl_state import Change, StateTable
from windows.databases import Database
from windows.times import NEVER
from windows.types import PYTHON_TYPES

Row = tuple[Any, ...]
Marked = tuple[str, list[int]]
"""The text of a statement, and the places of the values that its marks take."""


def puts_rows(change: Change) -> bool:
    """Whether each event inserts a row, or replaces the row with its key, and nothing else."""
    is_one = len(change.unmatched) == 1 and change.unmatched[0].condition is None
    return change.always and is_one and change.unmatched[0].kind == "upsert"


@dataclasses.dataclass
class PutRows:
    """Puts the row of each event into a table. Of a push, only the last row of each key is written.

    Args:
        state: The table.
        rows: The SELECT of the events' rows, in order; `text` is its text.
        quoted: The name of the table, for a statement.
        update: The statement that replaces the row with a key, with the values of the row and then of the key.
    """

    state: StateTable
    rows: exp.Select
    text: str
    quoted: str
    update: Marked
    table: str = ""

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Writes the rows of the events of this push."""
        rows: Sequence[Row] = database.fetch(self.text)
        for row in rows:
            refuse_null_key(self.state, self._key(row))
        if all(map(self.is_storable, rows)):
            rows = list({self._key(row): row for row in rows}.values())
        text, order = self.update
        for row in rows:
            values = [*row, *self._key(row)]
            if not database.modify_bound(text, [values[place] for place in order]):
                database.insert(self.quoted, len(row), [tuple(row)])

    def _key(self, row: Row) -> Row:
        names = self.state.schema.names
        return tuple([row[names.index(name)] for name in self.state.key])

    def is_storable(self, row: Row) -> bool:
        """Whether the table certainly takes a row: it has a key, and its values have the types of the columns."""
        return None not in self._key(row) and all(map(_is_of, row, (each.type for each in self.state.schema)))

    def forget(self) -> None:
        """Does nothing: the step remembers nothing."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The rows of the events."""
        return f"-- the last of these rows of each key is put into {self.quoted}\n{pretty(self.text)};"


def _is_of(value: Any, kind: str) -> bool:
    """Whether a value is NULL or of the type of a column."""
    if value is None:
        return True
    return type(value) is PYTHON_TYPES.get(kind) and (type(value) is not int or abs(value) <= NEVER)


def refuse_null_key(state: StateTable, key: Sequence[Any]) -> None:
    """Raises DatabaseError if a key has a NULL."""
    if None in key:
        raise DatabaseError(f"the key of the table {state.name!r} cannot be NULL: {shown_key(state, key)}")


def shown_key(state: StateTable, key: Sequence[Any]) -> str:
    """A key as text for a message."""
    return ", ".join(f"{name} = {value!r}" for name, value in zip(state.key, key, strict=True))


def run_bound(database: Database, statement: Marked, values: Sequence[Any]) -> None:
    """Runs a statement whose marks take these values."""
    text, order = statement
    database.execute_bound(text, [values[place] for place in order])
