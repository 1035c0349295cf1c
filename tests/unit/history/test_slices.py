"""A replay in slices of time on several bridges at once gives the rows of a replay in one piece."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import threading
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import bridge
from bridge.cli import main
from bridge.engine.session import BridgeSession
from bridge.errors import DatabaseError
from bridge.history import file_slices
from bridge.history import slices as parallel
from bridge.history.replay import feed, install_queries, open_sources
from bridge.history.results import ResultTables
from bridge.history.script import ReplayScript
from bridge.patterns.live.bulk import Bulk
from bridge.query import MatchRecognize, Stream
from bridge.sources.options import HISTORY_DEFAULTS
from bridge.spark.task import needed_queries
from nfa.errors import ExhaustedError
from tests.random.test_differential import LONG, same_rows
from tests.support.generate import random_case
from tests.support.row_pattern_generate import COLUMNS, generate
from tests.unit.rewrite.test_last_rows import BY_FRAMES, CHANGES, JOINS, OTHERS
from tests.unit.rewrite.test_last_rows import history as last_rows_history
from tests.unit.spark.test_spark_pieces import History
from windows.arrow import arrow_type
from windows.databases.duckdb import DuckDB
from windows.schema import Schema

SHORT = 7
"""So many events a slice."""


@contextlib.contextmanager
def cut(cores: int, rows: int) -> Iterator[None]:
    """So many bridges, and so many events a slice, of which half are read, and taken, at a time."""
    half = max(1, rows // 2)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(parallel, cores=lambda: cores, EVENTS=rows, QUEUE=0))
        stack.enter_context(mock.patch.multiple(DuckDB, chunk_size=half, arrow_chunk_size=half))
        stack.enter_context(mock.patch.multiple(file_slices, EVENTS=rows, EVENTS_IN_SEQUENCE=rows))
        for module in ("source", "tables", "in_place"):
            stack.enter_context(mock.patch(f"bridge.sources.{module}.ROWS", half))
        yield


@contextlib.contextmanager
def counting_pushes() -> Iterator[list[bool]]:
    """Of each push without state, whether it has succeeded."""
    succeeded: list[bool] = []
    push = BridgeSession.push_history

    def counted(self: BridgeSession, *arguments: Any) -> None:
        try:
            push(self, *arguments)
        except Exception:
            succeeded.append(False)
            raise
        succeeded.append(True)

    with mock.patch.object(BridgeSession, "push_history", counted):
        yield succeeded


@contextlib.contextmanager
def with_state() -> Iterator[None]:
    """All events are pushed into tables of state."""
    with mock.patch.object(BridgeSession, "history_push", return_value=None):
        yield


def bounded_history(seed: int) -> History | None:
    """The queries of a case whose results look back a bounded time."""
    history = History(random_case(seed))
    bounded = [name for name, way in history.ways.items() if way.look_back is not None]
    if not bounded:
        return None
    return History(
        dataclasses.replace(history.case, queries=dict(needed_queries(history.case.queries.items(), bounded)))
    )


def differs(seed: int) -> tuple[int, int]:
    """Compares the queries of a case that can be cut; how many bridges took part, and how many slices without state."""
    history = bounded_history(seed)
    if history is None:
        return 0, 0
    with with_state():
        whole = history.whole()
    workers: list[parallel.Workers] = []
    made = parallel.Workers.__enter__

    def entered(self: parallel.Workers) -> parallel.Workers:
        workers.append(self)
        return made(self)

    rng = Random(seed)
    turns = mock.patch.object(parallel.ChunkSlice, "overlaps", lambda self: rng.random() < 0.2)
    with (
        cut(3, rng.choice([2, 3, SHORT])),
        turns,
        mock.patch.object(parallel.Workers, "__enter__", entered),
        counting_pushes() as pushes,
    ):
        found = history.whole()
    for name, rows in whole.items():
        assert same_rows(rows, found[name]), (seed, name)
    assert all(pushes), seed
    return len(workers[0]._workers) if workers else 0, len(pushes)


def test_slices_give_the_rows_of_the_whole():
    counts = [differs(seed) for seed in range(8)]
    assert sum(bridges > 1 for bridges, _ in counts) >= 3
    assert sum(at_once > 1 for _, at_once in counts) >= 3


def differs_in_files(seed: int, folder: Path) -> tuple[int, int]:
    """Compares a history in files of Parquet, one per stream; their number, and that of the slices DuckDB read itself."""
    history = bounded_history(seed)
    if history is None:
        return 0, 0
    with with_state():
        whole = history.whole()
    for place, (stream, table) in enumerate(history.tables.items()):
        pq.write_table(table, folder / f"{place}.parquet", row_group_size=3)
        history.tables[stream] = str(folder / f"{place}.parquet")
    read, slices = file_slices.FileSlice.whole, []

    def counted(self: file_slices.FileSlice, cep: bridge.Bridge) -> Any:
        slices.append(self)
        return read(self, cep)

    reading = mock.patch.object(file_slices.FileSlice, "whole", counted)
    with cut(2, Random(seed).choice([4, 15, 50])), counting_pushes() as pushes, reading:
        found = history.whole()
    for name, rows in whole.items():
        assert same_rows(rows, found[name]), (seed, name)
    assert all(pushes), seed
    return len(history.tables), len(slices)


def test_files_that_the_database_reads_give_the_rows_of_their_tables(tmp_path: Path):
    """The events of several files are merged by time."""
    counts = [differs_in_files(seed, tmp_path) for seed in range(14)]
    assert sum(slices > 0 for files, slices in counts if files == 1) >= 2
    assert sum(slices > 0 for files, slices in counts if files > 1) >= 1


def test_events_of_one_time_are_in_the_order_of_their_streams():
    """Also in a slice that begins with an event of a later stream."""
    tables = {"a": pa.table({"ts": range(1, 60, 2), "v": range(30)}), "b": pa.table({"ts": range(60), "v": range(60)})}
    query = {"q": "SELECT 'a' AS stream, v FROM a UNION ALL SELECT 'b', v FROM b"}
    with with_state():
        whole = bridge.replay(tables, query)["q"]
    slices = []
    for rows in range(3, 9):
        with cut(2, rows), counting_pushes() as pushes:
            assert bridge.replay(tables, query)["q"].equals(whole), rows
        slices.append(len(pushes))
    assert max(slices) > 3, slices


OF_SEVERAL_FILES = {
    "pairs": "SELECT a.v AS x, b.v AS y FROM a WINDOW(RANGE 9 MS), b WINDOW(RANGE 3 MS) WHERE a.k = b.k",
    "same": "SELECT l.v AS x, r.v AS y FROM a WINDOW(RANGE 2 MS) l, a WINDOW(RANGE 5 MS) r WHERE l.k = r.k AND l.v <= r.v",
    "all": "SELECT a.v AS x, b.v AS y FROM b WINDOW(RANGE 1 MS), a WINDOW(RANGE 4 MS)",
    "one": "SELECT a.v AS x, b.v AS y FROM a WINDOW(RANGE 7 MS), b WINDOW(RANGE 7 MS) WHERE a.k = b.k AND a.v > 5",
    "two": "SELECT a.v AS x, b.v AS y FROM a WINDOW(RANGE 7 MS), b WINDOW(RANGE 7 MS) WHERE a.k = b.k AND a.v > 15",
    "three": "SELECT a.v AS x, b.v AS y, c.v AS z FROM a WINDOW(RANGE 3 MS), b WINDOW(RANGE 3 MS), c WINDOW(RANGE 3 MS) "
    "WHERE a.k = b.k AND b.k = c.k",
    "of_pairs": "SELECT COUNT(*) AS n, MAX(y) AS y FROM pairs WINDOW(RANGE 4 MS)",
    "union": "SELECT k, v FROM a UNION ALL SELECT k, v FROM b",
    "jumps": "SELECT k, SUM(v) AS s FROM c WINDOW(RANGE 10 MS SLIDE 10 MS) GROUP BY k",
}
"""Queries over several streams, whose results look back a bounded time."""


@pytest.mark.parametrize("options", [{}, {"end": 70}], ids=["whole", "until"])
def test_events_of_several_files_are_merged_by_time(options: dict[str, Any], tmp_path: Path):
    """Those of one time in the order of the streams, and those of one stream in the order of its rows."""
    rng = Random(7)
    tables, paths = {}, {}
    for name in "cab":
        times = sorted(rng.choices(range(100), k=80))
        keys, values = rng.choices(range(3), k=80), rng.choices(range(20), k=80)
        tables[name] = pa.table({"ts": times, "k": keys, "v": values})
        paths[name] = str(tmp_path / f"{name}.parquet")
        pq.write_table(tables[name], paths[name], row_group_size=9)
    with with_state():
        whole = bridge.replay(tables, OF_SEVERAL_FILES, **options)
    refused = mock.patch.object(parallel.ChunkSlice, "whole", side_effect=AssertionError)
    with cut(2, 100), counting_pushes() as pushes, refused:
        found = bridge.replay(paths, OF_SEVERAL_FILES, **options)
    assert len(pushes) >= 2 and all(pushes)
    for name, rows in whole.items():
        assert rows.num_rows > 10, name
        assert found[name].equals(rows), name


def test_events_with_too_large_numbers_are_read_here(tmp_path: Path):
    """Two files of 1,000 rows have 2,002 numbers per millisecond."""
    paths = {}
    for name, times in (("a", range(0, 2**53, 2**43)), ("b", range(5, 2**53, 2**43))):
        paths[name] = str(tmp_path / f"{name}.parquet")
        pq.write_table(pa.table({"ts": times, "v": range(1024)}), paths[name])
    text = "SELECT a.v AS x, b.v AS y FROM a WINDOW(RANGE 9 MS), b WINDOW(RANGE 9 MS)"
    with mock.patch.object(file_slices.FileSlice, "whole", side_effect=AssertionError):
        found = bridge.replay(paths, {"q": text})["q"]
    assert found["x"].to_pylist() == found["y"].to_pylist() == list(range(1024))


QUERY = "CREATE STREAM s (a INTEGER); CREATE QUERY n AS SELECT COUNT(*) AS n, MAX(a) AS a FROM s WINDOW(RANGE 5 MS)"


def events(times: Iterable[int]) -> str:
    return "ts,a\n" + "".join(f"{ts},{ts % 7}\n" for ts in times)


def test_a_wrong_row_stops_after_the_results_before_it(tmp_path: Path):
    """Also those of slices that are under way."""
    (tmp_path / "q.sql").write_text(QUERY)
    (tmp_path / "s.csv").write_text(events(range(40)) + "40,x\n" + events(range(41, 60)).partition("\n")[2])
    with cut(3, SHORT):
        told = CliRunner().invoke(main, ["run", str(tmp_path / "q.sql"), "--events", f"s={tmp_path / 's.csv'}"])
    assert told.exit_code == 1
    assert [json.loads(line)["ts"] for line in told.stdout.splitlines()] == list(range(40))
    assert "line 42" in told.stderr or ":42:" in told.stderr


def test_an_event_that_a_query_cannot_take_stops_after_the_results_before_it(tmp_path: Path):
    table = pa.table({"ts": range(60), "a": [*range(40), 2**31 - 1, *range(19)]})
    queries = {"big": "SELECT CAST(a * 2 AS INTEGER) AS a FROM s WHERE a >= 0"}
    with cut(3, SHORT), pytest.raises(DatabaseError, match="INT32"):
        bridge.replay({"s": table}, queries, schemas={"s": "a INTEGER"}, out=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("replay")]


def test_an_interruption_leaves_no_gap():
    """What is kept then are the results up to it."""
    table = pa.table({"ts": range(60), "a": range(60)})
    kept: list[int] = []
    interrupted: list[bool] = []

    def take(name: str, rows: pa.Table) -> None:
        if not interrupted and kept and kept[-1] > 20:
            interrupted.append(True)
            raise KeyboardInterrupt
        kept.extend(rows["ts"].to_pylist())

    with (
        cut(3, SHORT),
        pytest.raises(KeyboardInterrupt),
        mock.patch.object(ResultTables, "take", lambda self, *of: take(*of)),
    ):
        bridge.replay({"s": table}, {"n": "SELECT a FROM s"})
    assert kept == list(range(len(kept)))


def test_what_stands_in_a_database_of_ones_own_goes_through_one_bridge():
    """Its state is there afterwards."""
    table = pa.table({"ts": range(60), "a": range(60)})
    with cut(3, SHORT), mock.patch.object(parallel.Workers, "feed", side_effect=AssertionError):
        with bridge.connect() as cep:
            found = bridge.replay({"s": table}, {"n": "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 5 MS)"}, into=cep)
            assert cep.now == 59
        other = bridge.replay({"s": table}, {"n": "SELECT COUNT(*) AS n FROM s WINDOW(ROWS 5)"})
    assert found["n"].num_rows == other["n"].num_rows == 60


def differs_in_sequence(seed: int, folder: Path) -> int:
    """Compares a pattern over a file of Parquet; how many slices were matched without state."""
    rng = Random(seed)
    example = generate(seed, ("row", "first") if seed % 2 else ("row",))
    clause = dataclasses.replace(example.clause, order_by=())
    if clause.within is None and rng.random() < 0.5:
        clause = dataclasses.replace(clause, within=rng.choice([1, 2, 4]))
    rows = sorted(example.rows, key=lambda row: (row[1], row[2]))
    schema = Schema.of(COLUMNS)
    columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    arrays = [pa.array(values, arrow_type(attribute.type)) for values, attribute in zip(columns, schema, strict=True)]
    times = pa.array([row[1] for row in rows], pa.int64())
    path = folder / "s.parquet"
    pq.write_table(pa.Table.from_arrays([times, *arrays], names=["ts", *COLUMNS]), path, row_group_size=5)
    query = MatchRecognize(Stream("s"), clause)
    found: list[Any] = []
    for way in (with_state(), contextlib.nullcontext()):
        with way, cut(2, rng.choice([1, 3, 8])), counting_pushes() as pushes, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = bridge.replay({"s": str(path)}, {"m": query}, schemas={"s": COLUMNS}, timestamp="ts")
                found.append([tuple(row.items()) for row in result["m"].to_pylist()])
            except bridge.BridgeError as error:
                found.append(re.sub(r"\d+", "n", str(error)))  # rows are counted from the first that is needed
    assert repr(found[0]) == repr(found[1]), (seed, str(example))
    assert all(pushes) or isinstance(found[0], str), seed
    return len(pushes)


def test_a_pattern_over_a_file_gives_the_rows_of_its_pushes(tmp_path: Path):
    assert sum(differs_in_sequence(seed, tmp_path) > 1 for seed in range(18)) >= 3


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", [*BY_FRAMES, *OTHERS, *CHANGES, *JOINS])
def test_last_rows_over_a_file_are_those_of_its_pushes(text: str, tmp_path: Path):
    """Slices hand on the last rows of each key, also those of windows over results."""
    counts = []
    for seed in range(2):
        events = last_rows_history(seed)
        k, p, d = zip(*(row for row, _ in events), strict=True)
        times = pa.array([ts for _, ts in events], pa.int64())
        table = pa.table({"ts": times, "k": pa.array(k, pa.int64()), "p": pa.array(p, pa.float64()), "d": d})
        pq.write_table(table, tmp_path / "s.parquet", row_group_size=5)
        found = []
        for way in (with_state(), contextlib.nullcontext()):
            with way, cut(2, (8, 21)[seed]), counting_pushes() as pushes:
                queries = {"q": text, "all": "SELECT k FROM s WHERE k > 0"}
                found.append(bridge.replay({"s": str(tmp_path / "s.parquet")}, queries))
        assert {name: rows.to_pylist() for name, rows in found[1].items()} == {
            name: rows.to_pylist() for name, rows in found[0].items()
        }
        assert found[0]["q"].num_rows
        counts.append(all(pushes) and len(pushes))
    assert (min(counts) > 1) == ("RANGE" not in text and "NOW" not in text)


def test_a_pattern_that_cannot_go_on_without_state_gives_no_row_twice(tmp_path: Path):
    """What the slices before have given is not given again."""
    table = pa.table(
        {"ts": range(60), "k": [place % 2 for place in range(60)], "v": [place % 5 for place in range(60)]}
    )
    pq.write_table(table, tmp_path / "s.parquet", row_group_size=7)
    clause = "MATCH_RECOGNIZE (PARTITION BY k MEASURES A.v AS a, B.v AS b PATTERN (A B) DEFINE B AS v > A.v)"
    runs: list[int] = []
    outcome = Bulk.outcome

    def fails_later(self: Bulk, *arguments: Any) -> Any:
        runs.append(1)
        if len(runs) == 4:
            raise ExhaustedError("too far")
        return outcome(self, *arguments)

    with cut(2, 10):
        whole = bridge.replay({"s": str(tmp_path / "s.parquet")}, {"m": f"SELECT * FROM s {clause}"})["m"]
        with mock.patch.object(Bulk, "outcome", fails_later):
            again = bridge.replay({"s": str(tmp_path / "s.parquet")}, {"m": f"SELECT * FROM s {clause}"})["m"]
    assert len(runs) == 4
    assert whole.num_rows > 10
    assert again.equals(whole)


LEVELS = "SELECT a, COUNT(*) AS n, MIN(ts) AS first FROM s WINDOW(RANGE 5 MS SLIDE 5 MS) GROUP BY a"


def replayed(path: Path, times: list[int | None], **options: Any) -> dict[str, Any]:
    """The results, or the error, of a file of these timestamps with and without state, and the slices read in place."""
    found: dict[str, Any] = {}
    pq.write_table(pa.table({"ts": times, "a": [place % 3 for place in range(len(times))]}), path, row_group_size=4)
    for name, way in (("plain", with_state()), ("file", contextlib.nullcontext())):
        slices = mock.patch.object(
            file_slices.FileSlice, "whole", autospec=True, side_effect=file_slices.FileSlice.whole
        )
        with way, cut(2, 25), slices as calls:
            try:
                found[name] = bridge.replay({"s": str(path)}, {"q": LEVELS}, **options)["q"].to_pylist()
            except bridge.BridgeError as error:
                found[name] = str(error)
        found["slices"] = calls.call_count
    return found


@pytest.mark.parametrize(
    ("times", "options", "in_place"),
    [
        (list(range(80)), {}, True),
        ([0, 0, 0, 1, 5, 5, 5, 5, 5, 5, 5, 5, 9, 9, 14, 15], {}, True),
        ([-20, -7, -5, -5, 0, 3], {}, True),
        (list(range(30)), {"end": 12}, True),
        (list(range(30)), {"end": 1_000}, True),
        (list(range(5, 30)), {"end": 3}, True),
        ([], {}, False),
        ([0, 3, 5, 4, 6, 7, 8, 9], {}, False),
        ([0, 3, 5, 6, 6, 7, 2, 9], {}, False),
        ([0, 3, None, 6], {}, False),
        ([2**62, 2**62], {}, False),
        ([-3, -3, 0, 1, 2, 2, 7], {"timestamp_unit": "s"}, True),
        ([-1500, -1499, -1000, -999, 0, 999, 1000, 2500], {"timestamp_unit": "us"}, True),
        ([5, 3, 4, 1], {"sort": True}, False),
    ],
)
def test_a_file_is_read_by_the_database_where_every_row_fits(
    times: list[int | None], options: dict[str, Any], in_place: bool, tmp_path: Path
):
    """Else the rows before the one that does not fit are in, and the error names it."""
    found = replayed(tmp_path / "s.parquet", times, **options)
    assert found["file"] == found["plain"]
    assert (found["slices"] > 0) == (in_place and found["file"] != [])


TIMES = [-2_000_000_001, -2_000_000_000, -1_999_999_999, -1, 0, 1, 999_999, 1_000_000, 7_000_000, 7_000_001, 9_500_000]
"""Nanoseconds."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["s", "ms", "us", "ns", "ms UTC", "us Europe/Berlin"])
@pytest.mark.parametrize("count", [1, 3])
def test_files_of_other_types_are_read_by_the_database(kind: str, count: int, tmp_path: Path):
    """Timestamps are rounded down, whatever their unit, and smaller types are widened."""
    unit, _, zone = kind.partition(" ")
    size = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    times = pa.array([ns // size for ns in TIMES]).cast(pa.timestamp(unit, zone or None))
    numbers = [place % 3 for place in range(len(TIMES))]
    table = pa.table(
        {
            "at": times, "a": pa.array(numbers, pa.uint8()), "b": pa.array(numbers, pa.float32()),
            "c": pa.array(["x", None, "z"] * 3 + ["x", "y"], pa.large_string()),
            "d": pa.array([None, *numbers[1:]], pa.date32()), "e": pa.array(numbers, pa.timestamp("ms")),
        }
    )  # fmt: skip
    for place in range(count):
        size = -(-table.num_rows // count)
        pq.write_table(table.slice(place * size, size), tmp_path / f"{place}.parquet", row_group_size=2)
    queries = {
        "all": "SELECT a, b, c, d, e FROM s WHERE b < 2",
        "n": "SELECT a, COUNT(*) AS n, MAX(c) AS c FROM s WINDOW(RANGE 2 MS) GROUP BY a",
        "m": "SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.d AS d, B.e AS e PATTERN (A B) DEFINE B AS b > A.b)",
    }
    for name, query in queries.items():
        found = []
        for way in (with_state(), contextlib.nullcontext()):
            with way, cut(2, 4), counting_pushes() as pushes:
                found.append(bridge.replay({"s": str(tmp_path / "*.parquet")}, {name: query}, timestamp="at")[name])
        assert found[0].equals(found[1]), name
        assert found[0].num_rows > 2
        assert pushes
        assert all(pushes)


def test_a_later_file_that_does_not_fit_stops_after_the_rows_before_it(tmp_path: Path):
    pq.write_table(pa.table({"ts": [1, 2, 3], "a": [5, 6, 7]}), tmp_path / "1.parquet")
    for later in ({"ts": [4], "b": [8]}, {"ts": [2], "a": [8]}, {"ts": [4], "a": ["x"]}):
        pq.write_table(pa.table(later), tmp_path / "2.parquet")
        errors = []
        for way in (with_state(), contextlib.nullcontext()):
            with way, pytest.raises(bridge.BridgeError) as caught:
                bridge.replay({"s": str(tmp_path / "*.parquet")}, {"q": "SELECT a FROM s"}, schemas={"s": "a BIGINT"})
            errors.append(str(caught.value))
        assert errors[0] == errors[1]


def test_a_file_that_the_database_cannot_read_is_read_here(tmp_path: Path):
    """It is removed while it is read, which only the database notices."""
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"ts": range(60), "a": range(60)}), path)
    whole, calls = file_slices.FileSlice.whole, []

    def removing(self: file_slices.FileSlice, cep: bridge.Bridge) -> Any:
        calls.append(1)
        if len(calls) > 1:
            path.unlink(missing_ok=True)
        return whole(self, cep)

    with cut(2, 20), mock.patch.object(file_slices.FileSlice, "whole", removing):
        found = bridge.replay({"s": str(path)}, {"q": "SELECT a FROM s"})["q"]
    assert found["a"].to_pylist() == list(range(60))
    assert len(calls) > 1
    assert not path.exists()


