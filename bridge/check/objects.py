"""Objects and lists in expressions: `A.*` as a value, the whole row; `{'a': x}`; ARRAY_AGG(x), the values of a group.

They get their types here, as the databases need them (`windows.nested`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from bridge.check.paths import SOURCE_TEXT
from bridge.check.types import UNKNOWN, place
from bridge.errors import QueryError
from windows.nested import FieldValue, array_of, is_array, is_list, is_object, list_of, object_of
from windows.sql import identifier
from windows.types import Struct, TypeMismatch, canonical_type

Columns = Callable[[str], Sequence[tuple[str, str]]]
"""Gives the names and types of the columns of a row: of the row with this name, or ("") of the only row."""

Kind = Callable[[exp.Expr], str]
"""The type of an expression."""


VALUES = "values"
"""Marks an Array as a list of values, `{v, w}` in EPL, which is given a type here."""

_NUMBERS = ("SMALLINT", "INTEGER", "BIGINT", "DOUBLE")


def with_objects(expression: exp.Expr, columns: Columns, kind_of: Kind) -> exp.Expr:
    """The expression with typed objects and lists.

    >>> whole = exp.Column(this=exp.Star(), table=exp.to_identifier("A"))
    >>> print(with_objects(exp.ArrayAgg(this=whole), lambda of: [("v", "INTEGER")], lambda value: "STRUCT(v INTEGER)"))
    CAST(ARRAY_AGG(CAST(STRUCT(A."v" AS "v") AS STRUCT<v INT>)) AS ARRAY<STRUCT<v INT>>)
    """
    if not expression.find(exp.Star, exp.ArrayAgg, exp.Struct, exp.Array):
        return expression

    def changed(node: exp.Expr) -> exp.Expr:
        if is_object(node) or is_list(node) or is_array(node) or isinstance(node, exp.Count):
            return node.copy()  # its parts are not visited
        if _is_row(node):
            return _row(node, columns)
        if isinstance(node, exp.Struct) and all(isinstance(part, exp.PropertyEQ) for part in node.expressions):
            parts = [(part.name, with_objects(part.expression, columns, kind_of)) for part in node.expressions]
            return _object([(name, value, kind_of(value)) for name, value in parts], node)
        if isinstance(node, exp.Array) and node.meta_get(VALUES) is not None:
            return _array([with_objects(value, columns, kind_of) for value in node.expressions], node, kind_of)
        if isinstance(node, exp.ArrayAgg) and not isinstance(node.this, (exp.Order, exp.Distinct)):
            value = with_objects(node.this, columns, kind_of)
            kind = kind_of(value)
            if kind == UNKNOWN:
                what = node.this.sql()
                raise QueryError(f"the type of {what} is known to the database alone: CAST it", position=place(node))
            return list_of(value, kind)
        return node

    return expression.transform(changed)


def _array(values: Sequence[exp.Expr], node: exp.Expr, kind_of: Kind) -> exp.Expr:
    """The list of some values, in the widest of their types."""
    kinds = list(dict.fromkeys(map(kind_of, values)))
    if len(kinds) > 1 and all(kind in _NUMBERS for kind in kinds):
        widest = max(kinds, key=_NUMBERS.index)
        to = exp.DataType.build(widest, dialect="duckdb")
        return array_of([value if kind_of(value) == widest else exp.cast(value, to) for value in values], widest)
    if len(kinds) != 1 or UNKNOWN in kinds:
        what = ", ".join(kinds) or "none"
        raise QueryError(
            f"the values of a list are of one type, and not of {what}: cast says which", position=place(node)
        )
    return array_of(values, kinds[0])


def _is_row(node: exp.Expr) -> bool:
    """Whether a node is `A.*` or `*`."""
    return isinstance(node.this if isinstance(node, exp.Column) else node, exp.Star)


def _row(node: exp.Expr, columns: Columns) -> exp.Expr:
    qualifier = node.args.get("table") if isinstance(node, exp.Column) else None

    def column(name: str) -> exp.Expr:
        found = exp.column(identifier(name), table=qualifier and qualifier.copy())
        found.this.meta.update((node if qualifier is None else qualifier).meta)
        return found

    fields = columns(qualifier.name if qualifier else "")
    found = _object([(name, column(name), kind) for name, kind in fields], node)
    found.meta[SOURCE_TEXT] = node.sql()
    return found


def _object(fields: Sequence[FieldValue], node: exp.Expr) -> exp.Expr:
    try:
        object_type([(name, kind) for name, _, kind in fields])
    except QueryError as error:
        raise QueryError(error.message, position=place(node)) from None
    return object_of(fields)


def object_type(fields: Sequence[tuple[str, str]], *words: str) -> str:
    """The type of an object with parts of these names and types. `words`: the words that an error points at.

    >>> object_type([("a", "INTEGER")])
    'STRUCT(a INTEGER)'
    """
    unknown = next((name for name, kind in fields if kind == UNKNOWN), None)
    if unknown is not None:
        raise QueryError(f"the type of {unknown} is known to the database alone: CAST it", words=list(words))
    try:
        return canonical_type(str(Struct(tuple(fields))))
    except TypeMismatch as error:
        raise QueryError(str(error), words=list(words)) from None
