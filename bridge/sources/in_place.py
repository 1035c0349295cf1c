"""Parquet files that a database reads itself: only their timestamps are read here, to check that they are in order."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from bridge.sources.arrays import Array, Unfit
from bridge.sources.block import FileReader
from bridge.sources.layout import Layout
from bridge.sources.tables import UNREADABLE, ParquetReader
from bridge.sources.times import TO_MS, TimeUnit
from windows.arrow import arrow_type

ROWS = 500_000
"""The number of timestamps that are read at a time."""

_WIDENED = {
    pa.int16(): (pa.int8(), pa.uint8()),
    pa.int32(): (pa.int8(), pa.uint8(), pa.int16(), pa.uint16()),
    pa.int64(): (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32()),
    pa.float64(): (pa.float32(),),
    pa.string(): (pa.large_string(),),
    pa.timestamp("us"): (pa.timestamp("ms"), pa.timestamp("s")),
}
"""The types of attributes, with the types in files whose values are equal without conversion."""

_UNCHANGED = (pa.bool_(), pa.date32(), *_WIDENED)
"""The types for which values in a file are those of an attribute of the same type."""

_ROW_NUMBER = "file_row_number"
"""DuckDB's option and column for the number of a row in its file, from 0."""

_WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32())


class NotInPlaceError(Exception):
    """Raised if a row has to be converted or does not fit, or a file cannot be read. Then all rows are read here."""


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Consecutive rows: their number, and their first and last timestamps."""

    rows: int
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class TimeColumn:
    """A column of timestamps: whole numbers of a `unit`, or (None) of a timestamp type.

    `is_plain`: whether it is of the type TIMESTAMP, by which DuckDB knows the parts of a file that it need not read.

    >>> TimeColumn('"at"', "us").value
    '(CAST("at" AS BIGINT) - ((CAST("at" AS BIGINT) % 1000) + 1000) % 1000) // 1000'
    >>> list(TimeColumn('"at"', "us").bounds(5, 9))
    ['"at" >= 5000', '"at" < 10000']
    """

    name: str
    unit: str | None = None
    is_plain: bool = False

    @property
    def value(self) -> str:
        """The milliseconds since 1970, rounded down, in DuckDB's SQL."""
        times, divisor = TO_MS[self.unit or "us"]
        whole = f"epoch_us({self.name})" if self.unit is None else f"CAST({self.name} AS BIGINT)"
        if divisor == 1:
            return f"{whole} * {times}" if times > 1 else whole
        return f"({whole} - (({whole} % {divisor}) + {divisor}) % {divisor}) // {divisor}"

    def bounds(self, first: int | None, until: int | None) -> Iterator[str]:
        """Conditions that hold from `first` to `until` (ms), inclusive, with which files are read in part."""
        if self.unit is None and not self.is_plain:
            yield from (f"{self.value} {sign} {at}" for sign, at in ((">=", first), ("<=", until)) if at is not None)
            return
        times, divisor = TO_MS[self.unit or "us"]
        constant = "make_timestamp({})" if self.unit is None else "{}"
        if first is not None:
            yield f"{self.name} >= {constant.format(-(-first * divisor // times))}"
        if until is not None:
            yield f"{self.name} < {constant.format(-(-(until + 1) * divisor // times))}"


@dataclasses.dataclass(frozen=True)
class ParquetFile:
    """One file: the column of the timestamps, the column of each attribute, and all its rows."""

    path: str
    time: TimeColumn
    columns: Mapping[str, str]
    stretches: Sequence[Stretch]

    def select(self, before: int, first: int | None, until: int | None) -> str:
        """A SELECT for DuckDB of `ts`, `seq` and the attributes. `before`: the number of rows in earlier files."""
        columns = [f"{self.time.value} AS ts", f"{_ROW_NUMBER} + {before + 1} AS seq"]
        columns += [f"{_quoted(column)} AS {_quoted(name)}" for name, column in self.columns.items()]
        bounds = " AND ".join(self.time.bounds(first, until))
        path = self.path.replace("'", "''")
        source = f"read_parquet(['{path}'], {_ROW_NUMBER} = true, hive_partitioning = false)"
        return f"SELECT {', '.join(columns)} FROM {source}{f' WHERE {bounds}' if bounds else ''}"


