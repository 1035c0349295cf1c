"""Random queries on Spark, several seeds in one replay: the rows of the local replay and of the live queries, in order.

CEP_SPARK_SEEDS=0:2000 pytest -m long tests/test_spark_seeds.py
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridge
from tests.random.test_differential import same_rows
from tests.support.spark_seeds import ALIKE, Asked, Rows, cpl, epl, grouped, rows, sql, standing, together

pytestmark = pytest.mark.filterwarnings("ignore:PATTERN")

SEEDS = range(*map(int, os.environ.get("CEP_SPARK_SEEDS", "0:192").split(":")))
KINDS: dict[str, Callable[[int], Asked | None]] = {"sql": sql, "rows": rows, "epl": epl, "cpl": cpl}
BLOCK = ALIKE
AT_ONCE = {"sql": 16, "rows": 48, "epl": 48, "cpl": 24}
"""So many seeds in one replay at most."""


@pytest.fixture
def quick(spark: Any) -> Iterator[Any]:
    """The session without what Spark compiles for each query, which takes longer than a few events."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
                "spark.sql.shuffle.partitions": "2"}  # fmt: skip
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def test_random_queries_give_the_live_rows(quick: Any, tmp_path: Path) -> None:
    compared([sql(seed) for seed in range(500, 503)], quick, tmp_path / "some", 3)


@pytest.mark.long
@pytest.mark.parametrize("start", range(SEEDS.start // BLOCK * BLOCK, SEEDS.stop, BLOCK))  # EPL's events are a block's
@pytest.mark.parametrize("kind", KINDS)
def test_random_queries_give_the_live_rows_many_times(kind: str, start: int, quick: Any, tmp_path: Path) -> None:
    block(kind, range(max(start, SEEDS.start), min(start + BLOCK, SEEDS.stop)), quick, tmp_path)


def block(kind: str, seeds: range, spark: Any, folder: Path) -> None:
    """Each seed, many of them in one replay."""
    found = {seed: KINDS[kind](seed) for seed in seeds}
    odd, even = ([found[seed] for seed in seeds if seed % 2 == rest] for rest in (1, 0))
    parts = (odd, even) if kind == "cpl" else (found.values(),)
    all_groups = [asked for several in parts for asked in grouped(filter(None, several), AT_ONCE[kind])]
    for number, asked in enumerate(all_groups):
        compared(asked, spark, folder / str(number), (None, 3, None, 2)[(seeds.start // BLOCK + number) % 4])


def compared(several: list[Asked], spark: Any, folder: Path, pieces: int | None) -> None:
    """Live each by itself; local and on Spark all in one."""
    whole = together(several)
    folder.mkdir()
    told, left = {}, {}
    for one in several:
        rows, tables = one.live(whole.first, whole.end)
        told.update(rows)
        left.update(tables)
    options: dict[str, Any] = {"relations": whole.relations, "end": whole.end}
    for engine in ("local", "spark"):
        home = f"sqlite:///{folder / engine}.db"
        with bridge.connect(home) as cep:
            for statement in whole.before:
                cep.database.execute(statement)
        out = folder / engine
        if engine == "spark":
            options |= {"engine": engine, "spark": spark, "pieces": pieces, "out": out}
        found = bridge.replay(whole.tables, whole.script, database=home if whole.before else "duckdb://", **options)
        for name, expected in told.items():
            if name in found:
                table = found[name] if engine == "local" else written(out, name)
                assert same_rows(expected, tuples(table)), (engine, name, pieces)
        with bridge.connect(home) as cep:
            assert standing(cep, whole.kept) == left, engine


def written(out: Path, name: str) -> pa.Table:
    """The results in a query's directory, its files in the order of their names."""
    return pa.concat_tables([pq.read_table(path) for path in sorted((out / f"{name}.parquet").glob("*.parquet"))])


def tuples(table: pa.Table) -> Rows:
    return [(ts, tuple(values)) for ts, *values in zip(*(column.to_pylist() for column in table.columns), strict=True)]
