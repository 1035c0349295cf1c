"""Conditions taken apart: the value of each conjunct for a row, and the values it compares."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

from bridge.recognize.answer import Prepared
from bridge.recognize.clause import NAVIGATION, OF_THE_MATCH, SEMANTICS
from bridge.recognize.conditions import Condition, of_row
from bridge.recognize.strategies.machine import Asked
from bridge.recognize.task import Task
from bridge.recognize.values import Valued, read
from bridge.recognize.why import Conjunct, Test
from bridge.recognize.write import scalar
from bridge.scope import conjuncts
from nfa.threads.path import Path

OnPath = Callable[[Path[int]], Any]


class Questions:
    """Asks one row at a time; the answers are those of the plain machine."""

    def __init__(self, asked: Prepared, task: Task, answers: Asked) -> None:
        self.asked, self.answers = asked, answers
        self.conditions = dict(asked.clause.define)
        self.is_aggregate = task.rows.database.is_aggregate

    def alone(self, condition: Condition, row: int) -> Test:
        """The symbol by what is about the row alone; the other conjuncts are its `rest`."""
        symbol = condition.symbol
        own = [part for part in self._parts(symbol) if part[1]]
        path = Path[int]().take(symbol, row, row)
        found = tuple(_conjunct(part, value(path), reads, path) for part, _, value, reads in own)
        rest = tuple(part for part, is_of_row, _, _ in self._parts(symbol) if not is_of_row)
        return Test(symbol, all(part.value for part in found), found, rest)

    def asked_of(self, symbol: str, path: Path[int], row: int) -> Test:
        """The symbol with its whole condition, after what the path has taken."""
        longer = path.take(symbol, row, row)
        found = tuple(_conjunct(part, value(longer), reads, longer) for part, _, value, reads in self._parts(symbol))
        return Test(symbol, all(part.value for part in found), found)

    @functools.cache  # noqa: B019 - lives as long as one answer
    def _parts(self, symbol: str) -> list[tuple[str, bool, OnPath, list[tuple[str, OnPath]]]]:
        """Each conjunct: its text, whether it is about the row alone, its value, and what it reads."""
        condition = self.conditions.get(symbol)
        return [self._part(symbol, part) for part in (conjuncts(condition) if condition is not None else [])]

    def _part(self, symbol: str, part: exp.Expr) -> tuple[str, bool, OnPath, list[tuple[str, OnPath]]]:
        valued = self._read(symbol, part)
        leaves = {scalar(leaf): leaf for leaf in _leaves(part, self.is_aggregate)}
        reads = [
            (text, self.answers.value(self._read(symbol, leaf))) for text, leaf in leaves.items() if leaf is not part
        ]
        return scalar(part), of_row(valued) is not None, self.answers.value(valued), reads

    def _read(self, symbol: str, expression: exp.Expr) -> Valued:
        return read(expression, self.asked.clause, self.asked.fields, symbol, is_aggregate=self.is_aggregate)


def _conjunct(text: str, value: Any, reads: list[tuple[str, OnPath]], path: Path[int]) -> Conjunct:
    return Conjunct(text, None if value is None else bool(value), tuple((name, of(path)) for name, of in reads))


def _leaves(node: exp.Expr, is_aggregate: Callable[[str], bool]) -> Iterator[exp.Expr]:
    """The parts of a condition that read a row, or rows; the largest of them."""
    if isinstance(node, exp.Anonymous):
        whole = node.name in (*NAVIGATION, *OF_THE_MATCH, *SEMANTICS) or is_aggregate(node.name)
    else:
        whole = isinstance(node, (exp.Column, exp.AggFunc, exp.Filter, exp.WithinGroup))
    if whole:
        yield node
        return
    for below in node.iter_expressions():
        yield from _leaves(below, is_aggregate)
