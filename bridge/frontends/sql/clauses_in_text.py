"""MATCH_RECOGNIZE clauses cut out of the text of a larger SELECT."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from bridge.errors import QueryError
from bridge.frontends.cursor import Cursor, word_of
from bridge.frontends.sql.match_recognize import match_recognize
from bridge.query.row_pattern import RowPattern

_BEFORE_TABLE = ("FROM", "JOIN", ",", "(", "LATERAL", "ON", "USING")


_STANDIN = "_cep_match_{}"


@dataclasses.dataclass(frozen=True)
class Part:
    """One clause of a text, the table before it, and the name that stands for both."""

    name: str
    table: str
    clause: RowPattern
    columns: Sequence[str] = ()
    """The column names that the table's correlation name gives it: `t AS v (a, b)`."""
    columns_at: int = 0
    """The offset of these names in the text."""


def parts(sql: str) -> tuple[str, list[Part]]:
    """The text with a name for each clause and the table before it, and what these stand for, in order.

    >>> text, (part,) = parts("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a PATTERN (X)) AS m")
    >>> " ".join(text.split()), part.table
    ('SELECT * FROM _cep_match_1 AS m', 't')
    >>> parts("SELECT * FROM t AS v (b, a) MATCH_RECOGNIZE (ORDER BY a PATTERN (X))")[1][0].columns
    ('b', 'a')
    """
    found: list[Part] = []
    text = sql
    while place := _next(text):
        try:
            text = _cut(text, place, found)
        except QueryError as error:
            raise QueryError(error.message, sql, error.position, error.words) from None
    return text, found


def _next(text: str) -> int:
    """Which token is the first MATCH_RECOGNIZE; 0 where there is none."""
    tokens = Cursor(text).tokens
    pairs = itertools.pairwise(tokens)
    return next((i for i, (t, after) in enumerate(pairs) if _is_clause(word_of(t), word_of(after))), 0)


def _is_clause(word: str, after: str) -> bool:
    return word == "MATCH_RECOGNIZE" and after == "("


def _cut(text: str, place: int, found: list[Part]) -> str:
    cursor = Cursor(text)
    cursor.at = place
    first, alias = _table_before(cursor, place)
    start = cursor.tokens[first].start
    table = cursor.bare[start : cursor.tokens[alias].start].rstrip()
    cursor.at = alias
    columns_at, columns = _column_list(cursor, place)
    cursor.at = place
    clause = match_recognize(cursor)
    end = cursor.tokens[cursor.at - 1].end + 1
    name = _STANDIN.format(len(found) + 1)
    found.append(Part(name, table, clause, columns, columns_at))
    blank = "".join("\n" if c == "\n" else " " for c in text[start + len(name) : end])
    return text[:start] + name + blank + text[end:]


def _table_before(cursor: Cursor, place: int) -> tuple[int, int]:
    """The tokens at which the table before a clause begins, and its alias or, without one, the clause."""
    if place == 0 or word_of(cursor.tokens[place - 1]) in _BEFORE_TABLE:
        cursor.fail("MATCH_RECOGNIZE stands after the table whose rows it matches: FROM trades MATCH_RECOGNIZE ( … )")
    first = _factor(cursor, place)
    if first > 0 and word_of(cursor.tokens[first - 1]) not in _BEFORE_TABLE:
        alias = first
        named_as = word_of(cursor.tokens[first - 1]) == "AS"
        return _factor(cursor, first - named_as), alias - named_as
    return first, place


def _column_list(cursor: Cursor, end: int) -> tuple[int, Sequence[str]]:
    """The column names of a correlation name, `AS v (a, b)`, up to the token `end`, and their offset."""
    cursor.take("AS")
    if cursor.at + 1 >= end:
        return 0, ()
    cursor.at += 1
    at = cursor.expect("(")
    names = [cursor.name("a column name")]
    while cursor.take(","):
        names.append(cursor.name("a column name"))
    cursor.expect(")")
    return at, tuple(names)


def _factor(cursor: Cursor, end: int) -> int:
    """Where the table that ends before a token begins: a name, a sub-query, a call, a stream with its WINDOW."""
    at = end - 1
    if word_of(cursor.tokens[at]) == ")":
        at = _opening(cursor, at)
        if at == 0 or word_of(cursor.tokens[at - 1]) in (*_BEFORE_TABLE, "AS"):
            return at
        at -= 1
        if word_of(cursor.tokens[at]) == "WINDOW" and at > 0:
            at -= 1
    while at > 1 and word_of(cursor.tokens[at - 1]) == ".":
        at -= 2
    return at


def _opening(cursor: Cursor, at: int) -> int:
    """The parenthesis that the one at a token closes."""
    depth, place = 1, at
    while depth and place:
        place -= 1
        depth += {")": 1, "(": -1}.get(word_of(cursor.tokens[place]), 0)
    if depth:
        cursor.fail("a parenthesis is closed that was not opened", cursor.tokens[at].start)
    return place
