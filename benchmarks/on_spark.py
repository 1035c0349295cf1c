"""Replay on Spark, from Parquet to Parquet: an aggregate, a correlation, and two row patterns, over many keys or one.

The events are in the order of time, one per millisecond. Up to COMPARED events, the rows are compared with those of the local
replay. Plain Spark SQL in the same session, written by hand, is a peer where one statement can give the rows; so is a batch
job of Flink SQL on as many cores for two of the patterns.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import bridge
from benchmarks.compared import difference
from benchmarks.peers import RefusedError, csv_of, seconds_of
from bridge.errors import BridgeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "filter": "SELECT symbol, price FROM t WHERE price > 99",
    "jumping": "SELECT symbol, COUNT(*) AS n, MAX(price) AS top FROM t WINDOW(RANGE 1 MIN SLIDE 1 MIN) GROUP BY symbol",
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

QUERIES["V shape, first row up"] = QUERIES["V shape"].replace("UP+)", "UP)")
"""The query for Flink, which has no greedy variable at the end of a pattern."""

SPARK_SQL = {
    "filter": "SELECT ts, symbol, price FROM t WHERE price > 99 ORDER BY ts",
    "jumping": "SELECT ts, symbol, n, top FROM (SELECT (ts DIV 60000 + 1) * 60000 AS ts, symbol, COUNT(*) AS n, "
    "MAX(price) AS top FROM t GROUP BY 1, 2) WHERE ts <= (SELECT MAX(ts) FROM t) ORDER BY ts",
    "aggregate": "SELECT ts, symbol, COUNT(*) OVER w AS n, AVG(price) OVER w AS mean FROM t "
    "WINDOW w AS (PARTITION BY symbol ORDER BY ts RANGE BETWEEN 9999 PRECEDING AND CURRENT ROW) ORDER BY ts",
}
"""The same queries in plain Spark SQL, with `ts` and in its order."""

FLINK = {
    "V shape, first row up": """SELECT symbol, top, back FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY rt
        MEASURES FIRST(DOWN.price) AS top, LAST(UP.price) AS back
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (STRT DOWN+ UP)
        DEFINE DOWN AS (LAST(DOWN.price, 1) IS NULL AND DOWN.price < STRT.price) OR DOWN.price < LAST(DOWN.price, 1),
               UP AS UP.price > LAST(DOWN.price))""",
    "A B+ C": """SELECT symbol, x, y, z FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY rt
        MEASURES A.price AS x, LAST(B.price) AS y, C.price AS z
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) WITHIN INTERVAL '10' SECOND
        DEFINE B AS B.price > A.price, C AS C.price < A.price * 0.9)""",
}
"""The same queries in Flink SQL."""

COMPARED = 1_000_000
"""Histories of at most this many events are compared with the local replay."""

OFF_TIES = math.pi * 1e-8
"""Added before doubles are rounded: a mean of prices in cents may lie just between two rounded values."""

WARM = 20_000
"""Events of the first run, which is not measured, because Java compiles what it runs."""

LONG = 10_000_000
"""A history of more events runs once on Flink, as compiling is a small part of it."""


@dataclasses.dataclass(frozen=True)
class SparkCase:
    """A query over a number of events of a number of keys."""

    query: str
    events: int
    keys: int


@dataclasses.dataclass(frozen=True)
class SparkFigure:
    """The seconds of a case on a number of cores; `pieces` says how it was cut.

    `local`, `plain`, `flink`: the seconds of the local replay, of plain Spark SQL and of Flink.
    """

    case: SparkCase
    cores: int
    results: int
    seconds: float
    local: float | None
    pieces: str
    flink: float | str | None = None
    """The seconds, or why there are none."""
    plain: float | None = None


def measure(
    cases: Sequence[SparkCase],
    cores: Sequence[int],
    flink: str | None,
    patience: float,
    progress: Callable[[str], None],
) -> Iterator[SparkFigure]:
    """Measures each case on each number of cores, after warming up. Raises BridgeError if rows differ.

    `flink`: the Python of an environment with Flink. `patience`: the seconds that a run of it may take.
    """
    from bridge.spark import session

    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in cores:
            spark = session(cores=number)
            for query in dict.fromkeys(case.query for case in cases):
                warm = SparkCase(query, WARM, 100)
                _run(spark, warm, Path(name))
                if query in SPARK_SQL:
                    _plain(spark, warm, Path(name))
            for case in cases:
                progress(f"{case.query}: {case.events:,} events of {case.keys:,} keys on {number} cores")
                run = _run(spark, case, Path(name))
                run = dataclasses.replace(run, cores=number)
                if case.events <= COMPARED and number == cores[0]:
                    run = dataclasses.replace(run, local=_compared(case, Path(name)))
                if case.query in SPARK_SQL:
                    run = dataclasses.replace(run, plain=_plain(spark, case, Path(name)))
                if flink and case.query in FLINK:
                    run = dataclasses.replace(run, flink=_flink(flink, case, number, patience, Path(name)))
                yield run
            spark.stop()


def _run(spark: SparkSession, case: SparkCase, folder: Path) -> SparkFigure:
    """Runs a case; its results are in the directory `out`."""
    from bridge.spark.parquet import write
    from bridge.spark.piecewise import Replay

    path = _history(folder, case)
    start = time.perf_counter()
    replay = Replay({"t": path}, {"q": QUERIES[case.query]}, spark=spark)
    figures = write(replay, str(folder / "out"))[0]
    return SparkFigure(case, 0, figures.rows, time.perf_counter() - start, None, figures.description)


def _compared(case: SparkCase, folder: Path) -> float:
    """The seconds of the local replay. Raises BridgeError unless its rows are those in `out`."""
    start = time.perf_counter()
    tables = bridge.replay({"t": _history(folder, case)}, {"q": QUERIES[case.query]}, out=folder / "local")
    seconds = time.perf_counter() - start
    if not _is_same(_results(folder), tables["q"]):
        raise BridgeError(f"{case.query}: the rows of Spark and of the local replay differ")
    return seconds


def _plain(spark: SparkSession, case: SparkCase, folder: Path) -> float:
    """The seconds of plain Spark SQL. Raises BridgeError if COMPARED rows or fewer are not those in `out`, in any order."""
    import duckdb

    target = str(folder / "plain.parquet")
    start = time.perf_counter()
    spark.read.parquet(str(_history(folder, case))).createOrReplaceTempView("t")
    spark.sql(SPARK_SQL[case.query]).write.mode("overwrite").parquet(target)
    seconds = time.perf_counter() - start
    if case.events <= COMPARED:
        with duckdb.connect() as connection:
            if differs := difference(connection, _rounded(_results(folder)), _rounded(pq.read_table(target))):
                raise BridgeError(f"{case.query}: plain Spark SQL gives {differs}")
    return seconds


def _rounded(table: pa.Table) -> pa.Table:
    """The same rows with doubles of six digits after the point: the last ones of a mean depend on the order of its values."""
    for place, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            table = table.set_column(place, field.name, pc.round(pc.add(table.column(place), OFF_TIES), 6))
    return table


def _flink(python: str, case: SparkCase, cores: int, patience: float, folder: Path) -> float | str:
    """The seconds of Flink's batch job over CSV, or why there are none. Raises BridgeError unless its rows are those in `out`."""
    import duckdb

    settings = {"execution.runtime-mode": "BATCH", "parallelism.default": str(cores)}
    result = folder / "flink.parquet"
    try:
        events, runs = csv_of(_history(folder, case)), int(case.events <= LONG)
        seconds = seconds_of(Path(python), "flink_rows.py", FLINK[case.query], events, result, runs, settings, patience)
    except RefusedError as error:
        return f"{error}"
    with duckdb.connect() as connection:
        ours = _results(folder).drop_columns(["ts"])
        if differs := difference(connection, ours, pq.read_table(result)):
            raise BridgeError(f"{case.query}: Flink gives {differs}")
    return min(seconds)


