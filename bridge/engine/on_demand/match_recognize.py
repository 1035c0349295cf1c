"""MATCH_RECOGNIZE in a larger SELECT: each clause, with the table before it, is replaced by a table of its output.

The clauses are cut out of the text from left to right, so a clause in the input of another comes first. Each is
replaced by a name of the same length, so offsets do not change.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from bridge.errors import QueryError
from bridge.frontends.sql.pattern_subqueries import number_of, value, with_values
from bridge.frontends.sql.pattern_tables import pattern_tables
from bridge.patterns.explain import clause_explanation, pretty
from bridge.patterns.output import NO_COLUMN, evaluate_clause
from bridge.patterns.rows import Input, Source
from bridge.patterns.trace import why as why_of_row
from bridge.patterns.why import Why
from bridge.query.expressions import NOT_UNDERSTOOD, syntax_error
from bridge.query.row_pattern import PatternTable
from windows.databases import Database, Refused
from windows.sql import unused

_WHOLE = r"\s*SELECT\s+\*\s+FROM\s+{}(\s+AS)?(\s+(?!WHERE|LIMIT|ORDER|GROUP)\w+)?\s*;?\s*"


@contextlib.contextmanager
def answered(sql: str, database: Database, rendered: Callable[[str], str]) -> Iterator[str | pa.Table]:
    """The text with a table of the output in place of each clause; the tables exist within the context.

    If the text is a single clause, its output is given instead. `rendered` resolves the names of the bridge in a
    SELECT.
    """

    def whole(given: Input) -> pa.Table:
        return evaluate_clause(database, given.source, given.clause, given.fields)

    text, tables = pattern_tables(sql, database.dialect)
    if len(tables) == 1 and re.fullmatch(_WHOLE.format(tables[0].name), text, re.IGNORECASE) is not None:
        given = _input(sql, tables[0], _visible(text, tables[0], tables, database), database, rendered)
        with pointing(sql):
            table = whole(given)
        yield table.drop_columns([NO_COLUMN]) if NO_COLUMN in table.column_names else table
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
    """The text with a name in place of each clause, and the inputs of the clauses. `table_of` gives a name's table.

    `first`: the number of clauses to replace; None: all.
    """
    text, tables = pattern_tables(sql, database.dialect)
    with contextlib.ExitStack() as stack:
        given: list[Input] = []
        for table in tables[:first]:
            given.append(_input(sql, table, _visible(text, table, tables, database), database, rendered))
            with pointing(sql):
                answers = table_of(given[-1])
            stack.enter_context(database.registered(_with_own_names(answers), table.name))
        yield text, given


def _with_own_names(output: pa.Table) -> pa.Table:
    """The output with unique column names. The first of equal names stays: a measure, not the column it hides."""
    names: list[str] = []
    for name in output.column_names:
        seen = name.lower() in {other.lower() for other in names}
        names.append(unused(name, [*names, *output.column_names]) if seen else name)
    return output.rename_columns(names)


def explained(sql: str, database: Database, rendered: Callable[[str], str]) -> str:
    """The explanation, in this database's SQL. Raises the errors that the query raises before it reads rows."""

    def empty(given: Input) -> pa.Table:
        none = Source(f"SELECT * FROM ({given.source.text}) AS e WHERE 1 = 0")
        found = evaluate_clause(database, none, given.clause, given.fields)
        return found if found.num_columns else pa.table({"none": pa.nulls(0)})

    with inputs(sql, database, rendered, empty) as (whole, clauses):
        select = rendered(whole)
        database.columns_of(select)
        lines = [f"-- SELECT on demand, on {database.dialect}"]
        for number, given in enumerate(clauses, 1):
            with pointing(sql):
                lines += clause_explanation(number, given, database)
    stands = ", ".join(f"{given.table.name} is the answer of {number}" for number, given in enumerate(clauses, 1))
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
    """Why a row of a clause's input is in a match or in none. Clauses count from 1; those before this one are run."""
    tables = pattern_tables(sql, database.dialect)[1]
    place = _place_of_clause(sql, tables, number)

    def before(given: Input) -> pa.Table:
        if given.table.name == tables[place].name:
            return pa.table({"none": pa.nulls(0)})
        return evaluate_clause(database, given.source, given.clause, given.fields)

    with inputs(sql, database, rendered, before, place + 1) as (_, found), pointing(sql):
        return why_of_row(database, found[-1], row, ts, runs)


def _place_of_clause(sql: str, tables: list[PatternTable], number: int | None) -> int:
    """The place of the requested clause, counted from 0."""
    if not tables:
        raise QueryError("why is about the rows of a MATCH_RECOGNIZE clause, and there is none", sql)
    if number is None and len(tables) > 1:
        there = "; ".join(f"{place}: {' '.join(table.input.split())}" for place, table in enumerate(tables, 1))
        raise QueryError(f"there are {len(tables)} clauses: name one by its number, clause=1 ({there})", sql)
    if number is not None and not 1 <= number <= len(tables):
        raise QueryError(f"there is no clause {number}: they are counted from 1 to {len(tables)}", sql)
    return (number or 1) - 1


