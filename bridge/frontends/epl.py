"""EPL, the event processing language of Esper: one statement, to query objects.

>>> print(parse("select id, v * 2 as twice from S(v > 1) as s where s.id != 'x'")[0].node)
SELECT id, v * 2 AS twice FROM (SELECT * FROM S WHERE v > 1) WHERE id <> 'x'
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from sqlglot import exp

from bridge.errors import QueryError
from bridge.frontends import epl_scalars
from bridge.frontends.cursor import Cursor, Region
from bridge.frontends.epl_from import RESERVED, Item, item
from bridge.frontends.epl_match import match_recognize
from bridge.frontends.epl_text import EplCursor
from bridge.frontends.epl_windows import CreateWindow, DeleteFrom, create_window, delete
from bridge.frontends.extended import CreateQuery, CreateStream, Query
from bridge.frontends.extended import Statement as Plain
from bridge.frontends.scalars import Names, position_of, resolved
from bridge.frontends.select import joined
from bridge.named import NamedWindows
from bridge.query import Aggregate, Correlate, EagerMatch, Filter, Map, Node, Stream, TemporalMatch, Window
from windows.schema import Attribute, Schema, TypeMismatch
from windows.window import Range, Unbounded

Statement = Plain | CreateWindow | DeleteFrom

_STOPS = ("FROM", "WHERE", "GROUP BY", "HAVING", "OUTPUT", "ORDER BY", "LIMIT", "FOR", "MATCH_RECOGNIZE", "ON")
_JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER")

_REFUSED = {
    "OUTPUT": "output is not supported: every result is reported as it comes",
    "ORDER BY": "order by is not supported: results come in time order; ask cep.query for a sorted answer",
    "LIMIT": "limit is not supported: results come in time order; ask cep.query for a shortened answer",
    "FOR": "for is not supported: every processor gets the results in order",
    "LEFT": "an outer join is not supported: only what happened is reported",
    "RIGHT": "an outer join is not supported: only what happened is reported",
    "FULL": "an outer join is not supported: only what happened is reported",
    "OUTER": "an outer join is not supported: only what happened is reported",
    "UNION": "union is not supported",
}
_STATEMENTS = {
    "UPDATE": "update is not supported: insert into, with other columns, says the same",
    "CONTEXT": "contexts are not supported: group by, or partition by in match_recognize, keeps keys apart",
    "EXPRESSION": "declared expressions are not supported",
    "MODULE": "modules are not supported: create the statements one by one",
    "IMPORT": "import is not supported: functions are the database's",
    "USES": "uses is not supported",
    "MERGE": "merge is not supported",
    "DELETE": "fire-and-forget queries are asked with cep.query",
    "WITH": "with is not supported: insert into names a statement's results",
}
_CREATED = {
    "TABLE": "create table is not supported: tables of the database can be asked with cep.query",
    "CONTEXT": "contexts are not supported: group by, or partition by in match_recognize, keeps keys apart",
    "VARIABLE": "create variable is not supported: write the value",
    "CONSTANT": "create variable is not supported: write the value",
    "EXPRESSION": "declared expressions are not supported",
    "INDEX": "create index is not supported: tables have the indexes that the statements want",
    "DATAFLOW": "data flows are not supported",
    "INLINED_CLASS": "inlined classes are not supported: functions are the database's",
    "VARIANT": "variant schemas are not supported: a stream has events of one type",
    "MAP": "create schema without map: rows are rows",
    "OBJECTARRAY": "create schema without objectarray: rows are rows",
}
_ANNOTATIONS = ("NAME", "PUBLIC", "PRIVATE", "PROTECTED", "DESCRIPTION", "TAG", "BUSEVENTTYPE", "EVENTREPRESENTATION")


def parse(text: str) -> Sequence[Statement]:
    """What a statement comes to: streams to register, queries with a name of their own, and the one without.

    >>> [type(found).__name__ for found in parse("insert into High select * from S where v > 9")]
    ['CreateQuery', 'Query']
    """
    with _reading(text) as cursor:
        _annotations(cursor)
        found = _statement(cursor)
        cursor.take(";")
        if cursor.peek():
            _refuse_next(cursor)
            cursor.fail(f"one statement is wanted here: unexpected {cursor.shown()} after its end")
    return found


def script(text: str) -> list[Plain]:
    """The statements of a script, separated by `;`; what is called by `@name('…')` has that name.

    >>> found = script("create schema S (v int); @name('high') select * from S where v > 9; insert into T select v from S")
    >>> [getattr(statement, "name", None) for statement in found]
    ['S', 'high', 'T']
    """
    found: list[Plain] = []
    windows = NamedWindows()
    with _reading(text) as cursor:
        while cursor.peek():
            if cursor.take(";"):
                continue
            position = cursor.position
            name = _annotations(cursor)
            several = _statement(cursor)
            found += _called(list(_windowed(windows, several)), name)
            if sum(isinstance(statement, Query) for statement in found) > 1:
                cursor.fail("a second statement without a name: @name('…') before it gives it one", position)
            if cursor.peek() and cursor.word() != ";":
                _refuse_next(cursor)
                cursor.fail(f"unexpected {cursor.shown()} after the end of the statement")
    return found


def _windowed(windows: NamedWindows, statements: Sequence[Statement]) -> Iterator[Plain]:
    """The statements with named windows put in where they are read."""
    for statement in statements:
        if isinstance(statement, CreateWindow):
            windows.create(statement.name, statement.extent, statement.like)
        elif isinstance(statement, DeleteFrom):
            windows.delete(statement.window, statement.deletion)
        elif isinstance(statement, CreateStream):
            yield statement
        elif isinstance(statement, CreateQuery) and statement.name in windows:
            windows.insert(statement.name, statement.node)
            yield statement
        else:
            yield dataclasses.replace(statement, node=windows.put(statement.node))


def _called(statements: Sequence[Plain], name: str | None) -> Iterator[Plain]:
    """The statements of one, the last of them under a name; what inserts into a stream has that stream's alone."""
    inserted = [statement.name for statement in statements if isinstance(statement, CreateQuery)]
    for statement in statements:
        if not isinstance(statement, Query):
            yield statement
        elif name is not None and name not in inserted:
            yield CreateQuery(name, statement.node, statement.text)
        elif not inserted:
            yield statement


