"""Sub-queries in MEASURES and DEFINE of an on-demand MATCH_RECOGNIZE: their values do not depend on the rows that match.

While the clause is parsed, each is replaced by a call of the same length, so offsets do not change. Its value is
computed once, before the rows are matched, and then replaces the call.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from sqlglot import exp

from bridge.errors import QueryError
from bridge.frontends.cursor import Cursor, word_of
from bridge.query.row_pattern import RowPattern, Subquery

CALL = "_cep"
"""The function whose calls replace sub-queries; its argument is the number of the sub-query."""
_BEGINS = ("SELECT", "WITH", "VALUES")


def without_subqueries(text: str, place: int) -> tuple[str, dict[str, Subquery]]:
    """The text with a call for each sub-query in MEASURES and DEFINE of the clause at a token.

    And the sub-queries by number.

    >>> text, found = without_subqueries("t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x > (SELECT MAX(y) FROM u))", 1)
    >>> text, found["1"].text
    ('t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x > _cep(1)               )', 'SELECT MAX(y) FROM u')
    """
    found: dict[str, Subquery] = {}
    cursor = Cursor(text)
    if f"{CALL}(" in text:
        return text, found
    depth, clause, at = 0, "", place + 1
    while at < len(cursor.tokens):
        word = word_of(cursor.tokens[at])
        if depth == 1 and word in ("MEASURES", "DEFINE", "PATTERN", "SUBSET", "ONE", "ALL", "AFTER"):
            clause = word
        depth += (word == "(") - (word == ")")
        if depth == 0:
            break
        opens = word == "(" and word_of(cursor.tokens[min(at + 1, len(cursor.tokens) - 1)]) in _BEGINS
        if opens and clause in ("MEASURES", "DEFINE"):
            end = _closing(cursor, at)
            text = _replaced(text, cursor, at, end, found)
            at, depth = end, depth - 1
        at += 1
    return text, found


def _closing(cursor: Cursor, at: int) -> int:
    """The index of the parenthesis that closes the one at `at`, or the index of the last token."""
    depth, place = 0, at
    while place < len(cursor.tokens) - 1:
        word = word_of(cursor.tokens[place])
        depth += (word == "(") - (word == ")")
        if depth == 0:
            break
        place += 1
    return place


def _replaced(text: str, cursor: Cursor, opening: int, closing: int, found: dict[str, Subquery]) -> str:
    """The text with a call in place of one sub-query, which is added to `found`; IN keeps its parentheses."""
    before = word_of(cursor.tokens[opening - 1])
    word = before if before in ("IN", "EXISTS") else ""
    inside = cursor.tokens[opening].end + 1, cursor.tokens[closing].start
    first = cursor.tokens[opening - (word == "EXISTS")].start
    start, end = inside if word == "IN" else (first, cursor.tokens[closing].end + 1)
    number = str(len(found) + 1)
    found[number] = Subquery(cursor.bare[slice(*inside)].strip(), inside[0], word)
    call = f"{CALL}({number})"
    blank = "".join("\n" if c == "\n" else " " for c in text[start + len(call) : end])
    return text[:start] + call + blank + text[end:]


def with_values(clause: RowPattern, value_of: Callable[[exp.Expr], exp.Expr]) -> RowPattern:
    """A clause in which each call that replaces a sub-query, or the IN around it, is replaced by its `value_of`."""

    def changed(node: exp.Expr) -> exp.Expr:
        inner = node.expressions[0] if isinstance(node, exp.In) and len(node.expressions) == 1 else node
        return value_of(node) if number_of(inner) else node

    return dataclasses.replace(
        clause,
        define=tuple((symbol, condition.transform(changed)) for symbol, condition in clause.define),
        measures=tuple(cast("exp.Alias", measure.transform(changed)) for measure in clause.measures),
    )


def number_of(node: exp.Expr) -> str:
    """The number of the sub-query that a call replaces; "" for any other node."""
    is_call = isinstance(node, exp.Anonymous) and node.name.lower() == CALL and len(node.expressions) == 1
    return node.expressions[0].name if is_call else ""


def value(node: exp.Expr, subquery: Subquery, rows: Sequence[Sequence[Any]]) -> exp.Expr:
    """The replacement of a call, or of the IN around it, for the rows of its sub-query."""
    if subquery.word == "EXISTS":
        return exp.Boolean(this=bool(rows))
    if any(len(row) != 1 for row in rows):
        raise QueryError("a sub-query in an expression gives one column", None, subquery.at)
    values = [row[0] for row in rows]
    if isinstance(node, exp.In):
        if not values:
            return exp.Boolean(this=False)
        listed = [_literal(each, subquery) for each in dict.fromkeys(values)]
        return exp.In(this=node.this.copy(), expressions=listed)
    if len(values) > 1:
        raise QueryError(
            "a sub-query in an expression gives one row: add an aggregate or LIMIT 1, or write IN", None, subquery.at
        )
    return _literal(values[0] if values else None, subquery)


def _literal(value: Any, subquery: Subquery) -> exp.Expr:
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            number = exp.Literal.number(abs(value))
            return exp.Paren(this=exp.Neg(this=number)) if value < 0 else number
        case float() if math.isfinite(value):
            number = exp.Literal.number(f"{abs(value)!r}" if "e" in repr(value) else f"{abs(value)!r}e0")
            return exp.Paren(this=exp.Neg(this=number)) if value < 0 else number
        case str():
            return exp.Literal.string(value)
        case decimal.Decimal() if value.is_finite():
            digits = value.as_tuple()
            scale = max(0, -int(digits.exponent))
            kind = f"DECIMAL({max(len(digits.digits), scale + 1)}, {scale})"
            return exp.cast(exp.Literal.string(f"{value:f}"), kind)
        case datetime.datetime() if value.tzinfo is None:
            return exp.cast(exp.Literal.string(value.isoformat(" ")), "TIMESTAMP")
        case datetime.date() if not isinstance(value, datetime.datetime):
            return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
    raise QueryError(
        f"the value of a sub-query in an expression is a number, a text, a date or a timestamp, not {type(value).__name__}: "
        "CAST it, or join the sub-query with the input in FROM",
        None,
        subquery.at,
    )
