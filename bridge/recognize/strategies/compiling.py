"""Conditions as the text that `nfa.arrays.compiled` compiles: comparisons of numbers of the row at hand and the first row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray
from sqlglot import exp

from bridge.recognize.conditions import Condition, distance
from bridge.recognize.evaluate import columns_of
from bridge.recognize.strategies.inline import truth
from bridge.recognize.task import Task
from bridge.recognize.values import CURRENT, Value

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
