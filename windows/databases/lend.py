"""Arrow tables that the database reads as long as a question lasts."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import pyarrow as pa

from windows.databases import Database, Refused

_fresh = itertools.count(1)


@contextlib.contextmanager
def lent(database: Database, rows: pa.Table, name: str | None = None) -> Iterator[str]:
    """A name, fresh or given, under which the database can read an Arrow table as long as the context lasts."""
    name = name or f"_cep_lent_{next(_fresh)}"
    database.lend(name, rows)
    try:
        yield name
    except BaseException:
        with contextlib.suppress(Refused):  # after an error nothing may be left to take back
            database.take_back(name)
        raise
    database.take_back(name)
