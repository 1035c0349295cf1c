"""Pauses Python's garbage collection while many lasting objects are made."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def pause_collection() -> Iterator[None]:
    """A context without garbage collection, which would visit the trees of the statements that are being made.

    If the program has switched collection off, it stays off.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
