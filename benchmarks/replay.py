"""Replay from files to files, one query of Listing 1 at a time and many at once: `cepbridge run` and Flink SQL.

The bridge's figures are those of the whole command, and of `bridge.replay` from Parquet to Parquet in a warm process. Flink's
are those of its job, without the start of Java, and warm, too. Flink reads and writes CSV (Parquet needs Hadoop there), so the
command is measured with both formats.
"""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

import bridge
from benchmarks.compared import difference
from bridge.bench.peers import Peer
from bridge.bench.report import machine, machine_description, three_digits
from bridge.bench.systems import RefusedError
from bridge.bench.workloads import MIXED, MIXED_COUNT, SCHEMAS, WORKLOADS, Workload, table
from bridge.errors import BridgeError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("parquet", "csv")
Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class ReplayFigure:
    """The seconds of each run of a query on one system, whose name is `side`; `refused` says why there are none."""

    operator: str
    side: str
    events: int
    results: int = 0
    seconds: tuple[float, ...] = ()
    refused: str | None = None


@dataclasses.dataclass(frozen=True)
class ReplayCase:
    """A workload with `count` queries of each kind, over `events` events of all its streams together."""

    workload: Workload
    count: int
    events: int

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def stop(self) -> int:
        """The timestamp after the last events, in milliseconds."""
        return self.events // len(self.workload.streams)

    @property
    def queries(self) -> dict[str, str]:
        return dict(self.workload.queries(self.count))

    def figure(self, side: str, results: Mapping[str, pa.Table], seconds: Sequence[float]) -> ReplayFigure:
        """The figure of a system."""
        rows = sum(table.num_rows for table in results.values())
        return ReplayFigure(self.name, side, self.stop * len(self.workload.streams), rows, tuple(seconds))


def cases(events: int, mixed: int) -> list[ReplayCase]:
    """Each operator over `events` events, and 20 queries of each kind over `mixed` events; 0 is for none."""
    single = [ReplayCase(workload, 1, events) for workload in WORKLOADS if events]
    return [*single, ReplayCase(MIXED, MIXED_COUNT, mixed)] if mixed else single


def measure(
    cases: Sequence[ReplayCase], databases: Sequence[str], flink: Peer | None, runs: int, progress: Progress
) -> Iterator[ReplayFigure]:
    """Measures all systems with all cases. Raises BridgeError if two give different rows."""
    for case in cases:
        with tempfile.TemporaryDirectory() as name:
            yield from _measure_case(case, Path(name), databases, flink, runs, progress)


def _measure_case(
    case: ReplayCase, folder: Path, databases: Sequence[str], flink: Peer | None, runs: int, progress: Progress
) -> Iterator[ReplayFigure]:
    _write(case, folder)
    expected: dict[str, pa.Table] = {}
    for database in databases:
        for format in FORMATS:
            progress(f"{case.name}: {database}, {format}")
            seconds = [_run(case, folder, database, format) for _ in range(runs)]
            tables = _results(case, folder / "out", format)
            expected = expected or tables
            _compare(f"{case.name}, {database}, {format}", expected, tables)
            yield case.figure(f"{database} {format}", tables, seconds)
        progress(f"{case.name}: {database}, warm")
        seconds = [_replay(case, folder, database) for _ in range(1 + runs)][1:]
        tables = _results(case, folder / "warm", "parquet")
        _compare(f"{case.name}, {database}, warm", expected, tables)
        yield case.figure(f"{database} parquet, warm", tables, seconds)
    if flink is not None and expected:
        progress(f"{case.name}: {flink.name}")
        name = f"{flink.name} csv"
        try:
            seconds, tables = _flink(flink, case, folder, runs, expected)
        except RefusedError as error:
            yield ReplayFigure(case.name, name, case.stop * len(case.workload.streams), refused=str(error))
        else:
            _compare(f"{case.name}, {flink.name}", expected, tables)
            yield case.figure(name, tables, seconds)


