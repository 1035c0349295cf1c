"""Values of variables, where expressions of EPL name them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

NAME = "variable"
"""Where a value keeps the name by which it was asked for."""


def with_values(expression: exp.Expr, known: Mapping[str, exp.Expr]) -> exp.Expr:
    """The expression with the values of variables; `known` has them by their names in lower case.

    >>> print(with_values(exp.condition("v > Most"), {"most": exp.Literal.number(3)}).sql())
    v > 3
    """

    def value(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table or node.name.lower() not in known:
            return node
        found = known[node.name.lower()].copy()
        found.meta[NAME] = node.name
        return found

    return expression.transform(value) if known else expression


def named(column: exp.Expr) -> exp.Expr:
    """A column of a list under its variable's name, if it is one alone."""
    return exp.alias_(column, column.meta[NAME], quoted=True) if NAME in column.meta else column
