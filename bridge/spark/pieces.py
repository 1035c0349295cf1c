"""Replay on Spark: the history in pieces, each through the bridge itself on an executor, results in one order.

A piece is a slice of time, or all rows of some keys (`partitioning`); `task` is what is done with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bridge.engine.bridge import Bridge
from bridge.engine.connect import connect
from bridge.engine.session import session_of
from bridge.errors import BridgeError
from bridge.history.pieces import Path, partitioning
from bridge.history.script import Script, inferred_schemas, schema_for
from bridge.query.nodes import MatchRecognize, Node, Stream, walk
from bridge.rewrite import write_requests
from bridge.sources.arrow import milliseconds
from bridge.sources.relations import copy_table, create_relation
from bridge.spark.big_partitions import (
    FEW_ROWS,
    NO_STRANDS,
    WHY_LIVE,
    Cutter,
    Joined,
    Strand,
    Strands,
    heavy,
    kept,
    why_whole,
)
from bridge.spark.bounded import Bounded, bounded
from bridge.spark.columns import (
    FILE_BITS,
    MOMENT,
    MOST_STREAMS,
    ORDER,
    PIECE,
    PLACE,
    STREAM_BITS,
    TIME,
    as_table,
    result_schema,
    spark_schema,
)
from bridge.spark.cut import History, comparable, history_of, key_of, numbered, slice_of, timed, value_of
from bridge.spark.events import FILE, ROW, Events, column, open_events
from bridge.spark.first_rows import with_first_row
from bridge.spark.groups import Group, in_one_pass
from bridge.spark.sessions import session
from bridge.spark.task import Feed, Task, needed
from bridge.spark.writes import NO_WRITES, Writes, brought, checked_stores, is_serial, stores_read
from windows.schema import Attribute, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_A_PIECE = 2_000_000
"""Events of a piece, where there are enough of them to keep all cores at work."""

PIECES_A_CORE = 3
"""Pieces for each core, so that no core waits long for the last one."""

OVERLAP = 4
"""A slice is so many times as long as its results look back, where there are slices enough then."""


class Replay:
    """Queries over a history on Spark, checked and laid out; nothing is read before its frames or files are wanted."""

    def __init__(
        self,
        source: Mapping[str, Any],
        queries: Any,
        *,
        spark: SparkSession | None = None,
        timestamp: str | Mapping[str, str] | None = None,
        schemas: Mapping[str, Any] | None = None,
        relations: Mapping[str, Any] | None = None,
        stores: Mapping[str, Any] | None = None,
        database: Any = "duckdb://",
        end: Any = None,
        pieces: int | None = None,
        open_end: bool = False,
    ) -> None:
        if not isinstance(source, Mapping):
            raise BridgeError("engine='spark' wants a mapping of streams to their events: a path, a table, a frame")
        if len(source) > MOST_STREAMS:
            raise BridgeError(
                f"a replay on Spark has {MOST_STREAMS} streams at most, not {len(source)}: replay queries that read "
                "other streams by themselves"
            )
        if pieces is not None and (not isinstance(pieces, int) or pieces < 1):
            raise BridgeError(f"pieces is a whole number from 1, not {pieces!r}")
        self.script = Script.of(queries)
        self.script.streams.update({name: schema_for(name, schema) for name, schema in (schemas or {}).items()})
        self.spark = session(spark)
        self.end = None if end is None else milliseconds(end)
        self.events = [self._until_end(e) for e in open_events(self.spark, self.script, source, timestamp)]
        self.given = {name: as_table(name, data) for name, data in (relations or {}).items()}
        self.stores, self.database = checked_stores(stores), database
        self._pieces, self._open_end = pieces, open_end
        self._history: History | None = None
        self._known_strands: dict[tuple[int, tuple[Path, ...]], Strands] = {}
        self.relations, self.writes = self.given, NO_WRITES
        self._separate_writes()
        with self.checked() as cep:
            catalogue = session_of(cep).catalogue
            self.partitionings = {
                name: self.writes.restricted(name, partitioning(name, catalogue)) for name in self.script.queries
            }
            self.writes.learn(cep)
            self.schemas = {name: result_schema(cep, name) for name in self.script.queries}
            self._nodes = {
                name: session_of(cep).catalogue.query_entry(name).resolved.node for name in self.script.queries
            }

    # What is known before -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def checked(self) -> Iterator[Bridge]:
        """A bridge without events that has all streams and queries: what is wrong with them, is wrong here."""
        with connect() as cep:
            for name, table in self.relations.items():
                (create_relation if name in self.given else copy_table)(cep.database, name, table)
            for name, url in self.stores.items():
                cep.register_datastore(name, url)
            self.install(cep)
            self.streams = cep.streams
            yield cep

    def _separate_writes(self) -> None:
        """Takes out of the script what it writes, and brings the tables that executors want.

        The whole script is checked first, so that what is wrong with it is told as anywhere else.
        """
        if not write_requests.touches(self.script.queries):
            return
        with connect() as cep:
            self.script, tables = brought(self.script, self.database, self.given, cep.database)
        self.relations = {**self.given, **tables}
        with self.checked() as cep:
            serial = is_serial(self.script, cep)
        queries, writers = write_requests.split(self.script.queries, serial)
        self.script, self.writes = dataclasses.replace(self.script, queries=queries), Writes(writers, serial)

    def install(self, cep: Bridge) -> None:
        """Registers the streams in a bridge and creates the queries there."""
        self.script.install(cep, inferred_schemas(self.script, {events.stream: events for events in self.events}))

    def _until_end(self, events: Events) -> Events:
        if self.end is None:
            return events
        from pyspark.sql import functions as F  # noqa: N812

        return dataclasses.replace(events, frame=events.frame.where(F.col(TIME) <= self.end))

    @property
    def history(self) -> History:
        """The number of events, and the first and last time: one pass over the times of all."""
        if self._history is None:
            self._history = history_of([events.frame for events in self.events], self.end)
        return self._history

    @property
    def timed(self) -> History:
        """The same with the times at which it can be cut, which takes another pass."""
        if not self.history.quantiles and self.history.count:
            self._history = timed(self.history, [events.frame for events in self.events])
        return self.history

    @property
    def names(self) -> list[str]:
        """The queries that give results."""
        return [name for name in self.script.queries if name not in self.writes.writers]

    @property
    def cores(self) -> int:
        """How many tasks Spark runs at a time."""
        return int(self.spark.sparkContext.defaultParallelism)

    def groups(self) -> list[Group]:
        """The queries by the pieces they are computed in."""
        return self.grouped(self.names)

    def grouped(self, names: Iterable[str]) -> list[Group]:
        """Some of the queries by these pieces."""
        found: dict[tuple[Any, ...], list[str]] = {}
        backs: dict[tuple[Any, ...], int] = {}
        for name in names:
            back = self.partitionings[name].look_back
            keys = self.usable(self.partitionings[name].keys)
            sliced = back is not None and (not keys or self._slices(back) > 1 or self.history.count == 0)
            strands = NO_STRANDS if sliced else self._strands(name, keys)
            key = ("time",) if sliced else (strands, *sorted(keys.items()))
            found.setdefault(key, []).append(name)
            if sliced and back is not None:
                backs[key] = max(backs.get(key, 0), back)
        return in_one_pass(
            Group(tuple(names), backs.get(key), dict(key[1:]), key[0] if key not in backs else NO_STRANDS)
            for key, names in found.items()
        )

    def _strands(self, name: str, keys: Mapping[str, tuple[Path, ...]]) -> Strands:
        """The partitions of a query that are cut into slices."""
        asked = self._bounded([name]).get(name)
        if self._open_end or asked is None or why_whole(asked, self.streams, keys):
            return NO_STRANDS
        of = self._number_of(asked.stream)
        columns = keys.get(asked.stream.lower(), ())
        if (of, columns) not in self._known_strands:
            self._known_strands[of, columns] = self._found_strands(of, columns)
        return self._known_strands[of, columns]

    def _found_strands(self, of: int, columns: tuple[Path, ...]) -> Strands:
        events = self.events[of]
        least = 1 if self._pieces else FEW_ROWS
        if self._wanted_pieces() == 1:
            return NO_STRANDS
        if not columns:
            one = self.history if len(self.events) == 1 else history_of([events.frame], self.end)
            cut = one.count >= least
            return Strands(of, one.count, (Strand(None, timed(one, [events.frame])),)) if cut else NO_STRANDS
        placed = self._placed(of, events, Group((), None, {events.stream.lower(): columns}))
        own = [value_of(events, path, f"s{of}") for path in columns]
        total, large = heavy(placed, own, max(least, self.history.count // (2 * self.cores)))
        return Strands(of, total, tuple(large)) if large else NO_STRANDS

    def _number_of(self, stream: str) -> int:
        return next(n for n, events in enumerate(self.events) if events.stream.lower() == stream.lower())

    def usable(self, keys: Mapping[str, tuple[Path, ...]]) -> dict[str, tuple[Path, ...]]:
        """The values of which Spark itself can tell whether values are equal."""
        if not keys:
            return {}
        width = len(next(iter(keys.values())))
        events = {e.stream.lower(): e for e in self.events}
        kept = [
            place
            for place in range(width)
            if all(s not in events or comparable(events[s], columns[place]) for s, columns in keys.items())
        ]
        return {stream: tuple(columns[place] for place in kept) for stream, columns in keys.items()} if kept else {}

    def _wanted_pieces(self) -> int:
        enough = max(self.cores * PIECES_A_CORE, -(-self.history.count // ROWS_A_PIECE))
        return self._pieces or max(1, min(enough, self.history.count))

    def _slices(self, back: int) -> int:
        """So many slices of time: fewer where each would read too much for what it looks back at."""
        span = self.history.last - self.history.first + 1
        wanted = self._wanted_pieces()
        if self._pieces:
            return wanted
        long = max(1, span // (max(back, 1) * OVERLAP))
        return wanted if long >= wanted else max(1, min(wanted, max(long, min(self.cores, span // max(back, 1)))))

    def explain(self, name: str) -> str:
        """How a query is computed: its pieces and why, then Spark's own plan."""
        (group,) = self.grouped([name])
        by_key = self._wanted_pieces() if group.keys or group.strands.found else 1
        count = by_key if group.back is None else len(self._bounds(group.back)) - 1
        lines = [f"query {name}, on Spark", f"{group.told}; pieces: {count}, on {self.cores} cores"]
        lines += [f"why: {why}" for why in self._why(name, group)]
        frame = self._searched(group, name) if group.strands.found else self.frame(name)
        with contextlib.redirect_stdout(io.StringIO()) as told:
            frame.explain(mode="formatted")
        return "\n".join(f"-- {line}" for line in lines) + f"\n{told.getvalue().strip()}"

    def _why(self, name: str, group: Group) -> Iterator[str]:
        reason, asked = self.partitionings[name].reason, self._bounded([name]).get(name)
        if group.strands.found:
            yield group.strands.why
        elif group.back is None and not group.keys:
            if reason:
                yield reason
            if asked is not None and (why := why_whole(asked, self.streams, {})):
                yield why
            elif asked is None and any(isinstance(node, MatchRecognize) for node in walk(self._nodes[name])):
                yield WHY_LIVE

    # Computing ----------------------------------------------------------------------------------------------------------

    def frame(self, name: str) -> DataFrame:
        """The results of one query: `ts` and its columns, in their order; computed when they are asked for, or now if in
        slices that have to be joined."""
        group = next(group for group in self.groups() if name in group.names)
        if group.strands.found:
            parts = self.joined(group, name)
            if parts is not None:
                return self.together(group, name, [part.frame for part in parts])
            group = dataclasses.replace(group, strands=NO_STRANDS)
        task, pieces = self.task(dataclasses.replace(group, names=(name,)))
        frame = pieces.mapInArrow(task.frame(name), spark_schema(task.wanted[name]))
        if task.in_order:
            return frame
        return frame.orderBy(*map(column, ORDER)).select(*map(column, self.schemas[name].names))

    def joined(self, group: Group, name: str) -> list[Joined] | None:
        """The results of each of the strands; None where slices of one cannot be joined."""
        cutter, found = self._cutter(group, name), []
        for strand in group.strands.found:
            part = cutter.joined(strand, self.history.last, self._wanted_pieces())
            if part is None:
                return None
            found.append(part)
        return found

    def _cutter(self, group: Group, name: str) -> Cutter:
        asked, of = self._bounded([name])[name], group.strands.of
        placed = self._placed(of, self.events[of], group)
        return Cutter(self._feed(of, self.events[of], False), asked, placed, self.schemas[name])

    def _searched(self, group: Group, name: str) -> DataFrame:
        cutter, strand = self._cutter(group, name), group.strands.found[0]
        return cutter.searched(strand, cutter.slices(strand, self.history.last, self._wanted_pieces(), 1))

    def together(self, group: Group, name: str, parts: Sequence[DataFrame]) -> DataFrame:
        """The results of the strands, and of what else there is, in one order."""
        names = [column(c) for c in self.schemas[name].names]
        if len(parts) == 1 and not group.strands.rest:
            return parts[0].select(*names)
        whole = parts[0]
        for other in parts[1:]:
            whole = whole.unionByName(other)
        if group.strands.rest:
            task, pieces = self.task(dataclasses.replace(group, names=(name,)))
            whole = whole.unionByName(kept(pieces.mapInArrow(task.frame(name), spark_schema(task.wanted[name]))))
        return whole.orderBy(*map(column, ORDER)).select(*names)

    def task(self, group: Group) -> tuple[Task, DataFrame]:
        """What is done for these queries, and the pieces it is done with."""
        bounds = self._bounds(group.back) if group.back is not None else None
        queries = [(name, node) for name, (node, _) in self.script.queries.items()]
        changed: dict[str, Node] = {}
        if group.keys:  # one piece has one order as it is
            found = {name: with_first_row(self._nodes[name]) for name in group.names}
            changed = {name: node for name, node in found.items() if node is not None}
            queries = [(name, changed.get(name, node)) for name, node in queries]
        at_once = {} if bounds is not None or self._open_end or self.writes.serial else self._bounded(group.names)
        order = [(c, pa.int64()) for c in ORDER] if group.keys or at_once else []  # else one after the other
        wanted = {name: pa.schema([*order, *self.schemas[name]]) for name in group.names}
        feeds = tuple(self._feed(number, events, bool(changed)) for number, events in enumerate(self.events))
        task = Task(
            feeds,
            tuple(queries) if self.writes.serial else needed(queries, group.names),
            wanted,
            self.relations,
            self.history.last,
            bounds,
            self._open_end,
            at_once,
            stores_read(self.script, self.stores),
            self.writes.before(bounds, group.names, self.events),
        )
        return task, self._cut(group, bounds)

    def _bounded(self, names: Iterable[str]) -> dict[str, Bounded]:
        found = {name: bounded(self._nodes[name], self.schemas[name].names[1:], self.streams) for name in names}
        return {name: asked for name, asked in found.items() if asked is not None}

    def _feed(self, number: int, events: Events, placed: bool) -> Feed:
        schema = self.streams[next(name for name in self.streams if name.lower() == events.stream.lower())]
        columns = tuple(f"s{number}{column}" for column in events.columns)
        if placed:
            schema = Schema((*schema, *(Attribute(name, "BIGINT") for name in MOMENT)))
        return Feed(events.stream, schema, events.layout, columns, number, placed)

    def _bounds(self, back: int) -> tuple[int, ...]:
        """The first instants of the slices, and the one after the last of all."""
        history, slices = self.timed, self._slices(back)
        step = len(history.quantiles) / slices
        inner = [history.quantiles[int(step * place)] for place in range(1, slices)] if history.quantiles else []
        return (history.first, *sorted({at for at in inner if at > history.first}), history.last + 1)

    def unbounded(self, name: str, keys: Mapping[str, tuple[Path, ...]], count: int) -> tuple[Task, DataFrame]:
        """What is done for one query with a piece of events that never end, and these, each with one of `count` pieces."""
        feeds = tuple(self._feed(number, events, False) for number, events in enumerate(self.events))
        queries = needed([(n, node) for n, (node, _) in self.script.queries.items()], [name])
        task = Task(feeds, queries, {name: self.schemas[name]}, self.relations, 0, open_end=True)
        return task, numbered(self._merged(Group((name,), None, keys), range(len(self.events))), count)

    def _wanted_streams(self, group: Group) -> list[int]:
        """The streams that matter to a group's queries, by number; to what is one piece or writes, each event matters."""
        every = range(len(self.events))
        if self.writes.writers or (group.back is None and not group.keys):
            return list(every)
        queries = needed([(name, node) for name, (node, _) in self.script.queries.items()], group.names)
        read = {below.name.lower() for _, node in queries for below in walk(node) if isinstance(below, Stream)}
        return [number for number in every if self.events[number].stream.lower() in read]

    def _merged(self, group: Group, streams: Iterable[int]) -> DataFrame:
        """The events of these streams, PIECE being a number of their keys."""
        frames = [self._placed(number, self.events[number], group) for number in streams]
        whole = frames[0]
        for other in frames[1:]:
            whole = whole.unionByName(other, allowMissingColumns=True)
        return whole

    def _cut(self, group: Group, bounds: tuple[int, ...] | None) -> DataFrame:
        """The events of all streams, each with its piece, pieces in one Spark partition each and in their order."""
        from pyspark.sql import functions as F  # noqa: N812

        whole = self._merged(group, self._wanted_streams(group))
        if bounds is not None:
            assert group.back is not None
            count = len(bounds) - 1
            first, last = (slice_of(F.col(TIME) + more, bounds) for more in (0, group.back + 1))
            others = [c for c in whole.columns if c != PIECE]
            whole = whole.select(F.explode(F.sequence(first, last)).alias(PIECE), *others)
        else:
            count = self._wanted_pieces() if group.keys else 1
            apart = [strand.key for strand in group.strands.found if strand.key is not None]
            whole = whole.where(~F.col(PIECE).isin(apart)) if apart else whole
            whole = numbered(whole, count)
        cut = whole.repartitionById(count, F.col(PIECE))
        return cut.sortWithinPartitions(PIECE, TIME, PLACE)

    def _placed(self, number: int, events: Events, group: Group) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        file, row = F.col(FILE).cast("long"), F.col(ROW)
        high, low = F.shiftright(row, 33), row.bitwiseAND(F.lit((1 << 33) - 1))
        wide = row >= (1 << FILE_BITS)  # of Spark's own numbers the upper half is the partition's
        place = F.lit(number << STREAM_BITS) + F.when(wide, F.shiftleft(high, FILE_BITS) + low).otherwise(
            F.shiftleft(file, FILE_BITS) + row
        )
        key = key_of(events, group.keys.get(events.stream.lower(), ())) if group.back is None else F.lit(0)
        own = [F.col(c).alias(f"s{number}{c}") for c in events.columns]
        return events.frame.select(key.alias(PIECE), F.col(TIME), place.alias(PLACE), *own)


def frames(replay: Replay) -> dict[str, DataFrame]:
    """The results of all queries."""
    return {name: replay.frame(name) for name in replay.names}
