"""Correlations (O3): the arrivals at each input joined with the windows of the others, each result once.

There is one SELECT per streamed input, over this input's arrivals (the new results of a join, after Blakeley et al.
1986). Windows of inputs to its left include the arriving event, windows to its right do not, so no result comes twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from sqlglot import exp

from bridge import query
from bridge.query.nodes import Node
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.joins.branch import (
    Branch,
    JoinInput,
    Outputs,
    SearchBy,
    earliest_expiry,
    equal_columns,
    relation_values,
    row_keys,
    with_values,
)
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Operator, Origin
from bridge.rewrite.variants import StatementWriter, Variants
from windows.sql import aliased, bigint_zero, column_of, derived_table, number, qualify_columns, table_of
from windows.times import BEGINNING, NEVER


@rewrite.register
def _(node: query.Correlate, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        streamed = sum(not isinstance(below, query.Relation) for _, below in node.inputs)
        inputs = _inputs(node, network, windowed=streamed > 1)
        operator.result = _flow(node, inputs, network)
        operator.keys = tuple(alias for each in inputs for alias, _ in row_keys(each))
        operator.origins = lambda: _origins(_inputs(node, network, windowed=True))

    tables = {below.name.lower() for _, below in node.inputs if isinstance(below, query.Relation)}
    operator = network.operator(node, build, "Correlate", key=network.state_changes.key(node, tables))
    return network.give(operator, node, max(need, Need.ARRIVALS) if network.state_changes.concern(tables) else need)


def _inputs(node: query.Correlate, network: Network, windowed: bool) -> list[JoinInput]:
    """The inputs; if `windowed`, with the contents of their windows, except for the `driving` input."""
    return [
        _input(place, alias, below, network, windowed and alias != node.driving)
        for place, (alias, below) in enumerate(node.inputs, 1)
    ]


def _origins(inputs: list[JoinInput]) -> list[Origin]:
    """The inputs whose rows can be evicted; results leave with these rows."""
    counted = [each for each in inputs if each.flow is not None and each.flow.counted]
    return [(each.flow, {key: alias for alias, key in row_keys(each)}) for each in counted if each.flow]


def _input(place: int, name: str, node: Node, network: Network, windowed: bool) -> JoinInput:
    if isinstance(node, query.Relation):
        return JoinInput(f"p{place}", name, rows_of_relation(node, network), None)
    flow = network.rewrite(node, Need.CONTENT if windowed else Need.ARRIVALS)
    return JoinInput(f"p{place}", name, flow.arrivals, flow)


def rows_of_relation(node: query.Relation, network: Network) -> Selection:
    """The rows of a table."""
    columns = network.database.relation_columns(node.name, network.source(node.name).names)
    return Selection(table_of(node.name), columns)


def _flow(node: query.Correlate, inputs: list[JoinInput], network: Network) -> Flow:
    outputs = _outputs(inputs)
    keys = [alias for each in inputs for alias, _ in row_keys(each)]
    order = (*keys, *(alias for each in inputs for alias, _ in relation_values(each)))
    names = tuple(outputs)
    columns = ["ts", "seq", "_expires", *order, *names]
    database = network.database

    def branches(by: SearchBy) -> list[Branch]:
        reporting = [place for place, each in enumerate(inputs) if each.flow and node.driving in (None, each.name)]
        return [Branch(node, inputs, place, outputs, by, database.wide_integer) for place in reporting]

    def joined(by: SearchBy) -> Selection:
        selects = [branch.select(outputs) for branch in branches(by)[: 1 if by is SearchBy.PAIRS else None]]
        unmatched_by = SearchBy.TIME if by is SearchBy.STEPS else by
        selects += [_unmatched(branch) for branch in branches(unmatched_by) if branch.trigger.name in node.outer]
        union = selects[0] if len(selects) == 1 else exp.union(*selects, distinct=False)
        return Selection.of(exp.Subquery(this=union), columns)

    for name, indexed in _indexes(Branch(node, inputs, 0, outputs)) if database.uses_indexes else ():
        network.index(name, indexed)
    timed = any(each.flow.timed for each in inputs if each.flow)
    hidden = tuple(f"{each.name}.ts" for each in inputs if each.flow)
    results = joined(SearchBy.TIME if database.uses_indexes else SearchBy.STEPS)
    return Flow(names, results, order=order, timed=timed, hidden=hidden, variants=_variants(branches, joined, network))


def _variants(
    branches: Callable[[SearchBy], list[Branch]], joined: Callable[[SearchBy], Selection], network: Network
) -> Variants[StatementWriter[Selection]]:
    """The variants of the join, by how the rows of the other inputs are found."""
    by_time = StatementWriter(lambda: joined(SearchBy.TIME), "the times of their rows")
    by_steps = StatementWriter(lambda: joined(SearchBy.STEPS), "steps of time that are equal")
    by_index = StatementWriter(lambda: joined(SearchBy.INDEX), "an index")
    if not network.database.uses_indexes:
        by_pairs = StatementWriter(lambda: joined(SearchBy.PAIRS), "steps of time that are equal, all at once")
        has_pairs = any(branch.has_pairs for branch in branches(SearchBy.PAIRS))
        return Variants(by_steps, few=by_time, history=by_pairs if has_pairs else None)
    # With an index, MariaDB takes time cubic in the number of events.
    few = by_index if any(branch.indexed_inputs for branch in branches(SearchBy.INDEX)) else None
    if not all(branch.has_computed_equations for branch in branches(SearchBy.STEPS)):
        return Variants(by_time, few=few)
    # For a query family, a search per member and row is faster than the equations of all members.
    return Variants(by_steps, few=few or by_time, shared=by_time if network.database.index_range_joins else None)


def _outputs(inputs: list[JoinInput]) -> Outputs:
    """The output columns, under the names that checking gave them."""
    listed = [(each, name) for each in inputs for name in _attributes(each)]
    lowered = [name.lower() for _, name in listed]
    outputs = {}
    for each, name in listed:
        shown = name if lowered.count(name.lower()) == 1 else f"{each.name}_{name}"
        outputs[shown] = (each.alias, name)
    for each in inputs:
        if each.flow is not None:
            outputs[f"{each.name}.ts"] = (each.alias, "ts")
    return outputs


def _attributes(source: JoinInput) -> tuple[str, ...]:
    """The columns of an input that are output, without those that a correlation below has for itself."""
    names = tuple(source.source.columns) if source.flow is None else source.flow.names
    return tuple(name for name in names if not (source.flow is not None and name in source.flow.hidden))


def _unmatched(branch: Branch) -> exp.Select:
    """The arrivals at one of two inputs that no row of the other joins, with NULL for the other's columns.

    Such a result comes before the results with a row that the same event brings and evicts. So the other row's keys are
    not NULL, which some databases sort first and others last.
    """
    trigger = branch.trigger
    matched = dataclasses.replace(branch, shares_event=False).select({})
    own = derived_table(trigger.source.select(), "o")
    same_row = [exp.EQ(this=column_of("o", key), expression=column_of("j", alias)) for alias, key in row_keys(trigger)]
    joined = exp.select(number(1)).from_(derived_table(matched, "j")).where(*same_row)
    columns: list[exp.Expr] = [column_of("o", name) for name in ("ts", "seq")]
    columns.append(aliased(number(NEVER), "_expires"))
    for each in branch.inputs:
        keys = {shown: column_of("o", name) if each is trigger else number(BEGINNING) for shown, name in row_keys(each)}
        keys |= {shown: exp.null() for shown, _ in relation_values(each)}
        columns += [aliased(value, shown) for shown, value in keys.items()]
    for shown, (alias, name) in branch.outputs.items():
        columns.append(aliased(column_of("o", name) if alias == trigger.alias else exp.null(), shown))
    return exp.select(*columns).from_(own).where(exp.Not(this=exp.Exists(this=joined)))


def _indexes(branch: Branch) -> Iterator[tuple[str, tuple[str, str]]]:
    """Window tables with columns to index: one that a condition equates with another input's, and the rows' order."""
    flows = {each.alias: each.flow for each in branch.inputs}
    for mine, _ in equal_columns(branch.conditions, branch.outputs):
        alias, attribute = branch.outputs[mine.name]
        flow = flows[alias]
        if flow is None or flow.content is None:
            continue
        value, stored, order = flow.content.columns[attribute], flow.content.source, "ts"
        if flow.last is not None and flow.is_last_rows:
            stored, order = flow.last.rows.source, "seq"
        elif flow.size in (None, 1):
            continue
        if isinstance(value, exp.Column) and isinstance(stored, exp.Table):
            yield stored.name, (value.name, order)


def of_contents(node: query.Correlate, flows: list[Flow | None], network: Network) -> Flow:
    """The correlation of the present contents of the inputs, for an on-demand query."""
    inputs = []
    for place, ((alias, below), flow) in enumerate(zip(node.inputs, flows, strict=True), 1):
        each = _input(place, alias, below, network, windowed=False) if flow is None else None
        inputs.append(each or JoinInput(f"p{place}", alias, flow.arrivals, flow))  # type: ignore[union-attr]
    outputs = _outputs(inputs)
    rows = {each.alias: each.source for each in inputs}
    select = exp.select().from_(inputs[0].source.item(inputs[0].alias))
    for each in inputs[1:]:
        select = select.join(each.source.item(each.alias), join_type="cross")
    times = [qualify_columns(each.source.columns["ts"].copy(), each.alias) for each in inputs if each.flow]
    newest = times[0] if len(times) == 1 else exp.Greatest(this=times[0], expressions=times[1:])
    select = select.select(
        aliased(newest, "ts"), aliased(bigint_zero(), "seq"), aliased(earliest_expiry(inputs, rows), "_expires")
    )
    columns = {name: qualify_columns(rows[alias].columns[own].copy(), alias) for name, (alias, own) in outputs.items()}
    select = select.select(*(aliased(value.copy(), name) for name, value in columns.items()))
    conditions = [condition for each in inputs for condition in each.source.conditions_of(each.alias)]
    if node.condition is not None:
        conditions.append(with_values(node.condition, lambda name: columns[name].copy()))
    select = select.where(*conditions)
    names = tuple(outputs)
    hidden = tuple(f"{each.name}.ts" for each in inputs if each.flow)
    return Flow(names, Selection.of(exp.Subquery(this=select), ["ts", "seq", "_expires", *names]), hidden=hidden)
