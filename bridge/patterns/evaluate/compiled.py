"""Conditions as text for `nfa.arrays.compiled`: comparisons of numbers of the current row and the first row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray
from sqlglot import exp

from bridge.patterns.conditions import Condition, distance
from bridge.patterns.evaluate.exact import Bound, bound_of, has_nan, is_exact
from bridge.patterns.evaluate.printer import UnknownOperator, print_expression
from bridge.patterns.evaluate.python import Code, PythonPrinter
from bridge.patterns.evaluate.vector import columns_of
from bridge.patterns.task import Task
from bridge.patterns.values import CURRENT, MatchExpression, Value
from bridge.query.row_pattern import RowPattern


@dataclasses.dataclass(frozen=True)
class CompiledConditions:
    """The text of conditions, and the row expressions that it reads as `columns[n]`."""

    text: str
    reads: tuple[exp.Expr, ...]
    rests: tuple[MatchExpression, ...] = ()
    """The expressions that the text is made from; their atoms are values of the rows read."""

    def columns(self, task: Task) -> tuple[NDArray[Any], ...] | None:
        """The values that the text reads; None if one is not a number, or is NULL, NaN or computed beyond 64 bits."""
        arrays = task.rows.columns(list(self.reads))
        bound = dict(zip(self.reads, map(bound_of, arrays), strict=True))
        if not all(is_exact(rest.expression, _bounds(rest, bound)) for rest in self.rests):
            return None
        if any(map(has_nan, arrays)):
            return None
        found = columns_of(arrays)
        if found is None or any(column.kind != "number" or column.nulls is not None for column in found):
            return None
        return tuple(column.values for column in found)


def compiled_conditions(task: Task) -> CompiledConditions | None:
    """The text of everything in the conditions that reads more than the row; None if it cannot be compiled."""
    reads: list[exp.Expr] = []
    try:
        lines = [
            line
            for place, condition in enumerate(task.conditions)
            for line in _lines(place, condition, task.clause, reads)
        ]
    except UnknownOperator:
        return None
    rests = tuple(condition.rest for condition in task.conditions if condition.rest is not None)
    return CompiledConditions("\n".join(lines), tuple(reads), rests)


def _bounds(rest: MatchExpression, bound: Mapping[exp.Expr, Bound]) -> dict[str, Bound]:
    return {f"_v{number}": bound[atom.row] for number, atom in enumerate(rest.atoms) if isinstance(atom, Value)}


class _NumbaPrinter(PythonPrinter):
    """Prints plain Python over numbers that are never NULL; refuses operators that need a helper."""

    def leaf(self, source: str, plain: str | None = None, nulls: tuple[str, ...] = ()) -> Code:
        if plain is None:
            raise UnknownOperator
        return Code(plain, f"({plain})", f"(not ({plain}))", plain)

    def text(self, value: str) -> Code:
        raise UnknownOperator

    def boolean(self, value: bool) -> Code:
        raise UnknownOperator

    def is_null(self, operand: Code) -> Code:
        raise UnknownOperator


def _lines(place: int, condition: Condition, clause: RowPattern, reads: list[exp.Expr]) -> Iterator[str]:
    """Lines that clear the bit of a symbol in `symbol_set` if its condition does not hold."""
    if condition.rest is None:
        return
    holds = print_expression(condition.rest.expression, _NumbaPrinter()).true
    yield f"if symbol_set & {1 << place}:"
    for number, atom in enumerate(condition.rest.atoms):
        yield f"    _v{number} = {_value(atom, clause, reads)}"
    yield f"    if not {holds}: symbol_set &= ~{1 << place}"


def _value(atom: object, clause: RowPattern, reads: list[exp.Expr]) -> str:
    """A value of the current row or of the first row."""
    if not isinstance(atom, Value):
        raise UnknownOperator
    index = "row" if atom.place == CURRENT else "start" if distance(atom.place, clause) == 0 else None
    if index is None:
        raise UnknownOperator
    if atom.row not in reads:
        reads.append(atom.row)
    return f"columns[{reads.index(atom.row)}][{index}]"