@contextlib.contextmanager
def _reading(text: str) -> Iterator[EplCursor]:
    try:
        cursor = EplCursor(text, RESERVED)
        if not cursor.tokens:
            cursor.fail("the text is empty: a statement reads select … from …")
        yield cursor
    except RecursionError:
        raise QueryError("the statement is nested too deeply", text) from None


def _annotations(cursor: Cursor) -> str | None:
    """Step over annotations; gives what @name says."""
    name = None
    while cursor.take("@"):
        annotation = cursor.word()
        if annotation not in _ANNOTATIONS:
            cursor.fail(f"the annotation {cursor.shown()} is not supported")
        cursor.at += 1
        if cursor.take("("):
            token = cursor.peek()
            if annotation == "NAME" and token is not None:
                name = token.text
            cursor.until(())
            cursor.expect(")")
    return name


def _statement(cursor: Cursor) -> Sequence[Statement]:
    word = cursor.word()
    if word in _STATEMENTS:
        cursor.fail(_STATEMENTS[word])
    if cursor.take("CREATE"):
        return [_created(cursor)]
    if cursor.take("INSERT"):
        return _inserted(cursor)
    if cursor.take("ON"):
        return [delete(cursor)]
    start = cursor.at
    node = _select(cursor)
    return [Query(node, cursor.slice(Region(start, cursor.at)))]


# CREATE SCHEMA, INSERT INTO -------------------------------------------------------------------------------------------


def _created(cursor: Cursor) -> Statement:
    if cursor.word() in _CREATED:
        cursor.fail(_CREATED[cursor.word()])
    if cursor.word() == "WINDOW":
        return create_window(cursor)
    cursor.take("JSON")
    cursor.expect("SCHEMA")
    name = cursor.name("a name for the events")
    cursor.take("AS")
    cursor.expect("(", " (attributes with their types; other events and classes cannot be copied)")
    attributes = [_attribute(cursor)]
    while cursor.take(","):
        attributes.append(_attribute(cursor))
    cursor.expect(")")
    if cursor.word() in ("INHERITS", "STARTTIMESTAMP", "ENDTIMESTAMP", "COPYFROM"):
        cursor.fail(
            f"{cursor.word().lower()} is not supported: a stream has events of one type, with a ts of their own"
        )
    try:
        return CreateStream(name, Schema(tuple(attributes)))
    except TypeMismatch as error:
        cursor.fail(str(error))


