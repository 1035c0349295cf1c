"""The SQL of a ReadSQL or UpdateSQL: parsed in the store's dialect, checked, and joined with many values at once."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from bridge.check.types import UNKNOWN, type_of
from bridge.errors import QueryError, closest, nearest
from bridge.query.expressions import NOT_UNDERSTOOD, syntax_error
from windows.databases import Database
from windows.databases.base import PARAMETER
from windows.schema import TypeMismatch, canonical_type
from windows.sql import aliased, column, column_of, conjuncts, qualify_columns
from windows.values import Convert

_CHANGES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)
_NOT_ALONE = (
    "distinct", "group", "having", "limit", "offset", "order", "windows", "qualify", "with_", "sample", "locks", "fetch",
)  # fmt: skip
"""Clauses that refer to the rows of one set of values; statements with them are run for each set."""


@dataclasses.dataclass(frozen=True)
class Sql:
    """A statement of the user's: its tree, in which columns `PARAMETER…` replace `?`, and their number."""

    tree: exp.Expr
    count: int

    @property
    def tables(self) -> list[exp.Table]:
        """The tables that the statement names."""
        return list(self.tree.find_all(exp.Table))


def read(text: str, database: Database, position: int | None = None) -> Sql:
    """A SELECT; QueryError for anything else."""
    sql = _parsed(text, database, position)
    changes = sql.tree.find(*_CHANGES) or any(select.args.get("into") for select in sql.tree.find_all(exp.Select))
    if not isinstance(sql.tree, exp.Query) or changes:
        raise QueryError(f"ReadSQL runs a SELECT, not {_first_words(text)}", position=position)
    return sql


def update(text: str, database: Database, position: int | None = None) -> Sql:
    """An INSERT, UPDATE or DELETE; QueryError for anything else."""
    sql = _parsed(text, database, position)
    if not isinstance(sql.tree, _CHANGES):
        raise QueryError(f"UpdateSQL runs an INSERT, UPDATE or DELETE, not {_first_words(text)}", position=position)
    if isinstance(sql.tree, exp.Delete) and not sql.tree.this:
        raise QueryError(f"FROM is missing: DELETE FROM table WHERE …, not {_first_words(text)}", position=position)
    if sql.tree.args.get("returning"):
        raise QueryError("RETURNING is not supported: UpdateSQL gives the number of rows it changed", position=position)
    return sql


def without_values(sql: Sql) -> exp.Expr:
    """The statement with NULL for each `?`, for the database to prepare."""

    def value(node: exp.Expr) -> exp.Expr:
        return exp.null() if isinstance(node, exp.Column) and node.name.startswith(PARAMETER) else node

    return sql.tree.transform(value)


def check_parameters(sql: Sql, given: int, position: int | None) -> None:
    """Raises QueryError unless there are as many values as `?`."""
    if sql.count != given:
        raise QueryError(f"the SQL has {sql.count} parameters (?), {given} are given", position=position)


def updated_table(sql: Sql) -> str:
    """The table, by its last name in lower case, that an update changes."""
    target = sql.tree.find(exp.Table) if sql.tree.this is None else sql.tree.this.find(exp.Table)
    return target.name.lower() if target is not None else ""


def _first_words(text: str) -> str:
    return " ".join(text.split()[:3]) + (" …" if len(text.split()) > 3 else "")


def _parsed(text: str, database: Database, position: int | None) -> Sql:
    """The tree of one statement. Each `?` is replaced before parsing, so their order is that of the text."""
    try:
        tokens = sqlglot.tokenize(text, dialect=database.dialect)
        places = [token.start for token in tokens if token.token_type == TokenType.PLACEHOLDER and token.text == "?"]
        for number, place in reversed(list(enumerate(places))):
            text = f"{text[:place]}{PARAMETER}{number}{text[place + 1 :]}"
        trees = [tree for tree in sqlglot.parse(text, dialect=database.dialect) if tree is not None]
    except NOT_UNDERSTOOD as error:
        reason = syntax_error(error, text).message
        raise QueryError(f"the SQL is not understood: {reason}", position=position) from None
    if len(trees) != 1:
        raise QueryError("one SQL statement is expected", position=position)
    if trees[0].find(exp.Placeholder, exp.Parameter):
        raise QueryError("a parameter of the SQL is written ?", position=position)
    if isinstance(trees[0], exp.Command):
        raise QueryError(f"the SQL is not understood: {_first_words(text)}", position=position)
    return Sql(trees[0], len(places))


# Columns --------------------------------------------------------------------------------------------------------------


