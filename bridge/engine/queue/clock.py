"""Time by the wall clock (rule T4): a thread that advances time when no event does."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from bridge.errors import Closed

TICK = 0.1
"""The number of seconds between two ticks, unless something is due earlier."""


SHORTEST = 0.001
"""The least number of seconds between two ticks."""


def wall_clock() -> int:
    """The time by the wall clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class SystemClock:
    """Calls `tick(milliseconds since 1970)` ten times a second, from a thread that ends with the bridge.

    `tick` returns the time at which something is due next, if known; the next call is then, if that is sooner.
    """

    def __init__(self, tick: Callable[[int], int | None]) -> None:
        self._tick = tick
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cep-bridge clock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        """Ticks until the end. It logs errors of processors, which must not stop it; sys.exit ends only this thread."""
        pause = TICK
        while not self._stopped.wait(pause):
            pause = TICK
            try:
                due = self._tick(wall_clock())
                if due is not None:
                    pause = max(SHORTEST, min(TICK, (due - wall_clock()) / 1000))
            except Closed:
                return
            except BaseException:
                logging.getLogger("bridge").exception("while time passed by the clock")
