"""Connections of DuckDB, opened by URL, without optimizers that plan the bridge's statements wrongly or slowly."""

from __future__ import annotations

import contextlib
import re
from urllib.parse import parse_qsl

import duckdb
from sqlglot import exp

from windows.databases.refused import Refused
from windows.databases.urls import hidden, without_password
from windows.sql import is_constant_text

_IS_LOCKED, _HOLDER = "Could not set lock on file", re.compile(r"PID \d+")
"""Parts of DuckDB's error for a file that another process has opened."""


def open_connection(place: str) -> tuple[duckdb.DuckDBPyConnection, str]:
    """A new connection, and the text that shows its place.

    Args:
        place: The part of a URL after `duckdb:///`: a file, none for a database in memory, and `?setting=value&…`.

    Raises:
        Refused: The file cannot be opened, or a setting is wrong.

    >>> open_connection("?threads=1")[0].sql("SELECT current_setting('threads')").fetchall()
    [(1,)]
    """
    file, mark, settings = place.partition("?")
    file = file or ":memory:"
    try:
        connection = duckdb.connect(file, config=dict(parse_qsl(settings, keep_blank_values=True)))
    except duckdb.Error as error:
        url = f"duckdb:///{file}{mark}{settings}"
        if _IS_LOCKED in str(error):
            holder = _HOLDER.search(str(error))
            raise Refused(
                f"another process{f' ({holder[0]})' if holder else ''} has {file} open: a file of DuckDB is open to one process "
                "at a time; end the other one, or use SQLite, PostgreSQL or MariaDB, where others may read while a bridge writes"
            ) from None
        raise Refused(f"the database {without_password(url)} cannot be opened: {hidden(error, url)}") from None
    with contextlib.suppress(duckdb.Error):  # an older version without shared sub-queries
        # With a shared sub-query, DuckDB joins by only one bound of a range, in quadratic time.
        disable_optimizer(connection, "common_subplan")
    return connection, "in memory" if file == ":memory:" else file


def disable_optimizer(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Disables an optimizer of a connection, in addition to those that are disabled already."""
    ((already,),) = connection.execute("SELECT current_setting('disabled_optimizers')").fetchall()
    disabled = {name, *filter(None, (already or "").split(","))}
    connection.execute("SET disabled_optimizers = ?", [",".join(sorted(disabled))])


def statistics_mislead(node: exp.Expr) -> bool:
    """Whether DuckDB's optimizer `statistics_propagation` may change the rows of a part of a statement.

    DuckDB 2.0.0 takes `CASE WHEN a > 5 THEN 'x' END` for never NULL. Then `… IN ('x', 'y')` is always true, and `… <> 'y'` an
    internal error. DuckDB 2.0.1 drops the LIMIT of rows that are joined with an empty table by LEFT JOIN, if statistics tell
    that all of them pass a filter. EXISTS reads its rows with LIMIT 1 and counts them, and is false of two rows then.

    >>> from sqlglot import parse_one
    >>> join = "SELECT a FROM t LEFT JOIN u ON t.a = u.a WHERE t.a < 9"
    >>> [statistics_mislead(parse_one(text)) for text in (join, f"{join} LIMIT 1", f"EXISTS({join})")]
    [False, True, True]
    """
    if isinstance(node, exp.If | exp.Nullif):
        return any(is_constant_text(branch) for branch in node.args.values())
    if isinstance(node, exp.Exists) or (isinstance(node, exp.Query) and node.args.get("limit")):
        return any(join.side in ("LEFT", "RIGHT") for join in node.find_all(exp.Join))
    return False
