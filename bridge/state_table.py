"""The step that changes a table: one event after the other, each seeing what those before it did."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from bridge.changes import Action, Change, StateTable
from bridge.errors import DatabaseError
from windows.databases import Database
from windows.extents import NEVER

Row = tuple[Any, ...]
Marked = tuple[str, list[int]]
"""A statement's text, and the places of the values that its marks take."""


@dataclasses.dataclass(frozen=True)
class Statements:
    """The texts: the events, the table of the one at hand, what it finds, what is done, and whether a key is there."""

    arrived: str
    cause: str
    clear: str
    found: str | None
    unmatched: str | None
    table: str
    update: Marked
    delete: Marked
    known: Marked


@dataclasses.dataclass
class Alter:
    """Changes a table for each event of this push, in order; notes in `told` the rows as they are then."""

    state: StateTable
    change: Change
    sql: Statements
    keys: Sequence[int]
    told: str | None
    table: str

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Take the events of this push."""
        told: list[Row] = []
        moment, place = None, 0
        for event in database.fetch(self.sql.arrived):
            database.execute(self.sql.clear)
            database.insert(self.sql.cause, len(event), [event])
            moment, place = event[:2], 0 if event[:2] != moment else place
            for row in self._taken(database):
                place += 1
                told.append((*moment, NEVER, place, *row))
        if self.told is not None and told:
            database.insert(self.told, len(told[0]), told)

    def _taken(self, database: Database) -> list[Row]:
        """What one event does; gives the rows as they are then."""
        found = database.fetch(self.sql.found) if self.sql.found is not None else []
        if found:
            return [row for one in found for row in self._matched(one, database)]
        given = database.fetch(self.sql.unmatched) if self.sql.unmatched is not None else []
        return [self._done(self.change.unmatched[which - 1], row, database) for which, *row in given if which]

    def _matched(self, found: Row, database: Database) -> list[Row]:
        which, width = found[0], len(self.state.schema.names)
        if not which:
            return []
        action: Action = self.change.matched[which - 1]
        old, new = found[1 : 1 + width], found[1 + width :]
        if action.kind == "delete":
            run_bound(database, self.sql.delete, self._key(old))
            return [old] if self.change.is_deletion else []
        if self._key(old) != self._key(new):
            self._check_new(new, database)
        run_bound(database, self.sql.update, [*new, *self._key(old)])
        return [new]

    def _done(self, action: Action, row: Sequence[Any], database: Database) -> Row:
        """A row is inserted, or put in the place of the one of its key."""
        if action.kind == "put" and self._is_known(row, database):
            run_bound(database, self.sql.update, [*row, *self._key(row)])
            return tuple(row)
        return self._insert(row, database)

    def _insert(self, row: Sequence[Any], database: Database) -> Row:
        self._check_new(row, database)
        database.insert(self.sql.table, len(row), [tuple(row)])
        return tuple(row)

    def _key(self, row: Sequence[Any]) -> list[Any]:
        return [row[place] for place in self.keys]

    def _check_new(self, row: Sequence[Any], database: Database) -> None:
        """A key is of one row, and no part of it NULL; a table without a key has one row."""
        key = self._key(row)
        shown = ", ".join(f"{name} = {value!r}" for name, value in zip(self.state.key, key, strict=True))
        if None in key:
            raise DatabaseError(f"the key of the table {self.state.name!r} cannot be NULL: {shown}")
        if self._is_known(row, database):
            there = f"a row with {shown}" if key else "its one row"
            raise DatabaseError(f"the table {self.state.name!r} has {there} already: on … merge says what is done then")

    def _is_known(self, row: Sequence[Any], database: Database) -> bool:
        text, order = self.sql.known
        key = self._key(row)
        return bool(database.ask(text, [key[place] for place in order]))

    def forget(self) -> None:
        """It remembers nothing."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The events, and the statements for each."""
        asked = [text for text in (self.sql.found, self.sql.unmatched) if text is not None]
        parts = [f"{pretty(self.sql.arrived)};", f"-- for each of these rows, alone in {self.sql.cause}:"]
        return "\n".join([*parts, *(f"{pretty(text)};" for text in asked)])


def run_bound(database: Database, marked: Marked, values: Sequence[Any]) -> None:
    """Run a statement whose marks take these values."""
    text, order = marked
    database.bind(text, [values[place] for place in order])
