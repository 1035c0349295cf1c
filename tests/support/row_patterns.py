"""MATCH_RECOGNIZE by the standard's definition: all ways to match are listed in preference order, the first is taken.

    recognize(clause, rows, columns)    the result of a clause (bridge/recognize/clause.py) over rows that are dicts
    matches(pattern, ...)               the matches of a pattern under any conditions, without SQL

Slow on purpose, and without the machine of `nfa`: only its tree is read. Partitions come in ascending order of their
keys, NULL first; then by the order of the input as ORDER BY makes it.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from bridge.query.row_pattern import PerMatch, RowPattern
from bridge.query.row_pattern import Skip as SkipTo
from nfa.pattern import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Pattern,
    Permutation,
    Quantified,
    Symbol,
)
from tests.support.row_pattern_values import Row, Scene, Step, cell, value

Path = tuple[Step, ...]
Allows = Callable[[Path, int], bool]
"""Whether the last step of this path can be taken; the second argument is MATCH_NUMBER()."""


class NowhereError(Exception):
    """AFTER MATCH SKIP leads to a row the match has not, or back to its first (rule S3)."""


class Result(NamedTuple):
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class Match:
    number: int
    start: int
    steps: Path


# All ways to match, the preferred one first ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Attempt:
    """The search from one start, in a partition of `count` rows."""

    start: int
    count: int
    allows: Callable[[Path], bool]

    def ways(self, tree: Pattern, path: Path, hidden: bool = False) -> Iterator[Path]:
        """Each path that the pattern can go on with after `path`, in preference order (ISO/IEC 19075-5, 7.2)."""
        here = self.start + len(path)
        match tree:
            case Symbol(name):
                longer = (*path, Step(name, here, hidden))
                if here < self.count and self.allows(longer):
                    yield longer
            case Empty():
                yield path
            case Anchor(place):
                if here == (0 if place == "^" else self.count):
                    yield path
            case Concatenation(parts):
                yield from self._in_turn(parts, path, hidden)
            case Alternation(parts):
                for part in parts:
                    yield from self.ways(part, path, hidden)
            case Permutation(parts):
                for order in itertools.permutations(parts):
                    yield from self._in_turn(order, path, hidden)
            case Exclusion(part):
                yield from self.ways(part, path, True)
            case Quantified():
                yield from self._repeated(tree, path, hidden, 0)

    def _in_turn(self, parts: Sequence[Pattern], path: Path, hidden: bool) -> Iterator[Path]:
        if not parts:
            yield path
            return
        for longer in self.ways(parts[0], path, hidden):
            yield from self._in_turn(parts[1:], longer, hidden)

    def _repeated(self, tree: Quantified, path: Path, hidden: bool, done: int) -> Iterator[Path]:
        """Greedy: once more before enough; reluctant: the other way round."""
        enough = done >= tree.least
        if enough and not tree.greedy:
            yield path
        if tree.most is None or done < tree.most:
            yield from self._once_more(tree, path, hidden, done)
        if enough and tree.greedy:
            yield path

    def _once_more(self, tree: Quantified, path: Path, hidden: bool, done: int) -> Iterator[Path]:
        for longer in self.ways(tree.part, path, hidden):
            if len(longer) == len(path) and done + 1 >= tree.least:
                yield longer  # an iteration without a row is the last one
            else:
                yield from self._repeated(tree, longer, hidden, done + 1)


def matches(
    pattern: Pattern, count: int, allows: Allows, after: Callable[[Match], int] | None = None
) -> Iterator[Match]:
    """The matches in a partition of `count` rows; `after` tells where the search goes on after one that has rows."""
    start, number = 0, 0
    while start < count:
        attempt = Attempt(start, count, lambda path, number=number: allows(path, number + 1))  # type: ignore[misc]
        steps = next(attempt.ways(pattern, ()), None)
        follow = start + 1
        if steps is not None:
            number += 1
            found = Match(number, start, steps)
            yield found
            if steps:
                follow = after(found) if after else steps[-1].row + 1
        start = follow


# The clause -----------------------------------------------------------------------------------------------------------


def recognize(clause: RowPattern, rows: Sequence[Row], columns: Sequence[str]) -> Result:
    """The rows that the clause gives, and their columns."""
    shown = _Shown(clause, columns)
    found = [shown.rows(partition) for partition in _partitions(clause, rows)]
    return Result(shown.header, list(itertools.chain.from_iterable(found)))


def _partitions(clause: RowPattern, rows: Sequence[Row]) -> list[list[Row]]:
    names = [column.name for column in clause.partition_by]
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(cell(row, name) for name in names), []).append(row)
    keys = sorted(found, key=lambda key: [(one is not None, one) for one in key])
    return [_ordered(clause, found[key]) for key in keys]


def _ordered(clause: RowPattern, rows: list[Row]) -> list[Row]:
    for item in reversed(clause.order_by):
        descending = bool(item.args.get("desc"))
        keys = [value(item.this, Scene([row], (), 0, at=0)) for row in rows]
        null = [row for row, key in zip(rows, keys, strict=True) if key is None]
        known = [(key, row) for row, key in zip(rows, keys, strict=True) if key is not None]
        ordered = [row for _, row in sorted(known, key=lambda pair: pair[0], reverse=descending)]
        rows = null + ordered if item.args.get("nulls_first", not descending) else ordered + null
    return rows


def matches_of(clause: RowPattern, rows: Sequence[Row]) -> list[Match]:
    """The matches in one partition, its rows in order."""
    conditions = dict(clause.define)
    subsets = dict(clause.subsets)

    def allows(path: Path, number: int) -> bool:
        if not _in_time(clause, rows, path):
            return False
        condition = conditions.get(path[-1].symbol)
        return condition is None or bool(value(condition, Scene(rows, path, len(path), number, subsets)))

    return list(matches(clause.pattern, len(rows), allows, lambda match: _after(clause, clause.skip, match)))


def _in_time(clause: RowPattern, rows: Sequence[Row], path: Path) -> bool:
    if clause.within is None:
        return True
    name = clause.order_by[0].this.name
    passed = cell(rows[path[-1].row], name) - cell(rows[path[0].row], name)
    if isinstance(passed, datetime.timedelta):
        return bool(passed < datetime.timedelta(milliseconds=clause.within))
    return bool(passed < clause.within)


def _after(clause: RowPattern, skip: SkipTo, match: Match) -> int:
    if skip.to == "PAST LAST ROW":
        return match.steps[-1].row + 1
    if skip.to == "TO NEXT ROW":
        return match.start + 1
    symbols = clause.symbols_of(skip.variable or "")
    rows = [step.row for step in match.steps if step.symbol in symbols]
    target = rows[0 if skip.to == "TO FIRST" else -1] if rows else None
    if target is None or target == match.start:
        raise NowhereError(f"match {match.number}: SKIP {skip.to} {skip.variable} leads to row {target}")
    return target


# The rows a match gives -----------------------------------------------------------------------------------------------


class _Shown:
    """The result rows of one clause, by its ROWS PER MATCH."""

    def __init__(self, clause: RowPattern, columns: Sequence[str]) -> None:
        self.clause = clause
        self.measures = [(measure.alias, measure.this) for measure in clause.measures]
        self.before = _spelled([column.name for column in clause.partition_by], columns)
        self.after: list[str] = []
        if clause.per_match is not PerMatch.ONE_ROW:
            ordering = [item.this.name for item in clause.order_by if isinstance(item.this, exp.Column)]
            self.before = _spelled([*self.before, *ordering], columns)
            self.after = [name for name in columns if name not in self.before]
        self.header = (*self.before, *(name for name, _ in self.measures), *self.after)

    def rows(self, partition: Sequence[Row]) -> list[tuple[Any, ...]]:
        found = {match.start: match for match in matches_of(self.clause, partition)}
        taken = {step.row for match in found.values() for step in match.steps}
        unmatched = self.clause.per_match is PerMatch.WITH_UNMATCHED
        rows: list[tuple[Any, ...]] = []
        for start, row in enumerate(partition):
            if start in found:
                rows += self._of_match(found[start], partition)
            elif unmatched and start not in taken:
                rows.append(self._row(row, [None] * len(self.measures)))
        return rows

    def _of_match(self, match: Match, partition: Sequence[Row]) -> list[tuple[Any, ...]]:
        scene = Scene(partition, match.steps, 0, match.number, dict(self.clause.subsets))
        if self.clause.per_match is PerMatch.ONE_ROW or not match.steps:
            if self.clause.per_match is PerMatch.OMIT_EMPTY and not match.steps:
                return []
            last = dataclasses.replace(scene, seen=len(match.steps))
            return [self._row(partition[match.start], self._measured(last))]
        return [
            self._row(partition[step.row], self._measured(dataclasses.replace(scene, seen=place)))
            for place, step in enumerate(match.steps, 1)
            if not step.excluded
        ]

    def _measured(self, scene: Scene) -> list[Any]:
        return [value(measure, scene) for _, measure in self.measures]

    def _row(self, row: Row, measured: list[Any]) -> tuple[Any, ...]:
        return (*(row[name] for name in self.before), *measured, *(row[name] for name in self.after))


def _spelled(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The names as the input spells them, each once."""
    folded = {column.lower(): column for column in columns}
    return list(dict.fromkeys(folded[name.lower()] for name in names))


def expression(text: str) -> exp.Expr:
    """An expression as the clause holds it; RUNNING and FINAL are written as functions here.

    >>> expression("FINAL(LAST(A.x)) - PREV(x)").find(exp.Anonymous).name
    'FINAL'
    """
    return exp.maybe_parse(text).transform(_as_call)


def _as_call(node: exp.Expr) -> exp.Expr:
    if not isinstance(node, exp.First | exp.Last):
        return node
    arguments = [node.this, node.args.get("expression")]
    return exp.Anonymous(
        this=type(node).__name__.upper(), expressions=[one.transform(_as_call) for one in arguments if one]
    )
