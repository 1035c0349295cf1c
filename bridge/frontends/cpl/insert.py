"""CPL's INSERT INTO … SELECT … FROM: which operators of the algebra a statement becomes.

The clauses are found by their words, as in `frontends.select`; sqlglot reads the expressions only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import exp

from bridge.errors import nearest
from bridge.frontends.cursor import Cursor
from bridge.frontends.expressions import Names, joined, listed, plain, resolved, single
from bridge.query.nodes import Aggregate, Correlate, Filter, Map, Node, Stream, Union, Window
from bridge.query.scripts import IntoTable, MultiFilter, ReadSQL, UpdateSQL
from windows.extent import Extent
from windows.extents import Batch, Range
from windows.schema import TypeMismatch, canonical_type
from windows.sql import conjuncts

WORDS = {
    "ORDER BY": "ORDER BY is not supported: results come in time order",
    "LIMIT": "LIMIT is not supported: results come as their events do",
    "JOIN": "JOIN is not supported: FROM a, b ON WINDOW w WHERE a.k = b.k joins two streams",
    "UNION": "UNION is not supported: SELECT * FROM a, b merges streams",
    "DISTINCT": "DISTINCT is not supported: GROUP BY the fields instead",
}
"""What SQL has and CPL has not, by the word it begins with: why, and the way out."""

_STOPS = frozenset(("FROM", "WHERE", "GROUP BY", "HAVING", "ON", "CREATE", "INSERT", *WORDS)) - {"DISTINCT"}
_SYNONYMS = {"MAXIMUM": exp.Max, "MINIMUM": exp.Min, "AVERAGE": exp.Avg}
_OWN = "put it into a statement of its own: INSERT INTO … SELECT * FROM …"


class Named(NamedTuple):
    """A statement of CREATE SQL: its text and where it begins, its store, how long answers are kept, its `?`."""

    text: str
    position: int
    store: str | None
    cache: int | None
    marks: int
    reads: bool


class Insert(NamedTuple):
    """A statement: what it is called, its outputs, its tree, the streams it reads with their places, and its own."""

    name: str
    outputs: tuple[str, ...]
    node: Node
    reads: tuple[tuple[str, int], ...]
    position: int


class _Item(NamedTuple):
    """One input of FROM."""

    alias: str
    name: str
    position: int


@dataclasses.dataclass
class _Sql:
    """One ON SQL: the statement it names, the result's name, the fields, and where each stands."""

    named: Named
    table: str
    fields: list[tuple[str, int]]
    columns: list[tuple[str, str | None]]
    left: bool
    position: int


@dataclasses.dataclass
class _Clauses:
    """The clauses of a statement as they are written."""

    columns: tuple[exp.Expr, ...]
    items: list[_Item]
    windows: list[Extent] = dataclasses.field(default_factory=list)
    sql: list[_Sql] = dataclasses.field(default_factory=list)
    where: exp.Expr | None = None
    group_by: tuple[exp.Expr, ...] = ()
    having: exp.Expr | None = None
    places: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def aggregates(self) -> bool:
        parts = [*self.columns, *([self.having] if self.having is not None else [])]
        return any(part.find(exp.AggFunc) for part in parts)

    @property
    def is_star(self) -> bool:
        return len(self.columns) == 1 and isinstance(self.columns[0], exp.Star)


def insert(cursor: Cursor, windows: Mapping[str, Extent], statements: Mapping[str, Named]) -> Insert:
    """Step over a statement, its INSERT already read."""
    cursor.expect("INTO")
    position = cursor.position
    if cursor.take("TABLE"):
        table = cursor.name("the name of a table")
        clauses = _clauses(cursor, windows, statements)
        name = f"table {table}"
        return Insert(name, (name,), IntoTable(_node(cursor, clauses), table), _reads(clauses), position)
    routes = _routes(cursor)
    clauses = _clauses(cursor, windows, statements)
    node = _node(cursor, clauses)
    outputs = tuple(name for name, _ in routes)
    conditions = [condition for _, condition in routes if condition is not None]
    if conditions:
        names = Names(None, ())
        node = MultiFilter(node, tuple(zip(outputs, resolved(cursor, conditions, names), strict=True)))
    return Insert(outputs[0], outputs, node, _reads(clauses), position)


