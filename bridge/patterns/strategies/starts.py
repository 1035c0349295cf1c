"""Searches many starts at once: for WITHIN, and for conditions on rows at a known distance from the first row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge.patterns.arrays import Bools, Ints, arrow_columns, take
from bridge.patterns.conditions import Condition, distance
from bridge.patterns.evaluate.compiled import compiled_conditions
from bridge.patterns.evaluate.exact import bound_of, has_nan, is_exact
from bridge.patterns.evaluate.vector import Column, columns_of, is_true, vector
from bridge.patterns.task import Task
from bridge.patterns.values import CURRENT, Value
from nfa.arrays import compiled
from nfa.arrays.many_starts import SymbolSetsAt, scan_starts
from nfa.arrays.matches import Matches, SymbolSets
from nfa.threads.transitions import Transitions
from windows.sql import table

ValueCache = dict[Hashable, Column]
"""Values that were read before for the same starts and rows, by expression and place."""

Holds = Callable[[Ints, Ints, ValueCache], Bools]
"""Tells, for some starts and a row for each, whether a condition holds for the row."""


def find(task: Task) -> Matches:
    """The matches, found for all starts together.

    For very many rows, by the compiled search one start after the other.
    """
    found = _compiled(task)
    if found is not None:
        return found
    return scan_starts(
        task.program, symbol_sets_at(task), task.ends, task.skip, limits=task.limits, candidates=candidates(task)
    )


def _compiled(task: Task) -> Matches | None:
    if len(task.symbol_sets) < compiled.RUN_COMPILED_FROM or not compiled.supports(task.program, task.skip):
        return None
    conditions = compiled_conditions(task)
    if conditions is None or not compiled.is_faster(conditions.text, len(task.symbol_sets)):
        return None
    columns = conditions.columns(task)
    if columns is None:
        return None
    limits = None if task.within is None else compiled.deadlines(task.times, task.ends, task.within)
    return compiled.scan_compiled(
        task.program, conditions.text, columns, task.symbol_sets, task.ends, task.skip, limits=limits
    )


def candidates(task: Task) -> Ints | None:
    """The rows at which a match can begin, by their symbol sets; None: all rows."""
    transitions = Transitions(task.program)
    begun = {*transitions.begin(at_start=True), *transitions.begin(at_start=False)}
    if any(number not in transitions.bits for number in begun):
        return None
    mask = sum({transitions.bits[number] for number in begun})
    return np.flatnonzero(task.symbol_sets & task.symbol_sets.dtype.type(mask))


def symbol_sets_at(task: Task) -> SymbolSetsAt:
    """The function that returns symbol sets in the match from a start, for the requested symbols."""
    symbol_sets = task.symbol_sets
    conditions = enumerate(task.conditions)
    rests = [(place, holds_at(c, task), c.row is None) for place, c in conditions if c.rest is not None]
    if not rests:
        return lambda starts, rows, wanted: symbol_sets.take(rows)
    kind = symbol_sets.dtype.type

    def symbol_sets_in_match(starts: Ints, rows: Ints, requested: int) -> SymbolSets:
        found = symbol_sets.take(rows)
        cache: ValueCache = {}
        for place, holds, always in rests:
            if not requested >> place & 1:
                continue
            if always:
                found &= ~((~holds(starts, rows, cache)).astype(kind) << kind(place))
                continue
            bit = kind(1 << place)
            able = np.flatnonzero(found & bit)
            failed = able[~holds(starts[able], rows[able], {})]
            found[failed] &= ~bit
        return found

    return symbol_sets_in_match


def holds_at(condition: Condition, task: Task) -> Holds:
    """The function for the part of a condition on other rows, which are at known distances from the first row."""
    of_match = MatchCondition(condition, task)
    places = [None if v.place == CURRENT else distance(v.place, task.clause) for v in of_match.values]
    sure = [not place for place in places]  # the row itself and the first row always exist
    named = [(value.row.sql(), place) for value, place in zip(of_match.values, places, strict=True)]

    def holds(starts: Ints, rows: Ints, cache: ValueCache) -> Bools:
        return of_match.holds([_rows_at(place, starts, rows) for place in places], len(rows), sure, named, cache)

    return holds


class MatchCondition:
    """The part of a condition on other rows, over values: in numpy if that agrees, else in the database."""

    def __init__(self, condition: Condition, task: Task) -> None:
        assert condition.rest is not None
        self.values = [atom for atom in condition.rest.atoms if isinstance(atom, Value)]
        self._expression = condition.rest.expression
        self._rows = task.rows
        self._arrays = task.rows.columns([value.row for value in self.values])
        columns = columns_of(self._arrays)
        self._columns = columns if columns is not None and _alike(columns) else None
        bounds = {f"_v{number}": bound_of(array) for number, array in enumerate(self._arrays)}
        able = columns is not None and is_exact(self._expression, bounds) and not any(map(has_nan, self._arrays))
        self._compute = vector(self._expression) if able else None

    def holds(
        self,
        places: Sequence[Ints],
        count: int,
        sure: Sequence[bool] = (),
        named: Sequence[Hashable] = (),
        cache: ValueCache | None = None,
    ) -> Bools:
        """For each of `count` cases, whether the condition holds.

        `places` has, per value, the rows to read it at (-1: none).

        `sure`: for each value, whether its row exists in every case. A value that is in the `cache` under its name is
        not read again.
        """
        if self._compute is None or self._columns is None:
            return self._by_database(places, count)
        read: ValueCache = {} if cache is None else cache
        env = {}
        for number, (column, rows) in enumerate(zip(self._columns, places, strict=True)):
            name = named[number] if named else number
            if name not in read:
                read[name] = column.of(rows) if sure and sure[number] else column.at(rows)
            env[f"_v{number}"] = read[name]
        found = is_true(self._compute(env))
        return found if found.shape == (count,) else np.broadcast_to(found, (count,))

    def _by_database(self, places: Sequence[Ints], count: int) -> Bools:
        if not count:
            return np.zeros(0, bool)
        database = self._rows.database
        found = [take(array, rows) for array, rows in zip(self._arrays, places, strict=True)]
        names = [f"_v{number}" for number in range(len(found))]
        given = pa.Table.from_arrays([*found, pa.array(np.arange(count))], names=[*names, "_n"])
        with database.registered(given) as name:
            true = exp.Case().when(self._expression.copy(), exp.Literal.number(1)).else_(exp.Literal.number(0))
            select = exp.select(exp.alias_(true, "v")).from_(table(name)).order_by("_n")
            return np.asarray(arrow_columns(database, database.render(select), 1)[0]).astype(bool)


def _alike(columns: list[Column]) -> bool:
    """Whether all columns are numbers: only these are compared and computed in the same way everywhere."""
    return all(column.kind in ("number", "boolean") for column in columns) or len({c.kind for c in columns}) == 1


def _rows_at(distance: int | None, starts: Ints, rows: Ints) -> Ints:
    """The row at a distance from the first, if it has been reached; for None, the row itself."""
    if distance is None:
        return rows
    if distance == 0:
        return starts
    there = starts + distance
    return np.where(there <= rows, there, -1)
