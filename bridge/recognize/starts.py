"""Many starts at once: conditions that compare a row with rows at a known distance from the first, and WITHIN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge.recognize.arrow import Array, Bools, Ints, taken
from bridge.recognize.conditions import Condition, distance
from bridge.recognize.evaluate import Column, columns_of, truth, vector
from bridge.recognize.rows import SortedRows, arrow_columns, lent
from bridge.recognize.task import Task
from bridge.recognize.values import CURRENT, Value
from nfa.closures import Closures
from nfa.found import Found, Letters
from nfa.lanes import scan_lanes
from nfa.within import deadlines

Holds = Callable[[Ints, Ints], Bools]
"""For some starts and a row of each: whether a condition holds of the row."""


def find(task: Task) -> Found:
    """The matches, found for all starts side by side."""
    limits = None if task.within is None else deadlines(task.times, task.ends, task.within)
    return scan_lanes(
        task.program, _letters_at(task), task.ends, task.skip, limits=limits, candidates=_candidates(task)
    )


def _candidates(task: Task) -> Ints | None:
    """The rows at which a match can begin, by what is about them alone; None: all of them."""
    closures = Closures(task.program)
    begun = {*closures.begin(at_start=True), *closures.begin(at_start=False)}
    if any(number not in closures.bits for number in begun):
        return None
    mask = sum({closures.bits[number] for number in begun})
    return np.flatnonzero(task.letters & task.letters.dtype.type(mask))


def _letters_at(task: Task) -> Callable[[Ints, Ints], Letters]:
    letters = task.letters
    rests = [(place, _holds(c, task)) for place, c in enumerate(task.conditions) if c.rest is not None]
    if not rests:
        return lambda starts, rows: letters[rows]

    def letters_at(starts: Ints, rows: Ints) -> Letters:
        found = letters[rows]
        for place, holds in rests:
            bit = found.dtype.type(1 << place)
            asked = np.flatnonzero(found & bit)
            failed = asked[~holds(starts[asked], rows[asked])]
            found[failed] &= ~bit
        return found

    return letters_at


def _holds(condition: Condition, task: Task) -> Holds:
    """What a condition asks beyond the row: in numpy where that means the same, else in the database."""
    assert condition.rest is not None
    values = [atom for atom in condition.rest.atoms if isinstance(atom, Value)]
    places = [None if v.place == CURRENT else distance(v.place, task.clause) for v in values]
    arrays = task.rows.columns([value.row for value in values])
    columns = columns_of(arrays)
    compute = vector(condition.rest.expression) if columns is not None and _alike(columns) else None
    if compute is None or columns is None:
        return _by_database(task.rows, condition.rest.expression, arrays, places)
    run = compute

    def holds(starts: Ints, rows: Ints) -> Bools:
        env = {
            f"_v{number}": column.at(_rows_at(place, starts, rows))
            for number, (column, place) in enumerate(zip(columns, places, strict=True))
        }
        return np.broadcast_to(truth(run(env)), rows.shape)

    return holds


def _alike(columns: list[Column]) -> bool:
    """Whether all are numbers: only these are compared and computed with each other in one way everywhere."""
    return all(column.kind in ("number", "boolean") for column in columns) or len({c.kind for c in columns}) == 1


def _rows_at(distance: int | None, starts: Ints, rows: Ints) -> Ints:
    """The row at a distance from the first, if it has come by now; the row itself without one."""
    if distance is None:
        return rows
    there = starts + distance
    return there if distance == 0 else np.where(there <= rows, there, -1)


def _by_database(rows: SortedRows, expression: exp.Expr, arrays: list[Array], places: list[int | None]) -> Holds:
    database = rows.database

    def holds(starts: Ints, at: Ints) -> Bools:
        if not len(at):
            return np.zeros(0, bool)
        found = [taken(array, _rows_at(place, starts, at)) for array, place in zip(arrays, places, strict=True)]
        names = [f"_v{number}" for number in range(len(found))]
        table = pa.Table.from_arrays([*found, pa.array(np.arange(len(at)))], names=[*names, "_n"])
        with lent(database, table) as name:
            true = exp.Case().when(expression.copy(), exp.Literal.number(1)).else_(exp.Literal.number(0))
            select = exp.select(exp.alias_(true, "v")).from_(exp.to_identifier(name, quoted=True)).order_by("_n")
            return np.asarray(arrow_columns(database, database.render(select), 1)[0]).astype(bool)

    return holds
