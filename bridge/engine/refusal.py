"""Errors of a database as errors in the user's text: databases point into the SQL that was generated from it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bridge.errors import QueryError, closest
from windows.databases import Refused

_COLUMN = re.compile(
    r"""Referenced column "(.+?)" not found|does not have a column named "(.+?)"|no such column: (\S+)"""
    r"""|column "?([^\s"]+)"? does not exist|Unknown column '(.+?)'"""
)
_TABLE = re.compile(
    r"""Table with name (\S+) does not exist|no such table: (\S+)|relation "(.+?)" does not exist"""
    r"""|Table '(.+?)' doesn't exist|Referenced table "(.+?)" not found"""
)
_NAMED = re.compile(
    r"""with name (\S+)|no such function: (\S+)|(?i:function) (?!with )([\w.]+)"""
    r"""|["'`](?!(?i:function) )(\w[\w.]*)"""
)
"""How DuckDB, SQLite, PostgreSQL and MariaDB name what they do not know."""


def refusal(error: Refused, text: str, tables: Iterable[str] = (), columns: Iterable[str] = ()) -> QueryError:
    """The QueryError that says the same, with its place where the database names a word of the text.

    `tables` and `columns` are names that would have been right.

    >>> reason = 'Binder Error: Referenced column "prize" not found in FROM clause!'
    >>> print(refusal(Refused(reason, "SELECT prize FROM (…)"), "SELECT prize FROM trades", columns=["symbol", "price"]))
    unknown column 'prize'; did you mean 'price'? (line 1, column 8)
      SELECT prize FROM trades
             ^
    """
    reason = error.reason
    for pattern, what, names in ((_COLUMN, "column", columns), (_TABLE, "stream or table", tables)):
        if found := pattern.search(reason):
            name = _last(found)
            hint = closest(name, list(names))
            pointed = QueryError(f"unknown {what} {name!r}{hint}", words=[name]).within(text)
            if pointed.position is not None:
                return pointed
    first = reason.splitlines()[0] if reason else reason
    for found in _NAMED.finditer(first):
        pointed = QueryError(f"the database refuses: {first}", words=[_last(found)]).within(text)
        if pointed.position is not None:
            return pointed
    return QueryError(f"the database refuses: {error}")


def _last(found: re.Match[str]) -> str:
    """The name that a pattern has found, without its qualifier."""
    return next(group for group in found.groups() if group).rstrip("!").split(".")[-1].strip('"`')
