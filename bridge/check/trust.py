"""Checks untrusted queries: they may use pure functions over streams, queries, and listed tables.

The parsed tree is checked, never the text, and the SQL that runs is rendered from this tree. Everything that is not
listed is refused: functions, kinds of nodes, types, tables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from sqlglot import exp

from bridge.check.allowed_syntax import BARE_NAMES, GROWING_NODES, NODES, ROWS, SYNTAX
from bridge.errors import QueryError, source_words
from bridge.query.epl_state import Change, ChangedWindow, ChangeTable, SetVariables
from bridge.query.scripts import IntoTable, ReadSQL, UpdateSQL
from windows.databases import Database

_WRITES = {
    UpdateSQL: "UPDATE", IntoTable: "INTO TABLE", Change: "a change of rows", ChangeTable: "a change of a table",
    ChangedWindow: "a change of a named window",
    SetVariables: "SET of a variable",
}  # fmt: skip
_TYPES = {exp.DataType.Type.USERDEFINED, exp.DataType.Type.XML, exp.DataType.Type.UNKNOWN}
_SOURCES = (exp.Table, exp.From, exp.Join, exp.Lateral)
_OUT = "leave it out, or have someone run it who is trusted, without untrusted=True"


@dataclasses.dataclass(frozen=True)
class Trust:
    """The bounds of an untrusted query: the database's functions, and `tables`, the further tables that it may read.

    >>> from windows.databases import open_database
    >>> trust = Trust(open_database("duckdb://"), ["orders"])
    >>> trust.check(exp.maybe_parse("UPPER(name) || 'x'"))
    >>> trust.check(exp.maybe_parse("getenv('HOME')"))
    Traceback (most recent call last):
    bridge.errors.QueryError: the function GETENV is not allowed in an untrusted query: only functions that compute on their \
