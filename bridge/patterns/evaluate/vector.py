"""What joins values of several rows, computed outside the database: over numpy arrays, and over single Python values.

Both know the operators that mean the same everywhere and refuse the rest (None), which the database then computes. NULL
is three-valued logic as in SQL; division by zero is NULL, as everywhere in the bridge.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp

from bridge.patterns.arrays import Array

_COMPARE: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq, exp.NEQ: operator.ne, exp.LT: operator.lt, exp.LTE: operator.le,
    exp.GT: operator.gt, exp.GTE: operator.ge,
}  # fmt: skip
_COMPUTE: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}


class Column(NamedTuple):
    """Values with a mask of the NULLs (None: there are none). `kind`: number, boolean, time or text (as ranks)."""

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


Env = Mapping[str, Column]
Vector = Callable[[Env], Column]


def columns_of(arrays: Sequence[Array]) -> list[Column] | None:
    """Arrow arrays as columns; None where one has a type whose values numpy does not order as databases do."""
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
        whole = array.cast(pa.int64(), safe=True) if not types.is_uint64(array.type) else array
        return Column(_filled(whole, 0), nulls, "number")
    if types.is_floating(array.type):
        return Column(_filled(array.cast(pa.float64()), 0.0), nulls, "number")
    if types.is_timestamp(array.type) and array.type.tz is None:
        whole = array.cast(pa.timestamp("us")).cast(pa.int64())
        return Column(_filled(whole, 0), nulls, "time")
    return None


def _filled(array: Array, value: Any) -> NDArray[Any]:
    """Its values, with one in place of each NULL."""
    return np.asarray(pc.fill_null(array, value) if array.null_count else array)


def vector(expression: exp.Expr) -> Vector | None:
    """The function that computes a condition over columns; None for what numpy is not asked for.

    >>> import numpy as np
    >>> from sqlglot import parse_one
    >>> price = Column(np.array([1.0, 5.0]), np.array([False, True]), "number")
    >>> found = vector(parse_one("a > 0.5"))({"a": price})
    >>> found.values.tolist(), found.nulls.tolist()
    ([True, True], [False, True])
    """
    try:
        return _logical(expression)
    except _Unknown:
        return None


class _Unknown(Exception):
    """An operator that only the database computes as it should be."""


def _vector(node: exp.Expr) -> Vector:
    if isinstance(node, exp.Column):
        name = node.name
        return lambda env: env[name]
    if isinstance(node, exp.Paren):
        return _vector(node.this)
    if isinstance(node, exp.Literal) and not node.is_string:
        return _constant(float(node.name) if not node.name.isdigit() else int(node.name), "number")
    if isinstance(node, exp.Boolean):
        return _constant(bool(node.this), "boolean")
    if isinstance(node, exp.Neg):
        return _computed(operator.sub, _constant(0, "number"), _vector(node.this))
    if type(node) in _COMPARE:
        return _compared(_COMPARE[type(node)], _vector(node.this), _vector(node.expression))
    if type(node) in _COMPUTE:
        return _computed(_COMPUTE[type(node)], _vector(node.this), _vector(node.expression))
    if isinstance(node, exp.Between):
        value, low, high = (_vector(node.args[key]) for key in ("this", "low", "high"))
        return _both(_compared(operator.ge, value, low), _compared(operator.le, value, high))
    if isinstance(node, exp.And):
        return _both(_logical(node.this), _logical(node.expression))
    if isinstance(node, exp.Or):
        return _negated(_both(_negated(_logical(node.this)), _negated(_logical(node.expression))))
    if isinstance(node, exp.Not):
        return _negated(_logical(node.this))
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return _is_null(_vector(node.this))
    raise _Unknown


def _constant(value: Any, kind: str) -> Vector:
    column = Column(np.asarray(value), None, kind)
    return lambda env: column


def _compared(compare: Callable[[Any, Any], Any], left: Vector, right: Vector) -> Vector:
    def run(env: Env) -> Column:
        one, other = left(env), right(env)
        return Column(compare(one.values, other.values), _either(one.nulls, other.nulls), "boolean")

    return run


def _computed(compute: Callable[[Any, Any], Any], left: Vector, right: Vector) -> Vector:
    def run(env: Env) -> Column:
        one, other = left(env), right(env)
        return Column(compute(one.values, other.values), _either(one.nulls, other.nulls), "number")

    return run


def _either(left: NDArray[Any] | None, right: NDArray[Any] | None) -> NDArray[Any] | None:
    if left is None or right is None:
        return right if left is None else left
    both: NDArray[Any] = left | right
    return both


def _logical(node: exp.Expr) -> Vector:
    """A condition as booleans: some databases have numbers for them."""
    inner = _vector(node)

    def run(env: Env) -> Column:
        column = inner(env)
        if column.values.dtype == bool:
            return column
        return Column(column.values != 0, column.nulls, "boolean")

    return run


def _both(left: Vector, right: Vector) -> Vector:
    """AND: false where one is false, whatever the other is."""

    def run(env: Env) -> Column:
        one, other = left(env), right(env)
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


def _negated(inner: Vector) -> Vector:
    def run(env: Env) -> Column:
        column = inner(env)
        return Column(~column.values, column.nulls, "boolean")

    return run


def _is_null(inner: Vector) -> Vector:
    def run(env: Env) -> Column:
        column = inner(env)
        nulls = np.zeros(column.values.shape, bool) if column.nulls is None else column.nulls
        return Column(nulls, None, "boolean")

    return run


def truth(column: Column) -> NDArray[Any]:
    """Where a condition is true: neither false nor NULL."""
    found: NDArray[Any] = column.values if column.nulls is None else column.values & ~column.nulls
    return found


# Single values --------------------------------------------------------------------------------------------------------


def scalar(expression: exp.Expr, width: int) -> Callable[..., Any] | None:
    """A function of the values of `_v0`, `_v1` … (as Python has them) to the expression's value; None as for `vector`.

    >>> from sqlglot import parse_one
    >>> above = scalar(parse_one("_v0 > _v1 OR _v0 = 0"), 2)
    >>> above(2, 1), above(0, None), above(2, None)
    (True, True, None)
    """
    source = source_of(expression)
    if source is None:
        return None
    arguments = ", ".join(f"_v{place}" for place in range(width))
    made: Callable[..., Any] = eval(f"lambda {arguments}: {source}", HELPERS)
    return made


def source_of(expression: exp.Expr) -> str | None:
    """The expression in Python with HELPERS; None as for `scalar`."""
    try:
        return _source(expression)
    except _Unknown:
        return None


def _source(node: exp.Expr) -> str:
    """The expression in Python, each operator a helper that knows NULL."""
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Paren):
        return _source(node.this)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return repr(node.name)
        return node.name if node.name.isdigit() else repr(float(node.name))
    if isinstance(node, exp.Boolean):
        return repr(bool(node.this))
    if isinstance(node, exp.Null):
        return "None"
    if isinstance(node, exp.Not):
        return f"_not({_source(node.this)})"
    if isinstance(node, exp.Neg):
        return f"_neg({_source(node.this)})"
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return f"({_source(node.this)} is None)"
    if isinstance(node, exp.Between):
        value, low, high = (_source(node.args[key]) for key in ("this", "low", "high"))
        return f"_and(_ge({value}, {low}), _le({value}, {high}))"
    if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
        return f"_in({_source(node.this)}, [{', '.join(map(_source, node.expressions))}])"
    if isinstance(node, exp.Coalesce):
        return f"_coalesce({', '.join(map(_source, [node.this, *node.expressions]))})"
    if isinstance(node, (exp.And, exp.Or)):
        name = "_and" if isinstance(node, exp.And) else "_or"
        return f"{name}({_source(node.this)}, {_source(node.expression)})"
    if type(node) in _NAMES:
        return f"{_NAMES[type(node)]}({_source(node.this)}, {_source(node.expression)})"
    raise _Unknown


def _strict(compute: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        return None if None in values else compute(*values)

    return run


def _and(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return False if (left is not None and not left) or (right is not None and not right) else None
    return bool(left and right)


def _or(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return True if left or right else None
    return bool(left or right)


def _in(value: Any, listed: list[Any]) -> Any:
    if value is None:
        return None
    if any(value == other for other in listed if other is not None):
        return True
    return None if None in listed else False


_NAMES: dict[type[exp.Expr], str] = {
    exp.EQ: "_eq", exp.NEQ: "_ne", exp.LT: "_lt", exp.LTE: "_le", exp.GT: "_gt", exp.GTE: "_ge",
    exp.Add: "_add", exp.Sub: "_sub", exp.Mul: "_mul",
}  # fmt: skip

HELPERS: dict[str, Any] = {
    "__builtins__": {},
    **{
        f"_{name}": _strict(getattr(operator, name))
        for name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "neg")
    },
    "_and": _and,
    "_or": _or,
    "_not": _strict(operator.not_),
    "_in": _in,
    "_coalesce": lambda *values: next((value for value in values if value is not None), None),
}
