"""Expressions over single values, as Python source in which NULL is None."""

from __future__ import annotations

import decimal
import operator
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from sqlglot import exp

from bridge.patterns.evaluate.exact import LARGEST
from bridge.patterns.evaluate.printer import ARITHMETIC, COMPARISONS, Number, Printer, UnknownOperator, print_expression


def scalar(expression: exp.Expr, width: int) -> Callable[..., Any] | None:
    """The function from the values of `_v0`, `_v1` … to the value of the expression; None if an operator is unknown.

    >>> from sqlglot import parse_one
    >>> above = scalar(parse_one("_v0 > _v1 OR _v0 = 0"), 2)
    >>> above(2, 1), above(0, None), above(2, None)
    (True, True, None)
    """
    try:
        code = print_expression(expression, PythonPrinter())
    except UnknownOperator:
        return None
    arguments = ", ".join(f"_v{place}" for place in range(width))
    function: Callable[..., Any] = eval(f"lambda {arguments}: {code.source}", HELPERS)
    return function


def truth(expression: exp.Expr, nullable: Collection[str]) -> str | None:
    """Python that is true if the condition is true; None if an operator is unknown.

    `nullable`: the names that can be NULL.

    >>> from sqlglot import parse_one
    >>> truth(parse_one("_v0 > _v1 OR NOT _v0 = 0"), {"_v1"})
    '((_v1 is not None and (_v0 > _v1)) or (not (_v0 == 0)))'
    """
    try:
        return print_expression(expression, PythonPrinter(nullable)).true
    except UnknownOperator:
        return None


class Code(NamedTuple):
    """An expression as Python: its value by HELPERS (`source`), and texts that are true if it is true or false.

    `plain`: its value by Python's own operators, if it is NULL only when one of `nulls` is; else None. `first`: the
    operands of a COALESCE of columns and literals.
    """

    source: str
    true: str
    false: str
    plain: str | None = None
    nulls: tuple[str, ...] = ()
    first: tuple[str, ...] = ()

    @property
    def operand(self) -> str:
        """The plain value, ready to be an operand of a larger expression."""
        return f"({self.plain})" if " " in str(self.plain) else str(self.plain)


class PythonPrinter(Printer[Code]):
    """Prints conditions in plain Python if possible, and otherwise with helpers that handle NULL."""

    def __init__(self, nullable: Collection[str] = ()) -> None:
        self._nullable = nullable

    def leaf(self, source: str, plain: str | None = None, nulls: tuple[str, ...] = ()) -> Code:
        """An expression that is not itself a condition."""
        return Code(source, f"({source})", f"_not({source})", plain, nulls)

    def column(self, name: str) -> Code:
        return self.leaf(name, name, (name,) if name in self._nullable else ())

    def number(self, value: Number) -> Code:
        return self.leaf(repr(value), repr(value))

    def text(self, value: str) -> Code:
        return self.leaf(repr(value), repr(value))

    def boolean(self, value: bool) -> Code:
        return self.leaf(repr(value), repr(value))

    def null(self) -> Code:
        return self.leaf("None")

    def negative(self, operand: Code) -> Code:
        plain = None if operand.plain is None else f"(-{operand.operand})"
        return self.leaf(f"_neg({operand.source})", plain, operand.nulls)

    def computed(self, operator: str, left: Code, right: Code) -> Code:
        source = f"_{operator}({left.source}, {right.source})"
        if left.plain is None or right.plain is None:
            return self.leaf(source)
        return self.leaf(source, f"{left.operand} {_SIGNS[operator]} {right.operand}", _null_names(left, right))

    def compared(self, operator: str, left: Code, right: Code) -> Code:
        source = f"_{operator}({left.source}, {right.source})"
        if any(side.plain is None and not side.first for side in (left, right)):
            return self.leaf(source)
        known, names = [f"{name} is not None" for name in _null_names(left, right)], []
        for side, name in ((left, "_l"), (right, "_r")):
            if side.first:  # named, as it is used twice
                known.append(f"({name} := {_first(side.first)}) is not None")
            names.append(name if side.first else side.operand)
        compared = f"({names[0]} {_SIGNS[operator]} {names[1]})"
        return Code(source, _all([*known, compared]), _all([*known, f"(not {compared})"]))

    def conjunction(self, left: Code, right: Code) -> Code:
        source = f"_and({left.source}, {right.source})"
        return Code(source, f"({left.true} and {right.true})", f"({left.false} or {right.false})")

    def disjunction(self, left: Code, right: Code) -> Code:
        source = f"_or({left.source}, {right.source})"
        return Code(source, f"({left.true} or {right.true})", f"({left.false} and {right.false})")

    def negation(self, operand: Code) -> Code:
        return Code(f"_not({operand.source})", operand.false, operand.true)

    def is_null(self, operand: Code) -> Code:
        source = f"({operand.source} is None)"
        if operand.plain is None:
            return self.leaf(source)
        nulls = " or ".join(f"{name} is None" for name in operand.nulls) or "False"
        return Code(source, f"({nulls})", f"(not ({nulls}))")

    def is_one_of(self, operand: Code, others: list[Code]) -> Code:
        return self.leaf(f"_in({operand.source}, [{', '.join(other.source for other in others)}])")

    def coalesce(self, operands: list[Code]) -> Code:
        code = self.leaf(f"_coalesce({', '.join(operand.source for operand in operands)})")
        simple = all(operand.plain is not None and operand.plain == operand.source for operand in operands)
        return code._replace(first=tuple(operand.source for operand in operands)) if simple else code


