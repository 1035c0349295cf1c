"""EPL's match_recognize over a stream: each match is reported at the row that completes it, or when its time is over.

What is known of each row is computed by the database and in a table; where the machines stand is noted in tables now and
then. After a push that failed they are made anew from these notes and the rows that have come since.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge import query
from bridge.patterns.arrays import Array
from bridge.patterns.conditions import Condition
from bridge.patterns.live.decided import Key, Store
from bridge.patterns.live.eager_checkpoint import Deletions, Gone, Notes
from bridge.patterns.live.statements import BEGINNING, Moment
from bridge.patterns.members import Members
from bridge.patterns.output import Output, shown
from bridge.patterns.strategies.machine import Asked
from bridge.patterns.values import Valued
from bridge.query.row_pattern import RowPattern
from nfa.arrays.matches import found_of
from nfa.program import MatchSymbol, Program
from nfa.threads.eager import Batch, Choice, Complete, Eager, Interval, Steps
from windows.arrow import array_of
from windows.databases import Database
from windows.extents import Rows
from windows.sql import column
from windows.times import NEVER

NOTED_EVERY = 1_000
"""Where the machines stand is noted when so many rows have come since, or as many as the last note was long."""


Row = tuple[Any, ...]


class Report(NamedTuple):
    """A match that is reported at a moment."""

    ts: int
    seq: int
    match: Complete


@dataclasses.dataclass(frozen=True)
class Texts:
    """The statements of one clause, and its tables' quoted names.

    `arrived` gives key, ts, seq, place, letter and values of the rows of this push, `seen` of all rows that are kept.
    """

    arrived: str
    seen: str
    seen_table: str
    row_table: str
    way_table: str
    result_table: str
    gone_table: str | None = None
    """The rows that events have deleted since the last note: ts and seq of the event, and the row's moment."""
    gone: str | None = None
    """Those of this push."""


@dataclasses.dataclass
class Part:
    """One partition: its machine, and the numbers of the rows that it may hold, the first at index `base`."""

    machine: Eager[int]
    rows: list[int] = dataclasses.field(default_factory=list)
    base: int = 0
    awaited: int | None = None
    """The time at which the next match is due, while it is watched."""

    def forget(self) -> list[int]:
        """Drops the rows before the first open start; gives their numbers."""
        first = min((start.index for start in self.machine.starts), default=self.machine.count)
        gone = self.rows[: first - self.base]
        del self.rows[: first - self.base]
        self.base = first
        return gone


