"""The tables that a bridge reads as streams: new rows are merged by time, and pushed with their positions."""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from bridge.engine.catalogue import StreamEntry
from bridge.engine.durable import LoggedCall
from bridge.engine.intake import Sizes
from bridge.engine.own_table import OwnTable
from bridge.engine.push_queue import PushQueue
from bridge.engine.runner import Receipt, Runner
from bridge.engine.watch.batches import RowBatch, TableRow, TupleBatch
from bridge.engine.watch.changes import NUMBER, add_table_stream, changes_schema, create_triggers, drop_triggers
from bridge.engine.watch.gaps import GAPS, LOWEST, GapChange, Gaps, between
from bridge.engine.watch.reader import TableReader, declaration, schema_of
from bridge.errors import NameTaken, SchemaError
from bridge.query.table_source import BEGINNING, NOW, TableSource
from bridge.query.time_rules import TimeRules
from windows.databases import Database, Refused
from windows.schema import Schema
from windows.times import BEGINNING as NEVER

GAPS_TABLE = "cep_gaps"

COMPARED = 60.0
"""Seconds between two looks at whether the numbers of a table have begun anew."""

BEHIND = 1_000_000
"""Rows of an outbox that are counted at most."""

RECENT = 10_000
"""With SINCE NOW, rows may still be committed in the gaps among so many of the newest rows."""


@dataclasses.dataclass
class WatchedTable:
    """A stream of a table, and what has been read of it.

    `waiting`: rows that were read and that are not pushed yet, as rows of another table may come before them. `read_to`: the
    greatest position that was read.
    """

    database: Database
    entry: StreamEntry
    gaps: Gaps
    waiting: RowBatch = dataclasses.field(default_factory=lambda: TupleBatch([]))
    read_to: int | None = None
    is_read: bool = False
    """Whether there was no further row when it was last read."""
    checked: float = 0.0
    """When its numbers were last compared with those that were read, in seconds."""

    @functools.cached_property
    def reader(self) -> TableReader:
        """The statements that read it. Raises `SchemaError` where it does not have the columns."""
        return TableReader(self.database, self.entry)

    @property
    def source(self) -> str:
        """The name under which its position is stored."""
        return self.entry.name

    @property
    def is_outbox(self) -> bool:
        """Whether it is an outbox, whose rows are removed when they are pushed: each that is there is still to be read."""
        return self.entry.reads is not None

    @property
    def until(self) -> int | None:
        """The time before which no further row is expected; None where all are read."""
        return None if self.is_read or not len(self.waiting.times) else int(self.waiting.times[-1])

    def read(self, sizes: Sizes) -> None:
        """Reads the next rows, unless some wait; once there is none after them, those in gaps, too.

        Raises `SchemaError` where the table is not there any more, or does not have the columns.
        """
        if self.has_rows:
            return
        try:
            self.waiting = self._next(sizes)
        except Refused:
            self.__dict__.pop("reader", None)
            assert self.reader
            raise

    def _next(self, sizes: Sizes) -> RowBatch:
        if not self.is_read and (batch := self.reader.arrow_after(self.read_to, sizes.arrow)) is not None:
            self.is_read = len(batch.positions) < sizes.arrow
            if not self.is_outbox:
                self.read_to = int(batch.positions.max())
            return batch
        rows = self.reader.rows_after(self.read_to, sizes.rows)
        self.is_read = len(rows) < sizes.rows
        if rows and not self.is_outbox:
            self.read_to = rows[-1].position
        if self.is_read and (due := self.gaps.due(time.monotonic())):
            rows += self.reader.rows_in(due)
        if not rows:
            self._compare_numbers()
        return TupleBatch.of(rows)

    def _compare_numbers(self) -> None:
        """Warns if the table has only rows before the newest that was read: numbers may be used a second time."""
        if time.monotonic() - self.checked < COMPARED or self.is_outbox:
            return
        self.checked = time.monotonic()
        newest, read = self.reader.newest(1), self.gaps.newest
        if newest and read is not None and newest[0] < read:
            logging.getLogger("bridge").warning(
                "the newest row of %s has the position %s, and %s was read before: if the numbers have begun anew, rows up to "
                "there are not read; remove_stream and register_stream(since=…) begin anew, too",
                self.reader.source.table, newest[0], read,
            )  # fmt: skip

    @property
    def has_rows(self) -> bool:
        """Whether rows wait."""
        return len(self.waiting.times) > 0 or len(self.waiting.wrong) > 0

    def forget(self) -> None:
        """Forgets the rows that wait; they will be read again."""
        self.waiting, self.read_to, self.is_read = TupleBatch([]), self.gaps.newest, False