def _write(case: ReplayCase, folder: Path) -> None:
    """Writes the events in each format, and the queries."""
    import pyarrow.csv
    import pyarrow.parquet

    streams = case.workload.streams
    for stream in streams:
        rows = table(stream, 0, case.stop, case.count)
        pyarrow.parquet.write_table(rows, folder / f"{stream}.parquet")
        pyarrow.csv.write_csv(rows, folder / f"{stream}.csv")
        pyarrow.csv.write_csv(rows, folder / f"{stream}.bare", pyarrow.csv.WriteOptions(include_header=False))
    lines = [f"CREATE STREAM {stream} ({SCHEMAS[stream]});" for stream in streams]
    lines += [f"CREATE QUERY {name} AS {text};" for name, text in case.queries.items()]
    (folder / "queries.sql").write_text("\n".join(lines), encoding="utf-8")


def _run(case: ReplayCase, folder: Path, database: str, format: str) -> float:
    """The seconds of the whole command."""
    streams = case.workload.streams
    events = (word for stream in streams for word in ("--events", f"{stream}={folder / stream}.{format}"))
    command = [sys.executable, "-m", "bridge", "run", str(folder / "queries.sql"), *events, "--db", database]
    start = time.perf_counter()
    done = subprocess.run([*command, "--out", str(folder / "out"), "--format", format], capture_output=True, text=True)
    if done.returncode:
        raise BridgeError(f"{case.name}, {database}: {done.stderr.strip().splitlines()[-1]}")
    return time.perf_counter() - start


def _replay(case: ReplayCase, folder: Path, database: str) -> float:
    """The seconds of `bridge.replay` in this process."""
    events = {stream: folder / f"{stream}.parquet" for stream in case.workload.streams}
    script = (folder / "queries.sql").read_text(encoding="utf-8")
    start = time.perf_counter()
    bridge.replay(events, script, database=database, out=folder / "warm")
    return time.perf_counter() - start


def _results(case: ReplayCase, folder: Path, format: str) -> dict[str, pa.Table]:
    """The results of each query, from its file."""
    return {name: duckdb.sql(f"SELECT * FROM '{folder / name}.{format}'").to_arrow_table() for name in case.queries}


def _flink(
    flink: Peer, case: ReplayCase, folder: Path, runs: int, expected: Mapping[str, pa.Table]
) -> tuple[list[float], dict[str, pa.Table]]:
    """Flink's seconds, and the results of each query, with as many columns as `expected`."""
    result = folder / "flink.csv"
    events = {stream: str(folder / f"{stream}.bare") for stream in case.workload.streams}
    request = {"runs": 1 + runs, "from": 0, "result": str(result)}
    seconds = flink.run(case.workload, case.count, events, request)
    columns = {"name": "VARCHAR", "ts": "BIGINT", **{f"v{place}": "BIGINT" for place in (1, 2, 3)}}
    with duckdb.connect() as connection:
        source = f"read_csv('{result}', auto_detect = false, null_padding = true, columns = {columns})"
        connection.execute(f"CREATE TABLE results AS FROM {source}")
        tables = {
            name: connection.sql(
                f"SELECT {', '.join(list(columns)[1 : 1 + table.num_columns])} FROM results WHERE name = ?",
                params=[name],
            ).to_arrow_table()
            for name, table in expected.items()
        }
    return seconds[1:], tables


def _compare(place: str, expected: Mapping[str, pa.Table], actual: Mapping[str, pa.Table]) -> None:
    """Raises BridgeError if the results of a query differ."""
    with duckdb.connect() as connection:
        for name, table in expected.items():
            if wrong := difference(connection, table, actual[name]):
                raise BridgeError(f"{place}: {name}: {wrong}")


def markdown(found: Sequence[ReplayFigure]) -> str:
    """One row per query and system."""
    lines = ["| query | side | events | results | seconds (smallest–largest) | events/s |", "|---|---|--:|--:|--:|--:|"]
    for each in found:
        median = statistics.median(each.seconds) if each.seconds else 0.0
        spread = f"{median:.2f} ({min(each.seconds):.2f}–{max(each.seconds):.2f})" if each.seconds else "refused"
        rate = three_digits(each.events / median) if median else ""
        lines.append(f"| {each.operator} | {each.side} | {each.events:,} | {each.results:,} | {spread} | {rate} |")
    notes = [f"{each.operator}, {each.side}: {each.refused}" for each in found if each.refused]
    return "\n".join([*lines, "", machine_description(machine()), *notes])
