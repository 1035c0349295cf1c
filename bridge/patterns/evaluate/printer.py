"""Translates an expression over values of several rows, so that it can be computed outside the database.

The columns of the expression are `_v0`, `_v1` …; a printer translates each operator, to numpy or to Python. Printers
know the operators that mean the same everywhere, and refuse the others, which the database then computes.
"""

from __future__ import annotations

import abc
from typing import Generic, TypeAlias, TypeVar

from sqlglot import exp

Printed = TypeVar("Printed")
Number: TypeAlias = int | float

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge",
}  # fmt: skip
"""The names of comparisons in Python's module `operator`."""

ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul"}
"""The names of arithmetic operators in that module; division is missing, as it depends on the database."""


class UnknownOperator(Exception):
    """An operator that a printer does not know."""


class Printer(abc.ABC, Generic[Printed]):
    """Translates each operator; a method that is not overridden refuses its operator."""

    @abc.abstractmethod
    def column(self, name: str) -> Printed: ...
    @abc.abstractmethod
    def number(self, value: Number) -> Printed: ...
    @abc.abstractmethod
    def negative(self, operand: Printed) -> Printed: ...
    @abc.abstractmethod
    def computed(self, operator: str, left: Printed, right: Printed) -> Printed: ...
    @abc.abstractmethod
    def compared(self, operator: str, left: Printed, right: Printed) -> Printed: ...
    @abc.abstractmethod
    def conjunction(self, left: Printed, right: Printed) -> Printed: ...
    @abc.abstractmethod
    def disjunction(self, left: Printed, right: Printed) -> Printed: ...
    @abc.abstractmethod
    def negation(self, operand: Printed) -> Printed: ...

    def text(self, value: str) -> Printed:
        raise UnknownOperator

    def boolean(self, value: bool) -> Printed:
        raise UnknownOperator

    def null(self) -> Printed:
        raise UnknownOperator

    def is_null(self, operand: Printed) -> Printed:
        raise UnknownOperator

    def is_one_of(self, operand: Printed, others: list[Printed]) -> Printed:
        raise UnknownOperator

    def coalesce(self, operands: list[Printed]) -> Printed:
        raise UnknownOperator


def print_expression(node: exp.Expr, printer: Printer[Printed]) -> Printed:
    """The translation of an expression by the printer.

    Raises:
        UnknownOperator: The printer, or this function, does not know one of its operators.
    """

    def walk(key: str = "this") -> Printed:
        return print_expression(node.args[key], printer)

    kind = type(node)
    if kind in COMPARISONS:
        return printer.compared(COMPARISONS[kind], walk(), walk("expression"))
    if kind in ARITHMETIC:
        return printer.computed(ARITHMETIC[kind], walk(), walk("expression"))
    match node:
        case exp.Column():
            return printer.column(node.name)
        case exp.Paren():
            return walk()
        case exp.Literal():
            return _literal(node, printer)
        case exp.And():
            return printer.conjunction(walk(), walk("expression"))
        case exp.Or():
            return printer.disjunction(walk(), walk("expression"))
        case exp.Not():
            return printer.negation(walk())
        case exp.Between():
            return printer.conjunction(
                printer.compared("ge", walk(), walk("low")), printer.compared("le", walk(), walk("high"))
            )
        case exp.Neg():
            return printer.negative(walk())
    return _less_common(node, printer)


def _literal(node: exp.Literal, printer: Printer[Printed]) -> Printed:
    if node.is_string:
        return printer.text(node.name)
    return printer.number(int(node.name) if node.name.isdigit() else float(node.name))


def _less_common(node: exp.Expr, printer: Printer[Printed]) -> Printed:
    match node:
        case exp.Boolean():
            return printer.boolean(bool(node.this))
        case exp.Null():
            return printer.null()
        case exp.Is() if isinstance(node.expression, exp.Null):
            return printer.is_null(print_expression(node.this, printer))
        case exp.In() if node.expressions and not node.args.get("query"):
            others = [print_expression(other, printer) for other in node.expressions]
            return printer.is_one_of(print_expression(node.this, printer), others)
        case exp.Coalesce():
            return printer.coalesce([print_expression(part, printer) for part in (node.this, *node.expressions)])
    raise UnknownOperator
