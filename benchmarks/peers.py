"""The systems that run row patterns: this project, a statement written by hand, and other engines that are installed.

A system runs a workload over a Parquet file, whose rows are in no order, and gives the seconds of each run. Starting up and
loading the data are not counted; making the result a table is.
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
from benchmarks.row_patterns import Expected, PatternWorkload, Translation
from bridge.bench.systems import RefusedError

if TYPE_CHECKING:
    import pyarrow as pa

TIMEOUT = 180
"""The seconds per run, on average, after which a peer is stopped."""


@dataclasses.dataclass(frozen=True)
class TimedResult:
    """The result of a workload over `rows` rows, and the seconds of each run."""

    rows: int
    result: pa.Table
    seconds: tuple[float, ...]


class PatternSystem(Protocol):
    """A system that runs row patterns. Raises RefusedError if it cannot run a workload."""

    @property
    def name(self) -> str: ...

    def row_count(self, workload: PatternWorkload, rows: int) -> int | None:
        """The number of rows that it gets, at most `rows`; None if it does not run the workload."""

    def expected(self, workload: PatternWorkload) -> Expected:
        """The rows that it must give: those of the standard, unless it is known to differ."""
        return workload.expected

    def differs(self, workload: PatternWorkload) -> str | None:
        """How its results differ from the standard's; None if they do not."""
        return None

    def run(self, workload: PatternWorkload, data: pathlib.Path, rows: int, runs: int) -> TimedResult: ...


@dataclasses.dataclass(frozen=True)
class BridgeQueries(PatternSystem):
    """This project's `cep.query`."""

    name: str = "cep.query"

    def row_count(self, workload: PatternWorkload, rows: int) -> int | None:
        return rows

    def run(self, workload: PatternWorkload, data: pathlib.Path, rows: int, runs: int) -> TimedResult:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rows.duckdb"
            _load(file, data)
            with bridge.connect(f"duckdb:///{file}") as cep:
                try:
                    return _time(lambda: cep.query(workload.query).to_arrow(), rows, runs)
                except bridge.BridgeError as error:
                    raise RefusedError(f"the bridge refuses it: {error}") from None


@dataclasses.dataclass(frozen=True)
class HandwrittenSql(PatternSystem):
    """A statement written by hand that gives the same rows, on DuckDB."""

    name: str = "SQL by hand"

    def row_count(self, workload: PatternWorkload, rows: int) -> int | None:
        return rows if workload.statement else None

    def run(self, workload: PatternWorkload, data: pathlib.Path, rows: int, runs: int) -> TimedResult:
        import duckdb

        statement = workload.statement
        assert statement is not None
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rows.duckdb"
            _load(file, data)
            with duckdb.connect(file) as connection:
                return _time(lambda: connection.sql(statement).to_arrow_table(), rows, runs)


class ExternalEngine(PatternSystem):
    """An engine that runs in a process of its own."""

    def translation(self, workload: PatternWorkload) -> Translation | None:
        """The query in the engine's language."""
        raise NotImplementedError

    def seconds(
        self, translation: Translation, data: pathlib.Path, result: pathlib.Path, rows: int, runs: int
    ) -> list[float]:
        """Runs the query, writes the result as Parquet, and returns the seconds of each run."""
        raise NotImplementedError

    def row_count(self, workload: PatternWorkload, rows: int) -> int | None:
        translation = self.translation(workload)
        return min(rows, translation.rows or rows) if translation else None

    def expected(self, workload: PatternWorkload) -> Expected:
        translation = self.translation(workload)
        return (translation and translation.expected) or workload.expected

    def differs(self, workload: PatternWorkload) -> str | None:
        translation = self.translation(workload)
        return translation.differs if translation else None

    def run(self, workload: PatternWorkload, data: pathlib.Path, rows: int, runs: int) -> TimedResult:
        import pyarrow.parquet as pq

        translation = self.translation(workload)
        assert translation is not None
        with tempfile.TemporaryDirectory() as folder:
            result = pathlib.Path(folder) / "result.parquet"
            seconds = self.seconds(translation, data, result, rows, runs)
            return TimedResult(rows, pq.read_table(result), tuple(seconds))


