"""Live machines: steps of a plan that run a pattern over the rows of each push and write results into a table."""

from __future__ import annotations

import abc
import dataclasses
import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import pyarrow as pa

from bridge.patterns.live.statements import Arrivals, Rows
from windows.databases import Database
from windows.databases.base import CLOCK

Item = TypeVar("Item")
Report = TypeVar("Report")


class Deadlines(Generic[Item]):
    """A queue of items with the times (ms) at which they are due.

    Items of equal times stay in the order of their addition.

    >>> deadlines = Deadlines()
    >>> for time, item in ((7, "b"), (5, "a"), (7, "c")):
    ...     deadlines.add(time, item)
    >>> deadlines.next, [deadlines.pop() for _ in range(3)], deadlines.next
    (5, ['a', 'b', 'c'], None)
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Item]] = []
        self._added = 0

    @property
    def next(self) -> int | None:
        """The earliest time at which an item is due; None without items."""
        return self._heap[0][0] if self._heap else None

    def add(self, time: int, item: Item) -> None:
        self._added += 1
        heapq.heappush(self._heap, (time, self._added, item))

    def pop(self) -> Item:
        """Removes the item that is due first."""
        return heapq.heappop(self._heap)[2]


class MachineState(abc.ABC, Generic[Report]):
    """The state of a machine in memory, which `restore` reads from the tables."""

    @abc.abstractmethod
    def next_deadline(self) -> int | None:
        """The next time (ms) at which something is reported or decided without a row."""

    @abc.abstractmethod
    def due(self, deadline: int) -> Iterator[Report]:
        """The reports of that time. The deadline is removed."""

    def elapse(self, now: int) -> Iterator[Report]:
        """The reports that time alone causes up to `now`, each at its own time."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            yield from self.due(deadline)


@dataclasses.dataclass
class CheckpointSchedule:
    """When to write the next checkpoint: after `least` rows, or later if the last checkpoint had more lines."""

    least: int
    lines: int = 0
    """The number of lines in the last checkpoint."""
    rows: int = 0
    """The number of rows since the last checkpoint."""

    @property
    def is_due(self) -> bool:
        return self.rows >= max(self.least, self.lines)

    def restart(self, lines: int) -> None:
        """Restarts the count after a checkpoint with this number of lines."""
        self.rows, self.lines = 0, lines


@dataclasses.dataclass
class LiveMachine(abc.ABC):
    """A machine of one continuous query; a step of its operator (`rewrite.plan.Call`).

    Its tables are the truth: `restore` builds the memory of a machine from them, as it was before the rows of this
    push, and `checkpoint` writes the data that `restore` needs beside the retained rows. So after `forget` (a failed
    push was rolled back, or the process is new) the next `run` reports the same as an undisturbed machine.
    """

    table: str
    """The name of the result table."""
    arrivals: tuple[Arrivals, ...] = dataclasses.field(default=(), kw_only=True)
    """The SELECTs of a push, one per table of rows; empty if a row's values depend on later rows, or on computed values
    of earlier rows.
    """

    def __post_init__(self) -> None:
        self._is_restored = False

    @property
    def is_restored(self) -> bool:
        """Whether the machine has its memory, which it gets with the first push."""
        return self._is_restored

    def next_deadline(self, database: Database, now: int) -> int | None:
        """The next time (ms) at which time alone may decide something; also None while it is not restored."""
        if not self._is_restored:
            return None
        state: MachineState[Any] = vars(self)["_state"]
        return state.next_deadline()

    @abc.abstractmethod
    def restore(self, database: Database) -> None:
        """Builds the memory from the tables, without the rows of this push."""

    @abc.abstractmethod
    def checkpoint(self, database: Database) -> None:
        """Writes into the tables the part of the memory that `restore` needs."""

    @abc.abstractmethod
    def advance(
        self, database: Database, now: int, seq: int, final: bool, arrived: Sequence[Rows] | None = None
    ) -> pa.Table | None:
        """Processes the rows of this push and the time up to `now`.

        Returns the rows for the result table, if there are any.

        `arrived`: the rows of the SELECTs in `arrivals`; None: they are read from the tables.
        """

    @property
    @abc.abstractmethod
    def is_checkpoint_due(self) -> bool:
        """Whether the current push ends with a checkpoint."""

    @abc.abstractmethod
    def explained(self, pretty: Callable[[str], str]) -> str:
        """A description of the machine, and the statements whose rows it reads."""

    def take(self, database: Database, arrived: Sequence[Rows], now: int, seq: int) -> pa.Table | None:
        """Processes a single event, for which the SELECTs of `arrivals` give these rows; returns the results.

        The rows, the results and the lines of `progress` are not stored in tables yet.
        """
        self.ensure_restored(database)
        return self.advance(database, now, seq, False, arrived)

    def progress(self) -> Rows:
        """The lines of the last push to store, in addition to its rows and results."""
        return []

    def write_progress(self, database: Database, lines: Rows) -> None:  # noqa: B027 (most have none)
        """Stores the lines of `progress`."""

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Processes this push, whose newest time and event are `now` and `seq`. `final`: no push comes after it."""
        self.ensure_restored(database)
        results = self.advance(database, now, seq, final)
        if results is not None:
            database.append(database.quoted(self.table), results)
        self.write_progress(database, self.progress())
        if self.is_checkpoint_due:
            self.checkpoint(database)

    def ensure_restored(self, database: Database) -> None:
        if not self._is_restored:
            self.restore(database)
            self._is_restored = True

    def forget(self) -> None:
        """Drops the memory, as it no longer agrees with the tables."""
        self._is_restored = False


def program_listing(program: Any) -> str:
    """A program as comment lines of an explanation."""
    return "\n".join(["-- its program", *(f"--   {line}" for line in str(program).splitlines())])


def time_before(database: Database) -> int:
    """The time (ms) that had been reached before this push."""
    ((before,),) = database.fetch(
        f"SELECT {database.quoted('before')} FROM {database.quoted(database.own_name(CLOCK))}"
    )
    return int(before)
