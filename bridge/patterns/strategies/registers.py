"""Conditions on any rows of the match so far: a backtracking search is generated for them (generate.py).

The search first runs without memoization, which is fast and nearly always enough. If that takes too long, it continues
with memoization: each state is searched once for all paths that conditions cannot distinguish.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge.patterns.arrays import Array, Bools
from bridge.patterns.evaluate.exact import Bound, bound_of, compares_alike, has_nan, is_exact
from bridge.patterns.evaluate.printer import ARITHMETIC
from bridge.patterns.evaluate.python import HELPERS
from bridge.patterns.strategies import machine
from bridge.patterns.strategies.generate import Generator
from bridge.patterns.strategies.registers_code import UnknownExpression
from bridge.patterns.task import Task
from bridge.patterns.values import Atom, Classifier, MatchAggregate, MatchExpression, Value
from nfa.arrays.matches import Matches
from nfa.arrays.skip_chain import next_start
from nfa.arrays.two_pass import Scan
from nfa.errors import BudgetError, ExhaustedError
from nfa.program import MatchSymbol
from nfa.threads.transitions import Transitions

PATIENCE = 6
"""The number of visits per row after which the search memoizes failures."""

LONGEST_PROGRAM = 256
"""The greatest number of instructions, as the path has one byte per row."""

REMEMBERED = 4_000_000
"""The greatest number of additional row visits with memoization."""

STEPS = 300_000_000
"""The greatest number of row visits in total."""


def supports(task: Task) -> bool:
    """Whether the search can be generated for the conditions."""
    return generator_for(task) is not None


def generator_for(task: Task) -> Generator | None:
    """The generator of the search for the task's pattern and conditions; None if it does not support them."""
    if len(task.program.instructions) > LONGEST_PROGRAM:
        return None
    try:
        return Generator(Transitions(task.program), task)
    except (UnknownExpression, BudgetError):
        return None


def find(task: Task) -> Matches:
    """The matches; the plain machine finds them if Python cannot compare values of their types."""
    generator = generator_for(task)
    if generator is None or not all(_is_exact(c.rest, task) for c in task.conditions if c.rest is not None):
        return machine.find(task)
    try:
        return _Search(task, generator).matches()
    except TypeError:
        return machine.find(task)


def _is_exact(rest: MatchExpression, task: Task) -> bool:
    """Whether Python computes a condition as the database does; then its aggregates are exact."""
    atoms = [atom.row for atom in rest.atoms if isinstance(atom, Value)]
    totals = [atom.running for atom in rest.atoms if isinstance(atom, MatchAggregate)]
    atoms += [total[1] for total in totals if total is not None and total[1] is not None]
    columns = task.rows.columns(list(dict.fromkeys(atoms)))
    if any(map(has_nan, columns)) or not compares_alike(rest.expression, columns):
        return False
    if not any(isinstance(node, (*ARITHMETIC, exp.Neg)) for node in rest.expression.walk()):
        return True

    def bound(atom: Atom) -> Bound:
        if isinstance(atom, Value):
            return bound_of(task.rows.columns([atom.row])[0])
        return None if isinstance(atom, Classifier) else math.inf

    return is_exact(rest.expression, {f"_v{number}": bound(atom) for number, atom in enumerate(rest.atoms)})


def patience(rows: int) -> int:
    """The number of row visits, for this number of rows, after which the search memoizes failures."""
    return PATIENCE * rows + 100_000