class TableStatus(NamedTuple):
    """How far a table has been read.

    table: What is read. position: The greatest position that was read. behind: The numbers from there to the newest row's; of
    an outbox its rows. gaps: The gaps below the position, in which rows may still be committed.

    >>> print(TableStatus("TABLE orders (POSITION id)", 17, 3, 1))
    TABLE orders (POSITION id): read to 17, 3 behind, 1 gaps
    """

    table: str
    position: int | None
    behind: int
    gaps: int

    def __str__(self) -> str:
        return f"{self.table}: read to {self.position}, {self.behind} behind, {self.gaps} gaps"


class Watcher:
    """Reads the tables of a bridge's streams."""

    def __init__(self, runner: Runner, pushes: PushQueue) -> None:
        self._runner, self._pushes = runner, pushes
        self._tables: dict[str, WatchedTable] = {}
        self._gaps = OwnTable(runner, GAPS_TABLE, "source VARCHAR, first_one BIGINT, last_one BIGINT")
        self._caught_up = NEVER
        self.delayed = 0
        """Rows whose time was before the newest time seen, which they were given instead."""

    @property
    def horizon(self) -> int | None:
        """The time by the clock, in milliseconds, up to which committed rows have been pushed; None without tables."""
        return self._caught_up if any(entry.source for entry in self._runner.catalogue.streams.values()) else None

    @property
    def tables(self) -> list[WatchedTable]:
        """The streams of tables that are there."""
        streams = self._runner.catalogue.streams
        for name in [name for name, table in self._tables.items() if streams.get(name) is not table.entry]:
            del self._tables[name]
        for name, entry in streams.items():
            if entry.source is not None and name not in self._tables:
                self._tables[name] = self._table(entry, Gaps())
        return list(self._tables.values())

    def status(self) -> dict[str, TableStatus]:
        """How far each table has been read, by the name of its stream."""
        found = {}
        for table in self.tables:
            position = table.gaps.newest
            try:
                newest = table.reader.newest(1)
            except (SchemaError, Refused):  # it is not there any more
                newest = []
            behind = newest[0] - position if newest and position is not None else 0
            if table.is_outbox and newest:
                behind = len(table.reader.newest(BEHIND))
            elif newest and position in (None, LOWEST):
                behind = newest[0]
            source = str(table.entry.source)
            found[table.entry.name] = TableStatus(source, position, max(0, behind), len(table.gaps.ranges))
        return found

    def resume(self) -> None:
        """Goes on from the positions and gaps that are stored."""
        ranges: dict[str, list[tuple[int, int]]] = {}
        for source, first, last in self._gaps.rows():
            ranges.setdefault(source, []).append((int(first), int(last)))
        for table in self.tables:
            newest = self._pushes.positions.of(table.source)
            table.gaps = Gaps(newest if isinstance(newest, int) else None, ranges.get(table.source, ()))
            table.forget()
        self._caught_up = NEVER

    def register(self, name: str, declared: Schema | None, source: TableSource, rules: TimeRules) -> bool:
        """Registers a stream of a table; False if it is there already. Another one of this name raises `NameTaken`."""
        schema, left_out = schema_of(source, declared, self._runner.database)
        schema = changes_schema(schema) if source.changes else schema
        if source.changes and not self._runner.is_durable and self._runner.database.is_durable:
            raise SchemaError(
                f"the changes of {source.table} are noted by triggers, which would stay behind if the process ended: open the "
                "bridge without durable=False"
            )
        if self._is_registered(name, schema, source):
            return False
        self._runner.catalogue.free(name)
        if left_out:
            logging.getLogger("bridge").warning(
                "the stream %s has no attributes for the columns %s of %s; declared columns are cast: %s",
                name, ", ".join(left_out), source.table, declaration(name, schema, source),
            )  # fmt: skip
        try:
            with self._runner.transaction():
                entry = add_table_stream(self._runner, name, schema, source, rules)
                call = LoggedCall(0, 0, "stream", name, "", str(schema), self._runner.seq)
                call = call.with_options(source=source.as_json, **rules._asdict())
                self._runner.log.add(call, (), [name.lower()])
                self._begin(entry)
                if source.changes:
                    create_triggers(self._runner, entry)
        except Exception:
            self._tables.pop(name.lower(), None)
            self._runner.undo([], [name])
            raise
        return True

    def _is_registered(self, name: str, schema: Schema, source: TableSource) -> bool:
        entry = self._runner.catalogue.streams.get(name.lower()) if isinstance(name, str) else None
        if entry is None or not self._runner.is_durable:
            return False
        if entry.schema == schema and source.means(entry.source):
            return True
        there = f"({entry.schema})" + (f" FROM {entry.source}" if entry.source else "")
        raise NameTaken(
            f"there is a stream {name!r} already, {there}, and not ({schema}) FROM {source}; remove_stream removes it"
        )

    def _begin(self, entry: StreamEntry) -> None:
        """Settles where the rows of a new stream begin, inside the transaction."""
        assert entry.source is not None
        table = self._tables[entry.name.lower()] = self._table(entry, Gaps())
        since = entry.source.since
        if since == BEGINNING or table.is_outbox:
            return
        recent = table.reader.newest(RECENT) if since == NOW else [int(since)]
        newest = recent[-1] if recent else LOWEST
        ranges = list(between(recent))
        if since == NOW and 0 < len(recent) < RECENT:
            ranges.insert(0, (LOWEST, recent[0] - 1))
        receipts = self._receipts(table, GapChange(newest, [], ranges))
        for receipt in receipts:
            receipt.write()
            receipt.remember()
        table.forget()

    def forget(self, entry: StreamEntry) -> None:
        """A stream is removed: so are its position and its gaps."""
        if entry.source is None:
            return
        self._tables.pop(entry.name.lower(), None)
        if entry.reads is not None:
            drop_triggers(self._runner.database, entry.reads.table, entry.schema, entry.source)
            self._runner.drop_own(entry.reads.table)
        self._pushes.positions.remove(entry.name)
        if self._gaps.is_made:
            self._delete("", [entry.name])

    def drop_triggers(self) -> None:
        """The tables of the bridge are to be dropped: the triggers that write to them go first."""
        for entry in self._runner.catalogue.streams.values():
            if entry.source is not None and entry.reads is not None:
                drop_triggers(self._runner.database, entry.reads.table, entry.schema, entry.source)

    # Reading ------------------------------------------------------------------------------------------------------------

    def step(self) -> int:
        """Reads and pushes the next rows, a limited number of them; gives their number, 0 once all have been read.

        Raises `ProcessorError` if a processor raised; the rows are in.
        """
        begun = time.time_ns() // 1_000_000
        tables = self.tables
        try:
            for table in tables:
                table.read(self._pushes.sizes)
            taken = _next_rows(tables)
            if taken:
                self._push(taken)
        except BaseException:
            for table in tables:
                table.forget()
            raise
        if not taken:
            self._caught_up = begun
        return sum(len(batch.times) + len(batch.wrong) for _, batch in taken)

    def _push(self, taken: Sequence[tuple[WatchedTable, RowBatch]]) -> None:
        """Pushes rows, merged by time, in one transaction with the positions that have then been read."""
        receipts = list[Receipt]()
        for table, batch in taken:
            positions = sorted([*map(int, batch.positions), *(row.position for row in batch.wrong)])
            if table.is_outbox:
                receipts.append(_OutboxReceipt(self._runner, table, positions))
            else:
                receipts += self._receipts(table, table.gaps.change(positions))
            if batch.wrong:
                self._pushes.late_events.make()
                receipts.append(_WrongRows(self._pushes, table.entry, batch.wrong))
        oldest = self._runner.now if self._pushes.reorder is None else NEVER
        numbers = _numbers(taken, self._runner.seq)
        events = [
            batch.events(table.entry, found, oldest)
            for (table, batch), found in zip(taken, numbers, strict=True)
            if len(batch.times)
        ]
        if not events:
            with self._runner.transaction():
                for receipt in receipts:
                    receipt.write()
            for receipt in receipts:
                receipt.remember()
            self._pushes.call_late_processors()
            return
        times = [batch.times for _, batch in taken if len(batch.times)]
        first, last = min(int(each[0]) for each in times), max(int(each[-1]) for each in times)
        self.delayed += sum(int(ts < oldest) for each in times if each[0] < oldest for ts in each)
        count = sum(map(len, times))
        self._pushes.push(events, count, max(first, oldest), max(last, oldest), receipts)

    # State --------------------------------------------------------------------------------------------------------------

    def _table(self, entry: StreamEntry, gaps: Gaps) -> WatchedTable:
        return WatchedTable(self._runner.database, entry, gaps)

    def _receipts(self, table: WatchedTable, change: GapChange) -> list[Receipt]:
        """What is noted with rows of a table: its position, and its gaps."""
        receipts: list[Receipt] = [self._pushes.positions.receipt(table.source, change.newest)]
        if (change.removed or change.added) and self._runner.is_durable:
            self._gaps.make()
        receipts.append(_GapReceipt(self, table, change))
        return receipts

    def write(self, table: WatchedTable, change: GapChange) -> None:
        """Stores what has changed in the gaps of a table, inside the transaction of the push."""
        if not self._gaps.is_made:
            return
        if change.removed:
            self._delete(
                f" AND {self._gaps.quoted('first_one')} IN ({', '.join(map(str, change.removed))})", [table.source]
            )
        if change.added:
            self._gaps.insert_all([(table.source, first, last) for first, last in change.added])

    def apply(self, table: WatchedTable, change: GapChange) -> None:
        """Remembers what has changed in the gaps of a table, once the push has taken effect."""
        table.gaps.apply(change, time.monotonic())
        if surplus := table.gaps.surplus():
            logging.getLogger("bridge").warning(
                "%s has more than %s numbers without a row: rows that are still committed under the %s oldest are not read",
                table.entry.source, f"{GAPS:,}", len(surplus),
            )  # fmt: skip
            forgotten = GapChange(change.newest, surplus, [])
            with self._runner.transaction():
                self.write(table, forgotten)
            table.gaps.apply(forgotten, time.monotonic())

    def _delete(self, condition: str, values: Sequence[Any]) -> None:
        database = self._runner.database
        text = f"DELETE FROM {self._gaps.text} WHERE {self._gaps.quoted('source')} = {database.placeholder}{condition}"
        database.execute_bound(text, values)


