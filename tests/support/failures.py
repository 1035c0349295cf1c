"""Errors of a database's driver, raised before or after a chosen call, as an application sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import duckdb

NOT_COUNTED = {"rollback", "keys"}
"""What is called while an error is dealt with, and what is not a call of the driver."""


class Failures:
    """Raises an error at one call of a bridge's driver. `calls`: the names of the calls since the last `start`."""

    def __init__(self, cep: Any) -> None:
        self.calls: list[str] = []
        self.has_failed = False
        self._place: int | None = None
        self._after = False
        self._counts = False
        self._error: Callable[[str], BaseException] = _errors(cep._runner.database)
        self._watch(cep._runner.database)

    def _watch(self, database: Any) -> None:
        """Puts the watched driver in the place of the database's own."""
        for name in ("connection", "_cursor", "_driver"):
            if name in vars(database) and not (database.dialect == "postgres" and name == "_cursor"):
                setattr(database, name, Watched(getattr(database, name), self))

    @contextlib.contextmanager
    def at(self, place: int | None, after: bool, error: type[BaseException] | None = None) -> Iterator[None]:
        """Within it the call at a place fails, before or after it has taken effect; None: no call does."""
        self.calls, self.has_failed, self._place, self._after = [], False, place, after
        self._raised, self._counts = error, True
        try:
            yield
        finally:
            self._counts = False

    def call(self, name: str, function: Callable[..., Any], arguments: Any, options: Any) -> Any:
        """Calls the driver, and fails where that is due."""
        if not self._counts or self.has_failed or name in NOT_COUNTED:
            return function(*arguments, **options)
        is_due = len(self.calls) == self._place
        self.calls.append(name)
        if not is_due:
            return function(*arguments, **options)
        if self._after:
            function(*arguments, **options)
        self.has_failed = True
        if self._raised is not None:
            raise self._raised
        raise self._error(f"failed {'after' if self._after else 'before'} {name}")


class Watched:
    """An object of a driver whose calls count, and the connections, cursors and the like that these give."""

    def __init__(self, target: Any, failures: Failures) -> None:
        self.__dict__.update(_target=target, _failures=failures)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name.startswith("_") or not callable(found) or name in ("driver_connection", "connection"):
            return found
        return lambda *arguments, **options: self._watched(self._failures.call(name, found, arguments, options))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._target, name, value)

    def __enter__(self) -> Any:
        return self._watched(self._failures.call("enter", self._target.__enter__, (), {}))

    def __exit__(self, *raised: Any) -> Any:
        return self._failures.call("exit", self._target.__exit__, raised, {})

    def _watched(self, found: Any) -> Any:
        kinds = ("DuckDBPyConnection", "DuckDBPyRelation", "Cursor", "Pipeline", "Copy")
        return Watched(found, self._failures) if type(found).__name__ in kinds else found


def _errors(database: Any) -> Callable[[str], BaseException]:
    """What the driver raises when the disk is full, or the like."""
    if database.dialect == "duckdb":
        return duckdb.IOException
    module = database.engine.dialect.dbapi
    if database.dialect == "mysql":
        return lambda text: module.OperationalError(2000, text)
    found: Callable[[str], BaseException] = module.OperationalError
    return found
