"""Why a row is in a match or in none: the conditions that were tested and their outcomes, as objects and as text."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from bridge.patterns.conditions import Condition, of_row
from bridge.patterns.own_types import PreparedClause
from bridge.patterns.strategies.machine import PathConditions
from bridge.patterns.task import Task
from bridge.patterns.values import MatchExpression, read
from bridge.query.row_pattern import NAVIGATION, OF_THE_MATCH, SEMANTICS, row_scalar_text
from nfa.pattern import Symbol
from nfa.threads.path import Path
from nfa.threads.trace import Fate
from windows.sql import conjuncts

SHOWN_SYMBOLS = 12
"""The greatest number of symbols that are listed one by one; of more, repeated ones are counted."""


@dataclasses.dataclass(frozen=True)
class Conjunct:
    """One of the conditions of a symbol that are joined by AND: its text, its value (None is NULL), values it reads.

    >>> print(Conjunct("price < PREV(price)", False, (("price", 9.5), ("PREV(price)", 8))))
    price < PREV(price) is false: price = 9.5, PREV(price) = 8
    """

    text: str
    value: bool | None
    reads: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        word = {True: "true", False: "false", None: "NULL"}[self.value]
        return f"{self.text} is {word}" + (f": {_pairs(self.reads)}" if self.reads else "")


@dataclasses.dataclass(frozen=True)
class Test:
    """The test whether a row matches a symbol, and by which conjuncts; the conjuncts in `rest` depend on the match.

    >>> print(Test("UP", False, (Conjunct("a > 1", True), Conjunct("b > 1", None, (("b", None),)))))
    UP? no: b > 1 is NULL: b = NULL
    """

    symbol: str
    holds: bool
    conjuncts: tuple[Conjunct, ...] = ()
    rest: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[Conjunct, ...]:
        """The conjuncts that are not true."""
        return tuple(part for part in self.conjuncts if part.value is not True)

    def __str__(self) -> str:
        answer = "no" if not self.holds else "yes" if not self.rest else "yes by itself"
        parts = [str(part) for part in (self.conjuncts if self.holds else self.failed)]
        waits = [f"{part} depends on the match" for part in self.rest] if self.holds else []
        return f"{Symbol(self.symbol)}? {answer}" + (": " if parts or waits else "") + "; ".join([*parts, *waits])


@dataclasses.dataclass(frozen=True)
class Step:
    """One branch of a run at the row: the symbols `taken` before, the `test` (None: the end, `$`), and its outcome.

    `onward`: the symbols that can follow. `is_match`: whether it is a match already with the row.
    """

    taken: tuple[str, ...]
    test: Test | None
    fate: Fate
    onward: tuple[str, ...] = ()
    is_match: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether the branch took the row."""
        return self.fate in (Fate.GOES_ON, Fate.MATCHES)

    def __str__(self) -> str:
        came = f"after {short(self.taken)}" if self.taken else "first row"
        symbol = (
            "the end ($)" if self.test is None else str(self.test) if self.fate is not Fate.LATE else self.test.symbol
        )
        return f"{came}: {symbol} - {self._outcome}"

    @property
    def _outcome(self) -> str:
        match self.fate:
            case Fate.GOES_ON | Fate.MATCHES:
                onward = f"goes on, to {' or '.join(self.onward)}" if self.onward else ""
                return " and ".join([*["is a match"] * self.is_match, *[onward] * bool(onward)])
            case Fate.LATE:
                return "ends: WITHIN is over"
            case Fate.OVERTAKEN:
                return "ends: a preferred way is a match"
            case Fate.JOINED:
                return "ends: a preferred way has come to the same place"
            case Fate.NOT_THE_END:
                return "ends: the partition does not end before the row"
            case Fate.NOWHERE:
                return "ends: nothing can follow"
        return "ends"


