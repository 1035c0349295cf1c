"""Whether arithmetic gives the same outside the database: it is over numbers, and no whole number exceeds 64 bits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from bridge.patterns.arrays import Array
from bridge.patterns.evaluate.printer import Number, Printer, UnknownOperator, print_expression

Bound: TypeAlias = int | float | None
"""The largest magnitude of a whole number; infinity for other numbers, None for a value that is not a number."""

LARGEST = 2**63 - 1
"""The largest whole number of 64 bits."""


def is_exact(expression: exp.Expr, bounds: Mapping[str, Bound]) -> bool:
    """Whether all arithmetic in an expression over columns with these bounds is of this kind.

    >>> from sqlglot import parse_one
    >>> product = parse_one("a * b > 1000")
    >>> is_exact(product, {"a": 10**9, "b": 10**9}), is_exact(product, {"a": 10**10, "b": 10**9})
    (True, False)
    >>> is_exact(product, {"a": None, "b": 1}), is_exact(parse_one("a > b"), {"a": None, "b": None})
    (False, True)
    """
    try:
        print_expression(expression, _Bounds(bounds))
    except UnknownOperator:
        return False
    return True


def bound_of(array: Array) -> Bound:
    """The bound of an array's values.

    >>> bound_of(pa.array([3, -5, None])), bound_of(pa.array([0.5])), bound_of(pa.array(["a"]))
    (5, inf, None)
    """
    types = pa.types
    if types.is_integer(array.type):
        extremes: Any = pc.min_max(array).as_py()
        return max((abs(value) for value in extremes.values() if value is not None), default=0)
    is_number = types.is_floating(array.type) or types.is_decimal(array.type) or types.is_null(array.type)
    return math.inf if is_number else None


def has_nan(array: Array) -> bool:
    """Whether a value is NaN, which databases compare differently: there it equals itself and is the greatest.

    >>> has_nan(pa.array([1.0, float("nan")])), has_nan(pa.array([1.0, None])), has_nan(pa.array([1]))
    (True, False, False)
    """
    return pa.types.is_floating(array.type) and bool(pc.any(pc.is_nan(array)).as_py())


def compares_alike(expression: exp.Expr, arrays: Sequence[Array]) -> bool:
    """Whether Python compares in the same way. No DECIMAL or whole number beyond 53 bits is then beside a double.

    >>> from sqlglot import parse_one
    >>> prices = pa.array([0, 1]).cast(pa.decimal128(21, 2))
    >>> [compares_alike(parse_one(text), [prices]) for text in ("a < b", "a = 0.3")]
    [True, False]
    """
    has_doubles = any(pa.types.is_floating(array.type) for array in arrays) or any(
        not literal.is_string and not literal.name.isdecimal() for literal in expression.find_all(exp.Literal)
    )
    others = [array for array in arrays if not (pa.types.is_floating(array.type) or pa.types.is_null(array.type))]
    return not has_doubles or all((bound_of(array) or 0) <= 2**53 for array in others)


class _Bounds(Printer[Bound]):
    """The bound of each operator's value. Raises UnknownOperator if arithmetic may differ outside the database."""

    def __init__(self, bounds: Mapping[str, Bound]) -> None:
        self._bounds = bounds

    def column(self, name: str) -> Bound:
        return self._bounds[name]

    def number(self, value: Number) -> Bound:
        return abs(value) if isinstance(value, int) else math.inf

    def negative(self, operand: Bound) -> Bound:
        return self.computed("sub", 0, operand)

    def computed(self, operator: str, left: Bound, right: Bound) -> Bound:
        if left is None or right is None:
            raise UnknownOperator
        if math.inf in (left, right):
            return math.inf
        found = left * right if operator == "mul" else left + right
        if found > LARGEST:
            raise UnknownOperator
        return found

    def compared(self, operator: str, left: Bound, right: Bound) -> Bound:
        return None

    def conjunction(self, left: Bound, right: Bound) -> Bound:
        return None

    def disjunction(self, left: Bound, right: Bound) -> Bound:
        return None

    def negation(self, operand: Bound) -> Bound:
        return None

    def text(self, value: str) -> Bound:
        return None

    def boolean(self, value: bool) -> Bound:
        return None

    def null(self) -> Bound:
        return math.inf

    def is_null(self, operand: Bound) -> Bound:
        return None

    def is_one_of(self, operand: Bound, others: list[Bound]) -> Bound:
        return None

    def coalesce(self, operands: list[Bound]) -> Bound:
        known = [operand for operand in operands if operand is not None]
        return max(known) if len(known) == len(operands) else None
