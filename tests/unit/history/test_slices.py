"""A replay in slices of time on several bridges at once gives the rows of a replay in one piece."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from unittest import mock

import pyarrow as pa
import pytest
from click.testing import CliRunner

import bridge
from bridge.cli import main
from bridge.errors import DatabaseError
from bridge.history import slices as parallel
from bridge.history.results import ResultTables
from bridge.spark.task import needed_queries
from tests.random.test_differential import LONG, same_rows
from tests.support.generate import random_case
from tests.unit.spark.test_spark_pieces import History
from windows.databases.duckdb import DuckDB

SHORT = 7
"""So many events a slice."""


@contextlib.contextmanager
def cut(cores: int, rows: int) -> Iterator[None]:
    """So many bridges, and so many events a slice, of which half are read, and taken, at a time."""
    half = max(1, rows // 2)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(parallel, cores=lambda: cores, EVENTS=rows, QUEUE=0))
        stack.enter_context(mock.patch.multiple(DuckDB, chunk_size=half, arrow_chunk_size=half))
        for module in ("source", "tables"):
            stack.enter_context(mock.patch(f"bridge.sources.{module}.ROWS", half))
        yield


def differs(seed: int) -> int:
    """Compares the queries of a case that can be cut; how many bridges took part."""
    history = History(random_case(seed))
    bounded = [name for name, way in history.ways.items() if way.look_back is not None]
    if not bounded:
        return 0
    case = dataclasses.replace(history.case, queries=dict(needed_queries(history.case.queries.items(), bounded)))
    history = History(case)
    whole = history.whole()
    workers: list[parallel.Workers] = []
    made = parallel.Workers.__enter__

    def entered(self: parallel.Workers) -> parallel.Workers:
        workers.append(self)
        return made(self)

    rng = Random(seed)
    turns = mock.patch.object(parallel.Slice, "overlaps", lambda self: rng.random() < 0.2)
    with cut(3, rng.choice([2, 3, SHORT])), turns, mock.patch.object(parallel.Workers, "__enter__", entered):
        found = history.whole()
    for name, rows in whole.items():
        assert same_rows(rows, found[name]), (seed, name)
    return len(workers[0]._workers) if workers else 0


def test_slices_give_the_rows_of_the_whole():
    assert sum(differs(seed) > 1 for seed in range(10)) >= 3


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


@pytest.mark.long
@pytest.mark.parametrize("start", range(2000, 2000 + LONG, 100))
def test_slices_give_the_rows_of_the_whole_on_many_seeds(start: int):
    for seed in range(start, start + 100):
        differs(seed)