@dataclasses.dataclass(frozen=True)
class InMatch:
    """A match with its MATCH_NUMBER() and its rows.

    `symbol`: the symbol of the row in question, if it is in the match.
    """

    number: int
    first: int
    last: int
    symbol: str | None = None
    excluded: bool = False

    def __str__(self) -> str:
        if self.last < self.first:
            return f"match {self.number}, which is empty, at row {self.first}"
        rows = f"row {self.first}" if self.first == self.last else f"rows {self.first} to {self.last}"
        return f"match {self.number} ({rows})"


@dataclasses.dataclass(frozen=True)
class Run:
    """The search for a match from one row, up to the row in question. `match` is the match that it found in the end."""

    start: int
    key: tuple[tuple[str, Any], ...]
    steps: tuple[Step, ...]
    match: InMatch | None
    fallback: bool = False
    """Whether it already had a match before the row, and was searching for a preferred one."""

    def __str__(self) -> str:
        found = f"it finds {self.match}" if self.match else "it finds no match"
        had = "; a match before this row was there to fall back on" if self.fallback else ""
        head = f"from row {self.start}{f' ({_pairs(self.key)})' if self.key else ''}; {found}{had}"
        return "\n".join([head, *(f"  {step}" for step in self.steps)])


@dataclasses.dataclass(frozen=True)
class Skipped:
    """Rows from which no match was searched, as AFTER MATCH SKIP skipped them."""

    first: int
    last: int
    match: InMatch
    mode: str

    def __str__(self) -> str:
        rows = f"row {self.first}" if self.first == self.last else f"rows {self.first} to {self.last}"
        return f"from {rows} none: after {self.match} the search goes on at row {self.last + 1} ({self.mode})"


@dataclasses.dataclass(frozen=True)
class Why:
    """Why a row of the input is in a match of a clause, or in none; `str` explains it.

    Rows are counted from 1 in their partition, which has `rows` rows. `alone` has a test for each symbol, by the
    conjuncts on the row alone. `runs` are the runs that reached the row, the oldest first; `others` is the number of
    earlier starts whose runs may have reached it but were not followed. `matches` are the matches that contain the row.
    """

    row: Mapping[str, Any]
    partition: Mapping[str, Any]
    number: int
    rows: int
    alone: tuple[Test, ...]
    runs: tuple[Run, ...]
    others: int
    skipped: tuple[Skipped, ...]
    matches: tuple[InMatch, ...]

    def __str__(self) -> str:
        of = f" of the partition {_pairs(self.partition.items())}" if self.partition else ""
        values = [(name, value) for name, value in self.row.items() if name not in self.partition]
        return "\n".join(
            [
                f"row {self.number} of {self.rows}{of}: {_pairs(values)}",
                *_section("by itself", self.alone),
                *_section("runs that reached it", [*self._left_out, *self.runs] or ["none"]),
                *_section("runs that were not begun", self.skipped),
                "",
                self.verdict,
            ]
        )

    @property
    def verdict(self) -> str:
        """The conclusion, one line per match."""
        if not self.matches:
            return "It is in no match."
        return "\n".join(_match_text(found) for found in self.matches)

    @property
    def _left_out(self) -> Sequence[str]:
        return [f"{self.others:,} more from earlier rows may have, and are not shown"] if self.others else []


def short(symbols: Sequence[str]) -> str:
    """Symbols on one line; if there are many, repeated ones are counted.

    >>> short("ABB"), short("A" + 20 * "B" + "C")
    ('A B B', 'A B×20 C')
    """
    names = [str(Symbol(name)) for name in symbols]
    if len(names) <= SHOWN_SYMBOLS:
        return " ".join(names)
    groups = [(name, len(list(same))) for name, same in itertools.groupby(names)]
    texts = [name if count == 1 else f"{name}×{count}" for name, count in groups]
    half = SHOWN_SYMBOLS // 2
    return " ".join(texts if len(texts) <= SHOWN_SYMBOLS else [*texts[:half], "…", *texts[-half:]])