def _routes(cursor: Cursor) -> list[tuple[str, exp.Expr | None]]:
    """`a`, or `a WHEN condition, b WHEN condition`: the second is a MultiFilter."""
    name = cursor.name("the name of the output stream")
    if cursor.word() == ",":
        cursor.fail("several outputs want their conditions: INSERT INTO a WHEN …, b WHEN … SELECT …")
    if cursor.word() != "WHEN":
        return [(name, None)]
    routes: list[tuple[str, exp.Expr | None]] = []
    while True:
        cursor.expect("WHEN", " (the condition for a row to go into this output)")
        routes.append((name, single(cursor, cursor.until((",", "SELECT")), "a condition")))
        if not cursor.take(","):
            return routes
        position = cursor.position
        name = cursor.name("the name of the next output stream")
        if name.lower() in (other.lower() for other, _ in routes):
            cursor.fail(f"{name!r} is an output twice: join its conditions with OR", position)


def _reads(clauses: _Clauses) -> tuple[tuple[str, int], ...]:
    return tuple((item.name, item.position) for item in clauses.items)


# Clauses --------------------------------------------------------------------------------------------------------------


def _clauses(cursor: Cursor, windows: Mapping[str, Extent], statements: Mapping[str, Named]) -> _Clauses:
    cursor.expect("SELECT", " (INSERT INTO output SELECT … FROM …)")
    _refuse(cursor)
    columns = tuple(map(_standard, listed(cursor, cursor.until(_STOPS), "a list of fields")))
    _refuse(cursor)
    cursor.expect("FROM")
    found = _Clauses(columns, _items(cursor))
    _rest(cursor, found, windows, statements)
    return found


def _rest(cursor: Cursor, found: _Clauses, windows: Mapping[str, Extent], statements: Mapping[str, Named]) -> None:
    while True:
        _refuse(cursor)
        position, word = cursor.position, cursor.word()
        if word in found.places:
            cursor.fail(f"a second {word}", position)
        if cursor.take("ON", "WINDOW"):
            if found.windows:
                cursor.fail("a second ON WINDOW", position)
            found.windows = _windows(cursor, windows)
        elif cursor.take("ON", "SQL"):
            found.sql.append(_sql(cursor, statements, position))
        elif cursor.take("WHERE"):
            found.where = single(cursor, cursor.until((",", *_STOPS)), "a condition")
        elif cursor.take("GROUP BY"):
            found.group_by = plain(cursor, listed(cursor, cursor.until(_STOPS), "a field to group by"))
        elif cursor.take("HAVING"):
            found.having = _standard(single(cursor, cursor.until((",", *_STOPS)), "a condition"))
        elif word == "ON":
            cursor.at += 1
            cursor.fail(f"ON WINDOW or ON SQL is expected, not ON {cursor.shown()}")
        else:
            return
        if word != "ON":
            found.places[word] = position


def _refuse(cursor: Cursor) -> None:
    if cursor.word() in WORDS:
        cursor.fail(WORDS[cursor.word()])


def _standard(expression: exp.Expr) -> exp.Expr:
    """The paper's names of aggregates: maximum, minimum, average."""

    def renamed(node: exp.Expr) -> exp.Expr:
        function = _SYNONYMS.get(node.name.upper()) if isinstance(node, exp.Anonymous) else None
        return function(this=node.expressions[0]) if function and len(node.expressions) == 1 else node

    return expression.transform(renamed)


def _items(cursor: Cursor) -> list[_Item]:
    items = [_item(cursor)]
    while cursor.take(","):
        items.append(_item(cursor))
    return items


def _item(cursor: Cursor) -> _Item:
    position = cursor.position
    if cursor.word() == "(":
        cursor.fail("a sub-query is a statement of its own: INSERT INTO x SELECT …, then FROM x")
    name = cursor.name("a stream")
    return _Item(cursor.name("an alias") if cursor.take("AS") else name, name, position)


def _windows(cursor: Cursor, windows: Mapping[str, Extent]) -> list[Extent]:
    found = [_window(cursor, windows)]
    while cursor.take(","):
        found.append(_window(cursor, windows))
    return found


def _window(cursor: Cursor, windows: Mapping[str, Extent]) -> Extent:
    position = cursor.position
    name = cursor.name("the name of a window")
    if name.lower() not in windows:
        cursor.fail(f"unknown window {name!r}{nearest(name, list(windows))}: CREATE WINDOW declares it", position)
    return windows[name.lower()]


# ON SQL ---------------------------------------------------------------------------------------------------------------