def columns(
    sql: Sql, declared: Sequence[tuple[str, str | None]], database: Database, position: int | None
) -> tuple[tuple[str, str], ...]:
    """The requested columns of a SELECT with their types: the declared ones, or all."""
    known = _columns_of(sql, database, position)
    wanted = declared or [(name, None) for name in known]
    found = []
    for name, kind in wanted:
        column = next((other for other in known if other == name), None)
        column = column or next((other for other in known if other.lower() == name.lower()), None)
        if column is None:
            raise QueryError(f"the SQL gives no column {name!r}{nearest(name, list(known))}", words=[name])
        typed = _type(kind) or known[column]
        if typed == UNKNOWN:
            hint = closest(name, _column_names(sql, database))
            raise QueryError(
                f"the type of {name!r} is not known{hint} Write it after the name: {name} VARCHAR"
                if hint
                else f"the type of {name!r} is not known: write it after the name, {name} VARCHAR",
                position=position,
            )
        found.append((column, typed))
    return tuple(found)


def _column_names(sql: Sql, database: Database) -> list[str]:
    """The columns of the tables in FROM."""
    tables = StatementTables.of(sql.tree, database).columns if isinstance(sql.tree, exp.Select) else {}
    return [name for known in tables.values() for name in known]


def places(sql: Sql, requested: Sequence[str], database: Database) -> list[int]:
    """The places of these columns in the rows of a SELECT."""
    names = list(_columns_of(sql, database, None))
    return [names.index(name) for name in requested]


def _type(kind: str | None) -> str | None:
    try:
        return None if kind is None else canonical_type(kind)
    except TypeMismatch as error:
        raise QueryError(str(error)) from None


def _columns_of(sql: Sql, database: Database, position: int | None) -> dict[str, str]:
    """All columns of a SELECT, with their types if known."""
    if not isinstance(sql.tree, exp.Select):
        return dict.fromkeys(sql.tree.named_selects, UNKNOWN)  # type: ignore[attr-defined]
    scope = StatementTables.of(sql.tree, database)
    given: dict[str, str] = {}
    for item in sql.tree.expressions:
        if item.is_star:
            found = scope.every(item.table if isinstance(item, exp.Column) else "")
        else:
            found = {item.alias_or_name: type_of(item, scope.type_of)}
        for name, kind in found.items():
            if not name:
                raise QueryError(f"a column of the SQL has no name: {item.sql()} AS …", position=position)
            if name.lower() in map(str.lower, given):
                raise QueryError(f"two columns of the SQL are called {name!r}: rename one with AS", position=position)
            given[name] = kind
    return given


@dataclasses.dataclass(frozen=True)
class StatementTables:
    """The tables in FROM by alias, with the name, the type and the reading expression of each column."""

    columns: Mapping[str, Mapping[str, tuple[str, exp.Expr]]]

    @classmethod
    def of(cls, select: exp.Select, database: Database) -> StatementTables:
        from windows.sql import from_items

        found: dict[str, dict[str, tuple[str, exp.Expr]]] = {}
        for item in from_items(select):
            if isinstance(item, exp.Table):
                name = ".".join(part.name for part in item.parts)
                schema = database.relation(name) or database.relation(name.lower()) or ()
                reads = database.relation_columns(name, [a.name for a in schema])
                found[item.alias_or_name] = {a.name: (a.type, reads[a.name]) for a in schema}
        return cls(found)

    def find(self, column: exp.Column) -> tuple[str, str] | None:
        """The alias and the exact name of a column; None if it does not belong to these tables."""
        hits = [
            (alias, name)
            for alias, known in self.columns.items()
            if not column.table or column.table.lower() == alias.lower()
            for name in known
            if name.lower() == column.name.lower()
        ]
        return hits[0] if len(hits) == 1 else None

    def type_of(self, column: exp.Column) -> str:
        found = self.find(column)
        return self.columns[found[0]][found[1]][0] if found else UNKNOWN

    def value(self, column: exp.Column) -> exp.Expr | None:
        """The expression with which a statement of the bridge reads a column."""
        found = self.find(column)
        return qualify_columns(self.columns[found[0]][found[1]][1].copy(), found[0]) if found else None

    def every(self, alias: str) -> dict[str, str]:
        """The columns that a star stands for, with their types."""
        return {
            name: kind
            for own, known in self.columns.items()
            if not alias or alias.lower() == own.lower()
            for name, (kind, _) in known.items()
        }


