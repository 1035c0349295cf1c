"""Names for columns without a name in an EPL list: the text of each as written."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterable, Iterator

from sqlglot import exp

from bridge.check.row_pattern import level_of_caller
from bridge.frontends.cursor import Cursor, Region, word_of
from windows.aggregates import aggregate_named
from windows.sql import identifier

_PATHS = (exp.Column, exp.Star, exp.Dot, exp.Bracket)
"""Attributes and their parts, which get their names when they are resolved."""


def named_as_written(cursor: Cursor, region: Region, columns: tuple[exp.Expr, ...]) -> tuple[exp.Expr, ...]:
    """The columns of a list; a computed column without a name gets its text as name, aggregates in lower case.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> cursor = EplCursor("v, SUM(v)  + 1")
    >>> columns = (exp.column("v"), exp.maybe_parse("SUM(v) + 1"))
    >>> [column.sql() for column in named_as_written(cursor, Region(0, 8), columns)]
    ['v', 'SUM(v) + 1 AS "sum(v) + 1"']
    """
    regions = list(_list_items(cursor, region))
    if len(regions) != len(columns):
        return columns
    named = [
        column if _has_name(column) else exp.alias_(column, _text(cursor, each), quoted=True)
        for column, each in zip(columns, regions, strict=True)
    ]
    aliases = [column for column in named if isinstance(column, exp.Alias)]
    for column, name in zip(aliases, numbered(column.alias for column in aliases), strict=True):
        if name != column.alias:
            column.set("alias", identifier(name))
    return tuple(named)


def numbered(names: Iterable[str]) -> Iterator[str]:
    """The names; a name that differs from an earlier one only in case gets a number, with a warning.

    >>> list(numbered(["a", "b", "a"]))
    ['a', 'b', 'a']
    """
    seen: dict[str, list[str]] = {}
    for name in names:
        alike = seen.setdefault(name.lower(), [])
        is_new = bool(alike) and name not in alike
        alike.append(name)
        if not is_new:
            yield name
            continue
        found = f"{name}_{len(alike)}"
        warnings.warn(
            f"the column {name!r} is called {found!r}: names that differ only in case, as {alike[0]!r} does, are one name in SQL",
            stacklevel=level_of_caller(),
        )
        yield found


def _has_name(column: exp.Expr) -> bool:
    """Whether resolving gives a column its name: it is an attribute, a part of one, or all columns."""
    is_qualified = isinstance(column, exp.Column) and bool(column.table) and not isinstance(column.this, exp.Star)
    return isinstance(column, (exp.Alias, *_PATHS)) and not is_qualified


def _list_items(cursor: Cursor, region: Region) -> Iterator[Region]:
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
    """The text of a column, with single spaces, and with names of aggregates in lower case."""
    start, end = cursor.span(region)
    text = cursor.text[start:end]
    for token, after in itertools.pairwise(cursor.tokens[region.start : region.end]):
        if word_of(after) == "(" and aggregate_named(word_of(token)) is not None:
            at = token.start - start
            text = text[:at] + token.text.lower() + text[at + len(token.text) :]
    return re.sub(r"\s+", " ", text)
