"""EPL's SELECT: its clauses in order, from text to query objects, and its refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from sqlglot import exp

from bridge.frontends.cursor import Cursor, Region
from bridge.frontends.epl import expressions as epl_expressions
from bridge.frontends.epl.aggregates import (
    AggregateRequest,
    aggregate_over,
    needs_running_aggregates,
    reported_changes,
    with_running_aggregates,
)
from bridge.frontends.epl.clauses import Context, OutputClauses
from bridge.frontends.epl.column_names import named_as_written
from bridge.frontends.epl.contexts import ContextSource, context_source
from bridge.frontends.epl.contexts import named_by_context as named_in_context
from bridge.frontends.epl.enumerations import EACH
from bridge.frontends.epl.expressions import STOPS, condition
from bridge.frontends.epl.inputs import Item, Joins, correlated, joined_by_trigger, read_joins, scope_of, tags_of
from bridge.frontends.epl.istream_rstream import (
    both_streams,
    check_join,
    expired_rows,
    is_mark,
    of_join,
    per_period,
    with_mark,
    with_mark_over,
)
from bridge.frontends.epl.match_recognize import match_recognize
from bridge.frontends.epl.output import aggregates, at_rate, output_clauses, single_events, snapshot
from bridge.frontends.epl.paths import as_written
from bridge.frontends.epl.previous import BEFORE, PreviousValues, with_whole_events
from bridge.frontends.epl.subqueries import COLUMN_PREFIX, Subqueries
from bridge.frontends.epl.values import named_by_variable as named_by_variable
from bridge.frontends.epl.variables import SplitColumns, is_filter, variables_of, with_early_values, with_variables
from bridge.frontends.expressions import Qualifiers, all_of, position_of, resolve
from bridge.query.epl_columns import Enumeration, PreviousRow, SubqueryColumn, as_typeof, with_types
from bridge.query.epl_output import RStream
from bridge.query.epl_patterns import TemporalMatch
from bridge.query.epl_state import CURRENT
from bridge.query.nodes import Aggregate, Correlate, Filter, Node, Union, Window, walk, without_filters

_REFUSED = {"FOR": "for is not supported: every processor gets the results in order", "UNION": "union is not supported"}

_LATER = (COLUMN_PREFIX, BEFORE)
"""The prefixes of the names of columns for sub-queries, and for values of earlier events."""


def select(cursor: Cursor, by: Item | None = None, within: Context | None = None) -> Node:
    """`select … from …`; it may be triggered by the events of `by`, and be in a context."""
    start = cursor.at
    node = with_early_values(_selected(cursor, by, within))
    asks_types = any(token.text.lower() == "typeof" for token in cursor.tokens[start : cursor.at])
    return with_types(node) if asks_types else node


def _selected(cursor: Cursor, by: Item | None, within: Context | None) -> Node:
    cursor.expect("SELECT", " (a statement starts with select, insert into or create schema)")
    is_named = cursor.word() in ("ISTREAM", "RSTREAM", "IRSTREAM") and cursor.word(1) != "("
    which = cursor.word() if is_named else ""
    position = cursor.position
    cursor.at += bool(which)
    distinct = cursor.take("DISTINCT")
    start = cursor.at
    region = cursor.until(STOPS)
    priors = PreviousValues(cursor, which == "IRSTREAM")
    subqueries = Subqueries(cursor, priors.extracted)
    columns = subqueries.expressions(region, "a list of columns")
    _refuse_unnamed(cursor, columns, subqueries, priors)
    columns = named_as_written(cursor, region, columns)
    cursor.expect("FROM")
    joins = read_joins(cursor) if by is None else joined_by_trigger(cursor, by, columns)
    node, names = _source(cursor, joins)
    keyed = context_source(cursor, within, joins, node, start)
    node, names, columns = keyed.node, names._replace(values=keyed.values), keyed.column_list(columns)
    _refuse_repeated(cursor, node, Region(start, region.end), columns)
    summed = any(column.find(exp.AggFunc) for column in columns) or isinstance(node, Correlate)
    node, columns = _with_leaving(cursor, which, position, node, columns, within)
    where = resolve(cursor, [condition(cursor, subqueries.expressions)], names) if cursor.take("WHERE") else ()
    # An event that such a condition omits is not an earlier event, either.
    first = is_filter(node) and not any(one.name.startswith(_LATER) for one in _columns_in(where))
    later = () if first else variables_of(where)
    if isinstance(node, Correlate):
        on = (*resolve(cursor, joins.conditions, names), *keyed.conditions)
        on, where = (on, where) if node.outer or subqueries.calls or later else (on + where, ())
        node = dataclasses.replace(node, condition=all_of(on) if on else None)
    if which in ("RSTREAM", "IRSTREAM") and (subqueries.calls or priors.calls or variables_of((*columns, *where))):
        cursor.fail(
            f"{which.lower()} with a sub-query, prev, prior or a variable that changes is not supported: insert "
            "these into a stream, and read that",
            position,
        )
    if first and where:
        node = Filter(subqueries.each.over(node, names), all_of(where))
    node = with_variables(subqueries.over(priors.over(node, names, keyed.keys), names, keyed), later)
    if where and not first:
        node = Filter(node, all_of(where))
    called = (with_whole_events(named_by_variable(named_in_context(as_typeof(column))), names) for column in columns)
    listed = tuple(map(as_written, resolve(cursor, called, names)))
    stream_keyword = which if summed and which != "ISTREAM" else ""
    return _projected(cursor, node, listed, names, distinct, keyed, later, stream_keyword)


def _with_leaving(
    cursor: Cursor, which: str, position: int, node: Node, columns: tuple[exp.Expr, ...], within: Context | None
) -> tuple[Node, tuple[exp.Expr, ...]]:
    """The rows that `rstream` and `irstream` report without aggregates, and the columns, for irstream with its mark.

    Aggregates and joins report themselves what leaves.
    """
    aggregating = any(column.find(exp.AggFunc) for column in columns)
    if isinstance(node, Correlate) and which in ("RSTREAM", "IRSTREAM") and not aggregating:
        check_join(cursor, node, position)
        return node, with_mark(columns) if which == "IRSTREAM" else columns
    if which == "RSTREAM" and not aggregating:
        return expired_rows(cursor, node, position), columns
    if which != "IRSTREAM":
        return node, columns
    if within is not None and within.label is not None:
        cursor.fail("irstream in a context of categories is not supported: a statement for each, S(v < 0)", position)
    if aggregating:
        return node, with_mark(columns)
    node = both_streams(cursor, node, position)
    return node, with_mark_over(columns, node)


def _source(cursor: Cursor, joins: Joins) -> tuple[Node, Qualifiers]:
    """The input of the statement, and the qualifiers of its columns."""
    if len(joins.items) == 1:
        alias, node, position, _ = joins.items[0]
        tags = tags_of(node)
        if cursor.word() != "MATCH_RECOGNIZE":
            return node, Qualifiers(alias, tags)
        if tags:
            cursor.fail("match_recognize reads a stream: insert a pattern's results into one", position)
        return match_recognize(cursor, alias)(node), Qualifiers(None, ())
    if cursor.word() == "MATCH_RECOGNIZE":
        cursor.fail("match_recognize reads one stream: insert a join's results into one")
    return correlated(cursor, joins), scope_of(joins)


def _projected(
    cursor: Cursor,
    node: Node,
    columns: tuple[exp.Expr, ...],
    names: Qualifiers,
    distinct: bool,
    context: ContextSource,
    known_variables: tuple[str, ...],
    stream_keyword: str,
) -> Node:
    """The list of columns and the clauses after it; the rows already have the values of `known_variables`."""
    keys: tuple[exp.Expr, ...] = context.keys
    grouped = cursor.take("GROUP BY")
    if grouped and cursor.word() in ("ROLLUP", "CUBE", "GROUPING SETS", "GROUPING"):
        cursor.fail(f"{cursor.word().lower()} is not supported: a statement for each list of columns")
    if grouped:
        listed = resolve(
            cursor, epl_expressions.expression_list(cursor, cursor.until(STOPS), "a column to group by"), names
        )
        keys += tuple(key for key in listed if key not in keys)
    position = cursor.position
    having = resolve(cursor, [condition(cursor)], names) if cursor.take("HAVING") else ()
    clauses = output_clauses(cursor, distinct, names)
    refuse_next(cursor)
    changing = variables_of((*columns, *having))
    if clauses.rate is not None and changing:
        cursor.fail(
            "output with a variable that changes is not supported: insert its values into a stream",
            clauses.rate.position,
        )
    aggregating = grouped or any(column.find(exp.AggFunc) for column in (*columns, *having))
    context.check_output(node, clauses, aggregating)
    if clauses.rate is not None and clauses.rate.kind == "snapshot":
        node, clauses = snapshot(cursor, node, clauses.rate, aggregating), dataclasses.replace(clauses, rate=None)
    if aggregating:
        of = AggregateRequest(columns, keys, having[0] if having else None)
        return _aggregated(cursor, node, of, having if changing else None, clauses, stream_keyword, position)
    if stream_keyword:
        at = position_of(columns[0]) if columns else None
        _refuse_arranged(cursor, f"{stream_keyword.lower()} of a join", bool(having), clauses, at)
        return of_join(node, columns, stream_keyword == "IRSTREAM")
    node = with_variables(node, (name for name in changing if name not in known_variables))
    return single_events(cursor, node, columns, clauses, context.keys, having[0] if having else None)


def _aggregated(
    cursor: Cursor,
    node: Node,
    of: AggregateRequest,
    changing: tuple[exp.Expr, ...] | None,
    clauses: OutputClauses,
    stream_keyword: str,
    position: int,
) -> Node:
    """The requested aggregates. `changing`: HAVING's condition, if variables that change are read."""
    if changing is not None:
        parts = SplitColumns.of(cursor, of.columns, changing, clauses, position)
        _refuse_lookups(cursor, node, parts.inner, position)
        return parts.over(aggregate_over(cursor, node, AggregateRequest(parts.inner, of.keys, None), position))
    _refuse_lookups(cursor, node, of.columns, position)
    if stream_keyword:
        return _reported_before(cursor, node, of, stream_keyword, clauses)
    if isinstance(without_filters(node), (RStream, Union)):
        cursor.fail("rstream with aggregates is not supported: insert rstream into names what leaves", position)
    if needs_running_aggregates(node, of.columns):
        return with_running_aggregates(cursor, node, of, clauses, position)
    return aggregates(cursor, aggregate_over(cursor, node, of, position), clauses)


