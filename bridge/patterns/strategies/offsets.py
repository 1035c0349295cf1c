"""Patterns with few alternatives of fixed lengths, so that each of their rows is at a known distance from the first.

The alternatives are listed in order of preference. All rows that their conditions read are at known distances, so each
alternative is tested for all rows at once: first the conditions on single rows, then the others where these hold.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge.patterns.arrays import Array, Ints, take
from bridge.patterns.conditions import Condition, Grade
from bridge.patterns.members import match_numbers
from bridge.patterns.strategies.starts import MatchCondition
from bridge.patterns.task import Task
from bridge.patterns.values import (
    Atom,
    Classifier,
    MatchAggregate,
    MatchExpression,
    MatchNumber,
    Place,
    Value,
    shift_of,
    shifted,
)
from bridge.query.row_pattern import PerMatch
from nfa.arrays.deadlines import elapsed
from nfa.arrays.matches import Codes, Matches, offsets, partitions
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
from nfa.threads.transitions import Transitions
from windows.sql import column

MOST_ALTERNATIVES = 12
"""The greatest number of alternatives; patterns with more are left to the automata."""

FEW_ALTERNATIVES = 3
"""The greatest number of alternatives for which it is faster than an automaton."""

MOST_ROWS = 60
"""The greatest number of rows in all alternatives: each costs one pass, an automaton one pass in total."""

LONGEST_PROGRAM = 1_000
"""The greatest number of instructions in a pattern whose alternatives are listed."""

AT_ONCE = 1 << 20
"""The number of rows that are tested together."""

Alternative: TypeAlias = tuple[tuple[str, bool], ...]
"""The symbols of a match, each with whether it is inside `{- -}`."""


def alternatives(pattern: Pattern) -> tuple[Alternative, ...] | None:
    """The alternatives of a pattern in order of preference; None if there are too many, too long or empty ones.

    >>> from nfa import parse_pattern
    >>> def offsets_of(text):
    ...     return ["".join(name for name, _ in alternative) for alternative in alternatives(parse_pattern(text)) or ()]
    >>> offsets_of("A B{1,2}? (C | D)"), offsets_of("A B*"), offsets_of("(A | B C)?? D")
    (['ABC', 'ABD', 'ABBC', 'ABBD'], [], ['D', 'AD', 'BCD'])
    """
    most = length_bounds(pattern)[1]
    if nullable(pattern) or most is None or most > MOST_ROWS or program_length(pattern) > LONGEST_PROGRAM:
        return None
    try:
        found = tuple(itertools.islice(_alternatives(pattern, False), MOST_ALTERNATIVES + 1))
    except BudgetError:
        return None
    return found if len(found) <= MOST_ALTERNATIVES and sum(map(len, found)) <= MOST_ROWS else None


def _alternatives(pattern: Pattern, excluded: bool) -> Iterator[Alternative]:
    match pattern:
        case Symbol(name):
            yield ((name, excluded),)
        case Empty():
            yield ()
        case Concatenation(parts):
            yield from _in_turn(parts, excluded)
        case Alternation(parts):
            for part in parts:
                yield from _alternatives(part, excluded)
        case Permutation():
            yield from _alternatives(permuted(pattern), excluded)
        case Exclusion(part):
            yield from _alternatives(part, True)
        case Quantified() if not nullable(pattern.part):
            yield from _repeated(pattern, excluded, 0)
        case _:
            raise BudgetError("an anchor, or a repetition of what can be empty")


def _in_turn(parts: Sequence[Pattern], excluded: bool) -> Iterator[Alternative]:
    if not parts:
        yield ()
        return
    for first in _alternatives(parts[0], excluded):
        for rest in _in_turn(parts[1:], excluded):
            yield first + rest


def _repeated(pattern: Quantified, excluded: bool, done: int) -> Iterator[Alternative]:
    """Greedy: another repetition before stopping; reluctant: the reverse."""
    enough = done >= pattern.least
    if enough and not pattern.greedy:
        yield ()
    if pattern.most is None or done < pattern.most:
        for first in _alternatives(pattern.part, excluded):
            for rest in _repeated(pattern, excluded, done + 1):
                yield first + rest
    if enough and pattern.greedy:
        yield ()


def distance_in(place: Place, names: Sequence[str]) -> int | None:
    """The distance of a place from the first row after these symbols were taken; None if there is no such row.

    >>> distance_in(Place(("A",)), "ABA"), distance_in(Place(first=True, offset=1), "ABA"), distance_in(Place(("C",)), "AB")
    (2, 1, None)
    """
    found = [n for n, name in enumerate(names) if place.symbols is None or name in place.symbols]
    if place.offset >= len(found):
        return None
    return found[place.offset] if place.first else found[-1 - place.offset]


def fits(task: Task) -> bool:
    """Whether the strategy supports the clause."""
    return _reads_values(task.conditions) and alternatives(task.clause.pattern) is not None


def pays(task: Task) -> bool:
    """Whether it is the fastest; with many alternatives, only if the others would have to go row by row."""
    if not fits(task):
        return False
    run = any(condition.grade is Grade.RUN for condition in task.conditions)
    return run or len(alternatives(task.clause.pattern) or ()) <= FEW_ALTERNATIVES


def _reads_values(conditions: Sequence[Condition]) -> bool:
    return all(isinstance(atom, Value) for c in conditions if c.rest for atom in c.rest.atoms)


def find(task: Task) -> Matches:
    """The matches; raises BudgetError if the pattern has too many alternatives."""
    if not fits(task):
        raise BudgetError("the pattern has no few ways of fixed length, or a condition reads more than values")
    engine = OffsetSearch(task)
    starts = np.flatnonzero(engine.alternative >= 0)
    ends, _ = engine.ends(starts, patient=True)
    if task.skip is to_next_row or (task.skip is past_last_row and not (starts[1:] < ends[:-1]).any()):
        check_result(int((ends - starts).sum()))
        return Matches(starts, ends - starts, engine.codes(starts, ends))
    return chain(engine, starts, task.skip)


class OffsetSearch:
    """An engine of `nfa.arrays.skip_chain`.

    `alternative`: per row the preferred alternative that matches from it, or -1.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.transitions = Transitions(task.program)
        self.firsts, _ = partitions(task.ends)
        self.alternatives = alternatives(task.clause.pattern) or ()
        self.lengths = np.array([len(alternative) for alternative in self.alternatives])
        self._bits = {name: place for place, name in enumerate(symbols(task.clause.pattern))}
        self._rests = {c.symbol: MatchCondition(c, task) for c in task.conditions if c.rest is not None}
        self.alternative = np.full(len(task.symbol_sets), -1, np.int8)
        for number, alternative in enumerate(self.alternatives):
            alone = self._alone([name for name, _ in alternative])
            for first in range(0, len(alone), AT_ONCE):
                self.alternative[self._where_all_hold(alternative, alone[first : first + AT_ONCE])] = number

    def ends(self, starts: Ints, patient: bool) -> tuple[Ints, Ints]:
        """The end of the match from each start, -1 if there is none; they are computed already."""
        found = np.where(self.alternative[starts] < 0, -1, starts + self.lengths[self.alternative[starts]])
        return found, np.zeros(len(starts), np.int64)

    def codes(self, starts: Ints, ends: Ints) -> Codes:
        """The codes of the matches from these starts."""
        numbers = np.array(
            [self.task.numbers[member] for alternative in self.alternatives for member in alternative], np.int32
        )
        lengths = ends - starts
        firsts = offsets(self.lengths)[:-1][self.alternative[starts]]
        return numbers[np.arange(int(lengths.sum())) + np.repeat(firsts - offsets(lengths)[:-1], lengths)]

    def _alone(self, names: Sequence[str]) -> Ints:
        """The rows at which an alternative, but no preferred one, can begin, by values of single rows and by time."""
        symbol_sets, bit = self.task.symbol_sets, self.task.symbol_sets.dtype.type
        count = max(len(symbol_sets) - len(names) + 1, 0)
        can = self.alternative[:count] < 0
        for distance, name in enumerate(names):
            can &= (symbol_sets[distance : distance + count] & bit(1 << self._bits[name])) != 0
        return self._in_time(np.flatnonzero(can), len(names))

    def _in_time(self, starts: Ints, length: int) -> Ints:
        """The starts that have `length` rows in their partition and within the time."""
        ends, times = self.task.ends, self.task.times if self.task.within is not None else None
        starts = starts[ends[np.searchsorted(ends, starts, "right")] >= starts + length]
        if times is None or self.task.within is None:
            return starts
        return starts[elapsed(times[starts], times[starts + length - 1]) < self.task.within]

    def _where_all_hold(self, alternative: Alternative, starts: Ints) -> Ints:
        """The starts for which the conditions on more than one row hold, too."""
        names = [name for name, _ in alternative]
        for distance, name in enumerate(names):
            if rest := self._rests.get(name):
                found = [distance_in(value.place, names[: distance + 1]) for value in rest.values]
                places = [np.full(len(starts), -1) if there is None else starts + there for there in found]
                starts = starts[rest.holds(places, len(starts))]
        return starts


