"""Listeners to notifications of other connections, which end the pauses of a watch, on databases that have them."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol, cast

import sqlalchemy as sa

from windows.databases.refused import ConnectionLost
from windows.databases.triggers import CHANNEL


class Listener(Protocol):
    """A connection that waits for notifications of other programs."""

    def wait(self, seconds: float) -> bool:
        """Waits; returns whether a notification has come within `seconds`.

        Raises `Refused` if the connection is lost.
        """

    def close(self) -> None: ...


class PostgreSQLListener:
    """A connection of its own on the channel `cep_bridge`, which outboxes and applications notify."""

    def __init__(self, engine: sa.Engine) -> None:
        self._errors = (engine.dialect.dbapi.Error,)  # type: ignore[union-attr]
        try:
            connection = engine.raw_connection()
            self._driver = cast("Any", connection.driver_connection)
            connection.detach()  # it must not return to a pool
            self._driver.autocommit = True
            self._driver.execute(f"LISTEN {CHANNEL}")
        except (sa.exc.SQLAlchemyError, *self._errors) as error:
            raise ConnectionLost(error) from None

    def wait(self, seconds: float) -> bool:
        """Waits; returns whether a notification has come within `seconds`.

        Raises `Refused` if the connection is lost.
        """
        try:
            return any(True for _ in self._driver.notifies(timeout=seconds, stop_after=1))
        except self._errors as error:
            raise ConnectionLost(error) from None

    def close(self) -> None:
        with contextlib.suppress(*self._errors):
            self._driver.close()
