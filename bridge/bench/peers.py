"""Other engines: programs that run once per figure, so that they and this project do not depend on each other.

A peer's program reads one JSON object from standard input and writes one to standard output:

- `queries`: a list of objects with `name`, `operator` (sigma, join, alpha or rho), `i`, and `window` in milliseconds;
- `events`: for each stream (stream, stream1, stream2) a CSV file: ts and the attributes, without a header;
- `from`: results before this timestamp need not be written; `runs`: how often the events are processed;
- `result`: the CSV file to write: the name of the query, ts, and the values, in any order; null for no file.

The answer has `seconds`, those of each run (without the start and, if possible, without reading the files), and `version`.
A program that ends with an error says why in its last line.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bridge.bench.systems import RefusedError, ResultRows, Timing
from bridge.bench.workloads import Workload, table, window

TIMEOUT = 240
"""The greatest number of seconds that a program may run."""

FIRST_TRY = 5_000
"""The milliseconds of events in the first run, whose time determines the number of events in the others."""

FEWEST, MOST = 2_000, 5_000_000
"""The smallest and the largest number of milliseconds of events in a run."""

ATTEMPTS = 4
"""How often the number of events is increased if a run takes too little time."""


@dataclasses.dataclass(frozen=True)
class Peer:
    """An engine: its name, the command that runs its program, and the seconds that it may take."""

    name: str
    command: tuple[str, ...]
    timeout: float = TIMEOUT

    @property
    def database(self) -> str:
        return "other engines"

    def rows(self, workload: Workload, count: int, checked: range) -> ResultRows:
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.csv"
            self._run_over(
                workload, count, checked.stop, {"runs": 1, "from": checked.start, "result": str(result)}, folder
            )
            results: ResultRows = {name: [] for name in workload.queries(count)}
            with result.open(encoding="utf-8", newline="") as lines:
                for name, *values in csv.reader(lines):
                    results[name].append(tuple(map(int, values)))
        return {name: sorted(row for row in rows if row[0] in checked) for name, rows in results.items()}

    def measure(self, workload: Workload, count: int, seconds: float, runs: int) -> Timing:
        """Measures runs of about `seconds` seconds each.

        The first does not count, as engines may compile while they run.
        """
        stop, spent = FIRST_TRY, self._spent(workload, count, FIRST_TRY, 1)
        for _ in range(ATTEMPTS):
            stop = max(FEWEST, min(MOST, int(stop * 1.2 * seconds / min(spent))))
            spent = self._spent(workload, count, stop, runs)
            if stop == MOST or sum(spent) >= seconds * runs / 2:
                break
        return Timing(tuple(stop * len(workload.streams) / each for each in spent))

    def _spent(self, workload: Workload, count: int, stop: int, runs: int) -> list[float]:
        """The seconds of each run after the first, which warms the engine up."""
        request = {"runs": 1 + runs, "from": stop, "result": None}
        with tempfile.TemporaryDirectory() as folder:
            return [max(each, 1e-3) for each in self._run_over(workload, count, stop, request, folder)[1:]]

    def _run_over(self, workload: Workload, count: int, stop: int, request: dict[str, Any], folder: str) -> list[float]:
        """The seconds of each run over the events with timestamps before `stop`."""
        events = {stream: str(_csv_file(stream, stop, count, Path(folder))) for stream in workload.streams}
        return self.run(workload, count, events, request)

    def run(self, workload: Workload, count: int, events: dict[str, str], request: dict[str, Any]) -> list[float]:
        """Runs the program over the events of these files. Returns the seconds of each run; raises RefusedError."""
        whole = {**request, "events": events, "queries": _queries(workload, count)}
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        try:
            done = subprocess.run(
                self.command,
                input=json.dumps(whole),
                capture_output=True,
                text=True,
                timeout=self.timeout,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            raise RefusedError(f"it takes more than {self.timeout:g} s") from None
        except OSError as error:
            raise RefusedError(f"{self.command[0]}: {error.strerror}") from None
        if done.returncode:
            raise RefusedError((done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1])
        seconds: list[float] = json.loads(done.stdout)["seconds"]
        return seconds


def _queries(workload: Workload, count: int) -> list[dict[str, Any]]:
    return [
        {"name": f"{text.__name__}_{i}", "operator": text.__name__, "i": i, "window": window(i, count)}
        for text in workload.texts
        for i in range(1, count + 1)
    ]


def _csv_file(stream: str, stop: int, count: int, folder: Path) -> Path:
    import pyarrow.csv

    path = folder / f"{stream}.csv"
    options = pyarrow.csv.WriteOptions(include_header=False)
    pyarrow.csv.write_csv(table(stream, 0, stop, count), path, options)
    return path
