"""The function that opens a bridge."""

from __future__ import annotations

from typing import Any

from bridge.engine.bridge import Bridge
from bridge.engine.queue.gathering import SIZE
from bridge.errors import DatabaseError

IN_MEMORY = "duckdb://"
"""The URL of embedded DuckDB in memory."""


def connect(
    database: Any = IN_MEMORY, lateness: Any = 0, clock: str | None = None, *, durable: bool = True, fresh: bool = False,
    event_ids: int | str | None = None, standby: bool = False, name: str | None = None, schema: str | None = None,
    linger: Any = None, batch: int = SIZE,
) -> Bridge:  # fmt: skip
    """Opens a bridge on a database.

    On a file or a server it continues with the state of the last bridge there, even if that was killed (rule D2): its
    streams and queries, its time, and the rows of its windows and patterns. See docs/durability.md. Durations are
    milliseconds, or texts such as "2 S".

    Args:
        database: A URL, such as "duckdb:///file" or "sqlite://"; or an SQLAlchemy engine, which your program may use as well.
        lateness: How late an event may come; events wait that long to be put in order (rule T2).
        clock: "system": time passes by the wall clock, which also stamps events without a timestamp (rule T4). None:
            only events and `advance_time` move time.
        durable: Keep the state in the database, if that is a file or a server. False: closing the bridge removes its state.
        fresh: Remove the state of an earlier bridge first.
        event_ids: How many ids of events `push_event` remembers, or for how long, such as "7 D"; by default 100,000.
        standby: Wait until another bridge in the database is closed or killed, and continue with its state.
        name: The name of the bridge, if several have their state in one database.
        schema: The schema of the bridge's tables (MariaDB: a database); it is created if it does not exist.
        linger: How long an event may wait for others to be pushed with it (rule T7). `push_event` then returns at once.
        batch: With `linger`, how many events are pushed together without waiting longer.

    Returns:
        The bridge; as a context manager it is closed at the end of the block.

    Raises:
        DatabaseError: The database cannot be opened, another bridge is at work in it, or its state cannot be resumed.
        SchemaError: `lateness`, `clock`, `name`, `schema`, `linger` or `batch` is wrong.

    >>> with connect("sqlite://") as cep:
    ...     cep.register_stream("s", "a INTEGER")
    ...     list(cep.streams)
    ['s']
    """
    from windows.databases import Refused, open_database

    try:
        opened = open_database(database)
        try:
            cep = Bridge(
                opened, lateness, clock, durable=durable, fresh=fresh, event_ids=event_ids, standby=standby, name=name,
                schema=schema, linger=linger, batch=batch,
            )  # fmt: skip
        except BaseException:
            opened.close()
            raise
    except Refused as error:
        raise DatabaseError(str(error)) from None
    cep._runner.has_connection_alone = isinstance(database, (str, tuple))  # SQLAlchemy's URL is a tuple
    return cep
