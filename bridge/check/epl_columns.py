"""EPL's additional columns resolved (`bridge.query.epl_columns`): values of earlier rows, sub-queries, enumeration methods."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge import query
from bridge.check.aggregates import refuse_missing
from bridge.check.operands import check_types
from bridge.check.resolve import Namespace, ResolvedNode, resolve, resolve_stream
from bridge.check.scope import Field, Scope, condition_of, scalar
from bridge.check.types import family, place, type_of
from bridge.errors import QueryError
from windows.sql import column
from windows.types import List, is_nested, shape

METHODS = {
    "countof": "COUNT", "anyof": "ANY", "allof": "ALL", "firstof": "FIRST", "lastof": "LAST", "sumof": "SUM",
    "average": "AVG", "min": "MIN", "max": "MAX",
}  # fmt: skip
CONDITIONAL = ("COUNT", "ANY", "ALL", "FIRST", "LAST")
"""The functions whose body is a condition; the body of other functions is a value."""


@resolve.register
def _(node: query.PreviousRow, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    scope = Scope(below.fields)
    value, keys = scalar(node.value, scope), tuple(scalar(key, scope) for key in node.partition_by)
    resolved = dataclasses.replace(node, input=below.node, value=value, partition_by=keys)
    field = Field(node.name, type_of(value, scope.type_of), hidden=True)
    return ResolvedNode(resolved, (*below.fields, field), windowed=False)


@resolve.register
def _(node: query.SubqueryColumn, names: Namespace) -> ResolvedNode:
    below, source = resolve_stream(node.input, names), resolve(node.source, names)
    if not source.windowed and not isinstance(source.node, query.Relation):
        name = query.source_name(source.node) or "its input"
        raise QueryError(f"a sub-query over {name!r} needs a window: #keepall, #time(…), #length(…)", words=[name])
    inner = [Field(f"{node.name}.{f.name}", f.type, (node.name, f.name)) for f in source.visible]
    both = Scope((*below.fields, *inner, Field(f"{node.name}.ts", "BIGINT", (node.name, "ts"))))
    condition = None if node.condition is None else condition_of(node.condition, both, "WHERE")
    value = None if node.value is None else scalar(node.value, both, aggregates=True)
    operand = None if node.operand is None else scalar(node.operand, Scope(below.fields))
    if value is not None:
        refuse_missing([value], names.store(None))
    kind = "BOOLEAN" if value is None or operand is not None else type_of(value, both.type_of)
    if value is not None and operand is not None:
        check_types(exp.EQ(this=node.operand, expression=node.value), both.type_of)
    resolved = query.SubqueryColumn(
        below.node, node.name, source.node, condition, value, operand, node.early, node.place
    )
    return ResolvedNode(resolved, (*below.fields, Field(node.name, kind, hidden=True)), windowed=False)


@resolve.register
def _(node: query.Enumeration, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    outer = Scope(below.fields)
    values = scalar(node.values, outer)
    kind = type_of(values, outer.type_of)
    found = shape(kind)
    if not isinstance(found, List):
        raise QueryError(f"{node.values.sql()} is {kind}: its methods are those of lists", position=place(node.values))
    scope = Scope((*below.fields, Field(node.element, found.element)))
    body = node.body
    if node.method in CONDITIONAL and body is not None:
        body, kind = condition_of(body, scope, "=>"), found.element
    else:
        body = scalar(column(node.element) if body is None else body, scope)
        kind = type_of(body, scope.type_of)
        if is_nested(kind) or kind == "BOOLEAN" or (node.method in ("SUM", "AVG") and family(kind) != "number"):
            raise QueryError(f"{node.method} is not of values that are {kind}", position=place(node.values))
    resolved = dataclasses.replace(node, input=below.node, values=values, body=body)
    return ResolvedNode(
        resolved, (*below.fields, Field(node.name, method_type(node.method, kind), hidden=True)), windowed=False
    )


def method_type(method: str, of: str) -> str:
    """The type of a method's result for values of this type."""
    types = {"COUNT": "BIGINT", "ANY": "BOOLEAN", "ALL": "BOOLEAN", "AVG": "DOUBLE"}
    whole = {"SMALLINT": "BIGINT", "INTEGER": "BIGINT"}
    return types.get(method) or (whole.get(of, of) if method == "SUM" else of)
