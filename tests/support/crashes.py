"""A process that ends within a call of its database, as the bridge of a test that goes on sees it."""

from __future__ import annotations

from typing import Any

CALLS = (
    "execute",
    "execute_bound",
    "modify_bound",
    "insert",
    "append",
    "fetch",
    "fetch_bound",
    "fetch_arrow",
    "begin",
    "commit",
)
"""The calls of a database that a push makes."""


class Crash(BaseException):
    """The process ends here."""


def crash_after(cep: Any, calls: int) -> list[int]:
    """Lets the process end after so many calls of the database from now on; gives their number, to be changed."""
    left = [calls]

    def counted(call: Any) -> Any:
        def run(*arguments: Any, **options: Any) -> Any:
            if left[0] < 0:
                raise Crash
            found = call(*arguments, **options)
            left[0] -= 1
            if left[0] < 0:
                raise Crash
            return found

        return run

    database = cep._runner.database  # not `cep.database`, which would first write what is only in memory
    for name in CALLS:
        setattr(database, name, counted(getattr(database, name)))
    return left


def die(cep: Any) -> None:
    """Ends the process of a bridge: its connection closes, and nothing is written or rolled back before."""
    database = cep._runner.database
    database.rollback = lambda: None
    database.close()
