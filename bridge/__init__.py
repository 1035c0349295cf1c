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

import os
from collections.abc import Mapping
from typing import Any

from bridge.engine.bridge import Bridge, Event, LateEvent
from bridge.engine.connect import IN_MEMORY, connect
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
from bridge.history.live_files import file_sink, file_source
from bridge.query.expressions import col, lit
from bridge.query.nodes import (
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
)
from bridge.query.scripts import IntoTable, MultiFilter, ReadSQL, Script, Statement, UpdateSQL
from bridge.stores.outbox import Letter
from windows.extents import Batch, Now, Range, Rows, Unbounded
from windows.schema import Attribute, Schema

__version__ = "0.1.0"


def replay(
    source: Any,
    queries: Any,
    engine: str = "local",
    *,
    language: str = "sql",
    database: Any = IN_MEMORY,
    timestamp: str | Mapping[str, str] | None = None,
    schemas: Mapping[str, Any] | None = None,
    relations: Mapping[str, Any] | None = None,
    stores: Mapping[str, Any] | None = None,
    end: Any = None,
    out: str | os.PathLike[str] | None = None,
    into: Bridge | None = None,
    spark: Any = None,
    pieces: int | None = None,
    run: str | None = None,
) -> Mapping[str, Any]:
    """Runs queries over history, with the results that pushing it would have had; gives them by query.

    `source` maps each stream to a path or pattern (CSV, NDJSON, Parquet), an Arrow table, a frame or an iterable of
    (payload, timestamp); or it is an iterable of (stream, payload, timestamp). `queries` maps names to texts of
    `language` ("sql", "epl" or "cpl") or query objects, or is one script. `timestamp` names the column of the timestamps
    where it is not guessed (times without a zone are UTC), `schemas` the types where neither query nor file has them,
    `relations` maps table names to Arrow tables or frames, `stores` names of data stores to their URLs. History is read
    up to `end`, and time advanced to it. With `out`, a directory, the results go there as Parquet files by query, each
    complete when it appears; each is read when it is asked for.

    On the default database, queries of which every result looks back a bounded while (windows of time, patterns `WITHIN`)
    run on all cores: slices of the history go through bridges of their own at once, each after the events it looks back at.

    With `engine="spark"` the history is computed in pieces on Spark, in the session `spark`, the active one, or a new one
    (`bridge.spark`). Sources may be frames and tables of Spark, too; the results are frames, computed when they are used
    (at once where slices of one partition have to be joined) or, with `out`, in directories of Parquet. Executors have a
    DuckDB each; `database` has the tables that a script reads and writes, and what it writes there, or to data stores, is
    written once for each name of a `run`. `pieces` is the number of pieces, where it is not to be found out; the local
    engine has none.

    With `into`, an open bridge, the queries are created there and stay, as if the history had been pushed: what waits for
    later events goes on waiting. Processors that are added then get what comes after, without a gap or a double. `end` is
    where history stops and live events begin.

    Raises what `push_events` and `create_query` raise, and SourceError for what cannot be read.

    >>> import pyarrow
    >>> trades = pyarrow.table({"ts": [1, 2], "price": [9.0, 11.0]})
    >>> replay({"trades": trades}, {"high": "SELECT price FROM trades WHERE price > 10"})["high"].to_pylist()
    [{'ts': 2, 'price': 11.0}]
    """
    from bridge.history.script import Script, refuse_unnamed

    options = {
        "timestamp": timestamp, "schemas": schemas, "relations": relations, "stores": stores, "database": database, "end": end,
    }  # fmt: skip
    if engine == "spark":
        from bridge.spark import replay as replay_on_spark

        directory = None if out is None else os.fspath(out)
        script = Script.of(queries, language=language)
        return replay_on_spark(source, script, out=directory, into=into, spark=spark, pieces=pieces, run=run, **options)
    if engine != "local":
        raise BridgeError(f"unknown engine {engine!r}; there are 'local' and 'spark'")
    if run is not None:
        raise BridgeError("the local engine writes in the transactions of its pushes: run=… is for engine='spark'")
    if pieces is not None:
        raise BridgeError("the local engine reads the history in one piece: pieces=… is for engine='spark'")
    refuse_unnamed(source)
    from bridge.history.replay import replay as replay_here

    return replay_here(source, Script.of(queries, language=language), out=out, into=into, **options)


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
