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

What to read next:

- `connect` opens a `Bridge`, whose methods register streams, create queries, push events and explain plans.
- `replay` runs queries over a history: files, tables, frames. `stream` runs them on Spark's Structured Streaming.
- `file_source` and `file_sink` connect a bridge to files.
- Queries are SQL, EPL or CPL texts, or query objects: `Stream`, `Window`, `Aggregate`, … (all are in `bridge.query`).
- Every error is a `BridgeError`; a `QueryError` shows the place in the query.

The command `cepbridge` does the same: `cepbridge --help`. README.md and docs/ in the source repository document it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.engine.bridge import Bridge, Event, LateEvent
from bridge.engine.connect import IN_MEMORY, connect
from bridge.engine.limits import Limits
from bridge.engine.named_processors import Result
from bridge.engine.queue.gathering import Push
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
    source: Any, queries: Any, engine: str = "local", *, language: str = "sql", database: Any = IN_MEMORY,
    timestamp: str | Mapping[str, str] | None = None, timestamp_unit: str | Mapping[str, str] | None = None, sort: bool = False,
    schemas: Mapping[str, Any] | None = None, relations: Mapping[str, Any] | None = None,
    stores: Mapping[str, Any] | None = None, end: Any = None, out: str | os.PathLike[str] | None = None,
    into: Bridge | None = None, spark: Any = None, pieces: int | None = None, run: str | None = None,
    untrusted: bool = False, tables: Sequence[str] = (),
) -> Mapping[str, Any]:  # fmt: skip
    """Runs queries over a history, and returns the results that pushing it would have had. See docs/replay.md.

    Args:
        source: The events by stream: file paths or patterns, Arrow tables, frames, mappings, or (payload, timestamp) pairs.
        queries: The queries, by name, as texts or query objects; or one script.
        engine: "local" (this machine) or "spark" (needs the extra `cep-bridge[spark]` and Java).
        language: The language of the texts: "sql", "epl" or "cpl".
        database: Where the queries run: a URL, a DuckDB connection or an SQLAlchemy engine.
        timestamp, timestamp_unit: The column of timestamps, by default guessed; their unit: "s", "ms", "us", "ns" or "auto".
        sort: Order the events by time first. Otherwise their timestamps must not go back.
        schemas: Attributes and types by stream, for streams that no query declares and no file describes.
        relations, stores: Arrow tables, frames or files that queries join with; URLs of data stores of CPL scripts. Both by name.
        end: The last timestamp to read, to which time then advances: milliseconds, or a datetime with a time zone.
        out: A directory for the results: one Parquet file per query, on Spark one directory.
        into: An open bridge in which the queries are created, and continue after the history.
        spark, pieces, run: The Spark session, the number of pieces of the history, and a name under which writes happen once.
        untrusted, tables: Refuse queries that are not known to be harmless; the tables that they may read (docs/security.md).

    Returns:
        The results by query: Arrow tables whose first column is `ts`, in milliseconds; on Spark, frames.

    Raises:
        BridgeError: The engine does not take an argument.
        SourceError: A source or relation cannot be read, or an event does not fit or is too old. For an iterable of all
            streams such an event raises SchemaError or OrderError, as in `push_all`.
        QueryError: A query is wrong; the error has the place.
        UnknownName: No query reads a stream of `source`.

    >>> import pyarrow
    >>> trades = pyarrow.table({"ts": [1, 2], "price": [9.0, 11.0]})
    >>> replay({"trades": trades}, {"high": "SELECT price FROM trades WHERE price > 10"})["high"].to_pylist()
    [{'ts': 2, 'price': 11.0}]
    """
    from bridge.sources.options import HistoryOptions

    options = {
        "reading": HistoryOptions(timestamp, timestamp_unit, sort=sort), "schemas": schemas, "relations": relations,
        "stores": stores, "database": database, "end": end, "out": out, "into": into,
    }  # fmt: skip
    readable = [*tables, *(relations or ())] if untrusted else None
    if engine == "spark":
        return _replay_on_spark(source, queries, language, readable, options, spark=spark, pieces=pieces, run=run)
    if engine != "local":
        raise BridgeError(f"unknown engine {engine!r}; use 'local' or 'spark'")
    if run is not None:
        raise BridgeError("run=… needs engine='spark': the local engine writes in the transactions of its pushes")
    if pieces is not None:
        raise BridgeError("pieces=… needs engine='spark': the local engine cuts the history by itself")
    return _replay_here(source, queries, language, readable, options)


