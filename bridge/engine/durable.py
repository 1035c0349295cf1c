"""The catalogue that a durable bridge stores: its definitions and the names of its tables (rules D1, D6, D8).

It is in the tables `cep_definitions` and `cep_names`. With `cep_clock` and the operators' tables, they are all that a
bridge needs to continue after its process has ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

from bridge.errors import DatabaseError
from bridge.rewrite.names import NameRow
from windows.databases import Database
from windows.databases.definition import create_table

LAYOUT = 2
"""The version of the tables. A newer program reads older ones, or refuses them. Since 2 there may be a journal."""

DEFINITIONS, NAMES = "cep_definitions", "cep_names"

_COLUMNS = {
    DEFINITIONS: {"number": "BIGINT", "part": "BIGINT", "kind": "VARCHAR", "name": "VARCHAR", "language": "VARCHAR",
                  "definition": "VARCHAR", "seq": "BIGINT", "options": "VARCHAR", "layout": "BIGINT"},
    NAMES: {"id": "VARCHAR", "name": "VARCHAR", "belongs": "VARCHAR"},
}  # fmt: skip

JOURNAL = "journal"
"""The kind of the tables in which a stream's events are stored until their rows are written."""

OPENING = "bridge"
"""The kind of the first definition, which tells that there is a bridge, and its layout."""

Reference = tuple[int, int]
"""The number and the part that identify a definition."""


class LoggedCall(NamedTuple):
    """One call that defined something: its kind ("stream", "query", "remove query", "remove stream") and its arguments.

    `seq`: the number of the newest event at that time. `options`: further arguments as JSON, and under "inherits" the
    operators that a query has taken over from the one that it replaced, with their epochs. Definitions are executed in
    the order of (`number`, `part`).
    """

    number: int
    part: int
    kind: str
    name: str
    language: str
    text: str
    seq: int
    options: str = ""
    layout: int = LAYOUT

    def option(self, name: str) -> Any:
        """A further argument; None if it was not given."""
        return json.loads(self.options or "{}").get(name)

    def with_options(self, **options: Any) -> Self:
        """The call with further options. An option that is None or empty is left out."""
        given = {name: value for name, value in options.items() if value not in (None, {})}
        return self._replace(
            options=json.dumps({**json.loads(self.options or "{}"), **given}) if given else self.options
        )

    @property
    def reference(self) -> Reference:
        return self.number, self.part


class CatalogueTables:
    """The catalogue of a durable bridge as tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def exist(self) -> bool:
        """Whether the state of a durable bridge is in the database."""
        return self._database.has_own(self._database.own_name(DEFINITIONS))

    def create(self) -> None:
        """Creates the tables, unless they exist."""
        for name, columns in _COLUMNS.items():
            if not self._database.has_own(self._database.own_name(name)):
                self._database.execute(create_table(self._database, self._table(name), columns))
        if not self.definitions():
            self.add(LoggedCall(0, 0, OPENING, "", "", "", 0))

    def drop(self) -> None:
        """Removes the tables."""
        for name in _COLUMNS:
            self._database.execute(f"DROP TABLE IF EXISTS {self._table(name)}")

    def definitions(self) -> list[LoggedCall]:
        """All definitions, in the order of their execution. Raises `DatabaseError` for a newer layout."""
        found = sorted(LoggedCall(*row) for row in self._rows(DEFINITIONS))
        if newest := max((each.layout for each in found if each.layout > LAYOUT), default=None):
            raise DatabaseError(
                f"the state in this database was written by a newer program (layout {newest}, this one knows {LAYOUT}): "
                "open it with that version, or begin anew with connect(url, fresh=True)"
            )
        return found

    def names(self) -> list[NameRow]:
        return [NameRow(*row) for row in self._rows(NAMES)]

    def journals(self) -> list[str]:
        """The names of the tables of the journal."""
        return [row.name for row in self.names() if row.key.endswith(f" {JOURNAL} 1")]

    def add(self, definition: LoggedCall) -> None:
        self._database.insert(self._table(DEFINITIONS), len(_COLUMNS[DEFINITIONS]), [definition])

    def remove(self, reference: Reference) -> None:
        number, part = map(self._quoted, ("number", "part"))
        where = f"{number} = {int(reference[0])} AND {part} = {int(reference[1])}"
        self._database.execute(f"DELETE FROM {self._table(DEFINITIONS)} WHERE {where}")

    def mark_layout(self) -> None:
        """Notes that the tables have the present layout, so that an earlier program refuses them."""
        layout = self._quoted("layout")
        self._database.execute(f"UPDATE {self._table(DEFINITIONS)} SET {layout} = {LAYOUT} WHERE {layout} < {LAYOUT}")

    def change_names(self, removed: Sequence[str], added: Iterable[NameRow]) -> None:
        """Removes the rows of the keys `removed`, and adds the rows `added`."""
        text = f"DELETE FROM {self._table(NAMES)} WHERE {self._quoted('id')} = {self._database.placeholder}"
        for key in removed:
            self._database.execute_bound(text, [key])
        if rows := list(added):
            self._database.insert(self._table(NAMES), len(_COLUMNS[NAMES]), rows)

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        columns = ", ".join(map(self._quoted, _COLUMNS[table]))
        return self._database.fetch(f"SELECT {columns} FROM {self._table(table)}")

    def _quoted(self, name: str) -> str:
        return self._database.quoted(name)

    def _table(self, name: str) -> str:
        """A table of the catalogue, quoted."""
        return self._quoted(self._database.own_name(name))