def _sql(cursor: Cursor, statements: Mapping[str, Named], position: int) -> _Sql:
    """`ON SQL [LEFT] query, result, field, …, column [type], …`: as many fields as the query has `?`."""
    left = cursor.take("LEFT")
    at = cursor.position
    name = cursor.name("the name of an SQL statement")
    if name.lower() not in statements:
        cursor.fail(f"unknown SQL statement {name!r}{nearest(name, list(statements))}: CREATE SQL declares it", at)
    named = statements[name.lower()]
    if left and not named.reads:
        cursor.fail(f"LEFT is for a SELECT: {name!r} changes rows", at)
    cursor.expect(",", " (the name of the statement's result)")
    table = cursor.name("a name for the result")
    found = _Sql(named, table, [], [], left, position)
    while cursor.take(","):
        at = cursor.position
        if len(found.fields) < named.marks:
            found.fields.append((cursor.name("a field"), at))
        else:
            found.columns.append((cursor.name("a column of the result"), _type(cursor)))
    if len(found.fields) < named.marks:
        cursor.fail(f"{name!r} has {named.marks} parameters (?): name a field for each, there are {len(found.fields)}")
    if not named.reads and len(found.columns) > 1:
        cursor.fail("a statement that changes rows gives one column, the number of rows that it changed")
    return found


def _type(cursor: Cursor) -> str | None:
    position = cursor.position
    if cursor.word() in ("", ",", ";", *_STOPS):
        return None
    region = cursor.until((",", *_STOPS))
    try:
        return canonical_type(cursor.slice(region))
    except TypeMismatch as error:
        cursor.fail(str(error), position)


def _with_sql(node: Node, sql: _Sql) -> Node:
    parameters = tuple(_field(name, position) for name, position in sql.fields)
    named = sql.named
    if named.reads:
        return ReadSQL(
            node, named.text, parameters, sql.table, tuple(sql.columns), named.store, sql.left, named.cache,
            named.position,
        )  # fmt: skip
    changed = sql.columns[0][0] if sql.columns else None
    return UpdateSQL(node, named.text, parameters, changed, named.store, position=named.position)


def _field(name: str, position: int) -> exp.Column:
    identifier = exp.to_identifier(name)
    identifier.meta["start"] = position
    return exp.column(identifier)


# Operators ------------------------------------------------------------------------------------------------------------


def _node(cursor: Cursor, clauses: _Clauses) -> Node:
    if len(clauses.items) == 1:
        return _of_one(cursor, clauses)
    if not clauses.windows:
        return _union(cursor, clauses)
    return _join(cursor, clauses)


def _union(cursor: Cursor, clauses: _Clauses) -> Node:
    for name in ("WHERE", "GROUP BY", "HAVING"):
        if name in clauses.places:
            cursor.fail(
                f"{name} over several streams joins them, which wants ON WINDOW; "
                "after a union it is a statement of its own",
                clauses.places[name],
            )
    if clauses.sql:
        cursor.fail(f"ON SQL reads one stream: {_OWN}", clauses.sql[0].position)
    if not clauses.is_star:
        cursor.fail(
            "several streams are merged by SELECT * FROM a, b, or joined by ON WINDOW", clauses.items[0].position
        )
    return Union(tuple(Stream(item.name) for item in clauses.items))


def _join(cursor: Cursor, clauses: _Clauses) -> Node:
    if len(clauses.items) > 2:
        cursor.fail("a join has two streams: join the third with the result", clauses.items[2].position)
    if clauses.sql:
        cursor.fail(f"ON SQL reads one stream: {_OWN}", clauses.sql[0].position)
    if clauses.aggregates:
        cursor.fail("an aggregate over a join: INSERT INTO j SELECT … joins, a second statement aggregates j")
    if len(clauses.windows) > 2:
        cursor.fail("a join has two streams, so it has one window for both, or two", clauses.items[0].position)
    left, right = clauses.items
    if left.alias.lower() == right.alias.lower():
        cursor.fail(f"two inputs are called {right.alias!r}: give one of them an alias with AS", right.position)
    extents = [_sliding(cursor, extent, clauses) for extent in (clauses.windows * 2)[: len(clauses.items)]]
    names = Names(None, tuple(item.alias for item in clauses.items))
    conditions = () if clauses.where is None else resolved(cursor, [clauses.where.copy()], names)
    conditions += tuple(_clustered(clauses.items, key) for key in clauses.group_by)
    inputs = tuple((i.alias, Window(Stream(i.name), extent)) for i, extent in zip(clauses.items, extents, strict=True))
    node: Node = Correlate(inputs, joined(conditions) if conditions else None)
    return node if clauses.is_star else Map(node, resolved(cursor, clauses.columns, names))


