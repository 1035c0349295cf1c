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
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import bridge
from benchmarks.row_patterns import Expected, Theirs, Workload

if TYPE_CHECKING:
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


class Other(Side):
    """An engine in a process of its own."""

    def theirs(self, workload: Workload) -> Theirs | None:
        """The question in its words."""
        raise NotImplementedError

    def seconds(self, asked: Theirs, data: pathlib.Path, result: pathlib.Path, rows: int, runs: int) -> list[float]:
        """Those of each run; the result is written as Parquet."""
        raise NotImplementedError

    def asked(self, workload: Workload, rows: int) -> int | None:
        theirs = self.theirs(workload)
        return min(rows, theirs.rows or rows) if theirs else None

    def expected(self, workload: Workload) -> Expected:
        theirs = self.theirs(workload)
        return (theirs and theirs.expected) or workload.expected

    def differs(self, workload: Workload) -> str | None:
        theirs = self.theirs(workload)
        return theirs.differs if theirs else None

    def answer(self, workload: Workload, data: pathlib.Path, rows: int, runs: int) -> Answer:
        import pyarrow.parquet as pq

        theirs = self.theirs(workload)
        assert theirs is not None
        with tempfile.TemporaryDirectory() as folder:
            result = pathlib.Path(folder) / "result.parquet"
            seconds = self.seconds(theirs, data, result, rows, runs)
            return Answer(rows, pq.read_table(result), tuple(seconds))


@dataclasses.dataclass(frozen=True)
class Pandas(Other):
    """pandas-match-recognize, in an environment of its own: it wants an older numpy."""

    python: pathlib.Path
    name: str = "pandas-match-recognize"

    def theirs(self, workload: Workload) -> Theirs | None:
        return workload.pandas

    def seconds(self, asked: Theirs, data: pathlib.Path, result: pathlib.Path, rows: int, runs: int) -> list[float]:
        query = f"SELECT * FROM t MATCH_RECOGNIZE ({asked.query})"
        return seconds_of(self.python, "pandas_peer.py", query, data, result, runs)


@dataclasses.dataclass(frozen=True)
class Flink(Other):
    """Flink SQL, with the reading of its CSV and less the start of its job."""

    python: pathlib.Path
    name: str = "Flink SQL"

    def theirs(self, workload: Workload) -> Theirs | None:
        return workload.flink

    def seconds(self, asked: Theirs, data: pathlib.Path, result: pathlib.Path, rows: int, runs: int) -> list[float]:
        return seconds_of(self.python, "flink_rows.py", asked.query, csv_of(data), result, runs)


@dataclasses.dataclass(frozen=True)
class Esper(Other):
    """Esper, one thread, the events in memory before."""

    jars: pathlib.Path
    name: str = "Esper"

    def theirs(self, workload: Workload) -> Theirs | None:
        return workload.esper

    def seconds(self, asked: Theirs, data: pathlib.Path, result: pathlib.Path, rows: int, runs: int) -> list[float]:
        from benchmarks import esper_peer

        schema = "\t@public @buseventtype create objectarray schema t (ts long, symbol string, price double)"
        stream = ("t", "sd", str(csv_of(data)))
        lines = [schema, "q\t" + " ".join(asked.query.split())]
        written = result.with_suffix(".csv")
        try:
            esper_peer.run(str(self.jars), lines, 1, str(written), 0, stream, LONGEST * 2)
            seconds = esper_peer.run(str(self.jars), lines, 1 + runs, "-", 0, stream, LONGEST * (1 + runs))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            raise RefusedError(f"{type(error).__name__}: {error}") from None
        _parquet(written, result, skip=2)
        return seconds[1:]


def installed(pandas: str | None, flink: str | None, esper_jars: str | None) -> list[Side]:
    """The other engines that are here."""
    found: list[Side] = []
    for python, package, side in ((pandas, "pandas_match_recognize", Pandas), (flink, "pyflink", Flink)):
        if python:
            if subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode:
                raise RefusedError(f"{python} has no {package}")
            found.append(side(pathlib.Path(python)))
    if esper_jars:
        found.append(Esper(pathlib.Path(esper_jars)))
    return found


def seconds_of(
    python: pathlib.Path,
    program: str,
    query: str,
    data: pathlib.Path,
    result: pathlib.Path,
    runs: int,
    settings: Mapping[str, str] | None = None,
    longest: float = LONGEST,
) -> list[float]:
    """The seconds that a program beside this file tells, but for a first run; one more run, not timed, gives the result.

    Without `runs` it does it all once, and its seconds are those of that. `longest`: of a run on the average.
    """
    command = [str(python), str(pathlib.Path(__file__).with_name(program))]
    request = {
        "data": str(data),
        "query": query,
        "runs": runs and 1 + runs,
        "result": str(result),
        "settings": settings or {},
    }
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=longest * (runs + 2 if runs else 1),
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise RefusedError(f"more than {longest:g} s a run") from None
    if done.returncode:
        raise RefusedError(done.stderr.strip().splitlines()[-1])
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])["seconds"]
    return seconds[1:] if runs else seconds


def csv_of(data: pathlib.Path) -> pathlib.Path:
    """The ticks in order of time as CSV: ts, symbol, price."""
    import duckdb

    written = data.with_suffix(".csv")
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT ts, symbol, price FROM '{data}' ORDER BY ts, symbol) TO '{written}' (HEADER false)"
        )
    return written


def _parquet(written: pathlib.Path, result: pathlib.Path, skip: int) -> None:
    """The rows of a CSV without its first columns."""
    import duckdb

    with duckdb.connect() as connection:
        rows = connection.sql(f"FROM read_csv('{written}', header = false)")
        rows.select(*rows.columns[skip:]).write_parquet(str(result))


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