@dataclasses.dataclass(frozen=True)
class ParquetInPlace:
    """Files whose rows, one file after the other, are in the order of time and need no conversion."""

    files: Sequence[ParquetFile]

    @property
    def stretches(self) -> list[Stretch]:
        """All rows."""
        return [stretch for file in self.files for stretch in file.stretches]

    def rows_until(self, last: int | None) -> int:
        """The number of rows in stretches that end by the timestamp `last`; None is the end."""
        return sum(stretch.rows for stretch in self.stretches if last is None or stretch.last <= last)

    def select(self, first: int | None, until: int | None) -> str:
        """A SELECT for DuckDB of `ts`, `seq` and the attributes of the rows from `first` to `until`, inclusive."""
        found: list[str] = []
        before = 0
        for file in self.files:
            begins, ends = file.stretches[0].first, file.stretches[-1].last
            if (until is None or begins <= until) and (first is None or ends >= first):
                found.append(file.select(before, first, until))
            before += sum(stretch.rows for stretch in file.stretches)
        return " UNION ALL ".join(found or [self.files[0].select(0, first, until)])


def in_order(files: Sequence[ParquetFile]) -> ParquetInPlace | None:
    """These files without empty ones; None if none is left, or time goes back within them or from one to the next."""
    found = ParquetInPlace([file for file in files if file.stretches])
    follows = all(before.last <= after.first for before, after in itertools.pairwise(found.stretches))
    return found if found.files and follows else None


def parquet_file(reader: FileReader, layout: Layout | None) -> ParquetFile:
    """A file in this layout. Raises NotInPlaceError if a row has to be converted or does not fit."""
    if not isinstance(reader, ParquetReader) or layout is None or layout.timestamp is None:
        raise NotInPlaceError
    names = [*map(str.lower, reader.columns), _ROW_NUMBER]
    if len(set(names)) < len(names) or any(sign in reader.file for sign in ("*", "?", "[", "://")):
        raise NotInPlaceError  # DuckDB would rename a column, or look for other files
    for attribute, column in layout.attributes:
        target, kind = arrow_type(attribute.type), reader.columns[column]
        is_unchanged = (kind == target and target in _UNCHANGED) or kind in _WIDENED.get(target, ())
        if not is_unchanged or (column == layout.timestamp and layout.unit.name not in (None, "ms")):
            raise NotInPlaceError
    stretches = _stretches(reader.file, layout.timestamp, layout.unit)
    time = _time_column(layout.timestamp, reader.columns[layout.timestamp], layout.unit)
    return ParquetFile(
        reader.file, time, {attribute.name: column for attribute, column in layout.attributes}, stretches
    )


def _time_column(name: str, kind: pa.DataType, unit: TimeUnit) -> TimeColumn:
    """The column of the timestamps, which DuckDB computes as `unit` does."""
    if kind in _WHOLE:
        return TimeColumn(_quoted(name), unit.name or "ms")
    if not pa.types.is_timestamp(kind) or (kind.tz is not None and kind.unit == "ns"):
        raise NotInPlaceError
    return TimeColumn(_quoted(name), is_plain=kind.tz is None and kind.unit != "ns")


def _stretches(path: str, timestamp: str, unit: TimeUnit) -> list[Stretch]:
    """All rows of a file whose timestamps are complete, in range, and in order; else raises NotInPlaceError."""
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)  # read once, as every reader of a row group needs it

        def times(group: int, rows: int) -> Iterator[Array]:
            """The timestamps of a row group, in batches of `rows`."""
            batches = pq.ParquetFile(path, metadata=metadata).iter_batches(rows, [group], [timestamp])
            return (batch.column(0) for batch in batches if batch.num_rows)

        groups = range(metadata.num_row_groups)
        batches = itertools.chain.from_iterable(times(group, 1) for group in groups)
        if (first := next(batches, None)) is None:
            return []
        unit.to_times(first)  # the unit may be derived from the first timestamp
        with ThreadPoolExecutor(pa.cpu_count()) as threads:
            parts = list(
                threads.map(lambda group: [_stretch(unit.to_times(each)) for each in times(group, ROWS)], groups)
            )
    except (Unfit, *UNREADABLE) as error:
        raise NotInPlaceError from error
    return [stretch for part in parts for stretch in part]


def _stretch(times: Array) -> Stretch:
    values: Any = times.to_numpy()
    if not np.all(values[1:] >= values[:-1]):
        raise Unfit("time goes back")
    return Stretch(len(values), int(values[0]), int(values[-1]))


def cuts(stretches: Sequence[Stretch], rows: int) -> Iterator[Stretch]:
    """Stretches of about `rows` rows, each of which ends with all rows of a timestamp.

    A stretch, unless it is the first, begins with the timestamp after the end of the previous stretch.

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
