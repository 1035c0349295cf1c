"""Equations of two inputs of a correlation, rewritten with one input on each side, so that a hash join can use them.

`a - b = 2` becomes `b = a - 2`. Only integers are moved, and computed in a wide type: other numbers would be rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from windows.sql import number

InputOf = Callable[[str], str]
"""Gives the input of a column."""

_WHOLE = ("SMALLINT", "INTEGER", "BIGINT")


def split(condition: exp.Expr, input_of: InputOf, own: str, wide: str | None) -> tuple[exp.Expr, exp.Expr] | None:
    """The sides of an equation: the first of the input `own` and constants, the second of one other input.

    None if the condition is not such an equation. `wide` is a type in which sums do not overflow; without it no term is
    moved.
    """
    if isinstance(condition, exp.Paren):
        return split(condition.this, input_of, own, wide)
    if not isinstance(condition, exp.EQ):
        return None
    found = [*terms(condition.this), *terms(condition.expression, -1)]
    of = [input_of(term.name) if isinstance(term, exp.Column) else own for _, term in found]
    if len({*of, own}) != 2 or own not in of:
        return None
    if len(found) == 2 and all(isinstance(term, exp.Column) for _, term in found) and found[1][0] < 0:
        mine, other = found if of[0] == own else reversed(found)
        return mine[1].copy(), other[1].copy()
    if wide is None or not all(is_whole(term) for _, term in found):
        return None
    moved = [(sign, term) for (sign, term), its in zip(found, of, strict=True) if its == own]
    others = [(-sign, term) for (sign, term), its in zip(found, of, strict=True) if its != own]
    return _sum(moved, wide), _sum(others, wide)


def terms(value: exp.Expr, sign: int = 1) -> Iterator[tuple[int, exp.Expr]]:
    """The terms of a sum, each with its sign."""
    match value:
        case exp.Paren():
            yield from terms(value.this, sign)
        case exp.Neg():
            yield from terms(value.this, -sign)
        case exp.Add() | exp.Sub():
            yield from terms(value.this, sign)
            yield from terms(value.expression, sign if isinstance(value, exp.Add) else -sign)
        case _:
            yield sign, value


def is_whole(term: exp.Expr) -> bool:
    """Whether a column or literal is an integer."""
    if isinstance(term, exp.Column):
        return term.meta_get("type") in _WHOLE
    return isinstance(term, exp.Literal) and not term.is_string and term.name.isdigit()


def _sum(signed: Sequence[tuple[int, exp.Expr]], wide: str) -> exp.Expr:
    """The sum, in a type in which moved terms do not overflow."""
    total: exp.Expr = exp.cast(number(0), wide)
    for sign, term in signed:
        total = exp.Add(this=total, expression=term.copy()) if sign > 0 else exp.Sub(this=total, expression=term.copy())
    return total
