"""Correlations (O3): what arrives at one input joined with the windows of the others, each combination once.

One SELECT per streamed input, that input giving the arrivals (the new results of a join after Blakeley et al. 1986).
An input left of it is seen including the very same event, one right of it without: so no combination comes twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from sqlglot import exp

from bridge import query
from bridge.query.nodes import Node
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.joins.branch import Branch, By, Outputs, Part, earliest, equal_columns, keys_of, replaced, values_of
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Operator, Origin
from bridge.rewrite.variants import StatementWriter, Variants
from windows.databases.base import table_of
from windows.sql import aliased, bigint_zero, column_of, derived_table, number, qualify_columns
from windows.times import NEVER


@rewrite.register
def _(node: query.Correlate, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        streamed = sum(not isinstance(below, query.Relation) for _, below in node.inputs)
        parts = _parts(node, network, windowed=streamed > 1)
        operator.result = _flow(node, parts, network)
        operator.keys = tuple(called for part in parts for called, _ in keys_of(part))
        operator.origins = lambda: _origins(_parts(node, network, windowed=True))

    tables = {below.name.lower() for _, below in node.inputs if isinstance(below, query.Relation)}
    operator = network.operator(node, build, "Correlate", key=network.state_changes.key(node, tables))
    return network.give(operator, node, max(need, Need.ARRIVALS) if network.state_changes.concern(tables) else need)


def _parts(node: query.Correlate, network: Network, windowed: bool) -> list[Part]:
    return [
        _part(place, alias, below, network, windowed and alias != node.driving)
        for place, (alias, below) in enumerate(node.inputs, 1)
    ]


def _origins(parts: list[Part]) -> list[Origin]:
    """The parts whose rows leave when others come."""
    counted = [part for part in parts if part.flow is not None and part.flow.counted]
    return [(part.flow, {key: called for called, key in keys_of(part)}) for part in counted if part.flow]


def _part(place: int, name: str, node: Node, network: Network, windowed: bool) -> Part:
    if isinstance(node, query.Relation):
        return Part(f"p{place}", name, related(node, network), None)
    flow = network.rewrite(node, Need.CONTENT if windowed else Need.ARRIVALS)
    return Part(f"p{place}", name, flow.arrivals, flow)


def related(node: query.Relation, network: Network) -> Selection:
    """The rows of a table."""
    columns = network.database.relation_columns(node.name, network.source(node.name).names)
    return Selection(table_of(node.name), columns)


def _flow(node: query.Correlate, parts: list[Part], network: Network) -> Flow:
    outputs = _outputs(parts, network, node)
    keys = [called for part in parts for called, _ in keys_of(part)]
    order = (*keys, *(called for part in parts for called, _ in values_of(part)))
    names = tuple(outputs)
    columns = ["ts", "seq", "_expires", *order, *names]
    database = network.database

    def branches(by: By) -> list[Branch]:
        told = [place for place, part in enumerate(parts) if part.flow and node.driving in (None, part.name)]
        return [Branch(node, parts, place, outputs, by, database.wide_integer) for place in told]

    def joined(by: By) -> Selection:
        found = [branch.select(outputs) for branch in branches(by)]
        alone_by = By.TIME if by is By.STEPS else by
        found += [_alone(branch) for branch in branches(alone_by) if branch.trigger.name in node.outer]
        union = found[0] if len(found) == 1 else exp.union(*found, distinct=False)
        return Selection.of(exp.Subquery(this=union), columns)

    for name, columns_sought in _sought(Branch(node, parts, 0, outputs)) if database.uses_indexes else ():
        network.index(name, columns_sought)
    timed = any(part.flow.timed for part in parts if part.flow)
    hidden = tuple(f"{part.name}.ts" for part in parts if part.flow)
    found = joined(By.TIME if database.uses_indexes else By.STEPS)
    return Flow(names, found, order=order, timed=timed, hidden=hidden, variants=_variants(branches, joined, network))


def _variants(
    branches: Callable[[By], list[Branch]], joined: Callable[[By], Selection], network: Network
) -> Variants[StatementWriter[Selection]]:
    """The ways to find the combinations, by the pushes that they are for."""
    by_time = StatementWriter(lambda: joined(By.TIME), "the times of their rows")
    by_steps = StatementWriter(lambda: joined(By.STEPS), "steps of time that are equal")
    by_index = StatementWriter(lambda: joined(By.INDEX), "an index")
    if not network.database.uses_indexes:
        return Variants(by_steps, few=by_time)
    # Of many events an index takes MariaDB the third power of their number.
    few = by_index if any(branch.lasts for branch in branches(By.INDEX)) else None
    if not all(branch.is_moved for branch in branches(By.STEPS)):
        return Variants(by_time, few=few)
    # All members' constants with each row, and then a seek, is faster than all their equations.
    return Variants(by_steps, few=few or by_time, shared=by_time if network.database.index_range_joins else None)


def _outputs(parts: list[Part], network: Network, node: query.Correlate) -> Outputs:
    """Output name → (part's alias, its column), as check.py named them."""
    listed = [(part, name) for part in parts for name in _attributes(part)]
    lowered = [name.lower() for _, name in listed]
    outputs = {}
    for part, name in listed:
        shown = name if lowered.count(name.lower()) == 1 else f"{part.name}_{name}"
        outputs[shown] = (part.alias, name)
    for part in parts:
        if part.flow is not None:
            outputs[f"{part.name}.ts"] = (part.alias, "ts")
    return outputs


def _attributes(part: Part) -> tuple[str, ...]:
    """The columns a part gives on; the times of a correlation's own parts stay within it."""
    names = tuple(part.source.columns) if part.flow is None else part.flow.names
    return tuple(name for name in names if not (part.flow is not None and name in part.flow.hidden))


def _alone(branch: Branch) -> exp.Select:
    """The arrivals at one of two inputs that nothing of the other joins, that one's columns being NULL."""
    trigger = branch.trigger
    found = dataclasses.replace(branch, once=False).select({})
    own = derived_table(trigger.source.select(), "o")
    same_row = [exp.EQ(this=column_of("o", key), expression=column_of("j", called)) for called, key in keys_of(trigger)]
    joined = exp.select(number(1)).from_(derived_table(found, "j")).where(*same_row)
    columns: list[exp.Expr] = [column_of("o", name) for name in ("ts", "seq")]
    columns.append(aliased(number(NEVER), "_expires"))
    for part in branch.parts:
        names = [*keys_of(part), *values_of(part)]
        columns += [aliased(column_of("o", name) if part is trigger else exp.null(), shown) for shown, name in names]
    for shown, (alias, name) in branch.outputs.items():
        columns.append(aliased(column_of("o", name) if alias == trigger.alias else exp.null(), shown))
    return exp.select(*columns).from_(own).where(exp.Not(this=exp.Exists(this=joined)))


def _sought(branch: Branch) -> Iterator[tuple[str, tuple[str, str]]]:
    """The tables of windows, by which columns rows are sought in them: those that have to equal others', and their order."""
    flows = {part.alias: part.flow for part in branch.parts}
    for mine, _ in equal_columns(branch.asked, branch.outputs):
        alias, attribute = branch.outputs[mine.name]
        flow = flows[alias]
        if flow is None or flow.content is None:
            continue
        held, kept, order = flow.content.columns[attribute], flow.content.source, "ts"
        if flow.last is not None and flow.is_last_rows:
            kept, order = flow.last.rows.source, "seq"
        elif flow.size in (None, 1):
            continue
        if isinstance(held, exp.Column) and isinstance(kept, exp.Table):
            yield kept.name, (held.name, order)


def present(node: query.Correlate, flows: list[Flow | None], network: Network) -> Flow:
    """The combinations of the inputs' present contents, for an answer on demand."""
    parts = []
    for place, ((alias, below), flow) in enumerate(zip(node.inputs, flows, strict=True), 1):
        part = _part(place, alias, below, network, windowed=False) if flow is None else None
        parts.append(part or Part(f"p{place}", alias, flow.arrivals, flow))  # type: ignore[union-attr]
    outputs = _outputs(parts, network, node)
    rows = {part.alias: part.source for part in parts}
    select = exp.select().from_(parts[0].source.item(parts[0].alias))
    for part in parts[1:]:
        select = select.join(part.source.item(part.alias), join_type="cross")
    times = [qualify_columns(part.source.columns["ts"].copy(), part.alias) for part in parts if part.flow]
    newest = times[0] if len(times) == 1 else exp.Greatest(this=times[0], expressions=times[1:])
    select = select.select(
        aliased(newest, "ts"), aliased(bigint_zero(), "seq"), aliased(earliest(parts, rows), "_expires")
    )
    columns = {name: qualify_columns(rows[alias].columns[own].copy(), alias) for name, (alias, own) in outputs.items()}
    select = select.select(*(aliased(value.copy(), name) for name, value in columns.items()))
    conditions = [condition for part in parts for condition in part.source.conditions_of(part.alias)]
    if node.condition is not None:
        conditions.append(replaced(node.condition, lambda name: columns[name].copy()))
    select = select.where(*conditions)
    names = tuple(outputs)
    hidden = tuple(f"{part.name}.ts" for part in parts if part.flow)
    return Flow(names, Selection.of(exp.Subquery(this=select), ["ts", "seq", "_expires", *names]), hidden=hidden)
