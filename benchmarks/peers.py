"""Who answers a row pattern: this project, a statement written by hand, and other engines where they are installed.

A side answers a workload over data in a Parquet file (its rows in no promised order) and tells the seconds of each
run; starting up and loading the data are not counted for anyone, making the result a table is.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import bridge
from benchmarks.row_patterns import Workload

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

LONGEST = 180
"""So many seconds a run on the average, and a peer is ended."""


class RefusedError(Exception):
    """A side does not answer, and why."""


@dataclasses.dataclass(frozen=True)
class Answer:
    rows: int
    """Of the data."""
    result: pa.Table
    seconds: tuple[float, ...]
    """One run or more; none where only the result was asked for."""


Expected = Callable[["duckdb.DuckDBPyConnection"], "pa.Table"]


class Side(Protocol):
    """Raises RefusedError where it cannot answer the workload."""

    @property
    def name(self) -> str: ...

    def asked(self, workload: Workload, rows: int) -> int | None:
        """How many of the rows it is asked about; None for not at all."""

    def expected(self, workload: Workload) -> Expected:
        """The rows it must give: the standard's, unless it is known to differ."""
        return workload.expected

    def differs(self, workload: Workload) -> str | None:
        """How its answer differs from the standard's."""
        return None

    def answer(self, workload: Workload, data: pathlib.Path, rows: int, runs: int) -> Answer: ...


@dataclasses.dataclass(frozen=True)
class Ours(Side):
    name: str = "cep.query"

    def asked(self, workload: Workload, rows: int) -> int | None:
        return rows

    def answer(self, workload: Workload, data: pathlib.Path, rows: int, runs: int) -> Answer:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rows.duckdb"
            _load(file, data)
            with bridge.connect(f"duckdb:///{file}") as cep:
                try:
                    return _timed(lambda: cep.query(workload.query).to_arrow(), rows, runs)
                except bridge.BridgeError as error:
                    raise RefusedError(f"the engine refuses it: {error}") from None


@dataclasses.dataclass(frozen=True)
class ByHand(Side):
    """A statement that gives the same rows, straight on DuckDB."""

    name: str = "SQL by hand"

    def asked(self, workload: Workload, rows: int) -> int | None:
        return rows if workload.statement else None

    def answer(self, workload: Workload, data: pathlib.Path, rows: int, runs: int) -> Answer:
        import duckdb

        statement = workload.statement
        assert statement is not None
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rows.duckdb"
            _load(file, data)
            with duckdb.connect(file) as connection:
                return _timed(lambda: connection.sql(statement).to_arrow_table(), rows, runs)


@dataclasses.dataclass(frozen=True)
class Pandas(Side):
    """pandas-match-recognize, in an environment of its own: it wants an older numpy."""

    python: pathlib.Path
    name: str = "pandas-match-recognize"

    def asked(self, workload: Workload, rows: int) -> int | None:
        return min(rows, workload.pandas_rows or rows) if workload.pandas else None

    def expected(self, workload: Workload) -> Expected:
        return workload.pandas_expected or workload.expected

    def differs(self, workload: Workload) -> str | None:
        return workload.pandas_differs

    def answer(self, workload: Workload, data: pathlib.Path, rows: int, runs: int) -> Answer:
        import pyarrow.parquet as pq

        with tempfile.TemporaryDirectory() as folder:
            result = pathlib.Path(folder) / "result.parquet"
            query = f"SELECT * FROM t MATCH_RECOGNIZE ({workload.pandas})"
            request = {"data": str(data), "query": query, "runs": 1 + runs, "result": str(result)}
            program = pathlib.Path(__file__).with_name("pandas_peer.py")
            command = [str(self.python), str(program)]
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
            try:
                done = subprocess.run(
                    command,
                    input=json.dumps(request),
                    capture_output=True,
                    text=True,
                    timeout=LONGEST * (1 + runs),
                    env=environment,
                )
            except subprocess.TimeoutExpired:
                raise RefusedError(f"more than {LONGEST} s a run for {rows:,} rows") from None
            if done.returncode:
                raise RefusedError(done.stderr.strip().splitlines()[-1])
            seconds = json.loads(done.stdout)["seconds"]
            return Answer(rows, pq.read_table(result), tuple(seconds[1:]))


def installed(python: str | None) -> list[Side]:
    """The other engines that are here. Flink SQL and Esper are not run, only quoted: see `Workload.published`."""
    found: list[Side] = []
    if python:
        command = [python, "-c", "import pandas_match_recognize"]
        if subprocess.run(command, capture_output=True).returncode:
            raise RefusedError(f"{python} has no pandas-match-recognize")
        found.append(Pandas(pathlib.Path(python)))
    return found


def _load(file: pathlib.Path, data: pathlib.Path) -> None:
    import duckdb

    with duckdb.connect(file) as connection:
        connection.execute(f"CREATE TABLE t AS FROM '{data}'")


def _timed(answer: Callable[[], pa.Table], rows: int, runs: int) -> Answer:
    """The result of a first run that is not timed, and the seconds of the runs after it."""
    result, seconds = answer(), []
    for _ in range(runs):
        began = time.perf_counter()
        answer()
        seconds.append(time.perf_counter() - began)
    return Answer(rows, result, tuple(seconds))