def _replay_on_spark(
    source: Any, queries: Any, language: str, readable: list[str] | None, options: dict[str, Any], **of_spark: Any
) -> Mapping[str, Any]:
    from bridge.history.script import ReplayScript
    from bridge.spark import replay as replay_on_spark

    directory = None if options["out"] is None else os.fspath(options["out"])
    script = ReplayScript.of(queries, language=language)
    script.readable = readable
    return replay_on_spark(source, script, **{**options, "out": directory}, **of_spark)


def _replay_here(
    source: Any, queries: Any, language: str, readable: list[str] | None, options: dict[str, Any]
) -> Mapping[str, Any]:
    from bridge.engine.session import session_of
    from bridge.history.replay import replay as replay_here
    from bridge.history.script import ReplayScript, refuse_unnamed
    from windows.databases import dialect_of

    refuse_unnamed(source)
    into, database = options["into"], options["database"]
    if into is not None and not isinstance(into, Bridge):
        raise BridgeError(f"into= is an open bridge, not {into!r}")
    script = ReplayScript.of(
        queries, language=language, dialect=dialect_of(database if into is None else session_of(into).database)
    )
    script.readable = readable
    return replay_here(source, script, **options)


def stream(source: Any, queries: Any, *, lateness: Any = 0, **options: Any) -> dict[str, Any]:
    """Runs queries on Spark's Structured Streaming, which keeps their state and its checkpoints.

    Args:
        source: Unbounded frames of Spark, by stream.
        queries: The queries, by name, as texts or query objects; or one script.
        lateness: How much older an event may be than the newest event before it: milliseconds, or a text such as "2 S".
            Events that are still older are ignored. Results are reported when the watermark has passed them.
        **options: `language`, `pieces` (the number of parts of the state, which must stay the same from start to start),
            and the arguments `spark`, `timestamp`, `timestamp_unit`, `schemas` and `relations` of `replay`.

    Returns:
        Unbounded frames of the results by query, for `writeStream`. The results of one key are in order.

    Raises:
        BridgeError: Scripts change tables, or read or write stored data.

    >>> trades = spark.readStream.table("trades")  # doctest: +SKIP
    >>> stream({"trades": trades}, queries, lateness="2 S")["dip"].writeStream  # doctest: +SKIP
    """
    from bridge.spark.stream import stream as on_spark

    return on_spark(source, queries, lateness=lateness, **options)


def __getattr__(name: str) -> Any:
    """`bridge.aio`, which is imported when it is first used."""
    if name == "aio":
        return importlib.import_module("bridge.aio")
    raise AttributeError(f"module 'bridge' has no attribute {name!r}")


__all__ = [
    "Aggregate", "Attribute", "Batch", "Bridge", "BridgeError", "Closed", "Correlate", "DatabaseError", "DeadLetter",
    "Definition", "Event", "Filter", "InUse", "IntoTable", "LateEvent", "Letter", "Limits", "Map", "Match", "MultiFilter",
    "NameTaken", "Now", "OrderError", "Output", "ProcessorError", "Push", "QueryError", "QueryStatus", "Range", "ReadSQL",
    "Relation", "Result", "Rows", "Schema", "SchemaError", "Script", "SourceError", "Statement", "StatementTimes", "Status",
    "Stream", "Unbounded", "Union", "UnknownName", "UpdateSQL", "Window", "col", "connect", "file_sink", "file_source", "lit",
    "replay", "stream",
]  # fmt: skip
