"""Sub-queries of EPL: a column whose value is read from another window's content when a row arrives."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlglot import exp

from bridge import query
from bridge.errors import QueryError
from bridge.query.epl_state import CURRENT, EARLY, SetVariables, with_variable
from bridge.rewrite.flow import Flow, Need, Selection, arrived_and_valid, not_later
from bridge.rewrite.joins.branch import equal_columns
from bridge.rewrite.joins.correlate import rows_of_relation
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Operator
from bridge.rewrite.windows.row_count import oldest_seq, stored_rows
from bridge.rewrite.windows.top import order_of
from windows.databases import Database
from windows.sql import aliased, column, column_of, conjuncts, derived_table, number, parenthesized, qualify_columns


@rewrite.register
def _(node: query.SubqueryColumn, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        value = _value_of_same_event(node, network)
        if value is None:
            inner = _source(node.source, network)
            for name, indexed in _indexes(node, inner) if network.database.uses_indexes else ():
                network.index(name, indexed)
            value = _subquery(node, below, inner, network.database)
        if isinstance(node.source, query.Relation) and _is_variable(node):
            operator.variables[node.source.name] = network.types(node, hidden=True)[node.name]
        operator.result = with_column(node.name, below, value)

    tables = [node.source.name.lower()] if isinstance(node.source, query.Relation) else []
    is_state, title = network.state_changes.concern(tables), f"SubqueryColumn {node.name}"
    if node.early and _reads_stream(node, network):
        operator = network.operator(
            node, build, title, epoch=0
        )  # it stands before the statements that change the table
    else:
        operator = network.operator(node, build, title, key=network.state_changes.key(node, tables))
    return network.give(operator, node, max(need, Need.ARRIVALS) if is_state else need)


def _is_variable(node: query.SubqueryColumn) -> bool:
    """Whether the column is the value of a variable."""
    return node.name.startswith((CURRENT, EARLY))


def _source(node: query.Node, network: Network) -> Flow | Selection:
    """The rows of the sub-query: the content of a window, or a table."""
    if isinstance(node, query.Relation):
        return rows_of_relation(node, network)
    return network.rewrite(node, Need.CONTENT)


def with_column(name: str, below: Flow, value: exp.Expr) -> Flow:
    """The arrivals `t` with a further column."""
    own = list(below.arrivals.columns)
    rows = derived_table(below.arrivals.select(), "t")
    select = exp.select(*(column_of("t", name) for name in own), aliased(value, name)).from_(rows)
    return Flow(
        (*below.names, name),
        Selection.of(exp.Subquery(this=select), [*own, name]),
        order=below.order,
        timed=below.timed,
        hidden=(*below.hidden, name),
    )


def _subquery(node: query.SubqueryColumn, below: Flow, inner: Flow | Selection, database: Database) -> exp.Expr:
    """The sub-query over the rows `w` that are in the window when the row `t` arrives, and those of its event."""
    content, inside = (inner, []) if isinstance(inner, Selection) else _in_window(inner, below.timed, database)
    prefix = f"{node.name}."

    def bound(expression: exp.Expr) -> exp.Expr:
        def own(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column):
                return part
            if not part.name.startswith(prefix):
                return column_of("t", part.name)
            return parenthesized(_computed(part.name.removeprefix(prefix), content))

        return expression.transform(own)

    conditions = [*(_of_content(condition, content) for condition in inside), *content.conditions_of("w")]
    if node.condition is not None:
        conditions.append(parenthesized(bound(node.condition)))
    rows = exp.select().from_(content.item("w")).where(*conditions)
    if node.value is None:
        return exp.Exists(this=rows.select(number(1)))
    value = bound(node.value)
    if node.place is not None:
        assert isinstance(inner, Flow)
        return exp.Subquery(this=_at_place(rows.select(value), node, inner))
    if _is_variable(node):
        return exp.Subquery(this=rows.select(value))
    if node.operand is not None:
        return exp.In(this=parenthesized(bound(node.operand)), query=exp.Subquery(this=rows.select(value)))
    if not value.find(exp.AggFunc):
        alone = exp.EQ(this=exp.Count(this=exp.Star()), expression=number(1))
        value = exp.Case().when(alone, _only_value(value, database))
    return exp.Subquery(this=rows.select(value))


def _in_window(inner: Flow, timed: bool, database: Database) -> tuple[Selection, list[exp.Expr]]:
    """The rows `w`, and the conditions under which a row is in the window when the row `t` arrives.

    An index finds the oldest of the last rows. Otherwise each row is compared with the row that evicts it.
    """
    assert inner.content is not None
    last = inner.last if inner.is_last_rows and not timed else None
    if last is None or last.keys or not (database.uses_indexes and database.index_range_joins):
        return inner.content, arrived_and_valid("w", "t", inner, timed or inner.timed)
    oldest = oldest_seq(inner, column_of("t", "seq"), inclusive=False)
    since = exp.GTE(this=column_of("w", "seq"), expression=oldest)
    return stored_rows(inner.content, last), [not_later("w", "t", (), timed=False), since]


def _indexes(node: query.SubqueryColumn, inner: Flow | Selection) -> Iterator[tuple[str, tuple[str, str]]]:
    """The window table with columns to index: a column that the condition equates with the row's, and time."""
    if isinstance(inner, Selection) or inner.content is None or inner.size in (None, 1) or node.condition is None:
        return
    prefix, stored = f"{node.name}.", inner.content.source
    names = {each.name for each in node.condition.find_all(exp.Column)}
    outputs = {name: ("w" if name.startswith(prefix) else "t", name.removeprefix(prefix)) for name in names}
    for mine, _ in equal_columns(conjuncts(node.condition), outputs):
        alias, name = outputs[mine.name]
        value = inner.content.columns[name] if alias == "w" else None
        if isinstance(value, exp.Column) and isinstance(stored, exp.Table):
            yield stored.name, (value.name, "ts")


