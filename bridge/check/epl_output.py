"""EPL's output clauses resolved (`bridge.query.epl_output`)."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge import query
from bridge.check.resolve import Namespace, ResolvedNode, resolve, resolve_stream
from bridge.check.scope import Scope, order_term, scalar
from bridge.check.windows import is_known_to_change
from bridge.errors import QueryError
from bridge.query.epl_output import OutputEvery, RStream, Snapshot


@resolve.register
def _(node: query.OrderLimitDistinct, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    scope = Scope(below.fields)
    order = tuple(order_term(term, scope) for term in node.order_by)
    last_of = None if node.last_of is None else tuple(scalar(key, scope) for key in node.last_of)
    resolved = dataclasses.replace(node, input=below.node, order_by=order, last_of=last_of)
    return ResolvedNode(resolved, below.fields, windowed=False)


@resolve.register
def _(node: query.Throttle, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    keys = tuple(scalar(key, Scope(below.fields)) for key in node.partition_by)
    return ResolvedNode(dataclasses.replace(node, input=below.node, partition_by=keys), below.fields, windowed=False)


@resolve.register
def _(node: Snapshot, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    if not is_known_to_change(query.without_filters(below.node)):
        raise QueryError("a snapshot tells what a window holds: #keepall, #time(5 sec)", words=["snapshot"])
    return ResolvedNode(dataclasses.replace(node, input=below.node), below.fields, windowed=True)


@resolve.register
def _(node: OutputEvery, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    return ResolvedNode(dataclasses.replace(node, input=below.node), below.fields, windowed=False)


@resolve.register
def _(node: RStream, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    if isinstance(query.without_filters(below.node), query.Stream):  # rows never leave an input without a window
        return ResolvedNode(query.Filter(below.node, exp.false()), below.fields, windowed=False)
    return ResolvedNode(RStream(below.node), below.fields, windowed=False)
