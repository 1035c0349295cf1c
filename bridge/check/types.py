"""The types of expressions, and so of result columns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types

from bridge.check.paths import is_part, kind_of, source_text
from bridge.errors import QueryError
from windows.aggregates import ARGUMENT, aggregate_of, first_argument
from windows.nested import is_array, is_list, is_object
from windows.schema import TypeMismatch, canonical_type, decimal_size
from windows.sql import parenthesized
from windows.types import is_nested

UNKNOWN = "UNKNOWN"
"""The type of values that only the database knows, such as results of its own functions."""

TypeOf = Callable[[exp.Column], str]
"""Gives the type of a column in the current scope."""

_FAMILIES = {
    "SMALLINT": "number", "INTEGER": "number", "BIGINT": "number", "DOUBLE": "number", "VARCHAR": "text",
    "BOOLEAN": "boolean", "DATE": "time", "TIMESTAMP": "time",
}  # fmt: skip
_SAME_TYPE = (exp.Paren, exp.Neg, exp.Abs, exp.Distinct)
_NESTED = (exp.DataType.Type.STRUCT, exp.DataType.Type.ARRAY, exp.DataType.Type.LIST, exp.DataType.Type.MAP)
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_CONDITIONS = (
    *COMPARISONS, exp.And, exp.Or, exp.Not, exp.Between, exp.In, exp.Is, exp.Like, exp.ILike, exp.Exists,
)  # fmt: skip
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
_OF_NUMBERS = (*_ARITHMETIC, exp.Coalesce, exp.Greatest, exp.Least, exp.Case, exp.If)
"""The nodes that compute with values, or choose one of several."""


def type_of(expression: exp.Expr, column_type: TypeOf) -> str:
    """The attribute type of an expression's value, or `UNKNOWN`.

    >>> import sqlglot
    >>> type_of(sqlglot.parse_one("SUM(a) / 2 > 1"), lambda column: "INTEGER")
    'BOOLEAN'
    """
    if not isinstance(column_type, _TypeCache):
        column_type = _TypeCache(column_type)
        for part in reversed(list(expression.walk()) if isinstance(expression, _ARITHMETIC) else []):
            if isinstance(part, _ARITHMETIC):  # the innermost first, as a sum may be longer than recursion may be deep
                type_of(part, column_type)
    known = column_type.types.get(id(expression))
    if known is None:
        known = column_type.types[id(expression)] = _type_of(expression, column_type)
    return known


def cached(column_type: TypeOf) -> TypeOf:
    """The same with a cache, so that the type of each part of a long expression is found once."""
    return _TypeCache(column_type)


class _TypeCache:
    """The types of columns and of expressions over them, so that each part of a long expression is visited once."""

    def __init__(self, column_type: TypeOf) -> None:
        self._column_type = column_type
        self.types: dict[int, str] = {}
        """The types of expressions, by their ids; the caller keeps the expressions alive."""
        self.decimals: dict[int, bool] = {}
        """Whether some column of an expression is a DECIMAL, by the expression's id."""

    def __call__(self, column: exp.Column) -> str:
        return self._column_type(column)


def _type_of(expression: exp.Expr, column_type: _TypeCache) -> str:
    if isinstance(expression, exp.Alias):
        return type_of(expression.this, column_type)
    if isinstance(expression, _CONDITIONS):
        return "BOOLEAN"
    if isinstance(expression, (exp.Any, exp.All)):
        return UNKNOWN
    if isinstance(expression, exp.Column):
        return column_type(expression)
    if isinstance(expression, exp.Cast) and (is_part(expression.this) or is_constructed(expression)):
        return kind_of(expression)
    if isinstance(expression, _SAME_TYPE):
        below = expression.expressions[0] if isinstance(expression, exp.Distinct) else expression.this
        return type_of(below, column_type)
    aggregate = aggregate_of(expression)
    if aggregate is not None and aggregate.result:
        return type_of(first_argument(expression), column_type) if aggregate.result == ARGUMENT else aggregate.result
    if (isinstance(expression, _OF_NUMBERS) or aggregate is not None) and _has_decimal(expression, column_type):
        return _type_with_decimals(expression, column_type) or _annotated(expression, column_type)
    return _annotated(expression, column_type)


def is_constructed(node: exp.Expr) -> bool:
    """Whether a node constructs an object or a list."""
    return is_object(node) or is_list(node) or is_array(node)


