"""Complex event processing on the database you already have.

    import bridge

    cep = bridge.connect()
    cep.register_stream("trades", {"symbol": "VARCHAR", "price": "DOUBLE"})
    cep.create_query("mean", "SELECT AVG(price) AS mean FROM trades WINDOW(RANGE 5 S)")
    cep.add_output_processor("mean", print)
    cep.push_event("trades", {"symbol": "A", "price": 9.0}, 1000)

`connect` opens a `Bridge`; `bridge.query` has the query objects; `replay` runs queries over history.
"""

from __future__ import annotations

from typing import Any

from bridge.algebra import IntoTable, MultiFilter, ReadSQL, Script, Statement, UpdateSQL
from bridge.engine import Bridge, Event, LateEvent
from bridge.errors import (
    BridgeError,
    Closed,
    DatabaseError,
    InUse,
    NameTaken,
    OrderError,
    ProcessorError,
    QueryError,
    SchemaError,
    SourceError,
    UnknownName,
)
from bridge.files import file_sink, file_source
from bridge.query import (
    Aggregate,
    Correlate,
    Definition,
    Filter,
    Map,
    Match,
    Output,
    Relation,
    Stream,
    Union,
    Window,
    col,
    lit,
)
from bridge.replay import replay  # now, so that the module of this name, loaded later, does not take its place
from bridge.stores.outbox import Letter
from windows.extents import Batch, Now, Range, Rows, Unbounded
from windows.schema import Attribute, Schema

__version__ = "0.1.0"


def connect(database: Any = "duckdb://", lateness: Any = 0, clock: str | None = None) -> Bridge:
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


def stream(source: Any, queries: Any, *, lateness: Any = 0, **options: Any) -> dict[str, Any]:
    """Runs queries over unbounded frames of Spark, the state and its checkpoints in Spark; gives unbounded frames by query.

    An event may come up to `lateness` behind the newest one before; see `bridge.spark.stream`. Raises BridgeError for
    scripts that have tables or read and write stored data.

    >>> frame = spark.readStream.table("trades")  # doctest: +SKIP
    >>> stream({"trades": frame}, queries, lateness="2 S")["dip"].writeStream  # doctest: +SKIP
    """
    from bridge.spark.stream import stream as on_spark

    return on_spark(source, queries, lateness=lateness, **options)


__all__ = [
    "Aggregate", "Attribute", "Batch", "Bridge", "BridgeError", "Closed", "Correlate", "DatabaseError", "Definition", "Event",
    "Filter", "InUse", "IntoTable", "LateEvent", "Letter", "Map", "Match", "MultiFilter", "NameTaken", "Now", "OrderError",
    "Output", "ProcessorError", "QueryError",
    "Range", "ReadSQL", "Relation", "Rows", "Schema", "SchemaError", "Script", "SourceError", "Statement", "Stream",
    "Unbounded", "Union", "UnknownName", "UpdateSQL", "Window", "col", "connect", "file_sink", "file_source", "lit", "replay",
    "stream",
]  # fmt: skip
