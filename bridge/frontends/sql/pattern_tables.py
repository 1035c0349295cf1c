"""MATCH_RECOGNIZE clauses of an on-demand SELECT: each is cut out of the text together with its input table."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from bridge.errors import QueryError
from bridge.frontends.cursor import Cursor, word_of
from bridge.frontends.dialect import with_places_as_written
from bridge.frontends.sql.match_recognize import match_recognize
from bridge.frontends.sql.pattern_subqueries import without_subqueries
from bridge.query.row_pattern import PatternTable

_BEFORE_TABLE = ("FROM", "JOIN", ",", "(", "LATERAL", "ON", "USING")
_STANDIN = "_cep_match_{}"


def pattern_tables(sql: str, dialect: str = "") -> tuple[str, list[PatternTable]]:
    """The text with a name in place of each input table and clause, and the tables of these names, in order.

    >>> text, (table,) = pattern_tables("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a PATTERN (X)) AS m")
    >>> " ".join(text.split()), table.input
    ('SELECT * FROM _cep_match_1 AS m', 't')
    >>> pattern_tables("SELECT * FROM t AS v (b, a) MATCH_RECOGNIZE (ORDER BY a PATTERN (X))")[1][0].columns
    ('b', 'a')
    """
    tables: list[PatternTable] = []
    text = sql
    while place := _next(text):
        try:
            text = _cut(text, place, tables, dialect)
        except QueryError as error:
            raise QueryError(error.message, sql, error.position, error.words) from None
    return text, tables


def _next(text: str) -> int:
    """The index of the first MATCH_RECOGNIZE token; 0 if there is none."""
    pairs = itertools.pairwise(Cursor(text).tokens)
    return next((i for i, pair in enumerate(pairs) if [*map(word_of, pair)] == ["MATCH_RECOGNIZE", "("]), 0)


def _cut(text: str, place: int, tables: list[PatternTable], dialect: str) -> str:
    text, subqueries = without_subqueries(text, place)
    cursor = Cursor(text)
    cursor.dialect = dialect
    first, alias = _table_before(cursor, place)
    start = cursor.tokens[first].start
    source = cursor.bare[start : cursor.tokens[alias].start].rstrip()
    cursor.at = alias
    columns_at, columns = _column_list(cursor, place)
    cursor.at = place
    clause = match_recognize(cursor)
    if dialect:
        for expression in (*clause.measures, *(condition for _, condition in clause.define)):
            with_places_as_written(expression, dialect)
    end = cursor.tokens[cursor.at - 1].end + 1
    name = _STANDIN.format(len(tables) + 1)
    tables.append(PatternTable(name, source, clause, columns, columns_at, subqueries))
    blank = "".join("\n" if c == "\n" else " " for c in text[start + len(name) : end])
    return text[:start] + name + blank + text[end:]


def _table_before(cursor: Cursor, place: int) -> tuple[int, int]:
    """The indexes of the first token of a clause's input table, and of its alias (without an alias, of the clause)."""
    if place == 0 or word_of(cursor.tokens[place - 1]) in _BEFORE_TABLE:
        cursor.fail("MATCH_RECOGNIZE stands after the table whose rows it matches: FROM trades MATCH_RECOGNIZE ( … )")
    first = _factor(cursor, place)
    if first > 0 and word_of(cursor.tokens[first - 1]) not in _BEFORE_TABLE:
        alias = first
        named_as = word_of(cursor.tokens[first - 1]) == "AS"
        return _factor(cursor, first - named_as), alias - named_as
    return first, place


def _column_list(cursor: Cursor, end: int) -> tuple[int, Sequence[str]]:
    """The column names of an alias, `AS v (a, b)`, up to the token `end`, and their offset."""
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
    """The index of the first token of the table before `end`: a name, a sub-query, a call, or a stream's window."""
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
    """The index of the parenthesis that the one at `at` closes."""
    depth, place = 1, at
    while depth and place:
        place -= 1
        depth += {")": 1, "(": -1}.get(word_of(cursor.tokens[place]), 0)
    if depth:
        cursor.fail("a parenthesis is closed that was not opened", cursor.tokens[at].start)
    return place
