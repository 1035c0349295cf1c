"""Complex event processing on the database you already have.

A bridge runs continuous queries over streams of events. A query reads the events as they are pushed and reports results;
the database computes them, as SQL over ordinary tables. Open a bridge, register a stream, create a query over it, add a
function that takes the results, and push events:

    >>> import bridge
    >>> cep = bridge.connect()  # DuckDB in memory; SQLite, PostgreSQL and MariaDB by their URLs
    >>> cep.register_stream("trades", {"symbol": "VARCHAR", "price": "DOUBLE"})
    >>> cep.create_query("mean", "SELECT AVG(price) AS mean FROM trades WINDOW(RANGE 5 S)")
    >>> handle = cep.add_output_processor("mean", print)
    >>> cep.push_event("trades", {"symbol": "A", "price": 9.0}, 1000)  # at 1,000 milliseconds
    Event(payload={'mean': 9.0}, timestamp=1000)
    >>> cep.push_event("trades", {"symbol": "B", "price": 11.0}, 2000)
    Event(payload={'mean': 10.0}, timestamp=2000)
    >>> cep.close()

Where to go on:

- `connect` opens a `Bridge`, whose methods register streams, create queries, push events and explain plans.
- `replay` runs queries over a history: files, tables, frames. `stream` runs them on Spark's Structured Streaming.
- `file_source` and `file_sink` connect a bridge to files.
- Queries are SQL, EPL or CPL texts, or query objects: `Stream`, `Window`, `Aggregate`, … (all are in `bridge.query`).
- Every error is a `BridgeError`; a `QueryError` shows the place in the query.

The same as a command: `cepbridge --help`. The documentation is README.md and docs/ in the source repository.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.engine.bridge import Bridge, Event, LateEvent
from bridge.engine.connect import IN_MEMORY, connect
from bridge.engine.gathering import Push
from bridge.engine.limits import Limits
from bridge.engine.named_processors import Result
from bridge.engine.status import QueryStatus, StatementTimes, Status
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
from bridge.query.match import Definition, Match
from bridge.query.nodes import Aggregate, Correlate, Filter, Map, Output, Relation, Stream, Union, Window
from bridge.query.scripts import IntoTable, MultiFilter, ReadSQL, Script, Statement, UpdateSQL
from bridge.stores.outbox import DeadLetter
from windows.extents import Batch, Now, Range, Rows, Unbounded
from windows.schema import Attribute, Schema

__version__ = "0.1.0"

Letter = DeadLetter
"""The former name of `DeadLetter`."""


def replay(
    source: Any,
    queries: Any,
    engine: str = "local",
    *,
    language: str = "sql",
    database: Any = IN_MEMORY,
    timestamp: str | Mapping[str, str] | None = None,
    timestamp_unit: str | Mapping[str, str] | None = None,
    sort: bool = False,
    schemas: Mapping[str, Any] | None = None,
    relations: Mapping[str, Any] | None = None,
    stores: Mapping[str, Any] | None = None,
    end: Any = None,
    out: str | os.PathLike[str] | None = None,
    into: Bridge | None = None,
    spark: Any = None,
    pieces: int | None = None,
    run: str | None = None,
    untrusted: bool = False,
    tables: Sequence[str] = (),
) -> Mapping[str, Any]:
    """Runs queries over a history, and returns the results that pushing it would have had.

    Args:
        source: The events, by stream: a path or a pattern of CSV, NDJSON or Parquet files, an Arrow table, a pandas or
            polars frame, a DuckDB relation, mappings such as dictionaries
            and SQLAlchemy rows, or (payload, timestamp) pairs. With `engine="spark"` also a frame or a table of
            Spark; with `engine="local"` also one iterable of (stream, payload, timestamp) for all streams. Timestamps are
            milliseconds since 1970, or times, which are UTC if they have no zone. They must not go back, unless `sort` is given.
        queries: The queries, by name, as texts or query objects; or one script.
        engine: "local" (this machine) or "spark" (needs the extra `cep-bridge[spark]` and Java).
        language: The language of the texts: "sql", "epl" or "cpl".
        database: Where the queries run: a URL, a DuckDB connection or an SQLAlchemy engine. On the default database, DuckDB
            in memory, all cores work on slices of the history if all results look back a bounded time (windows of time,
            patterns WITHIN) and `into` and `stores` are not given. On Spark, executors run DuckDB, and `database` holds the
            tables that a script reads and writes.
        timestamp: The column with the timestamps, for all streams or by stream. By default it is guessed.
        timestamp_unit: The unit of timestamps that are numbers: "s", "ms", "us" or "ns", for all streams or by stream; "auto"
            takes the one that puts the first timestamp nearest to the present. By default they are whole milliseconds.
        sort: Order the events by time before they are pushed; those of a stream with equal timestamps stay in their order.
            What memory does not hold goes to temporary files. Spark always does it.
        schemas: Attributes and types by stream, for streams that no query declares and no file describes.
        relations: Arrow tables or frames by name, which queries join with. Not with `into`.
        stores: URLs of data stores by name, which CPL scripts read and write.
        end: The last timestamp to read: milliseconds, or a datetime with a time zone. Time advances to it;
            without it an absence that is due after the newest event is not reported.
        out: A directory for the results, as one Parquet file per query (on Spark one directory per query), each complete
            when it appears.
        into: An open bridge in which the queries are created and go on running. What waits for later events goes on
            waiting, and output processors that are added afterwards get what follows, without a gap or a duplicate.
        spark: The Spark session; by default the active one, or a new one. Only with `engine="spark"`, as are the next two.
        pieces: The number of pieces that the history is cut into. By default it follows from the size.
        run: A name for this run. What a script writes to tables and data stores is written once per name.
        untrusted: Refuse queries that do what is not known to be harmless; see docs/security.md.
        tables: The tables of the database that untrusted queries may read beside streams and `relations`.

    Returns:
        The results by query. Locally each is an Arrow table whose first column is `ts`, in milliseconds; with `out` a file
        is read each time its query is looked up. On Spark each is a frame, which is computed when it is used, or at once
        where slices of one partition have to be joined.

    Raises:
        BridgeError: For an unknown engine, and for arguments that the engine does not take.
        SourceError: For a source or a relation that cannot be read, and for the first event that does not fit or is older
            than one before it. For one iterable of all streams these are SchemaError and OrderError, as for `push_all`.
        QueryError: For a query that is wrong, with its place.
        UnknownName: For a stream of `source` that no query reads.

    >>> import pyarrow
    >>> trades = pyarrow.table({"ts": [1, 2], "price": [9.0, 11.0]})
    >>> replay({"trades": trades}, {"high": "SELECT price FROM trades WHERE price > 10"})["high"].to_pylist()
    [{'ts': 2, 'price': 11.0}]
    """
    from bridge.history.script import ReplayScript, refuse_unnamed
    from bridge.sources.options import HistoryOptions

    options = {
        "reading": HistoryOptions(timestamp, timestamp_unit, sort=sort), "schemas": schemas, "relations": relations,
        "stores": stores, "database": database, "end": end,
    }  # fmt: skip
    if engine == "spark":
        from bridge.spark import replay as replay_on_spark

        directory = None if out is None else os.fspath(out)
        script = ReplayScript.of(queries, language=language)
        script.readable = [*tables, *(relations or ())] if untrusted else None
        return replay_on_spark(source, script, out=directory, into=into, spark=spark, pieces=pieces, run=run, **options)
    if engine != "local":
        raise BridgeError(f"unknown engine {engine!r}; use 'local' or 'spark'")
    if run is not None:
        raise BridgeError("run=… needs engine='spark': the local engine writes in the transactions of its pushes")
    if pieces is not None:
        raise BridgeError("pieces=… needs engine='spark': the local engine cuts the history by itself")
    refuse_unnamed(source)
    from bridge.engine.session import session_of
    from bridge.history.replay import replay as replay_here
    from windows.databases import dialect_of

    if into is not None and not isinstance(into, Bridge):
        raise BridgeError(f"into= is an open bridge, not {into!r}")
    script = ReplayScript.of(
        queries, language=language, dialect=dialect_of(database if into is None else session_of(into).database)
    )
    script.readable = [*tables, *(relations or ())] if untrusted else None
    return replay_here(source, script, out=out, into=into, **options)


def stream(source: Any, queries: Any, *, lateness: Any = 0, **options: Any) -> dict[str, Any]:
    """Runs queries on Spark's Structured Streaming, which keeps their state and its checkpoints.

    Args:
        source: Unbounded frames of Spark, by stream.
        queries: The queries, by name, as texts or query objects; or one script.
        lateness: How much older than the newest event before it an event may be: milliseconds, or a text such as "2 S". An
            event that is still older is ignored. Results are reported when the watermark has passed them.
        **options: `language`, `pieces` (the number of parts of the state, which must stay the same from start to start),
            and the arguments `spark`, `timestamp`, `timestamp_unit`, `schemas` and `relations` of `replay`.

    Returns:
        Unbounded frames of the results by query, for `writeStream`. The results of one key are in their order.

    Raises:
        BridgeError: For scripts that change tables, or read or write stored data.

    >>> trades = spark.readStream.table("trades")  # doctest: +SKIP
    >>> stream({"trades": trades}, queries, lateness="2 S")["dip"].writeStream  # doctest: +SKIP
    """
    from bridge.spark.stream import stream as on_spark

    return on_spark(source, queries, lateness=lateness, **options)


def __getattr__(name: str) -> Any:
    """`bridge.aio`, which is imported when it is first used."""
    if name == "aio":
        from bridge.engine import aio

        return aio
    raise AttributeError(f"module 'bridge' has no attribute {name!r}")


__all__ = [
    "Aggregate", "Attribute", "Batch", "Bridge", "BridgeError", "Closed", "Correlate", "DatabaseError", "DeadLetter",
    "Definition", "Event", "Filter", "InUse", "IntoTable", "LateEvent", "Letter", "Limits", "Map", "Match", "MultiFilter",
    "NameTaken", "Now", "OrderError", "Output", "ProcessorError", "Push", "QueryError", "QueryStatus", "Range", "ReadSQL",
    "Relation", "Result", "Rows", "Schema", "SchemaError", "Script", "SourceError", "Statement", "StatementTimes", "Status",
    "Stream", "Unbounded", "Union", "UnknownName", "UpdateSQL", "Window", "col", "connect", "file_sink", "file_source", "lit",
    "replay", "stream",
]  # fmt: skip
