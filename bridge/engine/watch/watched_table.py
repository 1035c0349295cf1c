"""A watched table: the rows that were read, the rows that come next, and the merging of several tables by time."""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from bridge.engine.catalogue import StreamEntry
from bridge.engine.intake import ChunkSizes
from bridge.engine.queue.clock import wall_clock
from bridge.engine.watch.batches import RowBatch, TableRow, TupleBatch
from bridge.engine.watch.gaps import LOWEST, Gaps
from bridge.engine.watch.reader import RowReader
from bridge.errors import SchemaError
from windows.databases import Database, Refused
from windows.times import BEGINNING as EARLIEST

COMPARED = 60.0
"""The seconds between two checks of whether the numbers of a table have begun again."""

BEHIND = 1_000_000
"""The greatest number of rows that are counted in an outbox."""


class TableStatus(NamedTuple):
    """How far a table has been read.

    table: The table or outbox. position: The greatest position that was read. behind: The difference from there to the
    newest row's number; for an outbox the number of its rows. gaps: The gaps below the position, in which rows may
    still be committed.

    >>> print(TableStatus("TABLE orders (POSITION id)", 17, 3, 1))
    TABLE orders (POSITION id): read to 17, 3 behind, 1 gaps
    """

    table: str
    position: int | None
    behind: int
    gaps: int

    def __str__(self) -> str:
        return f"{self.table}: read to {self.position}, {self.behind} behind, {self.gaps} gaps"


