"""CPL's INSERT INTO … SELECT … FROM: the operators of the algebra that a statement becomes.

The clauses are found by their words, as in `frontends.select`; sqlglot parses only the expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import TokenType, exp

from bridge.frontends.cpl.clauses import Clauses, CplInput, NamedStatement, OnSql, clauses_of
from bridge.frontends.cursor import Cursor
from bridge.frontends.expressions import Qualifiers, all_of, resolve, single_expression
from bridge.query.nodes import Aggregate, Correlate, Filter, Map, Node, Stream, Window
from bridge.query.scripts import EqualUnion, IntoTable, MultiFilter, ReadSQL, UpdateSQL
from windows.extent import Extent
from windows.extents import Batch, Range
from windows.sql import conjuncts, identifier

_OWN = "put it into a statement of its own: INSERT INTO … SELECT * FROM …"


class CplInsert(NamedTuple):
    """A statement: its name, its outputs, its tree, the streams that it reads with their offsets, and its offset."""

    name: str
    outputs: tuple[str, ...]
    node: Node
    reads: tuple[tuple[str, int], ...]
    position: int


def insert(cursor: Cursor, windows: Mapping[str, Extent], statements: Mapping[str, NamedStatement]) -> CplInsert:
    """Steps over a statement whose INSERT was already read."""
    cursor.expect("INTO")
    position = cursor.position
    if cursor.take("TABLE"):
        table = cursor.name("the name of a table")
        clauses = clauses_of(cursor, windows, statements)
        name = f"table {table}"
        return CplInsert(name, (name,), IntoTable(_node(cursor, clauses), table), _reads(clauses), position)
    routes = _routes(cursor)
    clauses = clauses_of(cursor, windows, statements)
    node = _node(cursor, clauses)
    outputs = tuple(name for name, _ in routes)
    conditions = [condition for _, condition in routes if condition is not None]
    if conditions:
        names = Qualifiers(None, ())
        node = MultiFilter(node, tuple(zip(outputs, resolve(cursor, conditions, names), strict=True)))
    return CplInsert(outputs[0], outputs, node, _reads(clauses), position)


def _routes(cursor: Cursor) -> list[tuple[str, exp.Expr | None]]:
    """`a`, or `a WHEN condition, b WHEN condition`; the second form is a MultiFilter."""
    name = _output(cursor, "the name of the output stream")
    if cursor.word() == ",":
        cursor.fail("several outputs want their conditions: INSERT INTO a WHEN …, b WHEN … SELECT …")
    if cursor.word() != "WHEN":
        return [(name, None)]
    routes: list[tuple[str, exp.Expr | None]] = []
    while True:
        cursor.expect("WHEN", " (the condition for a row to go into this output)")
        routes.append((name, single_expression(cursor, cursor.until((",", "SELECT")), "a condition")))
        if not cursor.take(","):
            return routes
        position = cursor.position
        name = _output(cursor, "the name of the next output stream")
        if name.lower() in (other.lower() for other, _ in routes):
            cursor.fail(f"{name!r} is an output twice: join its conditions with OR", position)


def _output(cursor: Cursor, what: str) -> str:
    """Steps over the name of an output, which in the paper may be any literal string: `'daily bill'`."""
    token = cursor.peek()
    if token is None or token.token_type != TokenType.STRING or not token.text:
        return cursor.name(what)
    cursor.at += 1
    return token.text


def _reads(clauses: Clauses) -> tuple[tuple[str, int], ...]:
    return tuple((item.name, item.position) for item in clauses.items)


# Clauses --------------------------------------------------------------------------------------------------------------


# ON SQL ---------------------------------------------------------------------------------------------------------------


def _with_sql(node: Node, sql: OnSql) -> Node:
    parameters = tuple(_field(name, position) for name, position in sql.fields)
    named = sql.statement
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


def _node(cursor: Cursor, clauses: Clauses) -> Node:
    if len(clauses.items) == 1:
        return _over_one_stream(cursor, clauses)
    if not clauses.windows:
        return _union(cursor, clauses)
    return _join(cursor, clauses)


def _union(cursor: Cursor, clauses: Clauses) -> Node:
    """Merged streams, then WHERE and the fields. A field of only one of the streams would mean a join."""
    for name in ("WHERE", "GROUP BY", "HAVING"):
        if name in clauses.places and (name != "WHERE" or _is_qualified(clauses.where)):
            cursor.fail(
                f"{name} over several streams joins them, which wants ON WINDOW; "
                "after a union it is a statement of its own",
                clauses.places[name],
            )
    if clauses.sql:
        cursor.fail(f"ON SQL reads one stream: {_OWN}", clauses.sql[0].position)
    if clauses.aggregates or any(map(_is_qualified, clauses.columns)):
        cursor.fail(
            "several streams are merged by SELECT * FROM a, b, or joined by ON WINDOW", clauses.items[0].position
        )
    names = Qualifiers(None, ())
    node: Node = EqualUnion(tuple(Stream(item.name) for item in clauses.items))
    if clauses.where is not None:
        node = Filter(node, all_of(resolve(cursor, [clauses.where], names)))
    return node if clauses.is_star else Map(node, resolve(cursor, clauses.columns, names))


def _is_qualified(expression: exp.Expr | None) -> bool:
    return expression is not None and any(column.table for column in expression.find_all(exp.Column))


def _join(cursor: Cursor, clauses: Clauses) -> Node:
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
    names = Qualifiers(None, tuple(item.alias for item in clauses.items))
    conditions = () if clauses.where is None else resolve(cursor, [clauses.where.copy()], names)
    conditions += tuple(_same_group(clauses.items, key) for key in clauses.group_by)
    inputs = tuple((i.alias, Window(Stream(i.name), extent)) for i, extent in zip(clauses.items, extents, strict=True))
    node: Node = Correlate(inputs, all_of(conditions) if conditions else None)
    return node if clauses.is_star else Map(node, resolve(cursor, clauses.columns, names))


def _sliding(cursor: Cursor, extent: Extent, clauses: Clauses) -> Extent:
    """C4: a join's window holds rows up to this age; they leave in steps of `advance`."""
    if not isinstance(extent, Range):
        cursor.fail("a join has windows ON TIME, to be deterministic", clauses.items[0].position)
    return Range(extent.size, step=extent.slide if extent.slide != 1 else None)


