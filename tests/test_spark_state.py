"""Structured Streaming, without Spark: each step goes on from the state of the one before, in a new bridge."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from random import Random
from typing import Any

import pandas
import pyarrow as pa
import pytest
from generate import random_case
from test_differential import LONG, same_rows
from test_spark_pieces import History, _number, _rows

import bridge
from bridge.intake import EARLIEST
from bridge.spark.order import PIECE, PLACE, STREAM_BITS, TIME
from bridge.spark.state import written
from bridge.spark.stream import Piece, placed
from bridge.spark.task import Task

Rows = list[tuple[int, tuple[Any, ...]]]


@pytest.mark.parametrize("seed", range(12))
def test_a_stream_gives_the_rows_of_a_bridge(seed: int) -> None:
    differs(seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(2000, 2000 + LONG, 100))
def test_a_stream_gives_the_rows_of_a_bridge_on_many_seeds(start: int) -> None:
    for seed in range(start, start + 100):
        differs(seed)


def differs(seed: int) -> None:
    history = History(dataclasses.replace(random_case(seed), end=None))
    lateness = Random(seed).choice([0, 3, 20])
    steps, end = arrivals(history, lateness, Random(seed))
    for name, rows in live(history, steps, lateness, end).items():
        for keys in {(): None, tuple(sorted(history.ways[name].apart.items())): None}:
            found = streamed(history, name, dict(keys), steps, lateness)
            assert same_rows(sorted(rows, key=str), sorted(found, key=str)), (seed, name, keys)


def arrivals(history: History, lateness: int, rng: Random) -> tuple[list[pa.Table], int]:
    """The events in steps, some late, some too late; and the last time."""
    events = history._events()
    times = events.column(TIME).to_numpy() + [rng.choice([0, 0, lateness, lateness * 2]) for _ in range(len(events))]
    order = sorted(range(len(events)), key=lambda place: times[place])
    shaken = events.take(pa.array(order, pa.int64()))
    bounds = sorted(rng.sample(range(len(order) + 1), min(len(order), rng.choice([2, 5, 9]))))
    cut = zip([0, *bounds], [*bounds, len(order)], strict=True)
    return [shaken.slice(first, last - first) for first, last in cut], history.now


def live(history: History, steps: list[pa.Table], lateness: int, end: int) -> dict[str, Rows]:
    """What a bridge tells until the watermark of the end, of the events that are not too late."""
    found: dict[str, Rows] = {name: [] for name in history.case.queries}
    kept, reached, newest = list[dict[str, Any]](), EARLIEST, EARLIEST
    for step in steps:
        fresh = [row for row in step.to_pylist() if row[TIME] >= reached]
        kept += fresh
        newest = max([newest, *(row[TIME] for row in step.to_pylist())])
        reached = max(reached, newest - lateness)
    names = list(history.schemas)
    kept = sorted((row for row in kept if row[TIME] <= reached), key=lambda row: (row[TIME], row[PLACE] >> STREAM_BITS))
    with bridge.connect() as cep:
        for name, table in history.relations.items():
            bridge.sources.relations.create_relation(cep.database, name, table)
        for name, schema in history.schemas.items():
            cep.register_stream(name, schema)
        for name, node in history.case.queries.items():
            cep.create_query(name, node)
            cep.add_output_processor(
                name, lambda e, rows=found[name]: rows.append((e.timestamp, tuple(e.payload.values())))
            )
        for row in kept:
            number = row[PLACE] >> STREAM_BITS
            width = len(history.schemas[names[number]].names)
            cep.push_event(names[number], [row[f"s{number}c{place}"] for place in range(1, width + 1)], row[TIME])
        if kept and reached > (cep.now or EARLIEST):
            cep.advance_time(reached)
    return found


def streamed(history: History, name: str, keys: Any, steps: list[pa.Table], lateness: int) -> Rows:
    """What the pieces of a stream tell, each step in a new process as it were."""
    task = Task(
        history._feeds(False), tuple(history.case.queries.items()), {name: history.shapes[name]}, history.relations, 0,
        open_end=True,
    )  # fmt: skip
    states: dict[int, State] = {}
    found: Rows = []
    watermark = newest = 0
    for step in [*steps, step_without(steps[0])]:
        rows = placed(step, 0, 0).to_pylist()
        for row in rows:
            row[PIECE] = _piece(history, row, keys)
        for piece in sorted({0, 1, 2} if keys else {0}):
            mine = pa.Table.from_pylist([row for row in rows if row[PIECE] == piece], step.schema)
            if not mine.num_rows and piece not in states:
                continue
            state = states.setdefault(piece, State())
            state.watermark, state.hasTimedOut = watermark, not mine.num_rows
            batches = [pandas.DataFrame({"rows": [written(mine)]})] if mine.num_rows else []
            for frame in Piece(task, name).run((piece,), iter(batches), state):
                found += [row for packed in frame["rows"] for row in _told(packed)]
        newest = max([newest, *(row[TIME] for row in rows)])
        watermark = max(watermark, newest - lateness - 1)
    return found


def step_without(step: pa.Table) -> pa.Table:
    """The step in which Spark only lets time pass."""
    return step.slice(0, 0)


def _piece(history: History, row: dict[str, Any], keys: Any) -> int:
    if not keys:
        return 0
    number = row[PLACE] >> STREAM_BITS
    stream = list(history.schemas)[number]
    names = history.schemas[stream].names
    return sum(_number(row[f"s{number}c{names.index(k) + 1}"]) for (k,) in keys.get(stream.lower(), ())) % 3


def _told(packed: bytes) -> Iterator[tuple[int, tuple[Any, ...]]]:
    from bridge.spark.state import read

    yield from _rows(read(packed))


class State:
    """Spark's state of one piece."""

    def __init__(self) -> None:
        self.exists, self.hasTimedOut = False, False
        self.watermark = 0
        self.get: Any = None

    def getCurrentWatermarkMs(self) -> int:  # noqa: N802
        return self.watermark

    def update(self, value: Any) -> None:
        self.exists, self.get = True, value

    def setTimeoutTimestamp(self, at: int) -> None:  # noqa: N802
        assert at > self.watermark
