"""Variables of EPL in memory: events that this process computes read and set their values without the database.

The values after an event follow its own values in its row: first the value of each variable before the event, then one
value per assignment. The tables of the variables get the last values when postponed events are stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from bridge.engine.single_events.computed import Compute, Row
from bridge.rewrite.tables.put_rows import Marked, run_bound
from windows.databases import Database
from windows.sql import column, table
from windows.times import NEVER
from windows.types import PYTHON_TYPES

EXACT = 2**53
"""The magnitude up to which each whole number is a double."""

UNKNOWN = object()
"""Stands for the value of a variable at an event that the database has processed. Its type is that of no column."""


class VariableMemory:
    """The values of variables. Those that are not in memory are read from their tables, if these are up to date."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._values: dict[str, Any] = {}
        self._is_stored = False
        """Whether the tables have the values of the variables that are not in memory."""

    def load(self, names: Iterable[str]) -> bool:
        """Reads the values that are not in memory yet. Returns whether all are there now."""
        absent = [name for name in names if name not in self._values]
        if absent and self._is_stored:
            values = [exp.Subquery(this=exp.select(column(name)).from_(table(name))) for name in absent]
            (row,) = self._database.fetch(self._database.render(exp.select(*values)))
            self._values.update(zip(absent, row, strict=True))
        return self._is_stored or not absent

    @property
    def values(self) -> dict[str, Any]:
        """A copy of the values in memory."""
        return dict(self._values)

    def set(self, values: Mapping[str, Any]) -> None:
        """Sets values, which are stored with postponed events."""
        self._values.update(values)

    def note(self) -> None:
        """Notes that the tables have all values, as the database has processed events."""
        self._values.clear()
        self._is_stored = True

    def forget(self) -> None:
        """Forgets the values, as neither the memory nor the tables may have the present ones."""
        self._values.clear()
        self._is_stored = False


class Assignment(NamedTuple):
    """A variable set by an event: `compute` gives the new value, or no row for an event that does not set it.

    `before`: the place of its earlier value in the event's row. `kind`: the type of the variable. `update` stores a value.
    """

    name: str
    kind: str
    compute: Compute
    before: int
    update: Marked


class ComputedInbox(NamedTuple):
    """An inbox of results that are values of one event and of variables; `compute` gives its rows."""

    table: str
    compute: Compute


@dataclasses.dataclass(frozen=True, eq=False)
class EventVariables:
    """The variables that events of a stream read or set, in the order of their values in an event's row.

    `tables`: the tables of all variables, which no step for these events reads; names are in lower case. `inboxes`:
    those that are filled when the rows of postponed events are stored.
    """

    memory: VariableMemory
    names: Sequence[str]
    assignments: Sequence[Assignment]
    tables: frozenset[str]
    inboxes: Sequence[ComputedInbox] = ()

    @property
    def is_loaded(self) -> bool:
        """Whether the values are in memory, or can be read now."""
        return self.memory.load(self.names)

    def row(self, event: Row, values: dict[str, Any]) -> Row | None:
        """The row of an event with the values of the variables; None where the database has to compute one.

        `values`: the values before the event, and afterwards those after it.
        """
        row = (*event, *[values[name] for name in self.names])
        for name, kind, compute, before, _ in self.assignments:
            found = compute(row)
            if found is None:
                return None
            value = row[before]
            if found:
                value = _converted(found[0][0], kind)
                if value is UNKNOWN:
                    return None
                values[name] = value
            row = (*row, value)
        return row

    def padded(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of events that the database has processed, with values that are not known."""
        unknown = (UNKNOWN,) * (len(self.names) + len(self.assignments))
        return [(*row, *unknown) for row in rows]

    def set_by(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the variables that the events set."""
        return {each.name: values[each.name] for each in self.assignments}

    def store(self, database: Database, name: str, value: Any) -> None:
        """Writes the value of a variable into its table."""
        update = next(each.update for each in self.assignments if each.name == name)
        run_bound(database, update, [value])

    def fill(self, database: Database, rows: Sequence[Row]) -> set[str]:
        """Fills the inboxes of results of these events, whose values are known; returns the tables that have rows then."""
        filled = set[str]()
        for inbox, compute in self.inboxes:
            if found := [result for row in rows for result in compute(row) or ()]:
                database.insert(database.quoted(inbox), len(found[0]), found)
                filled.add(inbox)
        return filled


def _converted(value: Any, kind: str) -> Any:
    """The value as the variable's table returns it; UNKNOWN where only the database knows that, or refuses the value."""
    wanted = PYTHON_TYPES.get(kind)
    if value is None:
        return None
    if type(value) is int and wanted is float:
        return float(value) if abs(value) <= EXACT else UNKNOWN
    if type(value) is not wanted or (type(value) is int and abs(value) > _LARGEST.get(kind, NEVER)):
        return UNKNOWN
    return value


_LARGEST = {"SMALLINT": 2**15 - 1, "INTEGER": 2**31 - 1}
"""The magnitudes up to which a database converts whole numbers to these types."""
