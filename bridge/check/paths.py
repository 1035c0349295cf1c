"""Paths into nested values, such as `address.city`, `items[1].price`, `prices['x']`: from written names to typed parts.

As in SQL, the first value of a list is `[1]`, and its last is `[-1]`. A missing part is NULL: a place beyond the list's
end, a key that a map lacks, a part of an object that is NULL itself. A part that no object of the type has is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from sqlglot import exp

from bridge.errors import QueryError, nearest
from windows.nested import is_part, kind_of, list_place, step_into, with_type
from windows.types import List, Struct, shape

Step = str | int
"""A name or a key, or a place in a list: from 0, where -1 is the last."""

TypedColumn = tuple[exp.Expr, str] | None
"""A column in normal form and its type."""

SOURCE_TEXT = "written"
"""The key in the metadata of a part for its text in the query, for messages."""


def is_path(node: object) -> bool:
    """Whether a node is a step of a path, as written."""
    if isinstance(node, exp.Dot):
        return isinstance(node.expression, exp.Identifier)
    return isinstance(node, exp.Bracket) and node.meta_get(SOURCE_TEXT) is None


def path(base: exp.Expr, *steps: Step) -> exp.Expr:
    """A path in the form of query objects.

    >>> path(exp.column("items"), 0, "price").sql()
    'items[1].price'
    """
    for step in steps:
        if isinstance(step, int):
            base = exp.Bracket(this=base, expressions=[list_place(step)])
        else:
            base = exp.Dot(this=base, expression=exp.to_identifier(step))
    return base


def key(base: exp.Expr, name: str) -> exp.Expr:
    """The value for a key in a map.

    >>> key(exp.column("prices"), "x").sql()
    "prices['x']"
    """
    return exp.Bracket(this=base, expressions=[exp.Literal.string(name)])


def with_parts(expression: exp.Expr, find: Callable[[exp.Column], TypedColumn]) -> exp.Expr:
    """The expression with typed parts for its paths. `find` gives the columns that the paths begin with."""

    def changed(node: exp.Expr) -> exp.Expr:
        return _part(node, find) if is_path(node) else node

    return expression.transform(changed) if any(map(is_path, expression.walk())) else expression


def column_of_path(node: exp.Expr) -> exp.Column | None:
    """The column that a typed path, or the length of a list, reads; None for any other node."""
    if isinstance(node, exp.ArraySize):
        return node.this if isinstance(node.this, exp.Column) else column_of_path(node.this)
    if not isinstance(node, exp.Cast) or not is_part(node.this):
        return None
    below = node.this
    while is_part(below):
        below = below.this
    return below if isinstance(below, exp.Column) else None


def source_text(expression: exp.Expr) -> str:
    """The SQL of an expression, with paths as they were written."""

    def written(node: exp.Expr) -> exp.Expr:
        return exp.var(node.meta[SOURCE_TEXT]) if node.meta_get(SOURCE_TEXT) is not None else node

    return expression.transform(written).sql()


def _part(node: exp.Expr, find: Callable[[exp.Column], TypedColumn]) -> exp.Expr:
    """A path with its type; or an EPL call, `f('x')`, if it is not a path."""
    *_, column = _below(node)
    if not isinstance(column, exp.Column):
        raise QueryError(f"{node.sql()}: only columns have parts", position=_place(node))
    found = _found_column(node, column, find)
    if found is None:
        return cast("exp.Expr", node.meta["call"].copy())
    value, kind = found
    names = [column.sql()]
    for step in reversed(list(_below(node))[:-1]):
        names.append(_text(step))
        stepped = step_into(value, kind, _step(step))
        if stepped is None:
            raise QueryError(_complaint(step, kind, names), position=_place(step))
        value, kind = stepped
    result = with_type(value, kind)
    for made in (result, value):
        made.meta.update({SOURCE_TEXT: "".join(names), "start": _place(node)})
    return result


def _found_column(node: exp.Expr, column: exp.Column, find: Callable[[exp.Column], TypedColumn]) -> TypedColumn:
    try:
        return find(column)
    except QueryError as error:
        if node.meta_get("call") is not None and error.message.startswith("unknown column"):
            return None  # then it is a function of the database
        reasons = (step.meta_get("unknown") for step in _below(node))
        if (reason := next(filter(None, reasons), None)) is not None and error.message.startswith("unknown column"):
            raise QueryError(str(reason), position=error.position) from None
        raise


def _below(node: exp.Expr) -> Iterator[exp.Expr]:
    """A path, the path that it is a part of, and so on, down to the column."""
    yield node
    while is_path(node):
        node = node.this
        yield node


def _step(node: exp.Expr) -> Step:
    """The step of a node; a place may be written with a sign."""
    if isinstance(node, exp.Dot):
        return str(node.expression.name)
    index = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(index, exp.Literal) and index.is_string:
        if not index.name or '"' in index.name or "\\" in index.name:
            raise QueryError("a key is a text without quotes and backslashes", position=_place(node))
        return str(index.name)
    sign, number = (-1, index.this) if isinstance(index, exp.Neg) else (1, index)
    if not (isinstance(number, exp.Literal) and number.name.isdigit() and 0 < int(number.name) < 2**31):
        raise QueryError(
            "a place in a list is a constant: [1] is the first value, [-1] the last one (in EPL [0] is the first)",
            position=_place(node),
        )
    return int(number.name) - 1 if sign > 0 else -int(number.name)


def _text(node: exp.Expr) -> str:
    if isinstance(node, exp.Dot):
        return f".{node.expression.sql()}"
    return f"[{', '.join(each.sql() for each in node.expressions)}]"


def _complaint(node: exp.Expr, kind: str, names: list[str]) -> str:
    whole = "".join(names[:-1])
    found = shape(kind)
    if isinstance(found, Struct) and isinstance(_step(node), str):
        name = str(_step(node))
        return f"{whole} has no part {name!r}{nearest(name, [field for field, _ in found.fields])}"
    if isinstance(found, List):
        return f"{whole} is a list: name a place in it"
    return f"{whole} is {kind}: it {'is not a list' if isinstance(_step(node), int) else 'has no parts'}"


def _place(node: exp.Expr) -> int | None:
    offsets = [found.meta["start"] for found in node.find_all(exp.Identifier) if found.meta_get("start") is not None]
    return max(offsets, default=None)


__all__ = ["column_of_path", "is_part", "is_path", "key", "kind_of", "path", "source_text", "with_parts"]
