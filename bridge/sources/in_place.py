"""Parquet files that a database reads itself: only their timestamps are read here, to see that they are in order."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bridge.sources.arrays import Array
from bridge.sources.arrow import EARLIEST, LATEST
from bridge.sources.layout import Layout
from windows.arrow import arrow_type

ROWS = 500_000
"""The number of timestamps that are read at a time."""


_UNCHANGED = (pa.bool_(), pa.int16(), pa.int32(), pa.int64(), pa.float64(), pa.string())
"""The types whose values of a file are those of an attribute."""


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Consecutive rows: their number, and their first and last timestamps."""

    rows: int
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class ParquetInPlace:
    """A Parquet file whose rows are in the order of `timestamp`, whole milliseconds.

    `columns`: the file's column of each attribute, which has the attribute's type. `stretches`: all its rows.
    """

    path: str
    timestamp: str
    columns: Mapping[str, str]
    stretches: Sequence[Stretch]

    def select(self, first: int | None, until: int | None) -> str:
        """A SELECT for DuckDB of `ts`, `seq` and the attributes of the rows from `first` to `until`, both included."""
        time = _quoted(self.timestamp)
        columns = [f"{time} AS ts", "file_row_number + 1 AS seq"]
        columns += [f"{_quoted(column)} AS {_quoted(name)}" for name, column in self.columns.items()]
        path = self.path.replace("'", "''")
        bounds = [f"{time} >= {first}"] if first is not None else []
        bounds += [f"{time} <= {until}"] if until is not None else []
        where = f" WHERE {' AND '.join(bounds)}" if bounds else ""
        return f"SELECT {', '.join(columns)} FROM read_parquet(['{path}'], file_row_number = true){where}"


def in_place(path: str, types: Mapping[str, pa.DataType], layout: Layout) -> ParquetInPlace | None:
    """A Parquet file with columns of these types in a layout; None where a row has to be converted, or does not fit."""
    time = layout.timestamp
    if time is None or types[time] != pa.int64():
        return None
    for attribute, column in layout.attributes:
        if types[column] not in _UNCHANGED or types[column] != arrow_type(attribute.type):
            return None
    stretches = stretches_of(path, time)
    if stretches is None:
        return None
    return ParquetInPlace(path, time, {attribute.name: column for attribute, column in layout.attributes}, stretches)


def stretches_of(path: str, timestamp: str) -> list[Stretch] | None:
    """All rows of a Parquet file; None if a timestamp is missing, out of range, or before the one of the row before it."""
    groups = range(pq.ParquetFile(path).num_row_groups)
    with ThreadPoolExecutor(pa.cpu_count()) as threads:
        parts = list(threads.map(lambda group: _stretches_of_group(path, group, timestamp), groups))
    found = [stretch for part in parts for stretch in part]
    in_order = all(before.last <= after.first for before, after in itertools.pairwise(found))
    fits = in_order and all(stretch.rows for stretch in found)
    return found if fits and (not found or (found[0].first >= EARLIEST and found[-1].last <= LATEST)) else None


def _stretches_of_group(path: str, group: int, timestamp: str) -> list[Stretch]:
    """The rows of a row group; a stretch without rows stands for those that are not in order."""
    batches = pq.ParquetFile(path).iter_batches(ROWS, [group], [timestamp])
    return [_stretch(batch.column(0)) for batch in batches if batch.num_rows]


def _stretch(times: Array) -> Stretch:
    if times.null_count:
        return Stretch(0, 0, 0)
    values: Any = times.to_numpy()
    is_ordered = bool(np.all(values[1:] >= values[:-1]))
    return Stretch(len(values) if is_ordered else 0, int(values[0]), int(values[-1]))


def cuts(stretches: Sequence[Stretch], rows: int) -> Iterator[Stretch]:
    """Stretches of about `rows` rows, of which one ends with all rows of a timestamp.

    A stretch begins with the timestamp after the last one of the stretch before it, unless it is the first.

    >>> list(cuts([Stretch(3, 10, 20), Stretch(3, 20, 30), Stretch(3, 31, 40)], 5))
    [Stretch(rows=6, first=10, last=30), Stretch(rows=3, first=31, last=40)]
    """
    count, first = 0, None
    for stretch in stretches:
        first = stretch.first if first is None else first
        count += stretch.rows
        if count >= rows:
            yield Stretch(count, first, stretch.last)
            count, first = 0, stretch.last + 1
    if count and first is not None and first <= stretches[-1].last:
        yield Stretch(count, first, stretches[-1].last)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
