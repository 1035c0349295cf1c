"""Servers that crash, networks that fail, and leaders that are killed.

    python -m tests.faults.outages FAULT KIND TIMES [SEED [QUERIES]]

FAULT is `server` (it is ended and started again), `network` (all connections are cut, sometimes new ones are refused for a
while) or `leader` (its process is killed, and one that stands by takes over). KIND is `postgresql` or `mariadb`, and for a
leader also `sqlite`. The program and the comparison are those of `killing`; QUERIES are the names of some of its queries,
with commas between them; `mean` must be one of them.
"""

from __future__ import annotations

import functools
import json
import mmap
import os
import pathlib
import random
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

import bridge
from tests.faults.killing import ALL, Mix, check, work
from tests.support import runs, servers
from tests.support.proxy import Proxy

PATIENCE = 60
"""Seconds that the program may take to push again after a fault."""

_progress = mmap.mmap(-1, 16)
"""The number of pushes so far, and when the newest one was done, as all processes see them."""


def pushes() -> tuple[int, float]:
    """The number of pushes so far, and when the newest one was done."""
    count, at = struct.unpack("qd", _progress[:16])
    return int(count), float(at)


def _pushed() -> None:
    _progress[:16] = struct.pack("qd", pushes()[0] + 1, time.monotonic())


class Program:
    """A program in a process of its own, which is started again when an error of the bridge ends it."""

    def __init__(self, url: str, log: pathlib.Path, seed: int, mix: Mix, **options: Any) -> None:
        self._work = functools.partial(work, url, log, seed, mix, _pushed, **options)
        self.process = runs.forked(self._run, status=1)

    def _run(self) -> None:
        while True:
            try:
                self._work()
            except bridge.DatabaseError as error:
                print(f"the program starts again: {error}", file=sys.stderr)
                time.sleep(0.1)

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        if not os.WIFSIGNALED(status):
            raise SystemExit(f"a process ended by itself with status {status}")


def wait_for_pushes(count: int, since: float = 0.0) -> float:
    """Waits for further pushes; gives the seconds from `since` to the first of them."""
    before, _ = pushes()
    first = 0.0
    end = time.monotonic() + PATIENCE
    while (found := pushes())[0] < before + count:
        first = first or (found[1] if found[0] > before else 0.0)
        if time.monotonic() > end:
            raise SystemExit(f"no push for {PATIENCE} seconds")
        time.sleep(0.002)
    return (first or found[1]) - since


def fail_server(server: servers.Server, draw: random.Random) -> None:
    """The server ends, and is started again after up to a second."""
    server.crash()
    time.sleep(draw.random())
    server.start_again()


def fail_network(proxy: Proxy, draw: random.Random) -> None:
    """All connections are cut; every third time new ones are refused for up to two seconds."""
    proxy.refuses = draw.random() < 1 / 3
    proxy.cut()
    if proxy.refuses:
        time.sleep(draw.random() * 2)
        proxy.refuses = False


def through(proxy: Proxy, server: servers.Server) -> str:
    """The URL of a server behind a proxy."""
    url = sa.make_url(server.url)
    query = {name: value for name, value in url.query.items() if name not in ("host", "port", "unix_socket")}
    return url.set(host="127.0.0.1", port=proxy.port, query=query).render_as_string(hide_password=False)


def run_faults(
    fault: str, kind: str, times: int, folder: pathlib.Path, seed: int = 0, mix: Mix = ALL
) -> dict[str, Any]:
    """Lets a program meet faults, and compares what it has done with what an undisturbed bridge gives."""
    draw, log = random.Random(seed), folder / "received.log"
    server = servers.crashing(kind)
    url, fail = server.url, functools.partial(fail_server, server, draw)
    if fault == "network":
        proxy = Proxy(servers.socket_of(server))
        url, fail = through(proxy, server), functools.partial(fail_network, proxy, draw)
    program = Program(url, log, seed, mix)
    try:
        seconds = _meet(fail, times, draw)
    finally:
        program.kill()
    try:
        return {"times": times, **_spread(seconds), **check(server.url, log, "duckdb://", mix)}
    finally:
        server.stop()


def _meet(fail: Callable[[], None], times: int, draw: random.Random) -> list[float]:
    """The seconds from the end of each fault to the next push."""
    seconds = []
    wait_for_pushes(1)
    for _ in range(times):
        wait_for_pushes(draw.randrange(1, 5))
        time.sleep(draw.random() * 0.05)
        fail()
        seconds.append(wait_for_pushes(1, time.monotonic()))
    return seconds


def kill_leaders(kind: str, times: int, folder: pathlib.Path, seed: int = 0, mix: Mix = ALL) -> dict[str, Any]:
    """Kills a leader again and again while another process stands by, and measures how long it takes to take over."""
    draw, log = random.Random(seed), folder / "received.log"
    server = None if kind == "sqlite" else servers.crashing(kind)
    url = f"sqlite:///{folder / 'leader.db'}" if server is None else server.url
    programs = [Program(url, log, seed, mix, standby=True)]
    seconds = []
    try:
        wait_for_pushes(1)
        for place in range(times):
            programs.append(Program(url, log, seed + place + 1, mix, standby=True))
            wait_for_pushes(draw.randrange(2, 8))
            time.sleep(0.3 + draw.random() * 0.3)  # the other one has been started
            programs.pop(0).kill()
            seconds.append(wait_for_pushes(1, time.monotonic()))
    finally:
        for program in programs:
            program.kill()
    try:
        return {
            "times": times,
            **_spread(seconds),
            **check(url, log, "sqlite://" if server is None else "duckdb://", mix),
        }
    finally:
        if server is not None:
            server.stop()


def _spread(seconds: list[float]) -> dict[str, float]:
    """The median and the greatest of times."""
    ordered = sorted(seconds)
    return {"median": round(ordered[len(ordered) // 2], 3), "longest": round(ordered[-1], 3)}


def main(fault: str, kind: str, times: str, seed: str = "0", queries: str = "") -> None:
    """Prints the figures of one run."""
    mix = Mix(queries.split(",")) if queries else ALL
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        if fault == "leader":
            found = kill_leaders(kind, int(times), place, int(seed), mix)
        else:
            found = run_faults(fault, kind, int(times), place, int(seed), mix)
        print(json.dumps({"fault": fault, "kind": kind, **found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