def _only_value(value: exp.Expr, database: Database) -> exp.Expr:
    """An aggregate whose value is the value of the only row."""
    if database.has_all_extremes:
        return exp.Min(this=value)
    # This sorts values, as values of every type can be sorted, even booleans and JSON.
    order = exp.Order(expressions=[exp.Ordered(this=value, nulls_first=False)])
    return exp.WithinGroup(this=exp.Mode(), expression=order)


def _at_place(rows: exp.Select, node: query.SubqueryColumn, inner: Flow) -> exp.Select:
    """The row at a place of the window's order; a negative place counts from the end."""
    assert inner.content is not None and node.place is not None
    order = order_of(node.source) or [exp.Ordered(this=column(name), desc=True) for name in ("ts", "seq", *inner.order)]
    for term in order:
        term.set("this", inner.content.value(term.this, "w"))
        if node.place < 0:
            first = term.args.get("nulls_first")
            term.set("desc", not term.args["desc"])
            term.set("nulls_first", None if first is None else not first)
    away = node.place if node.place >= 0 else -node.place - 1
    return rows.order_by(*order).limit(1).offset(away)


def _of_content(condition: exp.Expr, content: Selection) -> exp.Expr:
    """A condition on `w`, rewritten over the columns from which the content is computed."""

    def own(part: exp.Expr) -> exp.Expr:
        return _computed(part.name, content) if isinstance(part, exp.Column) and part.table == "w" else part

    return condition.transform(own)


def _computed(name: str, content: Selection) -> exp.Expr:
    return qualify_columns(content.columns[name].copy(), "w")


# Values of variables before an event sets them, which filters of its stream read (EPL)


def read_before_set(node: SetVariables, network: Network) -> None:
    """Adds the operators that read variables before the events of a node set them."""
    for below in dict.fromkeys(below for below in query.walk(node) if isinstance(below, query.Stream)):
        for state in node.set if _has_inbox(below, network) else ():
            reading = with_variable(below, state.name, early=True)
            reading = dataclasses.replace(reading, value=column(f"{reading.name}.{state.name}"))
            network.rewrite(reading, Need.ARRIVALS)


def _reads_stream(node: query.SubqueryColumn, network: Network) -> bool:
    """Whether a variable is read for the events of a stream, and not for results of another sub-query."""
    return _has_inbox(node.input, network)


def _value_of_same_event(node: query.SubqueryColumn, network: Network) -> exp.Expr | None:
    """The value of a second variable, if it was read for the same event `t`; else None."""
    if not node.early or _reads_stream(node, network):
        return None
    below = node.input
    while isinstance(below, query.SubqueryColumn) and below.early:
        below = below.input
    if not _has_inbox(below, network):
        _refuse_own(node, network)
        return None
    rows = network.rewrite(dataclasses.replace(node, input=below), Need.ARRIVALS).arrivals
    same = exp.EQ(this=rows.value(column("seq"), "w"), expression=column_of("t", "seq"))
    select = exp.select(rows.value(column(node.name), "w")).from_(rows.item("w")).where(same, *rows.conditions_of("w"))
    return exp.Subquery(this=select)


def _has_inbox(node: query.Node, network: Network) -> bool:
    return isinstance(node, query.Stream) and network.source(node.name).inbox is not None


def _refuse_own(node: query.SubqueryColumn, network: Network) -> None:
    """Refuses a filter of derived events that set the variable it reads, as the value before the event is not known."""
    name = node.source.name if isinstance(node.source, query.Relation) else ""
    if own := sorted(network.state_changes.streams(name, node.input)):
        raise QueryError(
            f"a filter of events of {own[0]!r}, which set {name!r}, is not supported here: insert into … select *, {name} "
            "as x, before on … set",
            words=[own[0]],
        )
