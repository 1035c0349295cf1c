"""Equations of two parts of a correlation with one part on each side: what a hash join can use.

`a - b = 2` reads `b = a - 2` then. Only whole numbers are moved, and computed wide: those of no size are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from windows.sql import number

PartOf = Callable[[str], str]
"""The part that a column is of."""

_WHOLE = ("SMALLINT", "INTEGER", "BIGINT")


def split(condition: exp.Expr, part_of: PartOf, part: str, wide: str | None) -> tuple[exp.Expr, exp.Expr] | None:
    """Two sides that are equal where an equation holds, one of this part and of constants, one of another part.

    `wide`: a type in which sums do not overflow; without one nothing is moved.
    """
    if isinstance(condition, exp.Paren):
        return split(condition.this, part_of, part, wide)
    if not isinstance(condition, exp.EQ):
        return None
    found = [*terms(condition.this), *terms(condition.expression, -1)]
    of = [part_of(term.name) if isinstance(term, exp.Column) else part for _, term in found]
    if len({*of, part}) != 2 or part not in of:
        return None
    if len(found) == 2 and all(isinstance(term, exp.Column) for _, term in found) and found[1][0] < 0:
        mine, other = found if of[0] == part else reversed(found)
        return mine[1].copy(), other[1].copy()
    if wide is None or not all(is_whole(term) for _, term in found):
        return None
    moved = [(sign, term) for (sign, term), its in zip(found, of, strict=True) if its == part]
    others = [(-sign, term) for (sign, term), its in zip(found, of, strict=True) if its != part]
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
    """Whether a column or literal is of whole numbers."""
    if isinstance(term, exp.Column):
        return term.meta.get("type") in _WHOLE
    return isinstance(term, exp.Literal) and not term.is_string and term.name.isdigit()


def _sum(signed: Sequence[tuple[int, exp.Expr]], wide: str) -> exp.Expr:
    """The sum, computed with so many digits that what was moved cannot overflow."""
    total: exp.Expr = exp.cast(number(0), wide)
    for sign, term in signed:
        total = exp.Add(this=total, expression=term.copy()) if sign > 0 else exp.Sub(this=total, expression=term.copy())
    return total
