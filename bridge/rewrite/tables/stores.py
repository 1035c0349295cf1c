"""ReadSQL, UpdateSQL and IntoTable: statements of the push in the bridge's own database; else through a data store."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlglot import exp

from bridge.check.types import UNKNOWN, type_of
from bridge.query.scripts import IntoTable, ReadSQL, UpdateSQL
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Operator, OutputInsert, Probe, Purge
from bridge.rewrite.state_tables import add_table, ago
from bridge.stores import statement
from bridge.stores.check import RESULT_ID, RESULT_NUMBER
from bridge.stores.write import ensure_table
from windows.databases.base import PARAMETER
from windows.sql import (
    RELATION_ORDER_PREFIX,
    aliased,
    bigint_never,
    column,
    column_of,
    concatenated,
    number,
    row_number,
    table,
)
from windows.times import NEVER


@rewrite.register
def _(node: ReadSQL, network: Network, need: Need) -> Flow:
    """If a query writes a table that is read, the rows read are stored: later writes do not change them.

    This stays so when the state is resumed, although the query that wrote the table may have been removed.
    """
    sql = statement.read(node.statement, network.store(node.store))
    kept = not network.written_tables.isdisjoint(table.name.lower() for table in sql.tables)
    kept |= network.names.resuming and network.can_have(node, "inbox", " result")

    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        if node.store is None and node.cache is None and statement.joins(sql, node.left):
            operator.notes.append("one statement for all rows")
            operator.probes.append(Probe(statement.without_values(sql), node.place))
            operator.result = _joined(node, sql, below, network)
        else:
            _read_by_calls(node, sql, below, network, operator)

    if not kept:
        network.read_late.add(node)
    operator = network.operator(node, build, "ReadSQL")
    return network.give(operator, node, max(need, Need.ARRIVALS) if kept else need)


@rewrite.register
def _(node: UpdateSQL, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        if node.store is None:
            _updated(node, below, network, operator)
        else:
            _posted(node, below, network, operator)

    operator = network.operator(node, build, "UpdateSQL")
    return network.give(operator, node, need)


@rewrite.register
def _(node: IntoTable, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        result = network.rewrite(node.input, Need.RESULT)
        below = network.rewrite(node.input, Need.ARRIVALS)
        system = _system_columns(node, below)
        kinds = {name: kind for name, (kind, _) in system.items()}
        shown = network.types(node.input, hidden=False)
        names = ensure_table(node.table, {**kinds, "ts": "BIGINT", **shown}, network.database)
        columns = {name.lower(): column for name, column in below.arrivals.columns.items()}
        columns |= {name: value for name, (_, value) in system.items()}
        listed = [aliased(columns[name.lower()].copy(), name) for name in names]
        rows = Selection(below.arrivals.source, below.arrivals.columns, below.arrivals.conditions).select([])
        order = [below.arrivals.columns[name].copy() for name in ("ts", "seq", *below.order)]
        if node.keep is not None:
            operator.purges.append(Purge(node.table, exp.LTE(this=column("ts"), expression=ago(node.keep))))
        select = rows.select(*listed).order_by(*order)
        operator.steps.append(OutputInsert(node.table, select, tuple(names), node.writer or "", frozenset(system)))
        operator.result = operator.arrivals = dataclasses.replace(below, direct=result.direct or result)

    operator = network.operator(node, build, "IntoTable")
    return network.give(operator, node, need)


def _system_columns(node: IntoTable, below: Flow) -> dict[str, tuple[str, exp.Expr]]:
    """The further columns of a table beside those of the row: their types and values, by name."""
    ts, seq, *order = (below.arrivals.columns[name] for name in ("ts", "seq", *below.order))
    place = below.arrivals.value(below.place_of_event)
    parts = [exp.cast(value.copy(), "VARCHAR") for value in (ts, seq, place)]
    name = concatenated([_text(f"{node.writer}/"), parts[0], _text("/"), parts[1], _text("/"), parts[2]])
    newest = exp.select(exp.Max(this=column(RESULT_NUMBER))).from_(table(node.table))
    before = exp.Coalesce(this=exp.Subquery(this=newest), expressions=[number(0)])
    counted = exp.Add(this=before, expression=row_number([], [ts.copy(), seq.copy(), *(each.copy() for each in order)]))
    known = {RESULT_ID: ("VARCHAR", name), RESULT_NUMBER: ("BIGINT", counted)}
    taken = {name.lower() for name in below.names}
    return {name: known[name] for name in node.system if name not in taken}


def _text(text: str) -> exp.Expr:
    return exp.Literal.string(text)


# One statement for all --------------------------------------------------------------------------------------------------


def _joined(node: ReadSQL, sql: statement.Sql, below: Flow, network: Network) -> Flow:
    """The arrivals joined with the statement's tables; each `?` becomes a column of the arrivals."""
    parameters = {f"{PARAMETER}{place}": value for place, value in enumerate(node.parameters)}
    arrivals = below.arrivals.project(
        {**{name: exp.column(name, quoted=True) for name in ("ts", "seq", *below.order, *below.names)}, **parameters}
    )
    item = exp.alias_(exp.Subquery(this=arrivals.select()), "a", table=True, quoted=True)
    wanted = [name for name, _ in node.typed]
    select = statement.joined(sql, wanted, item, "a", network.database, node.left)
    read = [column.this if isinstance(column, exp.Alias) else column for column in select.expressions]
    system = [aliased(column_of("a", name), name) for name in ("ts", "seq", *below.order)]
    names = _names(node, below)
    one = statement.returns_one_row(sql, network.database)
    orders = {} if one else {f"{RELATION_ORDER_PREFIX}{place}": value for place, value in enumerate(read)}
    select.set(
        "expressions",
        [
            *system,
            aliased(number(NEVER), "_expires"),
            *(column_of("a", name) for name in below.names),
            *(aliased(value.copy(), name) for value, name in zip(read, names[len(below.names) :], strict=True)),
            *(aliased(value.copy(), name) for name, value in orders.items()),
        ],
    )
    order = (*below.order, *orders)
    columns = ["ts", "seq", "_expires", *order, *names]
    return Flow(names, Selection.of(exp.Subquery(this=select), columns), order=order, timed=below.timed)


