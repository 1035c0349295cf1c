"""Python's collection of garbage, paused while much is made that stays."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def pause_collection() -> Iterator[None]:
    """Within it no garbage is collected: each collection would visit the trees of the statements that are being made.

    A program that has switched collection off keeps it off.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