def _next_rows(tables: Sequence[WatchedTable]) -> list[tuple[WatchedTable, RowBatch]]:
    """Takes, of the rows that wait, those that no further row may come before."""
    import numpy as np

    bounds = [until for table in tables if (until := table.until) is not None]
    bound = min(bounds) if bounds and len(tables) > 1 else None
    found: list[tuple[WatchedTable, RowBatch]] = []
    for table in tables:
        if not table.has_rows:
            continue
        times = table.waiting.times
        side: Literal["left", "right"] = "right" if table.until == bound else "left"
        count = len(times) if bound is None else int(np.searchsorted(np.asarray(times), bound, side))
        taken, table.waiting = table.waiting.parted(count)
        if count or taken.wrong:
            found.append((table, taken))
    return found


def _numbers(taken: Sequence[tuple[WatchedTable, RowBatch]], seq: int) -> list[Sequence[int]]:
    """The numbers of the rows of each batch after the event `seq`: in the order of time, then of tables, then of positions."""
    if len(taken) == 1:
        return [range(seq + 1, seq + 1 + len(taken[0][1].times))]
    import numpy as np

    times = np.concatenate([np.asarray(batch.times, "int64") for _, batch in taken])
    ranks = np.concatenate([np.full(len(batch.times), table.entry.rank) for table, batch in taken])
    numbers = np.empty(len(times), "int64")
    numbers[np.lexsort((ranks, times))] = np.arange(seq + 1, seq + 1 + len(times))
    ends = np.cumsum([len(batch.times) for _, batch in taken])
    return [part.tolist() for part in np.split(numbers, ends[:-1])]