@dataclasses.dataclass
class Live:
    """The machines of one continuous query; a step of its operator."""

    node: query.EagerMatch
    conditions: tuple[Condition, ...]
    program: Program
    measures: tuple[Valued, ...]
    expressions: tuple[exp.Expr, ...]
    texts: Texts
    table: str
    present: str = ""
    """The name of the table that `show` fills."""
    single: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    """Columns of an aggregate's rows that are of the one row of another variable: the variable, and its column."""

    def __post_init__(self) -> None:
        self._ready = False
        self.clause: RowPattern = self.node.pattern
        self._width = len(self.clause.partition_by)
        self.choice = Choice(self.node.after, self.node.all_matches)
        below = self.node.input.input if isinstance(self.node.input, query.WindowWithDeletions) else self.node.input
        window = below.extent if isinstance(below, query.Window) else None
        self.window = window
        self._shrinking = window if window is not None and window.leaves else None
        self.batch = window.slide if isinstance(window, Rows) else None
        names = {}
        for place, line in enumerate(self.program.instructions):
            if isinstance(line, MatchSymbol):
                names[line.name] = place
        self.codes = names

    def forget(self) -> None:
        """What is in memory is no longer what is in the tables."""
        self._ready = False

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Take this push's rows; `now` and `seq` are its newest. An end decides nothing: matches are told as they come."""
        arrived = database.fetch(self.texts.arrived)
        gone = database.fetch(self.texts.gone) if self.texts.gone else []
        if not self._ready:
            ((before,),) = database.fetch(f"SELECT {database.quoted('before')} FROM {database.quoted('cep_clock')}")
            self._restore(database, arrived, gone, before)
        reports = [report for row in self._in_order(arrived, gone) for report in self._come(row)]
        reports += self._passed(now)
        if reports:
            database.append(self.texts.result_table, Answer(self, self.store, database, reports).table())
        self._forget_rows()
        if self.store.count - self._noted >= self._note_after:
            self._note(database)

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The statement whose rows the machine takes, and the machine."""
        program = "\n".join(f"--   {line}" for line in str(self.program).splitlines())
        told = f"-- the machine takes these rows, and puts matches into {self.texts.result_table} as they are complete"
        return f"{told}\n{pretty(self.texts.arrived)};\n-- its program\n{program}"

    # Rows in --------------------------------------------------------------------------------------------------------------

    def _begin(self, database: Database) -> None:
        self.store = Store(self.clause, self.conditions, self.program, database, self.expressions)
        self.steps = Steps(self.program, Asked(self.store).holds)
        self.parts: dict[Key, Part] = {}
        self._deadlines: list[tuple[int, int, Key]] = []
        self._pushed = 0
        self._content: collections.deque[Moment] = collections.deque()
        self.touched: dict[Key, None] = {}
        self._noted, self._note_after = 0, NOTED_EVERY
        self.newest: Moment = BEGINNING
        self.deleted = Deletions(self)
        self.discarded: list[int] = []
        shape = database.fetch_arrow(f"SELECT * FROM {self.texts.seen_table} AS q WHERE 1 = 0")
        self._kinds = shape.schema.types if shape is not None else []

    def _restore(self, database: Database, arrived: Sequence[Row], gone: Sequence[Row], before: int) -> None:
        """The machines as they were noted, then fed with the rows since, whose matches have been told."""
        self._begin(database)
        notes = Notes.read(database, self.texts.row_table, self.texts.way_table)
        rows = {self.moment(row): row for row in database.fetch(self.texts.seen)}
        notes.restore(self, rows)
        now = {self.moment(row) for row in arrived}
        later = [row for moment, row in rows.items() if moment > notes.upto and moment not in now]
        deleted = database.fetch(f"SELECT * FROM {self.texts.gone_table}") if self.texts.gone_table else []
        for row in self._in_order(later, sorted(set(deleted) - set(gone))):
            collections.deque(self._come(row), maxlen=0)
        collections.deque(self._passed(before), maxlen=0)
        self._ready = True

    def restored(self, newest: Moment, oldest: Moment, count: int, moments: Iterable[Moment]) -> None:
        """What is not a partition's: the newest row, the oldest in the window, the number of rows, and those kept."""
        self.newest, self.store.count = newest, count
        if self._shrinking is not None:
            self._content.extend(moment for moment in moments if oldest <= moment <= newest)

    def key(self, row: tuple[Any, ...]) -> Key:
        """The partition a row belongs to."""
        return row[: self._width]

    @property
    def oldest(self) -> Moment:
        """The oldest row in the window; without a window the newest row."""
        return self._content[0] if self._content else self.newest

    def moment(self, row: Row) -> Moment:
        """When a row came."""
        ts, seq, place = row[self._width : self._width + 3]
        return ts, seq, place

    def add(self, row: tuple[Any, ...]) -> int:
        """A row's number, with what is known of it kept."""
        values = row[self._width + 4 : self._width + 4 + len(self.expressions)]
        return self.store.add(self.moment(row), row[self._width + 3], values)

    def part(self, key: Key) -> Part:
        """The partition of a key."""
        found = self.parts.get(key)
        if found is None:
            found = self.parts[key] = Part(self.machine())
        return found

    def machine(self) -> Eager[int]:
        """The machine of a new partition."""
        if self.batch is not None:
            return Batch(self.steps, self.choice)
        if self.node.interval is None:
            return Eager(self.steps, self.choice)
        time = self.store.time_of.__getitem__
        return Interval(self.steps, self.choice, self.node.interval, time, self.node.or_terminated)

    def _in_order(self, rows: Sequence[Row], gone: Sequence[Row]) -> Iterator[Row | Gone]:
        """Rows and deletions as they come; an event deletes before it is inserted."""
        deletions = sorted(Gone((line[0], line[1], -1), (line[2], line[3], line[4])) for line in gone)
        return heapq.merge(rows, deletions, key=lambda one: one.at if isinstance(one, Gone) else self.moment(one))

    def _come(self, row: Row | Gone) -> Iterator[Report]:
        if isinstance(row, Gone):
            self.deleted.delete(row)
            return iter(())
        return self._fed(row)

    def _fed(self, row: Row) -> Iterator[Report]:
        ts, seq, _ = self.moment(row)
        yield from self._passed(ts)
        key = self.key(row)
        self.newest = self.moment(row)
        part = self.part(key)
        number = self.add(row)
        part.rows.append(number)
        self.touched[key] = None
        self._enter(part, number)
        matches = part.machine.feed(number, ts)
        if self.texts.gone is not None:
            self.deleted.enter(self.moment(row), key, part.machine.took)
        for match in matches:
            yield Report(ts, seq, match)
        self.await_deadline(key, part)
        if self.batch is not None and self.store.count % self.batch == 0:
            yield from self._flushed(ts, seq)

    # Windows and time -----------------------------------------------------------------------------------------------------

    def _enter(self, part: Part, number: int) -> None:
        """The row enters the window; what leaves by it ends the open matches that hold it."""
        window, content = self._shrinking, self._content
        if window is not None:
            content.append(self.store.moment_of[number])
            while window.has_left(content[-1][0] - content[0][0], len(content) - 1):
                content.popleft()
            self._lose(part)

    def _lose(self, part: Part) -> None:
        """Ends the open matches of a partition that hold a row before the oldest in the window."""
        if self._content and self.batch is None:
            oldest = self._content[0]
            part.machine.lose(lambda row: self.store.moment_of[row] < oldest)

    def _flushed(self, ts: int, seq: int) -> Iterator[Report]:
        """A batch is full: its matches, partitions in the order of their first; the next begins without them."""
        yield from (Report(ts, seq, match) for match in self._told(Batch.ended))
        self.touched |= dict.fromkeys(self.parts)
        for part in self.parts.values():
            part.machine.starts.clear()

    def _told(self, told: Callable[[Batch[int]], list[Complete]]) -> list[Complete]:
        """The matches of batches, partitions in the order in which their first match was complete."""
        first = []
        for part in self.parts.values():
            machine = part.machine
            if isinstance(machine, Batch) and (index := machine.complete_at) is not None:
                first.append((part.rows[index - part.base], machine))
        return [match for _, machine in sorted(first, key=lambda pair: pair[0]) for match in told(machine)]

    def await_deadline(self, key: Key, part: Part) -> None:
        """Watches the time at which the next match of a partition is due."""
        deadline = part.machine.deadline if isinstance(part.machine, Interval) else None
        if deadline is not None and deadline != part.awaited:
            part.awaited = deadline
            self._pushed += 1
            heapq.heappush(self._deadlines, (deadline, self._pushed, key))

    def _passed(self, now: int) -> Iterator[Report]:
        """The matches whose time is over by now, each at the very moment."""
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline = self._deadlines[0][0]
            keys: dict[Key, None] = {}
            while self._deadlines and self._deadlines[0][0] == deadline:
                keys[heapq.heappop(self._deadlines)[2]] = None
            yield from (Report(deadline, 0, match) for match in self._due(keys, deadline))

    def _due(self, keys: dict[Key, None], deadline: int) -> list[Complete]:
        """What is due at a moment: by partitions, the one with the earliest start first, or plainly by starts."""
        found: list[list[Complete]] = []
        for key in keys:
            part = self.parts.get(key)
            if part is not None and isinstance(part.machine, Interval):
                found.append(part.machine.due(deadline))
                part.awaited = None
                self.touched[key] = None
                self.await_deadline(key, part)
        found = sorted(filter(None, found), key=lambda several: several[0].first)
        matches = [match for several in found for match in several]
        if self.choice.all_matches:
            matches.sort(key=lambda match: match.first)
        return matches

    # Notes ------------------------------------------------------------------------------------------------------------

    def _forget_rows(self) -> None:
        """Forgets rows that no open match holds, and partitions without any."""
        for key in self.touched:
            part = self.parts.get(key)
            if part is not None:
                self.store.drop(part.forget())
                if not part.rows:
                    del self.parts[key]
        self.touched.clear()
        self.store.drop(self.discarded)
        self.discarded.clear()

    def _note(self, database: Database) -> None:
        for key, part in self.parts.items():  # also of those partitions that no row has come to since
            self._lose(part)
            self.touched[key] = None
        self._forget_rows()
        notes = Notes.of(self)
        self.deleted.forget(database)
        notes.write(database, self.texts.row_table, self.texts.way_table)
        self._noted, self._note_after = self.store.count, max(NOTED_EVERY, len(notes))

    # On demand --------------------------------------------------------------------------------------------------------

    def show(self, database: Database, now: int) -> None:
        """Puts the matches over what the window holds now into a table, as if its rows came together."""
        name = database.quoted(self.present)
        database.execute(f"DELETE FROM {name}")
        found = self._found_now(database, now) if self.window is not None else None
        if found is not None:
            database.append(name, found)

    def _found_now(self, database: Database, now: int) -> pa.Table | None:
        if not self._ready:
            self._restore(database, [], [], now)
        view = dataclasses.replace(self)
        view._begin(database)
        for row in self._held(database.fetch(self.texts.seen), now):
            part = view.parts.setdefault(self.key(row), Part(Batch(view.steps, self.choice)))
            part.rows.append(view.add(row))
            part.machine.feed(part.rows[-1], now)
        matches = view._told(Batch.looked_at)
        ends = [view.store.moment_of[match.path.rows()[-1]] for match in matches]
        reports = [Report(ts, seq, match) for (ts, seq, _), match in zip(ends, matches, strict=True)]
        return Answer(view, view.store, database, reports).table() if reports else None

    def _held(self, rows: list[tuple[Any, ...]], now: int) -> list[tuple[Any, ...]]:
        """Those rows that are in the window."""
        window = self._shrinking
        if self.batch is not None:
            count = self.store.count % self.batch
            return rows[max(len(rows) - count, 0) :]
        if window is not None:
            last = len(rows) - 1
            return [
                row for place, row in enumerate(rows) if not window.has_left(now - self.moment(row)[0], last - place)
            ]
        return [row for row in rows if self.moment(row) not in self.deleted.gone]

    def array(self, values: list[Any], expression: exp.Expr) -> Array:
        """Values of a row expression; objects and lists, and where none is known, in the expression's type."""
        kind = self._kinds[self._width + 4 + self.expressions.index(expression)] if self._kinds else None
        return pa.array(values) if kind is None else array_of(values, kind)