def _reported_before(
    cursor: Cursor, node: Node, listed: AggregateRequest, stream_keyword: str, clauses: OutputClauses
) -> Node:
    """The results of `rstream` or `irstream` over aggregates."""
    bare = [column for column in listed.columns if not any(map(is_mark, column.walk()))]
    if dataclasses.replace(listed, columns=tuple(bare)).is_per_event:
        cursor.fail(
            f"values of single events beside aggregates are not supported with {stream_keyword.lower()}: group by them",
            listed.position,
        )
    rate = clauses.rate
    is_plain = rate is not None and rate.kind == "all" and not rate.is_explicit and rate.time is not None
    rest = dataclasses.replace(clauses, rate=None) if is_plain else clauses
    _refuse_arranged(
        cursor, f"{stream_keyword.lower()} of aggregates", listed.having is not None, rest, listed.position
    )

    def aggregate(columns: tuple[exp.Expr, ...]) -> Aggregate:
        return aggregate_over(cursor, node, AggregateRequest(columns, listed.keys, None), listed.position or 0)

    found = reported_changes(cursor, stream_keyword, listed.columns, aggregate)
    if rate is None:
        return found
    mark = next((column.alias_or_name for column in listed.columns if is_mark(column.unalias())), None)
    return at_rate(cursor, found, rate) if mark is None else per_period(found, rate, mark)


