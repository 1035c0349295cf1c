"""The error of a database that refuses a statement."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class Refused(Exception):
    """The database refused a statement: `reason` is the database's own message; the text shows the statement, too.

    `place`: the offsets of the statement in the text of the query, if the user has written it there.
    """

    place: range | None = None

    def __init__(self, reason: object, sql: str = "") -> None:
        sql = sql.encode("utf-8", "backslashreplace").decode()  # half of a surrogate pair cannot be printed
        self.reason = str(reason).strip()
        super().__init__(self.reason + (f"\n  in: {sql[:2000]}" if sql else ""))


class ConnectionLost(Refused):
    """The connection to the database has ended."""

    def __init__(self, reason: object) -> None:
        super().__init__(f"the connection to the database is lost: {reason}")


class OtherBridge(Refused):
    """Another bridge holds the lock of a place. further: Another way out, for the message."""

    def __init__(self, place: str, further: str = "") -> None:
        super().__init__(
            f"another bridge is at work in {place}: close it; wait for its end with connect(url, standby=True) or cepbridge "
            f"watch --standby; or open another one beside it with connect(url, name=…) or --name{further}"
        )


@contextlib.contextmanager
def refusals_at(place: range | None) -> Iterator[None]:
    """Gives the `Refused` of a statement its place in the text of the query."""
    try:
        yield
    except Refused as error:
        error.place = place
        raise