class Answer:
    """The reports of one push as the rows of a table: each match with its rows as a partition of its own."""

    def __init__(self, live: Live, store: Store, database: Database, reports: list[Report]) -> None:
        self.live, self.store, self.database, self.reports = live, store, database, reports
        steps = [list(report.match.path.steps())[::-1] for report in reports]
        self.numbers = [number for taken in steps for _, _, number in taken]
        lengths = [len(taken) for taken in steps]
        self.ends = np.cumsum(np.array(lengths, np.int64))
        codes = [live.codes[symbol] for taken in steps for symbol, _, _ in taken]
        self.found = found_of((self.ends - lengths).tolist(), lengths, codes)

    def table(self) -> pa.Table:
        """The rows, with the moment of each."""
        members = Members(self.found, self.live.program, self.ends)
        clause = dataclasses.replace(self.live.clause, order_by=(), partition_by=())
        which = shown(members, clause.per_match, len(self.numbers))
        answer = Output(self.database, self, members, which).table(clause, [], self.live.measures)
        system = [[r.ts for r in self.reports], [r.seq for r in self.reports], [NEVER] * len(self.reports)]
        columns = [pa.array(np.array(values, np.int64)) for values in (*system, range(len(self.reports)))]
        names = ["ts", "seq", "_expires", "_place", *answer.column_names]
        return pa.Table.from_arrays([*columns, *answer.columns], names=names)

    # As the sorted rows of a bounded input ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.numbers)

    def columns(self, expressions: Sequence[exp.Expr]) -> list[Array]:
        return [self._column(expression) for expression in expressions]

    def _column(self, expression: exp.Expr) -> Array:
        if expression.name not in self.live.single or not isinstance(expression, exp.Column):
            values = self.store.values_of(expression)
            return self.live.array([values[number] for number in self.numbers], expression)
        symbol, name = self.live.single[expression.name]
        values, found = self.store.values_of(column(name)), list[Any]()
        for report in self.reports:
            row = report.match.path.last(symbol)
            found += [None if row is None else values[row]] * len(report.match.path)
        return self.live.array(found, column(name))

    def key(self, name: str, rows: Any) -> Array:
        raise NotImplementedError("keys are no columns of these matches")
