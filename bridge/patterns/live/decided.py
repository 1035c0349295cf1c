"""MATCH_RECOGNIZE over a stream: each match is reported when nothing that may still come can change it (rule S4).

The rows that an open match may need are in a table, and so is where each partition stands; the machines in memory are made
from these tables, and made anew after a push that failed. Everything about one row is computed by the database.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge.errors import QueryError
from bridge.patterns.arrays import Array, Ints
from bridge.patterns.conditions import Condition
from bridge.patterns.live import bulk
from bridge.patterns.live.statements import BEGINNING, Continuous, Moment
from bridge.patterns.members import Members
from bridge.patterns.output import shown
from bridge.patterns.strategies.machine import Asked
from bridge.patterns.task import skip_of
from bridge.query.row_pattern import PerMatch, RowPattern
from nfa import skip as modes
from nfa.arrays.matches import found_of
from nfa.errors import BudgetError, ExhaustedError, SkipError
from nfa.match import Match
from nfa.program import MatchSymbol, Program
from nfa.threads.decided import Matcher
from windows.arrow import array_of
from windows.databases import Database

Key = tuple[Any, ...]

MANY = 1_000
"""Events of one push from which on the strategies of bounded data take the rows, not the machine."""

OPEN_ONES = 32
"""They look at all rows that are open: so many times as many as have come may be."""


class Report(NamedTuple):
    """A match (None: a row of no match) that became known at a moment, of the rows from `first` on."""

    ts: int
    seq: int
    key: Key
    first: int
    match: Match | None


class Fresh(NamedTuple):
    """A row as the database gives it, of a moment, that can be looked at from another on."""

    known: Moment
    moment: Moment
    key: Key
    row: tuple[Any, ...]

    def in_time(self) -> Moment:
        return self.moment

    def when_known(self) -> tuple[Moment, Moment]:
        return self.known, self.moment


@dataclasses.dataclass
class Part:
    """One partition: its machine, and the numbers of the rows that may still be needed, the first at index `base`."""

    matcher: Matcher[int]
    rows: list[int] = dataclasses.field(default_factory=list)
    base: int = 0
    covered: int = 0
    """The end of the furthest match so far, as an index: rows before it, from a match's start on, are matched."""
    told: int = 0
    """The index of the first row of which nothing has been told yet."""
    last: Moment = BEGINNING
    passed: Moment = BEGINNING
    """The last row that is not needed any more."""
    noted: int = 0
    """The index of the start when its place was written last."""
    unseen: collections.deque[Moment] = dataclasses.field(default_factory=collections.deque)
    """The rows that have come and cannot be looked at yet."""
    awaited: int = -1
    """The start whose time is being watched."""
    overdue: int | None = None
    """A time that is over, while rows of before it are still unseen."""

    def row(self, index: int) -> int:
        return self.rows[index - self.base]


