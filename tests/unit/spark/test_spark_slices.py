"""Slices of one partition, without Spark: however a history is cut, the matches are those of the live query."""

from __future__ import annotations

import dataclasses
import warnings
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bridge
from bridge import query
from bridge.errors import QueryError
from bridge.query.row_pattern import PerMatch, RowPattern, Skip
from bridge.spark.bounded import BoundedQuery, bounded_query, match_number_columns, private_database
from bridge.spark.columns import FIRST_AT, FIRST_PLACE, ORDER, REPORT, SLICE
from bridge.spark.slices import EventId, SliceReport, SliceSearch, SliceShare, TimeSlices, cut_evenly, join
from bridge.spark.task import StreamFeed
from tests.support.row_pattern_generate import COLUMNS, generate
from tests.unit.spark.test_spark_bounded import MORE, SCHEMA, alike, history
from windows.databases.duckdb import DuckDB

SEEDS, FOR_LONG = 40, 20_000


def test_slices_give_the_rows_of_the_whole():
    assert sum(map(agrees, range(SEEDS))) > 10  # so often slices were joined


@pytest.mark.long
@pytest.mark.parametrize("block", range(100))
def test_slices_give_the_rows_of_the_whole_for_long(block: int):
    size = FOR_LONG // 100
    for seed in range(100_000 + size * block, 100_000 + size * (block + 1)):
        agrees(seed)


def agrees(seed: int) -> int:
    """How often the clause of this seed was answered in slices; each time with the rows of the live query."""
    rng = Random(seed)
    example = generate(seed, ("row", "first") if seed % 2 else ("row",))
    clause = tellable(example.clause, rng)
    rows = [rng.choice(example.rows) for _ in range(rng.choice([10, 25, 60]))] if example.rows else []
    times: list[int] = np.cumsum([rng.choice([0, 1, 1, 2, 5]) for _ in rows]).tolist()
    now = max(times, default=0) + MORE
    asked, live = lived(clause, rows, times, now) if rows else (None, None)
    if asked is None or live is None:
        return 0
    events = history(rows, times)
    with private_database() as database:
        found = [sliced(database, asked, events, some_slices(times, now, rng)) for _ in range(3)]
    for table in (table for table in found if table is not None):
        assert list(map(alike, _tuples(table))) == list(map(alike, live)), (seed, str(example))
    return sum(table is not None for table in found)


def tellable(clause: RowPattern, rng: Random) -> RowPattern:
    """The clause over one partition of a stream, more often one that slices can answer."""
    per_match, skip = clause.per_match, clause.skip
    if per_match is PerMatch.WITH_UNMATCHED:
        per_match = PerMatch.ONE_ROW
    if skip.variable is not None:
        skip = Skip(rng.choice(["PAST LAST ROW", "TO NEXT ROW"]))
    within = clause.within
    if within is None and rng.random() < 0.4:
        within = rng.choice([1, 2, 4, 9])
    return dataclasses.replace(clause, order_by=(), partition_by=(), per_match=per_match, skip=skip, within=within)


def lived(
    clause: RowPattern, rows: list[tuple[Any, ...]], times: list[int], now: int
) -> tuple[BoundedQuery | None, list[tuple[Any, ...]] | None]:
    """The clause as slices can answer it, and what the live query reports."""
    with warnings.catch_warnings(), bridge.connect() as cep:
        warnings.simplefilter("ignore")
        cep.register_stream("s", COLUMNS)
        try:
            cep.create_query("m", query.MatchRecognize(query.Stream("s"), clause))
            entry = cep._catalogue.query_entry("m")
            asked = bounded_query(entry.resolved.node, entry.names, cep.streams)
            if asked is None or match_number_columns(asked, SCHEMA) is None:
                return None, None
            live: list[tuple[Any, ...]] = []
            cep.add_output_processor("m", lambda e: live.append((e.timestamp, *e.payload.values())))
            cep.push_events("s", [(row, ts) for row, ts in zip(rows, times, strict=True)])
            cep.advance_time(now)
            cep.finish()
        except QueryError:
            return None, None
        return asked, live


def some_slices(times: list[int], now: int, rng: Random) -> TimeSlices:
    """Slices cut anywhere, or as they are cut on Spark."""
    if rng.random() < 0.3:
        return cut_evenly(times, now, rng.choice([2, 3, 7]), rng.choice([0, 0.05, 0.2]), rng.choice([0, 3, 20]))
    instants = sorted(set(times))
    firsts = [instants[0], *sorted(rng.sample(instants[1:], min(len(instants) - 1, rng.choice([1, 2, 5]))))]
    ahead = rng.choice([0, 3, 8, 25])
    return TimeSlices(tuple(firsts), (*(min(first + ahead, now) for first in firsts[1:]), now))


def sliced(database: DuckDB, asked: BoundedQuery, events: pa.Table, slices: TimeSlices) -> pa.Table | None:
    """The results by slices; None where they could not be joined."""
    feed = StreamFeed("s", SCHEMA, None, (), 0)  # type: ignore[arg-type]
    times = events.column("ts").to_numpy()
    whole = asked.search(database, SCHEMA, events, slices.horizons[-1]).table.schema
    order = [(SLICE, pa.int32()), (REPORT, pa.binary())]
    search = SliceSearch(feed, asked, slices, pa.schema([*order, *whole]))
    found, reports = [], []
    for number, (first, horizon) in enumerate(zip(slices.firsts, slices.horizons, strict=True)):
        own = events.filter(pa.array((times >= first) & (times <= horizon)))
        table, told = search.search(database, number, own)
        if not told:
            return None
        found.append(table)
        reports.append(SliceReport.from_bytes(told))
    shares = join(reports)
    if shares is None:
        return None
    kept = [counted(asked, table, share) for table, share in zip(found, shares, strict=True)]
    return pa.concat_tables(kept).drop_columns([SLICE, REPORT, *ORDER])


def counted(asked: BoundedQuery, table: pa.Table, share: SliceShare) -> pa.Table:
    """The results that count, as Spark would choose them."""
    firsts: list[EventId] = list(zip(table[FIRST_AT].to_pylist(), table[FIRST_PLACE].to_pylist(), strict=True))
    kept = table.filter(pa.array([share.since <= first < share.until for first in firsts], pa.bool_()))
    for name in match_number_columns(asked, SCHEMA) or ():
        place = kept.schema.get_field_index(name)
        more = [value + share.shift for value in kept[name].to_pylist()]
        kept = kept.set_column(place, name, pa.array(more, kept.schema.field(name).type))
    return kept


def _tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
