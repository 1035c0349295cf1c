"""A run of a program that is killed: in a process forked from this one, so that it need not import anything."""

from __future__ import annotations

import mmap
import os
import random
import signal
import time
import traceback
from collections.abc import Callable

STARTING, WAITING, PUSHING = range(3)
"""What a run is doing."""

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


def has_ended(child: int) -> bool:
    """Whether a process has ended, whose status is still to be asked for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def killed(work: Callable[[], object], seed: int, longest: float, waits: bool) -> int:
    """Runs `work` and kills it after at most `longest` seconds, from its start or (`waits`) from its first push.

    Anything else that ends it is an error. Gives what it was doing.
    """
    phase[0] = STARTING
    child = forked(work, status=1)
    while waits and phase[0] == STARTING and not has_ended(child):
        time.sleep(0.001)
    time.sleep(random.Random(-seed).uniform(0, longest))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"run {seed} ended by itself with status {status}")
    return phase[0]