def _attribute(cursor: Cursor) -> Attribute:
    name = cursor.name("an attribute")
    position = cursor.position
    kind = cursor.name("the type of an attribute")
    if cursor.word() in ("[", "."):
        cursor.fail("arrays and classes are not supported as types: attributes are flat")
    return Attribute(name, epl_scalars.type_named(cursor, kind, position))


def _inserted(cursor: Cursor) -> Sequence[Statement]:
    if cursor.word() in ("ISTREAM", "RSTREAM", "IRSTREAM"):
        cursor.fail(f"insert {cursor.word().lower()} is not supported: only what is new is inserted")
    cursor.expect("INTO")
    name = cursor.name("a stream to insert into")
    columns = _column_names(cursor) if cursor.word() == "(" else []
    start = cursor.at
    node = _select(cursor)
    if columns:
        node = _renamed(cursor, node, columns)
    return [CreateQuery(name, node, cursor.slice(Region(start, cursor.at))), Query(Stream(name), name)]


def _column_names(cursor: Cursor) -> list[str]:
    cursor.expect("(")
    names = [cursor.name("a column")]
    while cursor.take(","):
        names.append(cursor.name("a column"))
    cursor.expect(")")
    return names


def _renamed(cursor: Cursor, node: Node, names: list[str]) -> Node:
    """The columns of a list in other words: `insert into S (a, b) select x, y`."""
    if not isinstance(node, (Map, Aggregate)) or len(node.columns) != len(names):
        cursor.fail(f"{len(names)} columns are named: the select list has to have as many, and no *")
    values = (column.this if isinstance(column, exp.Alias) else column for column in node.columns)
    columns = tuple(exp.alias_(value.copy(), name, quoted=True) for value, name in zip(values, names, strict=True))
    if isinstance(node, Map):
        return Map(node.input, columns)
    return Aggregate(node.input, columns, node.group_by, node.having, node.on_change)


# SELECT -----------------------------------------------------------------------------------------------------------------


def _select(cursor: Cursor) -> Node:
    cursor.expect("SELECT", " (a statement starts with select, insert into or create schema)")
    told = cursor.word() if cursor.word() in ("ISTREAM", "RSTREAM", "IRSTREAM") else ""
    position = cursor.position
    cursor.at += bool(told)
    if told == "RSTREAM":
        cursor.fail("rstream is not supported: only what is new is reported", position)
    if cursor.word() == "DISTINCT":
        cursor.fail("distinct is not supported: group by the columns instead")
    start = cursor.at
    region = cursor.until(_STOPS)
    columns = epl_scalars.listed(cursor, region, "a list of columns")
    _refuse_events(cursor, Region(start, cursor.at), columns)
    cursor.expect("FROM")
    items, conditions = _items(cursor)
    node, names = _source(cursor, items)
    _refuse_repeated(cursor, node, Region(start, region.end), columns)
    if told == "IRSTREAM" and not isinstance(node, (EagerMatch, Stream, TemporalMatch)):
        cursor.fail("irstream is not supported here: only what is new is reported", position)
    if cursor.take("WHERE"):
        conditions.append(_condition(cursor))
    found = resolved(cursor, conditions, names)
    if isinstance(node, Correlate):
        node = Correlate(node.inputs, joined(found) if found else None)
    elif found:
        node = Filter(node, joined(found))
    return _projected(cursor, node, resolved(cursor, columns, names), names)


def _items(cursor: Cursor) -> tuple[list[Item], list[exp.Expr]]:
    items, conditions = [item(cursor)], list[exp.Expr]()
    while True:
        if cursor.take(","):
            items.append(item(cursor))
        elif cursor.word() in ("JOIN", "INNER"):
            cursor.take("INNER")
            cursor.expect("JOIN")
            items.append(item(cursor))
            cursor.expect("ON")
            conditions.append(_condition(cursor))
        else:
            _refuse_next(cursor)
            return items, conditions


