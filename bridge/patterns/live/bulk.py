"""Many rows of a stream at once: the strategies of bounded data find the matches, and when each was decided.

As the machine of `recognize.live` does, it goes from the rows kept and where each partition stands to the results, and
moves both on. It keeps nothing beside these tables, so either can go on where the other stopped.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from bridge.patterns.arrays import Array, Bools, Ints, taken
from bridge.patterns.conditions import Condition
from bridge.patterns.live.decision_times import AT_THE_END, BY_ROW, Decided, can_tell, searched
from bridge.patterns.live.statements import BEGINNING, Continuous
from bridge.patterns.members import Members, match_numbers
from bridge.patterns.output import shown
from bridge.patterns.planner import over_rows, run
from bridge.patterns.rows import SortedRows, arrow_columns
from bridge.patterns.task import Task
from bridge.query.row_pattern import RowPattern
from nfa.arrays.matches import Found, selected
from nfa.program import AnchorEnd, AnchorStart, Program
from windows.databases import Database
from windows.sql import column


def can(clause: RowPattern, conditions: Sequence[Condition], program: Program, ahead: int) -> bool:
    """Whether many rows can be taken at once: what is open must not tell where its partition begins, nor read on."""
    anchored = any(isinstance(line, AnchorStart | AnchorEnd) for line in program.instructions)
    return not ahead and not anchored and can_tell(clause, conditions)


@dataclasses.dataclass(frozen=True)
class Bulk:
    """What `asked` is answered by, in place of its machine."""

    asked: Continuous

    def run(self, database: Database, now: int, last: int | None = None) -> int:
        """Tells what the rows at hand and the time decide, and moves the partitions on; how many rows are still needed.

        `last`: the `seq` of the last event of all; then what is open is decided, too, in the order of the first rows.
        Raises QueryError or ExhaustedError where the machine has to do it; then nothing has been done.
        """
        names = [key.name for key in self.asked.clause.partition_by]
        width = len(names)
        rows = arrow_columns(database, self.asked.texts.kept, width + 4 + len(self.asked.expressions))
        stands = arrow_columns(database, self.asked.texts.places, width + 7)
        parts = Parts.of(rows, stands, width)
        keys, letters, values = parts.rows[:width], parts.rows[width + 3], parts.rows[width + 4 :]
        known = dict(zip(self.asked.expressions, values, strict=True))
        held = Held(database, parts.ends, known, dict(zip(names, keys, strict=True)))
        task = self._task(held, parts, _ints(letters))
        found = run(task, over_rows(task).strategy)
        searches = searched(task, found, parts.ts, now)
        told = searches.told_of(found)
        decided = np.flatnonzero((told.how != AT_THE_END) | (last is not None))
        if len(decided):
            self._write(task, parts, found, told, decided, last or 0)
        return self._advance(database, parts, keys, searches.open, found.starts[decided])

    def _task(self, held: Held, parts: Parts, letters: Ints) -> Task:
        clause = dataclasses.replace(self.asked.clause, order_by=(exp.Ordered(this=column("ts")),))
        task = Task(held, clause, self.asked.conditions, self.asked.program)
        held.know(column("ts"), pa.array(parts.ts))
        held.know(task.letter, pa.array(np.where(parts.behind, 0, letters)))  # what is only looked back at is no symbol
        return task

    def _write(self, task: Task, parts: Parts, found: Found, told: Decided, decided: Ints, last: int) -> None:
        """Adds the results of the matches that are decided, in the order in which they became known."""
        numbers = match_numbers(found.starts, parts.ends)[decided]
        found, told = selected(found, decided), told.of(decided)
        members = Members(found, self.asked.program, parts.ends)
        members.numbers = numbers + parts.matches[parts.number(found.starts)]
        which = shown(members, self.asked.clause.per_match, len(parts.ts))
        turn, seq = _turns(parts, found, told, last)
        which = which.taken(np.argsort(turn[which.match], kind="stable"))
        ts, seq = told.time[which.match], seq[which.match]
        table = self.asked.results(task.database, task.rows, members, which, ts, seq)
        task.database.append(self.asked.texts.result_table, table)

    def _advance(self, database: Database, parts: Parts, keys: list[Array], open_ones: Ints, told: Ints) -> int:
        """Notes where the partitions stand that went on; the rows that they have behind them are purged some time."""
        starts = parts.ends.copy()
        of, first = np.unique(parts.number(open_ones), return_index=True)
        starts[of] = open_ones[first]
        needed = np.maximum(starts - self.asked.behind, parts.firsts)
        moved = np.flatnonzero((needed > parts.firsts) | (starts > parts.starts))
        if len(moved):
            last = [
                np.where(needed > parts.firsts, own[np.maximum(needed - 1, 0)], before)
                for own, before in zip(parts.moments, parts.passed, strict=True)
            ]
            matches = parts.matches + np.bincount(parts.number(told), minlength=len(starts))
            index = [parts.base + needed - parts.firsts, parts.base + starts - parts.firsts]
            lines = [own[moved] for own in (*last, *index, matches)]
            columns = [*(taken(key, parts.firsts[moved]) for key in keys), *map(pa.array, lines)]
            columns.append(pa.array(np.full(len(moved), parts.version + 1)))
            names = [f"c{place}" for place in range(len(columns))]
            database.append(self.asked.texts.place_table, pa.Table.from_arrays(columns, names=names))
        return int((parts.ends - needed).sum())


def _turns(parts: Parts, found: Found, told: Decided, last: int) -> tuple[Ints, Ints]:
    """The turn of each match among all that became known, and the `seq` of the row that decided it: 0 for time alone.

    What no row decides comes in the order of the matches' first rows.
    """
    by_row, count = told.how == BY_ROW, len(told.how)
    seq = np.where(by_row, parts.seq[told.row], np.where(told.how == AT_THE_END, last, 0))
    then = [np.where(by_row, own[told.row], own[found.starts]) for own in parts.moments]
    order = np.lexsort((np.arange(count), *reversed(then), seq, told.time))
    turn = np.empty(count, np.int64)
    turn[order] = np.arange(count)
    return turn, seq


class Held(SortedRows):
    """Rows at hand, by partition and time, of which only some expressions are known."""

    def __init__(
        self, database: Database, ends: Ints, known: Mapping[exp.Expr, Array], keys: Mapping[str, Array]
    ) -> None:
        self.database, self.ends = database, ends
        self._known, self._own_keys = dict(known), keys

    def know(self, expression: exp.Expr, values: Array) -> None:
        """Adds what is known."""
        self._known[expression] = values

    def columns(self, expressions: Sequence[exp.Expr]) -> list[Array]:
        """The values, row by row."""
        return [self._known[expression] for expression in expressions]

    def key(self, name: str, rows: Ints) -> Array:
        """The partitioning column's value for each of these rows."""
        return taken(self._own_keys[name], rows)


