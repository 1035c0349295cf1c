"""Nested values on PostgreSQL: JSONB, whose functions are typed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import ClassVar

from sqlglot import exp

from windows.databases.json_values import Elements, JsonValues
from windows.nested import (
    FieldValue,
    NestedPart,
    call,
)
from windows.schema import Attribute
from windows.types import is_nested


class PostgreSQLJson(JsonValues):
    """Nested values as JSON."""

    nested_type: ClassVar[str | None] = "JSONB"

    def json_part(self, part: NestedPart) -> exp.Expr:
        """Reads a part, so that JSON's null becomes NULL."""
        steps = [exp.Literal.string(str(step)) for step in part.steps]
        base = _as_json(part.base)
        if is_nested(part.kind):
            null = _as_json(exp.Literal.string("null"))
            return exp.Nullif(this=call("JSONB_EXTRACT_PATH", base, *steps), expression=null)
        text = call("JSONB_EXTRACT_PATH_TEXT", base, *steps)
        kind = self.column_type(Attribute("part", part.kind))
        return text if part.kind == "VARCHAR" else exp.Cast(this=text, to=exp.DataType.build(kind, dialect="postgres"))

    def elements(self, values: exp.Expr, kind: str, alias: str) -> Elements:
        function = "JSONB_ARRAY_ELEMENTS" if is_nested(kind) else "JSONB_ARRAY_ELEMENTS_TEXT"
        names = [exp.to_identifier(name, quoted=True) for name in ("value", "place")]
        named = exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=names)
        rows = exp.Table(this=call(function, _as_json(values)), alias=named, ordinality=True)
        value: exp.Expr
        value, place = (exp.column(name, alias, quoted=True) for name in ("value", "place"))
        if is_nested(kind):
            value = exp.Nullif(this=value, expression=_as_json(exp.Literal.string("null")))
        elif kind != "VARCHAR":
            of = self.column_type(Attribute("part", kind))
            value = exp.Cast(this=value, to=exp.DataType.build(of, dialect="postgres"))
        return Elements(rows, value, place)

    def json_length(self, value: exp.Expr) -> exp.Expr:
        return call("JSONB_ARRAY_LENGTH", _as_json(value))

    def json_object(self, fields: Sequence[FieldValue]) -> exp.Expr:
        """Joins objects of 50 fields: a function has at most 100 arguments."""
        pairs = [(exp.Literal.string(name), self._in_json(value, kind)) for name, value, kind in fields]
        some = (pairs[start : start + 50] for start in range(0, len(pairs), 50))
        objects = [call("JSONB_BUILD_OBJECT", *(each for pair in part for each in pair)) for part in some]
        return functools.reduce(lambda left, right: exp.DPipe(this=left, expression=right), objects)

    def json_list(self, value: exp.Expr, kind: str, order: Sequence[exp.Expr]) -> exp.Expr:
        json = self._in_json(value, kind)
        return call("JSONB_AGG", exp.Order(this=json, expressions=list(order)) if order else json)

    def json_array(self, values: Sequence[exp.Expr], kind: str) -> exp.Expr:
        return call("JSONB_BUILD_ARRAY", *(self._in_json(value, kind) for value in values))

    def _in_json(self, value: exp.Expr, kind: str) -> exp.Expr:
        """A value as argument of JSONB's functions, which would write timestamps in ISO format."""
        if is_nested(kind):
            return _as_json(value)
        of = self.column_type(Attribute("part", kind))
        typed = exp.Cast(this=value, to=exp.DataType.build(of, dialect="postgres"))
        written = exp.Literal.string("YYYY-MM-DD HH24:MI:SS.US")
        return call("TO_CHAR", typed, written) if kind == "TIMESTAMP" else typed


def _as_json(value: exp.Expr) -> exp.Expr:
    """Casts to JSONB, as some of the bridge's own tables store texts."""
    return exp.Cast(this=value, to=exp.DataType.build("JSONB", dialect="postgres"))
