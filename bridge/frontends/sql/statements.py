"""The paper's extended SQL: SELECT with inline schemas, WINDOW ( … ) and MATCHING ( … ), and scripts of statements.

>>> print(parse("select a from s[a:Integer] window(range 5 s) where a > 1"))
SELECT a FROM s[a: INTEGER] WINDOW(RANGE 5000 MS) WHERE a > 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from bridge.errors import QueryError
from bridge.frontends.clauses import duration, schema
from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.expressions import with_spelling_hint
from bridge.frontends.sql.select import select
from bridge.frontends.sql.streaming.tables import DeclaredTable, declared_table, named_as
from bridge.frontends.sql.table_source import table_source
from bridge.frontends.statements import CreateQuery, CreateStream, CreateTableStream, Query, Statement
from bridge.query.nodes import Node
from bridge.query.scripts import into_table
from bridge.query.time_rules import TimeRules
from bridge.query.words import RESERVED
from windows.schema import Schema

_T = TypeVar("_T")
_NONE: Mapping[str, Node] = MappingProxyType({})


def parse(text: str, dialect: str = "", views: Mapping[str, Node] = _NONE) -> Node:
    """The tree of one SELECT. `dialect`: sqlglot's name of the SQL of its expressions; `views`: queries that it may read.

    >>> parse("SELECT * FROM trades")
    Stream(name='trades', schema=None)
    """
    return _guarded(text, dialect, views, _one)


def statements(text: str, dialect: str = "") -> list[Statement]:
    """The statements of a script, separated by `;`; at most one SELECT has no name.

    >>> statements("CREATE STREAM s (a INTEGER); CREATE QUERY q AS SELECT * FROM s;")[1]
    CreateQuery(name='q', node=Stream(name='s', schema=None), text='SELECT * FROM s')
    """
    return _guarded(text, dialect, _NONE, _script)


def _guarded(text: str, dialect: str, views: Mapping[str, Node], read: Callable[[Cursor], _T]) -> _T:
    cursor = Cursor(text, RESERVED)
    cursor.dialect = dialect
    cursor.views = {name.lower(): node for name, node in views.items()}
    if not cursor.tokens:
        cursor.fail("the text is empty: a query reads SELECT … FROM …")
    try:
        return read(cursor)
    except QueryError as error:
        raise _missing_separator(with_spelling_hint(error, cursor), cursor) from None
    except RecursionError:
        raise QueryError("the query is nested too deeply", text) from None


def _missing_separator(error: QueryError, cursor: Cursor) -> QueryError:
    """The error, moved before a statement that begins at its place without a preceding `;`; else unchanged."""
    last = next((at for at, token in enumerate(cursor.tokens) if token.start == error.position), 0)
    for at in range(last, max(last - 2, 0), -1):  # CREATE may have been taken for an alias
        word, after = word_of(cursor.tokens[at]), word_of(cursor.tokens[min(at + 1, len(cursor.tokens) - 1)])
        begins = after in ("STREAM", "QUERY") if word == "CREATE" else word == "SELECT" and at == last
        if begins and word_of(cursor.tokens[at - 1]) != ";" and "unexpected" in error.message:
            token = cursor.tokens[at]
            return QueryError(f"a ';' is missing before {token.text!r}", cursor.text, token.start)
    return error


def _one(cursor: Cursor) -> Node:
    if cursor.word() == "CREATE":
        cursor.fail(
            "one SELECT is expected here, whose name is given beside it; CREATE belongs in a script, which cepbridge run, "
            "cepbridge watch and bridge.replay read"
        )
    node = _query(cursor).node
    while cursor.take(";"):
        pass
    if cursor.peek():
        cursor.fail(f"one SELECT is expected here: unexpected {cursor.next_text()} after its end")
    return node


def _script(cursor: Cursor) -> list[Statement]:
    found: list[Statement | DeclaredTable] = []
    while cursor.peek():
        if cursor.take(";"):
            continue
        position = cursor.position
        found.append(_statement(cursor, [one for one in found if isinstance(one, DeclaredTable)]))
        if isinstance(created := found[-1], CreateQuery):
            cursor.views[created.name.lower()] = created.node
        if sum(isinstance(statement, Query) for statement in found) > 1:
            cursor.fail("a second SELECT without a name: CREATE QUERY name AS SELECT …", position)
        if cursor.peek() and cursor.word() != ";":
            hint = (
                ": a stream has no connector, its events are pushed or read FROM TABLE"
                if cursor.word() == "WITH"
                else ""
            )
            cursor.fail(f"unexpected {cursor.next_text()} after the end of the statement{hint}")
    if not found:
        cursor.fail("the script has no statement")
    filled = [one.name.lower() for one in found if isinstance(one, CreateQuery)]
    streams = [one for one in found if not (isinstance(one, DeclaredTable) and one.name.lower() in filled)]
    return [
        CreateStream(one.name, one.schema(cursor), TimeRules()) if isinstance(one, DeclaredTable) else one
        for one in streams
    ]


def _statement(cursor: Cursor, tables: list[DeclaredTable]) -> Statement | DeclaredTable:
    if cursor.take("INSERT", "INTO"):
        return _insert(cursor, tables)
    if not cursor.take("CREATE"):
        return _query(cursor)
    return declared_table(cursor) if cursor.take("TABLE") else _create(cursor)


def _insert(cursor: Cursor, tables: list[DeclaredTable]) -> CreateQuery:
    """`INSERT INTO name SELECT …` names the results, as CREATE QUERY name AS does."""
    name, position = cursor.name("a name for the query"), cursor.position
    query = _query(cursor)
    table = next((table for table in tables if table.name.lower() == name.lower()), None)
    node = query.node if table is None else named_as(cursor, query.node, table, position)
    return CreateQuery(name, node, query.text)


def _query(cursor: Cursor) -> Query:
    if cursor.word() not in ("SELECT", "WITH", "("):
        hint = f": {_INSERT}" if cursor.word() == "INSERT" else ""
        cursor.fail(f"a query starts with SELECT (or WITH), not {cursor.next_text()}{hint}")
    start = cursor.at
    node = select(cursor)
    return Query(node, cursor.slice(Region(start, cursor.at)))


_INSERT = (
    "CREATE QUERY name AS SELECT … names the results, and CREATE QUERY name INTO TABLE t AS … writes them into a table"
)


def _create(cursor: Cursor) -> Statement:
    if cursor.take("STREAM"):
        name = cursor.name("a name for the stream")
        columns = None if cursor.word() == "FROM" else _columns(cursor)
        if cursor.take("FROM"):
            return CreateTableStream(name, columns, table_source(cursor), _time_rules(cursor))
        assert columns is not None
        return CreateStream(name, columns, _time_rules(cursor))
    if not (cursor.take("QUERY") or _takes_view(cursor)):
        cursor.fail(f"CREATE STREAM or CREATE QUERY is expected, not {cursor.next_text()}")
    name = cursor.name("a name for the query")
    into = _into(cursor) if cursor.take("INTO") else None
    cursor.expect("AS")
    query = _query(cursor)
    node = query.node if into is None else into_table(query.node, name, *into)
    return CreateQuery(name, node, query.text)


def _takes_view(cursor: Cursor) -> bool:
    """Steps over `VIEW` or `TEMPORARY VIEW`, which name results as QUERY does."""
    return cursor.take("VIEW") or cursor.take("TEMPORARY", "VIEW") or cursor.take("TEMP", "VIEW")


def _into(cursor: Cursor) -> tuple[str, int | None]:
    """`INTO TABLE name KEEP 7 D`: the table, and the milliseconds for which a row stays in it."""
    cursor.expect("TABLE")
    table = cursor.name("a name for the table of results")
    if not cursor.take("KEEP"):
        return table, None
    return table, duration(cursor)


def _time_rules(cursor: Cursor) -> TimeRules:
    """`IDLE AFTER 30 S MAX AHEAD 1 MIN`, in either order; both are optional."""
    rules = TimeRules()
    while True:
        if cursor.take("IDLE", "AFTER"):
            rules = rules._replace(idle_after=duration(cursor))
        elif cursor.take("MAX", "AHEAD"):
            rules = rules._replace(max_ahead=duration(cursor))
        else:
            return rules


def _columns(cursor: Cursor) -> Schema:
    cursor.expect("(")
    columns = schema(cursor)
    cursor.expect(")")
    return columns
