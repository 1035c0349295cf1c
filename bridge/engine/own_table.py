"""Tables that have the same name in every bridge, and that are created when they are first needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bridge.engine.execution.runner import Runner
from windows.schema import Schema


class OwnTable:
    """A table of the bridge, apart from the tables of its operators, with this name and these columns."""

    def __init__(self, runner: Runner, name: str, columns: str) -> None:
        self._runner, self._name, self._schema = runner, runner.database.own_name(name), Schema.of(columns)
        self.text = runner.database.quoted(self._name)
        """The table's name in the database's SQL."""
        self.exists = False
        """Whether the table exists."""

    def create(self) -> None:
        """Creates the table, unless it exists."""
        if not self.exists:
            with self._runner.transaction():
                self._runner.create_own(self._name, self._schema)
            self.exists = True

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of a resumed state, in the order of the columns; none if the state has no such table."""
        if not self._runner.is_known_table(self._name):
            return []
        self.create()
        columns = ", ".join(map(self.quoted, self._schema.names))
        return self._runner.database.fetch(f"SELECT {columns} FROM {self.text}")

    def insert(self, *rows: tuple[Any, ...]) -> None:
        """Adds rows, inside a transaction."""
        self._runner.database.insert(self.text, len(rows[0]), rows)

    def update(self, values: Mapping[str, Any], **key: Any) -> None:
        """Sets columns of the rows with this key, inside a transaction."""
        text = f"UPDATE {self.text} SET {', '.join(self._equations(values))} WHERE {' AND '.join(self._equations(key))}"
        self._runner.database.execute_bound(text, [*values.values(), *key.values()])

    def delete(self, also: str = "", **key: Any) -> None:
        """Deletes the rows with this key, inside a transaction. `also`: a further condition in the database's SQL."""
        conditions = " AND ".join([*self._equations(key), *filter(None, [also])])
        self._runner.database.execute_bound(f"DELETE FROM {self.text} WHERE {conditions}", list(key.values()))

    def _equations(self, columns: Iterable[str]) -> list[str]:
        return [f"{self.quoted(column)} = {self._runner.database.placeholder}" for column in columns]

    def quoted(self, name: str) -> str:
        """A name, quoted as in the database's SQL."""
        return self._runner.database.quoted(name)
