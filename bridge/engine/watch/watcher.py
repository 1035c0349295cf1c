"""The watched tables of a bridge: new rows are merged by time, and pushed with their positions."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Sequence
from typing import Any

from bridge.engine.catalogue import StreamEntry
from bridge.engine.durable import LoggedCall
from bridge.engine.execution.runner import Runner
from bridge.engine.execution.transactions import Receipt
from bridge.engine.late_events import WRONG
from bridge.engine.own_table import OwnTable
from bridge.engine.queue.clock import wall_clock
from bridge.engine.queue.push_queue import PushQueue
from bridge.engine.watch.batches import RowBatch
from bridge.engine.watch.changes import NUMBER, add_table_stream, create_triggers, drop_triggers, schema_of_stream
from bridge.engine.watch.columns import TableColumns
from bridge.engine.watch.gaps import GAPS, LOWEST, GapChange, Gaps, between
from bridge.engine.watch.watched_table import TableStatus, WatchedTable, next_rows, numbers_of
from bridge.errors import SchemaError
from bridge.query.table_source import BEGINNING, NOW, TableSource
from bridge.query.time_rules import TimeRules
from windows.databases import Database
from windows.schema import Schema
from windows.times import BEGINNING as EARLIEST

GAPS_TABLE = "cep_gaps"

RECENT = 10_000
"""With SINCE NOW, the number of newest rows among which gaps may still be filled."""


class Watcher:
    """Reads the watched tables of a bridge."""

    def __init__(self, runner: Runner, pushes: PushQueue) -> None:
        self._runner, self._pushes = runner, pushes
        self._tables: dict[str, WatchedTable] = {}
        self._gaps = OwnTable(runner, GAPS_TABLE, "source VARCHAR, first_one BIGINT, last_one BIGINT")
        self._caught_up = EARLIEST
        self._version = VersionCheck(runner.database)
        self.delayed = 0
        """The number of rows whose time was before the newest time seen; they were given that time instead."""

    @property
    def horizon(self) -> int | None:
        """The time by the clock, in milliseconds, up to which committed rows have been pushed; None without tables."""
        return self._caught_up if any(entry.source for entry in self._runner.catalogue.streams.values()) else None

    @property
    def tables(self) -> list[WatchedTable]:
        """The watched tables."""
        streams = self._runner.catalogue.streams
        for name in [name for name, table in self._tables.items() if streams.get(name) is not table.entry]:
            del self._tables[name]
        for name, entry in streams.items():
            if entry.source is not None and name not in self._tables:
                self._tables[name] = self._table(entry, Gaps())
        return list(self._tables.values())

    def status(self) -> dict[str, TableStatus]:
        """How far each table has been read, by the name of its stream."""
        return {table.entry.name: table.status() for table in self.tables}

    def resume(self) -> None:
        """Continues from the stored positions and gaps."""
        ranges: dict[str, list[tuple[int, int]]] = {}
        for source, first, last in self._gaps.rows():
            ranges.setdefault(source, []).append((int(first), int(last)))
        for table in self.tables:
            newest = self._pushes.positions.of(table.source)
            table.gaps = Gaps(newest if isinstance(newest, int) else None, ranges.get(table.source, ()))
            table.forget()
        self._caught_up = EARLIEST
        self._version = VersionCheck(self._runner.database)

    def register(self, name: str, declared: Schema | None, source: TableSource, rules: TimeRules) -> bool:
        """Registers a stream of a table; False if it is registered already. Raises `NameTaken` for a different one."""
        if source.changes and not self._runner.database.identity:
            raise SchemaError(
                f"the changes of {source.table} are recorded by triggers, which {self._runner.database.title} does not have: "
                "FROM TABLE reads its new rows"
            )
        columns = TableColumns(source, self._runner.database)
        known = self._runner.catalogue.streams.get(name.lower()) if isinstance(name, str) else None
        schema, is_kept = schema_of_stream(columns, name, declared, source, known)
        if source.changes and not self._runner.is_durable and self._runner.database.is_durable:
            raise SchemaError(
                f"the changes of {source.table} are recorded by triggers, which would stay behind if the process ended: open the "
                "bridge without durable=False"
            )
        if self._runner.catalogue.is_registered(name, schema, source):
            if is_kept:
                logging.getLogger("bridge").warning(
                    "the columns of %s have changed, the stream %s keeps the earlier ones: %s",
                    source.table,
                    name,
                    schema,
                )
            return False
        self._runner.catalogue.free(name)
        if declared is None and (advice := columns.advice(name)) is not None:
            logging.getLogger("bridge").warning(advice)
        with self._runner.transaction():
            self._remember()
            self._runner.remember_definitions()
            entry = add_table_stream(self._runner, name, schema, source, rules)
            call = LoggedCall(0, 0, "stream", name, "", str(schema), self._runner.seq)
            call = call.with_options(source=source.as_json, **rules._asdict())
            self._runner.log.add(call, (), [name.lower()])
            self._begin(entry)
            if source.changes:
                create_triggers(self._runner, entry)
        return True

    def _remember(self) -> None:
        """Has the present tables restored if the current transaction does not take effect."""
        self._runner.restored_by(functools.partial(setattr, self, "_tables", dict(self._tables)))

    def _begin(self, entry: StreamEntry) -> None:
        """Determines where the rows of a new stream begin, inside the transaction."""
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
        self._pushes.note(self._receipts(table, GapChange(newest, [], ranges)))
        table.forget()

    def forget(self, entry: StreamEntry) -> None:
        """Removes the position and the gaps of a stream that is removed, inside a transaction."""
        if entry.source is None:
            return
        self._remember()
        self._tables.pop(entry.name.lower(), None)
        if entry.reads is not None:
            drop_triggers(self._runner.database, entry.reads.table, entry.source)
            self._runner.drop_own(entry.reads.table)
        self._pushes.positions.remove(entry.name)
        if self._gaps.exists:
            self._gaps.delete(source=entry.name)

    def drop_triggers(self) -> None:
        """Removes the triggers that write to the bridge's tables, before these are dropped."""
        for entry in self._runner.catalogue.streams.values():
            if entry.source is not None and entry.reads is not None:
                drop_triggers(self._runner.database, entry.reads.table, entry.source)

    # Reading ------------------------------------------------------------------------------------------------------------

    def step(self) -> int:
        """Reads and pushes the next rows, up to a limit. Returns their number; 0 after all have been read.

        Raises `ProcessorError` if a processor raised; the rows were pushed nevertheless.
        """
        begun = wall_clock()
        tables = self.tables
        taken: list[tuple[WatchedTable, RowBatch]] = []
        try:
            if not self._version.is_unchanged(tables):
                for table in tables:
                    table.read(self._pushes.sizes)
                taken = next_rows(tables)
            if taken:
                self._version.forget()
                self._push(taken)
        except BaseException:
            for table in tables:
                table.forget()
            self._version.forget()
            raise
        if not taken:
            self._caught_up = begun
        return sum(len(batch.times) + len(batch.wrong) for _, batch in taken)

    def _push(self, taken: Sequence[tuple[WatchedTable, RowBatch]]) -> None:
        """Pushes rows, merged by time, in one transaction with the new positions."""
        receipts = list[Receipt]()
        for table, batch in taken:
            positions = sorted([*map(int, batch.positions), *(row.position for row in batch.wrong)])
            if table.is_outbox:
                receipts.append(Receipt(functools.partial(self._remove, table, positions)))
            else:
                receipts += self._receipts(table, table.gaps.change(positions))
            if batch.wrong:
                late_event = functools.partial(self._pushes.late_events.event, table.entry, kind=WRONG)
                late = [late_event(row.ts, row.values, problem=str(row.problem)) for row in batch.wrong]
                receipts.append(self._pushes.late_receipt(late))
        oldest = self._runner.now if self._pushes.reorder is None else EARLIEST
        numbers = numbers_of(taken, self._runner.seq)
        events = [
            batch.events(table.entry, found, oldest)
            for (table, batch), found in zip(taken, numbers, strict=True)
            if len(batch.times)
        ]
        if not events:
            self._pushes.note(receipts)
            self._pushes.calls.call_late_processors()
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
        """The receipts stored with the rows of a table: its position and its gaps."""
        if (change.removed or change.added) and self._runner.is_durable:
            self._gaps.create()
        gaps = Receipt(functools.partial(self._write, table, change), functools.partial(self._apply, table, change))
        return [self._pushes.positions.receipt(table.source, change.newest), gaps]

    def _remove(self, table: WatchedTable, positions: Sequence[int]) -> None:
        """Removes rows of an outbox, inside the transaction that pushes them."""
        quoted = self._runner.database.quoted
        outbox, listed = quoted(table.reader.source.table), ", ".join(map(str, positions))
        self._runner.database.execute(f"DELETE FROM {outbox} WHERE {quoted(NUMBER)} IN ({listed})")

    def _write(self, table: WatchedTable, change: GapChange) -> None:
        """Stores the changes of a table's gaps, inside the transaction of the push."""
        if not self._gaps.exists:
            return
        if change.removed:
            listed = ", ".join(map(str, change.removed))
            self._gaps.delete(f"{self._gaps.quoted('first_one')} IN ({listed})", source=table.source)
        if change.added:
            self._gaps.insert(*((table.source, first, last) for first, last in change.added))

    def _apply(self, table: WatchedTable, change: GapChange) -> None:
        """Remembers the changes of a table's gaps, after the push has taken effect."""
        table.gaps.apply(change, time.monotonic())
        if surplus := table.gaps.surplus():
            logging.getLogger("bridge").warning(
                "%s has more than %s numbers without a row: rows that are still committed under the %s oldest are not read",
                table.entry.source, f"{GAPS:,}", len(surplus),
            )  # fmt: skip
            forgotten = GapChange(change.newest, surplus, [])
            with self._runner.transaction():
                self._write(table, forgotten)
            table.gaps.apply(forgotten, time.monotonic())


LONGEST = 1.0
"""The seconds after which tables are read again anyway, as the rows of a view may depend on the time."""


class VersionCheck:
    """Compares the version of a database with the version before its tables were last read.

    >>> from windows.databases import open_database
    >>> database = open_database("sqlite://")
    >>> version = VersionCheck(database)
    >>> version.is_unchanged(["orders"]), version.is_unchanged(["orders"]), version.is_unchanged(["orders", "payments"])
    (False, True, False)
    >>> database.execute("CREATE TABLE orders (id INTEGER)")
    >>> version.is_unchanged(["orders", "payments"])
    False
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: Any = None
        self._at = 0.0

    def is_unchanged(self, tables: Sequence[object]) -> bool:
        """Whether these tables were read after the last commit. If not, the caller reads them now, or calls `forget`."""
        version = self._database.data_version() if tables else None
        now, known = time.monotonic(), None if version is None else (version, list(map(id, tables)))
        if known is not None and known == self._known and now - self._at < LONGEST:
            return True
        self._known, self._at = known, now
        return False

    def forget(self) -> None:
        """Forgets the version, as the tables were not read to their ends."""
        self._known = None
