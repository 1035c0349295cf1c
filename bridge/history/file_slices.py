"""Slices of a history in files that the database reads itself."""

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
"""The approximate number of events in a slice that is independent of others."""

EVENTS_IN_SEQUENCE = 1_000_000
"""The approximate number of events in a slice that matchers continue after.

More take more memory, and are no faster.
"""


NUMBERS = 2**63
"""The numbers of the events in a slice are below this one."""


@dataclasses.dataclass(frozen=True)
class FileSlice:
    """A slice of the files of each stream; see `bridge.history.slices.Slice`.

    `rows`: the events. `back`: how far their results look back; None: the previous slice has left the rows that they
    need. `is_alone`: its bridge computes no other slice. `read`: the number of rows of each stream up to the end of the
    slice, without those of earlier slices.
    """

    files: Mapping[str, ParquetInPlace]
    rows: Stretch
    back: int | None
    first: int | None
    until: int | None
    last: bool
    is_alone: bool = False
    read: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def _begin(self) -> int | None:
        return self.first if self.first is None or self.back is None else self.first - self.back - 1

    def overlaps(self) -> bool:
        return False

    def chunks(self, cep: Bridge, begin: int | None) -> Iterator[Chunk]:
        if not self.is_alone:
            raise StateNeeded
        ((stream, file),) = self.files.items()
        rows = session_of(cep).database.fetch_arrow(
            f"SELECT * FROM ({file.select(begin, self.rows.last)}) ORDER BY seq"
        )
        assert rows is not None  # this database reads the file
        for start in range(0, rows.num_rows, ROWS):
            yield {stream: rows.slice(start, ROWS).drop_columns(["seq"])}

    def whole(self, cep: Bridge) -> HistoryEvents:
        first = self.rows.first if self._begin is None else self._begin
        texts = {stream: file.select(self._begin, self.rows.last) for stream, file in self.files.items()}
        return HistoryEvents(_numbered(texts, self.files, first), self.rows.rows, first, self.rows.last)


def file_slices(sources: Mapping[str, EventSource], back: int | None, end: int | None) -> Iterator[FileSlice] | None:
    """The slices of the events up to the timestamp `end`; None if they are not in files that the database can read.

    `back`: how far results look back; None: each slice continues from the previous one.
    """
    if len(sources) != 1 and back is None:
        return None  # a slice would have to number its events after those of the slices before it
    files: dict[str, ParquetInPlace] = {}
    for stream, source in sources.items():
        if (file := source.in_place()) is None:
            return None
        files[stream] = file
    parts = list(cuts(_by_time(files, end), EVENTS_IN_SEQUENCE if back is None else EVENTS))
    if back is not None and any(part.last - part.first < 2 * back for part in parts[:-1]):
        return None  # most of a slice would be computed twice
    lasting = max((part.last - part.first for part in parts), default=0) + (back or 0)
    if len(files) > 1 and (lasting + 2) * _numbers_per_time(files) > NUMBERS:
        return None
    for source in sources.values():
        source.begin_in_place()
    return _slices(files, parts, back)


def _by_time(files: Mapping[str, ParquetInPlace], end: int | None) -> list[Stretch]:
    """The stretches of all files up to the timestamp `end`, in the order of their ends.

    The first one has the earliest begin.
    """
    found = [stretch for file in files.values() for stretch in file.stretches if end is None or stretch.first <= end]
    found = [stretch if end is None else dataclasses.replace(stretch, last=min(end, stretch.last)) for stretch in found]
    found.sort(key=lambda stretch: stretch.last)
    if found:
        found[0] = dataclasses.replace(found[0], first=min(stretch.first for stretch in found))
    return found


def _slices(files: Mapping[str, ParquetInPlace], parts: list[Stretch], back: int | None) -> Iterator[FileSlice]:
    read = dict.fromkeys(files, 0)
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        first = part.first if place else None
        until = {stream: file.rows_until(None if is_last else part.last) for stream, file in files.items()}
        more = {stream: rows - read[stream] for stream, rows in until.items()}
        yield FileSlice(files, part, back, first, None if is_last else part.last, is_last, read=more)
        read = until


def _numbered(texts: Mapping[str, str], files: Mapping[str, ParquetInPlace], first: int) -> Mapping[str, str]:
    """SELECTs that number the events of all streams: by time, then by stream, then in the order of the stream's rows.

    `first` is the earliest timestamp.
    """
    if len(texts) == 1:
        return texts
    step = _numbers_per_time(files)
    return {
        stream: f"SELECT * REPLACE ((ts - ({first})) * {step} + {place * (step // len(files))} + seq AS seq) FROM ({text})"
        for place, (stream, text) in enumerate(texts.items())
    }


def _numbers_per_time(files: Mapping[str, ParquetInPlace]) -> int:
    """The number of event numbers per timestamp: for each stream one more than the rows of the longest stream."""
    return len(files) * (1 + max(file.rows_until(None) for file in files.values()))
