"""Names of the columns that a list of EPL gives none: the text of each, as it is written."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from sqlglot import exp

from bridge.frontends.cursor import Cursor, Region, word_of
from windows.aggregates import aggregate_named

_PATHS = (exp.Column, exp.Star, exp.Dot, exp.Bracket)
"""Attributes and their parts, whose names resolving gives."""


def named_as_written(cursor: Cursor, region: Region, columns: tuple[exp.Expr, ...]) -> tuple[exp.Expr, ...]:
    """The columns of a list, computed ones without a name under their text, aggregates in small letters.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> cursor = EplCursor("v, SUM(v)  + 1")
    >>> columns = (exp.column("v"), exp.maybe_parse("SUM(v) + 1"))
    >>> [column.sql() for column in named_as_written(cursor, Region(0, 8), columns)]
    ['v', 'SUM(v) + 1 AS "sum(v) + 1"']
    """
    regions = list(_listed(cursor, region))
    if len(regions) != len(columns):
        return columns
    return tuple(
        column if _has_name(column) else exp.alias_(column, _text(cursor, each), quoted=True)
        for column, each in zip(columns, regions, strict=True)
    )


def _has_name(column: exp.Expr) -> bool:
    """Whether resolving names it: an attribute alone, a part of one, or all columns."""
    is_qualified = isinstance(column, exp.Column) and bool(column.table) and not isinstance(column.this, exp.Star)
    return isinstance(column, (exp.Alias, *_PATHS)) and not is_qualified


def _listed(cursor: Cursor, region: Region) -> Iterator[Region]:
    """The regions between the commas of a list."""
    depth, start = 0, region.start
    for index in range(region.start, region.end):
        word = word_of(cursor.tokens[index])
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if depth == 0 and word == ",":
            yield Region(start, index)
            start = index + 1
    yield Region(start, region.end)


def _text(cursor: Cursor, region: Region) -> str:
    """The text of a column, each blank in it one space, names of aggregates in small letters."""
    start, end = cursor.span(region)
    text = cursor.text[start:end]
    for token, after in itertools.pairwise(cursor.tokens[region.start : region.end]):
        if word_of(after) == "(" and aggregate_named(word_of(token)) is not None:
            at = token.start - start
            text = text[:at] + token.text.lower() + text[at + len(token.text) :]
    return re.sub(r"\s+", " ", text)
