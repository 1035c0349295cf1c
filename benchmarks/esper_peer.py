"""Esper in the paper's experiment; the protocol is that of `bridge.bench.peers`.

    mvn -f benchmarks/esper dependency:copy-dependencies -DoutputDirectory=JARS
    cepbridge bench --peers "Esper=python benchmarks/esper_peer.py JARS"

It needs a JDK: `java` compiles and runs esper/Peer.java, which sends the events. There is one thread; the events are in memory
before measuring starts, and starting and compiling are not counted. Each statement is written so that Esper plans it well:
the correlation as equalities, for which it has indexes.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

SCHEMAS = {"stream": ("a int", "b int"), "stream1": ("a int",), "stream2": ("b int",)}


def sigma(i: int, window: int) -> str:
    return f"select ts, a, b from stream(a - b = {i})"


def join(i: int, window: int) -> str:
    return (
        f"select max(l.ts, r.ts) as ts, l.a as v1, r.b as v2 from stream1#time({window} msec) as l, "
        f"stream2#time({window} msec) as r where l.a = r.b + {i + 1} and r.b = l.a - {i + 1}"
    )


def alpha(i: int, window: int) -> str:
    return f"select ts, count(*) as v1 from stream#time({window} msec)"


def rho(i: int, window: int) -> str:
    return (
        "select * from stream match_recognize (measures u.ts as ts, x.a as z1, y.a as z2, u.a as z3 all matches "
        f"after match skip to next row pattern (x y u) define y as y.a - x.a = {i}, "
        f"u as u.a - y.a = {i} and u.ts - x.ts < {window})"
    )


OPERATORS = {"sigma": sigma, "join": join, "alpha": alpha, "rho": rho}


def statements(request: dict[str, Any]) -> list[str]:
    """One line per statement: the name of the query, if it is one, a tab, and the EPL."""
    schemas = (
        f"\t@public @buseventtype create objectarray schema {stream} (ts long, {', '.join(SCHEMAS[stream])})"
        for stream in request["events"]
    )
    queries = (
        f"{each['name']}\t{OPERATORS[each['operator']](each['i'], each['window'])}" for each in request["queries"]
    )
    return [*schemas, *queries]


def run(
    jars: str,
    lines: list[str],
    runs: int,
    result: str,
    since: int,
    streams: tuple[str, ...],
    timeout: int | None = None,
) -> list[float]:
    """The seconds of each run. Raises RuntimeError. `streams`: per stream its name, one letter per column, and its CSV file."""
    with tempfile.TemporaryDirectory() as folder:
        epl = pathlib.Path(folder) / "epl"
        epl.write_text("\n".join(lines), encoding="utf-8")
        program = pathlib.Path(__file__).parent / "esper" / "Peer.java"
        done = subprocess.run(
            ["java", "-Xmx4g", "-cp", f"{jars}/*", str(program), str(epl), str(runs), result, str(since), *streams],
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    if done.returncode:
        wrong = (line for line in done.stderr.splitlines() if "rror" in line or "xception" in line)
        raise RuntimeError(next(wrong, done.stderr[-200:]))
    return [float(line) for line in done.stdout.split()]


def main(jars: str) -> None:
    request = json.load(sys.stdin)
    files = sorted(pathlib.Path(jars).glob("*.jar"))
    version = next((jar.stem.rpartition("-")[2] for jar in files if jar.name.startswith("esper-runtime")), None)
    if version is None:
        sys.exit(f"{jars} has no esper-runtime jar")
    streams = tuple(
        word for stream, path in request["events"].items() for word in (stream, "i" * len(SCHEMAS[stream]), path)
    )
    try:
        seconds = run(jars, statements(request), request["runs"], request["result"] or "-", request["from"], streams)
    except RuntimeError as error:
        sys.exit(str(error))
    print(json.dumps({"seconds": seconds, "version": version}))


if __name__ == "__main__":
    main(sys.argv[1])
