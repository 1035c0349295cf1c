"""`A Z* B Z* C` where any row can be Z: only the rows of A, B and C are searched, not the rows in the gaps.

A match is one row per symbol, in order and within the time, so it is found from its end: the latest C within the time
of A, the latest B before that C, and so on. A has a match if and only if all of them exist. A greedy gap prefers the
latest row of the symbol after it, which is the row found, as a condition reads only its own row and A's. A reluctant
gap takes the first row after the previous symbol's, up to the latest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from sqlglot import exp

from bridge.patterns.arrays import Ints, ranges
from bridge.patterns.conditions import Condition, distance
from bridge.patterns.evaluate.vector import Column, columns_of
from bridge.patterns.strategies.prefilter import RowSubset
from bridge.patterns.strategies.starts import Holds, holds_at
from bridge.patterns.task import Task, symbol_set
from bridge.patterns.values import CURRENT, Value
from nfa.arrays.deadlines import deadlines_of
from nfa.arrays.matches import Codes, Matches, partitions
from nfa.arrays.skip_chain import chain, check_result
from nfa.errors import BudgetError
from nfa.pattern import Concatenation, Exclusion, Pattern, Quantified, Symbol, symbols
from nfa.threads.transitions import Transitions
from windows.sql import column, conjuncts, number

PAIRS_AT_ONCE = 1 << 20
"""The greatest number of pairs of a first row and another row that are tested together."""

WIDEST = 1 << 10
"""The greatest number of rows that are tested together for one first row."""


@dataclasses.dataclass(frozen=True)
class GapStep:
    """A symbol and the gap before it, which is at least `least` arbitrary rows. The first symbol has no gap."""

    symbol: str
    excluded: bool = False
    gap: GapStep | None = None
    least: int = 0
    greedy: bool = True


def steps(pattern: Pattern) -> tuple[GapStep, ...] | None:
    """The symbols of a pattern that has gaps between symbols and nowhere else; None for other patterns.

    >>> from nfa import parse_pattern
    >>> [(step.symbol, step.least, step.greedy) for step in steps(parse_pattern("A Z* B {- Z+? -} C"))]
    [('A', 0, True), ('B', 0, True), ('C', 1, False)]
    >>> steps(parse_pattern("A Z* B C"))
    """
    parts = list(_flat(pattern, excluded=False))
    if len(parts) < 3 or len(parts) % 2 == 0:
        return None
    found = []
    for place, (part, excluded) in enumerate(parts):
        if isinstance(part, Symbol) and place % 2 == 0:
            found.append(_step(part, excluded, parts[place - 1] if place else None))
        elif place % 2 == 0 or not _is_gap(part):
            return None
    return tuple(found)


def _flat(pattern: Pattern, excluded: bool) -> Iterator[tuple[Pattern, bool]]:
    match pattern:
        case Concatenation(parts):
            for part in parts:
                yield from _flat(part, excluded)
        case Exclusion(part):
            yield from _flat(part, excluded=True)
        case _:
            yield pattern, excluded


def _is_gap(part: Pattern) -> bool:
    if not isinstance(part, Quantified) or part.most is not None:
        return False
    inner = part.part.part if isinstance(part.part, Exclusion) else part.part
    return isinstance(inner, Symbol)


def _step(symbol: Symbol, excluded: bool, before: tuple[Pattern, bool] | None) -> GapStep:
    if before is None:
        return GapStep(symbol.name, excluded)
    quantified, hidden = before
    assert isinstance(quantified, Quantified)
    ((inner, inside),) = _flat(quantified.part, hidden)
    assert isinstance(inner, Symbol)
    return GapStep(symbol.name, excluded, GapStep(inner.name, inside), quantified.least, quantified.greedy)


def fits(task: Task) -> bool:
    """Whether the strategy supports the clause."""
    found = steps(task.clause.pattern)
    if found is None:
        return False
    conditions = {condition.symbol: condition for condition in task.conditions}
    anything = [conditions[step.gap.symbol] for step in found if step.gap]
    return all(c.row is None and c.rest is None for c in anything) and all(
        _reads_first(conditions[step.symbol], task) for step in found
    )


def _reads_first(condition: Condition, task: Task) -> bool:
    """Whether a condition reads only its own row and the first row of the match."""
    atoms = condition.rest.atoms if condition.rest else ()
    return all(isinstance(a, Value) and (a.place == CURRENT or distance(a.place, task.clause) == 0) for a in atoms)


def find(task: Task) -> Matches:
    """The matches; raises BudgetError if the pattern is not of this kind."""
    if not fits(task):
        raise BudgetError("the pattern has no gaps between single rows, or a condition reads another symbol's row")
    gaps = GapSearch(task)
    return chain(gaps, gaps.numbers[gaps.rows[0]], task.skip)


def candidates(task: Task, found: tuple[GapStep, ...]) -> tuple[Task, Ints]:
    """The rows that can match a symbol by their own values: a task over only these rows, and their numbers.

    One statement reads everything that the search needs of them.
    """
    conditions = {condition.symbol: condition for condition in task.conditions}
    of_steps = [conditions[name] for name in dict.fromkeys(step.symbol for step in found)]
    values = [atom.row for c in of_steps if c.rest for atom in c.rest.atoms if isinstance(atom, Value)]
    times = [item.this for item in task.clause.order_by[:1]] if task.clause.within is not None else []
    wanted = list(dict.fromkeys([symbol_set(task.conditions), *values, *times]))
    columns = [column(f"_w{place}") for place in range(len(wanted))]
    numbers, symbol_sets, *arrays = task.rows.where(_is_any(task, of_steps, columns[0]), wanted, columns)
    kept = np.asarray(numbers).astype(np.int64)
    fewer = dataclasses.replace(task, rows=RowSubset(task.rows, kept, dict(zip(wanted[1:], arrays, strict=True))))
    fewer.symbol_sets = np.asarray(symbol_sets).astype(np.uint64)
    return fewer, kept


def _is_any(task: Task, of_steps: list[Condition], symbol_set_column: exp.Expr) -> exp.Expr:
    """Whether a symbol set contains one of these symbols."""
    if any(condition.row is None for condition in of_steps):
        return exp.true()
    always = sum(1 << place for place, condition in enumerate(task.conditions) if condition.row is None)
    return exp.GT(this=symbol_set_column, expression=number(always))


class GapSearch:
    """An engine of `nfa.arrays.skip_chain`: finds the rows of the match from any start.

    Candidates have their own numbers; `numbers` maps these to row numbers.
    """

    def __init__(self, task: Task) -> None:
        self.steps = steps(task.clause.pattern) or ()
        self.transitions = Transitions(task.program)
        self.firsts, _ = partitions(task.ends)
        self.task, self.numbers = candidates(task, self.steps)
        self.within = self.task.within
        conditions = {condition.symbol: condition for condition in task.conditions}
        names = symbols(task.clause.pattern)
        wanted = {step.symbol for step in self.steps}
        rows = {name: _rows_of(self.task, names.index(name)) for name in wanted}
        rests = {name: holds_at(conditions[name], self.task) for name in wanted if conditions[name].rest}
        self.rows = [rows[step.symbol] for step in self.steps]
        self.rests = [rests.get(step.symbol) for step in self.steps]
        by_key = {name: key_index(conditions[name], rows[name], self.task) for name in wanted}
        self.key_index = [by_key[step.symbol] for step in self.steps]
        self._known = [(np.zeros(0, np.int64), np.zeros((len(self.steps), 0), np.int64))]

    def ends(self, starts: Ints, patient: bool) -> tuple[Ints, Ints]:
        """The end of the match from each start, -1 if there is none.

        The cost does not depend on the length of matches.
        """
        found = np.full(len(starts), -1, np.int64)
        firsts, first = np.searchsorted(self.numbers, starts), self.rests[0]
        open_ones = np.arange(len(starts)) if first is None else np.flatnonzero(first(firsts, firsts, {}))
        latest, kept = self._latest(firsts[open_ones])
        open_ones = open_ones[kept]
        taken = self.numbers[self._match_rows(firsts[open_ones], latest)]
        found[open_ones] = taken[-1] + 1
        self._known.append((starts[open_ones], taken))
        return found, np.zeros(len(starts), np.int64)

    def _latest(self, starts: Ints) -> tuple[Ints, Ints]:
        """For each later symbol the latest row that can match it, for the starts where all symbols have such rows."""
        high, kept = self._limits(starts), np.arange(len(starts))
        found: list[Ints] = []
        for place in range(len(self.steps) - 1, 0, -1):
            before = sum(step.least + 1 for step in self.steps[1 : place + 1])
            low = self._moved(starts[kept], before)
            rows = self._picked(place, starts[kept], low, high, latest=True)
            there = np.flatnonzero(rows >= 0)
            found = [rows[there], *(known[there] for known in found)]
            kept = kept[there]
            high = self._moved(found[0], -self.steps[place].least)
        return np.array(found, np.int64).reshape(len(self.steps) - 1, len(kept)), kept

    def _match_rows(self, starts: Ints, latest: Ints) -> Ints:
        """The rows of the preferred matches; the rows of one symbol are side by side."""
        rows = [starts]
        for place, step in enumerate(self.steps[1:], 1):
            most = latest[place - 1]
            if not step.greedy:
                low = self._moved(rows[-1], 1 + step.least)
                most = self._picked(place, starts, low, most + 1, latest=False)
            rows.append(most)
        return np.array(rows, np.int64).reshape(len(self.steps), len(starts))

    def _moved(self, rows: Ints, by: int) -> Ints:
        """The first candidate at the given distance after each row, or at a greater distance."""
        return np.searchsorted(self.numbers, self.numbers[rows] + by) if by not in (0, 1) else rows + by

    def _limits(self, starts: Ints) -> Ints:
        ends = self.task.ends
        if self.within is None or not len(starts):
            return ends[np.searchsorted(ends, starts, "right")]
        return deadlines_of(starts, self.task.times, ends, self.within)

    def _picked(self, place: int, starts: Ints, low: Ints, high: Ints, latest: bool) -> Ints:
        """The latest or the first row from `low` up to but without `high` that can match the symbol.

        -1 if there is none.
        """
        rows, rest, by_key = self.rows[place], self.rests[place], self.key_index[place]
        if by_key is not None:
            rows, (least, most) = by_key.rows, by_key.bounds(starts, low, high)
        else:
            least, most = np.searchsorted(rows, low, "left"), np.searchsorted(rows, high, "left")
        if rest is not None:
            return _search_rows(rest, starts, rows, least, most, latest)
        chosen = most - 1 if latest else least
        return np.where(least < most, rows.take(chosen, mode="clip"), -1) if len(rows) else np.full(len(low), -1)

    def codes(self, starts: Ints, ends: Ints) -> Codes:
        """The codes of the matches found."""
        check_result(int((ends - starts).sum()))
        known = np.concatenate([starts for starts, _ in self._known])
        taken = np.concatenate([rows for _, rows in self._known], axis=1)
        self._known = [(known, taken)]
        taken = taken[:, np.searchsorted(known, starts)]
        lengths = np.ones((2 * len(self.steps) - 1, len(starts)), np.int64)
        lengths[1::2] = taken[1:] - taken[:-1] - 1
        parts = [part for step in self.steps for part in (step.gap, step) if part]
        numbers = np.array([self.task.numbers[part.symbol, part.excluded] for part in parts], np.int32)
        return np.repeat(np.tile(numbers, len(starts)), lengths.T.ravel())


def _rows_of(task: Task, bit: int) -> Ints:
    """The rows that can match a symbol by their own values."""
    return np.flatnonzero(task.symbol_sets & task.symbol_sets.dtype.type(1 << bit))


def _search_rows(rest: Holds, starts: Ints, rows: Ints, least: Ints, most: Ints, latest: bool) -> Ints:
    """The latest or first of the rows at places from `least` up to but without `most` for which the condition holds.

    For the starts that have found no row, more and more rows are tested at once.
    """
    found = np.full(len(starts), -1, np.int64)
    least, most = least.copy(), most.copy()
    active, width = np.flatnonzero(least < most), 1
    while len(active):
        for some in np.array_split(active, len(active) * width // PAIRS_AT_ONCE + 1):
            counts = np.minimum(most[some] - least[some], width)
            firsts = most[some] - counts if latest else least[some]
            owners, places = np.repeat(some, counts), ranges(firsts, firsts + counts)
            true = np.flatnonzero(rest(starts[owners], rows[places], {}))
            true = true if latest else true[::-1]
            found[owners[true]] = rows[places[true]]  # of several, the last one remains
            most[some], least[some] = (firsts, least[some]) if latest else (most[some], firsts + counts)
        active = active[(found[active] < 0) & (least[active] < most[active])]
        width = min(2 * width, WIDEST)
    return found


# The rows of a symbol whose condition equates a whole number with one of the first row, as in `C.user = A.user`


class KeyIndex:
    """Candidates sorted by key, and by row within each key; candidates whose key is NULL are left out.

    With 1,000 keys over 200,000 rows a query takes a quarter of the time, with 20,000 keys a sixth, with 50 the same.
    """

    def __init__(self, rows: Ints, mine: Column, first: Column, count: int) -> None:
        rows = rows if mine.nulls is None else rows[~mine.nulls[rows]]
        self.first, self.count = first, count
        self.keys, places = np.unique(mine.values[rows], return_inverse=True)
        order = np.argsort(places, kind="stable")
        self.rows: Ints = rows[order]
        self._at = places[order] * count + self.rows

    def bounds(self, starts: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """The places of the rows from `low` up to but without `high` that have the key of a start."""
        wanted = self.first.values[starts]
        place = np.searchsorted(self.keys, wanted)
        there = np.append(self.keys, 0)[place] == wanted
        there &= place < len(self.keys)
        if self.first.nulls is not None:
            there &= ~self.first.nulls[starts]
        least = np.searchsorted(self._at, place * self.count + low)
        most = np.searchsorted(self._at, place * self.count + high)
        return least, np.where(there, most, least)


def key_index(condition: Condition, rows: Ints, task: Task) -> KeyIndex | None:
    """The rows of the symbol by such a number; None if its condition has no such equation."""
    for mine, first in _pairs(condition):
        columns = columns_of(task.rows.columns([mine.row, first.row]))
        if columns is not None and all(column.values.dtype == np.int64 for column in columns):
            return KeyIndex(rows, columns[0], columns[1], len(task.symbol_sets))
    return None


def _pairs(condition: Condition) -> Iterator[tuple[Value, Value]]:
    """The value of a row and the value of the first row that have to be equal."""
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
