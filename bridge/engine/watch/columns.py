"""The columns of a table that is read as a stream, and the SQL that reads each as an attribute."""

from __future__ import annotations

from sqlglot import exp

from bridge.check.types import UNKNOWN
from bridge.errors import SchemaError, nearest
from bridge.query.table_source import TableSource
from windows.databases import Database
from windows.schema import Attribute, Schema, is_reserved

INTEGERS = ("SMALLINT", "INTEGER", "BIGINT", "DECIMAL(20, 0)")
"""The types of positions."""


class TableColumns:
    """The columns of a source's table. Raises `SchemaError` where there is no such table, or not the columns it names.

    SQL that reads a column has {} for the column.
    """

    def __init__(self, source: TableSource, database: Database) -> None:
        found = database.relation(source.table)
        if found is None:
            raise SchemaError(f"there is no table {source.table!r} in the database that could be read as a stream")
        self._source, self._database = source, database
        self._known = {column.name.lower(): column for column in found}
        self._instants = {name.lower(): sql for name, sql in database.in_utc(source.table).items()}
        for what, column in (("position", source.position), ("timestamp", source.timestamp)):
            if column is not None and column not in self:
                raise SchemaError(f"{source.table} has no column {column!r} for the {what}{self._nearest(column)}")
        if source.position is not None and self[source.position].type not in INTEGERS:
            self._refuse_position(self[source.position].type)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._known

    def __getitem__(self, name: str) -> Attribute:
        """The column of this name, in any case."""
        return self._known[name.lower()]

    def type_of(self, name: str) -> str:
        """The type of a column as an attribute: one with a time zone is a TIMESTAMP in UTC."""
        return "TIMESTAMP" if name.lower() in self._instants else self[name].type

    def time(self, name: str) -> str:
        """SQL that reads a column as a time."""
        return self._instants.get(name.lower(), "{}")

    def value(self, attribute: Attribute) -> str:
        """SQL that reads a column as an attribute: cast where it is declared to be of another type."""
        if attribute.type == "TIMESTAMP" and attribute.name.lower() in self._instants:
            return self.time(attribute.name)
        database = self._database
        if attribute.type == self[attribute.name].type or (kind := database.value_type(attribute)) is None:
            return "{}"
        hole = "cep_column"
        to = exp.DataType.build(kind, dialect=database.dialect, udt=True)
        return database.render(exp.Cast(this=exp.column(hole, quoted=True), to=to)).replace(database.quoted(hole), "{}")

    def schema(self, declared: Schema | None) -> tuple[Schema, list[str]]:
        """The attributes of the stream, and why columns are left out; all of known types unless some are declared."""
        source = self._source
        if declared is not None:
            for attribute in declared:
                if attribute.name not in self:
                    raise SchemaError(f"{source.table} has no column {attribute.name!r}{self._nearest(attribute.name)}")
            return declared, []
        attributes, left_out = list[Attribute](), list[str]()
        for column in self._known.values():
            kind = self.type_of(column.name)
            if is_reserved(column.name):
                left_out.append(f"{column.name} (the name is the bridge's own)")
            elif kind == UNKNOWN:
                left_out.append(f"{column.name} (its type)")
            else:
                attributes.append(Attribute(column.name, kind))
        if not attributes:
            raise SchemaError(
                f"{source.table} has no column that could be an attribute: left out are {', '.join(left_out)}"
            )
        return Schema(tuple(attributes)), left_out

    def _nearest(self, name: str) -> str:
        return nearest(name, [column.name for column in self._known.values()])

    def _refuse_position(self, kind: str) -> None:
        source = self._source
        shown = "of a type that is unknown" if kind == UNKNOWN else kind
        raise SchemaError(
            f"the position {source.position!r} of {source.table} is {shown}, and must be a whole number, as of a sequence "
            f"or AUTO_INCREMENT: CREATE STREAM … FROM CHANGES OF {source.table} reads a table without one"
        )
