"""`cep.why`: runs the plain machine over the partition of one row, and reports what it did at that row."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any

import numpy as np
from sqlglot import exp

from bridge.errors import QueryError, nearest
from bridge.patterns.members import Members
from bridge.patterns.output import matches, prepare
from bridge.patterns.own_types import PreparedClause, typed
from bridge.patterns.rows import ROWS, Input, SortedRows, Source, source_item
from bridge.patterns.strategies.machine import ByRow, PathConditions
from bridge.patterns.task import Task
from bridge.patterns.why import ConjunctTests, InMatch, Run, Skipped, Step, Why
from bridge.query.row_pattern import skip_text
from nfa.arrays.matches import Matches
from nfa.arrays.skip_chain import next_start
from nfa.errors import BudgetError
from nfa.skip import to_next_row
from nfa.threads.machine import InputRow, Machine
from nfa.threads.trace import RunTrace, Tracer, candidates
from nfa.threads.transitions import Transitions
from windows.databases import Database
from windows.sql import column, column_of, number

BUDGET = 50_000
"""The greatest number of moves for following runs to the row."""


def why(database: Database, given: Input, row: Mapping[str, Any], ts: Any, runs: int) -> Why:
    """The explanation for one row of a clause's input; QueryError unless exactly one row has these values."""
    prepared = typed(prepare(database, given.clause, given.fields), database, given.source)
    wanted = _searched_values(prepared, row, ts)
    condition = functools.reduce(lambda left, right: exp.And(this=left, expression=right), starmap(_equal, wanted))
    count = _count(database, given.source, condition)
    if count != 1:
        pairs = " and ".join(f"{name} = {value!r}" for name, value in wanted)
        more = "no row has" if not count else f"{count} rows have"
        raise QueryError(f"{more} {pairs}; columns are {', '.join(given.fields)}")
    source = _partition(database, given.source, prepared, condition)
    with SortedRows(database, source, prepared.clause, list(given.fields), prepared.leave_as) as rows:
        (hits,) = rows.columns([exp.Case().when(condition, number(1)).else_(number(0))])
        place = int(np.flatnonzero(np.asarray(hits) == 1)[0])
        try:
            return _RowExplanation(prepared, prepared.task(rows), place).why(runs)
        except BudgetError as error:
            raise QueryError(str(error)) from None


def _searched_values(prepared: PreparedClause, row: Mapping[str, Any], ts: Any) -> list[tuple[str, Any]]:
    """The columns, by their own names, with their values; `ts` is the first column in ORDER BY."""
    named = {_field(prepared.fields, name): value for name, value in row.items()}
    if ts is not None:
        order = prepared.clause.order_by
        if not order or not isinstance(order[0].this, exp.Column):
            raise QueryError("ts is the first column of ORDER BY, and there is none: name the row by row={…}")
        named[order[0].this.name] = ts
    if not named:
        raise QueryError("which row? row={'symbol': 'A', 'ts': 3} or ts=3")
    return list(named.items())


def _field(fields: Sequence[str], name: str) -> str:
    found = [field for field in fields if field.lower() == name.lower()]
    if not found:
        raise QueryError(f"the input has no column {name!r}{nearest(name, list(fields))}")
    return name if name in found else found[0]


def _equal(name: str, value: Any) -> exp.Expr:
    """The condition that a column has a value. A text may stand for a value of any type, as on the command line."""
    if value is None:
        return exp.Is(this=column(name), expression=exp.null())
    literal = exp.convert(value.item() if isinstance(value, np.generic) else value)
    same = exp.EQ(this=column(name), expression=literal)
    if not isinstance(value, str):
        return same
    as_text = exp.EQ(this=exp.cast(column(name), exp.DataType.Type.TEXT), expression=literal.copy())
    return exp.Paren(this=exp.Or(this=same, expression=as_text))


def _count(database: Database, source: Source, condition: exp.Expr) -> int:
    select = exp.select(exp.Count(this=exp.Star())).from_(source_item()).where(condition.copy())
    found: int = database.fetch(source.rendered(database, select))[0][0]
    return found


def _partition(database: Database, source: Source, prepared: PreparedClause, condition: exp.Expr) -> Source:
    """The rows of the partition that contains the row."""
    keys = [key.name for key in prepared.clause.partition_by]
    if not keys:
        return source
    own = exp.select(*map(column, keys)).from_(source_item()).where(condition.copy()).subquery("k")
    same = [exp.NullSafeEQ(this=column_of(ROWS, key), expression=column_of("k", key)) for key in keys]
    select = (
        exp.select(*(column_of(ROWS, name) for name in prepared.fields))
        .from_(source_item())
        .join(own, on=exp.and_(*same))
    )
    return Source(source.rendered(database, select))


class _CachedConditions(PathConditions):
    """The plain machine's conditions, for a match with a given number; values that were read are cached."""

    number = 1

    def _values(self, row: exp.Expr) -> ByRow[Any]:
        return self.column(row)

    @functools.cache  # noqa: B019 - lives as long as one answer
    def column(self, row: exp.Expr) -> ByRow[Any]:
        """An expression's value in each row."""
        return super()._values(row)

    @property
    def match_number(self) -> int:
        return self.number


