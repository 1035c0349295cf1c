"""One big partition on all cores: its rows in slices of time on Spark, searched side by side and joined (`slices`).

A strand is all rows of one partition: of a stream without PARTITION BY, or of a key that has more rows than one core
should get. What other keys have goes by key, as ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from bridge.history.pieces import Path
from bridge.spark.bounded import Bounded, numbered
from bridge.spark.columns import FIRST_AT, FIRST_PLACE, ORDER, PIECE, PLACE, REPORT, SLICE, TIME, spark_schema
from bridge.spark.cut import History, sampled, slice_of
from bridge.spark.events import column
from bridge.spark.slices import Report, Search, Share, Slices, cut, joined
from bridge.spark.task import Feed
from windows.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OVERLAP_ROWS = 20_000
"""So many rows two slices share where there are enough."""

SHARED = 1 / 4
"""But no larger a part of a slice than this."""

WIDER = (1, 16)
"""Slices that cannot be joined are searched once more with so many times longer an overlap; then it is one piece."""

FEW_ROWS = 100_000
"""A partition of fewer rows is not worth to be cut."""


@dataclasses.dataclass(frozen=True)
class Strand:
    """All rows of one partition: those whose `key` is this number (None: all of the stream), and their times."""

    key: int | None
    history: History


@dataclasses.dataclass(frozen=True)
class Strands:
    """The strands that were `found` among the `total` rows of a stream, by its number."""

    of: int = 0
    total: int = 0
    found: tuple[Strand, ...] = ()

    @property
    def rest(self) -> bool:
        """Whether there are other rows."""
        return self.total > self._rows

    @property
    def told(self) -> str:
        """How they are computed, in words."""
        whose = "its rows" if not self.rest else f"the rows of {len(self.found)} key{'s' * (len(self.found) > 1)}"
        return f"slices of {whose}, joined where their searches come together"

    @property
    def why(self) -> str:
        """Why they are cut, in words."""
        count = len(self.found)
        return (
            f"{self._rows:,} of {self.total:,} events are in {f'{count} partitions' if count > 1 else 'one partition'}"
        )

    @property
    def _rows(self) -> int:
        return sum(strand.history.count for strand in self.found)


NO_STRANDS = Strands()


class Joined(NamedTuple):
    """The results of a strand in their order, with ORDER's columns; and of each slice the matches that it told."""

    frame: DataFrame
    matches: tuple[int, ...]


WHY_LIVE = (
    "its matches are known only row by row: they read sums, NEXT or rows at no known distance, or skip to a variable"
)
"""Why a clause cannot be searched in slices of its rows."""


def why_whole(asked: Bounded, streams: Mapping[str, Schema], keys: Mapping[str, tuple[Path, ...]]) -> str:
    """Why no partition of a query can be cut into slices; empty where it can."""
    schema = next(schema for name, schema in streams.items() if name.lower() == asked.stream.lower())
    own = {path[0].lower() for path in keys.get(asked.stream.lower(), ()) if len(path) == 1}
    if not {key.name.lower() for key in asked.clause.partition_by} <= own:
        return "the rows of one key are told apart by more columns than Spark can compare"
    if numbered(asked, schema) is None:
        return "MATCH_NUMBER() is computed with: it is known when the matches before are"
    return ""