def test_progress_is_that_of_the_results(tmp_path: Path):
    """The number of events whose results were taken, and the part of the file."""
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"ts": range(60), "a": range(60)}), path, row_group_size=10)
    script = ReplayScript.of({"q": "SELECT a FROM s"})
    sources = open_sources(script, {"s": str(path)}, HISTORY_DEFAULTS)
    seen: list[tuple[int, float | None, int]] = []
    with cut(2, 20), bridge.connect(durable=False) as cep, ResultTables() as results:
        workers = install_queries(script, cep, sources, results, {})

        def progress(events: int) -> None:
            seen.append((events, sources["s"].fraction, results.total))

        feed(cep, sources, progress=progress, workers=workers)
    assert seen == [(20, 1 / 3, 20), (40, 2 / 3, 40), (60, 1.0, 60)]


@pytest.mark.parametrize(
    ("name", "columns"),
    [("a[1].parquet", ("a",)), ("s.parquet", ("a", "A")), ("s.parquet", ("a", "file_row_number"))],
)
def test_a_file_that_the_database_would_read_otherwise_is_read_here(
    name: str, columns: tuple[str, ...], tmp_path: Path
):
    values = {column: [place + 10 * number for number in range(9)] for place, column in enumerate(columns)}
    pq.write_table(pa.table({"ts": range(9), **values}), tmp_path / name)
    pq.write_table(pa.table({"ts": [5], "a": [7]}), tmp_path / "a1.parquet")
    last = columns[-1]
    found = bridge.replay(
        {"s": str(tmp_path / name)}, {"q": f'SELECT "{last}" AS v FROM s'}, schemas={"s": {last: "BIGINT"}}
    )["q"]
    assert found["v"].to_pylist() == values[last]


def test_an_error_of_a_statement_over_a_file_is_that_of_a_push(tmp_path: Path):
    table = pa.table({"ts": range(60), "a": pa.array([*range(40), 2**31 - 1, *range(19)], pa.int32())})
    pq.write_table(table, tmp_path / "s.parquet")
    errors = []
    for source in (table, str(tmp_path / "s.parquet")):
        with cut(3, SHORT), pytest.raises(DatabaseError) as caught:
            bridge.replay({"s": source}, {"big": "SELECT CAST(a * 2 AS INTEGER) AS a FROM s WHERE a >= 0"})
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


@pytest.mark.long
@pytest.mark.parametrize("start", range(2000, 2000 + LONG, 100))
def test_slices_give_the_rows_of_the_whole_on_many_seeds(start: int, tmp_path: Path):
    for seed in range(start, start + 100):
        differs(seed)
        differs_in_files(seed, tmp_path)
        differs_in_sequence(seed, tmp_path)
