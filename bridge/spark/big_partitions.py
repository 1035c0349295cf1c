"""Big partitions on all cores: their rows are searched in slices of time in parallel, and joined (`slices`).

A big partition has more rows than one core should search: all rows of a stream without PARTITION BY, or the rows of a
frequent key. The rows of other keys are computed by key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from bridge.errors import quantity
from bridge.history.pieces import Path
from bridge.spark.bounded import BoundedQuery, match_number_columns
from bridge.spark.columns import FIRST_AT, FIRST_PLACE, ORDER, PIECE, PLACE, REPORT, SLICE, TIME, spark_schema
from bridge.spark.cut import History, sample_quantiles, slice_of
from bridge.spark.events import column
from bridge.spark.slices import SliceReport, SliceSearch, SliceShare, TimeSlices, cut_evenly, join
from bridge.spark.task import StreamFeed
from windows.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OVERLAP_ROWS = 20_000
"""The number of rows that two slices share, if they have so many."""

SHARED = 1 / 4
"""The largest part of a slice that it may share."""

FACTORS = (1, 16)
"""The factors of the overlap in the first and second attempt.

If slices cannot be joined then, they become one piece.
"""

FEW_ROWS = 100_000
"""The number of rows below which a partition is not cut."""


@dataclasses.dataclass(frozen=True)
class BigPartition:
    """One partition: the rows whose key has the hash `key` (None: all rows), and the figures of its history."""

    key: int | None
    history: History


@dataclasses.dataclass(frozen=True)
class BigPartitions:
    """The big `partitions` among the `total` rows of the stream with the number `stream`."""

    stream: int = 0
    total: int = 0
    partitions: tuple[BigPartition, ...] = ()

    @property
    def has_others(self) -> bool:
        """Whether the stream has other rows."""
        return self.total > self._rows

    @property
    def description(self) -> str:
        """A description of how they are computed."""
        whose = f"the rows of {quantity(len(self.partitions), 'key')}" if self.has_others else "its rows"
        return f"slices of {whose}, joined where their searches come together"

    @property
    def reason(self) -> str:
        """The reason why they are cut."""
        count = len(self.partitions)
        return (
            f"{self._rows:,} of {self.total:,} events are in {f'{count} partitions' if count > 1 else 'one partition'}"
        )

    @property
    def _rows(self) -> int:
        return sum(partition.history.count for partition in self.partitions)


NO_BIG_PARTITIONS = BigPartitions()


class JoinedResults(NamedTuple):
    """The results of a big partition in order, with the columns of ORDER, and the number of matches per slice."""

    frame: DataFrame
    matches: tuple[int, ...]


WHY_LIVE = "its matches are decided row by row: they read aggregates, NEXT or rows at an unknown distance, or skip to a variable"
"""The reason why the rows of a clause cannot be searched in slices."""


def why_whole(query: BoundedQuery, streams: Mapping[str, Schema], keys: Mapping[str, tuple[Path, ...]]) -> str:
    """The reason why no partition of a query can be cut into slices; "" if one can."""
    schema = next(schema for name, schema in streams.items() if name.lower() == query.stream.lower())
    own = {path[0].lower() for path in keys.get(query.stream.lower(), ()) if len(path) == 1}
    if not {key.name.lower() for key in query.clause.partition_by} <= own:
        return "PARTITION BY has columns that Spark cannot compare"
    if match_number_columns(query, schema) is None:
        return "it computes with MATCH_NUMBER(), which is known only after the matches before"
    return ""


def find_big_partitions(events: DataFrame, columns: Sequence[Column], least: int) -> tuple[int, list[BigPartition]]:
    """The number of rows, and the keys with at least `least` rows. `events` have the hash of the key as PIECE.

    It takes at most two passes; the second is over keys that may be big. Hashes that several keys share are left out.
    """
    from pyspark.sql import functions as F  # noqa: N812

    bucket = F.pmod(F.col(PIECE), F.lit(1 << 16)).alias("bucket")
    buckets = [tuple(row) for row in events.groupBy(bucket).count().collect()]
    large = [number for number, count in buckets if count >= least]
    total = sum(count for _, count in buckets)
    if not large:
        return total, []
    one_key = [_is_one_value(c) for c in columns]
    rows = sum(count for number, count in buckets if number in large)
    figures = [F.count(TIME), F.min(TIME), F.max(TIME), F.expr(sample_quantiles(rows))]
    of_keys = events.where(bucket.isin(large)).groupBy(PIECE).agg(*figures, *one_key)
    big = [tuple(row) for row in of_keys.where(F.col(of_keys.columns[1]) >= least).collect()]
    partitions = [
        BigPartition(row[0], History(row[1], row[2], row[3], (row[2], *(row[4] or ())[1:])))
        for row in big
        if all(row[5:])
    ]
    return total, sorted(partitions, key=lambda partition: str(partition.key))


def _is_one_value(values: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    none, every = F.count(values) == 0, F.count(values) == F.count(F.lit(1))
    return none | (every & (F.min(values) == F.max(values)))


@dataclasses.dataclass(frozen=True)
class SlicedQuery:
    """The computation of a query over big partitions of its stream.

    `events`: the events of the stream, with PIECE, TIME and PLACE. `results`: the schema of the query's results.
    """

    feed: StreamFeed
    query: BoundedQuery
    events: DataFrame
    results: pa.Schema

    def results_of(self, partition: BigPartition, last: int, count: int) -> JoinedResults | None:
        """Computes the results of a partition in at most `count` slices; None if these cannot be joined.

        `last` is the newest timestamp of the history.
        """
        for factor in FACTORS:
            slices = self.slices(partition, last, count, factor)
            if len(slices) < 2:
                return None
            rows = compute_now(self.search_slices(partition, slices))
            reported = rows.where(column(REPORT).isNotNull()).select(column(SLICE), column(REPORT)).collect()
            reports = [SliceReport.from_bytes(bytes(data)) for _, data in sorted(map(tuple, reported)) if data]
            if len(reports) < len(slices):
                return None
            shares = join(reports)
            if shares is not None:
                return JoinedResults(self.within_shares(rows, shares), tuple(r.matches for r in reports))
        return None

    def slices(self, partition: BigPartition, last: int, count: int, factor: int) -> TimeSlices:
        """At most `count` slices; fewer if they would share too much. `factor`: the factor of the overlap."""
        history = partition.history
        rows, span = history.count, history.last - history.first + 1
        few = count if factor == 1 else 2
        overlap = min(OVERLAP_ROWS * factor, max(1, int(rows * SHARED / few)))
        longest = 2 * factor * (self.query.clause.within or 0)
        if factor == 1:  # most searches end long before WITHIN
            longest = min(longest, int(span * SHARED / few))
        count = min(count, max(1, int(rows * SHARED / overlap)), max(1, int(span * SHARED / max(longest, 1))))
        return cut_evenly(history.quantiles, last, count, overlap / max(rows, 1), longest)

    def search_slices(self, partition: BigPartition, slices: TimeSlices) -> DataFrame:
        """The results and the reports of all slices of a partition."""
        from pyspark.sql import functions as F  # noqa: N812

        events = self.events if partition.key is None else self.events.where(F.col(PIECE) == partition.key)
        after = slices.horizons[-1] + 1
        first = slice_of(F.col(TIME), (slices.firsts[0], *(horizon + 1 for horizon in slices.horizons[:-1]), after))
        last = slice_of(F.col(TIME), (*slices.firsts, after))
        others = [c for c in events.columns if c != PIECE]
        cut_up = events.select(F.explode(F.sequence(first, last)).alias(PIECE), *others)
        in_order = cut_up.repartitionById(len(slices), F.col(PIECE)).sortWithinPartitions(PIECE, TIME, PLACE)
        own = [(SLICE, pa.int32()), (REPORT, pa.binary())]
        schema = pa.schema([*own, *((name, pa.int64()) for name in ORDER), *self.results])
        search = SliceSearch(self.feed, self.query, slices, schema)
        return in_order.mapInArrow(search.rows, spark_schema(schema))

    def within_shares(self, rows: DataFrame, shares: Iterable[SliceShare]) -> DataFrame:
        """The results that count, in the same order, with MATCH_NUMBER() over all slices.

        Each slice is one partition.
        """
        from pyspark.sql import functions as F  # noqa: N812

        bounds = [(number, *share.since, *share.until, share.shift) for number, share in enumerate(shares)]
        names = "number int, since long, since_place long, until long, until_place long, shift long"
        own = rows.sparkSession.createDataFrame(bounds, names)
        first = F.struct(column(FIRST_AT), column(FIRST_PLACE))
        since, until = F.struct("since", "since_place"), F.struct("until", "until_place")
        both = rows.where(column(REPORT).isNull()).join(F.broadcast(own), F.col("number") == column(SLICE))
        own_rows = both.where((first >= since) & (first < until))
        numbers = match_number_columns(self.query, self.feed.schema) or ()
        columns: list[Any] = [
            (column(f.name) + F.col("shift")).cast("long").alias(f.name) if f.name in numbers else column(f.name)
            for f in self.results
        ]
        return own_rows.select(*map(column, ORDER), *columns)


def compute_now(frame: DataFrame) -> DataFrame:
    """The same frame, computed at once; its rows are stored on the executors' disks."""
    from pyspark import StorageLevel

    return frame.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
