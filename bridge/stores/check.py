"""Checks of ReadSQL, UpdateSQL and IntoTable: their SQL, and the columns that they give."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sqlglot import exp

from bridge.check.resolve import Namespace, ResolvedNode, resolve, resolve_stream
from bridge.check.scope import Field, Scope, scalar
from bridge.check.types import family
from bridge.errors import QueryError, source_words
from bridge.query.nodes import Stream, Union
from bridge.query.scripts import EqualUnion, IntoTable, ReadSQL, UpdateSQL
from bridge.stores import statement
from windows.schema import is_reserved
from windows.sql import column
from windows.types import scale_of

RESULT_ID = "result_id"
"""The parameter of an UpdateSQL, and the column of a result table, for the id of the result."""

RESULT_NUMBER = "result_number"
"""The column of a result table that numbers the results."""


_WHOLE = ("SMALLINT", "INTEGER", "BIGINT")


@resolve.register(EqualUnion)
def _(node: EqualUnion, names: Namespace) -> ResolvedNode:
    fields = [[(f.name.lower(), f.type) for f in resolve_stream(below, names).visible] for below in node.inputs]
    for other, below in zip(fields[1:], node.inputs[1:], strict=True):
        if other != fields[0]:
            one, two = (", ".join(f"{name} {kind}" for name, kind in part) for part in (fields[0], other))
            raise QueryError(
                f"a union wants equal columns: ({one}) and ({two}); a statement before, INSERT INTO x SELECT a AS b FROM s, "
                "renames fields, and ON WINDOW joins the streams instead",
                words=source_words(below.name)[2:] if isinstance(below, Stream) else (),
            )
    return resolve(Union(node.inputs), names)


@resolve.register(ReadSQL)
def _(node: ReadSQL, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    database = names.store(node.store)
    sql = statement.read(node.statement, database, node.position)
    statement.check_parameters(sql, len(node.parameters), node.position)
    parameters = tuple(scalar(parameter, Scope(below.fields)) for parameter in node.parameters)
    columns = statement.columns(sql, node.columns, database, node.position)
    resolved = dataclasses.replace(node, input=below.node, parameters=parameters, columns=columns)
    return ResolvedNode(resolved, (*below.visible, *_result_fields(node, columns, below.visible)), windowed=False)


def _result_fields(node: ReadSQL, columns: Sequence[tuple[str, str]], before: Sequence[Field]) -> list[Field]:
    """The columns of the SELECT. A column that the input also has is named `table_column`."""
    taken = {field.name.lower() for field in before}
    fields = []
    for name, kind in columns:
        shown = f"{node.table}_{name}" if name.lower() in taken else name
        if shown.lower() in taken:
            raise QueryError(f"two columns are called {shown!r}: rename one in the SQL with AS", position=node.position)
        if is_reserved(shown):
            raise QueryError(
                f"{shown!r} is the bridge's own name: rename it in the SQL with AS", position=node.position
            )
        taken.add(shown.lower())
        fields.append(Field(shown, kind, (node.table, name)))
    return fields


@resolve.register(UpdateSQL)
def _(node: UpdateSQL, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    database = names.store(node.store)
    sql = statement.update(node.statement, database, node.position)
    statement.check_parameters(sql, len(node.parameters), node.position)
    parameters = tuple(parameter_of(parameter, below.visible) for parameter in node.parameters)
    fields = below.visible
    if node.changed is not None:
        if node.store is not None:
            raise QueryError(
                "a data store is written after the commit, so the number of rows that it changed is not known before; "
                "in the bridge's own database it is",
                position=node.position,
            )
        if node.changed.lower() in {field.name.lower() for field in fields} or is_reserved(node.changed):
            raise QueryError(f"there is a column {node.changed!r} already", position=node.position)
        fields = (*fields, Field(node.changed, "BIGINT"))
    return ResolvedNode(dataclasses.replace(node, input=below.node, parameters=parameters), fields, windowed=False)


def parameter_of(parameter: exp.Expr, fields: Sequence[Field]) -> exp.Expr:
    """A parameter of an UpdateSQL in normal form: an expression over the row, or the id of the result."""
    is_id = isinstance(parameter, exp.Column) and parameter.name.lower() == RESULT_ID
    if is_id and RESULT_ID not in {field.name.lower() for field in fields}:
        return column(RESULT_ID)
    return scalar(parameter, Scope(tuple(fields)))


@resolve.register(IntoTable)
def _(node: IntoTable, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    found = names.relation(node.table)
    if found is not None:
        _check_columns(node.table, {field.name.lower(): field.type for field in found.fields}, below.visible)
    return ResolvedNode(dataclasses.replace(node, input=below.node), below.visible, windowed=False)


def _check_columns(table: str, known: Mapping[str, str], fields: Sequence[Field]) -> None:
    """Raises QueryError if a table lacks a column, or has a type for it that would change the query's values."""
    words = [f"INTO TABLE {table}", f"INTO {table}", table]
    for field in fields:
        kind = known.get(field.name.lower())
        if kind is None:
            raise QueryError(
                f"the table {table!r} has no column {field.name!r}: ALTER TABLE {table} ADD COLUMN {field.name} … adds it, of "
                f"the type {field.type}",
                words=words,
            )
        if _loses(field.type, kind):
            raise QueryError(
                f"the table {table!r} has the column {field.name} {kind}, and the query gives {field.type}: CAST(… AS {kind}) "
                "says what is meant, or another name or table has the values unchanged",
                words=words,
            )


def _loses(given: str, kind: str) -> bool:
    """Whether a column of one type cannot hold values of another: a text as a number, 1.5 as a whole number."""
    if family(given) == "text":
        return family(kind) == "number"
    return kind in _WHOLE and (given == "DOUBLE" or bool(scale_of(given)))
