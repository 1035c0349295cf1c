"""History from a file to files of results, one query of Listing 1 at a time and many at once: `cepbridge run`, and Flink SQL.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

import bridge
from benchmarks.compared import difference
from bridge.bench.contestants import RefusedError
from bridge.bench.peers import Peer
from bridge.bench.report import machine, sentence, short
from bridge.bench.workloads import MIXED, MIXED_COUNT, SCHEMAS, WORKLOADS, Workload, table
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


@dataclasses.dataclass(frozen=True)
class Case:
    """A workload of so many queries of each kind over so many events, those of all its streams together."""

    workload: Workload
    count: int
    events: int

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def stop(self) -> int:
        """When the last events are over, in milliseconds."""
        return self.events // len(self.workload.streams)

    @property
    def queries(self) -> dict[str, str]:
        return dict(self.workload.queries(self.count))

    def done(self, side: str, results: Mapping[str, pa.Table], seconds: Sequence[float]) -> Replay:
        """What a side took."""
        rows = sum(table.num_rows for table in results.values())
        return Replay(self.name, side, self.stop * len(self.workload.streams), rows, tuple(seconds))


def cases(events: int, mixed: int) -> list[Case]:
    """Each operator alone over so many events, and 20 queries of each over the `mixed` ones; 0 leaves them out."""
    found = [Case(workload, 1, events) for workload in WORKLOADS if events]
    return [*found, Case(MIXED, MIXED_COUNT, mixed)] if mixed else found


def measure(
    cases: Sequence[Case], databases: Sequence[str], flink: Peer | None, runs: int, tell: Tell
) -> Iterator[Replay]:
    """All sides of all cases; raises BridgeError where two do not give the same rows."""
    for case in cases:
        with tempfile.TemporaryDirectory() as name:
            yield from _one(case, Path(name), databases, flink, runs, tell)


def _one(
    case: Case, folder: Path, databases: Sequence[str], flink: Peer | None, runs: int, tell: Tell
) -> Iterator[Replay]:
    _write(case, folder)
    expected: dict[str, pa.Table] = {}
    for database in databases:
        for format in FORMATS:
            tell(f"{case.name}: {database}, {format}")
            seconds = [_run(case, folder, database, format) for _ in range(runs)]
            found = _results(case, folder / "out", format)
            expected = expected or found
            _compare(f"{case.name}, {database}, {format}", expected, found)
            yield case.done(f"{database} {format}", found, seconds)
        tell(f"{case.name}: {database}, warm")
        seconds = [_warm(case, folder, database) for _ in range(1 + runs)][1:]
        found = _results(case, folder / "warm", "parquet")
        _compare(f"{case.name}, {database}, warm", expected, found)
        yield case.done(f"{database} parquet, warm", found, seconds)
    if flink is not None and expected:
        tell(f"{case.name}: {flink.name}")
        side = f"{flink.name} csv"
        try:
            seconds, found = _ask(flink, case, folder, runs, expected)
        except RefusedError as error:
            yield Replay(case.name, side, case.stop * len(case.workload.streams), refused=str(error))
        else:
            _compare(f"{case.name}, {flink.name}", expected, found)
            yield case.done(side, found, seconds)


def _write(case: Case, folder: Path) -> None:
    """The events in each format, and the queries."""
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


def _run(case: Case, folder: Path, database: str, format: str) -> float:
    """The seconds of the whole command."""
    streams = case.workload.streams
    events = (word for stream in streams for word in ("--events", f"{stream}={folder / stream}.{format}"))
    command = [sys.executable, "-m", "bridge", "run", str(folder / "queries.sql"), *events, "--db", database]
    began = time.perf_counter()
    done = subprocess.run([*command, "--out", str(folder / "out"), "--format", format], capture_output=True, text=True)
    if done.returncode:
        raise BridgeError(f"{case.name}, {database}: {done.stderr.strip().splitlines()[-1]}")
    return time.perf_counter() - began


def _warm(case: Case, folder: Path, database: str) -> float:
    """The seconds of a replay within this process."""
    events = {stream: folder / f"{stream}.parquet" for stream in case.workload.streams}
    script = (folder / "queries.sql").read_text(encoding="utf-8")
    began = time.perf_counter()
    bridge.replay(events, script, database=database, out=folder / "warm")
    return time.perf_counter() - began


def _results(case: Case, folder: Path, format: str) -> dict[str, pa.Table]:
    """The rows of each query's file."""
    return {name: duckdb.sql(f"SELECT * FROM '{folder / name}.{format}'").to_arrow_table() for name in case.queries}


def _ask(
    flink: Peer, case: Case, folder: Path, runs: int, expected: Mapping[str, pa.Table]
) -> tuple[list[float], dict[str, pa.Table]]:
    """Its seconds, and of each query as many columns as are `expected`."""
    result = folder / "flink.csv"
    events = {stream: str(folder / f"{stream}.bare") for stream in case.workload.streams}
    request = {"runs": 1 + runs, "from": 0, "result": str(result)}
    seconds = flink.ask(case.workload, case.count, events, request)
    columns = {"name": "VARCHAR", "ts": "BIGINT", **{f"v{place}": "BIGINT" for place in (1, 2, 3)}}
    with duckdb.connect() as connection:
        source = f"read_csv('{result}', auto_detect = false, null_padding = true, columns = {columns})"
        connection.execute(f"CREATE TABLE found AS FROM {source}")
        found = {
            name: connection.sql(
                f"SELECT {', '.join(list(columns)[1 : 1 + table.num_columns])} FROM found WHERE name = ?", params=[name]
            ).to_arrow_table()
            for name, table in expected.items()
        }
    return seconds[1:], found


def _compare(place: str, expected: Mapping[str, pa.Table], found: Mapping[str, pa.Table]) -> None:
    with duckdb.connect() as connection:
        for name, table in expected.items():
            if wrong := difference(connection, table, found[name]):
                raise BridgeError(f"{place}: {name}: {wrong}")


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
