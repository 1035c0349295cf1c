"""The times at which the matches of a bounded history would have been decided, had its rows come one by one (rule S4).

A match is decided when no later row can change it or a match before it, so it waits for every search that began before
its own. The rows that a search has read determine when it ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bridge.patterns.arrays import Bools, Ints
from bridge.patterns.conditions import Condition, Grade, reads_match_number
from bridge.patterns.strategies.starts import candidates, symbol_sets_at
from bridge.patterns.task import Task
from bridge.query.row_pattern import PerMatch, RowPattern
from nfa.arrays.many_starts import StartSearch
from nfa.arrays.matches import Matches, partitions
from nfa.errors import ExhaustedError
from nfa.pattern import length_bounds
from nfa.skip import to_next_row

SEARCHES_AT_ONCE = 1 << 16
"""The number of searches that advance together."""

LOOKS_PER_ROW = 256
"""The average number of reads per row at which the machine would be as fast."""

BY_ROW, BY_TIME, AT_THE_END = 0, 1, 2
"""The causes that may decide a match: a row, time alone, or the end of the stream."""


class Decisions(NamedTuple):
    """The cause that decided each match (`how`), the row that did (else -1), and the time (ms)."""

    how: Ints
    row: Ints
    time: Ints

    def of(self, which: Ints) -> Decisions:
        """The decisions at these places."""
        return Decisions(self.how[which], self.row[which], self.time[which])


class Searches(NamedTuple):
    """The searches for matches: the row at which each began, and the event that ended it and all earlier ones.

    `leads`: whether no earlier search lasted longer, so that decisions from here on do not depend on earlier ones.
    """

    starts: Ints
    decisions: Decisions
    leads: Bools

    def decisions_of(self, found: Matches) -> Decisions:
        """The decisions of the matches that the searches found."""
        return self.decisions.of(np.searchsorted(self.starts, found.starts))

    @property
    def open(self) -> Ints:
        """The starts of the searches that are still open."""
        open_starts: Ints = self.starts[self.decisions.how == AT_THE_END]
        return open_starts


def has_decision_times(clause: RowPattern, conditions: Sequence[Condition]) -> bool:
    """Whether `decision_times` supports the clause: conditions read rows at known distances from the start."""
    if clause.timed_out or clause.absent is not None or length_bounds(clause.pattern)[0] == 0:
        return False
    if clause.per_match is PerMatch.WITH_UNMATCHED:
        return False
    grade = max((condition.grade for condition in conditions), default=Grade.ROW)
    known_skip = clause.skip.to in ("PAST LAST ROW", "TO NEXT ROW")
    return known_skip and grade is not Grade.RUN and not reads_match_number(conditions)


def decision_times(task: Task, found: Matches, times: Ints, now: int) -> Searches:
    """The searches that found the matches, over rows with these `times` (ms), where time passed up to `now`.

    Raises:
        ExhaustedError: they read so far that going row by row is as fast.
    """
    run = _SearchRun(task, times, now)
    starts = run.starts(found)
    steps, settled = run.search(starts)
    return run.searches(starts, steps, settled)


@dataclasses.dataclass
class _SearchRun:
    task: Task
    times: Ints
    now: int

    def __post_init__(self) -> None:
        self.firsts, self.partition_ends = partitions(self.task.ends)
        self.count = int(self.partition_ends[-1]) if len(self.partition_ends) else 0

    def starts(self, found: Matches) -> Ints:
        """The rows at which a search began, that is all rows not inside a match.

        Rows at which no match can begin are omitted: such a search ended with its own row, before all later searches.
        """
        possible = candidates(self.task)
        if self.task.skip is to_next_row:
            return np.arange(self.count) if possible is None else possible
        inside = np.zeros(self.count + 1, np.int64)
        longer = found.lengths > 1
        inside[found.starts[longer] + 1] += 1
        np.subtract.at(inside, (found.starts + found.lengths)[longer], 1)
        outside = np.cumsum(inside)[:-1] == 0
        return np.flatnonzero(outside) if possible is None else possible[outside[possible]]

    def search(self, starts: Ints) -> tuple[Ints, Bools]:
        """The number of rows that each search read, and whether no later row mattered to it."""
        search = StartSearch(self.task.program, symbol_sets_at(self.task), self.task.ends, self.task.limits)
        several, looked, at = [], 0, 0
        while at < len(starts):
            found = search.visits(starts[at : at + SEARCHES_AT_ONCE])
            several.append(found)
            at += len(found[0])
            looked += int(found[0].sum())
            if looked > LOOKS_PER_ROW * (self.count + SEARCHES_AT_ONCE):
                raise ExhaustedError("searches look at too many rows")
        steps, settled = zip(*several, strict=True) if several else ((np.zeros(0, np.int64),), (np.zeros(0, bool),))
        return np.concatenate(steps), np.concatenate(settled)

    def searches(self, starts: Ints, steps: Ints, settled: Bools) -> Searches:
        """The searches with the times at which each of them, and all earlier ones of its partition, ended."""
        counts = np.diff(np.searchsorted(starts, self.partition_ends), prepend=0)
        ends = np.repeat(self.partition_ends, counts)
        row = starts + steps - 1
        how = np.where(settled, BY_ROW, AT_THE_END)
        time = np.where(settled, self.times[row], self.now)
        key = np.where(settled, 4 * row + 2, 4 * ends + 1)
        within = self.task.clause.within
        if within is not None:
            deadline = self.times[starts] + within
            late = ~settled & (deadline <= self.now)
            how[late], time[late] = BY_TIME, deadline[late]
            key[late] = 4 * (starts + steps)[late]  # before the first row that is too late
        newest = np.maximum.accumulate(key) if len(key) else key
        leads = key >= newest
        last = np.maximum.accumulate(np.where(leads, np.arange(len(key)), 0)) if len(key) else key
        return Searches(starts, Decisions(how[last], np.where(how == BY_ROW, row, -1)[last], time[last]), leads)
