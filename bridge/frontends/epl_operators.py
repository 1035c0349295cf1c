"""Operators of EPL that SQL writes in other ways: ranges, `v in [1:3)`, and `regexp`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.scalars import position_of

_MARK = "^"
"""Stands for the colon of a range while sqlglot reads it: EPL's own use of it is refused."""


class Range(NamedTuple):
    """Which ends of a range are in it."""

    low: bool
    high: bool


def marked_ranges(cursor: Cursor, region: Region, bare: str) -> tuple[str, list[Range]]:
    """The text with `in [1:3)` written as a list of one value, in as many letters; and the ranges in their order."""
    found: list[Range] = []
    for index in range(region.start, region.end - 1):
        token = cursor.tokens[index]
        if word_of(token) == _MARK:
            cursor.fail("bitwise operators are not supported", token.start)
        if word_of(token) != "IN" or word_of(cursor.tokens[index + 1]) not in ("[", "("):
            continue
        colon, end = _ends(cursor, index + 1, region)
        if colon is None and word_of(cursor.tokens[index + 1]) == "[":
            cursor.fail("a range is written [low:high]", cursor.tokens[index + 1].start)
        if colon is None:
            continue
        opened, closed = cursor.tokens[index + 1], cursor.tokens[end]
        for place, letter in ((opened.start, "("), (cursor.tokens[colon].start, _MARK), (closed.start, ")")):
            bare = bare[:place] + letter + bare[place + 1 :]
        found.append(Range(word_of(opened) == "[", word_of(closed) == "]"))
    return bare, found


def _ends(cursor: Cursor, start: int, region: Region) -> tuple[int | None, int]:
    """The colon between a bracket and the one that closes it, and that one; they may be of two kinds."""
    depth, colon = 0, None
    for index in range(start, region.end):
        word = word_of(cursor.tokens[index])
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if depth == 1 and word == ":":
            colon = index
        if depth == 0:
            return colon, index
    return None, start


def with_ranges(cursor: Cursor, columns: Sequence[exp.Expr], ranges: list[Range]) -> tuple[exp.Expr, ...]:
    """The expressions with each marked list as two comparisons."""
    left = list(ranges)
    found: list[exp.Expr] = []
    for column in columns:
        holder = exp.Paren(this=column)
        for node in list(holder.find_all(exp.In, bfs=False)):
            if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.BitwiseXor):
                node.replace(_compared(node, left.pop(0)))
        found.append(holder.this.pop())
    if left:
        cursor.fail("a range is written [low:high]", position_of(columns[0]) if columns else None)
    return tuple(found)


def _compared(node: exp.In, ends: Range) -> exp.Expr:
    low, high = node.expressions[0].this, node.expressions[0].expression
    above = exp.GTE if ends.low else exp.GT
    below = exp.LTE if ends.high else exp.LT
    value = exp.paren(node.this.copy()) if isinstance(node.this, exp.Binary) else node.this.copy()
    both = exp.And(
        this=above(this=value, expression=low.copy()), expression=below(this=value.copy(), expression=high.copy())
    )
    return exp.Paren(this=both)


def whole_match(cursor: Cursor, node: exp.RegexpLike) -> exp.Expr:
    """`v regexp 'a+'`: the whole text matches, as in Java. Only what all databases mean alike may be asked."""
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        cursor.fail("regexp wants its pattern as a text", position_of(node))
    text = pattern.name
    if re.search(r"\(\?|\[\[|\[\^?\]|&&|--|[*+?}]\+|\n", text) or not text.isascii():
        cursor.fail(
            "this regular expression is not supported: databases agree on letters, classes, groups, | and quantifiers",
            position_of(node),
        )
    try:
        re.compile(text)
    except re.error as error:
        cursor.fail(f"this is no regular expression: {error}", position_of(node))
    return exp.RegexpLike(this=node.this.copy(), expression=exp.Literal.string(f"^({text})$"))
