"""Whether a database has changed since its tables were read; if not, they need not be read again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from windows.databases import Database

LONGEST = 1.0
"""The seconds after which tables are read again anyway, as the rows of a view may depend on the time."""


class Unchanged:
    """Compares the version of a database with the version before its tables were last read.

    >>> from windows.databases import open_database
    >>> database = open_database("sqlite://")
    >>> unchanged = Unchanged(database)
    >>> unchanged.holds(["orders"]), unchanged.holds(["orders"]), unchanged.holds(["orders", "payments"])
    (False, True, False)
    >>> database.execute("CREATE TABLE orders (id INTEGER)")
    >>> unchanged.holds(["orders", "payments"])
    False
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: Any = None
        self._at = 0.0

    def holds(self, tables: Sequence[object]) -> bool:
        """Whether these tables were read after the last commit. If not, the caller reads them now, or calls `end`."""
        version = self._database.data_version() if tables else None
        now, known = time.monotonic(), None if version is None else (version, list(map(id, tables)))
        if known is not None and known == self._known and now - self._at < LONGEST:
            return True
        self._known, self._at = known, now
        return False

    def end(self) -> None:
        """Notes that the tables were not read to their ends."""
        self._known = None