# Refusals


def _columns_in(expressions: Sequence[exp.Expr]) -> Iterator[exp.Column]:
    """All columns that the expressions name."""
    return (column for expression in expressions for column in expression.find_all(exp.Column))


def _refuse_unnamed(cursor: Cursor, columns: tuple[exp.Expr, ...], cut: Subqueries, priors: PreviousValues) -> None:
    """Refuses a column without a name if it has a sub-query, a method of a list, or a value of an earlier event."""
    places: dict[str, int | None] = {one.name: one.position for one in cut.calls}
    places |= {one.name: one.position for one in cut.each.calls}
    places |= {one.name: one.position for one in priors.calls}
    for column in columns:
        inside = [name for one in column.find_all(exp.Column) for name in (one.table, one.name) if name in places]
        if inside and not isinstance(column, exp.Alias):
            cursor.fail("a column with a sub-query, a method, prev or prior is named: … as x", places[inside[0]])


def _refuse_repeated(cursor: Cursor, node: Node, region: Region, columns: tuple[exp.Expr, ...]) -> None:
    """Refuses `select *` from a pattern that repeats an event."""
    patterns = (below for below in walk(node) if isinstance(below, TemporalMatch))
    found = (
        tag
        for below in patterns
        for number, tag, several in below.tags
        if several and not any(one.number == number and one.is_whole for one in below.event_columns)
    )
    if columns == (exp.Star(),) and (tag := next(found, None)) is not None:
        message = f"select * cannot show {tag!r}, which stands for several events: name {tag}[0].…, {tag}.lastOf().…"
        cursor.fail(message, cursor.span(region)[0])


def _refuse_lookups(cursor: Cursor, node: Node, columns: tuple[exp.Expr, ...], position: int) -> None:
    """Refuses sub-queries where rows leave a window, as their values are known only when an event arrives."""
    below, looks_up = node, False
    while isinstance(below, (Filter, SubqueryColumn, PreviousRow, Enumeration)):
        looks_up, below = looks_up or not isinstance(below, Filter), below.input
    if looks_up and isinstance(below, (Window, Correlate)):
        cursor.fail(
            "aggregates over a window with a sub-query, prev, prior or a variable that changes are not supported: insert "
            "into names these",
            position,
        )
    if any(one.name.startswith((*_LATER, EACH, CURRENT)) for one in _columns_in(columns)):
        cursor.fail(
            "a sub-query, a method on a list, prev, prior or a variable that changes beside aggregates is not supported: "
            "insert it into a stream, and read that",
            position,
        )


def _refuse_arranged(cursor: Cursor, what: str, has_having: bool, clauses: OutputClauses, position: int | None) -> None:
    """Refuses other output clauses where rows leave, as these are all reported at once.

    `what`: for example `rstream of a join`.
    """
    if has_having or clauses.rate is not None or clauses.is_arranged or clauses.distinct:
        cursor.fail(
            f"{what} with having, output, order by, limit or distinct is not supported: insert {what.split()[0]} into "
            "names what is reported",
            position,
        )


def refuse_next(cursor: Cursor) -> None:
    if cursor.word() in _REFUSED:
        cursor.fail(_REFUSED[cursor.word()])
