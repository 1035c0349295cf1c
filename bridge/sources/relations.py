"""Relations (rule O4): tables of the database from Arrow tables, frames and files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import csv

from bridge.errors import DatabaseError, SourceError
from bridge.sources.arrow import as_arrow
from bridge.sources.convert import to_attribute
from bridge.sources.layout import Layout, attribute_type, infer_schema
from bridge.sources.rejects import reject_of
from bridge.sources.source import open_file
from bridge.sources.tables import ParquetReader
from windows.arrow import arrow_type, values_of
from windows.databases import Database, Refused
from windows.schema import Attribute, Schema, TypeMismatch, relation_schema, type_of_arrow
from windows.sql import identifier

NULLS = tuple(csv.ConvertOptions().null_values or ())
"""The words for NULL in a relation's columns that are not text, such as NA."""


def create_relation(database: Database, name: str, data: Any) -> None:
    """Creates the table `name` with the rows of an Arrow table, a frame or a file. Raises DatabaseError if it exists already."""
    whole = whole_table(name, data)
    columns = dict(zip(whole.schema.names, whole.schema.types, strict=True))
    _create_table(database, name, infer_schema(f"the relation {name!r}", columns, None), whole)


def copy_table(database: Database, name: str, rows: pa.Table) -> None:
    """Creates the table `name` with the rows of another database's table, whose columns may have any names."""
    kinds = [(field.name, type_of_arrow(field.type)) for field in rows.schema]
    _create_table(database, name, relation_schema(kinds), rows)


def _create_table(database: Database, name: str, schema: Schema, whole: pa.Table) -> None:
    arrays = [to_attribute(whole.column(attribute.name), attribute) for attribute in schema]
    try:
        database.begin()
        database.execute(_create(database, name, schema))
        _fill(database, _quoted(database, name), schema, pa.Table.from_arrays(arrays, names=schema.names))
        database.commit()
    except BaseException as error:
        with contextlib.suppress(Refused):
            database.rollback()
        if isinstance(error, Refused):
            raise DatabaseError(str(error)) from None
        raise


def whole_table(name: str, data: Any) -> pa.Table:
    """The rows of an Arrow table, a frame or a file, as one Arrow table. Raises SourceError for another object."""
    if isinstance(data, (str, os.PathLike)):
        return read_relation(name, os.fspath(data))
    tables = as_arrow(data)
    if tables is None:
        raise SourceError(f"the relation {name!r} is an Arrow table, a frame or a file, not {type(data).__name__}")
    return pa.concat_tables(list(tables))


def read_relation(name: str, path: str) -> pa.Table:
    """The rows of a relation from a CSV, NDJSON or Parquet file. Text files are read in the same way as events.

    Raises SourceError if the file cannot be read, and for the first row that does not fit.
    """
    try:
        reader = open_file(path, nulls=NULLS)
        if isinstance(reader, ParquetReader):
            return reader.table()
        attributes = [Attribute(column, attribute_type(kind)) for column, kind in reader.columns.items()]
        layout = Layout(
            reader.file, None, tuple((attribute, attribute.name) for attribute in attributes), inferred=True
        )
        tables = [pa.table({each.name: pa.nulls(0, arrow_type(each.type)) for each in attributes})]
        for block in reader.blocks(layout):
            rows = block.rows(until_fault=True)
            if rows.faults:
                number = min(rows.faults)
                raise SourceError(str(reject_of(block, number, rows.faults[number])))
            tables.append(rows.table)
        return pa.concat_tables(tables)
    except (SourceError, TypeMismatch) as error:
        raise SourceError(f"the relation {name!r}: {error}") from None


@contextlib.contextmanager
def temporary_relation(database: Database, name: str, data: Any) -> Iterator[None]:
    """A context in which the table `name` has the rows of an Arrow table or frame; only this connection sees it."""
    whole = whole_table(name, data)
    if database.zero_copy_arrow:
        with database.registered(whole, name):
            yield
        return
    schema = infer_schema(f"the frame {name!r}", dict(zip(whole.schema.names, whole.schema.types, strict=True)), None)
    arrays = [to_attribute(whole.column(attribute.name), attribute) for attribute in schema]
    database.execute(_create(database, name, schema).replace("CREATE TABLE", "CREATE TEMPORARY TABLE", 1))
    try:
        _fill(database, _quoted(database, name), schema, pa.Table.from_arrays(arrays, names=schema.names))
        yield
    finally:
        drop_relation(database, name)


def drop_relation(database: Database, name: str) -> None:
    """Drops the table of a relation."""
    database.execute(f"DROP TABLE {_quoted(database, name)}")


def _create(database: Database, name: str, schema: Schema) -> str:
    """The CREATE TABLE statement."""
    columns = (f"{_quoted(database, a.name)} {database.declared_type(a)}" for a in schema)
    return f"CREATE TABLE {_quoted(database, name)} ({', '.join(columns)}){database.table_options}"


def _fill(database: Database, table: str, schema: Schema, rows: pa.Table) -> None:
    encoders = [database.encoder(attribute) for attribute in schema]
    if not rows.num_rows:
        return
    if not any(encoders):
        database.append(table, rows)
        return
    columns = [
        [encode(value) if encode and value is not None else value for value in values_of(column)]
        for encode, column in zip(encoders, rows.columns, strict=True)
    ]
    database.insert(table, len(columns), list(zip(*columns, strict=True)))


def _quoted(database: Database, name: str) -> str:
    return identifier(name).sql(database.dialect)
