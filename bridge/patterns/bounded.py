"""MATCH_RECOGNIZE in a larger SELECT: each clause, with the table before it, becomes a table of its answer.

The clauses are cut out of the text from left to right, so one inside another's input comes first; a name of the same length
stands in their place, and every offset stays what it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from bridge.errors import QueryError
from bridge.frontends.cursor import Cursor, word_of
from bridge.frontends.sql.match_recognize import match_recognize
from bridge.patterns.output import answer
from bridge.patterns.rows import Source
from bridge.patterns.why import Why
from bridge.query.expressions import syntax_error
from bridge.query.row_pattern import RowPattern
from windows.databases import Database
from windows.databases.lend import lent

_BEFORE_TABLE = ("FROM", "JOIN", ",", "(", "LATERAL", "ON", "USING")
_STANDIN = "_cep_match_{}"
_WHOLE = r"\s*SELECT\s+\*\s+FROM\s+{}(\s+AS)?(\s+(?!WHERE|LIMIT|ORDER|GROUP)\w+)?\s*;?\s*"


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


@dataclasses.dataclass(frozen=True)
class Input:
    """One clause with the SELECT it reads, in the database's words, and the columns of that."""

    part: Part
    source: Source
    fields: Sequence[str]

    @property
    def clause(self) -> RowPattern:
        return self.part.clause


@contextlib.contextmanager
def answered(sql: str, database: Database, rendered: Callable[[str], str]) -> Iterator[str | pa.Table]:
    """The text with a table of its answer for each clause; the tables are there as long as the context lasts.

    Where the text asks for one clause's answer and no more, it is that answer. `rendered` makes a SELECT what the
    database reads: it knows the bridge's own names.
    """

    def whole(given: Input) -> pa.Table:
        return answer(database, given.source, given.clause, given.fields)

    text, cut = parts(sql)
    if len(cut) == 1 and re.fullmatch(_WHOLE.format(cut[0].name), text, re.IGNORECASE) is not None:
        given = _input(sql, cut[0], _visible(text, cut[0], cut, database), database, rendered)
        with pointing(sql):
            table = whole(given)
        yield table
        return
    with inputs(sql, database, rendered, whole) as (text, _):
        yield text


@contextlib.contextmanager
def inputs(
    sql: str,
    database: Database,
    rendered: Callable[[str], str],
    table_of: Callable[[Input], pa.Table],
    first: int | None = None,
) -> Iterator[tuple[str, list[Input]]]:
    """The text with a name for each clause, under which the database finds `table_of` it, and the clauses' inputs.

    `first`: only of so many clauses.
    """
    text, cut = parts(sql)
    with contextlib.ExitStack() as stack:
        given: list[Input] = []
        for part in cut[:first]:
            given.append(_input(sql, part, _visible(text, part, cut, database), database, rendered))
            with pointing(sql):
                table = table_of(given[-1])
            stack.enter_context(lent(database, table, part.name))
        yield text, given


def why(
    sql: str,
    row: Mapping[str, Any],
    ts: Any,
    number: int | None,
    runs: int,
    database: Database,
    rendered: Callable[[str], str],
) -> Why:
    """What became of a row of one clause's input, the clauses counted from 1; those before it are answered for that."""
    from bridge.patterns.trace import why as told

    cut = parts(sql)[1]
    place = _chosen(sql, cut, number)

    def before(given: Input) -> pa.Table:
        if given.part.name == cut[place].name:
            return pa.table({"none": pa.nulls(0)})
        return answer(database, given.source, given.clause, given.fields)

    with inputs(sql, database, rendered, before, place + 1) as (_, found), pointing(sql):
        return told(database, found[-1], row, ts, runs)


def _chosen(sql: str, cut: list[Part], number: int | None) -> int:
    """Which clause is asked about, counted from 0."""
    if not cut:
        raise QueryError("why asks about the rows of a MATCH_RECOGNIZE, and there is none", sql)
    if number is None and len(cut) > 1:
        there = "; ".join(f"{place}: {' '.join(part.table.split())}" for place, part in enumerate(cut, 1))
        raise QueryError(f"there are {len(cut)} clauses: name one by its number, clause=1 ({there})", sql)
    if number is not None and not 1 <= number <= len(cut):
        raise QueryError(f"there is no clause {number}: they are counted from 1 to {len(cut)}", sql)
    return (number or 1) - 1


@contextlib.contextmanager
def pointing(sql: str) -> Iterator[None]:
    """Errors point into this text."""
    try:
        yield
    except QueryError as error:
        raise error.within(sql) from None


def _input(sql: str, part: Part, before: str, database: Database, rendered: Callable[[str], str]) -> Input:
    """One clause's input; `before` is the WITH that its table needs."""
    alias = " AS _cep_input" if part.table.startswith("(") else ""  # some databases want one of each sub-query
    select = f"{before}SELECT * FROM {part.table}{alias}"
    try:
        source = rendered(select)
        fields = database.columns_of(source)
    except QueryError as error:
        raise QueryError(error.message, sql, None, error.words) from None
    if part.columns:
        return Input(part, *_renamed(sql, part, source, fields, database))
    named = source == select and not before and "(" not in part.table
    return Input(part, Source(source, named and database.is_table(part.table)), fields)


def _renamed(
    sql: str, part: Part, source: str, fields: Sequence[str], database: Database
) -> tuple[Source, Sequence[str]]:
    """The input with the column names of its correlation name; columns beyond these keep their own.

    It is a common table expression because not every database renames columns in FROM.
    """
    if len(part.columns) > len(fields):
        there = f"{len(part.columns)} column names for {' '.join(part.table.split())}, which has {len(fields)}"
        raise QueryError(f"{there}: {', '.join(fields)}", sql, part.columns_at)
    names = [*part.columns, *fields[len(part.columns) :]]
    listed = ", ".join(map(database.quoted, names))
    return Source(f"WITH _cep_input ({listed}) AS ({source}) SELECT * FROM _cep_input", False), names


def _visible(text: str, part: Part, cut: list[Part], database: Database) -> str:
    """WITH and the common table expressions that a part's table may name."""
    tables = [found for found in _parsed(text, database).find_all(exp.Table) if found.name == part.name]
    inside = [outer for outer in cut if part.name in outer.table and outer is not part]
    found: list[exp.Expr] = []
    for outer in inside:
        shell = _parsed(f"SELECT * FROM {outer.table}", database)
        found = [*_ctes(next(t for t in shell.find_all(exp.Table) if t.name == part.name)), *found]
        return _with([*found], _visible(text, outer, cut, database), database)
    return _with(_ctes(tables[0]) if tables else [], "", database)


def _with(ctes: list[exp.Expr], before: str, database: Database) -> str:
    if not ctes:
        return before
    texts = ", ".join(cte.sql(database.dialect) for cte in ctes)
    return f"{before.rstrip()}, {texts} " if before else f"WITH {texts} "


def _parsed(text: str, database: Database) -> exp.Expr:
    try:
        return sqlglot.parse_one(text, dialect=database.dialect)
    except SqlglotError as error:
        raise syntax_error(error, text) from None


def _ctes(node: exp.Expr) -> list[exp.Expr]:
    """The common table expressions that a node sees, the outermost first."""
    found: list[exp.Expr] = []
    below: exp.Expr = node
    above = node.parent
    while above is not None:
        with_ = above.args.get("with_") or above.args.get("with")
        if with_ is not None and below is not with_:
            found = [*with_.expressions, *found]
        elif isinstance(above, exp.With):
            found = [*above.expressions[: above.expressions.index(below)], *found]
        below, above = above, above.parent
    return found
