"""Values that variables have before an event sets them: what a filter of its stream asks for (EPL).

One operator asks for the value of a variable as events of a stream come. What sets variables by these events makes it
before itself, so it has its place before; filters that are written later find it there.
"""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge import query
from bridge.errors import QueryError
from bridge.flow import Need, of
from bridge.rewrite.network import Network
from bridge.scope import column
from bridge.variables import SetVariables, looked_up


def make(node: SetVariables, network: Network) -> None:
    """Makes what asks for the values of the variables that are set, of all streams whose events set them."""
    for below in dict.fromkeys(below for below in query.walk(node) if isinstance(below, query.Stream)):
        for state in node.set if _is_pushed(below, network) else ():
            asked = looked_up(below, state.name, early=True)
            asked = dataclasses.replace(asked, value=column(f"{asked.name}.{state.name}"))
            network.rewrite(asked, Need.ARRIVALS)


def is_alone(node: query.Lookup, network: Network) -> bool:
    """Whether it is what asks for one variable's value as events of a stream come."""
    return _is_pushed(node.input, network)


def value(node: query.Lookup, network: Network) -> exp.Expr | None:
    """Of a second variable the value that was found for the same event `t`; None where it is to be asked for."""
    if not node.early or is_alone(node, network):
        return None
    below = node.input
    while isinstance(below, query.Lookup) and below.early:
        below = below.input
    if not _is_pushed(below, network):
        _refuse_own(node, network)
        return None
    rows = network.rewrite(dataclasses.replace(node, input=below), Need.ARRIVALS).arrivals
    same = exp.EQ(this=rows.value(column("seq"), "w"), expression=of("t", "seq"))
    select = exp.select(rows.value(column(node.name), "w")).from_(rows.item("w")).where(same, *rows.conditions_of("w"))
    return exp.Subquery(this=select)


def _is_pushed(node: query.Node, network: Network) -> bool:
    return isinstance(node, query.Stream) and network.source(node.name).inbox is not None


def _refuse_own(node: query.Lookup, network: Network) -> None:
    """Of a stream made of others the value before the event is not known, where its own events set it."""
    name = node.source.name if isinstance(node.source, query.Relation) else ""
    if own := sorted(network.changed_by(name, node.input)):
        raise QueryError(
            f"a filter of events of {own[0]!r}, which set {name!r}, is not supported here: insert into … select *, {name} "
            "as x, before on … set",
            words=[own[0]],
        )
