"""Slices of time of Parquet files that executors read themselves. No event passes through Spark, nothing is sorted."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from bridge.engine.bridge import Bridge
from bridge.history.file_slices import FileSlice
from bridge.history.slices import End, Worker
from bridge.sources.in_place import ParquetInPlace, Stretch
from bridge.spark.cut import QUANTILE_COUNT, History
from bridge.spark.task import PieceTask


def history_of_files(files: ParquetInPlace, end: int | None) -> History | None:
    """The figures of the events up to the timestamp `end`; None if there are none.

    Quantiles between known timestamps are estimates, and so is the number of events if `end` is between them.
    """
    stretches = [stretch for stretch in files.stretches if end is None or stretch.first <= end]
    if not stretches:
        return None
    counts = np.cumsum([0, *(stretch.rows for stretch in stretches)])
    # the timestamps at both ends of each stretch, by row number
    rows = np.column_stack([counts[:-1], counts[1:] - 1]).ravel()
    times = np.array([(stretch.first, stretch.last) for stretch in stretches]).ravel()
    first, last = stretches[0].first, stretches[-1].last if end is None else end
    at = np.interp(np.arange(QUANTILE_COUNT) / QUANTILE_COUNT * counts[-1], rows, times)
    return History(int(counts[-1]), first, last, tuple(int(time) for time in at if time <= last))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileTask(PieceTask):
    """The computation of some queries over slices of files. Its rows are numbers of `slices`."""

    slices: tuple[FileSlice, ...]

    def results(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, str, pa.Table]]:
        for batch in batches:
            for piece in batch.column(0).to_numpy():
                yield from self._slice_results(int(piece))

    def _slice_results(self, piece: int) -> Iterator[tuple[int, str, pa.Table]]:
        part = self.slices[piece]
        with self.bridge(numbered=False) as cep:
            worker = Worker(cep, self.schemas, part.back or 0)
            try:
                found = worker.submit(part, End(self.now, self._finish)).result()
            finally:
                worker.close()
        for name, tables in found.results.items():
            for table in tables:
                if table.num_rows:
                    yield piece, name, table
        if found.stop is not None:
            raise found.stop

    def _finish(self, cep: Bridge) -> None:
        if cep.now is None or self.now > cep.now:
            cep.advance_time(self.now)
        cep.finish()


def file_task(task: PieceTask, files: ParquetInPlace, back: int, count: int) -> FileTask:
    """The same computation over slices of the files of the only stream. `count`: the number of events."""
    assert task.bounds is not None
    (feed,) = task.feeds
    pieces = len(task.bounds) - 1
    slices = []
    for place, (first, after) in enumerate(zip(task.bounds, task.bounds[1:], strict=False)):
        is_last = place == pieces - 1
        rows = Stretch(-(-count // pieces), first, after - 1)
        begin, until = first if place else None, None if is_last else after - 1
        slices.append(FileSlice({feed.name: files}, rows, back, begin, until, is_last, is_alone=True))
    known: dict[str, Any] = {field.name: getattr(task, field.name) for field in dataclasses.fields(task)}
    return FileTask(**known, slices=tuple(slices))
