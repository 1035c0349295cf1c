"""Building blocks of SQL statements, as sqlglot trees: quoted names, numbers, comparisons, window functions."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from sqlglot import exp

from windows.extents import NEVER

BY_VALUE = "_by_"
"""Begins the names of the columns that order the rows of relations: by their values, as they have no time."""


def qualified(expression: exp.Expr, alias: str | None) -> exp.Expr:
    """The expression with its columns (in place) called `alias.column`."""
    if alias is not None:
        for node in expression.find_all(exp.Column):
            node.set("table", identifier(alias))
    return expression


def of(alias: str, name: str) -> exp.Column:
    """The column `alias.name`."""
    return exp.column(identifier(name), table=identifier(alias))


def named(value: exp.Expr, name: str) -> exp.Expr:
    """The value under this output name; a plain column of that name stays as it is."""
    if isinstance(value, exp.Column) and value.name == name:
        return value
    return exp.alias_(value, name, quoted=True)


def identifier(name: str) -> exp.Identifier:
    """A name as it is written: quoted, so that no letter of it is changed."""
    return exp.to_identifier(name, quoted=True)


def table(name: str) -> exp.Table:
    return exp.to_table(exp.Table(this=identifier(name)))


def derived(rows: exp.Query, alias: str) -> exp.Expr:
    """A query as a derived table, as this in FROM."""
    return exp.Subquery(this=rows).as_(alias, quoted=True)


def headed(name: str, columns: Iterable[str]) -> exp.TableAlias:
    """A name in WITH, with the names of its columns."""
    return exp.TableAlias(this=identifier(name), columns=[identifier(column) for column in columns])


def called(name: str, alias: str) -> exp.Expr:
    """A table by its name, as this in FROM."""
    return exp.alias_(table(name), alias, table=True, quoted=True)


def items(select: exp.Select) -> list[exp.Expr]:
    """The items of its FROM."""
    source = select.args.get("from_")
    return [source.this, *(join.this for join in select.args.get("joins") or [])] if source else []


def number(value: int) -> exp.Expr:
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def zero() -> exp.Expr:
    """0 as a BIGINT: tables take their columns' types from what fills them."""
    return exp.cast(number(0), "BIGINT")


def never() -> exp.Expr:
    """The time at which nothing expires, as a BIGINT likewise."""
    return exp.cast(number(NEVER), "BIGINT")


def before(pairs: list[tuple[exp.Expr, exp.Expr]]) -> exp.Expr:
    """Whether the left values stand before the right ones, compared one after the other."""
    (left, right), *rest = pairs
    less = exp.LT(this=left, expression=right)
    if not rest:
        return less
    return exp.or_(less, exp.and_(exp.EQ(this=left.copy(), expression=right.copy()), before(rest)))


def same(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Equal, NULL being equal to NULL, as in GROUP BY."""
    return exp.NullSafeEQ(this=whole(left), expression=whole(right))


def whole(value: exp.Expr) -> exp.Expr:
    """The value in parentheses, unless it holds together anyway; AND, OR and other operators are functions to sqlglot."""
    closed = (exp.Column, exp.Literal, exp.Paren)
    is_call = isinstance(value, exp.Func) and not isinstance(value, exp.Binary)
    return value if isinstance(value, closed) or is_call else exp.paren(value)


def numbered(partition: Iterable[exp.Expr], order: Iterable[exp.Expr]) -> exp.Expr:
    """`ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)`."""
    return over(exp.RowNumber(), partition, order)


def over(
    function: exp.Expr,
    partition: Iterable[exp.Expr],
    order: Iterable[exp.Expr],
    spec: exp.WindowSpec | None = None,
) -> exp.Window:
    """A window function call, with copies of what it is partitioned and ordered by."""
    keys = [expression.copy() for expression in partition]
    ordered = [ascending(expression) for expression in order]
    return exp.Window(
        this=function,
        partition_by=keys or None,
        order=exp.Order(expressions=ordered) if ordered else None,
        spec=spec,
    )


def so_far() -> exp.WindowSpec:
    """The frame of a row and all before it."""
    return exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")


SHIFT = 2 * 10**18
"""Added to a number before it is written as text, so that texts of one width compare as the numbers do."""


def as_text(values: Iterable[exp.Expr]) -> exp.Expr:
    """Whole numbers as one text that compares as they do, one after the other."""
    digits = [exp.cast(exp.paren(exp.Add(this=value, expression=number(SHIFT))), "VARCHAR") for value in values]
    return joined_text(digits)


def joined_text(parts: Iterable[exp.Expr]) -> exp.Expr:
    return functools.reduce(lambda left, right: exp.DPipe(this=left, expression=right, safe=True), parts)


def ascending(expression: exp.Expr) -> exp.Ordered:
    """An ORDER BY term. Only the values of relations can be NULL; databases differ in where they put it, so it is said."""
    by_value = any(found.name.startswith(BY_VALUE) for found in expression.find_all(exp.Column))
    return exp.Ordered(this=expression.copy(), nulls_first=True if by_value else None)


def floor(ts: exp.Expr, step: int) -> exp.Expr:
    """The greatest multiple of `step` not above ts, also below zero, where `%` has the sign of ts."""
    ts, modulus = whole(ts), number(step)
    rest = exp.Mod(this=ts, expression=modulus)
    positive = exp.Mod(this=exp.paren(exp.Add(this=exp.paren(rest), expression=modulus)), expression=modulus)
    return exp.paren(exp.Sub(this=ts.copy(), expression=exp.paren(positive)))


def with_columns(source: exp.Expr, **columns: exp.Expr) -> exp.Select:
    """All columns of a table or a statement, and more."""
    item = derived(source, "q") if isinstance(source, exp.Select) else source
    return exp.select("*", *(named(value, name) for name, value in columns.items())).from_(item)


def column(name: str) -> exp.Column:
    """A column by its exact name, quoted."""
    return exp.column(exp.to_identifier(name, quoted=True))


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """What is joined by AND.

    >>> from sqlglot import parse_one
    >>> [part.sql() for part in conjuncts(parse_one("a > 1 AND (b > 2 AND c > 3)"))]
    ['a > 1', 'b > 2', 'c > 3']
    """
    found, waiting = [], [condition]
    while waiting:
        part = waiting.pop().unnest()
        if isinstance(part, exp.And):
            waiting += [part.right, part.left]
        else:
            found.append(part)
    return found