@contextlib.contextmanager
def pointing(sql: str) -> Iterator[None]:
    """Lets errors point into this text."""
    try:
        yield
    except QueryError as error:
        raise error.within(sql) from None


def _input(sql: str, table: PatternTable, before: str, database: Database, rendered: Callable[[str], str]) -> Input:
    """The input of one clause; `before` is the WITH clause that its table needs."""
    if table.subqueries:
        table = _with_values(sql, table, before, database, rendered)
    alias = " AS _cep_input" if table.input.startswith("(") else ""  # some databases require an alias
    select = f"{before}SELECT * FROM {table.input}{alias}"
    try:
        source = rendered(select)
        fields = database.columns_of(source)
    except QueryError as error:
        raise QueryError(error.message, sql, None, error.words) from None
    if table.columns:
        return Input(table, *_renamed(sql, table, source, fields, database))
    named = source == select and not before and "(" not in table.input
    return Input(table, Source(source, named and database.is_table(table.input)), fields)


def _with_values(
    sql: str, table: PatternTable, before: str, database: Database, rendered: Callable[[str], str]
) -> PatternTable:
    """A clause in which sub-queries are replaced by their values."""
    rows: dict[str, list[Any]] = {}
    for number, (text, at, _) in table.subqueries.items():
        if "match_recognize" in text.lower():
            raise QueryError("a sub-query in MEASURES or DEFINE has no MATCH_RECOGNIZE: write it in FROM", sql, at)
        try:
            rows[number] = database.fetch(rendered(before + text))
        except QueryError as error:
            raise QueryError(error.message, sql, at, error.words) from None
        except Refused as error:
            rule = "a sub-query in MEASURES or DEFINE is computed once, without the rows of a match"
            raise QueryError(f"{error.reason.splitlines()[0]}; {rule}", sql, at) from None

    def value_of(node: exp.Expr) -> exp.Expr:
        number = number_of(node.expressions[0] if isinstance(node, exp.In) else node)
        return value(node, table.subqueries[number], rows[number])

    with pointing(sql):
        return dataclasses.replace(table, clause=with_values(table.clause, value_of))


def _renamed(
    sql: str, table: PatternTable, source: str, fields: Sequence[str], database: Database
) -> tuple[Source, Sequence[str]]:
    """The input with the columns renamed as its alias says; further columns keep their names.

    It is a common table expression because not every database renames columns in FROM.
    """
    if len(table.columns) > len(fields):
        there = f"{len(table.columns)} column names for {' '.join(table.input.split())}, which has {len(fields)}"
        raise QueryError(f"{there}: {', '.join(fields)}", sql, table.columns_at)
    names = [*table.columns, *fields[len(table.columns) :]]
    listed = ", ".join(map(database.quoted, names))
    return Source(f"WITH _cep_input ({listed}) AS ({source}) SELECT * FROM _cep_input", False), names


def _visible(text: str, table: PatternTable, tables: list[PatternTable], database: Database) -> str:
    """WITH and the common table expressions that a clause's input may name."""
    uses = [use for use in _parsed(text, database).find_all(exp.Table) if use.name == table.name]
    inside = [outer for outer in tables if table.name in outer.input and outer is not table]
    found: list[exp.Expr] = []
    for outer in inside:
        shell = _parsed(f"SELECT * FROM {outer.input}", database)
        use = next((each for each in shell.find_all(exp.Table) if each.name == table.name), None)
        if use is None:
            raise QueryError("MATCH_RECOGNIZE stands after the table whose rows it matches, in FROM")
        found = [*_ctes(use), *found]
        return _with([*found], _visible(text, outer, tables, database), database)
    return _with(_ctes(uses[0]) if uses else [], "", database)


def _with(ctes: list[exp.Expr], before: str, database: Database) -> str:
    if not ctes:
        return before
    texts = ", ".join(cte.sql(database.dialect) for cte in ctes)
    recursive = any(isinstance(cte.parent, exp.With) and cte.parent.args.get("recursive") for cte in ctes)
    if recursive:
        before = re.sub("^WITH (?!RECURSIVE )", "WITH RECURSIVE ", before)
    return f"{before.rstrip()}, {texts} " if before else f"WITH {'RECURSIVE ' * recursive}{texts} "


def _parsed(text: str, database: Database) -> exp.Expr:
    try:
        return sqlglot.parse_one(text, dialect=database.dialect)
    except NOT_UNDERSTOOD as error:
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