@dataclasses.dataclass
class WatchedTable:
    """A stream of a table, and how far the table has been read.

    `waiting`: rows that were read but not pushed, as rows of another table may come before them. `read_to`: the
    greatest position that was read.
    """

    database: Database
    entry: StreamEntry
    gaps: Gaps
    waiting: RowBatch = dataclasses.field(default_factory=lambda: TupleBatch([]))
    read_to: int | None = None
    is_read: bool = False
    """Whether there were no further rows at the last reading."""
    gaps_read_at: int = EARLIEST
    """When rows in gaps were last read, in milliseconds."""
    compared_at: float = 0.0
    """When the table's numbers were last compared with the numbers read, in seconds."""

    @functools.cached_property
    def reader(self) -> RowReader:
        """The statements that read the table. Raises `SchemaError` if it lacks the columns."""
        return RowReader(self.database, self.entry)

    @property
    def source(self) -> str:
        """The source name under which the position is stored."""
        return self.entry.name

    @property
    def is_outbox(self) -> bool:
        """Whether it is an outbox, whose rows are removed when they are pushed: every row is still to be read."""
        return self.entry.reads is not None

    @property
    def until(self) -> int | None:
        """The time before which no further row is expected; None if all rows were read."""
        return None if self.is_read or not len(self.waiting.times) else int(self.waiting.times[-1])

    def read(self, sizes: ChunkSizes) -> None:
        """Reads the next rows and the rows in gaps, unless some rows wait.

        Raises `SchemaError` if the table no longer exists or lacks the columns.
        """
        if self.has_rows:
            return
        try:
            self.waiting = self._next(sizes)
        except Refused:
            self.__dict__.pop("reader", None)
            assert self.reader
            raise

    def _next(self, sizes: ChunkSizes) -> RowBatch:
        if not self.is_read and (batch := self.reader.arrow_after(self.read_to, sizes.arrow)) is not None:
            if self._may_overtake(batch.times) and (rows := self._rows_in_gaps()):
                return TupleBatch.of(rows)  # the others are read again later
            self.is_read = len(batch.positions) < sizes.arrow
            if not self.is_outbox:
                self.read_to = int(batch.positions.max())
            return batch
        rows = self.reader.rows_after(self.read_to, sizes.rows)
        self.is_read = len(rows) < sizes.rows
        if rows and not self.is_outbox:
            self.read_to = rows[-1].position
        if self.is_read or self._may_overtake(sorted(row.ts for row in rows)):
            rows += self._rows_in_gaps()
        if not rows:
            self._compare_numbers()
        return TupleBatch.of(rows)

    def _may_overtake(self, times: Any) -> bool:
        """Whether pushing rows of these times, in order, may make a row late that is committed into a gap in time.

        A row that was not there when gaps were last read is older than that reading by the lateness at most. So rows
        older than the last reading of the gaps, such as those of a history, do not make such a row late.
        """
        return self.reader.source.timestamp is not None and len(times) > 0 and int(times[-1]) > self.gaps_read_at

    def _rows_in_gaps(self) -> list[TableRow]:
        """The rows that were committed into gaps, of the gaps that are due to be read again."""
        self.gaps_read_at = wall_clock()
        due = self.gaps.due(time.monotonic())
        return list(self.reader.rows_in(due)) if due else []

    def _compare_numbers(self) -> None:
        """Warns of rows that cannot be read: rows without a number, and rows whose numbers are used a second time,
        which is likely if all numbers are before the newest that was read.
        """
        if time.monotonic() - self.compared_at < COMPARED or self.is_outbox:
            return
        self.compared_at = time.monotonic()
        newest, read = self.reader.newest(1), self.gaps.newest
        if newest and read is not None and newest[0] < read:
            logging.getLogger("bridge").warning(
                "the newest row of %s has the position %s, and %s was read before: if the numbers have begun anew, rows up to "
                "there are not read; declared under another name, with SINCE, the stream begins anew (in Python remove_stream "
                "and register_stream(since=…))",
                self.reader.source.table, newest[0], read,
            )  # fmt: skip
        if self.reader.has_rows_without_position():
            logging.getLogger("bridge").warning(
                "%s has rows whose position %s is NULL: they are not read",
                self.reader.source.table,
                self.reader.source.position,
            )

    @property
    def has_rows(self) -> bool:
        """Whether any rows wait."""
        return len(self.waiting.times) > 0 or len(self.waiting.wrong) > 0

    def forget(self) -> None:
        """Forgets the rows that wait; they will be read again."""
        self.waiting, self.read_to, self.is_read, self.gaps_read_at = TupleBatch([]), self.gaps.newest, False, EARLIEST

    def status(self) -> TableStatus:
        """How far the table has been read."""
        position = self.gaps.newest
        try:
            behind = self.reader.count(BEHIND) if self.is_outbox else self._numbers_behind(position)
        except (SchemaError, Refused):  # the table no longer exists
            behind = 0
        return TableStatus(str(self.entry.source), position, max(0, behind), len(self.gaps.ranges))

    def _numbers_behind(self, position: int | None) -> int:
        newest = self.reader.newest(1)
        return newest[0] - (position if position not in (None, LOWEST) else 0) if newest else 0


def next_rows(tables: Sequence[WatchedTable]) -> list[tuple[WatchedTable, RowBatch]]:
    """Takes the waiting rows that no further row may precede."""
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
        taken, table.waiting = table.waiting.split_at(count)
        if count or taken.wrong:
            found.append((table, taken))
    return found


def numbers_of(taken: Sequence[tuple[WatchedTable, RowBatch]], seq: int) -> list[Sequence[int]]:
    """The numbers of each batch's rows after the event `seq`: in the order of time, then tables, then positions."""
    if len(taken) == 1:
        return [range(seq + 1, seq + 1 + len(taken[0][1].times))]
    import numpy as np

    times = np.concatenate([np.asarray(batch.times, "int64") for _, batch in taken])
    ranks = np.concatenate([np.full(len(batch.times), table.entry.rank) for table, batch in taken])
    numbers = np.empty(len(times), "int64")
    numbers[np.lexsort((ranks, times))] = np.arange(seq + 1, seq + 1 + len(times))
    ends = np.cumsum([len(batch.times) for _, batch in taken])
    return [part.tolist() for part in np.split(numbers, ends[:-1])]
