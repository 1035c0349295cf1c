"""DuckDB's functions: which are aggregates, among them macros over aggregates, such as `geomean`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

if TYPE_CHECKING:
    import duckdb

_FUNCTIONS = """\
SELECT function_name, LIST(DISTINCT function_type), LIST(macro_definition) FILTER (function_type = 'macro')
FROM duckdb_functions() WHERE {} GROUP BY function_name"""


class _Function(NamedTuple):
    """All functions of one name: their kinds, and what the macros among them compute."""

    kinds: frozenset[str]
    definitions: tuple[str, ...]


_OWN: dict[str, _Function] = {}
"""DuckDB's own functions, read once per process: it takes as long as planning a query."""


def is_aggregate(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Whether a function is an aggregate, or a macro that computes one.

    >>> import duckdb
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE MACRO spread(x) AS max(x) - min(x); CREATE MACRO largest() AS (SELECT max(42))")
    >>> [name for name in ("avg", "abs", "wavg", "spread", "largest", "lag") if is_aggregate(connection, name)]
    ['avg', 'wavg', 'spread']
    """
    found = _function(connection, name)
    return "aggregate" in found.kinds or any(_has_aggregate(connection, each) for each in found.definitions)


def can_aggregate(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Whether there is a function of this name that stands without an OVER."""
    return bool(_function(connection, name).kinds - {"window"})


def _function(connection: duckdb.DuckDBPyConnection, name: str) -> _Function:
    """DuckDB's own function of this name, else one of the user or of an extension."""
    if not _OWN:
        _OWN.update(_read(connection, "internal"))
    name = name.lower()
    return _OWN.get(name) or _read(connection, "function_name = ?", name).get(name) or _Function(frozenset(), ())


def _read(connection: duckdb.DuckDBPyConnection, condition: str, *values: str) -> dict[str, _Function]:
    rows = connection.execute(_FUNCTIONS.format(condition), values).fetchall()
    return {name: _Function(frozenset(kinds), tuple(definitions or ())) for name, kinds, definitions in rows}


def _has_aggregate(connection: duckdb.DuckDBPyConnection, definition: str) -> bool:
    """Whether an expression computes an aggregate of the rows at hand: those of a sub-query and of OVER are not."""
    try:
        tree = sqlglot.parse_one(definition, dialect="duckdb")
    except SqlglotError:
        return False
    inside = tree.walk(prune=lambda node: isinstance(node, (exp.Query, exp.Window)))
    return any(
        isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and is_aggregate(connection, node.name))
        for node in inside
    )
