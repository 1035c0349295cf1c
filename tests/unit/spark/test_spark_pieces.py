"""What Spark's executors do, without Spark: a history cut at random instants or by key gives the rows of the whole."""

from __future__ import annotations

import dataclasses
import warnings
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import bridge
from bridge import query as q
from bridge.engine.result_set import arrow_table
from bridge.history.pieces import Partitioning, partitioning
from bridge.history.script import ReplayScript
from bridge.sources.layout import layout_of
from bridge.sources.relations import create_relation
from bridge.spark.columns import EVENT_ID, FILE_BITS, ORDER, PIECE, PLACE, STREAM_BITS, TIME
from bridge.spark.first_rows import with_first_row
from bridge.spark.task import PieceTask, StreamFeed, needed_queries
from tests.random.test_differential import LONG, same_rows
from tests.support.generate import Case, random_case
from windows.arrow import arrow_type
from windows.schema import Attribute, Schema

Rows = dict[str, list[tuple[int, tuple[Any, ...]]]]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(14))
def test_pieces_give_the_rows_of_the_whole(seed: int):
    differs(seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 1000 + LONG, 100))
def test_pieces_give_the_rows_of_the_whole_on_many_seeds(start: int):
    for seed in range(start, start + 100):
        differs(seed)


def differs(seed: int) -> None:
    case = dataclasses.replace(random_case(seed), end=None)
    history = History(case)
    whole = history.whole()
    for name, way in history.ways.items():
        if way.look_back is not None:
            assert same_rows(whole[name], history.sliced(name, way.look_back, Random(seed))), (seed, name, "slices")
        if way.keys:
            assert same_rows(whole[name], history.keyed(name, way.keys)), (seed, name, "keys", way.keys)


class History:
    """A case's events as the tables of its streams, and ways to go through them."""

    def __init__(self, case: Case) -> None:
        read = {name.lower() for name in ReplayScript.of(dict(case.queries)).reads}
        self.schemas = {name: Schema.of(schema) for name, schema in case.schemas.items() if name.lower() in read}
        self.case = case = dataclasses.replace(case, events=tuple(e for e in case.events if e[0] in self.schemas))
        self.tables = {name: self._table(name) for name in self.schemas}
        self.relations = {name: _relation(Schema.of(s), rows) for name, (s, rows) in case.relations.items()}
        self.now = max((ts for *_, ts in case.events), default=0)
        with bridge.connect() as cep:
            for name, table in self.relations.items():
                create_relation(cep.database, name, table)
            for name, schema in self.schemas.items():
                cep.register_stream(name, schema)
            for name, node in case.queries.items():
                cep.create_query(name, node)
            entries = {name: cep._catalogue.query_entry(name) for name in case.queries}
            self.ways: dict[str, Partitioning] = {name: partitioning(name, cep._catalogue) for name in case.queries}
            self.nodes = {name: entry.resolved.node for name, entry in entries.items()}
            self.shapes = {name: arrow_table(entry.fields, []).schema for name, entry in entries.items()}

    def whole(self) -> Rows:
        found = bridge.replay(self.tables, dict(self.case.queries), relations=self.relations)
        return {name: _rows(table) for name, table in found.items()}

    def sliced(self, name: str, back: int, rng: Random) -> list[tuple[int, tuple[Any, ...]]]:
        times = sorted({ts for *_, ts in self.case.events})
        inner = sorted(rng.sample(times[1:], min(rng.choice([1, 2, 5]), len(times) - 1)))
        bounds = (times[0], *inner, self.now + 1)
        pieces = []
        for row in self._events().to_pylist():
            first, last = (sum(at >= bound for bound in inner) for at in (row[TIME], row[TIME] + back + 1))
            pieces += [{**row, PIECE: piece} for piece in range(first, last + 1)]
        return _rows(self._run(name, pieces, bounds).drop_columns(list(ORDER)))

    def keyed(self, name: str, keys: Any) -> list[tuple[int, tuple[Any, ...]]]:
        pieces = []
        for row in self._events().to_pylist():
            number = row[PLACE] >> STREAM_BITS
            stream = list(self.schemas)[number]
            attributes = self.schemas[stream].names
            values = [row[f"s{number}c{attributes.index(k) + 1}"] for (k,) in keys.get(stream.lower(), ())]
            key = sum(map(_number, values))
            pieces.append({**row, PIECE: key % 3})
        table = self._run(name, pieces, None).sort_by([(c, "ascending") for c in ORDER])
        return _rows(table.drop_columns(list(ORDER)))

    def _run(self, name: str, pieces: list[dict[str, Any]], bounds: tuple[int, ...] | None) -> pa.Table:
        pieces.sort(key=lambda row: (row[PIECE], row[TIME], row[PLACE]))
        queries = dict(self.case.queries)
        changed = with_first_row(self.nodes[name]) if bounds is None else None
        if changed is not None:
            queries[name] = changed
        order = [(column, pa.int64()) for column in ORDER]
        schema = pa.schema([*order, *self.shapes[name]])
        needed = needed_queries(queries.items(), [name])
        task = PieceTask(self._feeds(changed is not None), needed, {name: schema}, self.relations, self.now, bounds)
        table = pa.Table.from_pylist(pieces, self._events().schema)
        found = [rows for _, _, rows in task.results(iter(table.to_batches(max_chunksize=7)))]
        return pa.concat_tables([schema.empty_table(), *(rows.select(schema.names).cast(schema) for rows in found)])

    def _feeds(self, placed: bool) -> tuple[StreamFeed, ...]:
        feeds = []
        for number, (name, schema) in enumerate(self.schemas.items()):
            layout = layout_of(name, dict(zip(*_names_and_types(self.tables[name]), strict=True)), schema, "ts", print)
            columns = tuple(f"s{number}c{place}" for place in range(len(layout.columns)))
            whole = Schema((*schema, *(Attribute(a, "BIGINT") for a in EVENT_ID))) if placed else schema
            feeds.append(StreamFeed(name, whole, layout, columns, number, placed))
        return tuple(feeds)

    def _events(self) -> pa.Table:
        parts = []
        for number, table in enumerate(self.tables.values()):
            count = table.num_rows
            place = pa.array([(number << STREAM_BITS) + (0 << FILE_BITS) + row for row in range(count)], pa.int64())
            columns = [pa.array([0] * count, pa.int32()), table.column(0), place, *table.columns]
            own = [f"s{number}c{at}" for at in range(table.num_columns)]
            parts.append(pa.Table.from_arrays(columns, names=[PIECE, TIME, PLACE, *own]))
        return pa.concat_tables(parts, promote_options="default")

    def _table(self, stream: str) -> pa.Table:
        schema = self.schemas[stream]
        events = [(ts, *payload) for name, payload, ts in self.case.events if name == stream]
        columns = list(zip(*events, strict=True)) or [()] * (len(schema.names) + 1)
        kinds = [pa.int64(), *(arrow_type(attribute.type) for attribute in schema)]
        arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
        return pa.Table.from_arrays(arrays, names=["ts", *schema.names])