def _same_group(items: list[CplInput], key: exp.Expr) -> exp.Expr:
    """GROUP BY of a join: joined rows are of one group. NULL is a group, as in any GROUP BY."""
    sides = []
    for item in items:
        side = key.copy()
        for column in side.find_all(exp.Column):
            column.set("table", identifier(item.alias))
        sides.append(side)
    return exp.NullSafeEQ(this=sides[0], expression=sides[1])


def _over_one_stream(cursor: Cursor, clauses: Clauses) -> Node:
    item, tables = clauses.items[0], tuple(sql.table for sql in clauses.sql if sql.statement.reads)
    names = Qualifiers(item.alias, tables)
    before, after = _split(cursor, clauses, names)
    node: Node = Stream(item.name)
    node = Filter(node, all_of(before)) if before else node
    for sql in clauses.sql:
        if not sql.statement.reads and (clauses.aggregates or clauses.group_by or clauses.windows):
            cursor.fail(f"a statement that changes rows stands after an aggregate: {_OWN}", sql.position)
        node = _with_sql(node, sql)
    node = Filter(node, all_of(after)) if after else node
    return _selected(cursor, clauses, node, names)


def _split(cursor: Cursor, clauses: Clauses, names: Qualifiers) -> tuple[tuple[exp.Expr, ...], tuple[exp.Expr, ...]]:
    """WHERE in two parts: the conditions on the input alone are checked first, to ask the data store less often."""
    if clauses.where is None:
        return (), ()
    (condition,) = resolve(cursor, [clauses.where], names)
    if not any(sql.statement.reads for sql in clauses.sql):
        return (condition,), ()
    columns_read = {name.lower() for sql in clauses.sql for name, _ in sql.columns}
    every = any(sql.statement.reads and not sql.columns for sql in clauses.sql)
    parts = conjuncts(condition)

    def of_the_result(part: exp.Expr) -> bool:
        columns = list(part.find_all(exp.Column))
        return any(column.table or every or column.name.lower() in columns_read for column in columns)

    after = tuple(part for part in parts if of_the_result(part))
    return tuple(part for part in parts if not of_the_result(part)), after


