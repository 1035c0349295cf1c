"""Nested values on SQLite: texts, read by JSON functions and written by concatenation."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from sqlglot import exp

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
from windows.schema import decimal_size
from windows.types import is_nested


class SQLiteJson(JsonValues):
    """Nested values as JSON."""

    def json_part(self, part: NestedPart) -> exp.Expr:
        """A part: booleans are 1 and 0, times are texts, and nested parts are JSON."""
        return call("JSON_EXTRACT", part.base, json_path(part.steps, lambda step: f"#{step}"))

    def elements(self, values: exp.Expr, kind: str, alias: str) -> Elements:
        rows = exp.alias_(exp.Table(this=call("JSON_EACH", values)), alias, table=True, quoted=True)
        return Elements(rows, exp.column("value", alias, quoted=True), exp.column("key", alias, quoted=True))

    def json_length(self, value: exp.Expr) -> exp.Expr:
        return call("JSON_ARRAY_LENGTH", value)

    def json_object(self, fields: Sequence[FieldValue]) -> exp.Expr:
        return _concatenated(json_text(fields, _in_json))

    def json_list(self, value: exp.Expr, kind: str, order: Sequence[exp.Expr]) -> exp.Expr:
        """Calls a function of the bridge, as the functions of older versions have no order. The keys are numbers."""
        keys = [exp.Neg(this=each.this) if each.args.get("desc") else each.this for each in order]
        return call("CEP_LIST", or_null(_in_json(value, kind)), *keys)

    def json_array(self, values: Sequence[exp.Expr], kind: str) -> exp.Expr:
        return _concatenated(json_array_text(values, lambda value: _in_json(value, kind)))


def _in_json(value: exp.Expr, kind: str) -> exp.Expr:
    """The JSON of a value."""
    if is_nested(kind):
        return value
    if kind == "BOOLEAN":
        return truth_text(value)
    if kind == "DOUBLE":
        return call("CEP_DOUBLE", value)
    size = decimal_size(kind)
    text = call("PRINTF", exp.Literal.string(f"%.{size[1]}f"), value) if size else call("JSON_QUOTE", value)
    there = exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
    return exp.Case().when(there, text)  # the functions write NULL as a text


def _concatenated(texts: Sequence[exp.Expr]) -> exp.Expr:
    return exp.Paren(this=functools.reduce(lambda left, right: exp.DPipe(this=left, expression=right), texts))