class _Search:
    """The search over all partitions.

    After each partition there is a row without symbols, and rows are numbered with these.
    """

    def __init__(self, task: Task, generator: Generator) -> None:
        self.task, self.generator = task, generator
        firsts = np.concatenate([np.zeros(1, np.int64), task.ends[:-1]])[: len(task.ends)]
        places = np.arange(len(firsts))
        self.firsts, self.lasts = (firsts + places).tolist(), (task.ends + places).tolist()
        self.where = np.arange(int(task.ends[-1]) if len(task.ends) else 0)
        self.where = self.where + np.searchsorted(task.ends, self.where, "right")
        self.count = self.lasts[-1] + 1 if self.lasts else 0
        self.starts, self.lengths, self.codes = list[int](), list[int](), bytearray()
        self.code = bytearray(self.count)
        self.go_on = next_start(task.skip, generator.transitions)

    def matches(self) -> Matches:
        self.texts = {memo: self.generator.source(memo) for memo in (False, True)}
        names = self.names()
        start = self.run(False, names, 0, patience(self.count))
        if start < self.count:
            start = self.run(True, names, start, PATIENCE * self.count + REMEMBERED)
        if start < self.count:  # memoized failures do not recur, they only fill the memory
            start = self.run(False, names, start, STEPS)
        if start < self.count:
            raise ExhaustedError(
                f"the search for matches looked at more than {STEPS:,} rows: WITHIN, a narrower condition or a smaller "
                "partition bounds it"
            )
        starts = np.array(self.starts, np.int64)
        starts -= np.searchsorted(np.array(self.lasts, np.int64), starts, "right")
        return Matches(
            starts, np.array(self.lengths, np.int64), np.frombuffer(bytes(self.codes), np.uint8).astype(np.int32)
        )

    def run(self, memo: bool, names: dict[str, Any], start: int, budget: int) -> int:
        """Runs the search from a start; returns the start at which it gave up, or the number of rows."""
        scope = dict(names)
        if memo:
            seen = self.failure_memo()
            scope |= seen
            scope["forget"] = functools.partial(_forget, list(seen.values()))
        exec(_compiled(self.texts[memo]), scope)
        search: Callable[[int, int], int] = scope["search"]
        return search(start, budget)

    def names(self) -> dict[str, Any]:
        """The global names of the generated search."""
        generator, columns = self.generator, self.generator.register_code.columns
        arrays = self.task.rows.columns(list(columns))
        saved = [name for r in generator.saved for name in generator.register_code.locals(r)]
        return {
            **HELPERS,
            "__builtins__": {"divmod": divmod, "min": min, "max": max, "bytes": bytes, "float": float},
            "BudgetError": BudgetError,
            **{name: self.values(array) for name, array in zip(columns.values(), arrays, strict=True)},
            **{f"saved_{name}": [-1] * self.count for name in saved},
            **self.able(),
            **{name: getattr(self, name) for name in ("starts", "lengths", "codes", "code", "count")},
            "pad": self.spread(np.zeros(len(self.where), bool), 1),
            "limits": self.limits() if generator.within else None,
            "names": [line.name if isinstance(line, MatchSymbol) else None for line in generator.transitions.code],
            "partition": self.partition,
            "onward": self.next_start_after,
        }

    def able(self) -> dict[str, bytes]:
        """By symbol sets alone: the rows that each instruction can take, and the rows where a match can begin."""
        scan = Scan(self.task.program, self.task.symbol_sets, self.task.ends)
        begins = np.zeros(len(self.where), bool)
        begins[scan.candidates()] = True
        takes = {f"ok{number}": self.spread(scan.able(number)) for number in scan.transitions.bits}
        return {"begins": self.spread(begins), **takes}

    def spread(self, flags: Bools, behind: int = 0) -> bytes:
        """A byte for each row, including the rows after partitions."""
        found = np.full(self.count, behind, np.uint8)
        found[self.where] = flags
        return found.tobytes()

    def values(self, array: Array) -> list[Any]:
        """The values of a column; None for the rows after partitions."""
        plain = not array.null_count and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type))
        values: list[Any] = np.asarray(array).tolist() if plain else array.to_pylist()
        if len(self.lasts) == 1:
            return [*values, None]
        found: list[Any] = [None] * self.count
        for place, (first, last) in enumerate(zip(self.firsts, self.lasts, strict=True)):
            found[first:last] = values[first - place : last - place]
        return found

    def limits(self) -> list[int]:
        """For each row, the row before which a match from it must end."""
        limits = self.task.limits
        assert limits is not None
        found = np.zeros(self.count, np.int64)
        found[self.where] = limits + (self.where - np.arange(len(self.where)))
        rows: list[int] = found.tolist()
        return rows

    def failure_memo(self) -> dict[str, Any]:
        """The failures to memoize, for each state of the search."""
        generator = self.generator
        found: dict[str, Any] = {}
        for state in generator.states.values():
            found[f"seen{state.number}"] = {} if generator.key(state) else bytearray(self.count) + b"\1"
        return found

    def partition(self, start: int) -> tuple[int, int, int]:
        """The first row, the end, and the number of the next match, for the partition of a row."""
        place = bisect.bisect_right(self.lasts, start)
        first = self.firsts[place]
        return first, self.lasts[place], len(self.starts) - bisect.bisect_left(self.starts, first) + 1

    def next_start_after(self, start: int, end: int) -> int:
        """The row at which to continue after a match that was recorded."""
        first, _, number = self.partition(start)
        return first + self.go_on(number - 1, start - first, self.code[start:end])


@functools.lru_cache(maxsize=64)
def _compiled(source: str) -> Any:
    return compile(source, "<search>", "exec")


def _forget(seen: list[Any], first: int, last: int) -> None:
    """Forgets the memoized failures of these rows."""
    for rows in seen:
        if isinstance(rows, bytearray):
            rows[first : last + 1] = bytes(max(min(last + 1, len(rows)) - first, 0))
        else:
            for row in range(first, last + 1):
                rows.pop(row, None)
