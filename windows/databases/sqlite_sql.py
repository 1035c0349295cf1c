"""Statements as SQLite wants them, which has no types for decimals, times and nested values."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from windows.databases.base import Database
from windows.databases.json_values import Elements, JsonValues
from windows.nested import FieldValue, NestedPart, call, json_array_text, json_path, json_text, or_null, truth_text
from windows.schema import Attribute, decimal_size
from windows.sql import COMPUTED, column_of, number
from windows.types import is_nested, scale_of
from windows.values import timestamp_text

_AROUND_CALL = (exp.Window, exp.Filter)
"""The nodes around the call of an aggregate."""


class SQLiteDecimals(Database):
    """DECIMALs, which SQLite computes as doubles: results are rounded to the digits after the point.

    So 0.1 + 0.2 is 0.3, and a total of many DECIMALs is exact as long as it has no more than 15 digits. A remainder is that
    of whole numbers in SQLite; here it is computed by a function of Python.
    """

    def result_type(self, attribute: Attribute) -> str:
        """NUMERIC for decimals: sums have more digits than a column may declare.

        The values are those that SQLite has computed.
        """
        return "NUMERIC" if scale_of(attribute.type) is not None else super().result_type(attribute)

    def value_type(self, attribute: Attribute) -> str | None:
        """None for DECIMALs: a NUMERIC column turns doubles into integers, but CAST does not."""
        kind = self.column_type(attribute)
        return None if kind == "NUMERIC" else kind

    def adapt(self, node: exp.Expr) -> exp.Expr:
        kind = _computed_type(node)
        if kind is None:
            return super().adapt(node)
        scale = scale_of(kind)
        bare = _without_type(node)
        if isinstance(bare, exp.Mod):
            digits = exp.null() if scale is None else number(scale)
            return call("CEP_REMAINDER", bare.this, bare.expression, digits).transform(self.adapt)
        assert scale is not None
        return exp.Round(this=bare.transform(self.adapt), decimals=number(scale))


def remainder(value: Any, by: Any, scale: int | None) -> float | None:
    """`value % by` with the sign of the value, of doubles or of decimals with `scale` digits after the point.

    >>> remainder(-5.35, 2, 2), remainder(0.3, 0.1, 2), remainder(5.5, 2, None), remainder(1, 0, None)
    (-1.35, 0.0, 1.5, None)
    """
    if value is None or not by or not math.isfinite(value):
        return None
    if scale is None or not math.isfinite(by):
        return math.fmod(value, by)
    unit = 10**scale
    whole, divisor = round(value * unit), abs(round(by * unit))
    return math.copysign(abs(whole) % divisor / unit, whole) if divisor else None


def _computed_type(node: exp.Expr) -> str | None:
    """The type of a computed value that SQLite would compute as another type; a window function has that of its call."""
    of = node.this if isinstance(node, _AROUND_CALL) and node.meta_get(COMPUTED) is None else node
    return None if isinstance(of, exp.Avg) else of.meta_get(COMPUTED)


def _without_type(node: exp.Expr) -> exp.Expr:
    found = node.copy()
    for each in (found, found.this) if isinstance(node, _AROUND_CALL) else (found,):
        each.meta.pop(COMPUTED, None)
    return found


_TIMESTAMPS = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.DATETIME)
_MICROSECONDS = exp.Literal.string("." + 6 * "[0-9]")


class SQLiteTimes(Database):
    """Times, which SQLite stores as texts. Casts return texts of one form, so that all times compare."""

    def adapt(self, node: exp.Expr) -> exp.Expr:
        found = adapted_cast(node) if isinstance(node, exp.Cast) else None
        return super().adapt(node) if found is None else found

    def relation_columns(self, name: str, columns: Sequence[str]) -> dict[str, exp.Expr]:
        """Makes times of every table compare like those of the bridge's tables; a value that is not a time is NULL."""
        kinds = {column.name: column.type for column in self.relation(name) or ()}
        plain = super().relation_columns(name, columns)
        times = {each for each in columns if kinds.get(each) in ("DATE", "TIMESTAMP")}
        return {each: exp.cast(column, kinds[each]) if each in times else column for each, column in plain.items()}


def adapted_cast(node: exp.Cast) -> exp.Expr | None:
    """The replacement of a cast to DATE or TIMESTAMP; None for other casts, and those that SQLite's own functions do.

    >>> adapted_cast(exp.cast(exp.Literal.string("2024-02-29"), "TIMESTAMP")).sql()
    "'2024-02-29 00:00:00.000000'"
    """
    kind, is_text = node.to.this, isinstance(node.this, exp.Literal) and node.this.is_string
    if kind == exp.DataType.Type.DATE and is_text:
        return exp.Literal.string(datetime.date.fromisoformat(node.this.name).isoformat())
    if kind in _TIMESTAMPS:
        if is_text:
            return exp.Literal.string(timestamp_text(datetime.datetime.fromisoformat(node.this.name)))
        return _with_microseconds(node.this)
    return None


def _with_microseconds(text: exp.Expr) -> exp.Expr:
    """A text of a time as SQLite stores it. Its own functions have no microseconds, which a stored time keeps."""
    end = call("SUBSTR", text.copy(), number(20))
    seconds = call("DATETIME", call("SUBSTR", text.copy(), number(1), number(19)))
    in_milliseconds = call("STRFTIME", exp.Literal.string("%Y-%m-%d %H:%M:%f"), text.copy())
    found = exp.Case().when(
        exp.Glob(this=end, expression=_MICROSECONDS.copy()), exp.DPipe(this=seconds, expression=end.copy())
    )
    return found.else_(exp.DPipe(this=in_milliseconds, expression=exp.Literal.string("000")))


class SQLiteJson(JsonValues):
    """Nested values as JSON: texts, read by JSON functions and written by concatenation."""

    def json_part(self, part: NestedPart) -> exp.Expr:
        """A part: booleans are 1 and 0, times are texts, and nested parts are JSON."""
        return call("JSON_EXTRACT", part.base, json_path(part.steps, lambda step: f"#{step}"))

    def elements(self, values: exp.Expr, kind: str, alias: str) -> Elements:
        rows = exp.alias_(exp.Table(this=call("JSON_EACH", values)), alias, table=True, quoted=True)
        return Elements(rows, column_of(alias, "value"), column_of(alias, "key"))

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
