"""DECIMALs in SQLite, which computes them as doubles: results are rounded to the digits after the point.

So 0.1 + 0.2 is 0.3, and a total of many DECIMALs is exact as long as it has no more than 15 digits. A remainder is that of whole
numbers in SQLite; here it is computed by a function of Python.
"""

from __future__ import annotations

import math
from typing import Any

from sqlglot import exp

from windows.databases.base import Database
from windows.nested import call
from windows.schema import Attribute
from windows.sql import COMPUTED, number
from windows.types import scale_of

_AROUND_CALL = (exp.Window, exp.Filter)
"""The nodes around the call of an aggregate."""


class SQLiteDecimals(Database):
    """The part of SQLite's dialect that is for DECIMALs."""

    def result_type(self, attribute: Attribute) -> str:
        """NUMERIC for decimals: sums have more digits than a column may declare.

        The values are those that SQLite has computed.
        """
        return "NUMERIC" if scale_of(attribute.type) is not None else super().result_type(attribute)

    def value_type(self, attribute: Attribute) -> str | None:
        """None for DECIMALs: a NUMERIC column turns doubles into integers, but CAST does not."""
        kind = self.column_type(attribute)
        return None if kind == "NUMERIC" else kind

    def adapt(self, node: exp.Expr) -> exp.Expr:
        kind = _computed_type(node)
        if kind is None:
            return super().adapt(node)
        scale = scale_of(kind)
        bare = _without_type(node)
        if isinstance(bare, exp.Mod):
            digits = exp.null() if scale is None else number(scale)
            return call("CEP_REMAINDER", bare.this, bare.expression, digits).transform(self.adapt)
        assert scale is not None
        return exp.Round(this=bare.transform(self.adapt), decimals=number(scale))


def remainder(value: Any, by: Any, scale: int | None) -> float | None:
    """`value % by` with the sign of the value, of doubles or of decimals with `scale` digits after the point.

    >>> remainder(-5.35, 2, 2), remainder(0.3, 0.1, 2), remainder(5.5, 2, None), remainder(1, 0, None)
    (-1.35, 0.0, 1.5, None)
    """
    if value is None or not by or not math.isfinite(value):
        return None
    if scale is None or not math.isfinite(by):
        return math.fmod(value, by)
    unit = 10**scale
    whole, divisor = round(value * unit), abs(round(by * unit))
    return math.copysign(abs(whole) % divisor / unit, whole) if divisor else None


def _computed_type(node: exp.Expr) -> str | None:
    """The type of a computed value that SQLite would compute as another type; a window function has that of its call."""
    of = node.this if isinstance(node, _AROUND_CALL) and node.meta_get(COMPUTED) is None else node
    return None if isinstance(of, exp.Avg) else of.meta_get(COMPUTED)


def _without_type(node: exp.Expr) -> exp.Expr:
    found = node.copy()
    for each in (found, found.this) if isinstance(node, _AROUND_CALL) else (found,):
        each.meta.pop(COMPUTED, None)
    return found
