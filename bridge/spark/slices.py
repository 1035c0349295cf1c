"""The rows of one partition in slices of time that overlap, each searched for matches by itself, joined afterwards.

A slice does not know where the search goes on that comes to it from the slice before, so it begins anywhere, with its
own first row. In the rows that two slices share, both tell where they began a search. From the first row at which both
did, they go on alike: what follows depends on the rows alone (AFTER MATCH SKIP only says where a search begins). There
they are joined; each counts up to it, the next one from it on. See docs/spark.md, "One big partition".
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
from bridge.spark.bounded import Answer, Bounded, embedded, look_back
from bridge.spark.columns import REPORT, SLICE
from bridge.spark.task import Feed, pieces
from nfa.errors import ExhaustedError
from windows.databases.duckdb import DuckDB

MOST_MARKS = 2_000
"""So many rows at most are told of each overlap, its first: any one that both slices tell is enough."""

Moment: TypeAlias = tuple[int, int]
"""The time and the PLACE of a row."""

BEGINNING: Moment = (-(2**63), 0)
END: Moment = (2**63 - 1, 2**63 - 1)


@dataclasses.dataclass(frozen=True)
class Slices:
    """Slices of time: each has all rows from its first instant up to its horizon, both included.

    Each begins before the one before ends: these rows are searched by both.
    """

    firsts: tuple[int, ...]
    horizons: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.firsts)

    def head(self, number: int) -> int | None:
        """The last instant that a slice shares with the one before."""
        return self.horizons[number - 1] if number else None

    def tail(self, number: int) -> int | None:
        """The first instant that a slice shares with the next one."""
        return self.firsts[number + 1] if number + 1 < len(self) else None


class Marks(NamedTuple):
    """Rows at which a slice can be joined to another, by their moments, and how many of its matches begin before each."""

    times: Ints
    places: Ints
    before: Ints

    def moments(self) -> dict[Moment, int]:
        """The matches before, by moment, in order."""
        moments = zip(self.times.tolist(), self.places.tolist(), strict=True)
        return dict(zip(moments, self.before.tolist(), strict=True))


class Report(NamedTuple):
    """What a slice tells of its searches: where it can be joined to the slice before and to the next, and its matches.

    >>> none = Marks(*(np.zeros(0, np.int64) for _ in range(3)))
    >>> Report.read(Report(none, none, 7).written()).matches
    7
    """

    head: Marks
    tail: Marks
    matches: int

    def written(self) -> bytes:
        """As bytes: whole numbers all."""
        parts = [np.array([self.matches, len(self.head.times)], np.int64), *self.head, *self.tail]
        return np.concatenate(parts).tobytes()

    @staticmethod
    def read(written: bytes) -> Report:
        """What `written` has written."""
        (matches, count), rest = np.split(np.frombuffer(written, np.int64), [2])
        head, tail = np.split(rest, [3 * count])
        return Report(Marks(*np.split(head, 3)), Marks(*np.split(tail, 3)), int(matches))


class Share(NamedTuple):
    """Which matches of a slice count: those that begin from a moment up to before another one.

    `shift` is what MATCH_NUMBER() has to be more.
    """

    since: Moment
    until: Moment
    shift: int


def joined(reports: Sequence[Report]) -> list[Share] | None:
    """What each slice counts for; None where two of them do not come together."""
    shares: list[Share] = []
    since, before, total = BEGINNING, 0, 0
    for report, following in itertools.pairwise(reports):
        tail, head = report.tail.moments(), following.head.moments()
        meeting = next((moment for moment in head if moment >= since and moment in tail), None)
        if meeting is None:
            return None
        shares.append(Share(since, meeting, total - before))
        total += tail[meeting] - before
        since, before = meeting, head[meeting]
    return [*shares, Share(since, END, total - before)]


def report(answer: Answer, slices: Slices, number: int, back: int) -> Report:
    """What a slice tells, where `back` rows before a row matter to it.

    It can be joined at the start of a search if no search before went on for longer than that one: then what follows is
    decided when it says. In the overlap with the next slice the search must be decided, too: with the later rows it
    might go another way.
    """
    begun, told, leads = answer.searches
    times = answer.times[begun]
    head, tail = slices.head(number), slices.tail(number)
    none = np.zeros(len(begun), np.bool_)
    known = begun >= max(back, 1)  # before these stand rows that the slice has not, or the partition's beginning
    before = none if head is None else leads & known & (times <= head)
    after = none if tail is None else leads & (told.how != AT_THE_END) & (times >= tail)
    return Report(_marks(answer, before), _marks(answer, after), len(answer.starts))


def _marks(answer: Answer, which: Bools) -> Marks:
    rows = answer.searches.begun[which][:MOST_MARKS]
    return Marks(answer.times[rows], answer.places[rows], np.searchsorted(answer.starts, rows))


def cut(quantiles: Sequence[int], last: int, count: int, rows: float, longest: int) -> Slices:
    """So many slices, or fewer, of equally many rows; they overlap by `rows` of all, a share, but by `longest` ms at least.

    `quantiles` are instants between which there are equally many rows, `last` the newest.

    >>> cut(range(100), 99, 4, 0.05, 0)
    Slices(firsts=(0, 25, 50, 75), horizons=(30, 55, 80, 99))
    """
    step = len(quantiles) / count
    firsts = sorted({quantiles[int(step * place)] for place in range(count)})
    at = np.searchsorted(np.asarray(quantiles), firsts[1:]) + rows * len(quantiles)
    ends = np.interp(at, np.arange(len(quantiles)), quantiles).astype(np.int64).tolist()
    horizons = [min(max(end, first + longest), last) for first, end in zip(firsts[1:], ends, strict=True)]
    return Slices(tuple(firsts), (*horizons, last))


@dataclasses.dataclass(frozen=True)
class Search:
    """What is done with each slice of a query's stream; its output is of `schema`: SLICE, REPORT, ORDER's columns,
    then the query's. One row a slice has a report, which is empty where the slice could not be searched so."""

    feed: Feed
    asked: Bounded
    slices: Slices
    schema: pa.Schema

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Results and report of each slice, as `mapInArrow` wants them."""
        for number, tables in pieces(batches):
            events = pa.concat_tables([self.feed.with_place(table) for table in tables])
            with embedded() as database:
                results, told = self.searched(database, number, events)
            yield from results.combine_chunks().to_batches()
            line = dict.fromkeys(self.schema.names) | {SLICE: number, REPORT: told}
            yield from pa.Table.from_pylist([line], self.schema).to_batches()

    def searched(self, database: DuckDB, number: int, events: pa.Table) -> tuple[pa.Table, bytes]:
        """The results of one slice, and its report."""
        schema = self.feed.schema
        try:
            answer = self.asked.answer(database, schema, events, self.slices.horizons[number])
        except (QueryError, ExhaustedError):
            return self.schema.empty_table(), b""
        if len(answer.ends) > 1:  # rows of several partitions
            return self.schema.empty_table(), b""
        count = answer.table.num_rows
        own = {SLICE: pa.array(np.full(count, number)), REPORT: pa.nulls(count, pa.binary())}
        columns = [own[name] if name in own else answer.table.column(name) for name in self.schema.names]
        results = pa.Table.from_arrays(columns, names=self.schema.names).cast(self.schema)
        return results, report(answer, self.slices, number, look_back(self.asked, schema)).written()
