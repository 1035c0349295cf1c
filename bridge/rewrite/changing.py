"""Windows that events change (EPL's named windows): versions of rows, each with the event that put it out."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.changes import Change, Changing
from bridge.flow import OUT, Flow, Need, Selection, derived, named, number, table, zero
from bridge.plan import Operator, Purge
from bridge.rewrite.change import add_cause, arrived, equations, found, unmatched
from bridge.rewrite.network import Network, add_table, rewrite
from bridge.scope import column
from bridge.state_window import Changer, Versions
from windows.extents import NEVER

IDENTITY = ("ts", "seq", "_place")
"""What tells the versions of rows apart, and orders them."""


@rewrite.register
def _(node: Changing, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        rows = network.rewrite(node.input.inputs_of[0], Need.ARRIVALS)
        triggers = [network.rewrite(trigger, Need.ARRIVALS) for trigger, _ in node.changes]
        operator.arrivals = _built(node, rows, triggers, network, operator)

    operator = network.operator(node, build, "Window that events change")
    assert operator.arrivals is not None
    return operator.arrivals


def _built(node: Changing, rows: Flow, triggers: list[Flow], network: Network, operator: Operator) -> Flow:
    database = network.database
    window, inbox = network.name("window", node), network.name("inbox", node)
    shape = exp.select(*(named(zero(), name) for name in (*IDENTITY, "_expires")))
    bare = rows.arrivals.select(rows.names)
    shape = shape.select(*map(column, rows.names)).from_(derived(bare, "q"))
    add_table(operator, inbox, shape)
    add_table(operator, window, shape.select(*(named(zero(), name) for name in OUT)), (IDENTITY,))
    operator.inboxes.append(inbox)
    names = (*IDENTITY, "_expires", *rows.names)
    every = Selection.of(table(window), (*names, *OUT))
    within = dataclasses.replace(every, conditions=(exp.EQ(this=column(OUT[1]), expression=number(NEVER)),))
    content = Selection.of(exp.Subquery(this=every.select()), (*names, *OUT))
    steps = [
        _changer(node, change, trigger, rows, within, network, operator)
        for (_, change), trigger in zip(node.changes, triggers, strict=True)
    ]
    leave = exp.Update(this=table(window), expressions=equations(OUT, 0)).where(*equations(IDENTITY, len(OUT)))
    operator.steps.append(
        Versions(
            table=window,
            window=database.quoted(window),
            inbox=database.quoted(inbox),
            arrived=database.render(arrived(rows)),
            changers=tuple(steps),
            leave=database.marked(leave, len(OUT) + len(IDENTITY)),
        )
    )
    operator.purges.append(Purge(window, exp.LT(this=column(OUT[1]), expression=number(NEVER))))
    timed = rows.timed or any(trigger.timed for trigger in triggers)
    arrivals = Selection.of(table(inbox), names)
    return Flow(rows.names, arrivals, content, order=("_place",), counted=True, timed=timed, late=True)


def _changer(
    node: Changing, change: Change, trigger: Flow, rows: Flow, within: Selection, network: Network, operator: Operator
) -> Changer:
    cause = network.name("cause", node)
    events = arrived(trigger)
    add_cause(operator, cause, events)
    database = network.database
    return Changer(
        change=change,
        arrived=database.render(events),
        cause=database.quoted(cause),
        clear=database.render(exp.delete(table(cause))),
        found=database.render(found(change, rows.names, within, cause, IDENTITY)),
        unmatched=database.render(unmatched(change, rows.names, cause)) if change.unmatched else None,
    )
