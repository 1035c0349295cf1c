"""Replay on Spark: each piece of the history goes through a bridge on an executor, and the results are put in one order.

A piece is a slice of time, or all rows of some keys (`bridge.history.pieces`); `task` computes it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bridge.errors import BridgeError
from bridge.history.pieces import Path
from bridge.query.nodes import Node
from bridge.spark.big_partitions import NO_BIG_PARTITIONS, JoinedResults, SlicedQuery, compute_now
from bridge.spark.columns import ORDER, PIECE, spark_schema
from bridge.spark.cut import cut_by_key, cut_by_time, events_of_stream, events_of_streams, with_piece_numbers
from bridge.spark.events import column
from bridge.spark.file_slices import file_task
from bridge.spark.first_rows import with_first_row
from bridge.spark.job import Job
from bridge.spark.plan import Plan, QueryGroup
from bridge.spark.task import PieceTask, needed_queries
from bridge.spark.writes import stores_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Replay:
    """The computation of a job. Nothing is read before its frames or files are used.

    `pieces`: the number of pieces of the history; by default it depends on the history's size.
    """

    def __init__(self, source: Mapping[str, Any], queries: Any, *, pieces: int | None = None, **options: Any) -> None:
        if pieces is not None and (not isinstance(pieces, int) or pieces < 1):
            raise BridgeError(f"pieces must be a whole number from 1 on, not {pieces!r}")
        self.job = Job(source, queries, **options)
        self.plan = Plan(self.job, pieces)

    def groups(self, names: Iterable[str] | None = None) -> list[QueryGroup]:
        """The queries (or those with these names), grouped by the pieces in which they are computed."""
        return self.plan.groups(self.job.names if names is None else names)

    def explain(self, name: str) -> str:
        """An explanation of how a query is computed: its pieces, the reason for them, and Spark's own plan."""
        (group,) = self.groups([name])
        if group.back is None:
            count = self.plan.pieces() if group.keys or group.big.partitions else 1
        else:
            count = len(self.plan.bounds(group.back)) - 1
        lines = [f"query {name}, on Spark", f"{group.description}; pieces: {count}, on {self.job.cores} cores"]
        lines += [f"why: {reason}" for reason in self.plan.reasons(name, group)]
        frame = self._search(group, name) if group.big.partitions else self.frame(name)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            frame.explain(mode="formatted")
        return "\n".join(f"-- {line}" for line in lines) + f"\n{printed.getvalue().strip()}"

    def frame(self, name: str) -> DataFrame:
        """The results of one query, in order: `ts` and its columns.

        They are computed when the frame is used, or at once if slices have to be joined.
        """
        group = next(group for group in self.groups() if name in group.names)
        if group.big.partitions:
            parts = self.joined_results(group, name)
            if parts is not None:
                return self.combine(group, name, [part.frame for part in parts])
            group = dataclasses.replace(group, big=NO_BIG_PARTITIONS)
        frame, in_order = self._computed(group, name)
        if in_order:
            return frame
        return self.plan.in_order(frame).select(*map(column, self.job.schemas[name].names))

    def _computed(self, group: QueryGroup, name: str) -> tuple[DataFrame, bool]:
        """The results of a query over the pieces, and whether they are in order."""
        task, pieces = self.task(dataclasses.replace(group, names=(name,)))
        return pieces.mapInArrow(task.frame(name), spark_schema(task.schemas[name])), task.in_order

    def joined_results(self, group: QueryGroup, name: str) -> list[JoinedResults] | None:
        """The results of each big partition; None if the slices of one cannot be joined."""
        query, results = self._sliced(group, name), []
        for partition in group.big.partitions:
            part = query.results_of(partition, self.job.history.last, self.plan.pieces())
            if part is None:
                return None
            results.append(part)
        return results

    def _sliced(self, group: QueryGroup, name: str) -> SlicedQuery:
        query, number = self.job.bounded([name])[name], group.big.stream
        events = self.job.events[number]
        key = group.keys.get(events.stream.lower(), ())
        frame = events_of_stream(events, number, key if group.back is None else None)
        return SlicedQuery(self.job.feed(number), query, frame, self.job.schemas[name])

    def _search(self, group: QueryGroup, name: str) -> DataFrame:
        query, partition = self._sliced(group, name), group.big.partitions[0]
        return query.search_slices(partition, query.slices(partition, self.job.history.last, self.plan.pieces(), 1))

    def combine(self, group: QueryGroup, name: str, parts: Sequence[DataFrame]) -> DataFrame:
        """The results of all big partitions and of the remaining rows, in order."""
        names = [column(c) for c in self.job.schemas[name].names]
        if len(parts) == 1 and not group.big.has_others:
            return parts[0].select(*names)
        whole = parts[0]
        for other in parts[1:]:
            whole = whole.unionByName(other)
        if group.big.has_others:
            others, _ = self._computed(group, name)
            whole = whole.unionByName(compute_now(others))
        return self.plan.in_order(whole).select(*names)

    def task(self, group: QueryGroup) -> tuple[PieceTask, DataFrame]:
        """The computation of a group's queries over each piece, and the events in pieces."""
        job = self.job
        bounds = self.plan.bounds(group.back) if group.back is not None else None
        with_first: dict[str, Node] = {}
        if group.keys:  # the results of one piece are in order without the first rows of matches
            nodes = {name: with_first_row(job.nodes[name]) for name in group.names}
            with_first = {name: node for name, node in nodes.items() if node is not None}
        queries = [(name, with_first.get(name, node)) for name, node in job.queries]
        bounded = {} if bounds is not None or job.open_end or job.writes.serial else job.bounded(group.names)
        order = [(c, pa.int64()) for c in ORDER] if group.keys or bounded else []
        task = PieceTask(
            job.feeds(has_id=bool(with_first)),
            tuple(queries) if job.writes.serial else needed_queries(queries, group.names),
            {name: pa.schema([*order, *job.schemas[name]]) for name in group.names},
            job.relations,
            job.history.last,
            bounds,
            job.open_end,
            bounded,
            stores_read(job.script, job.stores),
            job.writes.events_before(bounds, group.names, job.events),
        )
        if job.files is not None and bounds is not None and group.back is not None:
            pieces = job.spark.range(0, len(bounds) - 1, 1, len(bounds) - 1).toDF(PIECE)
            return file_task(task, job.files, group.back, job.history.count), pieces
        return task, self._cut(group, bounds)

    def _cut(self, group: QueryGroup, bounds: tuple[int, ...] | None) -> DataFrame:
        """The events in pieces. If there is one piece, or something is written, these are the events of all streams."""
        job = self.job
        every = bool(job.writes.writers) or (group.back is None and not group.keys)
        numbers = range(len(job.events)) if every else job.streams_read(group.names)
        events = events_of_streams(job.events, numbers, group.keys if group.back is None else None)
        if bounds is not None and group.back is not None:
            return cut_by_time(events, bounds, group.back)
        big = [partition.key for partition in group.big.partitions if partition.key is not None]
        return cut_by_key(events, self.plan.pieces() if group.keys else 1, big)

    def unbounded(self, name: str, keys: Mapping[str, tuple[Path, ...]], count: int) -> tuple[PieceTask, DataFrame]:
        """The computation of one query over a piece of unbounded events, and the events, each in one of `count` pieces."""
        job = self.job
        queries = needed_queries(job.queries, [name])
        task = PieceTask(job.feeds(), queries, {name: job.schemas[name]}, job.relations, 0, open_end=True)
        events = events_of_streams(job.events, range(len(job.events)), keys)
        return task, with_piece_numbers(events, count)


def frames(replay: Replay) -> dict[str, DataFrame]:
    """The results of all queries."""
    return {name: replay.frame(name) for name in replay.job.names}