def heavy(events: DataFrame, columns: Sequence[Column], least: int) -> tuple[int, list[Strand]]:
    """How many rows there are, and the keys that have so many of them at least; `events` have the keys' number as PIECE.

    Two passes at most, the second over keys that may be such. Numbers that several keys have in common are left out.
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
    told = [F.count(TIME), F.min(TIME), F.max(TIME), F.expr(sampled(rows))]
    of_keys = events.where(bucket.isin(large)).groupBy(PIECE).agg(*told, *one_key)
    found = [tuple(row) for row in of_keys.where(F.col(of_keys.columns[1]) >= least).collect()]
    strands = [
        Strand(row[0], History(row[1], row[2], row[3], (row[2], *(row[4] or ())[1:]))) for row in found if all(row[5:])
    ]
    return total, sorted(strands, key=lambda strand: str(strand.key))


def _is_one_value(values: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    none, every = F.count(values) == 0, F.count(values) == F.count(F.lit(1))
    return none | (every & (F.min(values) == F.max(values)))


@dataclasses.dataclass(frozen=True)
class Cutter:
    """What it takes to answer a query over a strand of its stream: `events` are the stream's, with PIECE, TIME, PLACE."""

    feed: Feed
    asked: Bounded
    events: DataFrame
    results: pa.Schema

    def joined(self, strand: Strand, last: int, count: int) -> Joined | None:
        """The results, of `count` slices where that many are useful; computed now. None where slices cannot be joined."""
        for wider in WIDER:
            slices = self.slices(strand, last, count, wider)
            if len(slices) < 2:
                return None
            found = kept(self.searched(strand, slices))
            written = found.where(column(REPORT).isNotNull()).select(column(SLICE), column(REPORT)).collect()
            reports = [Report.read(bytes(told)) for _, told in sorted(map(tuple, written)) if told]
            if len(reports) < len(slices):
                return None
            shares = joined(reports)
            if shares is not None:
                return Joined(self.counted(found, shares), tuple(r.matches for r in reports))
        return None

    def slices(self, strand: Strand, last: int, count: int, wider: int) -> Slices:
        """The slices, fewer where they would have to share too much."""
        rows, span = strand.history.count, strand.history.last - strand.history.first + 1
        few = count if wider == 1 else 2
        overlap = min(OVERLAP_ROWS * wider, max(1, int(rows * SHARED / few)))
        longest = 2 * wider * (self.asked.clause.within or 0)
        if wider == 1:  # most searches are over long before
            longest = min(longest, int(span * SHARED / few))
        count = min(count, max(1, int(rows * SHARED / overlap)), max(1, int(span * SHARED / max(longest, 1))))
        return cut(strand.history.quantiles, last, count, overlap / max(rows, 1), longest)

    def searched(self, strand: Strand, slices: Slices) -> DataFrame:
        """What is found in each slice, and what it tells of itself."""
        from pyspark.sql import functions as F  # noqa: N812

        events = self.events if strand.key is None else self.events.where(F.col(PIECE) == strand.key)
        after = slices.horizons[-1] + 1
        first = slice_of(F.col(TIME), (slices.firsts[0], *(horizon + 1 for horizon in slices.horizons[:-1]), after))
        last = slice_of(F.col(TIME), (*slices.firsts, after))
        others = [c for c in events.columns if c != PIECE]
        cut_up = events.select(F.explode(F.sequence(first, last)).alias(PIECE), *others)
        placed = cut_up.repartitionById(len(slices), F.col(PIECE)).sortWithinPartitions(PIECE, TIME, PLACE)
        own = [(SLICE, pa.int32()), (REPORT, pa.binary())]
        schema = pa.schema([*own, *((name, pa.int64()) for name in ORDER), *self.results])
        search = Search(self.feed, self.asked, slices, schema)
        return placed.mapInArrow(search.rows, spark_schema(schema))

    def counted(self, found: DataFrame, shares: Iterable[Share]) -> DataFrame:
        """The results that count, MATCH_NUMBER() over all slices; each slice is a partition, so they stay in order."""
        from pyspark.sql import functions as F  # noqa: N812

        rows = [(number, *share.since, *share.until, share.shift) for number, share in enumerate(shares)]
        names = "number int, since long, since_place long, until long, until_place long, shift long"
        own = found.sparkSession.createDataFrame(rows, names)
        first = F.struct(column(FIRST_AT), column(FIRST_PLACE))
        since, until = F.struct("since", "since_place"), F.struct("until", "until_place")
        both = found.where(column(REPORT).isNull()).join(F.broadcast(own), F.col("number") == column(SLICE))
        own_rows = both.where((first >= since) & (first < until))
        numbers = numbered(self.asked, self.feed.schema) or ()
        columns: list[Any] = [
            (column(f.name) + F.col("shift")).cast("long").alias(f.name) if f.name in numbers else column(f.name)
            for f in self.results
        ]
        return own_rows.select(*map(column, ORDER), *columns)


def kept(frame: DataFrame) -> DataFrame:
    """A frame that is computed now, and its rows kept where they were found."""
    from pyspark import StorageLevel

    return frame.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
