"""Rows of a symbol by a whole number that has to equal one of the match's first row, as in `C.user = A.user`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sqlglot import exp

from bridge.recognize.arrow import Ints
from bridge.recognize.conditions import Condition
from bridge.recognize.evaluate import Column, columns_of
from bridge.recognize.task import Task
from bridge.recognize.values import CURRENT, Value
from bridge.scope import conjuncts


class Keyed:
    """Candidates in the order of their keys, those of one key in their own order; those without a key left out."""

    def __init__(self, rows: Ints, mine: Column, first: Column, count: int) -> None:
        rows = rows if mine.nulls is None else rows[~mine.nulls[rows]]
        self.first, self.count = first, count
        self.keys, places = np.unique(mine.values[rows], return_inverse=True)
        order = np.argsort(places, kind="stable")
        self.rows: Ints = rows[order]
        self._at = places[order] * count + self.rows

    def bounds(self, starts: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """The places of the rows from `low` to before `high` that have the key of a start."""
        wanted = self.first.values[starts]
        place = np.searchsorted(self.keys, wanted)
        there = np.append(self.keys, 0)[place] == wanted
        there &= place < len(self.keys)
        if self.first.nulls is not None:
            there &= ~self.first.nulls[starts]
        least = np.searchsorted(self._at, place * self.count + low)
        most = np.searchsorted(self._at, place * self.count + high)
        return least, np.where(there, most, least)


def keyed(condition: Condition, rows: Ints, task: Task) -> Keyed | None:
    """The symbol's rows by such a number; None if its condition asks for none."""
    for mine, first in _pairs(condition):
        columns = columns_of(task.rows.columns([mine.row, first.row]))
        if columns is not None and all(column.values.dtype == np.int64 for column in columns):
            return Keyed(rows, columns[0], columns[1], len(task.letters))
    return None


def _pairs(condition: Condition) -> Iterator[tuple[Value, Value]]:
    """The value of a row and that of the first row which have to be equal."""
    if condition.rest is None:
        return
    atoms = {f"_v{place}": atom for place, atom in enumerate(condition.rest.atoms)}
    for part in conjuncts(condition.rest.expression):
        if isinstance(part, exp.EQ) and isinstance(part.this, exp.Column) and isinstance(part.expression, exp.Column):
            sides = [atoms[part.this.name], atoms[part.expression.name]]
            sides.sort(key=lambda atom: isinstance(atom, Value) and atom.place != CURRENT)
            mine, first = sides
            if isinstance(mine, Value) and isinstance(first, Value) and mine.place == CURRENT != first.place:
                yield mine, first