_SIGNS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "add": "+", "sub": "-", "mul": "*",
}  # fmt: skip


def _null_names(left: Code, right: Code) -> tuple[str, ...]:
    """The names that make an operator over both operands NULL; for a COALESCE only the name of its own value."""
    return tuple(dict.fromkeys((*left.nulls, *right.nulls)))


def _first(operands: tuple[str, ...]) -> str:
    """The first operand that is not NULL."""
    *others, found = operands
    for name in reversed(others):
        found = f"({name} if {name} is not None else {found})"
    return found


def _all(conditions: list[str]) -> str:
    return f"({' and '.join(conditions)})" if len(conditions) > 1 else conditions[0]


# What the source calls ------------------------------------------------------------------------------------------------


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool | None]:
    """A comparison of a number and a double as doubles, as in databases; Python compares 0.30 and 0.3 exactly."""

    def run(left: Any, right: Any) -> bool | None:
        if left is None or right is None:
            return None
        if type(left) is not type(right) and float in (type(left), type(right)):
            return compare(_as_double(left), _as_double(right))
        return compare(left, right)

    return run


def _as_double(value: Any) -> float:
    """The number as a double; TypeError if the database may convert it to another double."""
    if type(value) is decimal.Decimal:
        is_near = len(value.as_tuple().digits) <= _DIGITS
    else:
        is_near = type(value) is float or (type(value) is int and abs(value) <= 2**53)
    if not is_near:
        raise TypeError
    return float(value)


_DIGITS = 15
"""The number of digits up to which each decimal is converted to a different double."""


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator over numbers.

    TypeError for other values, OverflowError beyond 64 bits: the database computes these.
    """

    def run(left: Any, right: Any) -> Any:
        if left is None or right is None:
            return None
        if type(left) not in _NUMBERS or type(right) not in _NUMBERS:
            raise TypeError
        found = compute(left, right)
        if type(found) is int and not -LARGEST - 1 <= found <= LARGEST:
            raise OverflowError
        return found

    return run


_NUMBERS = (int, float, decimal.Decimal)


def _and(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return False if (left is not None and not left) or (right is not None and not right) else None
    return bool(left and right)


def _or(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return True if left or right else None
    return bool(left or right)


def _in(value: Any, others: list[Any]) -> Any:
    if value is None:
        return None
    if any(_equal(value, other) for other in others):
        return True
    return None if None in others else False


_negative = _arithmetic(operator.sub)
_equal = _comparison(operator.eq)

HELPERS: dict[str, Any] = {
    "__builtins__": {},
    **{f"_{name}": _comparison(getattr(operator, name)) for name in COMPARISONS.values()},
    **{f"_{name}": _arithmetic(getattr(operator, name)) for name in ARITHMETIC.values()},
    "_neg": lambda value: _negative(0, value),
    "_and": _and,
    "_or": _or,
    "_not": lambda value: None if value is None else not value,
    "_in": _in,
    "_coalesce": lambda *values: next((value for value in values if value is not None), None),
}
