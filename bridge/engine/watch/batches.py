"""Rows read from a watched table: as tuples if there are few, as Arrow if there are many."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from bridge.engine.catalogue import StreamEntry
from bridge.engine.intake import EventBatch, batch_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class TableRow(NamedTuple):
    """A row: its position, its time in milliseconds, and its values as the database takes them.

    `problem`: why the row is not an event; then the values are those of the driver.
    """

    position: int
    ts: int
    values: Sequence[Any]
    problem: str | None = None


class RowBatch(Protocol):
    """Rows of one table in the order of time; rows of equal times are in the order of their positions."""

    @property
    def times(self) -> Any:
        """The times in milliseconds, as a list or an array."""

    @property
    def positions(self) -> Any:
        """The positions in the order of the rows, as a list or an array."""

    @property
    def wrong(self) -> Sequence[TableRow]:
        """The rows that are not events; `times` does not include them."""

    def split_at(self, count: int) -> tuple[Self, Self]:
        """The first `count` rows, and the others. The rows that are not events are among the first."""

    def events(self, stream: StreamEntry, numbers: Sequence[int], oldest: int) -> EventBatch:
        """The rows as events with these numbers; a time before `oldest` becomes `oldest`."""


@dataclasses.dataclass
class TupleBatch:
    """Few rows, as tuples."""

    rows: list[TableRow]
    wrong: list[TableRow] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, rows: Sequence[TableRow]) -> Self:
        """Sorts rows that are in the order of their positions by time.

        >>> TupleBatch.of([TableRow(1, 20, []), TableRow(2, 10, []), TableRow(3, 0, [], "no time")]).positions
        [2, 1]
        """
        right = sorted((row for row in rows if row.problem is None), key=lambda row: (row.ts, row.position))
        return cls(right, [row for row in rows if row.problem is not None])

    @property
    def times(self) -> list[int]:
        return [row.ts for row in self.rows]

    @property
    def positions(self) -> list[int]:
        return [row.position for row in self.rows]

    def split_at(self, count: int) -> tuple[TupleBatch, TupleBatch]:
        return TupleBatch(self.rows[:count], self.wrong), TupleBatch(self.rows[count:])

    def events(self, stream: StreamEntry, numbers: Sequence[int], oldest: int) -> EventBatch:
        pairs = zip(self.rows, numbers, strict=True)
        rows = [(max(row.ts, oldest), number, *row.values) for row, number in pairs]
        return EventBatch(stream, rows=rows, positions=self.positions)


@dataclasses.dataclass
class ArrowBatch:
    """Many rows, as an Arrow table of the attributes in the types of their stream."""

    positions: np.ndarray
    times: np.ndarray
    table: pa.Table
    wrong: Sequence[TableRow] = ()

    @classmethod
    def of(cls, positions: np.ndarray, times: np.ndarray, table: pa.Table) -> Self:
        """Sorts rows that are in the order of their positions by time."""
        import numpy as np

        if bool((times[1:] < times[:-1]).any()):
            order = np.argsort(times, kind="stable")
            positions, times, table = positions[order], times[order], table.take(order)
        return cls(positions, times, table)

    def split_at(self, count: int) -> tuple[ArrowBatch, ArrowBatch]:
        first = ArrowBatch(self.positions[:count], self.times[:count], self.table.slice(0, count))
        return first, ArrowBatch(self.positions[count:], self.times[count:], self.table.slice(count))

    def events(self, stream: StreamEntry, numbers: Sequence[int], oldest: int) -> EventBatch:
        import numpy as np
        import pyarrow as pa

        times = np.maximum(self.times, oldest)
        table = self.table.add_column(0, "ts", pa.array(times)).add_column(1, "seq", pa.array(np.asarray(numbers)))
        return dataclasses.replace(batch_of(stream, table), positions=self.positions.tolist())