@dataclasses.dataclass(frozen=True)
class Parts:
    """The rows that are needed, partition by partition in the order of their moments, and where each partition stands.

    Of each partition: its `firsts` and `ends` among the rows; `base`, the index that its first row has among all it ever
    had; `starts`, the row under way as a start; `matches` so far; `passed`, the moment of the last row not needed.
    """

    rows: list[Array]
    moments: tuple[Ints, Ints, Ints]
    firsts: Ints
    ends: Ints
    base: Ints
    starts: Ints
    matches: Ints
    passed: list[Ints]
    version: int

    @staticmethod
    def of(rows: list[Array], stands: list[Array], width: int) -> Parts:
        """From the rows kept and the lines of the partitions, both with so many columns of keys before the others."""
        part, stand = _numbered(rows[:width], stands[:width], len(rows[0]), len(stands[0]))
        count = int(max(part.max(initial=-1), stand.max(initial=-1))) + 1
        lines = [_ints(values) for values in stands[width:]]
        passed = [np.full(count, value, np.int64) for value in BEGINNING]
        base, start, matches = (np.zeros(count, np.int64) for _ in range(3))
        for own, line in zip((*passed, base, start, matches), lines, strict=False):
            own[stand] = line
        moments = [_ints(values) for values in rows[width : width + 3]]
        needed = np.flatnonzero(_is_later(moments, [own[part] for own in passed]))
        order = needed[np.lexsort((*(own[needed] for own in reversed(moments)), part[needed]))]
        ends = np.cumsum(np.bincount(part[order], minlength=count))
        firsts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[:count]
        ts, seq, place = (own[order] for own in moments)
        sorted_rows = [taken(values, order) for values in rows]
        version = int(lines[-1].max(initial=0))
        return Parts(sorted_rows, (ts, seq, place), firsts, ends, base, firsts + start - base, matches, passed, version)

    @property
    def ts(self) -> Ints:
        return self.moments[0]

    @property
    def seq(self) -> Ints:
        return self.moments[1]

    @property
    def behind(self) -> Bools:
        """Whether a row stands before the start: it is only looked back at."""
        return np.arange(len(self.ts)) < np.repeat(self.starts, self.ends - self.firsts)

    def number(self, rows: Ints) -> Ints:
        """The partition of each of these rows."""
        return np.searchsorted(self.ends, rows, side="right")


def _numbered(rows: list[Array], stands: list[Array], count: int, lines: int) -> tuple[Ints, Ints]:
    """A number for each key: of the rows, and of the partitions' lines."""
    total = np.zeros(count + lines, np.int64)
    for mine, theirs in zip(rows, stands, strict=True):
        codes, kinds = _coded(_joined(mine, theirs))
        total = np.unique(total * kinds + codes, return_inverse=True)[1].astype(np.int64)
    return total[:count], total[count:]


def _coded(values: Array) -> tuple[Ints, int]:
    """A number below the second one for each value; NULLs are alike, and so are 0.0 and -0.0."""
    same = pc.add(values, 0.0) if pa.types.is_floating(values.type) else values
    encoded = same.dictionary_encode("encode")
    return np.asarray(encoded.indices, np.int64), max(len(encoded.dictionary), 1)


def _joined(mine: Array, theirs: Array) -> Array:
    if mine.type == theirs.type:
        return pa.concat_arrays([mine, theirs])
    return pa.array([*mine.to_pylist(), *theirs.to_pylist()])


def _is_later(moments: Iterable[Ints], than: Iterable[Ints]) -> Bools:
    """Whether each moment is after another one."""
    pairs = list(zip(moments, than, strict=True))
    return functools.reduce(
        lambda later, pair: (pair[0] > pair[1]) | ((pair[0] == pair[1]) & later),
        reversed(pairs),
        np.zeros(len(pairs[0][0]), np.bool_),
    )


def _ints(values: Array) -> Ints:
    return np.asarray(values.cast(pa.int64()), np.int64)
