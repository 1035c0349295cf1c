"""A run of a program that is killed: in a process forked from this one, so that it need not import anything.

A process with threads must not be forked, as a lock that another thread holds is never released in the child. The tests'
own process has threads, so a test starts such a program as a process of its own, by `figures_of`.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
PATIENCE = 60
"""Seconds that a run may take to begin its work."""

STARTING, PLANNING, WAITING, PUSHING = range(4)
"""What a run is doing. Its first push, which plans for all queries, may be noted as planning."""

PHASES = ("starting", "planning", "waiting", "pushing")

phase = mmap.mmap(-1, 1)
"""What the run is doing, as both processes see it."""


def forked(work: Callable[[], object], status: int = 0) -> int:
    """Runs `work` in a process forked from this one, which ends with this status, or with 1 after an error; gives its number."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(status)
    return child


def result_of(work: Callable[[], Any]) -> Any:
    """The result of `work`, which JSON can hold, from a process of its own; an error there ends this program."""
    reading, writing = os.pipe()
    child = forked(lambda: os.write(writing, json.dumps(work()).encode()))
    os.close(writing)
    with open(reading) as answer:
        found = answer.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"a process ended with status {status}")
    return json.loads(found)


def has_ended(child: int) -> bool:
    """Whether a process has ended, whose status is still to be asked for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def killed(work: Callable[[], object], seed: int, longest: float, since: int = STARTING) -> int:
    """Runs `work` and kills it at most `longest` seconds after it has come as far as `since`, one of the phases.

    Anything else that ends it is an error. Gives what it was doing.
    """
    phase[0] = STARTING
    child = forked(work, status=1)
    end = time.monotonic() + PATIENCE
    while phase[0] < since and not has_ended(child):
        if time.monotonic() > end:
            os.kill(child, signal.SIGABRT)
            raise SystemExit(f"run {seed} did not begin its work within {PATIENCE} seconds")
        time.sleep(0.001)
    time.sleep(random.Random(f"kill {seed}").uniform(0, longest))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"run {seed} ended by itself with status {status}")
    return phase[0]


def figures_of(module: str, *arguments: object, within: float) -> Any:
    """What a program prints as JSON in its last line; it and the processes that it has forked are ended after `within` seconds.

    Raises:
        AssertionError: it failed, or did not end; with what it wrote to its standard error.
    """
    program = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", module, *map(str, arguments)],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, errors = program.communicate(timeout=within)
    except subprocess.TimeoutExpired:
        _end_group(program, signal.SIGABRT)  # each process prints where it is
        time.sleep(1)
        _end_group(program, signal.SIGKILL)
        raise AssertionError(f"{module} did not end within {within} seconds:\n{program.communicate()[1]}") from None
    finally:
        _end_group(program, signal.SIGKILL)
    assert program.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


def _end_group(program: subprocess.Popen[str], by: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, by)
