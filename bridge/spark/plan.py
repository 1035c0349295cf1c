"""The pieces in which the queries of a job are computed, and the groups of queries that are computed in the same pieces."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bridge.history.pieces import Path, key_description
from bridge.query.nodes import MatchRecognize, walk
from bridge.spark.big_partitions import (
    FEW_ROWS,
    NO_BIG_PARTITIONS,
    WHY_LIVE,
    BigPartition,
    BigPartitions,
    find_big_partitions,
    why_whole,
)
from bridge.spark.columns import ORDER
from bridge.spark.cut import History, events_of_stream, history_of, is_comparable, value_of, with_quantiles
from bridge.spark.events import column
from bridge.spark.job import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_PIECE = 2_000_000
"""The number of events in a piece, if there are enough for all cores."""

PIECES_PER_CORE = 3
"""The number of pieces per core; with several, no core waits long for the last one."""

OVERLAP = 4
"""The ratio of a slice's length to the time that its results look back, if there are enough slices then."""


class Plan:
    """The pieces of each query in a job. `pieces`: the number of pieces of the history; None: by its size."""

    def __init__(self, job: Job, pieces: int | None) -> None:
        self.job, self._pieces = job, pieces
        self._known_partitions: dict[tuple[int, tuple[Path, ...]], BigPartitions] = {}

    def groups(self, names: Iterable[str]) -> list[QueryGroup]:
        """The queries, grouped by the pieces in which they are computed."""
        members: dict[tuple[Any, ...], list[str]] = {}
        backs: dict[tuple[Any, ...], int] = {}
        for name in names:
            back = self.job.partitionings[name].look_back
            keys = self.comparable_keys(self.job.partitionings[name].keys)
            if back is not None and (not keys or self._slices(back) > 1 or self.job.history.count == 0):
                pieces: tuple[Any, ...] = ("time",)
                backs[pieces] = max(backs.get(pieces, 0), back)
            else:
                pieces = (self._big_partitions(name, keys), *sorted(keys.items()))
            members.setdefault(pieces, []).append(name)
        return merge_groups(
            QueryGroup(tuple(names), backs.get(key), dict(key[1:]), NO_BIG_PARTITIONS if key in backs else key[0])
            for key, names in members.items()
        )

    def comparable_keys(self, keys: Mapping[str, tuple[Path, ...]]) -> dict[str, tuple[Path, ...]]:
        """The columns of the keys whose values Spark compares as the bridge does."""
        if not keys:
            return {}
        width = len(next(iter(keys.values())))
        events = {each.stream.lower(): each for each in self.job.events}
        comparable = [
            place
            for place in range(width)
            if all(name not in events or is_comparable(events[name], columns[place]) for name, columns in keys.items())
        ]
        if not comparable:
            return {}
        return {stream: tuple(columns[place] for place in comparable) for stream, columns in keys.items()}

    def pieces(self) -> int:
        """The number of pieces by key."""
        enough = max(self.job.cores * PIECES_PER_CORE, -(-self.job.history.count // ROWS_PER_PIECE))
        return self._pieces or max(1, min(enough, self.job.history.count))

    def in_order(self, frame: DataFrame) -> DataFrame:
        """The results of several pieces in order, each partition with those of a span of time.

        The spans are of equal length. `orderBy` would sample the results to find better ones, and so compute each piece twice.
        """
        from pyspark.sql import functions as F  # noqa: N812

        history, count = self.job.history, self.pieces()
        length = (history.last - history.first) // count + 1
        span = F.floor((column(ORDER[0]) - F.lit(history.first)) / F.lit(length))
        known = F.least(F.greatest(span, F.lit(0)), F.lit(count - 1))  # a result may come after the last event
        return frame.repartitionById(count, known.cast("int")).sortWithinPartitions(*map(column, ORDER))

    def _slices(self, back: int) -> int:
        """The number of slices of time; fewer if each would read too many earlier events."""
        pieces = self.pieces()
        if self._pieces:
            return pieces
        span = self.job.history.last - self.job.history.first + 1
        long = max(1, span // (max(back, 1) * OVERLAP))
        if long >= pieces:
            return pieces
        return max(1, min(pieces, max(long, min(self.job.cores, span // max(back, 1)))))

    def bounds(self, back: int) -> tuple[int, ...]:
        """The first timestamp of each slice, and the timestamp after the last slice."""
        history, slices = self.job.history_with_quantiles, self._slices(back)
        step = len(history.quantiles) / slices
        inner = [history.quantiles[int(step * place)] for place in range(1, slices)] if history.quantiles else []
        return (history.first, *sorted({at for at in inner if at > history.first}), history.last + 1)

    def _big_partitions(self, name: str, keys: Mapping[str, tuple[Path, ...]]) -> BigPartitions:
        """The partitions of a query that are cut into slices."""
        query = self.job.bounded([name]).get(name)
        if self.job.open_end or query is None or why_whole(query, self.job.streams, keys):
            return NO_BIG_PARTITIONS
        stream = self.job.stream_number(query.stream)
        columns = keys.get(query.stream.lower(), ())
        if (stream, columns) not in self._known_partitions:
            self._known_partitions[stream, columns] = self._find_partitions(stream, columns)
        return self._known_partitions[stream, columns]

    def _find_partitions(self, stream: int, columns: tuple[Path, ...]) -> BigPartitions:
        least = 1 if self._pieces else FEW_ROWS
        if self.pieces() == 1:
            return NO_BIG_PARTITIONS
        events = self.job.events[stream]
        if not columns:
            whole = self._history_of(stream)
            if whole.count < least:
                return NO_BIG_PARTITIONS
            return BigPartitions(stream, whole.count, (BigPartition(None, with_quantiles(whole, [events.frame])),))
        values = [value_of(events, path, f"s{stream}") for path in columns]
        least = max(least, self.job.history.count // (2 * self.job.cores))
        total, big = find_big_partitions(events_of_stream(events, stream, columns), values, least)
        return BigPartitions(stream, total, tuple(big)) if big else NO_BIG_PARTITIONS

    def _history_of(self, stream: int) -> History:
        one = len(self.job.events) == 1
        return self.job.history if one else history_of([self.job.events[stream].frame], self.job.end)

    def reasons(self, name: str, group: QueryGroup) -> Iterator[str]:
        """The reasons why a query is computed in these pieces, for `explain`."""
        if group.big.partitions:
            yield group.big.reason
        elif group.back is None and not group.keys:
            if reason := self.job.partitionings[name].reason:
                yield reason
            query = self.job.bounded([name]).get(name)
            if query is not None and (reason := why_whole(query, self.job.streams, {})):
                yield reason
            elif query is None and any(isinstance(node, MatchRecognize) for node in walk(self.job.nodes[name])):
                yield WHY_LIVE


@dataclasses.dataclass(frozen=True)
class QueryGroup:
    """Queries that are computed in the same pieces, in one pass; each of the `big` partitions is cut separately.

    `back`: how far each slice of time looks back, in milliseconds; None for pieces by `keys`.
    """

    names: tuple[str, ...]
    back: int | None
    keys: Mapping[str, tuple[Path, ...]]
    big: BigPartitions = NO_BIG_PARTITIONS

    @property
    def description(self) -> str:
        """A description of the pieces."""
        if self.back is not None:
            return f"slices of time, each looking back {self.back} ms"
        if self.big.partitions:
            return f"{f'{key_description(self.keys)}; ' if self.big.has_others else ''}{self.big.description}"
        return key_description(self.keys)


def merge_groups(groups: Iterable[QueryGroup]) -> list[QueryGroup]:
    """Fewer groups: groups by key are merged if they have no common stream, or the same keys for it.

    >>> by_k, of_both = {"s": (("k",),)}, {"s": (("k",),), "u": (("j",),)}
    >>> [group.names for group in merge_groups([QueryGroup(("a",), None, by_k), QueryGroup(("b",), None, of_both)])]
    [('a', 'b')]
    """
    merged: list[QueryGroup] = []
    for group in groups:
        at = next((at for at, other in enumerate(merged) if _agree(group, other)), None)
        if at is None:
            merged.append(group)
        else:
            keys = {**merged[at].keys, **group.keys}
            merged[at] = dataclasses.replace(merged[at], names=(*merged[at].names, *group.names), keys=keys)
    return merged


def _agree(one: QueryGroup, other: QueryGroup) -> bool:
    by_key = all(group.keys and group.back is None and not group.big.partitions for group in (one, other))
    return by_key and all(other.keys.get(stream, columns) == columns for stream, columns in one.keys.items())
