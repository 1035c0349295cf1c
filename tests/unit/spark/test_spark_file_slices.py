"""Parquet files that executors read themselves: the rows are those of the local replay, and Spark sorts nothing."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridge
from bridge.engine.session import BridgeSession
from bridge.errors import BridgeError
from bridge.spark.file_slices import FileTask
from bridge.spark.piecewise import Replay
from tests.unit.spark.test_replay_on_spark import QUERIES as REPLAYED

QUERIES = {
    **{name: REPLAYED[name] for name in ("filter", "change", "jump", "nested", "named", "rise")},
    "both": "SELECT k, a FROM s WHERE a < 3 UNION ALL SELECT k, a FROM s WHERE a > 47",
    "aggregate": "SELECT k, COUNT(*) AS n, SUM(a) AS total FROM s WINDOW(RANGE 100 MS) GROUP BY k",
    "join": "SELECT x.k, x.a, y.a AS b FROM s WINDOW(RANGE 20 MS) x, s WINDOW(RANGE 30 MS) y WHERE x.k = y.k AND x.a < y.a - 9",
}
"""Queries that are computed in slices of time."""


@pytest.fixture(scope="module")
def history() -> pa.Table:
    """Many events at one timestamp, and an hour without events."""
    rng = Random(5)
    times = sorted(rng.randrange(1000) + rng.choice([0, 3_600_000]) for _ in range(3000))
    return pa.table({"ts": times, "k": [rng.randrange(5) for _ in times], "a": [rng.randrange(50) for _ in times]})


@pytest.fixture(scope="module")
def names() -> dict[str, pa.Table]:
    return {"names": pa.table({"k": [1, 2], "name": ["one", "two"]})}


@pytest.fixture(scope="module")
def files(history: pa.Table, tmp_path_factory: Any) -> str:
    """Two files, of which the first ends amid the events of a timestamp."""
    folder = tmp_path_factory.mktemp("files of s")
    for place, part in enumerate([history.slice(0, 700), history.slice(700)]):
        pq.write_table(part, folder / f"{place}.parquet", row_group_size=250)
    return str(folder / "*.parquet")


def _results(replay: Replay, name: str) -> list[dict[str, Any]]:
    """The results of a query, which is computed in this process."""
    task, pieces = replay.task(replay.groups([name])[0])
    assert isinstance(task, FileTask)
    batches = pieces.toArrow().to_batches()
    found = [task.cast(name, table) for _, _, table in task.results(iter(batches))]
    return [row for table in found for row in table.to_pylist()]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("has_state", [False, True])
@pytest.mark.parametrize("name", QUERIES)
def test_each_slice_gives_the_local_rows(name: str, has_state: bool, spark: Any, history: Any, names: Any, files: str):
    query = {name: QUERIES[name]}
    related = names if name == "named" else None
    local = bridge.replay({"s": history}, query, relations=related)[name]
    replay = Replay({"s": files}, query, relations=related, spark=spark, pieces=7)
    assert local.num_rows > 10
    with mock.patch.object(BridgeSession, "history_push", lambda *_: None) if has_state else mock.MagicMock():
        assert _results(replay, name) == local.to_pylist()


@pytest.mark.parametrize("end", [-1, 0, 500, 3_599_999, 3_600_500, 9_000_000])
def test_the_end_is_that_of_the_local_replay(end: int, spark: Any, history: Any, files: str):
    query = {"jump": QUERIES["jump"]}
    local = bridge.replay({"s": history}, query, end=end)["jump"]
    replay = Replay({"s": files}, query, spark=spark, end=end, pieces=3)
    if end < 0:
        assert replay.job.files is not None and replay.job.history.count == 0
    else:
        assert _results(replay, "jump") == local.to_pylist()


def test_the_queries_of_a_script_are_written_in_one_pass_without_a_sort(
    spark: Any, history: Any, names: Any, files: str, tmp_path: Path
):
    local = bridge.replay({"s": history}, QUERIES, relations=names)
    found = bridge.replay(
        {"s": files}, QUERIES, engine="spark", spark=spark, relations=names, out=str(tmp_path / "out")
    )
    for name, table in local.items():
        assert found[name].toArrow().to_pylist() == table.to_pylist(), name
    plan = Replay({"s": files}, QUERIES, spark=spark, relations=names).explain("jump")
    assert "Range" in plan and "Exchange" not in plan and "Sort" not in plan


def _files_of(table: pa.Table, folder: Path) -> dict[str, Any]:
    """The same events in files that executors do not read themselves, with what the reason is."""
    back = pa.concat_tables([table.slice(1000), table.slice(0, 1000)])
    narrow = table.set_column(2, "a", table.column("a").cast(pa.decimal128(20, 0)))
    (folder / "day=1").mkdir()
    paths = {"time goes back": back, "values to convert": narrow, "day=1/folder": table}
    for name, rows in paths.items():
        pq.write_table(rows, folder / f"{name}.parquet")
    return {name: str(folder / f"{name}.parquet") for name in paths} | {
        "day=1/folder": str(folder / "day=*" / "*.parquet"),
        "directory": str(folder / "day=1"),
    }


def test_other_files_are_sorted_by_spark(spark: Any, history: Any, tmp_path: Path):
    for name, path in _files_of(history, tmp_path).items():
        replay = Replay({"s": path}, {"q": QUERIES["filter"]}, spark=spark)
        assert replay.job.files is None, name


def test_too_many_events_are_left_to_spark(spark: Any, files: str):
    with mock.patch("bridge.spark.file_source.MOST", 2999):
        assert Replay({"s": files}, {"q": QUERIES["filter"]}, spark=spark).job.files is None


def test_slices_have_about_the_same_number_of_events(spark: Any, history: Any, files: str):
    bounds = Replay({"s": files}, {"q": QUERIES["filter"]}, spark=spark, pieces=6).plan.bounds(0)
    times = history.column("ts").to_numpy()
    sizes = [int(((times >= first) & (times < after)).sum()) for first, after in itertools.pairwise(bounds)]
    assert len(sizes) == 6
    assert max(sizes) < 1.5 * history.num_rows / 6


def test_an_event_that_a_query_cannot_compute_is_the_error_of_the_local_replay(spark: Any, tmp_path: Path):
    pq.write_table(pa.table({"ts": [1, 2], "a": [1, 2**62]}), tmp_path / "s.parquet")
    source, query = {"s": str(tmp_path / "s.parquet")}, {"q": "SELECT a * 4 AS b FROM s"}
    with pytest.raises(BridgeError) as local:
        bridge.replay(source, query)
    with pytest.raises(BridgeError) as found:
        _results(Replay(source, query, spark=spark), "q")
    assert str(found.value) == str(local.value)
