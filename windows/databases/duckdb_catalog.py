"""DuckDB's catalog: the table that a name stands for among several schemas and databases, and the kinds of functions."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

_RELATIONS = """\
SELECT table_catalog, table_schema, table_name, table_type = 'VIEW', current_database(), current_setting('search_path')
FROM information_schema.tables WHERE """

_ENTRY = re.compile(r'(?:"(?:[^"]|"")*"|[^,"])+')
"""An entry of a search path: names with dots between them, in quotation marks if they have special characters."""


@dataclasses.dataclass(frozen=True)
class CatalogEntry:
    """A table or view in a catalog of DuckDB, which is an attached database: its catalog, schema and name."""

    catalog: str
    schema: str
    name: str
    is_view: bool


def find_relation(connection: duckdb.DuckDBPyConnection, table: exp.Table) -> CatalogEntry | None:
    """The table or view that DuckDB reads by this name, with or without a schema; None if there is none.

    >>> connection = duckdb.connect()
    >>> _ = connection.execute("ATTACH ':memory:' AS other; CREATE TABLE other.t (a INTEGER); CREATE TABLE other.u (a INTEGER)")
    >>> _ = connection.execute("CREATE VIEW t AS SELECT 1 AS a")
    >>> find_relation(connection, exp.to_table("t"))
    CatalogEntry(catalog='memory', schema='main', name='t', is_view=True)
    >>> find_relation(connection, exp.to_table("u")) is None
    True
    >>> find_relation(connection, exp.to_table("other.u"))
    CatalogEntry(catalog='other', schema='main', name='u', is_view=False)
    """
    rows = connection.execute(f"{_RELATIONS} lower(table_name) = lower(?)", [table.name]).fetchall()
    for catalog, schema in _places(table, rows):
        for row in rows:
            if (row[0].lower(), row[1].lower()) == (catalog.lower(), schema.lower()):
                return CatalogEntry(*row[:4])
    return None


def visible_names(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The names of all tables and views that are found without a schema.

    DuckDB's own tables are left out: to list them, DuckDB first creates all of its system views, which takes
    milliseconds.
    """
    rows = connection.execute(f"{_RELATIONS} table_schema NOT IN ('information_schema', 'pg_catalog')").fetchall()
    places = {(catalog.lower(), schema.lower()) for catalog, schema in _places(exp.Table(), rows)}
    return list(dict.fromkeys(row[2] for row in rows if (row[0].lower(), row[1].lower()) in places))


def _places(table: exp.Table, rows: Sequence[tuple[str, str, str, bool, str, str]]) -> Iterator[tuple[str, str]]:
    """The databases and schemas in which DuckDB looks for a table, in this order."""
    if not rows:
        return
    *_, current, path = rows[0]
    if table.catalog:
        yield table.catalog, table.db
    elif table.db:
        yield current, table.db
        yield "temp", table.db
        yield table.db, "main"
    else:
        yield "temp", "main"
        for entry in _ENTRY.findall(path):
            place = exp.to_table(entry.strip(), dialect="duckdb")
            yield place.db or current, place.name
        yield current, "main"


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