def _names(node: ReadSQL, below: Flow) -> tuple[str, ...]:
    """The columns of the result, with the names that `stores.resolve` gives them."""
    taken = {name.lower() for name in below.names}
    shown = (f"{node.table}_{name}" if name.lower() in taken else name for name, _ in node.typed)
    return (*below.names, *shown)


# Row by row -------------------------------------------------------------------------------------------------------------


def _rows(node: ReadSQL | UpdateSQL, below: Flow) -> exp.Select:
    """The columns that a call reads: ts, seq and place of the arrivals, their columns, then the parameters."""
    order = [below.arrivals.columns[name].copy() for name in ("ts", "seq", *below.order)]
    place = exp.cast(below.arrivals.value(below.place_of_event), "BIGINT")
    select = below.arrivals.select(["ts", "seq"]).select(aliased(place, "_place"))
    select = select.select(*(aliased(below.arrivals.columns[name].copy(), name) for name in below.names))
    for position, parameter in enumerate(node.parameters):
        value = exp.null() if _is_id(parameter, below) else below.arrivals.value(parameter)
        select = select.select(aliased(value, f"{PARAMETER}{position}"))
    return select.order_by(*order)


def _is_id(parameter: exp.Expr, below: Flow) -> bool:
    return isinstance(parameter, exp.Column) and parameter.name == RESULT_ID and RESULT_ID not in below.names


