"""Other engines: programs that are started for each figure, so that they need nothing of this project, nor it of them.

A peer's program reads one JSON object from standard input and writes one to standard output:

- `queries`: a list of objects with `name`, `operator` (sigma, join, alpha or rho), `i`, and `window` in milliseconds;
- `events`: for each stream (stream, stream1, stream2) a CSV file: ts and the attributes, without a header;
- `from`: results before this timestamp need not be written; `runs`: how often the events are to go through;
- `result`: a CSV file to be written: the query's name, ts, the values, in any order; null where none is wanted.

The answer has `seconds`, those of each run (without starting up and, where it can be kept apart, reading the files),
and `version`. A program that ends with an error says in its last line why.
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

from bridge.bench.contestants import RefusedError, Rows, Timing
from bridge.bench.workloads import Workload, table, window

LONGEST = 240
"""So many seconds a program may run, if not told otherwise."""

FIRST = 5_000
"""So many milliseconds of events are tried first, to see how many fit into a run."""

FEWEST, MOST = 2_000, 5_000_000
"""No run has fewer or more milliseconds of events."""

ATTEMPTS = 4
"""So often the number of events is changed when it turns out that they take too little time."""


@dataclasses.dataclass(frozen=True)
class Peer:
    """An engine by its name and the command that runs its program, for so many seconds at most."""

    name: str
    command: tuple[str, ...]
    longest: float = LONGEST

    @property
    def database(self) -> str:
        return "other engines"

    def rows(self, workload: Workload, count: int, checked: range) -> Rows:
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.csv"
            self._ask(workload, count, checked.stop, {"runs": 1, "from": checked.start, "result": str(result)}, folder)
            found: Rows = {name: [] for name in workload.queries(count)}
            with result.open(encoding="utf-8", newline="") as lines:
                for name, *values in csv.reader(lines):
                    found[name].append(tuple(map(int, values)))
        return {name: sorted(row for row in rows if row[0] in checked) for name, rows in found.items()}

    def measure(self, workload: Workload, count: int, seconds: float, runs: int) -> Timing:
        """Each run takes about so many seconds, for what is compiled while it runs; a first one does not count."""
        stop, spent = FIRST, self._spent(workload, count, FIRST, 1)
        for _ in range(ATTEMPTS):
            stop = max(FEWEST, min(MOST, int(stop * 1.2 * seconds / min(spent))))
            spent = self._spent(workload, count, stop, runs)
            if stop == MOST or sum(spent) >= seconds * runs / 2:
                break
        return Timing(tuple(stop * len(workload.streams) / each for each in spent))

    def _spent(self, workload: Workload, count: int, stop: int, runs: int) -> list[float]:
        """The seconds of the runs after a first one that warms it up."""
        request = {"runs": 1 + runs, "from": stop, "result": None}
        with tempfile.TemporaryDirectory() as folder:
            return [max(each, 1e-3) for each in self._ask(workload, count, stop, request, folder)[1:]]

    def _ask(self, workload: Workload, count: int, stop: int, request: dict[str, Any], folder: str) -> list[float]:
        """The seconds of each run over the events before `stop`."""
        events = {stream: str(_written(stream, stop, count, Path(folder))) for stream in workload.streams}
        return self.ask(workload, count, events, request)

    def ask(self, workload: Workload, count: int, events: dict[str, str], request: dict[str, Any]) -> list[float]:
        """The seconds of each run over the events of these files."""
        whole = {**request, "events": events, "queries": _queries(workload, count)}
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        try:
            done = subprocess.run(
                self.command,
                input=json.dumps(whole),
                capture_output=True,
                text=True,
                timeout=self.longest,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            raise RefusedError(f"it takes more than {self.longest:g} s") from None
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


def _written(stream: str, stop: int, count: int, folder: Path) -> Path:
    import pyarrow.csv

    path = folder / f"{stream}.csv"
    options = pyarrow.csv.WriteOptions(include_header=False)
    pyarrow.csv.write_csv(table(stream, 0, stop, count), path, options)
    return path
