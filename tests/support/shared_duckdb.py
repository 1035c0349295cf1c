"""Databases of DuckDB in memory in one instance per URL: making a database takes a few milliseconds, an instance 25.

Settings may be those of the instance, and so are the databases that a test attaches. Once a test has changed either, the next
database gets a new instance.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, NamedTuple

import duckdb

from windows.databases import duckdb as product
from windows.databases.duckdb_connection import opened


class SharedInstance(NamedTuple):
    """An instance to which databases in memory are attached, and its state when it was new."""

    connection: duckdb.DuckDBPyConnection
    state: Any

    @classmethod
    def made(cls, place: str) -> SharedInstance:
        """A new instance with the settings that `place` has after its `?`."""
        connection = opened(place)[0]
        connection.execute("PREPARE settings AS SELECT name, value FROM duckdb_settings()")
        return cls(connection, _state_of(connection))

    def is_as_made(self) -> bool:
        """Whether no setting of it was changed, and no other database attached."""
        return bool(_state_of(self.connection) == self.state)


def _state_of(instance: duckdb.DuckDBPyConnection) -> Any:
    """The settings of an instance, and the databases that `SharedInstances` has not attached."""
    databases = {name for (name,) in instance.execute("SELECT database_name FROM duckdb_databases()").fetchall()}
    return instance.execute("EXECUTE settings").fetchall(), {
        name for name in databases if not name.startswith("memory_")
    }


class SharedInstances:
    """Opens connections to databases in memory: those whose URLs have the same settings are attached to one instance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instances: dict[str, SharedInstance] = {}
        self._attached: dict[int, tuple[SharedInstance, str]] = {}
        """The databases: their instances and names, by the ids of their open connections."""
        self._number = 0

    def opened(self, place: str) -> tuple[duckdb.DuckDBPyConnection, str]:
        """As `opened` of the product, which opens files."""
        file, _, settings = place.partition("?")
        if file:
            return opened(place)
        with self._lock:
            instance = self._instances.get(settings)
            if instance is None or not instance.is_as_made():
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

    vars(product)["opened"] = shared.opened
    product.DuckDB.close = close_and_detach  # type: ignore[method-assign]