class _RowExplanation:
    """The parts of one explanation. Rows count from 0 here, and from 1 in reports."""

    def __init__(self, prepared: PreparedClause, task: Task, place: int) -> None:
        self.prepared, self.task, self.place = prepared, task, place
        self.count = int(task.ends[-1])
        self.answers = _CachedConditions(task)
        self.tests = ConjunctTests(prepared, task, self.answers)
        self.found: Matches = matches(task)
        self.members = Members(self.found, task.program, task.ends)
        self.transitions = Transitions(task.program)

    def why(self, runs: int) -> Why:
        row = self._values(self.prepared.fields, self.place)
        skipped = self._skipped()
        shown, others = self._runs(runs, {start for first, last, _ in skipped for start in range(first, last + 1)})
        return Why(
            row,
            {key.name: row[key.name] for key in self.prepared.clause.partition_by},
            self.place + 1,
            self.count,
            tuple(self.tests.test_alone(condition, self.place) for condition in self.task.conditions),
            shown,
            others,
            tuple(self._shown_skipped(skipped))[-runs:],
            tuple(self._in_match(match) for match in self._with_row()),
        )

    def _values(self, names: Sequence[str], place: int) -> dict[str, Any]:
        """The values of columns in a row."""
        return {name: self.answers.column(column(name))[place] for name in names}

    # Matches ----------------------------------------------------------------------------------------------------------

    def _with_row(self) -> list[int]:
        """The matches that contain the row, or begin at it and are empty."""
        starts, ends = self.found.starts, self.found.starts + self.found.lengths
        return np.flatnonzero(
            (starts <= self.place) & ((self.place < ends) | ((ends == starts) & (starts == self.place)))
        ).tolist()

    def _in_match(self, match: int) -> InMatch:
        first, length = int(self.found.starts[match]), int(self.found.lengths[match])
        member = int(self.found.offsets[match]) + self.place - first
        if not first <= self.place < first + length:
            return InMatch(match + 1, first + 1, first + length)
        symbol = self.members.names[int(self.members.symbols[member])]
        return InMatch(match + 1, first + 1, first + length, symbol, bool(self.members.excluded[member]))

    def _of_start(self, start: int) -> InMatch | None:
        match = int(np.searchsorted(self.found.starts, start))
        there = match < len(self.found.starts) and int(self.found.starts[match]) == start
        return self._in_match(match) if there else None

    # Starts -----------------------------------------------------------------------------------------------------------

    def _skipped(self) -> list[tuple[int, int, int]]:
        """Ranges of starts, up to the row, that the search skipped after a match: first, last, and the match."""
        if self.task.skip is to_next_row:
            return []
        go_on = next_start(self.task.skip, self.transitions)
        found, offsets = [], self.found.offsets
        for match, start in enumerate(
            self.found.starts[: np.searchsorted(self.found.starts, self.place, "right")].tolist()
        ):
            length = int(self.found.lengths[match])
            after = (
                go_on(match + 1, start, self.found.codes[offsets[match] : offsets[match + 1]].tolist()) if length else 0
            )
            if after > start + 1:
                found.append((start + 1, after - 1, match))
        return found

    def _shown_skipped(self, skipped: list[tuple[int, int, int]]) -> Iterator[Skipped]:
        """The skipped starts from which a run might have reached the row."""
        mode = skip_text(self.prepared.clause) or "AFTER MATCH SKIP PAST LAST ROW"
        near = np.array(self._candidates[::-1])
        for first, last, match in skipped:
            if np.searchsorted(near, first) < np.searchsorted(near, last, "right"):
                yield Skipped(first + 1, last + 1, self._in_match(match), mode)

    @functools.cached_property
    def _candidates(self) -> list[int]:
        """The starts that may reach the row, by the rows' symbol sets and by time; the nearest first."""
        found = candidates(self.transitions, self.task.symbol_sets.tolist(), self.place)
        if self.task.within is None or not self.place:
            return list(found)
        times, within = self.task.times, self.task.within
        return [
            start for start in found if start == self.place or int(times[self.place - 1]) - int(times[start]) < within
        ]

    def _runs(self, most: int, skipped: set[int]) -> tuple[tuple[Run, ...], int]:
        """The runs that reached the row, and the number of starts that were not followed."""
        searched = [start for start in self._candidates if start not in skipped]
        own = [int(self.found.starts[match]) for match in self._with_row()[:most]]
        order = [*own, *(start for start in searched if start not in own)]
        tracer = Tracer(
            Machine(self.task.program, self.answers.holds, bool(self.answers.rest)), self._arrived, self.place, BUDGET
        )
        shown: list[Run] = []
        while order and len(shown) < most and tracer.budget > 0:
            start = order.pop(0)
            self.answers.number = int(np.searchsorted(self.found.starts, start)) + 1
            trace = tracer.run(start, self._is_late(start))
            if trace is not None:
                shown.append(self._run(trace))
        return tuple(sorted(shown, key=lambda run: run.start)), len(order)

    def _is_late(self, start: int) -> bool:
        within = self.task.within
        return within is not None and int(self.task.times[self.place]) - int(self.task.times[start]) >= within

    @functools.cache  # noqa: B019 - lives as long as one answer
    def _arrived(self, index: int) -> InputRow[int]:
        return InputRow(index, index, 0)

    def _run(self, trace: RunTrace) -> Run:
        names = [item.this.name for item in self.prepared.clause.order_by if isinstance(item.this, exp.Column)]
        key = tuple(self._values(names, trace.start).items())
        steps = tuple(
            Step(
                thread.symbols,
                None if thread.awaited is None else self.tests.test(thread.awaited, thread.path, self.place),
                thread.fate,
                thread.next_symbols,
                thread.is_match,
            )
            for thread in trace.threads
        )
        return Run(trace.start + 1, key, steps, self._of_start(trace.start), trace.has_match)
