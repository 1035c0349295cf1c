"""When matches of a bounded history were decided: by the strategies of bounded data, as the live query tells them."""

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
from bridge.spark.bounded import bounded_query
from bridge.spark.columns import ORDER, PLACE
from nfa.errors import ExhaustedError
from tests.support.row_pattern_generate import COLUMNS, generate
from windows.arrow import arrow_type
from windows.schema import Schema

SCHEMA = Schema.of(COLUMNS)
MORE = 7
"""Milliseconds that time goes on after the last event."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("block", range(2))
def test_bounded_is_live(block: int):
    told = sum(agrees(seed) for seed in range(50 * block, 50 * block + 50))
    assert told > 5


@pytest.mark.long
@pytest.mark.parametrize("block", range(100))
def test_bounded_is_live_for_long(block: int):
    for seed in range(10_000 + 100 * block, 10_100 + 100 * block):
        agrees(seed)


def agrees(seed: int) -> bool:
    """Whether the clause of this seed could be told in either way; then both are the same."""
    example = generate(seed, ("row", "first") if seed % 2 else ("row",))
    rng = Random(seed)
    rows = sorted(example.rows, key=lambda row: (row[1], row[2]))
    times = [row[1] for row in rows]
    clause = dataclasses.replace(example.clause, order_by=())
    if clause.within is None and rng.random() < 0.5:
        clause = dataclasses.replace(clause, within=rng.choice([1, 2, 4]))
    node = query.MatchRecognize(query.Stream("s"), clause)
    with warnings.catch_warnings(), bridge.connect() as cep:
        warnings.simplefilter("ignore")
        cep.register_stream("s", COLUMNS)
        try:
            cep.create_query("m", node)
        except QueryError:
            return False
        resolved = cep._catalogue.query_entry("m")
        asked = bounded_query(resolved.resolved.node, resolved.names, cep.streams)
        if asked is None:
            return False
        live: list[tuple[Any, ...]] = []
        cep.add_output_processor("m", lambda e: live.append((e.timestamp, *e.payload.values())))
        now = max(times, default=0) + MORE
        try:
            cep.push_events("s", [(row, ts) for row, ts in zip(rows, times, strict=True)])
            cep.advance_time(now)
            cep.finish()
        except QueryError:
            return False  # SKIP leads nowhere
    try:
        found = asked.results(SCHEMA, history(rows, times), now)
    except ExhaustedError:
        return False
    found = found.sort_by([(name, "ascending") for name in ORDER]).drop_columns(list(ORDER))
    got = [tuple(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]
    assert list(map(alike, got)) == list(map(alike, live)), (seed, str(example))
    return True


def history(rows: list[tuple[Any, ...]], times: list[int]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    arrays = [pa.array(v, arrow_type(a.type)) for v, a in zip(columns, SCHEMA, strict=True)]
    arrays = [pa.array(times, pa.int64()), *arrays, pa.array(np.arange(len(rows)))]
    return pa.Table.from_arrays(arrays, names=["ts", *SCHEMA.names, PLACE])


def alike(row: tuple[Any, ...]) -> str:
    """Numbers of one value are alike: a measure's type may be found by its values."""
    return repr([float(v) if isinstance(v, (int, float)) and not isinstance(v, bool) else v for v in row])
