"""History from Parquet to Parquet on Spark: an aggregate, a correlation, and two row patterns, over many keys or one.

The events lie in the order of time, one a millisecond. Up to a number of events the rows are first compared with those
of the local replay.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bridge
from bridge.errors import BridgeError

QUERIES = {
    "filter": "SELECT symbol, price FROM t WHERE price > 99",
    "aggregate": "SELECT symbol, COUNT(*) AS n, AVG(price) AS mean FROM t WINDOW(RANGE 10 S) GROUP BY symbol",
    "correlation": "SELECT a.symbol, a.price AS low, b.price AS high FROM t WINDOW(RANGE 2 S) a, t WINDOW(RANGE 2 S) b "
    "WHERE a.symbol = b.symbol AND b.price > a.price * 50",
    "V shape": "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY symbol "
    "MEASURES FIRST(DOWN.price) AS top, LAST(UP.price) AS back PATTERN (STRT DOWN+ UP+) "
    "DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))",
    "A B+ C": "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY symbol "
    "MEASURES A.price AS x, LAST(B.price) AS y, C.price AS z PATTERN (A B+ C) WITHIN 10 S "
    "DEFINE B AS price > A.price, C AS price < A.price * 0.9)",
}

COMPARED = 1_000_000
"""Histories up to so many events are compared with the local replay."""


@dataclasses.dataclass(frozen=True)
class Run:
    """The seconds of one query over so many events of so many keys, and the pieces it was computed in."""

    query: str
    events: int
    keys: int
    results: int
    seconds: float
    local: float | None
    told: str


def measure(
    events: Sequence[int], keys: Sequence[int], names: Sequence[str], cores: int, tell: Callable[[str], None]
) -> Iterator[Run]:
    """Each query over each history, in a session that has been used before; raises BridgeError where rows differ."""
    from bridge.spark import session
    from bridge.spark.files import read, write
    from bridge.spark.pieces import Replay

    spark = session(cores=cores)
    spark.range(10).mapInArrow(lambda batches: batches, "id long").count()  # the workers have started
    for count in events:
        for each in keys:
            with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                folder = Path(name)
                _write(folder / "t.parquet", count, each)
                for query in names:
                    tell(f"{query}: {count:,} events of {each:,} keys")
                    began = time.perf_counter()
                    replay = Replay({"t": folder / "t.parquet"}, {"q": QUERIES[query]}, spark=spark)
                    done = write(replay, str(folder / "out"))[0]
                    seconds = time.perf_counter() - began
                    local = None
                    if count <= COMPARED:
                        began = time.perf_counter()
                        wanted = bridge.replay({"t": folder / "t.parquet"}, {"q": QUERIES[query]}, out=folder / "local")
                        local = time.perf_counter() - began
                        if not _alike(read(replay, str(folder / "out"))["q"].toArrow(), wanted["q"]):
                            raise BridgeError(f"{query}: Spark and the local replay give other rows")
                    yield Run(query, count, each, done.rows, seconds, local, done.told)


def markdown(runs: Sequence[Run]) -> str:
    """The figures as a table."""
    lines = ["| query | keys | events | results | seconds | events/s | local, seconds | pieces |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|---|")
    for run in runs:
        local = "" if run.local is None else f"{run.local:.1f}"
        rate = f"{run.events / run.seconds:,.0f}"
        lines.append(
            f"| {run.query} | {run.keys:,} | {run.events:,} | {run.results:,} | {run.seconds:.1f} | {rate} | {local} "
            f"| {run.told} |"
        )
    return "\n".join(lines)


def _alike(one: pa.Table, other: pa.Table) -> bool:
    """The same rows in the same order; the order in which doubles were added may show in their last digits."""
    if one.schema.names != other.schema.names or one.num_rows != other.num_rows:
        return False
    pairs = [(one.column(name), other.column(name)) for name in one.schema.names]
    return all(
        np.allclose(a.to_numpy(), b.to_numpy(), rtol=1e-9, equal_nan=True)
        if pa.types.is_floating(a.type)
        else a.equals(b)
        for a, b in pairs
    )


def _write(path: Path, count: int, keys: int) -> None:
    rng = np.random.default_rng(7)
    schema = pa.schema([("ts", pa.int64()), ("symbol", pa.int64()), ("price", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, count, 1_000_000):
            size = min(1_000_000, count - first)
            columns = [
                np.arange(first, first + size),
                rng.integers(0, keys, size),
                np.round(rng.uniform(1, 100, size), 2),
            ]
            writer.write_table(pa.Table.from_arrays([pa.array(c) for c in columns], schema=schema))
