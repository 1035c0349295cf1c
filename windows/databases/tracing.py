"""Tracers: functions that are called with each statement of a connection. Without one a statement costs nothing more."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

from windows.databases.base import Database

Tracer = Callable[[str, float, "int | None"], object]
"""A function that is called as `tracer(sql, seconds, rows)`; `rows` is None if the number is unknown."""

_METHODS = (
    "append", "begin", "columns_of", "commit", "execute", "execute_bound", "fetch", "fetch_arrow", "fetch_bound", "insert",
    "modify_bound", "prepare", "rollback",
)  # fmt: skip
_LOGGER = logging.getLogger("bridge.sql")


class Tracing:
    """The tracers of one connection."""

    def __init__(self) -> None:
        self.tracers: list[Tracer] = []
        self._is_inside = False

    def traced(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method, which then calls the tracers: once per statement, even if one traced method calls another."""

        @functools.wraps(method)
        def call(*arguments: Any, **options: Any) -> Any:
            if self._is_inside:
                return method(*arguments, **options)
            self._is_inside = True
            begin = time.perf_counter()
            found: Any = None
            try:
                found = method(*arguments, **options)
            finally:
                seconds = time.perf_counter() - begin
                self._is_inside = False
                for tracer in self.tracers:
                    self._call(tracer, _text(name, arguments), seconds, _count(name, arguments, found))
            return found

        return call

    @staticmethod
    def _call(tracer: Tracer, sql: str, seconds: float, rows: int | None) -> None:
        """Calls a tracer. An error of the tracer is logged, as the statement itself has run."""
        try:
            tracer(sql, seconds, rows)
        except Exception:
            logging.getLogger("bridge").exception("a tracer raised")


def add_tracer(database: Database, tracer: Tracer) -> None:
    """Calls a function with each statement of the connection from now on, and how long it took.

    >>> from windows.databases import open_database
    >>> database = open_database("sqlite://")
    >>> add_tracer(database, lambda sql, seconds, rows: print(sql, rows))
    >>> database.fetch("SELECT 1")
    SELECT 1 1
    [(1,)]
    """
    tracing = vars(database).get("_tracing")
    if tracing is None:
        tracing = Tracing()
        vars(database)["_tracing"] = tracing
        for name in _METHODS:
            vars(database)[name] = tracing.traced(name, getattr(database, name))
    tracing.tracers.append(tracer)


def log_statements(database: Database) -> None:
    """Logs each statement, if the logger `bridge.sql` has the level DEBUG."""
    if _LOGGER.isEnabledFor(logging.DEBUG):
        add_tracer(database, _log)


def _log(sql: str, seconds: float, rows: int | None) -> None:
    counted = "" if rows is None else f", {rows} rows"
    _LOGGER.debug("%.3f ms%s: %s", seconds * 1_000, counted, sql)


def _text(name: str, arguments: tuple[Any, ...]) -> str:
    if name in ("append", "insert"):
        return f"INSERT INTO {arguments[0]}"
    return str(arguments[0]) if arguments else name.upper()


def _count(name: str, arguments: tuple[Any, ...], found: Any) -> int | None:
    """The number of rows that a statement returned or wrote; None if unknown."""
    if name in ("append", "insert"):
        return len(arguments[-1])
    if name in ("fetch", "fetch_bound", "fetch_arrow") and found is not None:
        return len(found)
    return found if name == "modify_bound" else None