def _source(cursor: Cursor, items: list[Item]) -> tuple[Node, Names]:
    """What is selected from, and the qualifiers of its columns."""
    if len(items) == 1:
        alias, node, position = items[0]
        tags = _tags(node)
        if cursor.word() != "MATCH_RECOGNIZE":
            return node, Names(alias, tags)
        if tags:
            cursor.fail("match_recognize reads a stream: insert into names a pattern's results", position)
        return match_recognize(cursor, alias)(node), Names(None, ())
    if cursor.word() == "MATCH_RECOGNIZE":
        cursor.fail("match_recognize reads one stream: insert into names a join's results")
    seen: set[str] = set()
    for alias, node, position in items:
        if _tags(node):
            cursor.fail("a pattern stands alone in from: insert into names its results, to be joined", position)
        if alias.lower() in seen:
            cursor.fail(f"two inputs are called {alias!r}: give one of them an alias", position)
        seen.add(alias.lower())
    inputs = tuple((alias, node) for alias, node, _ in items)
    return Correlate(inputs), Names(None, tuple(alias for alias, _ in inputs))


def _tags(node: Node) -> tuple[str, ...]:
    """The tags of the pattern that a node is, or a window of."""
    while isinstance(node, Window):
        node = node.input
    return node.aliases if isinstance(node, TemporalMatch) else ()


def _condition(cursor: Cursor) -> exp.Expr:
    return epl_scalars.single(cursor, cursor.until((",", *_STOPS, *_JOINS)), "a condition")


def _projected(cursor: Cursor, node: Node, columns: tuple[exp.Expr, ...], names: Names) -> Node:
    keys: tuple[exp.Expr, ...] = ()
    if cursor.take("GROUP BY"):
        keys = resolved(cursor, epl_scalars.listed(cursor, cursor.until(_STOPS), "a column to group by"), names)
    position = cursor.position
    having = resolved(cursor, [_condition(cursor)], names) if cursor.take("HAVING") else ()
    _refuse_next(cursor)
    if keys or any(column.find(exp.AggFunc) for column in (*columns, *having)):
        on_change = _reported(cursor, node, bool(keys), position)
        return Aggregate(node, columns, keys, having[0] if having else None, on_change)
    if having:
        node = Filter(node, having[0])  # without aggregates it says the same as where
    return node if columns == (exp.Star(),) else Map(node, columns)


def _reported(cursor: Cursor, node: Node, grouped: bool, position: int) -> bool:
    """Whether what leaves the window is reported too: EPL's aggregates tell each change of their window's content."""
    while isinstance(node, Filter):
        node = node.input
    if isinstance(node, (Stream, EagerMatch, TemporalMatch)):
        cursor.fail("an aggregate wants a window: write #keepall for all events, or #time(…), #length(…)", position)
    if isinstance(node, Correlate):
        kept = all(isinstance(below, Window) and isinstance(below.extent, Unbounded) for _, below in node.inputs)
        if not kept:
            cursor.fail(
                "aggregates over a join are supported over #keepall alone: what leaves a window would be told, too; "
                "insert into names the join's results",
                position,
            )
        return False
    if not isinstance(node, Window):
        return False
    slide = getattr(node.extent, "slide", None)
    if grouped and slide is not None:
        cursor.fail(
            "group by over a batch would tell the groups of the batch before, too: it is not supported", position
        )
    if grouped and not isinstance(node.extent, (Unbounded, Range)):
        cursor.fail("group by over #length would tell the group of the event that leaves, too: use #time", position)
    return isinstance(node.extent, Range) and slide is None


def _refuse_events(cursor: Cursor, region: Region, columns: tuple[exp.Expr, ...]) -> None:
    for column in columns:
        if isinstance(column, exp.Column) and column.table and isinstance(column.this, exp.Star):
            continue
        for node in column.find_all(exp.Dot):
            cursor.fail("nested properties are not supported: attributes are flat", position_of(node))


def _refuse_repeated(cursor: Cursor, node: Node, region: Region, columns: tuple[exp.Expr, ...]) -> None:
    """`select *` of a pattern that repeats an event."""
    while isinstance(node, Window):
        node = node.input
    if columns == (exp.Star(),) and isinstance(node, TemporalMatch):
        for _, tag, several in node.tags:
            if several:
                message = (
                    f"select * cannot tell {tag!r}, which stands for several events: name {tag}[0].…, {tag}.lastOf().…"
                )
                cursor.fail(message, cursor.span(region)[0])


def _refuse_next(cursor: Cursor) -> None:
    if cursor.word() in _REFUSED:
        cursor.fail(_REFUSED[cursor.word()])
