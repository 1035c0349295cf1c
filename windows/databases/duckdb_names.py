"""Resolves table names on DuckDB, where several schemas and attached databases may have a table of the same name."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Sequence

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
