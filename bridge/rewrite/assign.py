"""Variables that events set (EPL's on … set): each value is in a table of one row."""

from __future__ import annotations

from sqlglot import exp

from bridge.flow import Flow, Need, Selection, called, named, of, table, zero
from bridge.plan import Operator
from bridge.rewrite import early
from bridge.rewrite.change import EVENT, add_cause, arrived, equations
from bridge.rewrite.network import Network, add_table, rewrite
from bridge.scope import CURRENT, column
from bridge.state_variables import Assign, Setting
from bridge.variables import SetVariables


@rewrite.register
def _(node: SetVariables, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        early.make(node, network)
        for state in node.set:
            network.note_change(state.name, node.input)
        _set(node, network.rewrite(node.input, Need.ARRIVALS), network, operator)

    names = ", ".join(table.name for table in node.set)
    return network.give(network.operator(node, build, f"Set {names}"), node, need)


def _set(node: SetVariables, below: Flow, network: Network, operator: Operator) -> None:
    database = network.database
    cause, changed = network.name("cause", node), network.name("changed", node)
    events = arrived(below)
    add_cause(operator, cause, events)
    names = [state.name for state in node.set]
    settings = []
    for name, value in node.settings:
        update = exp.Update(this=table(name), expressions=equations([name], 0))
        text = database.render(exp.select(_meant(value)).from_(called(cause, EVENT)))
        settings.append(Setting(names.index(name), text, database.marked(update, 1)))
    shape = exp.select(*(named(zero(), name) for name in ("ts", "seq", "_expires", "_place")))
    values = [named(_value(name), name) for name in names]
    add_table(operator, changed, shape.select(*values))
    operator.inboxes.append(changed)
    columns = ["ts", "seq", "_expires", "_place", *names]
    told = Flow(tuple(names), Selection.of(table(changed), columns), order=("_place",), timed=below.timed)
    operator.arrivals = operator.result = told
    operator.steps.append(
        Assign(
            arrived=database.render(events),
            cause=database.quoted(cause),
            clear=database.render(exp.delete(table(cause))),
            settings=settings,
            told=database.quoted(changed),
            table=changed,
        )
    )


def _value(name: str) -> exp.Subquery:
    """What a variable is now."""
    return exp.Subquery(this=exp.select(column(name)).from_(table(name)))


def _meant(value: exp.Expr) -> exp.Expr:
    """An expression over the event at hand and the values of variables."""

    def own(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        if node.name.startswith(CURRENT):
            return _value(node.name.removeprefix(CURRENT))
        return of(EVENT, node.name)

    return value.transform(own)
