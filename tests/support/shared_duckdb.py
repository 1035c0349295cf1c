"""Databases of DuckDB in memory in one instance of it: making one takes a few milliseconds, an instance 25.

Settings may be those of the instance, and so are the databases that a test attaches. Once a test has changed either, the next
database gets a new instance.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import duckdb

from windows.databases import duckdb as product
from windows.databases.duckdb_connection import opened


class SharedInstance:
    """Opens connections to databases in memory that are attached to one instance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instance: duckdb.DuckDBPyConnection | None = None
        self._state: Any = None
        self._names: dict[int, str] = {}
        """The names of the databases, by the ids of their open connections."""
        self._number = 0

    def opened(self, place: str) -> tuple[duckdb.DuckDBPyConnection, str]:
        """As `opened` of the product, which opens files, and what has settings of its own."""
        if place:
            return opened(place)
        with self._lock:
            if self._instance is None or self._state_of(self._instance) != self._state:
                self._names.clear()
                self._instance = opened("")[0]
                self._state = self._state_of(self._instance)
            self._number += 1
            name, connection = f"memory_{self._number}", self._instance.cursor()
            connection.execute(f"ATTACH ':memory:' AS {name}")
            connection.execute(f"USE {name}")
            self._names[id(connection)] = name
        return connection, "in memory"

    def closed(self, connection: duckdb.DuckDBPyConnection) -> None:
        """A connection has been closed: its database goes."""
        with self._lock, contextlib.suppress(duckdb.Error):
            name = self._names.pop(id(connection), None)
            if name is not None and self._instance is not None:
                self._instance.execute(f"DETACH {name}")

    def _state_of(self, instance: duckdb.DuckDBPyConnection) -> Any:
        """The settings of an instance, and the databases that are not of this object."""
        databases = {name for (name,) in instance.execute("SELECT database_name FROM duckdb_databases()").fetchall()}
        settings = instance.execute("SELECT name, value FROM duckdb_settings()").fetchall()
        return settings, {name for name in databases if not name.startswith("memory_")}


def share_instance() -> None:
    """From now on databases in memory share an instance."""
    shared, close = SharedInstance(), product.DuckDB.close

    def close_and_detach(self: product.DuckDB) -> None:
        close(self)
        if self._owned:
            shared.closed(self.connection)

    vars(product)["opened"] = shared.opened
    product.DuckDB.close = close_and_detach  # type: ignore[method-assign]
