"""Expressions over numpy arrays, with NULL and the three-valued logic of SQL."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp

from bridge.patterns.arrays import Array
from bridge.patterns.evaluate.exact import LARGEST, bound_of
from bridge.patterns.evaluate.printer import Number, Printer, UnknownOperator, print_expression


class Column(NamedTuple):
    """Values, with a mask of the NULLs (None: no NULLs). `kind`: number, boolean, time or text (as ranks)."""

    values: NDArray[Any]
    nulls: NDArray[Any] | None
    kind: str

    def of(self, places: NDArray[Any]) -> Column:
        """The values at these places, none of which is negative."""
        return Column(self.values.take(places), None if self.nulls is None else self.nulls.take(places), self.kind)

    def at(self, places: NDArray[Any]) -> Column:
        """The values at these places; a negative place gives NULL."""
        absent = places < 0
        nulls = None if self.nulls is None else self.nulls[places]
        if absent.any():
            nulls = absent if nulls is None else nulls | absent
            places = np.where(absent, 0, places)
        return Column(self.values[places], nulls, self.kind)


Columns: TypeAlias = Mapping[str, Column]
Vector: TypeAlias = Callable[[Columns], Column]


def columns_of(arrays: Sequence[Array]) -> list[Column] | None:
    """Arrow arrays as columns; None if numpy orders the values of one of them differently from databases."""
    if any(pa.types.is_string(array.type) or pa.types.is_large_string(array.type) for array in arrays):
        return None
    found = [_column(array) for array in arrays]
    return None if any(column is None for column in found) else [column for column in found if column is not None]


def _column(array: Array) -> Column | None:
    types = pa.types
    nulls = np.asarray(array.is_null()) if array.null_count else None
    if types.is_null(array.type):
        return Column(np.zeros(len(array)), np.ones(len(array), bool), "number")
    if types.is_boolean(array.type):
        return Column(_filled(array, False), nulls, "boolean")
    if types.is_integer(array.type):
        fits = not types.is_uint64(array.type) or (bound_of(array) or 0) <= LARGEST
        whole = array.cast(pa.int64()) if fits else array
        return Column(_filled(whole, 0), nulls, "number")
    if types.is_floating(array.type):
        return Column(_filled(array.cast(pa.float64()), 0.0), nulls, "number")
    if types.is_timestamp(array.type) and array.type.tz is None and array.type.unit != "ns":
        whole = array.cast(pa.timestamp("us")).cast(pa.int64())
        return Column(_filled(whole, 0), nulls, "time")
    return None


def _filled(array: Array, value: Any) -> NDArray[Any]:
    """The array's values, with `value` in place of each NULL."""
    return np.asarray(pc.fill_null(array, value) if array.null_count else array)


def vector(expression: exp.Expr) -> Vector | None:
    """The function that computes a condition over columns; None if numpy lacks an operator.

    >>> import numpy as np
    >>> from sqlglot import parse_one
    >>> price = Column(np.array([1.0, 5.0]), np.array([False, True]), "number")
    >>> found = vector(parse_one("a > 0.5"))({"a": price})
    >>> found.values.tolist(), found.nulls.tolist()
    ([True, True], [False, True])
    """
    try:
        return _as_boolean(print_expression(expression, _VectorPrinter()))
    except UnknownOperator:
        return None


def is_true(column: Column) -> NDArray[Any]:
    """A mask of the values for which a condition is true, neither false nor NULL."""
    found: NDArray[Any] = column.values if column.nulls is None else column.values & ~column.nulls
    return found


class _VectorPrinter(Printer[Vector]):
    """Prints functions from named columns to a column."""

    def column(self, name: str) -> Vector:
        return lambda columns: columns[name]

    def number(self, value: Number) -> Vector:
        return _constant(value, "number")

    def boolean(self, value: bool) -> Vector:
        return _constant(value, "boolean")

    def negative(self, operand: Vector) -> Vector:
        return self.computed("sub", _constant(0, "number"), operand)

    def computed(self, operator: str, left: Vector, right: Vector) -> Vector:
        return _elementwise(operator, left, right, "number")

    def compared(self, operator: str, left: Vector, right: Vector) -> Vector:
        return _elementwise(operator, left, right, "boolean")

    def conjunction(self, left: Vector, right: Vector) -> Vector:
        return _both(_as_boolean(left), _as_boolean(right))

    def disjunction(self, left: Vector, right: Vector) -> Vector:
        return _not(_both(_not(_as_boolean(left)), _not(_as_boolean(right))))

    def negation(self, operand: Vector) -> Vector:
        return _not(_as_boolean(operand))

    def is_null(self, operand: Vector) -> Vector:
        def run(columns: Columns) -> Column:
            column = operand(columns)
            nulls = np.zeros(column.values.shape, bool) if column.nulls is None else column.nulls
            return Column(nulls, None, "boolean")

        return run


def _constant(value: Any, kind: str) -> Vector:
    column = Column(np.asarray(value), None, kind)
    return lambda columns: column


def _elementwise(name: str, left: Vector, right: Vector, kind: str) -> Vector:
    compute = getattr(operator, name)

    def run(columns: Columns) -> Column:
        one, other = left(columns), right(columns)
        with np.errstate(invalid="ignore", over="ignore"):  # as in a database: inf - inf is NaN
            return Column(compute(one.values, other.values), _either(one.nulls, other.nulls), kind)

    return run


def _either(left: NDArray[Any] | None, right: NDArray[Any] | None) -> NDArray[Any] | None:
    if left is None or right is None:
        return right if left is None else left
    both: NDArray[Any] = left | right
    return both


def _as_boolean(inner: Vector) -> Vector:
    """A condition as booleans, as some databases return numbers for them."""

    def run(columns: Columns) -> Column:
        column = inner(columns)
        if column.values.dtype == bool:
            return column
        return Column(column.values != 0, column.nulls, "boolean")

    return run


def _both(left: Vector, right: Vector) -> Vector:
    """AND: false where one operand is false, whatever the other is."""

    def run(columns: Columns) -> Column:
        one, other = left(columns), right(columns)
        values = one.values & other.values
        nulls = _either(one.nulls, other.nulls)
        if nulls is not None:
            false = _is_false(one) | _is_false(other)
            values, nulls = values & ~false, nulls & ~false
        return Column(values, nulls, "boolean")

    return run


def _is_false(column: Column) -> NDArray[Any]:
    false: NDArray[Any] = ~column.values
    return false if column.nulls is None else false & ~column.nulls


def _not(inner: Vector) -> Vector:
    def run(columns: Columns) -> Column:
        column = inner(columns)
        return Column(~column.values, column.nulls, "boolean")

    return run
