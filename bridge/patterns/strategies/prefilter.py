"""Drops the rows that are out of reach of a symbol in every match, and runs another strategy over the remaining rows.

A match lies within WITHIN (or its partition) of its first row. So a row can begin a match only if the symbols that
every match has follow it, in order and in time. All rows in time of such a row are retained, as whole ranges. Between
two ranges a required symbol is missing, so no match spans dropped rows (Zhu, Huang, Chaudhuri, VLDB 2023). PREV and
NEXT are evaluated over all rows, before any are dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sqlglot import exp

from bridge.patterns.arrays import Array, Ints, ranges, take
from bridge.patterns.rows import SortedRows
from bridge.patterns.strategies.starts import candidates
from bridge.patterns.task import Task
from nfa.arrays.deadlines import deadlines_of, earliest_starts
from nfa.arrays.matches import Matches
from nfa.errors import BudgetError
from nfa.pattern import Alternation, Anchor, Concatenation, Exclusion, Pattern, Quantified, Symbol, symbols, walk

FEWEST = 20_000
"""The least number of rows for which it is faster."""

SHARE = 1 / 4
"""The largest estimated share of retained rows for which it is faster."""

SAMPLE = 500


def required_symbols(pattern: Pattern) -> list[frozenset[str]]:
    """The rows that every match has, in this order, each as the set of symbols that it may match.

    >>> from nfa import parse_pattern
    >>> [sorted(mark) for mark in required_symbols(parse_pattern("A? B (C | D E)+ F*"))]
    [['B'], ['C', 'D']]
    """
    match pattern:
        case Symbol(name):
            return [frozenset([name])]
        case Concatenation(parts):
            return [mark for part in parts for mark in required_symbols(part)]
        case Alternation(parts):
            firsts = [required_symbols(part)[:1] for part in parts]
            return [frozenset().union(*(one for (one,) in firsts))] if all(firsts) else []
        case Exclusion(part):
            return required_symbols(part)
        case Quantified(part=part, least=least) if least:
            return required_symbols(part)
    return []


def fits(task: Task) -> bool:
    """Whether the strategy supports the clause."""
    pattern = task.clause.pattern
    return bool(required_symbols(pattern)) and not any(isinstance(node, Anchor) for node in walk(pattern))


def pays(task: Task) -> bool:
    """Whether enough rows are out of reach of the rarest required symbol to make it faster."""
    count = len(task.rows)
    bounded = task.clause.within is not None or task.clause.partition_by
    if count < FEWEST or not bounded or not fits(task):
        return False
    sample = np.linspace(0, count - 1, SAMPLE).astype(np.int64)
    reach = float((_limits(task, sample) - sample).mean())
    return min(_counts_of_required(task)) * 2 * reach <= count * SHARE


def find(task: Task, inner: Callable[[Task], Matches]) -> Matches:
    """The matches that `inner` finds in the retained rows."""
    if not fits(task):
        raise BudgetError("no symbol is in every match, or the pattern asks for an end of the partition")
    numbers = rows_in_reach(task)
    fewer = dataclasses.replace(task, rows=RowSubset(task.rows, numbers))
    fewer.symbol_sets = task.symbol_sets[numbers]
    found = inner(fewer)
    return Matches(numbers[found.starts], found.lengths, found.codes)


def rows_in_reach(task: Task) -> Ints:
    """The rows within the time of a row that can begin a match."""
    marked = _rows_of_required(task)
    starts = _near(task, min(marked, key=len))
    limits, there = _limits(task, starts), starts - 1
    for rows in marked:
        there = _next(rows, there)
    open_ones = there < limits
    return ranges(*_merged(starts[open_ones], limits[open_ones]))


def _rows_of_required(task: Task) -> list[Ints]:
    wanted = _masks(task)
    found = {mask: np.flatnonzero(task.symbol_sets & mask) for mask in set(wanted)}
    return [found[mask] for mask in wanted]


def _counts_of_required(task: Task) -> list[int]:
    return [int(np.count_nonzero(task.symbol_sets & mask)) for mask in set(_masks(task))]


def _masks(task: Task) -> list[np.unsignedinteger[Any]]:
    bits = {name: 1 << place for place, name in enumerate(symbols(task.clause.pattern))}
    kind = task.symbol_sets.dtype.type
    return [kind(sum(bits[name] for name in mark)) for mark in required_symbols(task.clause.pattern)]


def _near(task: Task, rows: Ints) -> Ints:
    """The rows that can begin a match that contains one of these rows."""
    if task.within is None:
        firsts = np.concatenate([np.zeros(1, np.int64), task.ends])[np.searchsorted(task.ends, rows, "right")]
    else:
        firsts = earliest_starts(rows, task.times, task.ends, task.within)
    firsts, lasts = _merged(firsts, rows + 1)
    can = candidates(task)
    if can is None:
        return ranges(firsts, lasts)
    return can[ranges(np.searchsorted(can, firsts), np.searchsorted(can, lasts))]


def _limits(task: Task, starts: Ints) -> Ints:
    if task.within is None or not len(starts):
        return task.ends[np.searchsorted(task.ends, starts, "right")]
    return deadlines_of(starts, task.times, task.ends, task.within)


def _next(rows: Ints, after: Ints) -> Ints:
    """The first of the rows after each row; a number beyond all of them if there is none."""
    beyond = np.append(rows, np.iinfo(np.int64).max - 1)
    return beyond[np.searchsorted(rows, after, "right")]


def _merged(firsts: Ints, lasts: Ints) -> tuple[Ints, Ints]:
    """Ranges, with adjoining ones merged; neither their firsts nor their ends decrease.

    >>> [found.tolist() for found in _merged(np.array([0, 1, 5]), np.array([3, 4, 6]))]
    [[0, 5], [4, 6]]
    """
    apart = np.append(firsts[1:] > lasts[:-1], True)[: len(firsts)]
    return firsts[np.append(True, apart[:-1])[: len(firsts)]], lasts[apart]


# Some of the sorted rows, for strategies that do not need all of them


class RowSubset(SortedRows):
    """The sorted rows with these numbers, renumbered. `known`: values of them that need not be fetched."""

    def __init__(self, rows: SortedRows, numbers: Ints, known: Mapping[exp.Expr, Array] | None = None) -> None:
        vars(self).update(vars(rows))
        self.rows, self.numbers, self.known = rows, numbers, known or {}
        self.ends = np.searchsorted(numbers, rows.ends)

    def columns(self, expressions: Sequence[exp.Expr]) -> list[Array]:
        """Each expression's values, row by row; PREV and NEXT read all rows of the input."""
        unknown = [expression for expression in expressions if expression not in self.known]
        columns = dict(zip(unknown, self.rows.columns(unknown), strict=True))
        return [self.known[e] if e in self.known else take(columns[e], self.numbers) for e in expressions]
