"""Flink SQL in the paper's experiment; the protocol is that of `bridge.bench.peers`.

    cepbridge bench --peers "Flink SQL=PYTHON benchmarks/flink_peer.py"

PYTHON is that of an environment with `apache-flink`, which needs Java 17. One job has all queries. It reads the events as CSV,
with parallelism 1, because event time would jump if two readers shared a file. The seconds are those of the whole job, with
reading, minus those of the same job over a single event: its start takes more than a second. If only the time matters, the
results are dropped. Each query is written so that Flink plans it well: the correlation as an equality, which is hashed.
"""

from __future__ import annotations

import csv
import json
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

SOURCES = {"stream": "a INT, b INT", "stream1": "a INT", "stream2": "b INT"}
SINKS = {"sigma": "v1 INT, v2 INT", "join": "v1 INT, v2 INT", "alpha": "v1 BIGINT", "rho": "v1 INT, v2 INT, v3 INT"}


def sigma(i: int, window: int) -> str:
    return f"ts, a, b FROM in_stream WHERE a - b = {i}"


def join(i: int, window: int) -> str:
    reach = interval(window - 1)
    return f"""CASE WHEN l.ts > r.ts THEN l.ts ELSE r.ts END, l.a, r.b FROM in_stream1 AS l JOIN in_stream2 AS r
               ON l.a = r.b + {i + 1} AND l.rt BETWEEN r.rt - {reach} AND r.rt + {reach}"""


def alpha(i: int, window: int) -> str:
    return f"""ts, COUNT(*) OVER (ORDER BY rt RANGE BETWEEN {interval(window - 1)} PRECEDING AND CURRENT ROW)
               FROM in_stream"""


def rho(i: int, window: int) -> str:
    return f"""m.ts, z1, z2, z3 FROM in_stream MATCH_RECOGNIZE (
               ORDER BY rt MEASURES u.ts AS ts, x.a AS z1, y.a AS z2, u.a AS z3
               ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
               PATTERN (x y u) WITHIN {interval(window)}
               DEFINE y AS y.a - x.a = {i}, u AS u.a - y.a = {i}) AS m"""


OPERATORS = {"sigma": sigma, "join": join, "alpha": alpha, "rho": rho}


def interval(milliseconds: int) -> str:
    """Milliseconds as an interval of Flink SQL.

    >>> interval(499), interval(1500)
    ("INTERVAL '0.499' SECOND(2, 3)", "INTERVAL '1.500' SECOND(2, 3)")
    """
    return f"INTERVAL '{milliseconds // 1000}.{milliseconds % 1000:03}' SECOND(2, 3)"


def environment(own: Mapping[str, str] | None = None) -> Any:
    """A table environment. The settings `own` replace these."""
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    settings = Configuration()
    for name, value in {
        "parallelism.default": "1",
        "table.local-time-zone": "UTC",
        "restart-strategy.type": "none",
        "pipeline.object-reuse": "true",
        "taskmanager.memory.managed.size": "512m",
        "taskmanager.memory.network.max": "512m",
        "taskmanager.memory.network.min": "512m",
        **(own or {}),
    }.items():
        settings.set_string(name, value)
    return TableEnvironment.create(EnvironmentSettings.new_instance().with_configuration(settings).build())


def source(stream: str, path: str) -> str:
    """A table over a file. Flink takes an event at time 0 for a late one, so its event time is one millisecond later."""
    return f"""CREATE TABLE in_{stream} (ts BIGINT, {SOURCES[stream]}, rt AS TO_TIMESTAMP_LTZ(ts + 1, 3), WATERMARK FOR rt AS rt)
               WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""


def sink(operator: str, folder: pathlib.Path | None) -> str:
    to = f"'filesystem', 'path' = '{folder / operator}', 'format' = 'csv'" if folder else "'blackhole'"
    return f"CREATE TABLE out_{operator} (name STRING, ts BIGINT, {SINKS[operator]}) WITH ('connector' = {to})"


def run(tables: Any, queries: list[dict[str, Any]]) -> float:
    """The seconds of one job with all queries."""
    job = tables.create_statement_set()
    for each in queries:
        select = OPERATORS[each["operator"]](each["i"], each["window"])
        job.add_insert_sql(f"INSERT INTO out_{each['operator']} SELECT '{each['name']}', {select}")
    start = time.perf_counter()
    job.execute().wait()
    return time.perf_counter() - start


def read(tables: Any, events: dict[str, str]) -> None:
    for stream, path in events.items():
        tables.execute_sql(f"DROP TABLE IF EXISTS in_{stream}")
        tables.execute_sql(source(stream, path))


def starting(tables: Any, request: dict[str, Any]) -> float:
    """The seconds of the job over one event per stream, after warming up."""
    with tempfile.TemporaryDirectory() as name:
        first: dict[str, str] = {}
        for stream, path in request["events"].items():
            first[stream] = str(pathlib.Path(name) / stream)
            with open(path, encoding="utf-8") as whole:
                pathlib.Path(first[stream]).write_text(whole.readline(), encoding="utf-8")
        read(tables, first)
        return min(run(tables, request["queries"]) for _ in range(4))


def gather(folder: pathlib.Path, since: int, result: str) -> None:
    with open(result, "w", encoding="utf-8", newline="") as file:
        written = csv.writer(file)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            with path.open(encoding="utf-8", newline="") as lines:
                written.writerows(row for row in csv.reader(lines) if int(row[1]) >= since)


def main() -> None:
    import importlib.metadata

    request = json.load(sys.stdin)
    tables = environment()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) if request["result"] else None
        for operator in {each["operator"] for each in request["queries"]}:
            tables.execute_sql(sink(operator, folder))
        start = 0.0 if folder else starting(tables, request)
        read(tables, request["events"])
        seconds = []
        for _ in range(request["runs"]):
            for written in folder.iterdir() if folder else ():
                shutil.rmtree(written)  # the results of the run before
            seconds.append(run(tables, request["queries"]) - start)
        if folder:
            gather(folder, request["from"], request["result"])
    print(json.dumps({"seconds": seconds, "version": importlib.metadata.version("apache-flink")}))


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if "Caused by" in line or "Exception:" in line]
        sys.exit(" ".join([type(error).__name__, *(lines[-1:] or str(error).splitlines()[:1])]))
