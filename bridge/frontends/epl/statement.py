"""EPL, the event processing language of Esper: one statement, to query objects.

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
from bridge.frontends.epl import expressions as epl_scalars
from bridge.frontends.epl.aggregates import Asked, aggregated, ever, is_apart, told_before
from bridge.frontends.epl.clauses import Context, Told
from bridge.frontends.epl.contexts import Partitioned, create_context, partitioned, take_context
from bridge.frontends.epl.contexts import named as named_in_context
from bridge.frontends.epl.cursor import EplCursor
from bridge.frontends.epl.declarations import Statement
from bridge.frontends.epl.filters import STOPS, condition
from bridge.frontends.epl.inputs import RESERVED, Item, Joins, asked_by, correlated, names_of, read_joins, tags_of
from bridge.frontends.epl.istream_rstream import (
    both,
    check_join,
    is_mark,
    leaving,
    marked,
    of_join,
    streams_of,
    with_mark,
)
from bridge.frontends.epl.istream_rstream import told as told_later
from bridge.frontends.epl.match_recognize import match_recognize
from bridge.frontends.epl.output import aggregates, paced, sampled, single_events, told
from bridge.frontends.epl.paths import as_written, refuse_where
from bridge.frontends.epl.previous import Priors, with_events
from bridge.frontends.epl.schemas import create_schema, create_variant
from bridge.frontends.epl.select import LATER, columns_in, refuse_lookups, refuse_repeated, refuse_unnamed
from bridge.frontends.epl.subqueries import Subqueries
from bridge.frontends.epl.tables import (
    VERBS,
    change_rows,
    create_table,
    create_window,
    into_table,
    trigger,
)
from bridge.frontends.epl.values import named as named_by_variable
from bridge.frontends.epl.variables import (
    Constants,
    Parts,
    asked_of,
    asking_early,
    create_variable,
    is_filter,
    on_set,
    with_variables,
)
from bridge.frontends.expressions import Names, joined, position_of, resolved
from bridge.frontends.statements import CreateQuery, Query
from bridge.query.epl_columns import as_typeof, with_types
from bridge.query.epl_output import OrderLimitDistinct, RStream, Throttle
from bridge.query.epl_state import Variable
from bridge.query.nodes import Aggregate, Correlate, Filter, Map, Node, Stream, Union, Window, without_filters

_REFUSED = {
    "FOR": "for is not supported: every processor gets the results in order",
    "UNION": "union is not supported",
}
_STATEMENTS = {
    "UPDATE": "update is not supported: insert into, with other columns, says the same",
    "EXPRESSION": "declared expressions are not supported",
    "MODULE": "modules are not supported: create the statements one by one",
    "IMPORT": "import is not supported: functions are the database's",
    "USES": "uses is not supported",
    "MERGE": "merge is not supported",
    "DELETE": "fire-and-forget queries are asked with cep.query",
    "WITH": "with is not supported: insert into names a statement's results",
}
_CREATED = {
    "EXPRESSION": "declared expressions are not supported",
    "INDEX": "create index is not supported: tables have the indexes that the statements want",
    "DATAFLOW": "data flows are not supported",
    "INLINED_CLASS": "inlined classes are not supported: functions are the database's",
    "MAP": "create schema without map: rows are rows",
    "OBJECTARRAY": "create schema without objectarray: rows are rows",
}
_ANNOTATIONS = ("NAME", "PUBLIC", "PRIVATE", "PROTECTED", "DESCRIPTION", "TAG", "BUSEVENTTYPE", "EVENTREPRESENTATION")


def parse(
    text: str,
    variables: Mapping[str, Variable] = MappingProxyType({}),
    contexts: Mapping[str, Context] = MappingProxyType({}),
) -> Sequence[Statement]:
    """What a statement comes to: streams to register, queries with a name of their own, and the one without.

    `variables` are the values that it may name, and `contexts` those that it may stand in, by their names in lower case.

    >>> [type(found).__name__ for found in parse("insert into High select * from S where v > 9")]
    ['CreateQuery', 'Query']
    """
    with reading(text, variables, contexts) as cursor:
        refuse_where(cursor)
        annotated(cursor)
        found = statements_of(cursor)
        if cursor.read:
            found = [Constants(frozenset(cursor.read)), *found]
        cursor.take(";")
        if cursor.peek():
            refuse_next(cursor)
            cursor.fail(f"one statement is wanted here: unexpected {cursor.shown()} after its end")
    return found


@contextlib.contextmanager
def reading(
    text: str,
    variables: Mapping[str, Variable] = MappingProxyType({}),
    contexts: Mapping[str, Context] = MappingProxyType({}),
) -> Iterator[EplCursor]:
    """The cursor of a text, which has something in it."""
    try:
        cursor = EplCursor(text, RESERVED, variables, contexts)
        if not cursor.tokens:
            cursor.fail("the text is empty: a statement reads select … from …")
        yield cursor
    except RecursionError:
        raise QueryError("the statement is nested too deeply", text) from None


def annotated(cursor: Cursor) -> str | None:
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


def statements_of(cursor: EplCursor) -> Sequence[Statement]:
    """Step over a statement; what it comes to."""
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
        return [into_table(cursor, name, _select(cursor), start, position)]
    if cursor.take("ON"):
        by = trigger(cursor)
        if cursor.word() == "SET":
            return [on_set(cursor, by, start)]
        if cursor.word() in VERBS:
            return [change_rows(cursor, by, start)]
        node = _select(cursor, by)
    else:
        node = _in_context(cursor, within, lambda one: _select(cursor, None, one))
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
        node = _select(cursor, None, one)
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
    """The columns of a list in other words: `insert into S (a, b) select x, y`."""
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


def _select(cursor: Cursor, by: Item | None = None, within: Context | None = None) -> Node:
    """`select … from …`; the events of `by` ask for it, where there is one, and it may stand in a context."""
    start = cursor.at
    node = asking_early(_selected(cursor, by, within))
    asks_types = any(token.text.lower() == "typeof" for token in cursor.tokens[start : cursor.at])
    return with_types(node) if asks_types else node


def _in_context(cursor: Cursor, within: Context | None, read: Callable[[Context | None], Node]) -> Node:
    """What is `read` here; in a context of categories it is read, and runs, for each of them."""
    if within is None:
        return read(None)
    start, nodes = cursor.at, list[Node]()
    for one in within.instances:
        cursor.at = start
        nodes.append(read(one))
    return nodes[0] if len(nodes) == 1 else Union(tuple(nodes))


def _selected(cursor: Cursor, by: Item | None, within: Context | None) -> Node:
    cursor.expect("SELECT", " (a statement starts with select, insert into or create schema)")
    is_named = cursor.word() in ("ISTREAM", "RSTREAM", "IRSTREAM") and cursor.word(1) != "("
    which = cursor.word() if is_named else ""
    position = cursor.position
    cursor.at += bool(which)
    distinct = cursor.take("DISTINCT")
    start = cursor.at
    region = cursor.until(STOPS)
    priors = Priors(cursor, which == "IRSTREAM")
    subqueries = Subqueries(cursor, priors.taken)
    columns = subqueries.listed(region, "a list of columns")
    refuse_unnamed(cursor, columns, subqueries, priors)
    cursor.expect("FROM")
    joins = read_joins(cursor) if by is None else asked_by(cursor, by, columns)
    node, names = _source(cursor, joins)
    keyed = partitioned(cursor, within, joins, node)
    node, names = keyed.node, names._replace(values=keyed.values)
    refuse_repeated(cursor, node, Region(start, region.end), columns)
    summed = any(column.find(exp.AggFunc) for column in columns) or isinstance(node, Correlate)
    node, columns = _with_leaving(cursor, which, position, node, columns, within)
    where = resolved(cursor, [condition(cursor, subqueries.listed)], names) if cursor.take("WHERE") else ()
    # What such a condition does not let in is no event before, either.
    first = is_filter(node) and not any(one.name.startswith(LATER) for one in columns_in(where))
    later = () if first else asked_of(where)
    if isinstance(node, Correlate):
        on = (*resolved(cursor, joins.conditions, names), *keyed.conditions)
        on, where = (on, where) if node.outer or subqueries.found or later else (on + where, ())
        node = dataclasses.replace(node, condition=joined(on) if on else None)
    if which in ("RSTREAM", "IRSTREAM") and (subqueries.found or priors.found or asked_of((*columns, *where))):
        cursor.fail(
            f"{which.lower()} with a sub-query, prev, prior or a variable that changes is not supported: insert into names "
            "these",
            position,
        )
    if first and where:
        node = Filter(subqueries.each.over(node, names), joined(where))
    node = with_variables(subqueries.over(priors.over(node, names, keyed.keys), names, keyed), later)
    if where and not first:
        node = Filter(node, joined(where))
    called = (with_events(named_by_variable(named_in_context(as_typeof(column))), names) for column in columns)
    listed = tuple(map(as_written, resolved(cursor, called, names)))
    telling = which if summed and which != "ISTREAM" else ""
    return _projected(cursor, node, listed, names, distinct, keyed, later, telling)


def _with_leaving(
    cursor: Cursor, which: str, position: int, node: Node, columns: tuple[exp.Expr, ...], within: Context | None
) -> tuple[Node, tuple[exp.Expr, ...]]:
    """What `rstream` and `irstream` tell of single rows, and the columns with the mark of the latter.

    Aggregates and joins tell by themselves what leaves.
    """
    aggregating = any(column.find(exp.AggFunc) for column in columns)
    if isinstance(node, Correlate) and which in ("RSTREAM", "IRSTREAM") and not aggregating:
        check_join(cursor, node, position)
        return node, with_mark(columns) if which == "IRSTREAM" else columns
    if which == "RSTREAM" and not aggregating:
        return leaving(cursor, node, position), columns
    if which != "IRSTREAM":
        return node, columns
    if within is not None and within.label is not None:
        cursor.fail("irstream in a context of categories is not supported: a statement for each, S(v < 0)", position)
    if aggregating:
        return node, with_mark(columns)
    node = both(cursor, node, position)
    return node, marked(columns, node)


def _source(cursor: Cursor, joins: Joins) -> tuple[Node, Names]:
    """What is selected from, and the qualifiers of its columns."""
    if len(joins.items) == 1:
        alias, node, position, _ = joins.items[0]
        tags = tags_of(node)
        if cursor.word() != "MATCH_RECOGNIZE":
            return node, Names(alias, tags)
        if tags:
            cursor.fail("match_recognize reads a stream: insert into names a pattern's results", position)
        return match_recognize(cursor, alias)(node), Names(None, ())
    if cursor.word() == "MATCH_RECOGNIZE":
        cursor.fail("match_recognize reads one stream: insert into names a join's results")
    return correlated(cursor, joins), names_of(joins)


def _projected(
    cursor: Cursor,
    node: Node,
    columns: tuple[exp.Expr, ...],
    names: Names,
    distinct: bool,
    keyed: Partitioned,
    there: tuple[str, ...],
    telling: str,
) -> Node:
    """The list of columns, and what follows it; the values of the variables that are `there` the rows have."""
    keys: tuple[exp.Expr, ...] = keyed.keys
    grouped = cursor.take("GROUP BY")
    if grouped:
        listed = resolved(cursor, epl_scalars.listed(cursor, cursor.until(STOPS), "a column to group by"), names)
        keys += tuple(key for key in listed if key not in keys)
    position = cursor.position
    having = resolved(cursor, [condition(cursor)], names) if cursor.take("HAVING") else ()
    asked = told(cursor, distinct, names)
    refuse_next(cursor)
    changing = asked_of((*columns, *having))
    if asked.pace is not None and changing:
        cursor.fail("output with a variable that changes is not supported: insert into names it", asked.pace.position)
    aggregating = grouped or any(column.find(exp.AggFunc) for column in (*columns, *having))
    keyed.check_telling(node, asked, aggregating)
    if asked.pace is not None and asked.pace.kind == "snapshot":
        node, asked = sampled(cursor, node, asked.pace, aggregating), dataclasses.replace(asked, pace=None)
    if aggregating and changing:
        parts = Parts.of(cursor, columns, having, asked, position)
        refuse_lookups(cursor, node, parts.inner, position)
        return parts.over(aggregated(cursor, node, Asked(parts.inner, keys, None), position))
    if aggregating:
        refuse_lookups(cursor, node, columns, position)
        if telling:
            return _told_before(cursor, node, Asked(columns, keys, having[0] if having else None), telling, asked)
        if isinstance(without_filters(node), (RStream, Union)):
            cursor.fail("rstream with aggregates is not supported: insert rstream into names what leaves", position)
        of = Asked(columns, keys, having[0] if having else None)
        if is_apart(node, columns):
            return ever(cursor, node, of, asked, position)
        return aggregates(cursor, aggregated(cursor, node, of, position), asked)
    if telling:
        at = position_of(columns[0]) if columns else None
        _refuse_arranged(cursor, f"{telling.lower()} of a join", bool(having), asked, at)
        return of_join(node, columns, telling == "IRSTREAM")
    node = with_variables(node, (name for name in changing if name not in there))
    if having:
        node = Filter(node, having[0])  # without aggregates it says the same as where
    return single_events(cursor, node, columns, asked, keyed.keys)


def _told_before(cursor: Cursor, node: Node, listed: Asked, telling: str, asked: Told) -> Node:
    """What `rstream` or `irstream` tell of aggregates."""
    bare = [column for column in listed.columns if not any(map(is_mark, column.walk()))]
    if dataclasses.replace(listed, columns=tuple(bare)).is_per_event:
        cursor.fail(
            f"values of single events beside aggregates are not supported with {telling.lower()}: group by them",
            listed.position,
        )
    pace = asked.pace
    is_plain = pace is not None and pace.kind == "all" and not pace.is_said and pace.time is not None
    rest = dataclasses.replace(asked, pace=None) if is_plain else asked
    _refuse_arranged(cursor, f"{telling.lower()} of aggregates", listed.having is not None, rest, listed.position)

    def aggregate(columns: tuple[exp.Expr, ...]) -> Aggregate:
        return aggregated(cursor, node, Asked(columns, listed.keys, None), listed.position or 0)

    found = told_before(cursor, telling, listed.columns, aggregate)
    if pace is None:
        return found
    mark = next((column.alias_or_name for column in listed.columns if is_mark(column.unalias())), None)
    return paced(cursor, found, pace) if mark is None else told_later(found, pace, mark)


def _refuse_arranged(cursor: Cursor, what: str, has_having: bool, asked: Told, position: int | None) -> None:
    """Of what leaves, too, all is told at once: `what` is `rstream of a join`, say."""
    if has_having or asked.pace is not None or asked.is_arranged or asked.distinct:
        cursor.fail(
            f"{what} with having, output, order by, limit or distinct is not supported: insert {what.split()[0]} into "
            "names what is told",
            position,
        )


def refuse_next(cursor: Cursor) -> None:
    if cursor.word() in _REFUSED:
        cursor.fail(_REFUSED[cursor.word()])
