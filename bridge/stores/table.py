"""Tables that INSERT INTO TABLE fills."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from bridge.errors import QueryError
from bridge.flow import table
from bridge.types import UNKNOWN
from windows.databases import Database
from windows.schema import Attribute


def made(name: str, kinds: Mapping[str, str], database: Database) -> list[str]:
    """The columns of the table that rows of these columns and types fill; a table that is not there is made."""
    schema = database.relation(name)
    if schema is not None:
        known = {column.lower() for column in kinds}
        return [attribute.name for attribute in schema if attribute.name.lower() in known]
    columns = []
    for column, kind in kinds.items():
        if kind == UNKNOWN:
            raise QueryError(f"the type of {column!r} is not known: CAST({column} AS …) says it", words=[column])
        typed = exp.DataType.build(database.column_type(Attribute("column", kind)), dialect=database.dialect, udt=True)
        columns.append(exp.ColumnDef(this=exp.to_identifier(column, quoted=True), kind=typed))
    create = exp.Create(kind="TABLE", this=exp.Schema(this=table(name), expressions=columns))
    database.execute(database.render(create))
    return list(kinds)
