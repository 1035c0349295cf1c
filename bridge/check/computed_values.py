"""Marks computed values with their types, as some databases compute them as other types."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from bridge.check.types import TypeOf, cached, type_of
from windows.schema import decimal_size
from windows.sql import COMPUTED

_CHAINED = (exp.Add, exp.Sub, exp.Mul)
"""The operators of which a whole chain, such as `a + b - c`, has one mark."""


def mark_computed(expression: exp.Expr, column_type: TypeOf) -> None:
    """Marks with their types computed DECIMALs, sums of DECIMALs that an AVG divides, and remainders of doubles.

    >>> import sqlglot
    >>> found = sqlglot.parse_one("(m + 1) * 2 > i % 3")
    >>> mark_computed(found, lambda column: {"m": "DECIMAL(10, 2)", "i": "INTEGER"}[column.name])
    >>> [(node.sql(), node.meta["computed"]) for node in found.walk() if node.meta_get("computed") is not None]
    [('(m + 1) * 2', 'DECIMAL(38, 2)')]
    """
    column_type = cached(column_type)
    chained: set[int] = set()
    for node, of in _computed(expression):
        kind = type_of(of, column_type)
        is_decimal = decimal_size(kind) is not None
        if is_decimal and isinstance(node, _CHAINED):
            chained.add(id(node))
        if (is_decimal and not _is_within(node, chained)) or (kind == "DOUBLE" and isinstance(node, exp.Mod)):
            node.meta[COMPUTED] = kind


def _computed(expression: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """The computed parts, the whole before its parts, each with the expression that has its type."""
    for node in expression.walk():
        if isinstance(node, (*_CHAINED, exp.Mod, exp.Sum)) or (
            isinstance(node, exp.Cast) and node.to.is_type("DECIMAL")
        ):
            yield node, node
        elif isinstance(node, exp.Avg):
            yield node, exp.Sum(this=node.this.copy())


def _is_within(node: exp.Expr, chained: set[int]) -> bool:
    """Whether a sum, difference or product is a part of another one."""
    above = node.parent
    while isinstance(above, (exp.Paren, exp.Neg, exp.Abs)):
        above = above.parent
    return isinstance(node, _CHAINED) and id(above) in chained