# One output row per match of a pattern of one fixed length: conditions and measures in one statement over the rows


class DistanceColumns:
    """The columns that represent values of rows at a distance from the first row."""

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

    def computed(self, match_expression: MatchExpression, taken_by_now: int) -> exp.Expr:
        """An expression over values of the match's first rows."""
        atoms = {f"_v{number}": self._atom(atom, taken_by_now) for number, atom in enumerate(match_expression.atoms)}

        def put(node: exp.Expr) -> exp.Expr:
            return atoms[node.name].copy() if isinstance(node, exp.Column) else node

        return exp.Paren(this=match_expression.expression.transform(put))

    def _atom(self, atom: Atom, taken_by_now: int) -> exp.Expr:
        assert isinstance(atom, (Value, Classifier))
        distance = distance_in(atom.place, self.names[:taken_by_now])
        if isinstance(atom, Value):
            # A missing row gives a NULL of the value's type.
            return (
                exp.Case().when(exp.false(), self.at(0, atom.row)) if distance is None else self.at(distance, atom.row)
            )
        there = -1 if distance is None else distance + atom.shift
        return exp.Literal.string(self.names[there]) if 0 <= there < len(self.names) else exp.cast(exp.null(), "text")


def evaluate_clause(task: Task, measures: Sequence[MatchExpression]) -> tuple[pa.Table, int] | None:
    """The output of the clause, computed by one statement, with its number of rows.

    None if no statement can express it.
    """
    found = alternatives(task.clause.pattern) if fits(task) and _is_plain(task, measures) else None
    if found is None or len(found) != 1:
        return None
    names = [name for name, _ in found[0]]
    step = _step(task, names)
    if step is None:
        return None
    columns = DistanceColumns(names)
    condition = _condition(task, columns)
    computed = [columns.computed(m, len(names)) for m in measures if not isinstance(m.only, MatchNumber)]
    rows, *shown = task.rows.where(condition, list(columns.values), computed)
    return _table(task, measures, np.asarray(rows).astype(np.int64), shown, step)


