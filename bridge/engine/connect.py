"""Opens a bridge."""

from __future__ import annotations

from typing import Any

from bridge.engine.bridge import Bridge
from bridge.errors import DatabaseError

IN_MEMORY = "duckdb://"
"""The URL of embedded DuckDB in memory."""


def connect(database: Any = IN_MEMORY, lateness: Any = 0, clock: str | None = None) -> Bridge:
    """Opens a bridge on a database: embedded DuckDB in memory, `duckdb:///file`, any SQLAlchemy URL or engine.

    `lateness`: so many milliseconds, or a text such as "2 S", events may come after newer ones; they wait that long to be
    put in order. `clock="system"`: time passes by the wall clock, which also stamps events without a timestamp; with None
    events and `advance_time` alone move it. Raises DatabaseError for a database that cannot be opened, and for one in
    which another bridge is at work.

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