def returns_one_row(sql: Sql, database: Database) -> bool:
    """Whether a SELECT gives at most one row per set of values: these are all columns of a unique key of its table."""
    tree = sql.tree
    if not isinstance(tree, exp.Select) or tree.args.get("joins") or not isinstance(tree.args["from_"].this, exp.Table):
        return False
    where, scope = tree.args.get("where"), StatementTables.of(tree, database)
    conditions = conjuncts(where.this) if where else []
    sought = {name.lower() for condition in conditions for name in _equal(condition, scope)}
    name = ".".join(part.name for part in tree.args["from_"].this.parts)
    return any(key <= sought for key in database.unique_keys(name))


def _equal(condition: exp.Expr, scope: StatementTables) -> list[str]:
    """The column that a condition equates with a value, if any."""
    if not isinstance(condition, exp.EQ):
        return []
    sides = [condition.this, condition.expression]
    for one, other in (sides, sides[::-1]):
        if isinstance(one, exp.Column) and isinstance(other, exp.Column) and other.name.startswith(PARAMETER):
            found = scope.find(one)
            return [found[1]] if found else []
    return []


# Many values at once --------------------------------------------------------------------------------------------------


def joins(sql: Sql, left: bool) -> bool:
    """Whether a SELECT may be joined with a table of values: then its result for many sets is that for each of them."""
    tree = sql.tree
    if not isinstance(tree, exp.Select) or any(tree.args.get(clause) for clause in _NOT_ALONE):
        return False
    inner = [node for node in tree.find_all(exp.Query) if node is not tree]
    if inner or tree.find(exp.AggFunc, exp.Window) or not tree.args.get("from_"):
        return False
    others = tree.args.get("joins") or []
    if any(join.side or join.method or join.args.get("using") for join in others):
        return False
    return not (left and others)


def joined(
    sql: Sql, requested: Sequence[str], values: exp.Expr, alias: str, database: Database, left: bool
) -> exp.Select:
    """The SELECT joined with an item of FROM, `alias`, that has the values as columns `PARAMETER…`.

    Its columns are the `requested` ones, by name; the caller adds the columns of the item.
    """
    tree = sql.tree.copy()
    assert isinstance(tree, exp.Select)
    scope = StatementTables.of(tree, database)

    def read_(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        if node.name.startswith(PARAMETER):
            return column_of(alias, node.name)
        return scope.value(node) or node

    tree = normalize_identifiers(_expanded(tree, scope), dialect=database.dialect)
    names = [item.alias_or_name.lower() for item in tree.expressions]
    tree = tree.transform(read_)
    where = tree.args.get("where")
    given = dict(zip(names, tree.expressions, strict=True))
    select = exp.select().from_(values)
    first = tree.args["from_"].this
    if left:
        condition = where.this if where is not None else exp.true()
        select = select.join(first, on=condition, join_type="left")
    else:
        select = select.join(first, join_type="cross")
        for join in tree.args.get("joins") or []:
            select.append("joins", join.copy())
        select = select.where(where.this) if where is not None else select
    chosen = [given[name.lower()] for name in requested]
    values_ = (item.this if isinstance(item, exp.Alias) else item for item in chosen)
    return select.select(*(aliased(value, name) for value, name in zip(values_, requested, strict=True)))


def _expanded(tree: exp.Select, scope: StatementTables) -> exp.Select:
    """The SELECT with its stars written out as columns."""
    listed: list[exp.Expr] = []
    for item in tree.expressions:
        if item.is_star:
            alias = item.table if isinstance(item, exp.Column) else ""
            listed += [column(name) for name in scope.every(alias)]
        else:
            listed.append(item)
    tree.set("expressions", listed)
    return tree


# Values between one database and another, and as JSON in between


_KINDS: dict[str, tuple[type, Convert, Convert]] = {
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "timestamp": (datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "float": (float, repr, float),
}


def dumped(values: Sequence[Any]) -> str:
    """Values as JSON, from which `loaded` restores the same values.

    >>> loaded(dumped([1, None, "x", 0.1, decimal.Decimal("1.20")]))
    [1, None, 'x', 0.1, Decimal('1.20')]
    """
    return json.dumps([_encoded(value) for value in values], ensure_ascii=False)


def loaded(text: str) -> list[Any]:
    """The values in a JSON text made by `dumped`."""
    return [_value(value) for value in json.loads(text)]


def _encoded(value: Any) -> Any:
    for kind, (known, write, _) in _KINDS.items():
        if isinstance(value, known):
            return {kind: write(value)}
    return value


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    return _KINDS[kind][2](text)