def _match_text(found: InMatch) -> str:
    if found.symbol is None:
        return f"It begins {found}."
    return f"It is in {found} as {Symbol(found.symbol)}{', which the output leaves out' if found.excluded else ''}."


def _section(title: str, items: Sequence[object]) -> Iterator[str]:
    if items:
        yield from ("", title)
        yield from (f"  {line}" for item in items for line in str(item).splitlines())


def _pairs(pairs: Any) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in pairs)


def _value(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


# Conditions taken apart: the value of each conjunct for a row, and the values that it compares

OnPath = Callable[[Path[int]], Any]


class ConjunctTests:
    """Tests conjuncts on one row at a time, by the conditions of the plain machine."""

    def __init__(self, prepared: PreparedClause, task: Task, answers: PathConditions) -> None:
        self.prepared, self.answers = prepared, answers
        self.conditions = dict(prepared.clause.define)
        self.is_aggregate = task.rows.database.is_aggregate

    def test_alone(self, condition: Condition, row: int) -> Test:
        """The test of the symbol by its conjuncts on the row alone; the other conjuncts are its `rest`."""
        symbol = condition.symbol
        own = [part for part in self._parts(symbol) if part[1]]
        path = Path[int]().take(symbol, row, row)
        found = tuple(_conjunct(part, value(path), reads, path) for part, _, value, reads in own)
        rest = tuple(part for part, is_of_row, _, _ in self._parts(symbol) if not is_of_row)
        return Test(symbol, all(part.value for part in found), found, rest)

    def test(self, symbol: str, path: Path[int], row: int) -> Test:
        """The test of the symbol by its whole condition, after the rows that the path has taken."""
        longer = path.take(symbol, row, row)
        found = tuple(_conjunct(part, value(longer), reads, longer) for part, _, value, reads in self._parts(symbol))
        return Test(symbol, all(part.value for part in found), found)

    @functools.cache  # noqa: B019 - lives as long as one answer
    def _parts(self, symbol: str) -> list[tuple[str, bool, OnPath, list[tuple[str, OnPath]]]]:
        """Each conjunct: its text, whether it reads only the row, its value, and the values that it reads."""
        condition = self.conditions.get(symbol)
        return [self._part(symbol, part) for part in (conjuncts(condition) if condition is not None else [])]

    def _part(self, symbol: str, part: exp.Expr) -> tuple[str, bool, OnPath, list[tuple[str, OnPath]]]:
        valued = self._read(symbol, part)
        leaves = {row_scalar_text(leaf): leaf for leaf in _leaves(part, self.is_aggregate)}
        reads = [
            (text, self.answers.value(self._read(symbol, leaf))) for text, leaf in leaves.items() if leaf is not part
        ]
        return row_scalar_text(part), of_row(valued) is not None, self.answers.value(valued), reads

    def _read(self, symbol: str, expression: exp.Expr) -> MatchExpression:
        return read(expression, self.prepared.clause, self.prepared.fields, symbol, is_aggregate=self.is_aggregate)


def _conjunct(text: str, value: Any, reads: list[tuple[str, OnPath]], path: Path[int]) -> Conjunct:
    return Conjunct(text, None if value is None else bool(value), tuple((name, of(path)) for name, of in reads))


def _leaves(node: exp.Expr, is_aggregate: Callable[[str], bool]) -> Iterator[exp.Expr]:
    """The largest parts of a condition that read a row or several rows."""
    if isinstance(node, exp.Anonymous):
        whole = node.name in (*NAVIGATION, *OF_THE_MATCH, *SEMANTICS) or is_aggregate(node.name)
    else:
        whole = isinstance(node, (exp.Column, exp.AggFunc, exp.Filter, exp.WithinGroup))
    if whole:
        yield node
        return
    for below in node.iter_expressions():
        yield from _leaves(below, is_aggregate)
