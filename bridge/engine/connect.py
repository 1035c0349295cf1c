"""Opens a bridge."""

from __future__ import annotations

from typing import Any

from bridge.engine.bridge import Bridge
from bridge.errors import DatabaseError

IN_MEMORY = "duckdb://"
"""The URL of embedded DuckDB in memory."""


def connect(database: Any = IN_MEMORY, lateness: Any = 0, clock: str | None = None) -> Bridge:
    """Opens a bridge on a database.

    Args:
        database: A URL: "duckdb://" for embedded DuckDB in memory, "duckdb:///file", or any SQLAlchemy URL; or an SQLAlchemy
            engine.
        lateness: Milliseconds, or a text such as "2 S", that events may come after newer ones; they wait that long to be
            put in order (rule T2).
        clock: "system": time passes by the wall clock, which also stamps events without a timestamp (rule T4). None: events
            and `advance_time` alone move time.

    Returns:
        The bridge; as a context manager it closes itself.

    Raises:
        DatabaseError: The database cannot be opened, or another bridge is at work in it.
        SchemaError: `lateness` or `clock` is wrong.

    >>> with connect("sqlite://") as cep:
    ...     cep.register_stream("s", "a INTEGER")
    ...     list(cep.streams)
    ['s']
    """
    from windows.databases import Refused, open_database

    try:
        opened = open_database(database)
        try:
            return Bridge(opened, lateness, clock)
        except BaseException:
            opened.close()
            raise
    except Refused as error:
        raise DatabaseError(str(error)) from None
