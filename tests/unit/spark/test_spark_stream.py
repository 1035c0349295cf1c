"""Structured Streaming on Spark: what a killed stream leaves is gone on with, and several streams are one order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridge
from bridge.errors import BridgeError
from tests.unit.spark.test_spark_nested import rows_of

pytestmark = pytest.mark.filterwarnings("ignore:PATTERN")

DIPS = (
    "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES A.a AS top, LAST(B.a) AS low, MATCH_NUMBER() AS n "
    "PATTERN (A B+) DEFINE B AS a < PREV(a))"
)
"""Matches numbered through from the first event on, so one that is lost or told twice would show."""

STREAMING = """
import sys, bridge, bridge.spark
spark = bridge.spark.session(cores=2)
spark.conf.set("spark.sql.shuffle.partitions", "2")
here = sys.argv[1]
frame = spark.readStream.schema("ts long, k long, a long").option("maxFilesPerTrigger", 1).parquet(here + "/in")
found = bridge.stream({"s": frame}, {"dips": sys.argv[2]}, lateness=5, pieces=2, spark=spark)["dips"]
writer = found.writeStream.option("checkpointLocation", here + "/checkpoint").trigger(availableNow=True)
running = writer.start(here + "/out")
assert running.awaitTermination(300)
"""
"""What is killed; the same goes on in this process."""


def files(folder: Path, table: pa.Table, count: int) -> None:
    """The table's rows in so many files, in the order in which Spark takes them."""
    folder.mkdir()
    size = -(-table.num_rows // count)
    for part in range(count):
        path = folder / f"{part}.parquet"
        pq.write_table(table.slice(part * size, size), path)
        os.utime(path, (1_000_000 + part, 1_000_000 + part))


def test_a_killed_stream_goes_on_where_it_was(tmp_path: Path, spark: Any) -> None:
    """The whole tree of processes is killed within a step."""
    rng = Random(1)
    table = pa.table(
        {"ts": range(1, 401), "k": [rng.randrange(3) for _ in range(400)], "a": [rng.randrange(9) for _ in range(400)]}
    )
    files(tmp_path / "in", table, 4)
    root = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(bridge.__file__).parents[1]), *sys.path])}
    command = [sys.executable, "-c", STREAMING, str(tmp_path), DIPS]
    started = subprocess.Popen(command, env=root, start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while not (tmp_path / "checkpoint" / "offsets" / "1").exists() and time.monotonic() < deadline:
        assert started.poll() is None, "it was done before it could be killed"
        time.sleep(0.01)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    assert not (tmp_path / "checkpoint" / "commits" / "3").exists()
    frame = spark.readStream.schema("ts long, k long, a long").option("maxFilesPerTrigger", 1)
    found = bridge.stream({"s": frame.parquet(f"{tmp_path}/in")}, {"dips": DIPS}, lateness=5, pieces=2, spark=spark)
    writer = found["dips"].writeStream.option("checkpointLocation", f"{tmp_path}/checkpoint")
    running = writer.trigger(availableNow=True).start(f"{tmp_path}/out")
    assert running.awaitTermination(300)
    with bridge.connect() as cep:  # which stays open, as a stream does
        before = bridge.replay({"s": table}, {"dips": DIPS}, end=395, into=cep)["dips"]
    assert before.num_rows > 20
    assert sorted(rows_of(spark.read.parquet(f"{tmp_path}/out").toArrow())) == sorted(rows_of(before))


def test_streams_are_merged_and_their_objects_read(tmp_path: Path, spark: Any) -> None:
    """A pattern of EPL over two streams; of equal times the first stream's events come first."""
    rng = Random(2)
    times = sorted(rng.randrange(1, 200) for _ in range(80))
    tables = {
        name: pa.table({"ts": times, "o": [{"k": rng.randrange(3), "tags": [str(n)]} for n in range(80)]})
        for name in ("a", "b")
    }
    query = {"q": "select x.o.tags[0] as one, y.o as other from pattern [every x=a(o.k = 1) -> y=b(o.k = x.o.k)]"}
    frames = {}
    for name, table in tables.items():
        files(tmp_path / name, table, 2)
        reader = spark.readStream.schema("ts long, o struct<k: long, tags: array<string>>")
        frames[name] = reader.option("maxFilesPerTrigger", 1).parquet(f"{tmp_path}/{name}")
    writer = bridge.stream(frames, query, language="epl", spark=spark)["q"].writeStream.format("memory").queryName("q")
    running = writer.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True).start()
    assert running.awaitTermination(300)
    with bridge.connect() as cep:
        schemas = dict.fromkeys(tables, "o STRUCT(k BIGINT, tags VARCHAR[])")
        whole = bridge.replay(tables, query, language="epl", schemas=schemas, into=cep)["q"]
    assert whole.num_rows > 5
    assert sorted(map(str, rows_of(spark.table("q").toArrow()))) == sorted(map(str, rows_of(whole)))


def test_a_stream_has_no_tables(spark: Any) -> None:
    script = "create table T (k long primary key, n long); select k from s"
    with pytest.raises(BridgeError, match="create table and on … set are not supported on Spark"):
        bridge.stream({"s": spark.createDataFrame([(1, 1)], "ts long, k long")}, script, language="epl", spark=spark)
