"""EPL's create variable: a value under a name. Values do not change, as on … set is not there."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.frontends import epl_scalars
from bridge.frontends.cursor import Cursor
from bridge.types import family, type_of


@dataclasses.dataclass(frozen=True)
class CreateVariable:
    """`create constant variable int LIMIT = 3`."""

    name: str
    value: exp.Expr


def create_variable(cursor: Cursor) -> CreateVariable:
    """Step over `constant variable int most = 3`, after `create`.

    >>> from bridge.frontends.epl_text import EplCursor
    >>> found = create_variable(EplCursor("variable double most = 3"))
    >>> found.name, found.value.sql()
    ('most', 'CAST(3 AS DOUBLE)')
    """
    cursor.take("CONSTANT")
    cursor.expect("VARIABLE")
    position = cursor.position
    kind = epl_scalars.type_named(cursor, cursor.name("the type of a variable"), position)
    if cursor.word() == "[":
        cursor.fail("a variable of several values is not supported: write them, v in (1, 2)")
    name = cursor.name("a name for the variable")
    if not (cursor.take("=") or cursor.take(":=")):
        return CreateVariable(name, exp.cast(exp.null(), kind))
    position = cursor.position
    value = epl_scalars.single(cursor, cursor.until((";",)), "a value")
    if value.find(exp.Column, exp.AggFunc, exp.Anonymous) is not None:
        cursor.fail("the value of a variable is computed of constants", position)
    found = type_of(value, lambda column: "UNKNOWN")
    if None not in (family(found), family(kind)) and family(found) != family(kind):
        cursor.fail(f"the variable {name!r} is {kind}, {value.sql()} is {found}", position)
    return CreateVariable(name, value if _is_of(value, kind) else exp.cast(value, kind))


def _is_of(value: exp.Expr, kind: str) -> bool:
    """Whether a literal is of a type as it stands."""
    if isinstance(value, exp.Boolean):
        return kind == "BOOLEAN"
    if not isinstance(value, exp.Literal):
        return False
    return kind == "VARCHAR" if value.is_string else kind in ("INTEGER", "BIGINT") if value.is_int else kind == "DOUBLE"
