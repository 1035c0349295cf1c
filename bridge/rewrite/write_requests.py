"""The writes of a script, separated from its computations: a history is computed in pieces and written in order.

`split` takes UpdateSQL and IntoTable out of a script's queries, and for each adds a query of its `WriteRequests`: the
values that it writes, in the order in which it would write them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from bridge.check.resolve import Namespace, ResolvedNode, resolve, resolve_stream
from bridge.check.scope import Field, Scope
from bridge.check.types import type_of
from bridge.query.nodes import Node, walk
from bridge.query.scripts import IntoTable, ReadSQL, UpdateSQL
from bridge.rewrite.conflicts import set_columns
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.network import Network, rewrite
from bridge.stores import statement
from bridge.stores.check import RESULT_ID, parameter_of
from windows.databases import Database
from windows.sql import column

SEQ, PLACE, VALUE = "letter_seq", "letter_place", "value_"
"""Columns of write requests: the number of the event, the row's place within the event, and the values."""

Queries = Mapping[str, tuple[Node, str | None]]
WriteNode = UpdateSQL | IntoTable


@dataclasses.dataclass(frozen=True)
class WriteRequests(Node):
    """For each row of the input SEQ, PLACE and the `values` that are written; `values` None: `ts` and all columns."""

    input: Node
    values: tuple[exp.Expr, ...] | None

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)


@resolve.register
def _(node: WriteRequests, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    written = node.values
    if written is None:
        written = (column("ts"), *(column(field.name) for field in below.visible))
    scope = Scope((*below.visible, Field(RESULT_ID, "VARCHAR")))
    values = tuple(parameter_of(value, below.visible) for value in written)
    kinds = [type_of(value, scope.type_of) for value in values]
    fields = [Field(f"{VALUE}{place}", kind) for place, kind in enumerate(kinds)]
    system = (Field(SEQ, "BIGINT"), Field(PLACE, "BIGINT"))
    return ResolvedNode(WriteRequests(below.node, values), (*system, *fields), windowed=False)


@rewrite.register
def _(node: WriteRequests, network: Network, need: Need) -> Flow:
    below = network.rewrite(node.input, Need.ARRIVALS)
    columns: dict[str, exp.Expr] = {SEQ: column("seq"), PLACE: exp.cast(below.place_of_event, "BIGINT")}
    for position, value in enumerate(node.values or ()):
        is_id = isinstance(value, exp.Column) and value.name == RESULT_ID and RESULT_ID not in below.names
        columns[f"{VALUE}{position}"] = exp.cast(exp.null(), "VARCHAR") if is_id else value
    return below.change(tuple(columns), columns)


def touches(queries: Queries) -> bool:
    """Whether some query reads or writes stored data with the user's SQL."""
    nodes = (below for node, _ in queries.values() for below in walk(node))
    return any(isinstance(node, (ReadSQL, UpdateSQL, IntoTable)) for node in nodes)


def split(queries: Queries, serial: bool) -> tuple[dict[str, tuple[Node, str | None]], dict[str, WriteNode]]:
    """The queries without their writes, plus queries of write requests; and the node that each of the latter is for.

    If events are pushed one by one (`serial`), writes to the bridge's own database stay, as other queries read them. So
    does an update that counts the rows that it changes.
    """
    found: dict[str, tuple[Node, str | None]] = {}
    writers: dict[str, WriteNode] = {}
    for name, (node, text) in queries.items():
        for writer in walk(node):
            if not isinstance(writer, (UpdateSQL, IntoTable)) or writer in writers.values():
                continue  # the outputs of a MultiFilter share their inputs
            requests = f"cep_requests_{len(writers)}"
            values = writer.parameters if isinstance(writer, UpdateSQL) else None
            found[requests] = (WriteRequests(_without(writer.input, serial), values), None)
            writers[requests] = writer
        found[name] = (_without(node, serial), text)
    return found, writers


def _without(node: Node, serial: bool) -> Node:
    changed = node.with_inputs(lambda below: _without(below, serial))
    if isinstance(changed, UpdateSQL) and (changed.store is not None or not (serial or changed.changed)):
        return changed.input
    return changed.input if isinstance(changed, IntoTable) and not serial else changed


def counts_by_itself(node: UpdateSQL, database: Database) -> bool:
    """Whether the number of rows that an update changes does not depend on its earlier changes."""
    sql = statement.update(node.statement, database, node.position)
    tree = sql.tree
    if isinstance(tree, exp.Insert):
        return isinstance(tree.expression, exp.Values)
    where = tree.args.get("where")
    if not isinstance(tree, exp.Update) or any(tree.find_all(exp.Subquery, exp.Join, exp.From)):
        return False
    read = {found.name.lower() for found in where.find_all(exp.Column)} if where is not None else set()
    return read.isdisjoint(set_columns(sql) or ())


def in_dialect(node: Node, theirs: Database, ours: Database) -> Node:
    """The tree with its SQL over the bridge's own database translated from another database's dialect."""
    changed = node.with_inputs(lambda below: in_dialect(below, theirs, ours))
    if not isinstance(changed, (ReadSQL, UpdateSQL)) or changed.store is not None or theirs.dialect == ours.dialect:
        return changed
    read = statement.read if isinstance(changed, ReadSQL) else statement.update
    sql = read(changed.statement, theirs, changed.position)
    statement.check_parameters(sql, len(changed.parameters), changed.position)
    text, order = ours.parameterize(sql.tree, sql.count)
    return dataclasses.replace(changed, statement=text, parameters=tuple(changed.parameters[place] for place in order))


def own_tables(queries: Queries, database: Database) -> Iterator[str]:
    """The tables of the bridge's own database that the queries name."""
    for node in (below for tree, _ in queries.values() for below in walk(tree)):
        names: Sequence[str] = ()
        if isinstance(node, IntoTable):
            names = [node.table]
        elif isinstance(node, (ReadSQL, UpdateSQL)) and node.store is None:
            read = statement.read if isinstance(node, ReadSQL) else statement.update
            names = [
                ".".join(part.name for part in t.parts) for t in read(node.statement, database, node.position).tables
            ]
        yield from names
