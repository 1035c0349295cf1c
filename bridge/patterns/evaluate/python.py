"""A condition over single values written out in Python, NULL (None) as in SQL, for code that is generated."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any

from numpy.typing import NDArray
from sqlglot import exp

from bridge.patterns.conditions import Condition, distance
from bridge.patterns.evaluate.vector import columns_of, source_of
from bridge.patterns.task import Task
from bridge.patterns.values import CURRENT, Value

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "==", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*",
}  # fmt: skip
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_STRICT = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.Column, exp.Literal, exp.Boolean, exp.Identifier)


def truth(node: exp.Expr, nullable: Collection[str], wanted: bool = True) -> str | None:
    """Python that is true where the condition is true (or false, as `wanted`); None for what only a database computes.

    >>> from sqlglot import parse_one
    >>> truth(parse_one("_v0 > _v1 OR NOT _v0 = 0"), {"_v1"})
    '((_v1 is not None and (_v0 > _v1)) or (not (_v0 == 0)))'
    """
    return None if source_of(node) is None else _truth(node, nullable, wanted)


def _truth(node: exp.Expr, nullable: Collection[str], wanted: bool) -> str:
    if isinstance(node, exp.Paren):
        return _truth(node.this, nullable, wanted)
    if isinstance(node, exp.Not):
        return _truth(node.this, nullable, not wanted)
    if isinstance(node, (exp.And, exp.Or)):
        word = "and" if isinstance(node, exp.And) == wanted else "or"
        return f"({_truth(node.this, nullable, wanted)} {word} {_truth(node.expression, nullable, wanted)})"
    if isinstance(node, exp.Between):
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        both = exp.And(this=low, expression=high)
        return _truth(both, nullable, wanted)
    if isinstance(node, _COMPARED) and _is_strict(node.this) and _is_strict(node.expression):
        return _compared(node, nullable, wanted)
    if isinstance(node, _COMPARED) and all(
        _is_strict(side) or _is_first(side) for side in (node.this, node.expression)
    ):
        return _compared_first(node, nullable, wanted)
    if isinstance(node, exp.Is) and _is_strict(node.this):
        nulls = [f"{name} is None" for name in _nulls(node.this, nullable)]
        return f"({' or '.join(nulls) or 'False'})" if wanted else f"(not ({' or '.join(nulls) or 'False'}))"
    return f"({source_of(node)})" if wanted else f"_not({source_of(node)})"


def _compared(node: exp.Expr, nullable: Collection[str], wanted: bool) -> str:
    known = [f"{name} is not None" for name in _nulls(node, nullable)]
    compared = f"({_value(node)})" if wanted else f"(not ({_value(node)}))"
    return f"({' and '.join([*known, compared])})" if known else compared


def _compared_first(node: exp.Expr, nullable: Collection[str], wanted: bool) -> str:
    """A comparison with COALESCE on one side or both: what these give is named."""
    known, names = [f"{name} is not None" for name in _strict_nulls(node, nullable)], []
    for side, name in ((node.this, "_l"), (node.expression, "_r")):
        if _is_first(side):
            known.append(f"({name} := {_first(side)}) is not None")
        names.append(name if _is_first(side) else _operand(side))
    compared = f"({names[0]} {_OPERATORS[type(node)]} {names[1]})"
    return f"({' and '.join([*known, compared if wanted else f'(not {compared})'])})"


def _is_first(node: exp.Expr) -> bool:
    """Whether this is COALESCE of plain values."""
    parts = [node.this, *node.expressions] if isinstance(node, exp.Coalesce) else [None]
    return all(isinstance(part, (exp.Column, exp.Literal)) for part in parts)


def _first(node: exp.Expr) -> str:
    *others, found = [str(source_of(part)) for part in (node.this, *node.expressions)]
    for name in reversed(others):
        found = f"({name} if {name} is not None else {found})"
    return found


def _strict_nulls(node: exp.Expr, nullable: Collection[str]) -> list[str]:
    return [name for side in (node.this, node.expression) if not _is_first(side) for name in _nulls(side, nullable)]


def _value(node: exp.Expr) -> str:
    if isinstance(node, exp.Paren):
        return f"({_value(node.this)})"
    if isinstance(node, exp.Neg):
        return f"(-{_value(node.this)})"
    if type(node) in _OPERATORS:
        return f"{_operand(node.this)} {_OPERATORS[type(node)]} {_operand(node.expression)}"
    return str(source_of(node))


def _operand(node: exp.Expr) -> str:
    return f"({_value(node)})" if type(node) in _OPERATORS else _value(node)


def _is_strict(node: exp.Expr) -> bool:
    return all(isinstance(part, _STRICT) for part in node.walk())


def _nulls(node: exp.Expr, nullable: Collection[str]) -> list[str]:
    return list(dict.fromkeys(part.name for part in node.find_all(exp.Column) if part.name in nullable))


# Conditions as the text that `nfa.arrays.compiled` compiles: comparisons of numbers of the row at hand and the first row

_KNOWN = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.And, exp.Or, exp.Not, exp.Paren,
    exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Column, exp.Identifier, exp.Literal,
)  # fmt: skip
"""What means the same for numbers in a compiled function as everywhere else."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """The text, and the row expressions it reads as `columns[n]`."""

    text: str
    reads: tuple[exp.Expr, ...]


def asked(task: Task) -> Asked | None:
    """The text of all that conditions ask beyond the row; None for what is not written here."""
    writer = _Writer(task)
    try:
        lines = [line for place, condition in enumerate(task.conditions) for line in writer.lines(place, condition)]
    except _Unknown:
        return None
    return Asked("\n".join(lines), tuple(writer.reads))


def columns(task: Task, asked: Asked) -> tuple[NDArray[Any], ...] | None:
    """The values it reads; None where some are no numbers, or NULL."""
    found = columns_of(task.rows.columns(list(asked.reads)))
    if found is None or any(column.kind != "number" or column.nulls is not None for column in found):
        return None
    return tuple(column.values for column in found)


class _Unknown(Exception):
    """A condition that is not written here."""


class _Writer:
    def __init__(self, task: Task) -> None:
        self.clause = task.clause
        self.reads: list[exp.Expr] = []

    def lines(self, place: int, condition: Condition) -> Iterator[str]:
        """What takes the bit of a symbol from `letter`."""
        if condition.rest is None:
            return
        expression = condition.rest.expression
        if not all(isinstance(node, _KNOWN) and not _is_text(node) for node in expression.walk()):
            raise _Unknown
        holds = truth(expression, ())
        if holds is None:
            raise _Unknown
        yield f"if letter & {1 << place}:"
        for number, atom in enumerate(condition.rest.atoms):
            yield f"    _v{number} = {self.value(atom)}"
        yield f"    if not {holds}: letter &= ~{1 << place}"

    def value(self, atom: object) -> str:
        if not isinstance(atom, Value):
            raise _Unknown
        if atom.place == CURRENT:
            return f"{self.column(atom.row)}[row]"
        if distance(atom.place, self.clause) == 0:
            return f"{self.column(atom.row)}[start]"
        raise _Unknown

    def column(self, row: exp.Expr) -> str:
        if row not in self.reads:
            self.reads.append(row)
        return f"columns[{self.reads.index(row)}]"


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string