def _is_plain(task: Task, measures: Sequence[MatchExpression]) -> bool:
    atoms = [(atom, m.only) for m in measures for atom in m.atoms]
    is_known = all(
        only is atom if isinstance(atom, MatchNumber) else not isinstance(atom, MatchAggregate) for atom, only in atoms
    )
    nested = any(_is_nested(atom.row) for atom, _ in atoms if isinstance(atom, Value))
    return is_known and not nested and task.clause.per_match is PerMatch.ONE_ROW and task.clause.within is None


def _is_nested(row: exp.Expr) -> bool:
    """Whether a row expression reads a row from a row that is itself read from another."""
    calls = [node for node in row.walk() if shift_of(node) is not None]
    return any(inner is not call for call in calls for inner in call.walk() if shift_of(inner) is not None)


def _step(task: Task, names: Sequence[str]) -> int | None:
    """How many rows after a match's first row the next match can begin; None if there is no such row (rule S3)."""
    skip = task.clause.skip
    if skip.to in ("PAST LAST ROW", "TO NEXT ROW"):
        return len(names) if skip.to == "PAST LAST ROW" else 1
    wanted = task.clause.symbols_of(skip.variable or "")
    places = [place for place, name in enumerate(names) if name in wanted]
    return (places[0 if skip.to == "TO FIRST" else -1] or None) if places else None


def _condition(task: Task, columns: DistanceColumns) -> exp.Expr:
    """The condition that all rows exist and each matches its symbol."""
    by_symbol = {condition.symbol: condition for condition in task.conditions}
    parts: list[exp.Expr] = []
    for distance, name in enumerate(columns.names):
        wanted = by_symbol[name]
        parts += [columns.at(distance, wanted.row)] if wanted.row is not None else []
        parts += [columns.computed(wanted.rest, distance + 1)] if wanted.rest is not None else []
    last = columns.values.setdefault(shifted(exp.Literal.number(1), len(columns.names) - 1), f"_w{len(columns.values)}")
    there: exp.Expr = exp.Not(this=exp.Is(this=column(last), expression=exp.null()))
    return functools.reduce(lambda one, other: exp.And(this=one, expression=other), parts, there)


def _table(
    task: Task, measures: Sequence[MatchExpression], rows: Ints, outputs: Sequence[Array], step: int
) -> tuple[pa.Table, int]:
    kept = _non_overlapping(rows, step)
    if len(kept) < len(rows):
        rows, outputs = rows[kept], [take(array, kept) for array in outputs]
    given = iter(outputs)
    computed = [
        pa.array(match_numbers(rows, task.ends)) if isinstance(m.only, MatchNumber) else next(given) for m in measures
    ]
    keys = [key.name for key in task.clause.partition_by]
    columns = [*(task.rows.key(key, rows) for key in keys), *computed]
    output = pa.Table.from_arrays(columns, names=[*keys, *(m.alias for m in task.clause.measures)])
    return output, len(rows)


def _non_overlapping(rows: Ints, step: int) -> Ints:
    """The places of the matches that are found if each search begins `step` rows after the previous match.

    >>> _non_overlapping(np.array([0, 1, 2, 5, 7, 8]), 3).tolist()
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
