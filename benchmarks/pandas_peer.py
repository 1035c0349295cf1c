"""Runs pandas-match-recognize, in an environment that has it, with a request on stdin.

The request is JSON: the Parquet file, the query, the number of runs, and the file for the result. The answer, on stdout, is
JSON with the seconds of each run, without the start and the reading of the file.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import sys
import time

if __name__ == "__main__":
    import pandas
    from pandas_match_recognize import match_recognize  # type: ignore[import-not-found]

    request = json.load(sys.stdin)
    data = pandas.read_parquet(request["data"])
    seconds = []
    with contextlib.redirect_stdout(sys.stderr):
        for _ in range(request["runs"]):
            start = time.perf_counter()
            result = match_recognize(request["query"], data)
            seconds.append(time.perf_counter() - start)
    result.to_parquet(request["result"])
    json.dump({"seconds": seconds, "version": importlib.metadata.version("pandas-match-recognize")}, sys.stdout)
