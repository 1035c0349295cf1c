"""Nested values on MariaDB and MySQL: texts, read by JSON functions and written by concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sqlglot import exp

from windows.databases.alchemy import as_double
from windows.databases.json_values import Elements, JsonValues
from windows.nested import (
    FieldValue,
    NestedPart,
    call,
    json_array_text,
    json_path,
    json_text,
    or_null,
    truth_text,
)
from windows.schema import Attribute, decimal_size
from windows.types import is_nested

TEXT_LENGTH = 4_000_000
"""The length of texts made by CAST: a recursive statement truncates its texts to the length of the first one."""


class MariaDBJson(JsonValues):
    """Nested values as JSON."""

    collation: str

    nested_type: ClassVar[str | None] = "LONGTEXT"

    def json_part(self, part: NestedPart) -> exp.Expr:
        """JSON_VALUE reads scalar values, JSON_QUERY objects and lists."""
        path = json_path(part.steps, lambda step: str(step))
        if is_nested(part.kind):
            return call("JSON_QUERY", part.base, path)
        text = call("JSON_VALUE", part.base, path)
        if part.kind == "BOOLEAN":
            return exp.EQ(this=text, expression=exp.Literal.string("1"))
        return self.adapt(exp.Cast(this=text, to=exp.DataType.build(part.kind)))

    def elements(self, values: exp.Expr, kind: str, alias: str) -> Elements:
        """Nested elements are JSON, booleans 1 or 0."""
        of = (
            "JSON" if is_nested(kind) else "TINYINT" if kind == "BOOLEAN" else self.column_type(Attribute("part", kind))
        )
        value, place = (exp.to_identifier(name, quoted=True) for name in ("value", "place"))
        typed = exp.DataType.build(of, dialect="mysql", udt=True)
        columns = [
            exp.JSONColumnDef(this=value, kind=typed, path=exp.Literal.string("$")),
            exp.JSONColumnDef(this=place, ordinality=True),
        ]
        schema = exp.JSONSchema(expressions=columns)
        rows = exp.JSONTable(this=values, schema=schema, path=exp.Literal.string("$[*]"))
        item = exp.alias_(exp.Table(this=rows), alias, table=True, quoted=True)
        return Elements(
            item, exp.column(value.copy(), alias, quoted=True), exp.column(place.copy(), alias, quoted=True)
        )

    def json_length(self, value: exp.Expr) -> exp.Expr:
        return call("JSON_LENGTH", value)

    def json_object(self, fields: Sequence[FieldValue]) -> exp.Expr:
        """Concatenates texts: JSON_OBJECT writes blanks, and integers for booleans."""
        return call("CONCAT", *json_text(fields, self._in_json))

    def json_list(self, value: exp.Expr, kind: str, order: Sequence[exp.Expr]) -> exp.Expr:
        text = or_null(self._in_json(value, kind))
        grouped: exp.Expr = exp.Order(this=text, expressions=list(order)) if order else text
        elements = exp.GroupConcat(this=grouped, separator=exp.Literal.string(","))
        return call("CONCAT", exp.Literal.string("["), elements, exp.Literal.string("]"))

    def json_array(self, values: Sequence[exp.Expr], kind: str) -> exp.Expr:
        return call("CONCAT", *json_array_text(values, lambda value: self._in_json(value, kind)))

    def _in_json(self, value: exp.Expr, kind: str) -> exp.Expr:
        """The JSON of a value. Doubles always have a point, so that equal values are equal texts."""
        if kind == "BOOLEAN":
            return truth_text(value)
        if kind == "DOUBLE":
            text = call("CONCAT", as_double(value))
            return call("REGEXP_REPLACE", text, exp.Literal.string("^(-?[0-9]+)$"), exp.Literal.string("\\1.0"))
        if is_nested(kind) or decimal_size(kind) or kind in ("SMALLINT", "INTEGER", "BIGINT"):
            return value
        quoted = call(
            "JSON_QUOTE", exp.Cast(this=value, to=exp.DataType.build(f"CHAR({TEXT_LENGTH})", dialect="mysql"))
        )
        return exp.Collate(this=quoted, expression=exp.var(self.collation))
