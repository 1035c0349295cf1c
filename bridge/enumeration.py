"""EPL's methods on lists with conditions: `tags.countOf(x => x = 'a')`, `items.sumOf(x => x.price)`."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.check import Names, Resolved, resolve, streaming
from bridge.errors import QueryError
from bridge.query import Node
from bridge.scope import Field, Scope, column, condition_of, scalar
from bridge.types import family, place, type_of
from windows.types import List, is_nested, shape

METHODS = {
    "countof": "COUNT", "anyof": "ANY", "allof": "ALL", "firstof": "FIRST", "lastof": "LAST", "sumof": "SUM",
    "average": "AVG", "min": "MIN", "max": "MAX",
}  # fmt: skip
CONDITIONAL = ("COUNT", "ANY", "ALL", "FIRST", "LAST")
"""Those whose body is a condition; that of others is a value."""


@dataclasses.dataclass(frozen=True)
class Enumeration(Node):
    """Each row with one column more: what a `method` finds in a list, `values`.

    Its `body` is over an element, `name.element`, and over the row: a condition, or a value; without one it is the
    element. NULL among the elements does not count, and of a list that is NULL all is NULL.

    >>> from bridge.query import Stream, scalar
    >>> print(Enumeration(Stream("S"), "each.1", exp.column("tags"), "COUNT", scalar('"each.1.element" = k')))
    SELECT * FROM S WITH "each.1" (COUNT OF tags: "each.1.element" = k)
    """

    input: Node
    name: str
    values: exp.Expr
    method: str
    body: exp.Expr | None = None

    def __str__(self) -> str:
        body = "" if self.body is None else f": {self.body.sql()}"
        return f'{self.input} WITH "{self.name}" ({self.method} OF {self.values.sql()}{body})'

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def element(self) -> str:
        """What the body calls an element."""
        return f"{self.name}.element"


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
