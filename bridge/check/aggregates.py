"""Aggregate functions in queries: those that only the database knows, those that it lacks, and arguments of some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from bridge.check.types import place
from bridge.errors import QueryError
from bridge.query.row_pattern import MOST_ROWS
from windows.aggregates import aggregate_named, aggregate_of, filtered, function_name, ignores_nulls

if TYPE_CHECKING:
    from windows.databases import Database


_INSTEAD: Mapping[type[exp.Expr], str] = {
    exp.FirstValue: "FIRST(v) gives the oldest value of the window",
    exp.LastValue: "LAST(v) gives the newest value of the window",
}
"""The replacements of functions, for messages."""


def is_own_aggregate(function: exp.Expr, database: Database) -> bool:
    """Whether a call of a function that sqlglot does not know is one of an aggregate."""
    if not isinstance(function, exp.Anonymous):
        return False
    return aggregate_named(function.name) is not None or database.is_aggregate(function.name)


def with_own_aggregates(expression: exp.Expr, database: Database) -> exp.Expr:
    """The expression, with every aggregate as a single call, including those that sqlglot does not know.

    A FILTER becomes a condition on the argument, and WITHIN GROUP (ORDER BY v) gives the call its first argument.
    """

    def marked(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Filter):
            return _filtered(with_own_aggregates(node.this, database), node.expression.this)
        if isinstance(node, exp.WithinGroup):
            return _ordered_set(node, database)
        if isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.AnyValue):
            return node.this.copy()  # it ignores NULLs
        if not is_own_aggregate(node, database):
            return node
        arguments = [with_own_aggregates(each, database) for each in node.expressions]
        return exp.AnonymousAggFunc(this=node.name, expressions=arguments)

    return expression.transform(marked)


def _filtered(call: exp.Expr, condition: exp.Expr) -> exp.Expr:
    if not ignores_nulls(call):
        name = function_name(call)
        raise QueryError(
            f"FILTER is not supported with {name}, which may count NULLs: put a query with the WHERE into FROM",
            position=place(call),
        )
    return filtered(call, condition)


def _ordered_set(node: exp.WithinGroup, database: Database) -> exp.Expr:
    """`percentile_cont(0.9) WITHIN GROUP (ORDER BY v)` as a call over `v` of the function that the database has."""
    call, (order, *others) = node.this, node.expression.expressions
    name = function_name(call)
    found = database.ordered_set_functions.get(name.lower())
    if found is None:
        message = f"{database.title} has no aggregate function {name} … WITHIN GROUP: use another function, or another database"
        raise QueryError(message, position=place(order))
    if others or order.args.get("desc"):
        message = f"{name} is of one value, in ascending order: {name}(…) WITHIN GROUP (ORDER BY v)"
        raise QueryError(message, position=place(order))
    arguments = call.expressions if isinstance(call, exp.Anonymous) else filter(None, call.args.values())
    return exp.AnonymousAggFunc(this=found, expressions=[order.this.copy(), *(each.copy() for each in arguments)])


def refuse_missing(expressions: Iterable[exp.Expr], database: Database) -> None:
    """Raises QueryError for an aggregate function that the database does not have, by the function's own name."""
    for call in (call for expression in expressions for call in expression.find_all(exp.AggFunc)):
        if isinstance(call, (exp.Max, exp.Min)) and call.expressions:
            name = function_name(call)
            other = "GREATEST" if name == "MAX" else "LEAST"
            raise QueryError(f"{name} is of one value: of several in a row, {other} is", position=place(call))
        order = call.find(exp.Order)
        if order is not None and not database.ordered_aggregates:
            message = (
                f"{database.title} has no ORDER BY in {function_name(call)}: leave it out, or use another database"
            )
            raise QueryError(message, position=place(order))
        known = aggregate_of(call)
        if (known is not None and known.is_universal) or database.has_aggregate(call):
            continue
        names = [call.name] if isinstance(call, exp.AnonymousAggFunc) else _names(call)
        raise QueryError(
            f"{database.title} has no aggregate function {names[0].upper()}: "
            + _INSTEAD.get(type(call), "use another function, or another database"),
            words=[name.lower() for name in names],
        )


_SET_FUNCTIONS = {exp.Explode: "unnest", exp.GenerateSeries: "generate_series"}
"""The names of the set-returning functions that sqlglot knows."""


def refuse_set_functions(expressions: Iterable[exp.Expr], database: Database) -> None:
    """Raises QueryError for a function that returns several rows for one, as a measure and a condition are one value."""
    for call in (node for each in expressions for node in each.find_all(exp.Anonymous, *_SET_FUNCTIONS)):
        named = (name for kind, name in _SET_FUNCTIONS.items() if isinstance(call, kind))
        name = next(named, call.name.lower())
        if name in database.set_functions:
            raise QueryError(
                f"{name.upper()} returns several rows, and this is one value: call it in a sub-query before the clause, "
                f"FROM (SELECT …, {name}(…) AS x FROM …)",
                position=place(call),
            )


def _names(call: exp.AggFunc) -> list[str]:
    """The names that a text may use for a function, the usual one first."""
    usual = call.sql("duckdb").partition("(")[0]
    return list(dict.fromkeys([usual, *type(call).sql_names()]))


def check_offsets(expression: exp.Expr) -> None:
    """Refuses NTH_VALUE, and an offset of FIRST or LAST that is not a constant: `LAST(v, 2)`."""
    for nth in expression.find_all(exp.NthValue):
        if nth.args.get("from_first") is not False:
            raise QueryError("NTH_VALUE is not supported: FIRST(v, 1) and LAST(v, 1) are", position=place(nth.this))
    for call in expression.find_all(exp.First, exp.Last):
        away = call.args.get("expression")
        if away is not None and not (isinstance(away, exp.Literal) and away.name.isdigit() and not away.is_string):
            message = f"{call.sql_name()} wants a whole number of rows: {call.sql_name()}({call.this.sql()}, 2)"
            raise QueryError(message, position=place(call.this))
        if away is not None and int(away.name) > MOST_ROWS:
            raise QueryError(f"the offset of {call.sql_name()} is at most {MOST_ROWS}", position=place(call.this))
