"""Patterns of few ways, each of a fixed length: every row of a way lies at a known distance from the first.

The ways are written out in the order of preference. A condition then reads rows at known distances whatever it reads,
so each way is asked about for all rows at once: first what is about the rows alone, then the rest where that holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from bridge.recognize.arrow import Ints
from bridge.recognize.conditions import Condition, Grade
from bridge.recognize.strategies.starts import Rest
from bridge.recognize.task import Task
from bridge.recognize.values import Place, Value
from nfa.arrays.matches import Codes, Found, offsets, partitions
from nfa.arrays.skip_chain import chain, check_result
from nfa.errors import BudgetError
from nfa.pattern import (
    Alternation,
    Concatenation,
    Empty,
    Exclusion,
    Pattern,
    Permutation,
    Quantified,
    Symbol,
    length_bounds,
    nullable,
    symbols,
)
from nfa.program import permuted, program_length
from nfa.skip import past_last_row, to_next_row
from nfa.transitions import Closures

MOST_WAYS = 12
"""Ways of one pattern; more are left to the automata."""

FEW_WAYS = 3
"""Up to so many ways it is faster than an automaton."""

MOST_ROWS = 60
"""Rows of all ways together: each is a look at all rows, and an automaton looks at them all once."""

LONGEST_PROGRAM = 1_000
"""Instructions of a pattern whose ways are counted at all."""

AT_ONCE = 1 << 20
"""Rows that are asked about together."""

Way: TypeAlias = tuple[tuple[str, bool], ...]
"""The symbols of a match, each with whether it stands in `{- -}`."""


def ways(pattern: Pattern) -> tuple[Way, ...] | None:
    """The ways to match in the order of preference; None for a pattern of more, of longer or of empty ones.

    >>> from nfa import parse_pattern
    >>> def told(text):
    ...     return ["".join(name for name, _ in way) for way in ways(parse_pattern(text)) or ()]
    >>> told("A B{1,2}? (C | D)"), told("A B*"), told("(A | B C)?? D")
    (['ABC', 'ABD', 'ABBC', 'ABBD'], [], ['D', 'AD', 'BCD'])
    """
    most = length_bounds(pattern)[1]
    if nullable(pattern) or most is None or most > MOST_ROWS or program_length(pattern) > LONGEST_PROGRAM:
        return None
    try:
        found = tuple(itertools.islice(_ways(pattern, False), MOST_WAYS + 1))
    except BudgetError:
        return None
    return found if len(found) <= MOST_WAYS and sum(map(len, found)) <= MOST_ROWS else None


def _ways(pattern: Pattern, excluded: bool) -> Iterator[Way]:
    match pattern:
        case Symbol(name):
            yield ((name, excluded),)
        case Empty():
            yield ()
        case Concatenation(parts):
            yield from _in_turn(parts, excluded)
        case Alternation(parts):
            for part in parts:
                yield from _ways(part, excluded)
        case Permutation():
            yield from _ways(permuted(pattern), excluded)
        case Exclusion(part):
            yield from _ways(part, True)
        case Quantified() if not nullable(pattern.part):
            yield from _repeated(pattern, excluded, 0)
        case _:
            raise BudgetError("an anchor, or a repetition of what can be empty")


def _in_turn(parts: Sequence[Pattern], excluded: bool) -> Iterator[Way]:
    if not parts:
        yield ()
        return
    for first in _ways(parts[0], excluded):
        for rest in _in_turn(parts[1:], excluded):
            yield first + rest


def _repeated(pattern: Quantified, excluded: bool, done: int) -> Iterator[Way]:
    """Greedy: once more before enough; reluctant: the other way round."""
    enough = done >= pattern.least
    if enough and not pattern.greedy:
        yield ()
    if pattern.most is None or done < pattern.most:
        for first in _ways(pattern.part, excluded):
            for rest in _repeated(pattern, excluded, done + 1):
                yield first + rest
    if enough and pattern.greedy:
        yield ()


def distance_in(place: Place, names: Sequence[str]) -> int | None:
    """How far from the first row a place lies when these symbols have been taken; None if there is no such row.

    >>> distance_in(Place(("A",)), "ABA"), distance_in(Place(first=True, offset=1), "ABA"), distance_in(Place(("C",)), "AB")
    (2, 1, None)
    """
    found = [n for n, name in enumerate(names) if place.symbols is None or name in place.symbols]
    if place.offset >= len(found):
        return None
    return found[place.offset] if place.first else found[-1 - place.offset]


def fits(task: Task) -> bool:
    """Whether the strategy can answer."""
    return _reads_values(task.conditions) and ways(task.clause.pattern) is not None


def pays(task: Task) -> bool:
    """Whether it is the fastest: with many ways only where the others would have to go row by row."""
    if not fits(task):
        return False
    run = any(condition.grade is Grade.RUN for condition in task.conditions)
    return run or len(ways(task.clause.pattern) or ()) <= FEW_WAYS


def _reads_values(conditions: Sequence[Condition]) -> bool:
    return all(isinstance(atom, Value) for c in conditions if c.rest for atom in c.rest.atoms)


def find(task: Task) -> Found:
    """The matches; BudgetError where the pattern has no few ways."""
    if not fits(task):
        raise BudgetError("the pattern has no few ways of fixed length, or a condition reads more than values")
    engine = Offsets(task)
    starts = np.flatnonzero(engine.way >= 0)
    ends, _ = engine.ends(starts, patient=True)
    if task.skip is to_next_row or (task.skip is past_last_row and not (starts[1:] < ends[:-1]).any()):
        check_result(int((ends - starts).sum()))
        return Found(starts, ends - starts, engine.codes(starts, ends))
    return chain(engine, starts, task.skip)


class Offsets:
    """The engine (`nfa.arrays.skip_chain.Engine`): for each row the preferred one of the ways that match from it; -1 for none."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.closures = Closures(task.program)
        self.firsts, _ = partitions(task.ends)
        self.ways = ways(task.clause.pattern) or ()
        self.lengths = np.array([len(way) for way in self.ways])
        self._bits = {name: place for place, name in enumerate(symbols(task.clause.pattern))}
        self._rests = {c.symbol: Rest(c, task) for c in task.conditions if c.rest is not None}
        self.way = np.full(len(task.letters), -1, np.int8)
        for number, way in enumerate(self.ways):
            alone = self._alone([name for name, _ in way])
            for first in range(0, len(alone), AT_ONCE):
                self.way[self._held(way, alone[first : first + AT_ONCE])] = number

    def ends(self, starts: Ints, patient: bool) -> tuple[Ints, Ints]:
        """The end of the match from each start, -1 if there is none; they are known already."""
        found = np.where(self.way[starts] < 0, -1, starts + self.lengths[self.way[starts]])
        return found, np.zeros(len(starts), np.int64)

    def codes(self, starts: Ints, ends: Ints) -> Codes:
        """The codes of the matches from these starts."""
        numbers = np.array([self.task.numbers[member] for way in self.ways for member in way], np.int32)
        lengths = ends - starts
        firsts = offsets(self.lengths)[:-1][self.way[starts]]
        return numbers[np.arange(int(lengths.sum())) + np.repeat(firsts - offsets(lengths)[:-1], lengths)]

    def _alone(self, names: Sequence[str]) -> Ints:
        """Where a way can begin that no way before it matches from, by what is about the rows alone, and in time."""
        letters, bit = self.task.letters, self.task.letters.dtype.type
        count = max(len(letters) - len(names) + 1, 0)
        can = self.way[:count] < 0
        for distance, name in enumerate(names):
            can &= (letters[distance : distance + count] & bit(1 << self._bits[name])) != 0
        return self._in_time(np.flatnonzero(can), len(names))

    def _in_time(self, starts: Ints, length: int) -> Ints:
        """Those with so many rows in their partition and in time."""
        ends, times = self.task.ends, self.task.times if self.task.within is not None else None
        starts = starts[ends[np.searchsorted(ends, starts, "right")] >= starts + length]
        if times is None or self.task.within is None:
            return starts
        return starts[times[starts + length - 1] - times[starts] < self.task.within]

    def _held(self, way: Way, starts: Ints) -> Ints:
        """Those of which what is more than about one row holds, too."""
        names = [name for name, _ in way]
        for distance, name in enumerate(names):
            if rest := self._rests.get(name):
                found = [distance_in(value.place, names[: distance + 1]) for value in rest.values]
                places = [np.full(len(starts), -1) if there is None else starts + there for there in found]
                starts = starts[rest.holds(places, len(starts))]
        return starts
