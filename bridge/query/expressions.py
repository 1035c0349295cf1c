"""SQL expressions as sqlglot objects, built in Python or parsed from SQL text."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from bridge.errors import QueryError

Scalar = exp.Expr | str
"""A value or condition: a sqlglot expression or its text, in sqlglot's neutral SQL whatever the database."""


def col(name: str, of: str | None = None) -> exp.Column:
    """A column, by its exact name. `of` is the alias of an input of a Correlate.

    >>> print((col("a", of="left") - col("b")).sql())
    left.a - b
    """
    return exp.column(_identifier(name), table=None if of is None else _identifier(of))


def lit(value: object) -> exp.Expr:
    """A constant: a number, text, boolean, None, date or datetime.

    >>> print(col("name").eq(lit("O'Hara")))
    name = 'O''Hara'
    """
    return exp.convert(value)


def count(of: Scalar = "*", distinct: bool = False) -> exp.Expr:
    """`COUNT(*)`: the number of rows.

    For an expression, the number of its values that are not NULL, or of `distinct` ones.

    >>> count().sql(), count("a").sql(), count("a", distinct=True).sql()
    ('COUNT(*)', 'COUNT(a)', 'COUNT(DISTINCT a)')
    """
    return call("COUNT", "DISTINCT " + scalar(of).sql() if distinct else of)


def sum(of: Scalar) -> exp.Expr:
    """The sum of the values that are not NULL; NULL if there are none.

    >>> sum("a").sql()
    'SUM(a)'
    """
    return call("SUM", of)


def avg(of: Scalar) -> exp.Expr:
    """The arithmetic mean of the values that are not NULL, as DOUBLE; NULL if there are none.

    >>> avg("a").sql()
    'AVG(a)'
    """
    return call("AVG", of)


def min(of: Scalar) -> exp.Expr:
    """The smallest value; NULL if there is none.

    >>> min("a").sql()
    'MIN(a)'
    """
    return call("MIN", of)


def max(of: Scalar) -> exp.Expr:
    """The largest value; NULL if there is none.

    >>> max("a").sql()
    'MAX(a)'
    """
    return call("MAX", of)


def stddev(of: Scalar) -> exp.Expr:
    """The standard deviation of a sample (n − 1); NULL for fewer than two values.

    >>> stddev("a").sql()
    'STDDEV(a)'
    """
    return call("STDDEV", of)


def first(of: Scalar) -> exp.Expr:
    """The value of the window's oldest row, by (ts, seq). It may be NULL.

    >>> first("a").sql()
    'FIRST(a)'
    """
    return call("FIRST", of)


def last(of: Scalar) -> exp.Expr:
    """The value of the window's newest row, by (ts, seq). It may be NULL.

    >>> last("a").sql()
    'LAST(a)'
    """
    return call("LAST", of)


def call(function: str, *arguments: Scalar) -> exp.Expr:
    """A call of any function or aggregate of the database.

    Raises:
        QueryError: `function` is not a name, or an argument is not SQL.

    >>> call("ROUND", "price", "2").sql()
    'ROUND(price, 2)'
    """
    if not re.fullmatch(r"\w+", function):
        raise QueryError(f"{function!r} is not the name of a function: letters, digits and _ make one")
    texts = [a if isinstance(a, str) else a.sql() for a in arguments]
    return scalar(f"{function}({', '.join(texts)})")


def scalar(source: Scalar, dialect: str = "") -> exp.Expr:
    """The expression for an SQL text; an expression is returned unchanged.

    Query objects do not know their database, so their texts are parsed in sqlglot's neutral SQL.

    Args:
        dialect: sqlglot's name of the text's dialect; the bridge's SQL by default.

    Raises:
        QueryError: the text is not an SQL expression, or `source` is neither.

    >>> scalar("a + 1").sql()
    'a + 1'
    """
    if isinstance(source, exp.Expr):
        return source
    if not isinstance(source, str):
        raise QueryError(
            f"an expression is SQL text or an object made with col() and lit(), not {type(source).__name__}"
        )
    return parsed(source, dialect)


NOT_UNDERSTOOD = (SqlglotError, TypeError, ValueError, AttributeError, LookupError)
"""What sqlglot raises for a text that it cannot parse; the errors of Python come from an operator without its value."""


def parsed(text: str, dialect: str = "", original: str | None = None) -> exp.Expr:
    """sqlglot's tree of `text`. A syntax error is a QueryError that points into `original`, by default the text."""
    try:
        tree = sqlglot.parse_one(text, dialect=dialect)
    except NOT_UNDERSTOOD as error:
        raise syntax_error(error, original or text) from None
    except RecursionError:
        raise QueryError("the expression is nested too deeply", original or text) from None
    return tree


def scalars(sources: Scalar | Iterable[Scalar]) -> tuple[exp.Expr, ...]:
    """The expressions of one or several texts or expressions."""
    return tuple(map(scalar, [sources] if isinstance(sources, (str, exp.Expr)) else sources))


def projections(sources: Scalar | Iterable[Scalar] | Mapping[str, Scalar]) -> tuple[exp.Expr, ...]:
    """The columns of a SELECT list: expressions, aliased expressions, or a mapping of names to expressions."""
    if isinstance(sources, Mapping):
        return tuple(exp.alias_(scalar(value).copy(), name, quoted=True) for name, value in sources.items())
    listed = [sources] if isinstance(sources, (str, exp.Expr)) else sources
    columns = tuple(_projection(item) for item in listed)
    if not columns:
        raise QueryError("the list of columns is empty: at least one column is required")
    return columns


def in_order(term: exp.Expr | str) -> exp.Ordered:
    """A term of ORDER BY, from an expression or a text such as `"v DESC"`. NULL sorts as the least value."""
    if isinstance(term, str):
        term = cast("exp.Select", parsed(f"SELECT 1 ORDER BY {term}", original=term)).args["order"].expressions[0]
    if not isinstance(term, exp.Ordered):
        return exp.Ordered(this=term, desc=False)
    return exp.Ordered(this=term.this, desc=bool(term.args.get("desc")))


def _projection(source: Scalar) -> exp.Expr:
    if isinstance(source, exp.Expr):
        return source
    return cast("exp.Expr", cast("exp.Select", parsed("SELECT " + source, original=source)).expressions[0])


def _identifier(name: str) -> exp.Identifier:
    plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None
    return exp.to_identifier(name, quoted=not plain)


def syntax_error(error: Exception, text: str) -> QueryError:
    """An error of sqlglot, of the kinds in NOT_UNDERSTOOD, as a QueryError with its place in `text` if it has one."""
    if not isinstance(error, SqlglotError):
        return QueryError("syntax error: an operator or a function lacks a value", text)
    details: dict[str, Any] = (getattr(error, "errors", None) or [{}])[0]
    line, column = details.get("line"), details.get("col")
    if line is None or column is None:
        return QueryError(f"not understood: {str(error).splitlines()[0]}", text)
    starts = [0] + [match.end() for match in re.finditer("\n", text)]
    found = details.get("highlight") or ""
    position = builtins.max(0, starts[builtins.min(line, len(starts)) - 1] + column - len(found))
    reason = str(details.get("description", error)).rstrip(".")
    if reason.startswith(("Required keyword", "Required argument")):
        reason = f"something is missing after {found!r}"
    elif reason.startswith("Invalid expression"):
        reason = f"unexpected {found!r}"
    reason = re.sub(r" but got <Token.*", "", reason, flags=re.DOTALL)
    return QueryError(f"syntax error: {reason}", text, position)