@dataclasses.dataclass(frozen=True)
class PandasEngine(ExternalEngine):
    """pandas-match-recognize, in an environment of its own, because it needs an older numpy."""

    python: pathlib.Path
    name: str = "pandas-match-recognize"

    def translation(self, workload: PatternWorkload) -> Translation | None:
        return workload.pandas

    def seconds(
        self, translation: Translation, data: pathlib.Path, result: pathlib.Path, rows: int, runs: int
    ) -> list[float]:
        query = f"SELECT * FROM t MATCH_RECOGNIZE ({translation.query})"
        return seconds_of(self.python, "pandas_peer.py", query, data, result, runs)


@dataclasses.dataclass(frozen=True)
class FlinkEngine(ExternalEngine):
    """Flink SQL, including the reading of its CSV file, without the start of its job."""

    python: pathlib.Path
    name: str = "Flink SQL"

    def translation(self, workload: PatternWorkload) -> Translation | None:
        return workload.flink

    def seconds(
        self, translation: Translation, data: pathlib.Path, result: pathlib.Path, rows: int, runs: int
    ) -> list[float]:
        return seconds_of(self.python, "flink_rows.py", translation.query, csv_of(data), result, runs)


@dataclasses.dataclass(frozen=True)
class EsperEngine(ExternalEngine):
    """Esper, with one thread, and the events in memory before the start."""

    jars: pathlib.Path
    name: str = "Esper"

    def translation(self, workload: PatternWorkload) -> Translation | None:
        return workload.esper

    def seconds(
        self, translation: Translation, data: pathlib.Path, result: pathlib.Path, rows: int, runs: int
    ) -> list[float]:
        from benchmarks import esper_peer

        schema = "\t@public @buseventtype create objectarray schema t (ts long, symbol string, price double)"
        stream = ("t", "sd", str(csv_of(data)))
        lines = [schema, "q\t" + " ".join(translation.query.split())]
        written = result.with_suffix(".csv")
        try:
            esper_peer.run(str(self.jars), lines, 1, str(written), 0, stream, TIMEOUT * 2)
            seconds = esper_peer.run(str(self.jars), lines, 1 + runs, "-", 0, stream, TIMEOUT * (1 + runs))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            raise RefusedError(f"{type(error).__name__}: {error}") from None
        _csv_to_parquet(written, result, skip=2)
        return seconds[1:]


def installed(pandas: str | None, flink: str | None, esper_jars: str | None) -> list[PatternSystem]:
    """The other engines that are installed. Raises RefusedError for an environment without its package."""
    engines: list[PatternSystem] = []
    for python, package, engine in ((pandas, "pandas_match_recognize", PandasEngine), (flink, "pyflink", FlinkEngine)):
        if python:
            if subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode:
                raise RefusedError(f"{python} has no {package}")
            engines.append(engine(pathlib.Path(python)))
    if esper_jars:
        engines.append(EsperEngine(pathlib.Path(esper_jars)))
    return engines


def seconds_of(
    python: pathlib.Path,
    program: str,
    query: str,
    data: pathlib.Path,
    result: pathlib.Path,
    runs: int,
    settings: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> list[float]:
    """Runs a program of this directory. Returns the seconds of each run after the first; one more run writes the result.

    With `runs` 0 there is one run, which also writes the result. `timeout`: the seconds per run, on average.
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
            timeout=timeout * (runs + 2 if runs else 1),
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise RefusedError(f"more than {timeout:g} s per run") from None
    if done.returncode:
        raise RefusedError(done.stderr.strip().splitlines()[-1])
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])["seconds"]
    return seconds[1:] if runs else seconds


def csv_of(data: pathlib.Path) -> pathlib.Path:
    """Writes the ticks in the order of time as CSV: ts, symbol, price."""
    import duckdb

    written = data.with_suffix(".csv")
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT ts, symbol, price FROM '{data}' ORDER BY ts, symbol) TO '{written}' (HEADER false)"
        )
    return written


def _csv_to_parquet(written: pathlib.Path, result: pathlib.Path, skip: int) -> None:
    """Writes the rows of a CSV file without its first `skip` columns as Parquet."""
    import duckdb

    with duckdb.connect() as connection:
        rows = connection.sql(f"FROM read_csv('{written}', header = false)")
        rows.select(*rows.columns[skip:]).write_parquet(str(result))


def _load(file: pathlib.Path, data: pathlib.Path) -> None:
    import duckdb

    with duckdb.connect(file) as connection:
        connection.execute(f"CREATE TABLE t AS FROM '{data}'")


def _time(run: Callable[[], pa.Table], rows: int, runs: int) -> TimedResult:
    """The result of a first run, and the seconds of `runs` runs after it."""
    result, seconds = run(), []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return TimedResult(rows, result, tuple(seconds))
