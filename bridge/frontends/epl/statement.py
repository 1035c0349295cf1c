"""EPL, the event processing language of Esper: parses one statement to query objects.

>>> print(parse("select id, v * 2 as twice from S(v > 1) as s where s.id != 'x'")[0].node)
SELECT id, v * 2 AS twice FROM (SELECT * FROM S WHERE v > 1) WHERE id <> 'x'
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from sqlglot import exp

from bridge.errors import QueryError
from bridge.frontends.cursor import Cursor, Region
from bridge.frontends.epl.clauses import Context
from bridge.frontends.epl.contexts import create_context, take_context
from bridge.frontends.epl.cursor import EplCursor
from bridge.frontends.epl.declarations import Statement
from bridge.frontends.epl.inputs import RESERVED
from bridge.frontends.epl.istream_rstream import streams_of
from bridge.frontends.epl.paths import refuse_where
from bridge.frontends.epl.schemas import create_schema, create_variant
from bridge.frontends.epl.select import refuse_next, select
from bridge.frontends.epl.tables import VERBS, change_rows, create_table, create_window, into_table, trigger
from bridge.frontends.epl.variables import Constants, create_variable, on_set
from bridge.frontends.statements import CreateQuery, Query
from bridge.query.epl_output import OrderLimitDistinct, Throttle
from bridge.query.epl_state import Variable
from bridge.query.nodes import Aggregate, Map, Node, Stream, Union, Window

_STATEMENTS = {
    "UPDATE": "update is not supported: insert into, with other columns, says the same",
    "EXPRESSION": "declared expressions are not supported: write the expression where its name would stand",
    "MODULE": "modules are not supported: create the statements one by one",
    "IMPORT": "import is not supported: functions are the database's",
    "USES": "uses is not supported",
    "MERGE": "merge is not supported",
    "DELETE": "fire-and-forget queries are run with cep.query",
    "WITH": "with is not supported: insert a statement's results into a stream, and read that",
}
_CREATED = {
    "EXPRESSION": "declared expressions are not supported: write the expression where its name would stand",
    "INDEX": "create index is not supported: tables have the indexes that the statements need",
    "DATAFLOW": "data flows are not supported: bridge.file_source and push_events bring events, output processors take results",
    "INLINED_CLASS": "inlined classes are not supported: functions are the database's",
}
_ORDERS = "statements take an event in the order of their creation"
_REFUSED_ANNOTATIONS = {
    "PRIORITY": _ORDERS,
    "DROP": _ORDERS,
    "AUDIT": "cep.add_tracer shows the statements of the database",
}
_ANNOTATIONS = (
    "NAME",
    "HINT",
    "PUBLIC",
    "PRIVATE",
    "PROTECTED",
    "DESCRIPTION",
    "TAG",
    "BUSEVENTTYPE",
    "EVENTREPRESENTATION",
)


def parse(
    text: str,
    variables: Mapping[str, Variable] = MappingProxyType({}),
    contexts: Mapping[str, Context] = MappingProxyType({}),
) -> Sequence[Statement]:
    """The result of parsing a statement: streams to register, queries with a name of their own, and the unnamed query.

    `variables`: the values that it may name; `contexts`: those that it may be in; both by name in lower case.

    >>> [type(found).__name__ for found in parse("insert into High select * from S where v > 9")]
    ['CreateQuery', 'Query']
    """
    with reading(text, variables, contexts) as cursor:
        refuse_where(cursor)
        annotation_name(cursor)
        found = statements_of(cursor)
        if cursor.read:
            found = [Constants(frozenset(cursor.read)), *found]
        cursor.take(";")
        if cursor.peek():
            refuse_next(cursor)
            cursor.fail(f"one statement is expected here: unexpected {cursor.next_text()} after its end")
    return found


@contextlib.contextmanager
def reading(
    text: str,
    variables: Mapping[str, Variable] = MappingProxyType({}),
    contexts: Mapping[str, Context] = MappingProxyType({}),
) -> Iterator[EplCursor]:
    """The cursor of a text, which must not be empty."""
    try:
        cursor = EplCursor(text, RESERVED, variables, contexts)
        if not cursor.tokens:
            cursor.fail("the text is empty: a statement reads select … from …")
        yield cursor
    except RecursionError:
        raise QueryError("the statement is nested too deeply", text) from None


def annotation_name(cursor: Cursor) -> str | None:
    """Steps over annotations; returns the name in @name."""
    name = None
    while cursor.take("@"):
        annotation = cursor.word()
        if annotation not in _ANNOTATIONS:
            reason = _REFUSED_ANNOTATIONS.get(annotation, "it would change nothing here")
            cursor.fail(f"the annotation {cursor.next_text()} is not supported, leave it out: {reason}")
        cursor.at += 1
        if cursor.take("("):
            token = cursor.peek()
            if annotation == "NAME" and token is not None:
                name = token.text
            cursor.until(())
            cursor.expect(")")
    return name


def statements_of(cursor: EplCursor) -> Sequence[Statement]:
    """Steps over a statement; returns the statements that it becomes."""
    within = take_context(cursor, cursor.contexts)
    word = cursor.word()
    if word in _STATEMENTS:
        cursor.fail(_STATEMENTS[word])
    if cursor.take("CREATE"):
        return [_created(cursor)]
    if cursor.take("INSERT"):
        return _inserted(cursor, within)
    start, position = cursor.at, cursor.position
    if cursor.take("INTO"):
        cursor.expect("TABLE")
        name = cursor.name("the name of a table")
        start = cursor.at
        return [into_table(cursor, name, select(cursor), start, position)]
    if cursor.take("ON"):
        by = trigger(cursor)
        if cursor.word() == "SET":
            return [on_set(cursor, by, start)]
        if cursor.word() in VERBS:
            return [change_rows(cursor, by, start)]
        node = select(cursor, by)
    else:
        node = _in_context(cursor, within, lambda one: select(cursor, None, one))
    return [Query(node, cursor.slice(Region(start, cursor.at)))]


# CREATE SCHEMA, INSERT INTO -------------------------------------------------------------------------------------------


def _created(cursor: Cursor) -> Statement:
    if cursor.word() in _CREATED:
        cursor.fail(_CREATED[cursor.word()])
    if cursor.word() == "WINDOW":
        return create_window(cursor)
    if cursor.word() == "TABLE":
        return create_table(cursor)
    if cursor.word() == "CONTEXT":
        return create_context(cursor)
    if cursor.word() in ("VARIABLE", "CONSTANT"):
        return create_variable(cursor)
    return create_variant(cursor) if cursor.word() == "VARIANT" else create_schema(cursor)


def _inserted(cursor: Cursor, within: Context | None) -> Sequence[Statement]:
    which, position = cursor.word(), cursor.position
    which = which if which in ("RSTREAM", "IRSTREAM") else ""
    cursor.at += bool(which) or cursor.word() == "ISTREAM"
    cursor.expect("INTO")
    name = cursor.name("a stream to insert into")
    columns = _column_names(cursor) if cursor.word() == "(" else []
    start = cursor.at

    def read(one: Context | None) -> Node:
        node = select(cursor, None, one)
        if which != streams_of(node):
            word = (which or streams_of(node)).lower()
            cursor.fail(f"insert {word} into … select {word} …: both say that what leaves is inserted", position)
        return _renamed(cursor, node, columns) if columns else node

    node = _in_context(cursor, within, read)
    return [CreateQuery(name, node, cursor.slice(Region(start, cursor.at))), Query(Stream(name), name)]


def _column_names(cursor: Cursor) -> list[str]:
    cursor.expect("(")
    names = [cursor.name("a column")]
    while cursor.take(","):
        names.append(cursor.name("a column"))
    cursor.expect(")")
    return names


def _renamed(cursor: Cursor, node: Node, names: list[str]) -> Node:
    """The node with other names for its columns: `insert into S (a, b) select x, y`."""
    if isinstance(node, (OrderLimitDistinct, Throttle)) or (
        isinstance(node, Window) and isinstance(node.input, Aggregate)
    ):
        cursor.fail("columns are named in the select list where results are arranged: select x as a")
    if not isinstance(node, (Map, Aggregate)) or len(node.columns) != len(names):
        cursor.fail(f"{len(names)} columns are named: the select list has to have as many, and no *")
    values = (column.this if isinstance(column, exp.Alias) else column for column in node.columns)
    columns = tuple(exp.alias_(value.copy(), name, quoted=True) for value, name in zip(values, names, strict=True))
    return dataclasses.replace(node, columns=columns)


# SELECT -----------------------------------------------------------------------------------------------------------------


def _in_context(cursor: Cursor, within: Context | None, read: Callable[[Context | None], Node]) -> Node:
    """The result of `read` here; in a context of categories the statement is parsed, and runs, for each category."""
    if within is None:
        return read(None)
    start, nodes = cursor.at, list[Node]()
    for one in within.instances:
        cursor.at = start
        nodes.append(read(one))
    return nodes[0] if len(nodes) == 1 else Union(tuple(nodes))