def family(type_name: str) -> str | None:
    """The family of types that can be compared with each other: number, text, boolean, time, or its own.

    None: unknown.
    """
    if is_nested(type_name):
        return type_name
    return "number" if decimal_size(type_name) else _FAMILIES.get(type_name)


def refuse_nested(node: exp.Expr, column_type: TypeOf) -> None:
    """Refuses operations on nested values in which databases differ: the text of an object, the order of lists."""
    for operand in (node.this, node.args.get("expression")):
        if isinstance(operand, exp.Expr) and is_nested(found := type_of(operand, column_type)):
            raise QueryError(f"{source_text(operand)} is {found}: name a part of it", position=place(node))


def refuse_nested_key(key: exp.Expr, kind: str) -> None:
    """Refuses lists and objects as keys that Python compares, not the database."""
    if is_nested(kind):
        raise QueryError(
            f"{source_text(key)} is {kind}, which is not a key: name a part of it, or compute a key in a statement before",
            position=place(key),
        )


def place(expression: exp.Expr) -> int | None:
    """The offset of the first name or `*` in an expression, in the text that it was parsed from."""
    names = expression.find_all(exp.Identifier, exp.Star)
    offsets = [node.meta["start"] for node in names if node.meta_get("start") is not None]
    return min(offsets, default=None)


@functools.cache
def _data_type(name: str) -> exp.DataType:
    found = exp.DataType.build(name, dialect="duckdb")
    for kind in found.find_all(exp.DataType):
        if kind.this == exp.DataType.Type.TIMESTAMPNTZ:  # sqlglot's type for DuckDB's TIMESTAMP
            kind.set("this", exp.DataType.Type.TIMESTAMP)
    return found


def _annotated(expression: exp.Expr, column_type: TypeOf) -> str:
    """The type that sqlglot derives, with each column as a NULL of its type."""

    def typed(node: exp.Expr) -> exp.Expr:
        aggregate = aggregate_of(node)
        if isinstance(node, exp.Column) or (aggregate is not None and aggregate.result):
            known = type_of(node, column_type)
            return exp.null() if known == UNKNOWN else exp.cast(exp.null(), _data_type(known))
        return node

    def operand(part: exp.Expr) -> exp.Expr:
        known = type_of(part, column_type) if isinstance(part, _ARITHMETIC) else UNKNOWN
        return part.copy() if known == UNKNOWN else exp.cast(exp.null(), _data_type(known))

    if isinstance(expression, _ARITHMETIC):  # each part of a long sum is visited once
        sides = {"this": operand(expression.this), "expression": operand(expression.expression)}
        expression = type(expression)(**{**expression.args, **sides})
    annotated = annotate_types(expression.transform(typed))
    try:
        return (
            canonical_type(annotated.type.sql("duckdb" if annotated.type.is_type(*_NESTED) else ""))
            if annotated.type
            else UNKNOWN
        )
    except TypeMismatch:
        return UNKNOWN


def _has_decimal(expression: exp.Expr, column_type: _TypeCache) -> bool:
    if isinstance(expression, exp.Column):
        return decimal_size(column_type(expression)) is not None
    found = column_type.decimals.get(id(expression))
    if found is None:
        found = any(_has_decimal(part, column_type) for part in expression.iter_expressions())
        column_type.decimals[id(expression)] = found
    return found


def _type_with_decimals(expression: exp.Expr, column_type: TypeOf) -> str | None:
    """The type of a value that is computed from decimals, or is one of several values; None if sqlglot knows it.

    A DOUBLE among them makes it a DOUBLE, and a quotient always is one. A product has as many digits after the point as
    both factors together; any other value, as many as the value that has most.
    """
    parts = [part for part in _values_of(expression) if not isinstance(part, exp.Null)]
    types = [type_of(part, column_type) for part in parts]
    if not types or any(family(each) != "number" for each in types):
        return UNKNOWN if UNKNOWN in types else None
    if "DOUBLE" in types or isinstance(expression, exp.Div):
        return "DOUBLE"
    if len(set(types)) == 1 and not isinstance(expression, (*_ARITHMETIC, exp.AggFunc)):
        return types[0]
    scales = [scale for _, scale in (decimal_size(each) or (18, 0) for each in types)]
    return f"DECIMAL(38, {sum(scales) if isinstance(expression, exp.Mul) else max(scales)})"


