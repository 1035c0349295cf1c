"""A script over sources on Spark, checked and described before any event is read."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bridge.engine.bridge import Bridge
from bridge.engine.connect import connect
from bridge.engine.session import session_of
from bridge.errors import BridgeError
from bridge.history.pieces import partitioning
from bridge.history.script import ReplayScript, inferred_schemas, schema_for
from bridge.query.nodes import Stream, walk
from bridge.rewrite import write_requests
from bridge.sources.arrow import milliseconds
from bridge.sources.in_place import ParquetInPlace
from bridge.sources.options import HISTORY_DEFAULTS, HistoryOptions
from bridge.sources.relations import copy_table, create_relation
from bridge.spark.bounded import BoundedQuery, bounded_query
from bridge.spark.columns import EVENT_ID, MOST_STREAMS, TIME, as_table, result_schema
from bridge.spark.cut import History, history_of, with_quantiles
from bridge.spark.events import Events, open_events
from bridge.spark.file_slices import history_of_files
from bridge.spark.sessions import check_executors, session
from bridge.spark.task import StreamFeed, needed_queries
from bridge.spark.writes import NO_WRITES, ScriptWrites, check_stores, is_serial, with_own_tables
from windows.schema import Attribute, Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Job:
    """Queries over a history on Spark. No part of it is read before it is needed.

    `schemas`, `nodes`, `partitionings`: for each query the columns of its results, its resolved tree, and how it can be
    cut. `streams`: the schemas of the streams. `given_relations`: the caller's relations; `relations`: these and tables
    of the database. `open_end`: whether events may follow the history. For the other arguments see `bridge.replay`.
    """

    def __init__(
        self,
        source: Mapping[str, Any],
        queries: Any,
        *,
        spark: SparkSession | None = None,
        reading: HistoryOptions = HISTORY_DEFAULTS,
        schemas: Mapping[str, Any] | None = None,
        relations: Mapping[str, Any] | None = None,
        stores: Mapping[str, Any] | None = None,
        database: Any = "duckdb://",
        end: Any = None,
        open_end: bool = False,
    ) -> None:
        _refuse_sources(source)
        self.script = ReplayScript.of(queries)
        self.script.streams.update({name: schema_for(name, schema) for name, schema in (schemas or {}).items()})
        self.spark = session(spark)
        self.end = None if end is None else milliseconds(end)
        self.events = [self._until_end(each) for each in open_events(self.spark, self.script, source, reading)]
        self.given_relations = {name: as_table(name, data) for name, data in (relations or {}).items()}
        self.stores, self.database, self.open_end = check_stores(stores), database, open_end
        self._history: History | None = None
        self.relations, self.writes = self.given_relations, NO_WRITES
        self._separate_writes()
        with self.checked_bridge() as cep:
            catalogue = session_of(cep).catalogue
            self.partitionings = {
                name: self.writes.restrict(name, partitioning(name, catalogue)) for name in self.script.queries
            }
            self.writes.learn_columns(cep)
            self.schemas = {name: result_schema(cep, name) for name in self.script.queries}
            self.nodes = {name: catalogue.query_entry(name).resolved.node for name in self.script.queries}
        check_executors(self.spark)

    @contextlib.contextmanager
    def checked_bridge(self) -> Iterator[Bridge]:
        """A bridge without events that has all streams and queries. Raises the errors of all of them."""
        with connect() as cep:
            for name, table in self.relations.items():
                (create_relation if name in self.given_relations else copy_table)(cep.database, name, table)
            for name, url in self.stores.items():
                cep.register_datastore(name, url)
            self.install(cep)
            self.streams = cep.streams
            yield cep

    def _separate_writes(self) -> None:
        """Takes the writes out of the script, and reads the tables of the database that executors need.

        The whole script is checked first, so that errors are those of any other engine.
        """
        if not write_requests.touches(self.script.queries):
            return
        with connect() as cep:
            self.script, tables = with_own_tables(self.script, self.database, self.given_relations, cep.database)
        self.relations = {**self.given_relations, **tables}
        with self.checked_bridge() as cep:
            serial = is_serial(self.script, cep)
        queries, writers = write_requests.split(self.script.queries, serial)
        self.script, self.writes = dataclasses.replace(self.script, queries=queries), ScriptWrites(writers, serial)

    def install(self, cep: Bridge) -> None:
        """Registers the streams in a bridge and creates the queries there."""
        self.script.install(cep, inferred_schemas(self.script, {events.stream: events for events in self.events}))

    def _until_end(self, events: Events) -> Events:
        if self.end is None:
            return events
        from pyspark.sql import functions as F  # noqa: N812

        return dataclasses.replace(events, frame=events.frame.where(F.col(TIME) <= self.end))

    @functools.cached_property
    def files(self) -> ParquetInPlace | None:
        """The files of the only stream, if executors can read them themselves; else None."""
        if len(self.events) != 1 or self.open_end or self.writes.writers or self.writes.serial or self.stores:
            return None
        return self.events[0].file.in_place() if self.events[0].file is not None else None

    @property
    def history(self) -> History:
        """The number of events, and the first and last timestamp, in one pass over the timestamps."""
        if self._history is None and self.files is not None:
            self._history = history_of_files(self.files, self.end)
        if self._history is None:
            self._history = history_of([events.frame for events in self.events], self.end)
        return self._history

    @property
    def history_with_quantiles(self) -> History:
        """The same, with the timestamps at which the history can be cut, which take another pass."""
        if not self.history.quantiles and self.history.count:
            self._history = with_quantiles(self.history, [events.frame for events in self.events])
        return self.history

    @property
    def names(self) -> list[str]:
        """The queries that have results."""
        return [name for name in self.script.queries if name not in self.writes.writers]

    @property
    def queries(self) -> list[tuple[str, Any]]:
        """All queries by name, as trees, in their order."""
        return [(name, node) for name, (node, _) in self.script.queries.items()]

    @property
    def cores(self) -> int:
        """The number of tasks that Spark runs in parallel."""
        return int(self.spark.sparkContext.defaultParallelism)

    def bounded(self, names: Iterable[str]) -> dict[str, BoundedQuery]:
        """The queries among these that can be computed over all rows of a partition at once."""
        queries = {name: bounded_query(self.nodes[name], self.schemas[name].names[1:], self.streams) for name in names}
        return {name: query for name, query in queries.items() if query is not None}

    def stream_number(self, stream: str) -> int:
        """The number of a stream."""
        return next(n for n, events in enumerate(self.events) if events.stream.lower() == stream.lower())

    def streams_read(self, names: Iterable[str]) -> list[int]:
        """The numbers of the streams that some queries read."""
        nodes = (node for _, node in needed_queries(self.queries, names))
        read = {below.name.lower() for node in nodes for below in walk(node) if isinstance(below, Stream)}
        return [number for number, events in enumerate(self.events) if events.stream.lower() in read]

    def feeds(self, has_id: bool = False) -> tuple[StreamFeed, ...]:
        """All streams as tasks read them; if `has_id`, with EVENT_ID as attributes."""
        return tuple(self.feed(number, has_id) for number in range(len(self.events)))

    def feed(self, number: int, has_id: bool = False) -> StreamFeed:
        """A stream as tasks read it."""
        events = self.events[number]
        schema = self.streams[next(name for name in self.streams if name.lower() == events.stream.lower())]
        columns = tuple(f"s{number}{column}" for column in events.columns)
        if has_id:
            schema = Schema((*schema, *(Attribute(name, "BIGINT") for name in EVENT_ID)))
        return StreamFeed(events.stream, schema, events.layout, columns, number, has_id)


def _refuse_sources(source: Any) -> None:
    """Raises BridgeError for sources that a replay on Spark does not support."""
    if not isinstance(source, Mapping):
        raise BridgeError("engine='spark' needs a mapping of streams to their events, each a path, a table or a frame")
    if len(source) > MOST_STREAMS:
        raise BridgeError(
            f"a replay on Spark has at most {MOST_STREAMS} streams, not {len(source)}: replay queries over other streams "
            "separately"
        )
