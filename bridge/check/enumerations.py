"""EPL's methods on lists with conditions: `tags.countOf(x => x = 'a')`, `items.sumOf(x => x.price)`."""

from __future__ import annotations

import dataclasses

from bridge.check.resolve import Names, Resolved, resolve, streaming
from bridge.check.scope import Field, Scope, condition_of, scalar
from bridge.check.types import family, place, type_of
from bridge.errors import QueryError
from bridge.query.epl_columns import Enumeration
from windows.sql import column
from windows.types import List, is_nested, shape

METHODS = {
    "countof": "COUNT", "anyof": "ANY", "allof": "ALL", "firstof": "FIRST", "lastof": "LAST", "sumof": "SUM",
    "average": "AVG", "min": "MIN", "max": "MAX",
}  # fmt: skip
CONDITIONAL = ("COUNT", "ANY", "ALL", "FIRST", "LAST")
"""Those whose body is a condition; that of others is a value."""


@resolve.register
def _(node: Enumeration, names: Names) -> Resolved:
    below = streaming(node.input, names)
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
    return Resolved(resolved, (*below.fields, Field(node.name, told(node.method, kind), hidden=True)), windowed=False)


def told(method: str, of: str) -> str:
    """The type of what a method gives of such values."""
    types = {"COUNT": "BIGINT", "ANY": "BOOLEAN", "ALL": "BOOLEAN", "AVG": "DOUBLE"}
    whole = {"SMALLINT": "BIGINT", "INTEGER": "BIGINT"}
    return types.get(method) or (whole.get(of, of) if method == "SUM" else of)