def _read_by_calls(node: ReadSQL, sql: statement.Sql, below: Flow, network: Network, operator: Operator) -> None:
    """Fills a table with the rows that a call reads from the store."""
    from bridge.rewrite.tables.read_store import Read, StoreConversion

    found, waiting = network.name("read", node), network.name("waiting", node)
    names = _names(node, below)
    shape = _shape(node, below, names)
    add_table(operator, found, shape)
    operator.inboxes.append(found)
    database = network.database
    if node.store is None:
        operator.probes.append(Probe(statement.without_values(sql), node.place))
    else:
        add_table(operator, waiting, _rows(node, below))
        network.outbox.prepare()
        network.stores.find(node.store).prepare(sql, node.place)
    cache = None
    if node.cache is not None:
        cache = network.name("cache", node)
        kept = {"at": "BIGINT", "asked": "VARCHAR", "answer": "VARCHAR"}
        add_table(
            operator, cache, exp.select(*(aliased(exp.cast(exp.null(), kind), name) for name, kind in kept.items()))
        )
    kinds = network.types(node.input)
    operator.steps.append(
        Read(
            node=node,
            conversion=StoreConversion.of(node, sql, [_kind(p, kinds) for p in node.parameters], network),
            table=found,
            arrived=database.render(_rows(node, below)),
            results=database.quoted(found),
            waiting=database.quoted(waiting) if node.store is not None else None,
            width=len(below.names),
            network=network,
            cache=None if cache is None else database.quoted(cache),
        )
    )
    columns = ["ts", "seq", "_expires", "_place", *names]
    flow = Flow(
        names, Selection.of(table(found), columns), order=("_place",), timed=below.timed or node.store is not None
    )
    operator.result = operator.arrivals = flow


def _shape(node: ReadSQL, below: Flow, names: Sequence[str]) -> exp.Select:
    """The columns of the table of rows read."""
    system = [
        exp.alias_(exp.cast(number(0), "BIGINT"), name, quoted=True) for name in ("ts", "seq", "_expires", "_place")
    ]
    rows = below.arrivals.select(below.names)
    read = [
        exp.alias_(exp.cast(exp.null(), kind), name, quoted=True)
        for (_, kind), name in zip(node.typed, names[len(below.names) :], strict=True)
    ]
    rows.set("expressions", [*system, *rows.expressions, *read])
    return rows


def _kind(parameter: exp.Expr, kinds: dict[str, str]) -> str:
    return type_of(parameter, lambda column: "BIGINT" if column.name == "ts" else kinds.get(column.name, UNKNOWN))


def _updated(node: UpdateSQL, below: Flow, network: Network, operator: Operator) -> None:
    from bridge.stores.write import Update

    database = network.database
    sql = statement.update(node.statement, database)
    text, order = database.parameterize(sql.tree, sql.count)
    operator.probes.append(Probe(statement.without_values(sql), node.place))
    ids = tuple(place for place, parameter in enumerate(node.parameters) if _is_id(parameter, below))
    counted = None
    if node.changed is None:
        operator.result = operator.arrivals = below
    else:
        counted = network.name("changed", node)
        rows = _rows(node, below)
        shape = rows.copy()
        shape.set("expressions", shape.expressions[: 3 + len(below.names)])
        shape = shape.select(exp.alias_(exp.cast(number(0), "BIGINT"), node.changed, quoted=True))
        shape.set("order", None)
        shape = shape.select(exp.alias_(bigint_never(), "_expires", quoted=True))
        add_table(operator, counted, shape)
        operator.inboxes.append(counted)
        names = (*below.names, node.changed)
        columns = ["ts", "seq", "_expires", "_place", *names]
        flow = Flow(names, Selection.of(table(counted), columns), order=("_place",), timed=below.timed)
        operator.result = operator.arrivals = flow
    operator.steps.append(
        Update(
            node=node,
            table=counted or "",
            arrived=database.render(_rows(node, below)),
            text=text,
            order=order,
            ids=ids,
            width=len(below.names),
            counted=database.quoted(counted) if counted else None,
        )
    )


def _posted(node: UpdateSQL, below: Flow, network: Network, operator: Operator) -> None:
    from bridge.stores.write import Post

    network.outbox.prepare()
    store = network.stores.find(node.store or "")
    store.prepare(statement.update(node.statement, network.store(node.store)), node.place)
    kinds = network.types(node.input)
    ids = tuple(place for place, parameter in enumerate(node.parameters) if _is_id(parameter, below))
    decoders = [network.database.decoder(_kind(parameter, kinds)) for parameter in node.parameters]
    operator.result = operator.arrivals = below
    operator.steps.append(
        Post(
            node=node,
            table="",
            arrived=network.database.render(_rows(node, below)),
            outbox=network.outbox,
            ids=ids,
            decoders=tuple(decoders),
            width=len(below.names),
        )
    )