def _values_of(expression: exp.Expr) -> list[exp.Expr]:
    """The values that an expression computes with or chooses from; none for one whose type sqlglot knows."""
    match expression:
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            return [expression.this, expression.expression]
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            return [expression.this, *expression.expressions]
        case exp.Case():
            values = [*(branch.args["true"] for branch in expression.args["ifs"]), expression.args.get("default")]
            return [value for value in values if value is not None]
        case exp.If():
            return [value for value in (expression.args["true"], expression.args.get("false")) if value is not None]
    aggregate = aggregate_of(expression)
    return [expression.this] if aggregate is not None and aggregate.keeps_scale else []


# EPL's names of types, which typeof returns and instanceof accepts

NAMES = {
    "VARCHAR": "String", "BOOLEAN": "Boolean", "SMALLINT": "Short", "INTEGER": "Integer", "BIGINT": "Long",
    "DOUBLE": "Double", "DATE": "LocalDate", "TIMESTAMP": "LocalDateTime",
}  # fmt: skip
"""The names, by the types of attributes."""

_OF_VALUE = "of_value"
"""Marks EPL's typeof of a value, as a database may have a function of that name."""


_CUTS = "cuts"
"""Marks EPL's cast to a whole number, which truncates; databases round or truncate."""

_WITHOUT_FRACTION = ("VARCHAR", "BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", UNKNOWN)


def cast_to_whole(value: exp.Expr, kind: str) -> exp.Expr:
    """`cast(value, kind)` of EPL, whose result is the number without its fraction: 2 for 2.9, -2 for -2.9."""
    found = exp.cast(value, kind)
    found.meta[_CUTS] = True
    return found


def _cut(number: exp.Expr) -> exp.Expr:
    is_negative = exp.LT(this=parenthesized(number).copy(), expression=exp.Literal.number(0))
    return exp.Case().when(is_negative, exp.Ceil(this=number.copy())).else_(exp.Floor(this=number.copy()))


def type_name(value: exp.Expr) -> exp.Expr:
    """`typeof(value)`, as long as the types of the columns are unknown."""
    found = exp.Typeof(this=value)
    found.meta[_OF_VALUE] = True
    return found


def is_one_of(value: exp.Expr, types: Iterable[str]) -> exp.Expr:
    """`instanceof(value, type, …)`: whether the value is of one of these types, and not NULL.

    >>> is_one_of(exp.column("v"), ["INTEGER", "BIGINT"]).sql()
    "COALESCE(TYPEOF(v) IN ('Integer', 'Long'), FALSE)"
    """
    names = [exp.Literal.string(NAMES[kind]) for kind in types]
    return exp.Coalesce(this=exp.In(this=type_name(value), expressions=names), expressions=[exp.false()])


def with_type_names(expression: exp.Expr, column_type: Callable[[exp.Column], str]) -> exp.Expr:
    """The expression with names of types for typeof; NULL has none. Casts that truncate do so on every database.

    >>> with_type_names(type_name(exp.column("v")), lambda column: "INTEGER").sql()
    "CASE WHEN NOT v IS NULL THEN 'Integer' END"
    """

    def name(node: exp.Expr) -> exp.Expr:
        if node.meta_get(_CUTS) is not None and type_of(node.this, column_type) not in _WITHOUT_FRACTION:
            return exp.cast(_cut(node.this), node.args["to"].copy())
        if not isinstance(node, exp.Typeof) or node.meta_get(_OF_VALUE) is None:
            return node
        there = exp.Not(this=exp.Is(this=node.this.copy(), expression=exp.null()))
        return exp.Case().when(there, exp.Literal.string(_name(node.this, column_type)))

    return expression.transform(name)


def _name(value: exp.Expr, column_type: Callable[[exp.Column], str]) -> str:
    if value.find(exp.AggFunc) and not isinstance(value, (exp.First, exp.Last)):
        raise QueryError("typeof and instanceof are of attributes, not of aggregates", position=place(value))
    found = type_of(value, column_type)
    if decimal_size(found):
        return "BigDecimal"
    if found not in NAMES:
        what = "is known to the database alone: cast(…, int)" if found == UNKNOWN else f"is {found}: name a part of it"
        raise QueryError(f"the type of {source_text(value)} {what}", position=place(value))
    return NAMES[found]
