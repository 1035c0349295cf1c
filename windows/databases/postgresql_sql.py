"""Statements as PostgreSQL wants them: the kinds of nodes that it spells in another way, and nested values as JSONB."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from sqlglot import exp

from windows.databases.alchemy import Server, aggregate_doubles
from windows.databases.base import NESTED_LOOP
from windows.databases.json_values import Elements, JsonValues
from windows.databases.refused import Refused
from windows.nested import FieldValue, NestedPart, call
from windows.schema import Attribute
from windows.sql import INDEXED, column_of, identifier, number
from windows.types import is_nested

HELPER = "_helper"
"""Prefix of the columns that have one value per group."""

NAME_BYTES = 63
"""The length of a name in bytes, beyond which PostgreSQL truncates it silently."""


_SYSTEM_COLUMNS = frozenset(("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"))
"""The columns that every table has. Quoted names in upper case are others."""


class PostgreSQLSql(Server):
    """A database whose statements are written for PostgreSQL."""

    def adapt(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Join) and node.meta_get(NESTED_LOOP):
            _join_laterally(node)
        if node.meta_get(INDEXED):
            node = _equal_or_null(node)
        change = _CHANGES.get(type(node))
        changed = change(node, self) if change is not None else node
        return super().adapt(node) if changed is node else changed


def _name(name: exp.Expr, _: PostgreSQLSql) -> exp.Expr:
    if len(name.name.encode()) <= NAME_BYTES:
        return name
    raise Refused(f"PostgreSQL's names have at most {NAME_BYTES} bytes: give {name.name!r} a shorter one with AS")


def _created(create: exp.Expr, _: PostgreSQLSql) -> exp.Expr:
    """Refuses a table whose columns have the names of system columns."""
    made = create.this.expressions if create.expression is None else create.expression.selects
    for name in (column.alias_or_name for column in made):
        if name in _SYSTEM_COLUMNS:
            raise Refused(
                f"every table of PostgreSQL has a column {name!r} of its own: rename yours, in a query with AS"
            )
    return create


def _literal(literal: exp.Expr, _: PostgreSQLSql) -> exp.Expr:
    """Writes `1.5` as a DOUBLE, as in the bridge; in PostgreSQL it is a NUMERIC."""
    is_double = not literal.args["is_string"] and not literal.name.isdigit()
    return exp.cast(literal.copy(), "DOUBLE") if is_double else literal


def _type(kind: exp.Expr, _: PostgreSQLSql) -> exp.Expr:
    """VARCHAR becomes TEXT, the type of `||`: the parts of a recursive statement must have one type."""
    return exp.DataType.build("TEXT") if kind.this == exp.DataType.Type.VARCHAR else kind


def _averaged(call: exp.Expr, _: PostgreSQLSql) -> exp.Expr:
    """Averages doubles: AVG over integers would be a NUMERIC."""
    aggregate_doubles(call)
    return call


def _valued(call: exp.Expr, _: PostgreSQLSql) -> exp.Expr:
    """Gives a text literal a type; an aggregate over it would have none."""
    if isinstance(call.this, exp.Literal) and call.this.is_string:
        call.set("this", exp.cast(call.this.copy(), "VARCHAR"))
    return call


def _rounded(call: exp.Expr, _: PostgreSQLSql) -> exp.Expr:
    """Rounds a NUMERIC, half up; ROUND of a DOUBLE rounds half to even, and takes no digits."""
    call.set("this", exp.cast(call.this.copy(), "DECIMAL"))
    return call


def _least(call: exp.Expr, _: PostgreSQLSql) -> exp.Expr:
    """Takes any value of a helper column, as they are equal within a group: there is no MIN of booleans."""
    if not isinstance(call.this, exp.Column) or not call.this.name.startswith(HELPER):
        return call
    values = exp.Paren(this=exp.ArrayAgg(this=call.this.copy()))
    return exp.Bracket(this=values, expressions=[number(1)], offset=1)


def _aggregated(call: exp.Expr, database: PostgreSQLSql) -> exp.Expr:
    """Writes `percentile_cont(v, 0.9)` as `percentile_cont(0.9) WITHIN GROUP (ORDER BY v)`."""
    if call.name.lower() not in database.ordered_set_functions:
        return call
    value, *others = (argument.transform(database.adapt) for argument in call.expressions)
    order = exp.Order(expressions=[exp.Ordered(this=value)])
    return exp.WithinGroup(this=exp.Anonymous(this=call.name, expressions=others), expression=order)


def _like(like: exp.Expr, database: PostgreSQLSql) -> exp.Expr:
    r"""Makes a backslash in a pattern stand for itself, as in other databases."""
    if isinstance(like.parent, exp.Escape):
        return like
    parts = {part: like.args[part].transform(database.adapt) for part in ("this", "expression")}
    return exp.Escape(this=exp.Like(**parts), expression=exp.Literal.string(""))


_CHANGES: dict[type[exp.Expr], Callable[[Any, PostgreSQLSql], exp.Expr]] = {
    exp.Identifier: _name, exp.Literal: _literal, exp.DataType: _type, exp.Avg: _averaged, exp.Round: _rounded,
    exp.Min: _least, exp.Like: _like, exp.FirstValue: _valued, exp.LastValue: _valued,
    exp.AnonymousAggFunc: _aggregated, exp.Create: _created,
}  # fmt: skip


def _join_laterally(join: exp.Join) -> None:
    """Turns a join, in place, into a LATERAL sub-query per row before it; OFFSET keeps it from being merged.

    IS NOT DISTINCT FROM is spelled out, as no index serves it.
    """
    item = join.this
    found = exp.select("*").from_(item.copy()).where(join.args["on"].transform(_equal_or_null)).offset(0)
    join.set("this", exp.Lateral(this=exp.Subquery(this=found), alias=item.args["alias"].copy()))
    join.set("kind", "CROSS")
    join.set("on", None)


def _equal_or_null(node: exp.Expr) -> exp.Expr:
    if not isinstance(node, exp.NullSafeEQ):
        return node
    nulls = (exp.Is(this=side.copy(), expression=exp.null()) for side in (node.left, node.right))
    return exp.paren(exp.or_(exp.EQ(this=node.left, expression=node.right), exp.and_(*nulls)))


class PostgreSQLJson(JsonValues):
    """Nested values as JSONB, whose functions are typed."""

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
        names = [identifier(name) for name in ("value", "place")]
        named = exp.TableAlias(this=identifier(alias), columns=names)
        rows = exp.Table(this=call(function, _as_json(values)), alias=named, ordinality=True)
        value: exp.Expr
        value, place = (column_of(alias, name) for name in ("value", "place"))
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
