"""History from a file to a file of results, one query of Listing 1 at a time: `cepbridge run`, and Flink SQL.

Ours is the whole command, from its start to its end, and `bridge.replay` from Parquet to Parquet in a process that did so
before. Flink's is its job without starting Java, warm from a run before, too. Flink reads and writes CSV (for Parquet it
wants Hadoop), so our command does, too, beside Parquet.
"""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

import bridge
from benchmarks.compared import difference
from bridge.bench.peers import Peer
from bridge.bench.report import machine, sentence, short
from bridge.bench.sides import RefusedError
from bridge.bench.workloads import SCHEMAS, WORKLOADS, Workload, table
from bridge.errors import BridgeError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("parquet", "csv")
Tell = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Replay:
    """The seconds of each run of a query on a side; `refused` says why there are none."""

    operator: str
    side: str
    events: int
    results: int = 0
    seconds: tuple[float, ...] = ()
    refused: str | None = None


def measure(databases: Sequence[str], flink: Peer | None, events: int, runs: int, tell: Tell) -> Iterator[Replay]:
    """All sides of all queries; raises BridgeError where two do not give the same rows."""
    for workload in WORKLOADS:
        with tempfile.TemporaryDirectory() as name:
            yield from _one(workload, Path(name), databases, flink, events // len(workload.streams), runs, tell)


def _one(
    workload: Workload, folder: Path, databases: Sequence[str], flink: Peer | None, stop: int, runs: int, tell: Tell
) -> Iterator[Replay]:
    events = stop * len(workload.streams)
    _write(workload, folder, stop)
    expected: pa.Table | None = None
    for database in databases:
        for format in FORMATS:
            tell(f"{workload.name}: {database}, {format}")
            seconds = tuple(_run(workload, folder, database, format) for _ in range(runs))
            found = _read(folder / "out" / f"{_query(workload)}.{format}")
            expected = expected if expected is not None else found
            _compare(f"{workload.name}, {database}, {format}", expected, found)
            yield Replay(workload.name, f"{database} {format}", events, found.num_rows, seconds)
        tell(f"{workload.name}: {database}, warm")
        seconds = tuple(_warm(workload, folder, database) for _ in range(1 + runs))[1:]
        found = _read(folder / "warm" / f"{_query(workload)}.parquet")
        _compare(f"{workload.name}, {database}, warm", expected, found)
        yield Replay(workload.name, f"{database} parquet, warm", events, found.num_rows, seconds)
    if flink is not None and expected is not None:
        tell(f"{workload.name}: {flink.name}")
        try:
            seconds, found = _ask(flink, workload, folder, runs)
        except RefusedError as error:
            yield Replay(workload.name, f"{flink.name} csv", events, refused=str(error))
        else:
            _compare(f"{workload.name}, {flink.name}", expected, found)
            yield Replay(workload.name, f"{flink.name} csv", events, found.num_rows, seconds)


def _query(workload: Workload) -> str:
    return next(iter(workload.queries(1)))


def _write(workload: Workload, folder: Path, stop: int) -> None:
    """The events in each format, and the queries."""
    import pyarrow.csv
    import pyarrow.parquet

    for stream in workload.streams:
        rows = table(stream, 0, stop, 1)
        pyarrow.parquet.write_table(rows, folder / f"{stream}.parquet")
        pyarrow.csv.write_csv(rows, folder / f"{stream}.csv")
        pyarrow.csv.write_csv(rows, folder / f"{stream}.bare", pyarrow.csv.WriteOptions(include_header=False))
    lines = [f"CREATE STREAM {stream} ({SCHEMAS[stream]});" for stream in workload.streams]
    lines += [f"CREATE QUERY {name} AS {text};" for name, text in workload.queries(1).items()]
    (folder / "queries.sql").write_text("\n".join(lines), encoding="utf-8")


def _run(workload: Workload, folder: Path, database: str, format: str) -> float:
    """The seconds of the whole command."""
    events = (word for stream in workload.streams for word in ("--events", f"{stream}={folder / stream}.{format}"))
    command = [sys.executable, "-m", "bridge", "run", str(folder / "queries.sql"), *events, "--db", database]
    began = time.perf_counter()
    done = subprocess.run([*command, "--out", str(folder / "out"), "--format", format], capture_output=True, text=True)
    if done.returncode:
        raise BridgeError(f"{workload.name}, {database}: {done.stderr.strip().splitlines()[-1]}")
    return time.perf_counter() - began


def _warm(workload: Workload, folder: Path, database: str) -> float:
    """The seconds of a replay within this process."""
    events = {stream: folder / f"{stream}.parquet" for stream in workload.streams}
    script = (folder / "queries.sql").read_text(encoding="utf-8")
    began = time.perf_counter()
    bridge.replay(events, script, database=database, out=folder / "warm")
    return time.perf_counter() - began


def _ask(flink: Peer, workload: Workload, folder: Path, runs: int) -> tuple[tuple[float, ...], pa.Table]:
    result = folder / "flink.csv"
    events = {stream: str(folder / f"{stream}.bare") for stream in workload.streams}
    seconds = flink.ask(workload, 1, events, {"runs": 1 + runs, "from": 0, "result": str(result)})
    return tuple(seconds[1:]), _read(result, named=False)


def _read(path: Path, named: bool = True) -> pa.Table:
    """The rows of a file of results: ts and the values."""
    columns = "* EXCLUDE (column0)"
    source = f"read_csv('{path}', header = false)" if not named else f"'{path}'"
    return duckdb.sql(f"SELECT {columns if not named else '*'} FROM {source}").to_arrow_table()


def _compare(place: str, expected: pa.Table, found: pa.Table) -> None:
    with duckdb.connect() as connection:
        if wrong := difference(connection, expected, found):
            raise BridgeError(f"{place}: {wrong}")


def markdown(found: Sequence[Replay]) -> str:
    """A row a query and side."""
    lines = ["| query | side | events | results | seconds (smallest–largest) | events/s |", "|---|---|--:|--:|--:|--:|"]
    for each in found:
        median = statistics.median(each.seconds) if each.seconds else 0.0
        spread = f"{median:.2f} ({min(each.seconds):.2f}–{max(each.seconds):.2f})" if each.seconds else "refused"
        rate = short(each.events / median) if median else ""
        lines.append(f"| {each.operator} | {each.side} | {each.events:,} | {each.results:,} | {spread} | {rate} |")
    notes = [f"{each.operator}, {each.side}: {each.refused}" for each in found if each.refused]
    return "\n".join([*lines, "", sentence(machine()), *notes])
