"""The rows of one partition in overlapping slices of time.

Each is searched for matches separately, then all are joined.

A slice does not know at which row the search of the previous slice continues, so it begins at its own first row. In the
rows that two slices share, both report where searches began. From the first row at which both began a search, they
continue alike, because what follows depends only on the rows (AFTER MATCH SKIP only determines where the next search
begins). There the slices are joined: matches before that row count in the first slice, the others in the second. See
docs/spark.md, "One big partition".
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from bridge.errors import QueryError
from bridge.patterns.arrays import Bools, Ints
from bridge.patterns.live.decision_times import AT_THE_END
from bridge.spark.bounded import BoundedQuery, BoundedResult, private_database, rows_before
from bridge.spark.columns import REPORT, SLICE
from bridge.spark.task import StreamFeed, pieces
from nfa.errors import ExhaustedError
from windows.databases.duckdb import DuckDB

MOST_JOIN_POINTS = 2_000
"""The largest number of join points that are reported per overlap, the first ones. One common join point suffices."""

EventId: TypeAlias = tuple[int, int]
"""TIME and PLACE of an event."""

BEGINNING: EventId = (-(2**63), 0)
END: EventId = (2**63 - 1, 2**63 - 1)


@dataclasses.dataclass(frozen=True)
class TimeSlices:
    """Slices of time. Each has all rows from its first timestamp to its horizon, inclusive.

    A slice begins before the previous one ends, and both search the rows that they share.
    """

    firsts: tuple[int, ...]
    horizons: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.firsts)

    def head(self, number: int) -> int | None:
        """The last timestamp that a slice shares with the previous one; None for the first slice."""
        return self.horizons[number - 1] if number else None

    def tail(self, number: int) -> int | None:
        """The first timestamp that a slice shares with the next one; None for the last slice."""
        return self.firsts[number + 1] if number + 1 < len(self) else None


class JoinPoints(NamedTuple):
    """Rows at which a slice can be joined to another: TIME, PLACE, and the number of its matches that begin earlier."""

    times: Ints
    places: Ints
    before: Ints

    def matches_before(self) -> dict[EventId, int]:
        """The number of matches before each row, in order."""
        ids = zip(self.times.tolist(), self.places.tolist(), strict=True)
        return dict(zip(ids, self.before.tolist(), strict=True))


class SliceReport(NamedTuple):
    """The report of a slice: its join points with the previous and the next slice, and its number of matches.

    >>> none = JoinPoints(*(np.zeros(0, np.int64) for _ in range(3)))
    >>> SliceReport.from_bytes(SliceReport(none, none, 7).to_bytes()).matches
    7
    """

    head: JoinPoints
    tail: JoinPoints
    matches: int

    def to_bytes(self) -> bytes:
        """The report as bytes: 64-bit integers."""
        parts = [np.array([self.matches, len(self.head.times)], np.int64), *self.head, *self.tail]
        return np.concatenate(parts).tobytes()

    @staticmethod
    def from_bytes(data: bytes) -> SliceReport:
        """The report that `to_bytes` has written."""
        (matches, count), rest = np.split(np.frombuffer(data, np.int64), [2])
        head, tail = np.split(rest, [3 * count])
        return SliceReport(JoinPoints(*np.split(head, 3)), JoinPoints(*np.split(tail, 3)), int(matches))


class SliceShare(NamedTuple):
    """The matches of a slice that count: those that begin at or after `since` and before `until`.

    `shift` is added to MATCH_NUMBER().
    """

    since: EventId
    until: EventId
    shift: int


def join(reports: Sequence[SliceReport]) -> list[SliceShare] | None:
    """The share of each slice; None if two neighbours have no common join point."""
    shares: list[SliceShare] = []
    since, before, total = BEGINNING, 0, 0
    for report, following in itertools.pairwise(reports):
        tail, head = report.tail.matches_before(), following.head.matches_before()
        common = next((event for event in head if event >= since and event in tail), None)
        if common is None:
            return None
        shares.append(SliceShare(since, common, total - before))
        total += tail[common] - before
        since, before = common, head[common]
    return [*shares, SliceShare(since, END, total - before)]


def report_of(result: BoundedResult, slices: TimeSlices, number: int, back: int) -> SliceReport:
    """The report of a slice, whose rows read the `back` rows before them.

    The start of a search is a join point if no earlier search has read further: then later decision times do not depend
    on earlier searches. In the overlap with the next slice, the search must also be decided, because later rows might
    change its result.
    """
    starts, decisions, leads = result.searches
    times = result.times[starts]
    head, tail = slices.head(number), slices.tail(number)
    none = np.zeros(len(starts), np.bool_)
    known = starts >= max(back, 1)  # the slice may lack the rows before these
    before = none if head is None else leads & known & (times <= head)
    after = none if tail is None else leads & (decisions.how != AT_THE_END) & (times >= tail)
    return SliceReport(_join_points(result, before), _join_points(result, after), len(result.starts))


def _join_points(result: BoundedResult, which: Bools) -> JoinPoints:
    rows = result.searches.starts[which][:MOST_JOIN_POINTS]
    return JoinPoints(result.times[rows], result.places[rows], np.searchsorted(result.starts, rows))


def cut_evenly(quantiles: Sequence[int], last: int, count: int, rows: float, longest: int) -> TimeSlices:
    """`count` slices, or fewer, with the same number of rows.

    `quantiles`: timestamps that divide the rows into equal parts. `last`: the newest timestamp. Slices overlap by `rows`, a
    fraction of all rows, and by at least `longest` milliseconds.

    >>> cut_evenly(range(100), 99, 4, 0.05, 0)
    TimeSlices(firsts=(0, 25, 50, 75), horizons=(30, 55, 80, 99))
    """
    step = len(quantiles) / count
    firsts = sorted({quantiles[int(step * place)] for place in range(count)})
    at = np.searchsorted(np.asarray(quantiles), firsts[1:]) + rows * len(quantiles)
    ends = np.interp(at, np.arange(len(quantiles)), quantiles).astype(np.int64).tolist()
    horizons = [min(max(end, first + longest), last) for first, end in zip(firsts[1:], ends, strict=True)]
    return TimeSlices(tuple(firsts), (*horizons, last))


@dataclasses.dataclass(frozen=True)
class SliceSearch:
    """The search in the slices of a query's stream.

    `schema`: the schema of its output, which is SLICE, REPORT, the columns of ORDER, and the query's columns. One row
    per slice has the report, which is empty if the slice cannot be searched.
    """

    feed: StreamFeed
    query: BoundedQuery
    slices: TimeSlices
    schema: pa.Schema

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results and the report of each slice, for `mapInArrow`."""
        for number, tables in pieces(batches):
            events = pa.concat_tables([self.feed.with_place(table) for table in tables])
            with private_database() as database:
                results, report = self.search(database, number, events)
            yield from results.combine_chunks().to_batches()
            line = dict.fromkeys(self.schema.names) | {SLICE: number, REPORT: report}
            yield from pa.Table.from_pylist([line], self.schema).to_batches()

    def search(self, database: DuckDB, number: int, events: pa.Table) -> tuple[pa.Table, bytes]:
        """The results of one slice, and its report as bytes."""
        schema = self.feed.schema
        try:
            result = self.query.search(database, schema, events, self.slices.horizons[number])
        except (QueryError, ExhaustedError):
            return self.schema.empty_table(), b""
        if len(result.ends) > 1:  # the rows belong to several partitions
            return self.schema.empty_table(), b""
        count = result.table.num_rows
        own = {SLICE: pa.array(np.full(count, number)), REPORT: pa.nulls(count, pa.binary())}
        columns = [own[name] if name in own else result.table.column(name) for name in self.schema.names]
        results = pa.Table.from_arrays(columns, names=self.schema.names).cast(self.schema)
        return results, report_of(result, self.slices, number, rows_before(self.query, schema)).to_bytes()
