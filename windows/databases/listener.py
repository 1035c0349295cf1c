"""What ends the pauses of a watch where a database can tell other connections of a change."""

from __future__ import annotations

from typing import Protocol


class Listener(Protocol):
    """A connection on which a notification of another program is waited for."""

    def wait(self, seconds: float) -> bool:
        """Whether a notification has come within `seconds`. Raises `Refused` if the connection is lost."""

    def close(self) -> None: ...
