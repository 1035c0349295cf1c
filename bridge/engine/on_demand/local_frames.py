"""Data frames of the caller: a variable that FROM names is read as a table, as in DuckDB."""

from __future__ import annotations

import contextlib
import contextvars
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from bridge.engine.catalogue import Catalogue
from windows.databases import Database

_NAMED = re.compile(r"""(?i)(?:\b(?:FROM|JOIN)\b|[,(])\s*(?:"(\w+)"|`(\w+)`|([^\W\d]\w*))""")
_KINDS = {
    "pandas": {"DataFrame"}, "polars": {"DataFrame", "LazyFrame"},
    "pyarrow": {"Table", "RecordBatch", "RecordBatchReader"},
    "duckdb": {"DuckDBPyRelation"}, "_duckdb": {"DuckDBPyRelation"},
}  # fmt: skip
_GIVEN: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("frames of the caller", default=None)
_OURS = ("bridge", "functools", "contextlib")


def frames_of_caller(sql: object) -> dict[str, Any]:
    """The data frames and Arrow tables that FROM names, among the variables of the bridge's caller, by name."""
    if (given := _GIVEN.get()) is not None:
        return given
    names = {name for found in _NAMED.findall(sql) for name in found if name} if isinstance(sql, str) else set()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        frame = frame.f_back
    if frame is None:
        return {}
    variables = [(name, frame.f_locals.get(name, frame.f_globals.get(name))) for name in names]
    return {name: value for name, value in variables if _is_frame(value)}


def with_frames(frames: dict[str, Any], function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Calls a method of a bridge with these frames as variables, for a caller in another thread."""
    token = _GIVEN.set(frames)
    try:
        return function(*arguments, **options)
    finally:
        _GIVEN.reset(token)


def _is_frame(value: object) -> bool:
    kind = type(value)
    return kind.__name__ in _KINDS.get(kind.__module__.partition(".")[0], ())


@contextlib.contextmanager
def in_database(frames: Mapping[str, Any], catalogue: Catalogue, database: Database) -> Iterator[None]:
    """Registers the frames as tables of the database meanwhile. Streams, queries and tables have precedence."""
    with contextlib.ExitStack() as stack:
        for name, frame in frames.items():
            is_known = name.lower() in catalogue.streams or name.lower() in catalogue.queries
            if not is_known and database.relation(name) is None:
                from bridge.sources.relations import temporary_relation

                stack.enter_context(temporary_relation(database, name, frame))
        yield
