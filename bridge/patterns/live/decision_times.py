"""When each match of a bounded history would have been decided, had its rows come one by one (rule S4).

A match is known when nothing that may still come can change it, nor the matches before it: so it has to wait for every
search that began before its own. What a search looked at tells when it ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bridge.patterns.arrays import Bools, Ints
from bridge.patterns.conditions import Condition, Grade, asks_match_number
from bridge.patterns.strategies import starts
from bridge.patterns.task import Task
from bridge.query.row_pattern import PerMatch, RowPattern
from nfa.arrays.many_starts import Lanes
from nfa.arrays.matches import Found, partitions
from nfa.errors import ExhaustedError
from nfa.pattern import length_bounds
from nfa.skip import to_next_row

AT_ONCE = 1 << 16
"""So many searches go on together."""

LOOKS_A_ROW = 256
"""Searches may look at so many times as many rows as there are."""

BY_ROW, BY_TIME, AT_THE_END = 0, 1, 2
"""What decided a match: a row, time alone, or that nothing came any more."""


class Decided(NamedTuple):
    """Of each match: what decided it, the row that did (else -1), and the time then."""

    how: Ints
    row: Ints
    time: Ints

    def of(self, which: Ints) -> Decided:
        """Those of some."""
        return Decided(self.how[which], self.row[which], self.time[which])


class Searches(NamedTuple):
    """The searches for matches: the rows at which they began, and when each, and all before it, had ended.

    `leads` tells of each whether none before it went on for longer: what is decided from there on, is so by itself.
    """

    begun: Ints
    told: Decided
    leads: Bools

    def told_of(self, found: Found) -> Decided:
        """Of the matches that they found."""
        return self.told.of(np.searchsorted(self.begun, found.starts))

    @property
    def open(self) -> Ints:
        """The rows at which those began that go on."""
        found: Ints = self.begun[self.told.how == AT_THE_END]
        return found


def can_tell(clause: RowPattern, conditions: Sequence[Condition]) -> bool:
    """Whether it can be told when matches were decided: conditions about the row, or rows at known distances."""
    if clause.timed_out or clause.absent is not None or length_bounds(clause.pattern)[0] == 0:
        return False
    if clause.per_match is PerMatch.WITH_UNMATCHED:
        return False
    grade = max((condition.grade for condition in conditions), default=Grade.ROW)
    known_skip = clause.skip.to in ("PAST LAST ROW", "TO NEXT ROW")
    return known_skip and grade is not Grade.RUN and not asks_match_number(conditions)


def searched(task: Task, found: Found, times: Ints, now: int) -> Searches:
    """The searches over rows with these times in milliseconds, where time went on to `now`.

    Raises ExhaustedError where they look so far that going row by row is no slower.
    """
    search = _Search(task, times, now)
    begun = search.begun(found)
    steps, settled = search.run(begun)
    return search.told(begun, steps, settled)


@dataclasses.dataclass
class _Search:
    task: Task
    times: Ints
    now: int

    def __post_init__(self) -> None:
        self.firsts, self.partition_ends = partitions(self.task.ends)
        self.count = int(self.partition_ends[-1]) if len(self.partition_ends) else 0

    def begun(self, found: Found) -> Ints:
        """The rows at which a search began: all but those that a match before had taken."""
        if self.task.skip is to_next_row:
            return np.arange(self.count)
        inside = np.zeros(self.count + 1, np.int64)
        longer = found.lengths > 1
        inside[found.starts[longer] + 1] += 1
        np.subtract.at(inside, (found.starts + found.lengths)[longer], 1)
        return np.flatnonzero(np.cumsum(inside)[:-1] == 0)

    def run(self, begun: Ints) -> tuple[Ints, Bools]:
        """How many rows each search looked at, and whether it needed no more."""
        lanes = Lanes(self.task.program, starts.letters_at(self.task), self.task.ends, starts.limits(self.task))
        several, looked, at = [], 0, 0
        while at < len(begun):
            found = lanes.searched(begun[at : at + AT_ONCE])
            several.append(found)
            at += len(found[0])
            looked += int(found[0].sum())
            if looked > LOOKS_A_ROW * (self.count + AT_ONCE):
                raise ExhaustedError("searches look at too many rows")
        steps, settled = zip(*several, strict=True) if several else ((np.zeros(0, np.int64),), (np.zeros(0, bool),))
        return np.concatenate(steps), np.concatenate(settled)

    def told(self, begun: Ints, steps: Ints, settled: Bools) -> Searches:
        """When each of the searches ended, and all before it in its partition."""
        ends = self.partition_ends[np.searchsorted(self.partition_ends, begun, side="right")]
        row = begun + steps - 1
        how = np.where(settled, BY_ROW, AT_THE_END)
        time = np.where(settled, self.times[row], self.now)
        key = np.where(settled, 4 * row + 2, 4 * ends + 1)
        within = self.task.clause.within
        if within is not None:
            deadline = self.times[begun] + within
            late = ~settled & (deadline <= self.now)
            how[late], time[late] = BY_TIME, deadline[late]
            key[late] = 4 * (begun + steps)[late]  # before the row that is too late
        newest = np.maximum.accumulate(key) if len(key) else key
        leads = key >= newest
        last = np.maximum.accumulate(np.where(leads, np.arange(len(key)), 0)) if len(key) else key
        return Searches(begun, Decided(how[last], np.where(how == BY_ROW, row, -1)[last], time[last]), leads)
