"""The columns of a watched table, and the SQL that reads each as an attribute."""

from __future__ import annotations

from sqlglot import exp

from bridge.check.types import UNKNOWN
from bridge.errors import SchemaError, nearest
from bridge.query.expression_text import name_text
from bridge.query.table_source import TableSource
from windows.databases import Database, Refused
from windows.schema import Attribute, Schema, is_reserved, relation_schema
from windows.sql import table_of

INTEGERS = ("SMALLINT", "INTEGER", "BIGINT", "DECIMAL(20, 0)")
"""The types that positions may have."""


class TableColumns:
    """The columns of a source's table. Raises `SchemaError` if the table or a column that it names does not exist.

    SQL that reads a column contains {} in place of the column.
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
        """The column of this name, ignoring case."""
        return self._known[name.lower()]

    def type_of(self, name: str) -> str:
        """The type of a column as an attribute; a type with a time zone becomes TIMESTAMP in UTC."""
        return "TIMESTAMP" if name.lower() in self._instants else self[name].type

    def time(self, name: str) -> str:
        """SQL that reads a column as a time."""
        return self._instants.get(name.lower(), "{}")

    def value(self, attribute: Attribute) -> str:
        """SQL that reads a column as an attribute, with a cast if it was declared with another type."""
        if attribute.type == "TIMESTAMP" and attribute.name.lower() in self._instants:
            return self.time(attribute.name)
        database = self._database
        if attribute.type == self[attribute.name].type or (kind := database.value_type(attribute)) is None:
            return "{}"
        hole = "cep_column"
        to = exp.DataType.build(kind, dialect=database.dialect, udt=True)
        return database.render(exp.Cast(this=exp.column(hole, quoted=True), to=to)).replace(database.quoted(hole), "{}")

    def schema(self, declared: Schema | None) -> Schema:
        """The attributes of the stream: the declared ones, or else all columns of known types."""
        source = self._source
        if declared is not None:
            for attribute in declared:
                if attribute.name not in self:
                    raise SchemaError(f"{source.table} has no column {attribute.name!r}{self._nearest(attribute.name)}")
            self._refuse_casts(declared)
            return declared
        known = [column for column in self._attributes if column.type != UNKNOWN]
        if not known:
            raise SchemaError(
                f"{source.table} has no column that could be an attribute: left out are {', '.join(self._left_out)}"
            )
        return Schema(tuple(known))

    def advice(self, stream: str) -> str | None:
        """A sentence on columns that `schema(None)` leaves out, with a declaration that reads them; None if none."""
        if not self._left_out:
            return None
        declared = [Attribute(each.name, "VARCHAR" if each.type == UNKNOWN else each.type) for each in self._attributes]
        return (
            f"the stream {stream} has no attributes for the columns {', '.join(self._left_out)} of {self._source.table}; "
            f"declared columns are cast: {declaration(stream, Schema(tuple(declared)), self._source)}"
        )

    @property
    def _attributes(self) -> list[Attribute]:
        """The columns that can be attributes; some types may be unknown."""
        columns = (column.name for column in self._known.values() if not is_reserved(column.name))
        return list(relation_schema([(name, self.type_of(name)) for name in columns]))

    @property
    def _left_out(self) -> list[str]:
        own = [
            f"{column.name} (the name is the bridge's own)"
            for column in self._known.values()
            if is_reserved(column.name)
        ]
        return own + [f"{column.name} (its type)" for column in self._attributes if column.type == UNKNOWN]

    def _refuse_casts(self, declared: Schema) -> None:
        """Raises SchemaError for an attribute whose column the database does not cast to its type."""
        for attribute in declared:
            value = self.value(attribute).replace("{}", self._database.quoted(self[attribute.name].name))
            if value != self._database.quoted(self[attribute.name].name):
                try:
                    self._database.fetch(f"SELECT {value} FROM {self._table} WHERE 1 = 0")
                except Refused as error:
                    raise SchemaError(
                        f"the column {attribute.name!r} of {self._source.table} cannot be read as {attribute.type} "
                        f"({error.reason.splitlines()[0]}): declare it VARCHAR, or read a view that computes it"
                    ) from None

    @property
    def _table(self) -> str:
        return table_of(self._source.table).sql(self._database.dialect, identify=True)

    def _nearest(self, name: str) -> str:
        return nearest(name, [column.name for column in self._known.values()])

    def _refuse_position(self, kind: str) -> None:
        source = self._source
        shown = "of an unknown type" if kind == UNKNOWN else kind
        raise SchemaError(
            f"the position {source.position!r} of {source.table} is {shown}, and must be a whole number, as of a sequence "
            f"or AUTO_INCREMENT: CREATE STREAM … FROM CHANGES OF {source.table} reads a table without one"
        )


def missing_column(source: TableSource, stream: str, column: str) -> SchemaError:
    """The error for a column of a stream that its table no longer has."""
    return SchemaError(
        f"{source.table} has no column {column!r} any more, which the stream {stream!r} has: declare it under another name, "
        "with its current columns (in Python remove_stream, and register_stream again), or read a view that has the column"
    )


def declaration(name: str, schema: Schema, source: TableSource | None = None) -> str:
    """The statement that declares a stream with its columns, of a table or (`source` None) of pushed events.

    >>> print(declaration("orders", Schema.of("id BIGINT"), TableSource("orders", "id")))
    CREATE STREAM orders (id BIGINT) FROM TABLE orders (POSITION id, SINCE NOW)
    >>> print(declaration("s", Schema.of({"group": "VARCHAR"})))
    CREATE STREAM s ("group" VARCHAR)
    """
    columns = ", ".join(f"{name_text(each.name)} {each.type}" for each in schema)
    return f"CREATE STREAM {name_text(name)} ({columns})" + ("" if source is None else f" FROM {source}")
