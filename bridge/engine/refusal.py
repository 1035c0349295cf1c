"""Errors of databases and libraries, turned into errors of the bridge, with the place in the user's text if known."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bridge.errors import BridgeError, DatabaseError, OrderError, QueryError, SchemaError, closest, nearest_quoted
from windows.databases import Refused
from windows.databases.refused import ConnectionLost
from windows.schema import TypeMismatch

_COLUMN = re.compile(
    r"""Referenced column "(.+?)" not found|does not have a column (?:named|with name) "(.+?)"|no such column: (\S+)"""
    r"""|Referenced update column (.+?) not found|has no column named (.+)"""
    r"""|column "?([^\s"]+)"?(?: of relation "[^"]+")? does not exist|Unknown column '(.+?)'"""
)
_TABLE = re.compile(
    r"""Table with name (\S+) does not exist|no such table: (\S+)|relation "(.+?)" does not exist"""
    r"""|Table '(.+?)' doesn't exist|Referenced table "(.+?)" not found"""
)
_NAMED = re.compile(
    r"""with name (\S+)|no such function: (\S+)|(?i:function) (?!with )([\w.]+)"""
    r"""|(?<!\w)["'`](?!(?i:function) )(\w[\w.]*)"""
)
"""The texts in which DuckDB, SQLite, PostgreSQL and MariaDB name unknown things."""


DATABASE_REFUSES = "the database refuses: "
"""The beginning of an error for a query that another database may accept."""


def refusal(error: Refused, text: str, tables: Iterable[str] = (), columns: Iterable[str] = ()) -> BridgeError:
    """The bridge's error for a refused statement, with its place if the database names a word of the text.

    It is a QueryError, or a DatabaseError where the connection is lost.

    `tables` and `columns`: the existing names, for hints.

    >>> reason = 'Binder Error: Referenced column "prize" not found in FROM clause!'
    >>> print(refusal(Refused(reason, "SELECT prize FROM (…)"), "SELECT prize FROM trades", columns=["symbol", "price"]))
    unknown column 'prize'; did you mean 'price'? (line 1, column 8)
      SELECT prize FROM trades
             ^
    """
    if isinstance(error, ConnectionLost):
        return DatabaseError(str(error))
    place = error.place if error.place is not None and text else None
    start, part = (0, text) if place is None else (place.start, text[place.start : place.stop])
    reason = error.reason
    for pattern, what, names in ((_COLUMN, "column", columns), (_TABLE, "stream or table", tables)):
        if found := pattern.search(reason):
            name = _last(found)
            hint = closest(name, list(names))
            if (at := _offset_of(name, part)) is not None:
                if what == "column" and part[at] == '"':
                    hint = nearest_quoted(name, list(names))
                return QueryError(f"unknown {what} {name!r}{hint}", text, at + start)
    first = reason.splitlines()[0] if reason else reason
    for found in _NAMED.finditer(first):
        if (at := _offset_of(_last(found), part)) is not None:
            return QueryError(f"{DATABASE_REFUSES}{first}", text, at + start)
    if place is not None:
        return QueryError(f"{DATABASE_REFUSES}{reason}", text, place.start)
    return QueryError(f"{DATABASE_REFUSES}{error}")


def _offset_of(name: str, text: str) -> int | None:
    """The offset of a name in a text."""
    return QueryError("", words=[name]).within(text).position


def going_back(ts: int, now: int, resumed_at: int) -> OrderError:
    """The error for a timestamp before `now`, the newest time seen, or before the time of the resumed state."""
    if ts < resumed_at:
        return OrderError(
            f"time does not go back: {ts} is before {resumed_at}, where the state of this bridge has been resumed; "
            "cep.position(source) says where to continue a source, a repeated event_id is dropped, and connect(url, "
            "fresh=True) begins anew"
        )
    return OrderError(
        f"time does not go back: {ts} is before {now}, the newest time seen; "
        'connect(lateness="5 S") waits that long for late events, and with clock="system" an event that comes '
        "without a timestamp, from any thread, takes the time of its push"
    )


_LIBRARIES = ("pyarrow", "numpy", "duckdb", "_duckdb", "sqlite3", "sqlalchemy", "pymysql", "psycopg")
"""The libraries whose errors may occur while values move between Python and the database."""


def as_bridge_error(error: Exception) -> BridgeError | None:
    """The error of a database, a driver, Arrow or the matcher, as an error of the bridge; None for any other error.

    >>> as_bridge_error(OverflowError("Python int too large to convert to C long"))
    SchemaError('a value is out of range: Python int too large to convert to C long')
    >>> as_bridge_error(KeyError("k"))
    """
    package = type(error).__module__.partition(".")[0]
    if isinstance(error, BridgeError):
        return error
    if isinstance(error, Refused) or package in _LIBRARIES:
        return DatabaseError(str(error))
    if isinstance(error, TypeMismatch):
        return SchemaError(str(error))
    if package == "nfa":
        return QueryError(str(error), words=["PATTERN"])
    if isinstance(error, RecursionError):
        return QueryError("an expression is nested too deeply: split it with sub-queries")
    if isinstance(error, (OverflowError, UnicodeError)):
        return SchemaError(f"a value is out of range: {error}" if isinstance(error, OverflowError) else str(error))
    return None


def _last(found: re.Match[str]) -> str:
    """The last name in a match, without its qualifier."""
    return next(group for group in found.groups() if group).rstrip("!").split(".")[-1].strip('"`')