arguments are; leave it out, or have someone run it who is trusted, without untrusted=True
    """

    database: Database
    tables: Sequence[str] = ()
    is_limited: bool = False
    """Whether time and memory are limited, so that results may grow with a number."""

    def __post_init__(self) -> None:
        if isinstance(self.tables, str):
            raise QueryError(f"tables is a list of names, not a text: tables=[{self.tables!r}]")
        object.__setattr__(self, "tables", tuple(self.tables))

    # Expressions ------------------------------------------------------------------------------------------------------

    def check(self, tree: exp.Expr) -> None:
        """Raises QueryError for a part of an expression or a SELECT that is not allowed."""
        for node in tree.walk():
            if isinstance(node, exp.Func):
                self._check_function(node)
            else:
                _check_syntax(node)
                if self.database.in_reads_tables and isinstance(node, exp.In) and node.args.get("field"):
                    _refuse("IN with a table", ["IN"], "write IN (SELECT …)")

    def _check_function(self, call: exp.Func) -> None:
        named = isinstance(call, (exp.Anonymous, exp.AnonymousAggFunc))
        if isinstance(call.parent, exp.Dot):
            _refuse(f"the call of {_name(call)} by a qualified name", [_name(call)], "write the function's name alone")
        name, kind = (call.name.lower() if named else ""), type(call).__name__
        if isinstance(call.parent, _SOURCES) and ((name or kind.lower()) not in ROWS or call.parent.args.get("db")):
            _refuse(f"the function {_name(call)} in FROM", _words(call), _OUT)
        if not self.database.stops_regexp and kind in ("RegexpLike", "RegexpILike"):
            _refuse(f"REGEXP, whose time nothing limits on {self.database.title},", ["REGEXP"], "use LIKE or GLOB")
        if name in self.database.growing_functions or kind in GROWING_NODES:
            if self.is_limited:
                return
            _refuse(f"the function {_name(call)}, whose result can be of any size,", _words(call), _OUT)
        if not (name in self.database.pure_functions if named else kind in NODES):
            _refuse(
                f"the function {_name(call)}",
                _words(call),
                f"only functions that compute on their arguments are; {_OUT}",
            )

    # Queries ----------------------------------------------------------------------------------------------------------

    def check_definition(self, definition: Any) -> None:
        """Raises QueryError if a query object or a parsed statement has, in any field, something that is not allowed.

        Tables and data stores are checked when their names are resolved; see `table`.
        """
        for value in _parts(definition):
            if isinstance(value, exp.Expr):
                self.check(value)
            elif type(value) in _WRITES:
                _refuse(
                    _WRITES[type(value)], ["UPDATE", "INTO", "SET", "MERGE", "DELETE"], "an untrusted query only reads"
                )
            elif isinstance(value, ReadSQL):
                _refuse("ReadSQL, a SELECT of another database,", ["SELECT", "READ"], _OUT)

    def and_table(self, name: str | None) -> Trust:
        """The same, with one more table, such as the result table of the query."""
        return self if name is None else dataclasses.replace(self, tables=(*self.tables, name))

    def table(self, name: str, position: int | None = None) -> str:
        """The listed table that a name refers to; raises QueryError if there is none."""
        if name in self.tables:
            return name
        found = next((each for each in self.tables if each.lower() == name.lower()), None)
        if found is None:
            listed = f"; there is {', '.join(map(repr, self.tables))}" if self.tables else ""
            raise QueryError(
                f"an untrusted query may read streams, queries, and the tables listed in tables=[…], not {name!r}{listed}",
                None,
                position,
                [*source_words(name), name.split(".")[-1]],
            )
        return found


def is_cte(table: exp.Table) -> bool:
    """Whether a name in FROM refers, on every database, to a common table expression.

    The spelling must be equal, as databases differ in the meaning of upper case and quotes.

    >>> from sqlglot import parse_one
    >>> [is_cte(each) for each in parse_one("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a), a").find_all(exp.Table)]
    [False, True]
    """
    if table.db or not isinstance(table.this, exp.Identifier):
        return False
    below: exp.Expr = table
    above = table.parent
    while above is not None:
        if isinstance(above, exp.With):
            place = above.expressions.index(below)
            visible = above.expressions[: place + (bool(above.args.get("recursive")) and _recurs(below, table))]
        else:
            inside = above.args.get("with_")
            visible = inside.expressions if inside is not None and inside is not below else []
        if any(_same_name(cte.args["alias"].this, table.this) for cte in visible):
            return True
        below, above = above, above.parent
    return False


def _recurs(cte: exp.Expr, table: exp.Table) -> bool:
    """Whether a name in a recursive expression means this expression on every database: it is right of UNION."""
    union = cte.this
    right = union.expression if isinstance(union, exp.Union) else None
    return right is not None and any(each is table for each in right.find_all(exp.Table))


def _same_name(one: exp.Expr, other: exp.Expr) -> bool:
    quoted = bool(one.args.get("quoted")), bool(other.args.get("quoted"))
    return one.name == other.name and (quoted[0] == quoted[1] or one.name.islower())


def _check_syntax(node: exp.Expr) -> None:
    kind = type(node).__name__
    if kind not in SYNTAX:
        _refuse(kind.upper(), [kind.upper(), *_words(node)], _OUT)
    if isinstance(node, exp.DataType) and (node.this in _TYPES or node.args.get("kind")):
        _refuse(f"the type {node.sql()}", [node.sql(), node.sql().lower()], "cast to a type of SQL")
    is_bare = isinstance(node, exp.Column) and not node.table and not node.this.args.get("quoted")
    if is_bare and node.name.lower() in BARE_NAMES:
        _refuse(f"the name {node.name!r}", [node.name], f'a column of that name is written in quotes, "{node.name}"')
    if isinstance(node, exp.Select) and (node.args.get("operation_modifiers") or node.args.get("kind")):
        _refuse("a modifier of SELECT", ["SELECT"], "leave it out")


def _refuse(what: str, words: Iterable[str], out: str) -> NoReturn:
    raise QueryError(f"{what} is not allowed in an untrusted query: {out}", words=words)


def _name(call: exp.Func) -> str:
    named = isinstance(call, (exp.Anonymous, exp.AnonymousAggFunc))
    return (call.name if named else call.sql_name()).upper()


def _words(node: exp.Expr) -> list[str]:
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        return [node.name]
    return [name.lower() for name in type(node).sql_names()] if isinstance(node, exp.Func) else []


def _parts(value: Any) -> Iterator[Any]:
    """A value and everything in its fields and items."""
    if isinstance(value, exp.Expr):
        yield value
    elif dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _parts(each)
    elif isinstance(value, (tuple, list, set, frozenset)):
        for each in value:
            yield from _parts(each)
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        yield from _parts(vars(value))
