"""Opens a bridge."""

from __future__ import annotations

from typing import Any

from bridge.engine.bridge import Bridge
from bridge.engine.gathering import SIZE
from bridge.errors import DatabaseError

IN_MEMORY = "duckdb://"
"""The URL of embedded DuckDB in memory."""


def connect(
    database: Any = IN_MEMORY,
    lateness: Any = 0,
    clock: str | None = None,
    *,
    durable: bool = True,
    fresh: bool = False,
    event_ids: int | str | None = None,
    standby: bool = False,
    name: str | None = None,
    schema: str | None = None,
    linger: Any = None,
    batch: int = SIZE,
) -> Bridge:
    """Opens a bridge on a database.

    On a file or a server it goes on exactly where the last one there has ended, closed or killed: with its streams and
    queries, its time, and what its windows and patterns hold (rule D2).

    Args:
        database: A URL: "duckdb://" for embedded DuckDB in memory, "duckdb:///file", or any SQLAlchemy URL; or an SQLAlchemy
            engine, which your program may use as well, so that each push writes its rows at once.
        lateness: Milliseconds, or a text such as "2 S", that events may come after newer ones; they wait that long to be
            put in order (rule T2).
        clock: "system": time passes by the wall clock, which also stamps events without a timestamp (rule T4). None: events
            and `advance_time` alone move time.
        durable: Keep the state in the database, where that is a file or a server. False: the state is of this bridge alone,
            and is removed when it is closed.
        fresh: Remove the state of an earlier bridge first, and begin anew.
        event_ids: How many ids of events `push_event` remembers, or for how long, such as "7 D"; by default 100,000.
        standby: Wait for as long as another bridge is at work in the database, and go on where it ends, closed or killed. Not
            with a file of DuckDB, which only one process can open.
        name: The name of the bridge, where several have their state in one database: each has its own catalogue, lock and
            tables, and is opened by its name.
        schema: The schema of the bridge's tables (MariaDB: a database), which is created if it is not there. Tables of other
            schemas are found as before; on MariaDB they are named with their database.
        linger: Milliseconds, or a text such as "5 MS", that an event may wait for others, to be pushed in one transaction with
            them (rule T7). `push_event` then returns at once. None: the event is in when `push_event` returns.
        batch: With `linger`, how many events are pushed together without waiting longer.

    Returns:
        The bridge; as a context manager it closes itself.

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
            cep._runner.has_connection_alone = isinstance(database, (str, tuple))  # SQLAlchemy's URL is a tuple
            return cep
        except BaseException:
            opened.close()
            raise
    except Refused as error:
        raise DatabaseError(str(error)) from None