def _selected(cursor: Cursor, clauses: Clauses, node: Node, names: Qualifiers) -> Node:
    columns = resolve(cursor, clauses.columns, names)
    if clauses.aggregates or clauses.group_by:
        return _aggregate(cursor, clauses, node, columns, names)
    if clauses.having is not None:
        cursor.fail("HAVING wants aggregates: a condition on single events belongs in WHERE", clauses.places["HAVING"])
    if clauses.windows:
        extent = _only_window(cursor, clauses)
        if not isinstance(extent, Batch):
            cursor.fail("a window of tuples or time is for aggregates and joins", clauses.items[0].position)
        node = Window(node, extent)
    return node if clauses.is_star else Map(node, columns)


def _aggregate(cursor: Cursor, clauses: Clauses, node: Node, columns: tuple[exp.Expr, ...], names: Qualifiers) -> Node:
    if not clauses.windows:
        cursor.fail(
            "an aggregate wants a window: ON WINDOW w, with CREATE WINDOW w ON TIME SIZE 1 DAY ADVANCE 1 DAY",
            clauses.items[0].position,
        )
    extent = _only_window(cursor, clauses)
    keys = resolve(cursor, clauses.group_by, names)
    having = None if clauses.having is None else resolve(cursor, [clauses.having], names)[0]
    columns, having = _with_newest_row(columns, keys, having)
    return Aggregate(Window(node, extent, tuple(key.copy() for key in keys)), columns, keys, having)


def _with_newest_row(
    columns: tuple[exp.Expr, ...], keys: tuple[exp.Expr, ...], having: exp.Expr | None
) -> tuple[tuple[exp.Expr, ...], exp.Expr | None]:
    """The columns and HAVING, in which fields outside aggregates and keys belong to the window's newest row.

    This is f(t, W) in the paper's Table 2: t is the event that arrives, W the window that contains it.
    """
    aliases = [exp.column(column.args["alias"].copy()) for column in columns if isinstance(column, exp.Alias)]
    found = []
    for column in columns:
        value = _of_newest_row(column.unalias(), keys)
        is_key = isinstance(column, exp.Alias) and exp.column(column.args["alias"].copy()) in keys
        name = column.alias_or_name or column.sql()
        found.append(column if is_key or value == column.unalias() else exp.alias_(value, name, quoted=True))
    return tuple(found), None if having is None else _of_newest_row(having, (*keys, *aliases))


def _of_newest_row(expression: exp.Expr, keys: tuple[exp.Expr, ...]) -> exp.Expr:
    holder = exp.Paren(this=expression.copy())
    for column in list(holder.find_all(exp.Column)):
        if not _is_aggregated(column, keys):
            column.replace(exp.Last(this=column.copy()))
    result: exp.Expr = holder.this.pop()
    return result


def _is_aggregated(column: exp.Column, keys: tuple[exp.Expr, ...]) -> bool:
    """Whether a column is part of a key or an argument of a call.

    An unknown function may be an aggregate of the database.
    """
    node: exp.Expr | None = column
    while node is not None:
        if isinstance(node, (exp.AggFunc, exp.Anonymous)) or node in keys:
            return True
        node = node.parent
    return False


def _only_window(cursor: Cursor, clauses: Clauses) -> Extent:
    if len(clauses.windows) > 1:
        cursor.fail("one stream has one window", clauses.items[0].position)
    return clauses.windows[0]
