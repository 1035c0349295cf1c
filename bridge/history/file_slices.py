"""Slices of a history in a file that the database reads itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bridge.engine.bridge import Bridge
from bridge.engine.history_push import HistoryEvents
from bridge.engine.session import session_of
from bridge.history.slices import StateNeeded
from bridge.sources.in_place import ParquetInPlace, Stretch, cuts
from bridge.sources.merge import Chunk
from bridge.sources.tables import ROWS

if TYPE_CHECKING:
    from bridge.sources.source import EventSource

EVENTS = 3_000_000
"""A slice that is by itself has about as many events."""

EVENTS_IN_SEQUENCE = 1_000_000
"""A slice after which matchers go on with the next one has about as many: more take more memory, and are no faster."""


@dataclasses.dataclass(frozen=True)
class FileSlice:
    """A slice of a file; see `bridge.history.slices.Slice`. `rows`: the events; `back`: how far their results look back.

    Where `back` is None, the slice before it has left what they look back at. `is_alone`: its bridge computes no other slice.
    """

    stream: str
    file: ParquetInPlace
    rows: Stretch
    back: int | None
    first: int | None
    until: int | None
    last: bool
    is_alone: bool = False

    @property
    def _begin(self) -> int | None:
        return self.first if self.first is None or self.back is None else self.first - self.back - 1

    def overlaps(self) -> bool:
        return False

    def chunks(self, cep: Bridge, begin: int | None) -> Iterator[Chunk]:
        if not self.is_alone:
            raise StateNeeded
        rows = session_of(cep).database.fetch_arrow(
            f"SELECT * FROM ({self.file.select(begin, self.rows.last)}) ORDER BY seq"
        )
        assert rows is not None  # the database is one that reads the file
        for start in range(0, rows.num_rows, ROWS):
            yield {self.stream: rows.slice(start, ROWS).drop_columns(["seq"])}

    def whole(self, cep: Bridge) -> HistoryEvents:
        first = self.rows.first if self._begin is None else self._begin
        text = self.file.select(self._begin, self.rows.last)
        return HistoryEvents({self.stream: text}, self.rows.rows, first, self.rows.last)


def file_slices(sources: Mapping[str, EventSource], back: int | None, end: int | None) -> Iterator[FileSlice] | None:
    """The slices of the events up to the timestamp `end`; None if they are not in one file that a database can read.

    `back`: how far results look back; None where each slice goes on from the one before it.
    """
    if len(sources) != 1:
        return None
    ((stream, source),) = sources.items()
    file = source.in_place()
    if file is None:
        return None
    stretches = [stretch for stretch in file.stretches if end is None or stretch.first <= end]
    if end is not None and stretches:
        stretches[-1] = dataclasses.replace(stretches[-1], last=min(end, stretches[-1].last))
    parts = list(cuts(stretches, EVENTS_IN_SEQUENCE if back is None else EVENTS))
    if back is not None and any(part.last - part.first < 2 * back for part in parts[:-1]):
        return None  # most of a slice would be computed twice
    return _slices(stream, file, parts, back)


def _slices(stream: str, file: ParquetInPlace, parts: list[Stretch], back: int | None) -> Iterator[FileSlice]:
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        first = part.first if place else None
        yield FileSlice(stream, file, part, back, first, None if is_last else part.last, is_last)