def _results(folder: Path) -> pa.Table:
    """The results of the last run on Spark, in their order."""
    return pa.concat_tables([pq.read_table(path) for path in sorted((folder / "out" / "q.parquet").glob("*.parquet"))])


def markdown(runs: Sequence[SparkFigure]) -> str:
    """The figures as a table.

    `faster`: the ratio to the fewest cores. `per event`: the ratio of the seconds per event to the shortest history's.
    """
    head = ["query", "keys", "events", "cores", "results", "seconds", "events/s", "faster", "per event", "local, s"]
    head += ["plain Spark SQL, s", "ratio to it"]
    lines = [[*head, "Flink, s", "pieces"], ["---", *["--:"] * 12, "---"]]
    for run in runs:
        case = run.case
        fewer = next(one for one in runs if one.case == case)
        similar = [
            one for one in runs if (one.case.query, one.case.keys, one.cores) == (case.query, case.keys, run.cores)
        ]
        short = min(similar, key=lambda one: one.case.events)
        per_event = (run.seconds / case.events) / (short.seconds / short.case.events)
        figures = [f"{case.keys:,}", f"{case.events:,}", f"{run.cores}", f"{run.results:,}", f"{run.seconds:.1f}"]
        figures += [f"{case.events / run.seconds:,.0f}", f"{fewer.seconds / run.seconds:.2f}", f"{per_event:.2f}"]
        figures.append("" if run.local is None else f"{run.local:.1f}")
        figures += ["", ""] if run.plain is None else [f"{run.plain:.1f}", f"{run.seconds / run.plain:.1f}"]
        figures.append("" if run.flink is None else run.flink if isinstance(run.flink, str) else f"{run.flink:.1f}")
        lines.append([case.query, *figures, run.pieces])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _is_same(one: pa.Table, other: pa.Table) -> bool:
    """Whether the rows and their order are the same; doubles may differ in the last digits, as sums depend on the order."""
    if one.schema.names != other.schema.names or one.num_rows != other.num_rows:
        return False
    pairs = [(one.column(name), other.column(name)) for name in one.schema.names]
    return all(
        np.allclose(a.to_numpy(), b.to_numpy(), rtol=1e-9, equal_nan=True)
        if pa.types.is_floating(a.type)
        else a.equals(b)
        for a, b in pairs
    )


def _history(folder: Path, case: SparkCase) -> Path:
    """The file with the events of a case, which is written once."""
    path = folder / f"{case.events}-{case.keys}.parquet"
    if not path.exists():
        _write(path, case.events, case.keys)
    return path


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
