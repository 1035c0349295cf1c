"""Data stores in a replay on Spark: executors read them, and this process writes them in order, once per run name.

Write requests are computed in pieces, like results (`bridge.rewrite.write_requests`). Each database has a table
`cep_runs` with the number of requests per run that it has received, which each transaction updates. So a run that is
repeated or was killed continues after its last commit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bridge.engine.session import session_of
from bridge.errors import BridgeError, QueryError
from bridge.history.pieces import Partitioning
from bridge.history.script import ReplayScript
from bridge.query.nodes import walk
from bridge.query.scripts import ReadSQL, UpdateSQL
from bridge.rewrite import write_requests
from bridge.rewrite.conflicts import conflicts
from bridge.rewrite.write_requests import WriteNode, WriteRequests
from bridge.spark.columns import TIME
from windows.arrow import arrow_type
from windows.databases import Database, open_database
from windows.databases.urls import is_in_memory
from windows.values import converted

if TYPE_CHECKING:
    from bridge.engine.bridge import Bridge
    from bridge.spark.events import Events


def run_name(name: str | None) -> str:
    """The name of a run; a new one for None, so that everything is written. Raises BridgeError for a wrong name."""
    if name is not None and (not isinstance(name, str) or not name.strip() or len(name) > 200):
        raise BridgeError(f"run must be a text of 1 to 200 characters, not {name!r}")
    return name or uuid.uuid4().hex


def refuse(script: ReplayScript, why: str) -> None:
    """Raises BridgeError if a script reads or writes data stores. `why` ends the message."""
    if write_requests.touches(script.queries):
        raise BridgeError(f"the script reads or writes data stores, {why}")


def refuse_tables(script: ReplayScript, way_out: str = "") -> None:
    """Raises QueryError if statements of a script change tables or variables. `way_out` ends the message."""
    if script.tables:
        raise QueryError(
            f"create table and on … set are not supported on Spark, which does not take events one after the other{way_out}"
        )


def check_stores(stores: Mapping[str, Any] | None) -> dict[str, str]:
    """The URLs of data stores by name. Raises BridgeError for a store that executors cannot open."""
    for name, target in (stores or {}).items():
        if not isinstance(target, str):
            raise BridgeError(f"on Spark the data store {name!r} must be a URL, which executors can open, too")
        if is_in_memory(target):
            raise BridgeError(f"executors cannot see the data store {name!r}: {target} is in this process's memory")
    return dict(stores or {})


def with_own_tables(
    script: ReplayScript, database: Any, relations: Collection[str], duckdb: Database
) -> tuple[ReplayScript, dict[str, pa.Table]]:
    """The script with its SQL in DuckDB's dialect, and the tables of the bridge's database that it names.

    The names in `relations` are known already. `duckdb`: a database with the executors' dialect.
    """
    if is_in_memory(database):
        return script, {}
    with open_home(database) as home:
        names = [*write_requests.own_tables(script.queries, home), *(node.name for node in script.nodes)]
        known = {name.lower() for name in (*script.declared, *script.queries, *relations)}
        missing = [name for name in dict.fromkeys(names) if name.lower() not in known]
        tables = {name: rows for name in missing if (rows := _rows(name, home)) is not None}
        queries = {
            n: (write_requests.in_dialect(node, home, duckdb), text) for n, (node, text) in script.queries.items()
        }
    return dataclasses.replace(script, queries=queries), tables


def _rows(name: str, home: Database) -> pa.Table | None:
    schema = home.relation(name)
    if schema is None:
        return None
    columns = ", ".join(map(home.quoted, schema.names))
    fetched = home.fetch(f"SELECT {columns} FROM {'.'.join(map(home.quoted, name.split('.')))}")
    decoders = [home.decoder(attribute.type) for attribute in schema]
    rows = [converted(row, decoders) for row in fetched]
    arrays = [pa.array([row[place] for row in rows], arrow_type(a.type)) for place, a in enumerate(schema)]
    return pa.Table.from_arrays(arrays, names=schema.names)


def stores_read(script: ReplayScript, stores: Mapping[str, str]) -> dict[str, str]:
    """The data stores that the queries of a script read."""
    nodes = (below for tree, _ in script.queries.values() for below in walk(tree))
    names = {node.store.lower() for node in nodes if isinstance(node, ReadSQL) and node.store is not None}
    return {name: url for name, url in stores.items() if name.lower() in names}


@dataclasses.dataclass(frozen=True)
class ScriptWrites:
    """The writers of a script, by the queries of their write requests.

    `serial`: whether events are computed one by one.
    """

    writers: Mapping[str, WriteNode]
    serial: bool
    kinds: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    """The columns of the rows that each writer receives, with `ts`."""

    def restrict(self, name: str, partitioning: Partitioning) -> Partitioning:
        """How a query can be cut: write requests only by time, because they contain the numbers of their events."""
        if self.serial:
            return Partitioning(None, {}, "one event reads what those before it wrote")
        return dataclasses.replace(partitioning, keys={}) if name in self.writers else partitioning

    def learn_columns(self, cep: Bridge) -> None:
        """Reads the columns of all writers' rows in a bridge that has the queries."""
        for name in self.writers:
            node = session_of(cep).catalogue.query_entry(name).resolved.node
            assert isinstance(node, WriteRequests)
            self.kinds[name] = {"ts": "BIGINT", **session_of(cep).catalogue.types(node.input)}

    def events_before(
        self, bounds: Sequence[int] | None, names: Iterable[str], events: Iterable[Events]
    ) -> tuple[int, ...]:
        """The number of events before each slice, if write requests are computed in slices; else empty."""
        if bounds is None or self.writers.keys().isdisjoint(names):
            return ()
        from pyspark.sql import functions as F  # noqa: N812

        times = functools.reduce(lambda a, b: a.unionByName(b), (one.frame.select(TIME) for one in events))
        parts = [F.count(F.when(F.col(TIME) < bound, 1)) for bound in bounds[:-1]]
        return tuple(times.agg(*parts).first() or ())


NO_WRITES = ScriptWrites({}, False)


def is_serial(script: ReplayScript, cep: Bridge) -> bool:
    """Whether events must be computed one by one, as a query reads another one's writes, or counts its own changes."""
    trees = [session_of(cep).catalogue.query_entry(name).resolved.node for name in script.queries]
    updates = [node for tree in trees for node in walk(tree) if isinstance(node, UpdateSQL) and node.store is None]
    alone = all(write_requests.counts_by_itself(node, cep.database) for node in updates if node.changed)
    return not alone or bool(conflicts(trees, cep.database))


@contextlib.contextmanager
def open_home(database: Any) -> Iterator[Database]:
    """A database; it is closed afterwards if it was given as a URL."""
    if isinstance(database, Database):
        yield database
        return
    home = open_database(database)
    try:
        yield home
    finally:
        home.close()
