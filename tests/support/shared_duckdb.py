"""Databases of DuckDB in memory in one instance per URL: making a database takes a few milliseconds, an instance 25.

Settings may be those of the instance, and so are the databases that a test attaches. Once a test has attached one, the next
database gets a new instance; once it has changed a setting, the next test does, as reading all settings takes 3 milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, NamedTuple

import duckdb

from windows.databases import duckdb as product
from windows.databases.duckdb_connection import open_connection


class SharedInstance(NamedTuple):
    """An instance to which databases in memory are attached, and its state when it was new."""

    connection: duckdb.DuckDBPyConnection
    settings: list[Any]
    databases: set[str]

    @classmethod
    def made(cls, place: str) -> SharedInstance:
        """A new instance with the settings that `place` has after its `?`."""
        connection = open_connection(place)[0]
        connection.execute("PREPARE settings AS SELECT name, value FROM duckdb_settings()")
        return cls(connection, _settings_of(connection), _databases_of(connection))

    def is_as_made(self, are_settings_checked: bool) -> bool:
        """Whether no other database was attached to it, and no setting was changed if that is not checked yet."""
        is_changed = _databases_of(self.connection) != self.databases
        return not is_changed and (are_settings_checked or _settings_of(self.connection) == self.settings)


def _settings_of(instance: duckdb.DuckDBPyConnection) -> list[Any]:
    return instance.execute("EXECUTE settings").fetchall()


def _databases_of(instance: duckdb.DuckDBPyConnection) -> set[str]:
    """The databases that `SharedInstances` has not attached."""
    names = {name for (name,) in instance.execute("SELECT database_name FROM duckdb_databases()").fetchall()}
    return {name for name in names if not name.startswith("memory_")}


class SharedInstances:
    """Opens connections to databases in memory: those whose URLs have the same settings are attached to one instance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instances: dict[str, SharedInstance] = {}
        self._attached: dict[int, tuple[SharedInstance, str]] = {}
        """The databases: their instances and names, by the ids of their open connections."""
        self._number = 0
        self._tests: dict[str, str] = {}
        """The last test that has used each instance: its first database found the settings unchanged."""

    def open_connection(self, place: str) -> tuple[duckdb.DuckDBPyConnection, str]:
        """As `open_connection` of the product, which opens files."""
        file, _, settings = place.partition("?")
        if file:
            return open_connection(place)
        with self._lock:
            instance = self._instances.get(settings)
            test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
            is_checked = test != "" and self._tests.get(settings) == test
            self._tests[settings] = test
            if instance is None or not instance.is_as_made(is_checked):
                instance = self._instances[settings] = SharedInstance.made(place)
            self._number += 1
            name, connection = f"memory_{self._number}", instance.connection.cursor()
            connection.execute(f"ATTACH ':memory:' AS {name}")
            connection.execute(f"USE {name}")
            self._attached[id(connection)] = instance, name
        return connection, "in memory"

    def closed(self, connection: duckdb.DuckDBPyConnection) -> None:
        """A connection has been closed: its database goes."""
        with self._lock, contextlib.suppress(duckdb.Error):
            instance, name = self._attached.pop(id(connection), (None, ""))
            if instance is not None:
                instance.connection.execute(f"DETACH {name}")


def share_instances() -> None:
    """From now on databases in memory whose URLs have the same settings share an instance."""
    shared, close = SharedInstances(), product.DuckDB.close

    def close_and_detach(self: product.DuckDB) -> None:
        close(self)
        if self._owned:
            shared.closed(self.connection)

    vars(product)["open_connection"] = shared.open_connection
    product.DuckDB.close = close_and_detach  # type: ignore[method-assign]
