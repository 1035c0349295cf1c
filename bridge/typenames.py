"""EPL's names of the types of values: what typeof gives of an attribute, and instanceof asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

from bridge.errors import QueryError
from bridge.paths import shown
from bridge.types import UNKNOWN, place, type_of
from windows.schema import decimal_size

NAMES = {
    "VARCHAR": "String", "BOOLEAN": "Boolean", "SMALLINT": "Short", "INTEGER": "Integer", "BIGINT": "Long",
    "DOUBLE": "Double", "DATE": "LocalDate", "TIMESTAMP": "LocalDateTime",
}  # fmt: skip
"""By the types of attributes."""

_OF_VALUE = "of_value"
"""Marks a typeof that is EPL's, of a value: a database may have a function of that name."""


def type_name(value: exp.Expr) -> exp.Expr:
    """`typeof(value)`, as long as the types of the columns are not known."""
    found = exp.Typeof(this=value)
    found.meta[_OF_VALUE] = True
    return found


def is_one_of(value: exp.Expr, types: Iterable[str]) -> exp.Expr:
    """`instanceof(value, type, …)`: whether it is of one of these types, and not NULL.

    >>> is_one_of(exp.column("v"), ["INTEGER", "BIGINT"]).sql()
    "COALESCE(TYPEOF(v) IN ('Integer', 'Long'), FALSE)"
    """
    names = [exp.Literal.string(NAMES[kind]) for kind in types]
    return exp.Coalesce(this=exp.In(this=type_name(value), expressions=names), expressions=[exp.false()])


def with_type_names(expression: exp.Expr, column_type: Callable[[exp.Column], str]) -> exp.Expr:
    """The expression with the names of types where it asks for them; NULL has none.

    >>> with_type_names(type_name(exp.column("v")), lambda column: "INTEGER").sql()
    "CASE WHEN NOT v IS NULL THEN 'Integer' END"
    """

    def name(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Typeof) or _OF_VALUE not in node.meta:
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
        raise QueryError(f"the type of {shown(value)} {what}", position=place(value))
    return NAMES[found]