def _relation(schema: Schema, rows: Any) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema.names)
    arrays = [pa.array(v, arrow_type(a.type)) for v, a in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, names=schema.names)


def _rows(table: pa.Table) -> list[tuple[int, tuple[Any, ...]]]:
    return [(ts, tuple(values)) for ts, *values in zip(*(c.to_pylist() for c in table.columns), strict=True)]


def _names_and_types(table: pa.Table) -> tuple[list[str], list[pa.DataType]]:
    return table.schema.names, table.schema.types


def _number(value: Any) -> int:
    """The same for values that SQL calls equal."""
    return 0 if value is None else hash(value)


def test_what_looks_back_without_bound_and_mixes_keys_is_one_piece():
    with bridge.connect() as cep:
        cep.register_stream("s", "k INTEGER, a INTEGER")
        cep.create_query("last", q.Aggregate(q.Window(q.Stream("s"), "ROWS 5"), ["SUM(a) AS n"]))
        found = partitioning("last", cep._catalogue)
    assert found.look_back is None and not found.keys and "without bound" in found.reason


@pytest.mark.parametrize(
    "above", ["SELECT * FROM {mr}", "SELECT k, COUNT(*) AS n FROM {mr} WINDOW(UNBOUNDED) GROUP BY k"]
)
def test_matches_whose_first_rows_are_not_known_are_one_piece(above: str):
    """What the end decides of several keys has an order, also where no time limit does."""
    mr = "(SELECT * FROM some MATCH_RECOGNIZE (PARTITION BY k MEASURES A.a AS x PATTERN (A B+) DEFINE B AS a > A.a))"
    with bridge.connect() as cep, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cep.register_stream("s", "k INTEGER, a INTEGER")
        cep.create_query("some", "SELECT k, a FROM s WHERE a > 1")
        cep.create_query("m", above.format(mr=mr))
        assert not partitioning("m", cep._catalogue).keys
