"""CREATE TABLE for tables that are not computed by a statement."""

from __future__ import annotations

from collections.abc import Mapping

from windows.databases.base import Database
from windows.schema import Attribute


def create_table(database: Database, table: str, columns: Mapping[str, str]) -> str:
    """The CREATE TABLE for a table, given in the database's SQL, whose columns have these types of attributes.

    Its texts have any characters and any length, whatever the database's own default is.
    """
    listed = ", ".join(
        f"{database.quoted(name)} {database.column_type(Attribute(name, kind))}" for name, kind in columns.items()
    )
    return f"CREATE TABLE {table} ({listed}){database.table_options}"
