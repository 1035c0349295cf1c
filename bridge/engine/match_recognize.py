"""MATCH_RECOGNIZE in a larger SELECT: each clause, with the table before it, is replaced by a table of its answer.

The clauses are cut out of the text from left to right, so a clause in the input of another comes first. A name of the same
length replaces a clause, so offsets do not change.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from bridge.errors import QueryError
from bridge.frontends.sql.clauses_in_text import Part, parts
from bridge.patterns.explain import clause_explanation, pretty
from bridge.patterns.output import answer
from bridge.patterns.rows import Input, Source
from bridge.patterns.trace import why as why_of_row
from bridge.patterns.why import Why
from bridge.query.expressions import syntax_error
from windows.databases import Database

_WHOLE = r"\s*SELECT\s+\*\s+FROM\s+{}(\s+AS)?(\s+(?!WHERE|LIMIT|ORDER|GROUP)\w+)?\s*;?\s*"


@contextlib.contextmanager
def answered(sql: str, database: Database, rendered: Callable[[str], str]) -> Iterator[str | pa.Table]:
    """The text with a table of the answer in place of each clause; the tables exist within the context.

    Where the text is no more than one clause, it is the answer of that clause itself. `rendered` resolves the names of the
    bridge in a SELECT.
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
    """The text with a name in place of each clause, and the inputs of the clauses; the name is that of a `table_of` it.

    `first`: replace the first clauses only, as many as this says.
    """
    text, cut = parts(sql)
    with contextlib.ExitStack() as stack:
        given: list[Input] = []
        for part in cut[:first]:
            given.append(_input(sql, part, _visible(text, part, cut, database), database, rendered))
            with pointing(sql):
                table = table_of(given[-1])
            stack.enter_context(database.registered(table, part.name))
        yield text, given


def explained(sql: str, database: Database, rendered: Callable[[str], str]) -> str:
    """The explanation, in this database's SQL. Raises what the answer raises before it reads rows."""

    def empty(given: Input) -> pa.Table:
        none = Source(f"SELECT * FROM ({given.source.text}) AS e WHERE 1 = 0")
        found = answer(database, none, given.clause, given.fields)
        return found if found.num_columns else pa.table({"none": pa.nulls(0)})

    with inputs(sql, database, rendered, empty) as (whole, clauses):
        select = rendered(whole)
        database.columns_of(select)
        lines = [f"-- SELECT on demand, on {database.dialect}"]
        for number, given in enumerate(clauses, 1):
            with pointing(sql):
                lines += clause_explanation(number, given, database)
    stands = ", ".join(f"{given.part.name} is the answer of {number}" for number, given in enumerate(clauses, 1))
    return "\n".join([*lines, "", f"-- the answer; {stands}", pretty(select, database) + ";"])


def why(
    sql: str,
    row: Mapping[str, Any],
    ts: Any,
    number: int | None,
    runs: int,
    database: Database,
    rendered: Callable[[str], str],
) -> Why:
    """Why a row of one clause's input is in a match or in none; clauses are counted from 1, and those before it answered."""
    cut = parts(sql)[1]
    place = _place_of_clause(sql, cut, number)

    def before(given: Input) -> pa.Table:
        if given.part.name == cut[place].name:
            return pa.table({"none": pa.nulls(0)})
        return answer(database, given.source, given.clause, given.fields)

    with inputs(sql, database, rendered, before, place + 1) as (_, found), pointing(sql):
        return why_of_row(database, found[-1], row, ts, runs)


def _place_of_clause(sql: str, cut: list[Part], number: int | None) -> int:
    """The place of the clause meant, counted from 0."""
    if not cut:
        raise QueryError("why is about the rows of a MATCH_RECOGNIZE clause, and there is none", sql)
    if number is None and len(cut) > 1:
        there = "; ".join(f"{place}: {' '.join(part.table.split())}" for place, part in enumerate(cut, 1))
        raise QueryError(f"there are {len(cut)} clauses: name one by its number, clause=1 ({there})", sql)
    if number is not None and not 1 <= number <= len(cut):
        raise QueryError(f"there is no clause {number}: they are counted from 1 to {len(cut)}", sql)
    return (number or 1) - 1


@contextlib.contextmanager
def pointing(sql: str) -> Iterator[None]:
    """Lets errors point into this text."""
    try:
        yield
    except QueryError as error:
        raise error.within(sql) from None


def _input(sql: str, part: Part, before: str, database: Database, rendered: Callable[[str], str]) -> Input:
    """The input of one clause; `before` is the WITH that its table needs."""
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