@dataclasses.dataclass
class Store:
    """What is known of the rows at hand, by their numbers."""

    clause: RowPattern
    conditions: tuple[Condition, ...]
    program: Program
    database: Database
    expressions: tuple[exp.Expr, ...]
    letter_of: dict[int, int] = dataclasses.field(default_factory=dict)
    time_of: dict[int, int] = dataclasses.field(default_factory=dict)
    moment_of: dict[int, Moment] = dataclasses.field(default_factory=dict)
    values: dict[exp.Expr, dict[int, Any]] = dataclasses.field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.values = {expression: {} for expression in self.expressions}

    @property
    def skip(self) -> modes.Skip:
        return skip_of(self.clause, self.clause.skip)

    @property
    def within(self) -> int | None:
        return self.clause.within

    def values_of(self, expression: exp.Expr) -> dict[int, Any]:
        return self.values[expression]

    def arrays_of(self, names: Sequence[str]) -> list[Array]:
        raise NotImplementedError("aggregates that only the database knows are refused over streams")

    def add(self, moment: Moment, letter: int, values: Sequence[Any]) -> int:
        """A new row's number."""
        number, self.count = self.count, self.count + 1
        self.letter_of[number], self.time_of[number], self.moment_of[number] = letter, moment[0], moment
        for known, value in zip(self.values.values(), values, strict=True):
            known[number] = value
        return number

    def drop(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            del self.letter_of[number], self.time_of[number], self.moment_of[number]
            for known in self.values.values():
                del known[number]


@dataclasses.dataclass
class Live(Continuous):
    """The machine of one continuous query; a step of its operator. A row is looked at when `ahead` more have come, for NEXT."""

    table: str
    ahead: int
    forgets: bool
    """Whether a partition without open rows is as one that never was."""

    def __post_init__(self) -> None:
        self._ready = False
        self._seq = self._kept = 0
        fits = bulk.can(self.clause, self.conditions, self.program, self.ahead)
        self._bulk = bulk.Bulk(self) if fits else None
        self._width = len(self.clause.partition_by)
        self._codes = {
            (line.name, line.excluded): place
            for place, line in enumerate(self.program.instructions)
            if isinstance(line, MatchSymbol)
        }

    def forget(self) -> None:
        """What is in memory is no longer what is in the tables."""
        self._ready = False

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Take this push's rows; `now` and `seq` are its newest. `final`: nothing will come any more.

        Raises QueryError where AFTER MATCH SKIP leads nowhere, and for what is beyond a limit.
        """
        count, self._seq = seq - self._seq, seq
        if self._bulk is not None and self._is_for_many(count, final):
            with contextlib.suppress(QueryError, ExhaustedError):
                self._kept = self._bulk.run(database, now, seq if final else None)
                self._ready = False
                return
        try:
            self._run(database, now, seq, final)
        except (SkipError, BudgetError) as error:
            raise QueryError(str(error)) from error

    def _run(self, database: Database, now: int, seq: int, final: bool) -> None:
        if not self._ready:
            self._restore(database)
        arrived = database.fetch(self.texts.kept if final and self.ahead else self.texts.arrived)
        end = (now, seq, 0) if final else None
        fresh = self._fresh(arrived, end)
        waiting = [row for row in fresh if row.known == end]  # until now, for rows that will not come
        reports = sorted(self._reports(fresh[: len(fresh) - len(waiting)], now), key=self._when)
        if final:
            reports += sorted([*self._reports(waiting, now), *self._finished(now, seq)], key=self._first_row)
        if reports:
            self._write(database, reports)
        self._advance(database)
        self._kept = len(self.store.letter_of)

    def _is_for_many(self, count: int, final: bool) -> bool:
        """Whether the rows of so many events are worth it or, in the end, those that the machine would have to take anew."""
        if final:
            return not count and not self._ready and self._kept >= MANY
        return count >= max(MANY, self._kept // OPEN_ONES)

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The statement whose rows the machine takes, and the machine."""
        program = "\n".join(f"--   {line}" for line in str(self.program).splitlines())
        told = f"-- the machine takes these rows, and puts decided matches into {self.texts.result_table}"
        return f"{told}\n{pretty(self.texts.arrived)};\n-- its program\n{program}"

    # Rows in --------------------------------------------------------------------------------------------------------------

    def _restore(self, database: Database) -> None:
        self.store = Store(self.clause, self.conditions, self.program, database, self.expressions)
        self.asked = Asked(self.store)
        self.parts: dict[Key, Part] = {}
        self._deadlines: list[tuple[int, int, int, Key]] = []
        self._count = 0
        self._changed: dict[Key, None] = {}
        shape = database.fetch_arrow(f"SELECT * FROM ({self.texts.arrived}) AS q WHERE 1 = 0")
        self._kinds = shape.schema.types if shape is not None else []
        stands = {row[: self._width]: row[self._width :] for row in database.fetch(self.texts.places)}
        self._version = max((stand[-1] for stand in stands.values()), default=0)
        now = {row[: self._width + 3] for row in database.fetch(self.texts.arrived)}
        come = collections.Counter(row[: self._width] for row in now)
        for row in sorted(database.fetch(self.texts.kept), key=self._moment):
            key, moment = row[: self._width], row[self._width : self._width + 3]
            if (*key, *moment) not in now and not self._waits(row, come[key]):
                self._retake(key, moment, row, stands.get(key))
        self._ready = True

    def _moment(self, row: tuple[Any, ...]) -> Moment:
        moment: Moment = row[self._width : self._width + 3]
        return moment

    def array(self, values: list[Any], place: int) -> Array:
        """Values of a column of the statement; objects and lists, and where none is known, in the column's type."""
        return array_of(values, self._kinds[place]) if self._kinds else pa.array(values)

    def array_of(self, expression: exp.Expr, values: list[Any]) -> Array:
        return self.array(values, self._width + 4 + self.expressions.index(expression))

    def _waits(self, row: tuple[Any, ...], come: int) -> bool:
        """Whether a row was waiting for others before so many came to its partition."""
        return bool(self.ahead) and row[-1] - come <= self.ahead

    def _retake(self, key: Key, moment: Moment, row: tuple[Any, ...], stand: tuple[Any, ...] | None) -> None:
        """A row of before: of those kept, the ones before the start are only looked back at."""
        known = key in self.parts
        part = self._part(key)
        if not known and stand is not None:
            part.base, part.passed, part.noted = stand[3], tuple(stand[:3]), stand[4]
            part.matcher.resume(stand[4], stand[5])
            part.covered = part.told = stand[4]
        if stand is not None and moment <= tuple(stand[:3]):
            return
        number = self.store.add(moment, row[self._width + 3], self._values(row))
        part.rows.append(number)
        part.last = moment
        if part.base + len(part.rows) > part.matcher.start:
            self.asked.ask_for(part.matcher)
            part.matcher.feed(number)
            self._await(key, part)

    def _fresh(self, rows: Sequence[tuple[Any, ...]], final: Moment | None) -> list[Fresh]:
        """Rows that have not been looked at, by the moment at which they can be: with NEXT a later row's."""
        by_key: dict[Key, list[Fresh]] = {}
        for row in rows:
            key, moment = row[: self._width], row[self._width : self._width + 3]
            by_key.setdefault(key, []).append(Fresh(moment, moment, key, row))
        found: list[Fresh] = []
        for key, mine in by_key.items():
            mine.sort(key=Fresh.in_time)
            found += self._released(key, mine, final) if self.ahead else mine
        found.sort(key=Fresh.when_known)
        return found

    def _released(self, key: Key, rows: list[Fresh], final: Moment | None) -> Iterator[Fresh]:
        """Those of a partition's rows that were waiting for others which are there now."""
        part = self._part(key)
        moments = [row.moment for row in rows]
        known = [*moments[self.ahead :], *([] if final is None else [final] * self.ahead)]
        part.unseen = collections.deque(row.moment for row in rows if row.moment > part.last)
        for row, when in zip(rows, known, strict=False):
            if row.moment > part.last:
                yield row._replace(known=when)

    def _part(self, key: Key) -> Part:
        part = self.parts.get(key)
        if part is None:
            part = self.parts[key] = Part(self.asked.matcher())
        return part

    def _values(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        first = self._width + 4
        return row[first : first + len(self.expressions)]

    # Matches out --------------------------------------------------------------------------------------------------------

    def _reports(self, rows: list[Fresh], now: int) -> Iterator[Report]:
        reached = BEGINNING
        for known, moment, key, row in rows:
            yield from self._passed(known[0], reached)
            reached = known
            part = self._part(key)
            number = self.store.add(moment, row[self._width + 3], self._values(row))
            part.rows.append(number)
            part.last = moment
            if part.unseen:
                part.unseen.popleft()
            self.asked.ask_for(part.matcher)
            yield from self._told(key, part, part.matcher.feed(number), known[0], known[1])
            self._await(key, part)
            if part.overdue is not None:
                yield from self._late(key, part, part.overdue, known)
        yield from self._passed(now, reached)

    def _passed(self, now: int, reached: Moment) -> Iterator[Report]:
        """What becomes known by time alone, at the very time; of a start that was `reached` later, then."""
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, _, start, key = heapq.heappop(self._deadlines)
            part = self.parts.get(key)
            if part is None or part.matcher.start != start or start >= part.base + len(part.rows):
                continue
            if part.unseen and part.unseen[0][0] < deadline:
                part.overdue = deadline  # a row of before waits for a later one
                continue
            yield from self._over(key, part, deadline, max((deadline, 0, 0), reached))

    def _late(self, key: Key, part: Part, deadline: int, known: Moment) -> Iterator[Report]:
        if not part.unseen or part.unseen[0][0] >= deadline:
            part.overdue = None
            yield from self._over(key, part, deadline, known)

    def _over(self, key: Key, part: Part, deadline: int, known: Moment) -> Iterator[Report]:
        start = part.matcher.start
        self.asked.ask_for(part.matcher)
        yield from self._told(key, part, part.matcher.advance_time(deadline), known[0], known[1])
        if part.matcher.start != start:
            self._await(key, part)

    def _await(self, key: Key, part: Part) -> None:
        """The time at which the start under way is decided at the latest."""
        start = part.matcher.start
        if self.clause.within is None or start >= part.base + len(part.rows) or part.awaited == start:
            return
        part.awaited = start
        self._count += 1
        deadline = self.store.time_of[part.row(start)] + self.clause.within
        heapq.heappush(self._deadlines, (deadline, self._count, start, key))

    def _finished(self, now: int, seq: int) -> list[Report]:
        found: list[Report] = []
        for key, part in self.parts.items():
            self.asked.ask_for(part.matcher)
            found += self._told(key, part, part.matcher.finish(), now, seq)
        return found

    def _first_row(self, report: Report) -> Moment:
        return self.store.moment_of[self.parts[report.key].row(report.first)]

    def _when(self, report: Report) -> tuple[int, int, Moment]:
        """When a report is made; those that time alone makes come in the order of their first rows."""
        return report.ts, report.seq, BEGINNING if report.seq else self._first_row(report)

    def _told(self, key: Key, part: Part, matches: list[Match], ts: int, seq: int) -> Iterator[Report]:
        """The matches, with the rows of none where these are wanted; then what is over is forgotten."""
        unmatched = self.clause.per_match is PerMatch.WITH_UNMATCHED
        before = part.told
        for match in matches:
            if unmatched:
                yield from self._alone(key, part, before, match.start, ts, seq)
            end = match.start + max(len(match.memberships), 1)
            part.covered = max(part.covered, end)
            before = max(before, match.start)
            yield Report(ts, seq, key, match.start, match)
        if unmatched:
            yield from self._alone(key, part, before, part.matcher.start, ts, seq)
        part.told = part.matcher.start
        self._changed[key] = None

    def _alone(self, key: Key, part: Part, first: int, end: int, ts: int, seq: int) -> Iterator[Report]:
        for index in range(max(first, part.covered), end):
            part.covered = index + 1
            yield Report(ts, seq, key, index, None)

    # Results ------------------------------------------------------------------------------------------------------------

    def _write(self, database: Database, reports: list[Report]) -> None:
        table = _Answer(self, database, reports).table()
        database.append(self.texts.result_table, table)

    def _advance(self, database: Database) -> None:
        """Notes where the partitions stand that went on, and forgets the rows they have behind them."""
        lines = []
        self._version += 1
        for key in self._changed:
            part = self.parts[key]
            needed = max(part.matcher.start - self.behind, part.base)
            gone = needed - part.base
            if not gone and part.matcher.start == part.noted:
                continue
            if gone:
                part.passed = self.store.moment_of[part.rows[gone - 1]]
            self.store.drop(part.rows[:gone])
            del part.rows[:gone]
            part.base, part.noted = needed, part.matcher.start
            if self.forgets and not part.rows and not part.unseen:
                del self.parts[key]
            lines.append((*key, *part.passed, needed, part.matcher.start, part.matcher.match_number - 1, self._version))
        if lines:
            database.insert(self.texts.place_table, self._width + 7, lines)
        self._changed.clear()


class _Answer:
    """The reports of one push as the rows of a table: each match with its rows as a partition of its own."""

    def __init__(self, live: Live, database: Database, reports: list[Report]) -> None:
        self.live, self.database = live, database
        self.reports = reports
        self.numbers: list[int] = []
        self.ends: Ints
        self._lay_out()

    def _lay_out(self) -> None:
        ends, starts, lengths, codes, self.matched = list[int](), list[int](), list[int](), list[int](), list[int]()
        self.match_numbers: list[int] = []
        for place, report in enumerate(self.reports):
            part = self.live.parts[report.key]
            count = max(len(report.match.memberships), 1) if report.match else 1
            first = len(self.numbers)
            self.numbers += [part.row(report.first + offset) for offset in range(count)]
            ends.append(len(self.numbers))
            if report.match is not None:
                starts.append(first)
                lengths.append(len(report.match.memberships))
                codes += [self.live._codes[m.symbol, m.excluded] for m in report.match.memberships]
                self.match_numbers.append(report.match.number)
                self.matched.append(place)
        self.ends = np.array(ends, np.int64)
        self.found = found_of(starts, lengths, codes)

    def table(self) -> pa.Table:
        live = self.live
        members = Members(self.found, live.program, self.ends)
        members.numbers = np.array(self.match_numbers, np.int64)  # the partition's, not this push's
        which = shown(members, live.clause.per_match, len(self.numbers))
        if live.clause.per_match is PerMatch.WITH_UNMATCHED:
            which = which.taken(np.argsort(which.row, kind="stable"))
        report = np.searchsorted(self.ends, which.row, side="right")
        ts = np.array([r.ts for r in self.reports], np.int64)[report]
        seq = np.array([r.seq for r in self.reports], np.int64)[report]
        return live.results(self.database, self, members, which, ts, seq)

    # As the sorted rows of a bounded input ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.numbers)

    def columns(self, expressions: Sequence[exp.Expr]) -> list[Array]:
        known = {expression: self.live.store.values_of(expression) for expression in expressions}
        return [self.live.array_of(e, [known[e][number] for number in self.numbers]) for e in expressions]

    def key(self, name: str, rows: Ints) -> Array:
        place = [key.name for key in self.live.clause.partition_by].index(name)
        report = np.searchsorted(self.ends, rows, side="right")
        return self.live.array([self.reports[at].key[place] for at in report.tolist()], place)
