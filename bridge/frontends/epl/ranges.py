"""Ranges of EPL: `v in [1:3)`, `v not in (low:high]`, `v between 1 and 3`.

The ends may be in either order. If the value or an end is NULL, the test is false, also when it is negated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlglot import exp

from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.expressions import position_of

_MARK = "^"
"""The mark that replaces the colon of a range while sqlglot parses it; EPL's own use of it is refused."""


class RangeTest(NamedTuple):
    """Which ends belong to a range, and whether the test is `not in` or `not between`."""

    low: bool
    high: bool
    is_negated: bool


def marked_ranges(cursor: Cursor, region: Region, bare: str) -> tuple[str, list[RangeTest]]:
    """The text with `in [1:3)` written as a list of one value, with the same length; and the tests in order."""
    found: list[RangeTest] = []
    for index in range(region.start, region.end - 1):
        token = cursor.tokens[index]
        if word_of(token) == _MARK:
            cursor.fail("bitwise operators are not supported", token.start)
        is_negated = index > region.start and word_of(cursor.tokens[index - 1]) == "NOT"
        if word_of(token) == "BETWEEN":
            found.append(RangeTest(True, True, is_negated))
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
        found.append(RangeTest(word_of(opened) == "[", word_of(closed) == "]", is_negated))
    return bare, found


def _ends(cursor: Cursor, start: int, region: Region) -> tuple[int | None, int]:
    """The colon between a bracket and the closing one, and the closing one; they may be of different kinds."""
    depth, colon = 0, None
    for index in range(start, region.end):
        word = word_of(cursor.tokens[index])
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if depth == 1 and word == ":":
            colon = index
        if depth == 0:
            return colon, index
    return None, start


def with_ranges(cursor: Cursor, columns: Sequence[exp.Expr], ranges: list[RangeTest]) -> tuple[exp.Expr, ...]:
    """The expressions, with comparisons in place of ranges."""
    left = list(ranges)
    found: list[exp.Expr] = []
    for column in columns:
        holder = exp.Paren(this=column)
        tests = [(node, left.pop(0)) for node in _in_order(column) if left]
        for node, test in reversed(tests):  # inner ranges are copied as comparisons
            is_negated = test.is_negated and isinstance(node.parent, exp.Not)
            place = node.parent if is_negated and node.parent is not None else node
            place.replace(_compared(node, test._replace(is_negated=is_negated)))
        found.append(holder.this.pop())
    if left:
        cursor.fail("a range is written [low:high]", position_of(columns[0]) if columns else None)
    return tuple(found)


def _in_order(node: exp.Expr) -> Iterator[exp.In | exp.Between]:
    """The ranges of an expression, in the order of the text."""
    is_range = isinstance(node, exp.Between) or (
        isinstance(node, exp.In) and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.BitwiseXor)
    )
    parts = list(node.iter_expressions())
    for part in parts[:1]:
        yield from _in_order(part)
    if is_range and isinstance(node, (exp.In, exp.Between)):
        yield node
    for part in parts[1:]:
        yield from _in_order(part)


def _compared(node: exp.In | exp.Between, test: RangeTest) -> exp.Expr:
    if isinstance(node, exp.Between):
        ends = [node.args["low"], node.args["high"]]
    else:
        ends = [node.expressions[0].this, node.expressions[0].expression]
    value, low, high = (exp.paren(part) if isinstance(part, exp.Binary) else part for part in (node.this, *ends))
    is_ordered = _are_in_order(low, high)
    if is_ordered is False:
        low, high = high, low
    inside = _between(value, low, high, test)
    if is_ordered is None:
        inside = exp.paren(exp.or_(inside, _between(value, high, low, test)))
    if test.is_negated:
        inside = exp.Not(this=exp.paren(inside))
    parts = [value, low, high] if is_ordered is None else [value]
    there = [
        exp.Not(this=exp.Is(this=part.copy(), expression=exp.null()))
        for part in parts
        if not isinstance(part, exp.Literal)
    ]
    return exp.paren(exp.and_(*there, inside))


def _between(value: exp.Expr, low: exp.Expr, high: exp.Expr, test: RangeTest) -> exp.Expr:
    above = exp.GTE if test.low else exp.GT
    below = exp.LTE if test.high else exp.LT
    return exp.And(
        this=above(this=value.copy(), expression=low.copy()),
        expression=below(this=value.copy(), expression=high.copy()),
    )


def _are_in_order(low: exp.Expr, high: exp.Expr) -> bool | None:
    """Whether the first of two constants is not the greater; None for ends that databases may compare differently."""
    least, most = _number(low), _number(high)
    if least is not None and most is not None:
        return least <= most
    texts = [end.name for end in (low, high) if isinstance(end, exp.Literal) and end.is_string]
    return texts[0] <= texts[1] if len(texts) == 2 and all(re.fullmatch(r"[a-z0-9]+", text) for text in texts) else None


def _number(end: exp.Expr) -> float | None:
    sign, end = (-1, end.this) if isinstance(end, exp.Neg) else (1, end)
    return sign * float(end.name) if isinstance(end, exp.Literal) and not end.is_string else None
