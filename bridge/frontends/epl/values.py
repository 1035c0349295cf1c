"""Values of variables, in expressions of EPL that name them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from bridge.query.epl_state import CURRENT, Variable

NAME = "variable"
"""The key in `meta` for the name by which an expression reads a value."""


def with_values(expression: exp.Expr, known: Mapping[str, Variable], read: set[str]) -> exp.Expr:
    """The expression with the values of variables. `known`: the variables, by name in lower case.

    The value of a variable that events set is a column. Other values become part of the expression, and their names are
    added to `read`.

    >>> most = Variable("Most", "INTEGER", exp.Literal.number(3))
    >>> print(with_values(exp.condition("v > most"), {"most": most}, set()).sql())
    v > 3
    """

    def value(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table or node.name.lower() not in known:
            return node
        variable = known[node.name.lower()]
        found = variable.column if variable.is_set else variable.value.copy()
        if not variable.is_set:
            read.add(node.name.lower())
        else:
            found.this.meta.update(node.this.meta)
        found.meta[NAME] = node.name
        return found

    return expression.transform(value) if known else expression


def named_by_variable(column: exp.Expr) -> exp.Expr:
    """A column of a list with the name of its variable, if it is one alone; with a changing variable, its text."""
    if column.meta_get(NAME) is not None:
        return exp.alias_(column, column.meta[NAME], quoted=True)
    if isinstance(column, exp.Alias) or not any(part.name.startswith(CURRENT) for part in column.find_all(exp.Column)):
        return column
    return exp.alias_(column, column.transform(_written).sql(), quoted=True)


def _written(node: exp.Expr) -> exp.Expr:
    return exp.column(node.meta[NAME]) if isinstance(node, exp.Column) and node.meta_get(NAME) is not None else node
