"""The place of a bridge's tables in a database: names with the bridge's name, and a schema of their own."""

from __future__ import annotations

import re

from sqlglot import exp

from bridge.errors import SchemaError
from windows.databases import Database
from windows.schema import is_storable

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,15}")
"""The pattern has no underscore, so two bridges never have a table of the same name."""


def use_namespace(database: Database, name: str | None, schema: str | None) -> None:
    """Sets the name and the schema under which a database creates and finds the tables of a bridge.

    Raises:
        SchemaError: A name is wrong.
        Refused: The database has no schemas, or refuses to create one.
    """
    if name is not None and (not isinstance(name, str) or not _NAME.fullmatch(name)):
        raise SchemaError(f"the name of a bridge has at most 16 letters and digits, a letter first, not {name!r}")
    if schema is not None and (not isinstance(schema, str) or not schema.strip() or not is_storable(schema)):
        raise SchemaError(f"{schema!r} cannot be the name of a schema")
    database.owner = (name or "").lower()
    if schema is not None:
        database.use_schema(schema)


def has_schema(database: Database, name: str | None) -> bool:
    """Whether a schema exists. None is the schema of the connection. Without schemas, none is missing."""
    if name is None or not database.has_schemas:
        return True
    known = exp.Literal.string(name).sql(database.dialect)
    return bool(database.fetch(f"SELECT 1 FROM information_schema.schemata WHERE schema_name = {known}"))