class _WrongRows:
    """Rows that are not events: they are late events."""

    def __init__(self, pushes: PushQueue, entry: StreamEntry, rows: Sequence[TableRow]) -> None:
        self._pushes = pushes
        wrong_row = pushes.late_events.wrong_row
        self._late = [wrong_row(entry, row.ts, row.values, str(row.problem)) for row in rows]

    def write(self) -> None:
        self._pushes.late_events.store(self._late)

    def remember(self) -> None:
        self._pushes.report_late(self._late)


@dataclasses.dataclass
class _OutboxReceipt:
    """Rows of an outbox that have been pushed: they are removed."""

    runner: Runner
    table: WatchedTable
    positions: Sequence[int]

    def write(self) -> None:
        reads = self.table.reader.source
        quoted = self.runner.database.quoted
        listed = ", ".join(map(str, self.positions))
        self.runner.database.execute(f"DELETE FROM {quoted(reads.table)} WHERE {quoted(NUMBER)} IN ({listed})")

    def remember(self) -> None:
        pass


@dataclasses.dataclass
class _GapReceipt:
    watcher: Watcher
    table: WatchedTable
    change: GapChange

    def write(self) -> None:
        self.watcher.write(self.table, self.change)

    def remember(self) -> None:
        self.watcher.apply(self.table, self.change)