def _sliding(cursor: Cursor, extent: Extent, clauses: _Clauses) -> Extent:
    """C4: a join's window holds what is at most so old; its rows leave in steps of `advance`."""
    if not isinstance(extent, Range):
        cursor.fail("a join has windows ON TIME, to be deterministic", clauses.items[0].position)
    return Range(extent.size, step=extent.slide if extent.slide != 1 else None)


def _clustered(items: list[_Item], key: exp.Expr) -> exp.Expr:
    """GROUP BY of a join: pairs are of one group. NULL is a group, as in any GROUP BY."""
    sides = []
    for item in items:
        side = key.copy()
        for column in side.find_all(exp.Column):
            column.set("table", exp.to_identifier(item.alias, quoted=True))
        sides.append(side)
    return exp.NullSafeEQ(this=sides[0], expression=sides[1])


def _of_one(cursor: Cursor, clauses: _Clauses) -> Node:
    item, tables = clauses.items[0], tuple(sql.table for sql in clauses.sql if sql.named.reads)
    names = Names(item.alias, tables)
    before, after = _split(cursor, clauses, names)
    node: Node = Stream(item.name)
    node = Filter(node, joined(before)) if before else node
    for sql in clauses.sql:
        if not sql.named.reads and (clauses.aggregates or clauses.group_by or clauses.windows):
            cursor.fail(f"a statement that changes rows stands after an aggregate: {_OWN}", sql.position)
        node = _with_sql(node, sql)
    node = Filter(node, joined(after)) if after else node
    return _selected(cursor, clauses, node, names)


def _split(cursor: Cursor, clauses: _Clauses, names: Names) -> tuple[tuple[exp.Expr, ...], tuple[exp.Expr, ...]]:
    """WHERE in two: what is about the input alone is asked first, so that the data store is asked less."""
    if clauses.where is None:
        return (), ()
    (condition,) = resolved(cursor, [clauses.where], names)
    if not any(sql.named.reads for sql in clauses.sql):
        return (condition,), ()
    columns_read = {name.lower() for sql in clauses.sql for name, _ in sql.columns}
    every = any(sql.named.reads and not sql.columns for sql in clauses.sql)
    parts = conjuncts(condition)

    def of_the_result(part: exp.Expr) -> bool:
        columns = list(part.find_all(exp.Column))
        return any(column.table or every or column.name.lower() in columns_read for column in columns)

    after = tuple(part for part in parts if of_the_result(part))
    return tuple(part for part in parts if not of_the_result(part)), after


def _selected(cursor: Cursor, clauses: _Clauses, node: Node, names: Names) -> Node:
    columns = resolved(cursor, clauses.columns, names)
    if clauses.aggregates or clauses.group_by:
        return _aggregate(cursor, clauses, node, columns, names)
    if clauses.having is not None:
        cursor.fail("HAVING wants aggregates: a condition on single events belongs in WHERE", clauses.places["HAVING"])
    if clauses.windows:
        extent = _only(cursor, clauses)
        if not isinstance(extent, Batch):
            cursor.fail("a window of tuples or time is for aggregates and joins", clauses.items[0].position)
        node = Window(node, extent)
    return node if clauses.is_star else Map(node, columns)


def _aggregate(cursor: Cursor, clauses: _Clauses, node: Node, columns: tuple[exp.Expr, ...], names: Names) -> Node:
    if not clauses.windows:
        cursor.fail(
            "an aggregate wants a window: ON WINDOW w, with CREATE WINDOW w ON TIME SIZE 1 DAY ADVANCE 1 DAY",
            clauses.items[0].position,
        )
    extent = _only(cursor, clauses)
    keys = resolved(cursor, clauses.group_by, names)
    having = None if clauses.having is None else resolved(cursor, [clauses.having], names)[0]
    return Aggregate(Window(node, extent, tuple(key.copy() for key in keys)), columns, keys, having)


def _only(cursor: Cursor, clauses: _Clauses) -> Extent:
    if len(clauses.windows) > 1:
        cursor.fail("one stream has one window", clauses.items[0].position)
    return clauses.windows[0]
