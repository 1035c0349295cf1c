"""Expressions of a select list, rewritten before they become columns."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from bridge.frontends.sql.undecided import RowsInWindows


def standard(expression: exp.Expr) -> exp.Expr:
    """The aggregates FIRST_VALUE, LAST_VALUE and LISTAGG as the bridge knows them."""

    def renamed(node: exp.Expr) -> exp.Expr:
        match node:
            case exp.FirstValue():
                return exp.First(this=node.this.copy())
            case exp.LastValue():
                return exp.Last(this=node.this.copy())
            case exp.Anonymous(this=str(name)) if name.upper() == "LISTAGG" and node.expressions:
                value, *separator = (each.copy() for each in node.expressions)
                return exp.GroupConcat(this=value, separator=separator[0] if separator else exp.Literal.string(","))
        return node

    changed = expression.copy().transform(renamed)
    named = isinstance(expression, (exp.Alias, exp.Column)) or changed == expression
    return changed if named else exp.alias_(changed, expression.sql(), quoted=True)


def unaliased(key: exp.Expr, aliases: Mapping[str, exp.Expr], rows: RowsInWindows) -> exp.Expr:
    """A key or condition with the aliases of bounds replaced by the bounds."""

    def replaced(node: exp.Expr) -> exp.Expr:
        value = aliases.get(node.name.lower()) if isinstance(node, exp.Column) and not node.table else None
        return value.copy() if value is not None and rows.has_bound(value) else node

    return key.copy().transform(replaced)


def with_time_named(expression: exp.Expr, name: str) -> exp.Expr:
    """The expression with the column `name` in place of ts."""

    def renamed(node: exp.Expr) -> exp.Expr:
        return exp.column(name) if isinstance(node, exp.Column) and node.name.lower() == "ts" else node

    return expression.copy().transform(renamed)


def is_star(columns: tuple[exp.Expr, ...]) -> bool:
    return len(columns) == 1 and columns[0] == exp.Star()
