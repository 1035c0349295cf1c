"""One big partition on Spark: its rows in slices, joined, give the rows of the local replay."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridge
from bridge.spark import cut
from bridge.spark.piecewise import Replay

pytestmark = pytest.mark.filterwarnings("ignore:PATTERN .* ends with a quantifier without bound")

V = "PATTERN (A D+ U+) {within} DEFINE D AS a < PREV(a), U AS a > PREV(a)"

QUERIES = {
    "one partition": f"SELECT n, top, back FROM s MATCH_RECOGNIZE (MEASURES MATCH_NUMBER() AS n, FIRST(D.a) AS top, "
    f"LAST(U.a) AS back {V.format(within='')})",
    "within": "SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.a AS x, C.a AS y ALL ROWS PER MATCH "
    "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+ C) WITHIN 50 MS DEFINE B AS a > A.a, C AS a < A.a)",
    "a large key": f"SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES MATCH_NUMBER() AS n, FIRST(D.a) AS top, "
    f"LAST(U.a) AS back {V.format(within='WITHIN 200 MS')})",
    "never together": "SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.a AS x, C.a AS y PATTERN (A B C))",
}

SLICES = {
    "one partition": "3,000 of 3,000 events are in one partition",
    "a large key": "events are in one partition",
}


@pytest.fixture(autouse=True)
def _times_are_those_of_a_sample(monkeypatch: Any) -> None:
    """Where a history is cut is told of some of its rows."""
    monkeypatch.setattr(cut, "SAMPLE", 400)


@pytest.fixture(scope="module")
def history() -> pa.Table:
    """3,000 events, many at one instant, most of one key."""
    rng = Random(5)
    times, now = [], 0
    for _ in range(3000):
        now += rng.choice([0, 1, 1, 2])
        times.append(now)
    keys = [7 if rng.random() < 0.7 else rng.randrange(30) for _ in times]
    return pa.table({"ts": times, "k": keys, "a": [rng.randrange(50) for _ in times]})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", QUERIES)
def test_slices_of_a_partition_give_the_local_rows(name: str, spark: Any, history: pa.Table):
    """Of `A B C` each slice takes other rows, if it begins elsewhere: they are not joined, and the rows are the same."""
    query = {"q": QUERIES[name]}
    found = Replay({"s": history}, query, spark=spark, pieces=5)
    assert found.groups()[0].big.partitions
    assert found.frame("q").toArrow().to_pylist() == bridge.replay({"s": history}, query)["q"].to_pylist()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["one partition", "a large key"])
def test_slices_are_written_in_order(name: str, spark: Any, history: pa.Table, tmp_path: Path):
    query = {"q": QUERIES[name]}
    options: dict[str, Any] = {"engine": "spark", "spark": spark, "pieces": 4, "out": tmp_path}
    found = bridge.replay({"s": history}, query, **options)["q"].toArrow()
    assert found.to_pylist() == bridge.replay({"s": history}, query)["q"].to_pylist()


@pytest.mark.parametrize("name", SLICES)
def test_explain_tells_why_a_partition_is_cut(name: str, spark: Any, history: pa.Table):
    told = Replay({"s": history}, {"q": QUERIES[name]}, spark=spark, pieces=5).explain("q")
    assert "joined where their searches come together" in told
    assert SLICES[name] in told and "MapInArrow" in told


@pytest.mark.parametrize(
    ("measure", "define", "why"),
    [
        ("MATCH_NUMBER() * 10 AS n", "B AS a > A.a", "it computes with MATCH_NUMBER()"),
        ("A.a AS n", "B AS a > SUM(B.a)", "decided row by row"),
    ],
)
def test_explain_tells_why_a_partition_is_not_cut(measure: str, define: str, why: str, spark: Any, history: pa.Table):
    query = f"SELECT * FROM s MATCH_RECOGNIZE (MEASURES {measure} PATTERN (A B+) WITHIN 9 MS DEFINE {define})"
    replay = Replay({"s": history}, {"q": query}, spark=spark, pieces=5)
    assert not replay.groups()[0].big.partitions and why in replay.explain("q")


@pytest.mark.parametrize("more", ["", " AND SUM(B.a) > 0"])  # at once, and row by row
def test_matches_of_one_event_are_in_the_order_of_their_first_rows(more: str, spark: Any, tmp_path: Path):
    """The files' names are not in the order of time."""
    parts = {"z": pa.table({"ts": [1, 2], "k": [1, 1], "a": [1, 2]}),
             "a": pa.table({"ts": [3, 4, 5], "k": [1, 1, 1], "a": [3, 4, 9]})}  # fmt: skip
    for name, part in parts.items():
        pq.write_table(part, tmp_path / f"{name}.parquet")
    query = {"q": "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES A.a AS x AFTER MATCH SKIP TO NEXT ROW "
             f"PATTERN (A B+ C) WITHIN 1 S DEFINE C AS a = 9{more})"}  # fmt: skip
    found = bridge.replay({"s": str(tmp_path / "*.parquet")}, query, engine="spark", spark=spark)["q"].toArrow()
    assert found.to_pylist() == bridge.replay({"s": pa.concat_tables(parts.values())}, query)["q"].to_pylist()
