"""One row for each match of a pattern of one fixed length: conditions and measures in one statement over the sorted rows.

It gives the matches from all rows; those that AFTER MATCH SKIP passes over are left out when their number is known.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge.recognize.arrow import Array, Ints, taken
from bridge.recognize.clause import PerMatch
from bridge.recognize.members import match_numbers
from bridge.recognize.strategies.offsets import distance_in, fits, ways
from bridge.recognize.task import Task
from bridge.recognize.values import Atom, Fold, Label, Number, Value, Valued, shift_of, shifted
from bridge.scope import column


class Columns:
    """The columns that stand for values of rows at a distance from the first."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.values: dict[exp.Expr, str] = {}

    def at(self, distance: int, row: exp.Expr) -> exp.Expr:
        """An expression over the row at a distance."""

        def far(node: exp.Expr) -> exp.Expr:
            by = shift_of(node)
            if by is not None:
                return self._column(node.expressions[0], by, distance)
            return self._column(node, 0, distance) if isinstance(node, exp.Column) else node

        return exp.Paren(this=row.transform(far))

    def _column(self, row: exp.Expr, by: int, distance: int) -> exp.Expr:
        value = shifted(row.copy(), by + distance) if by + distance else row.copy()
        return column(self.values.setdefault(value, f"_w{len(self.values)}"))

    def computed(self, valued: Valued, taken_by_now: int) -> exp.Expr:
        """An expression over values of the first so many rows of the match."""
        atoms = {f"_v{number}": self._atom(atom, taken_by_now) for number, atom in enumerate(valued.atoms)}

        def put(node: exp.Expr) -> exp.Expr:
            return atoms[node.name].copy() if isinstance(node, exp.Column) else node

        return exp.Paren(this=valued.expression.transform(put))

    def _atom(self, atom: Atom, taken_by_now: int) -> exp.Expr:
        assert isinstance(atom, (Value, Label))
        distance = distance_in(atom.place, self.names[:taken_by_now])
        if isinstance(atom, Value):
            # Of no row, a NULL of the value's type.
            return (
                exp.Case().when(exp.false(), self.at(0, atom.row)) if distance is None else self.at(distance, atom.row)
            )
        there = -1 if distance is None else distance + atom.shift
        return exp.Literal.string(self.names[there]) if 0 <= there < len(self.names) else exp.cast(exp.null(), "text")


def answer(task: Task, measures: Sequence[Valued]) -> pa.Table | None:
    """The whole answer; None for what a statement cannot say."""
    found = ways(task.clause.pattern) if fits(task) and _is_plain(task, measures) else None
    if found is None or len(found) != 1:
        return None
    names = [name for name, _ in found[0]]
    step = _step(task, names)
    if step is None:
        return None
    columns = Columns(names)
    condition = _condition(task, columns)
    asked = [columns.computed(m, len(names)) for m in measures if not isinstance(m.only, Number)]
    rows, *shown = task.rows.where(condition, list(columns.values), asked)
    return _table(task, measures, np.asarray(rows).astype(np.int64), shown, step)


def _is_plain(task: Task, measures: Sequence[Valued]) -> bool:
    atoms = [(atom, m.only) for m in measures for atom in m.atoms]
    told = all(only is atom if isinstance(atom, Number) else not isinstance(atom, Fold) for atom, only in atoms)
    nested = any(_is_nested(atom.row) for atom, _ in atoms if isinstance(atom, Value))
    return told and not nested and task.clause.per_match is PerMatch.ONE_ROW and task.clause.within is None


def _is_nested(row: exp.Expr) -> bool:
    """Whether a row is read from a row that is read from another."""
    calls = [node for node in row.walk() if shift_of(node) is not None]
    return any(inner is not call for call in calls for inner in call.walk() if shift_of(inner) is not None)


def _step(task: Task, names: Sequence[str]) -> int | None:
    """How many rows after a match's first the next one can begin; None where there is no such row (rule S3)."""
    skip = task.clause.skip
    if skip.to in ("PAST LAST ROW", "TO NEXT ROW"):
        return len(names) if skip.to == "PAST LAST ROW" else 1
    wanted = task.clause.symbols_of(skip.variable or "")
    places = [place for place, name in enumerate(names) if name in wanted]
    return (places[0 if skip.to == "TO FIRST" else -1] or None) if places else None


def _condition(task: Task, columns: Columns) -> exp.Expr:
    """All rows are there, and each can be its symbol."""
    by_symbol = {condition.symbol: condition for condition in task.conditions}
    parts: list[exp.Expr] = []
    for distance, name in enumerate(columns.names):
        asked = by_symbol[name]
        parts += [columns.at(distance, asked.row)] if asked.row is not None else []
        parts += [columns.computed(asked.rest, distance + 1)] if asked.rest is not None else []
    last = columns.values.setdefault(shifted(exp.Literal.number(1), len(columns.names) - 1), f"_w{len(columns.values)}")
    there: exp.Expr = exp.Not(this=exp.Is(this=column(last), expression=exp.null()))
    return functools.reduce(lambda one, other: exp.And(this=one, expression=other), parts, there)


def _table(task: Task, measures: Sequence[Valued], rows: Ints, shown: Sequence[Array], step: int) -> pa.Table:
    kept = _kept(rows, step)
    if len(kept) < len(rows):
        rows, shown = rows[kept], [taken(array, kept) for array in shown]
    given = iter(shown)
    computed = [
        pa.array(match_numbers(rows, task.ends)) if isinstance(m.only, Number) else next(given) for m in measures
    ]
    keys = [key.name for key in task.clause.partition_by]
    columns = [*(task.rows.key(key, rows) for key in keys), *computed]
    return pa.Table.from_arrays(columns, names=[*keys, *(m.alias for m in task.clause.measures)])


def _kept(rows: Ints, step: int) -> Ints:
    """The places of the matches that are found when each is looked for so many rows after the one before.

    >>> _kept(np.array([0, 1, 2, 5, 7, 8]), 3).tolist()
    [0, 3, 5]
    """
    if not (rows[1:] - rows[:-1] < step).any():
        return np.arange(len(rows))
    kept, after = [], 0
    for place, row in enumerate(rows.tolist()):
        if row >= after:
            kept.append(place)
            after = row + step
    return np.array(kept, np.int64)
