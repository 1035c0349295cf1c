"""Cases of standard streaming SQL as histories, many of which are replayed at once: each has names of its own."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import bridge
from bridge import query as q
from bridge.frontends.sql.statements import statements
from bridge.frontends.statements import CreateQuery, CreateStream, Query
from bridge.history.script import ReplayScript
from bridge.sources.relations import create_relation
from tests.support.streaming_sql import Row, in_order
from windows.arrow import arrow_type
from windows.schema import Schema

Event = tuple[str, int, Sequence[Any]]
"""The stream of an event, its time and its values."""


@dataclasses.dataclass(frozen=True)
class History:
    """Queries over streams, of which the last one counts, and events in the order of time, until `end`."""

    schemas: Mapping[str, Schema]
    queries: Mapping[str, q.Node]
    events: Sequence[Event]
    end: int
    relations: Mapping[str, pa.Table]

    @property
    def last(self) -> str:
        """The name of the query whose results count."""
        return [*self.queries][-1]

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The events of each stream that is read. A replay takes events of one time in the order of the streams."""
        read = {name.lower() for name in ReplayScript.of(dict(self.queries)).reads}
        order = next(order for order in itertools.permutations(self.schemas) if self._is_in_order(order))
        return {name: self._table(name) for name in order if name.lower() in read}

    def _is_in_order(self, order: Sequence[str]) -> bool:
        return list(self.events) == sorted(self.events, key=lambda event: (event[1], order.index(event[0])))

    def _table(self, stream: str) -> pa.Table:
        own = [(ts, values) for name, ts, values in self.events if name == stream]
        columns = {"ts": pa.array([ts for ts, _ in own], pa.int64())}
        for place, attribute in enumerate(self.schemas[stream].attributes):
            columns[attribute.name] = pa.array([values[place] for _, values in own], arrow_type(attribute.type))
        return pa.table(columns)

    def with_restarts(self, url: str) -> list[Row]:
        """The results on a database that is closed and opened again after every second event."""
        found: list[Row] = []
        with bridge.connect(url) as cep:
            for name, table in self.relations.items():
                create_relation(cep.database, name, table)
        for place in range(0, len(self.events), 2):
            with self._opened(url, found) as cep:
                for stream, ts, values in self.events[place : place + 2]:
                    cep.push_event(stream, list(values), ts)
        with self._opened(url, found) as cep:
            cep.advance_time(self.end)
            cep.finish()
        return in_order(found)

    def _opened(self, url: str, found: list[Row]) -> bridge.Bridge:
        cep = bridge.connect(url)
        for name, schema in self.schemas.items():
            cep.register_stream(name, schema)
        for name, node in self.queries.items():
            cep.create_query(name, node)
        cep.add_output_processor(self.last, lambda event: found.append([event.timestamp, *event.payload.values()]))
        return cep


def history_of(case: Mapping[str, Any], own: str) -> History:
    """The history of a conformance case. `own` is put before each name; late events, which are refused, are left out."""
    schemas = {own + name: Schema.of(columns) for name, columns in case["streams"].items()}
    queries: dict[str, q.Node] = {}
    for one in statements(case["sql"], "duckdb"):
        match one:
            case CreateStream(name, schema):
                schemas[own + name] = schema
            case CreateQuery(name, node):
                queries[own + name] = _renamed(node, own)
            case Query(node):
                queries[own + "q"] = _renamed(node, own)
    times = {name: rest for name, *rest in case["events"] if name in ("time", "finish")}
    relations = {
        own + name: pa.table(
            {column: [row[place] for row in table["rows"]] for place, column in enumerate(table["columns"])}
        )
        for name, table in case.get("tables", {}).items()
    }
    return History(schemas, queries, [*_accepted(case["events"], schemas, own)], times["time"][0], relations)


def _accepted(events: Iterable[Sequence[Any]], schemas: Mapping[str, Schema], own: str) -> Iterator[Event]:
    newest = None
    for stream, *rest in events:
        if stream in ("time", "finish") or (newest is not None and rest[0] < newest):
            continue
        newest, payload = rest
        yield own + stream, newest, [payload.get(name) for name in schemas[own + stream].names]


def _renamed(node: q.Node, own: str) -> q.Node:
    if isinstance(node, q.Stream):
        return dataclasses.replace(node, name=own + node.name)
    return node.with_inputs(lambda below: _renamed(below, own))


def covering(histories: Mapping[str, History], features: Callable[[q.Node], Iterable[Hashable]]) -> list[str]:
    """Some histories whose queries together have all features that any has."""
    found = {
        name: {each for node in one.queries.values() for each in features(node)} for name, one in histories.items()
    }
    left, chosen = set().union(*found.values()), list[str]()
    while left:
        chosen.append(max(found, key=lambda name: len(found[name] & left)))
        left -= found[chosen[-1]]
    return chosen


def operators(node: q.Node) -> Iterator[str]:
    """The kinds of operators in a tree."""
    yield _kind(node)
    for below in node.inputs_of:
        yield from operators(below)


def pairs_of_operators(node: q.Node) -> Iterator[tuple[str, str]]:
    """The kinds of operators in a tree, each with the kind of one that it reads."""
    for below in node.inputs_of:
        yield _kind(node), _kind(below)
        yield from pairs_of_operators(below)


def _kind(node: q.Node) -> str:
    if not isinstance(node, q.Window):
        return type(node).__name__
    return f"{type(node.extent).__name__} {node.extent.jumps}"


def replayed(histories: Mapping[str, History], out: Path | None = None, **options: Any) -> dict[str, list[Row]]:
    """The results of all histories in one replay; `out` is a directory for those of Spark."""
    several = list(histories.values())
    tables, queries, relations = (
        {name: value for each in several for name, value in getattr(each, field).items()}
        for field in ("tables", "queries", "relations")
    )
    if out is not None:
        options["out"] = out
    options["end"] = max(each.end for each in several)
    found = bridge.replay(tables, queries, relations=relations or None, **options)

    def rows(history: History) -> list[Row]:
        if out is None:
            table = found[history.last]
        else:
            files = sorted((out / f"{history.last}.parquet").glob("*.parquet"))  # in the order of the results
            table = pa.concat_tables(map(pq.read_table, files))
        columns = [column.to_pylist() for column in table.columns]
        # the others may go on, so what comes with the end of all comes later
        return in_order([min(ts, history.end), *values] for ts, *values in zip(*columns, strict=True))

    return {name: rows(each) for name, each in histories.items()}
