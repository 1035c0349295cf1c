"""Flink SQL on row patterns over ticks. The request on stdin is that of `pandas_peer.py`, with a CSV file (ts, symbol, price).

The seconds are those of the job with its reading, minus those of the same job over the first tick. With `runs` 0 they are
those of the job that writes the result.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
import tempfile
import time
from typing import Any

TYPES = {"symbol": "STRING", "top": "DOUBLE", "bottom": "DOUBLE", "up": "DOUBLE", "back": "DOUBLE"} | dict.fromkeys(
    "xyz", "DOUBLE"
)
"""The types of result columns; others are BIGINT."""


def read(tables: Any, path: str) -> None:
    tables.execute_sql("DROP TABLE IF EXISTS t")
    tables.execute_sql(f"""CREATE TABLE t (ts BIGINT, symbol STRING, price DOUBLE,
        rt AS TO_TIMESTAMP_LTZ(ts + 1, 3), WATERMARK FOR rt AS rt)
        WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')""")


def seconds(tables: Any, statement: str) -> float:
    start = time.perf_counter()
    tables.execute_sql(statement).wait()
    return time.perf_counter() - start


def main() -> None:
    import importlib.metadata

    import flink_peer
    import pyarrow.csv
    import pyarrow.parquet

    request = json.load(sys.stdin)
    names = re.match(r"SELECT (.*?) FROM", request["query"])[1].split(", ")  # type: ignore[index]
    columns = ", ".join(f"{name} {TYPES.get(name, 'BIGINT')}" for name in names)
    tables = flink_peer.environment(request.get("settings"))
    with tempfile.TemporaryDirectory() as folder:
        tables.execute_sql(f"""CREATE TABLE found ({columns})
            WITH ('connector' = 'filesystem', 'path' = '{folder}/found', 'format' = 'csv')""")
        tables.execute_sql(f"CREATE TABLE nowhere ({columns}) WITH ('connector' = 'blackhole')")
        first = pathlib.Path(folder) / "first.csv"
        with open(request["data"], encoding="utf-8") as whole:
            first.write_text(whole.readline(), encoding="utf-8")
        timed = f"INSERT INTO nowhere {request['query']}"
        read(tables, str(first))
        start = min(seconds(tables, timed) for _ in range(4))
        read(tables, request["data"])
        run_seconds = [seconds(tables, timed) - start for _ in range(request["runs"])]
        writing = seconds(tables, f"INSERT INTO found {request['query']}") - start
        whole_csv = pathlib.Path(folder) / "whole.csv"
        parts = sorted(path for path in pathlib.Path(folder, "found").rglob("*") if path.is_file())
        whole_csv.write_text("".join(path.read_text(encoding="utf-8") for path in parts), encoding="utf-8")
        read_options = pyarrow.csv.ReadOptions(column_names=names)
        pyarrow.parquet.write_table(pyarrow.csv.read_csv(whole_csv, read_options), request["result"])
    print(json.dumps({"seconds": run_seconds or [writing], "version": importlib.metadata.version("apache-flink")}))


if __name__ == "__main__":
    main()
