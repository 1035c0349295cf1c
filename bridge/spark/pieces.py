"""Replay on Spark: the history in pieces, each through the bridge itself on an executor, results in one order.

A piece is a slice of time, or all rows of some keys (`fanout`); `task` is what is done with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bridge.algebra import IntoTable, ReadSQL, UpdateSQL
from bridge.arrow import arrow_type
from bridge.engine import Bridge
from bridge.errors import BridgeError
from bridge.intake import milliseconds
from bridge.query import Node, walk
from bridge.replay import Script, schema_for, undeclared
from bridge.rows import arrow_table
from bridge.sources.relations import create_relation, whole_table
from bridge.spark.bounded import Bounded, bounded
from bridge.spark.events import FILE, ROW, Events, column, open_events
from bridge.spark.fanout import fanout
from bridge.spark.firsts import with_first_row
from bridge.spark.order import FILE_BITS, ORDER, PIECE, PLACE, STREAM_BITS, TIME
from bridge.spark.sessions import session
from bridge.spark.task import Feed, Task, needed
from windows.schema import Attribute, Schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS_A_PIECE = 2_000_000
"""Events of a piece, where there are enough of them to keep all cores at work."""

PIECES_A_CORE = 3
"""Pieces for each core, so that no core waits long for the last one."""

OVERLAP = 4
"""A slice is so many times as long as its results look back, where there are slices enough then."""


@dataclasses.dataclass(frozen=True)
class History:
    """What is known of all events together, before any query runs."""

    count: int
    first: int
    last: int
    quantiles: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Group:
    """Queries that are computed in the same pieces, in one pass."""

    names: tuple[str, ...]
    back: int | None
    keys: Mapping[str, tuple[str, ...]]

    @property
    def told(self) -> str:
        """How the pieces are made, in words."""
        if self.back is not None:
            return f"slices of time, each looking back {self.back} ms"
        if self.keys:
            return "by key: " + "; ".join(f"{stream} by {', '.join(columns)}" for stream, columns in self.keys.items())
        return "in one piece"


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
        end: Any = None,
        pieces: int | None = None,
        open_end: bool = False,
    ) -> None:
        if not isinstance(source, Mapping):
            raise BridgeError("engine='spark' wants a mapping of streams to their events: a path, a table, a frame")
        if pieces is not None and (not isinstance(pieces, int) or pieces < 1):
            raise BridgeError(f"pieces is a whole number from 1, not {pieces!r}")
        self.script = Script.of(queries)
        _refuse_stores(self.script)
        self.script.streams.update({name: schema_for(name, schema) for name, schema in (schemas or {}).items()})
        self.spark = session(spark)
        self.end = None if end is None else milliseconds(end)
        self.events = [self._until_end(e) for e in open_events(self.spark, self.script, source, timestamp)]
        self.relations = {name: _as_table(name, data) for name, data in (relations or {}).items()}
        self._pieces, self._open_end = pieces, open_end
        self._history: History | None = None
        with self._checked() as cep:
            self.fanouts = {name: fanout(name, cep._catalogue) for name in self.script.queries}
            self.schemas = {name: _result_schema(cep, name) for name in self.script.queries}
            self._nodes = {name: cep._catalogue.query_entry(name).resolved.node for name in self.script.queries}

    # What is known before -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _checked(self) -> Iterator[Bridge]:
        """A bridge without events that has all streams and queries: what is wrong with them, is wrong here."""
        import bridge

        with bridge.connect() as cep:
            for name, table in self.relations.items():
                create_relation(cep.database, name, table)
            self.install(cep)
            self.streams = cep.streams
            yield cep

    def install(self, cep: Bridge) -> None:
        """Registers the streams in a bridge and creates the queries there."""
        self.script.install(cep, undeclared(self.script, {events.stream: events for events in self.events}))

    def _until_end(self, events: Events) -> Events:
        if self.end is None:
            return events
        from pyspark.sql import functions as F  # noqa: N812

        return dataclasses.replace(events, frame=events.frame.where(F.col(TIME) <= self.end))

    @property
    def history(self) -> History:
        """One pass over the times of all events."""
        if self._history is None:
            self._history = _history([events.frame for events in self.events], self.end)
        return self._history

    @property
    def cores(self) -> int:
        """How many tasks Spark runs at a time."""
        return int(self.spark.sparkContext.defaultParallelism)

    def groups(self) -> list[Group]:
        """The queries by the pieces they are computed in."""
        found: dict[tuple[Any, ...], list[str]] = {}
        backs: dict[tuple[Any, ...], int] = {}
        for name, way in self.fanouts.items():
            keys = self.usable(way.keys)
            sliced = way.back is not None and (not keys or self._slices(way.back) > 1 or self.history.count == 0)
            key = ("time",) if sliced else ("keys", *sorted(keys.items()))
            found.setdefault(key, []).append(name)
            if sliced and way.back is not None:
                backs[key] = max(backs.get(key, 0), way.back)
        return [Group(tuple(names), backs.get(key), dict(key[1:])) for key, names in found.items()]

    def usable(self, keys: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """The columns of which Spark itself can tell whether values are equal."""
        if not keys:
            return {}
        width = len(next(iter(keys.values())))
        events = {e.stream.lower(): e for e in self.events}
        kept = [
            place
            for place in range(width)
            if all(s not in events or _comparable(events[s], columns[place]) for s, columns in keys.items())
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
        group = next(group for group in self.groups() if name in group.names)
        way = self.fanouts[name]
        by_key = self._wanted_pieces() if group.keys else 1
        count = by_key if group.back is None else len(self._bounds(group.back)) - 1
        lines = [f"query {name}, on Spark", f"{group.told}; pieces: {count}, on {self.cores} cores"]
        lines += [f"why: {way.why}"] if way.why and group.back is None and not group.keys else []
        with contextlib.redirect_stdout(io.StringIO()) as told:
            self.frame(name).explain(mode="formatted")
        return "\n".join(f"-- {line}" for line in lines) + f"\n{told.getvalue().strip()}"

    # Computing ----------------------------------------------------------------------------------------------------------

    def frame(self, name: str) -> DataFrame:
        """The results of one query: `ts` and its columns, in their order; computed when they are asked for."""
        group = next(group for group in self.groups() if name in group.names)
        task, pieces = self.task(dataclasses.replace(group, names=(name,)))
        frame = pieces.mapInArrow(task.frame(name), spark_schema(task.wanted[name]))
        if task.bounds is not None:
            return frame
        return frame.orderBy(*map(column, ORDER)).select(*map(column, self.schemas[name].names))

    def task(self, group: Group) -> tuple[Task, DataFrame]:
        """What is done for these queries, and the pieces it is done with."""
        bounds = self._bounds(group.back) if group.back is not None else None
        queries = [(name, node) for name, (node, _) in self.script.queries.items()]
        changed: dict[str, Node] = {}
        if group.keys:  # one piece has one order as it is
            found = {name: with_first_row(self._nodes[name]) for name in group.names}
            changed = {name: node for name, node in found.items() if node is not None}
            queries = [(name, changed.get(name, node)) for name, node in queries]
        order = [] if bounds is not None else [(c, pa.int64()) for c in ORDER]
        wanted = {name: pa.schema([*order, *self.schemas[name]]) for name in group.names}
        feeds = tuple(self._feed(number, events, bool(changed)) for number, events in enumerate(self.events))
        at_once = {} if bounds is not None or self._open_end else self._bounded(group.names)
        task = Task(
            feeds,
            needed(queries, group.names),
            wanted,
            self.relations,
            self.history.last,
            bounds,
            self._open_end,
            at_once,
        )
        return task, self._cut(group, bounds)

    def _bounded(self, names: Iterable[str]) -> dict[str, Bounded]:
        found = {name: bounded(self._nodes[name], self.schemas[name].names[1:], self.streams) for name in names}
        return {name: asked for name, asked in found.items() if asked is not None}

    def _feed(self, number: int, events: Events, placed: bool) -> Feed:
        schema = self.streams[next(name for name in self.streams if name.lower() == events.stream.lower())]
        columns = tuple(f"s{number}{column}" for column in events.columns)
        if placed:
            schema = Schema((*schema, Attribute(PLACE, "BIGINT")))
        return Feed(events.stream, schema, events.layout, columns, number, PLACE if placed else None)

    def _bounds(self, back: int) -> tuple[int, ...]:
        """The first instants of the slices, and the one after the last of all."""
        history, slices = self.history, self._slices(back)
        step = len(history.quantiles) / slices
        inner = [history.quantiles[int(step * place)] for place in range(1, slices)] if history.quantiles else []
        return (history.first, *sorted({at for at in inner if at > history.first}), history.last + 1)

    def unbounded(self, name: str, keys: Mapping[str, tuple[str, ...]], count: int) -> tuple[Task, DataFrame]:
        """What is done for one query with a piece of events that never end, and these, each with one of `count` pieces."""
        feeds = tuple(self._feed(number, events, False) for number, events in enumerate(self.events))
        queries = needed([(n, node) for n, (node, _) in self.script.queries.items()], [name])
        task = Task(feeds, queries, {name: self.schemas[name]}, self.relations, 0, (0, 1), True)
        return task, _numbered(self._merged(Group((name,), None, keys)), count)

    def _merged(self, group: Group) -> DataFrame:
        """The events of all streams, PIECE being a number of their keys."""
        frames = [self._placed(number, events, group) for number, events in enumerate(self.events)]
        whole = frames[0]
        for other in frames[1:]:
            whole = whole.unionByName(other, allowMissingColumns=True)
        return whole

    def _cut(self, group: Group, bounds: tuple[int, ...] | None) -> DataFrame:
        """The events of all streams, each with its piece, pieces in one Spark partition each and in their order."""
        from pyspark.sql import functions as F  # noqa: N812

        whole = self._merged(group)
        if bounds is not None:
            assert group.back is not None
            count = len(bounds) - 1
            first, last = (_slice_of(F.col(TIME) + more, bounds) for more in (0, group.back + 1))
            others = [c for c in whole.columns if c != PIECE]
            whole = whole.select(F.explode(F.sequence(first, last)).alias(PIECE), *others)
        else:
            count = self._wanted_pieces() if group.keys else 1
            whole = _numbered(whole, count)
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
        key = _key(events, group.keys.get(events.stream.lower(), ())) if group.back is None else F.lit(0)
        own = [F.col(c).alias(f"s{number}{c}") for c in events.columns]
        return events.frame.select(key.alias(PIECE), F.col(TIME), place.alias(PLACE), *own)


def _numbered(events: DataFrame, count: int) -> DataFrame:
    """PIECE, which is a number of the keys, as the number of one of so many pieces."""
    from pyspark.sql import functions as F  # noqa: N812

    return events.withColumn(PIECE, F.pmod(F.col(PIECE), F.lit(count)).cast("int"))


def _refuse_stores(script: Script) -> None:
    for name, (node, _) in script.queries.items():
        if any(isinstance(below, (ReadSQL, UpdateSQL, IntoTable)) for below in walk(node)):
            raise BridgeError(
                f"{name!r} reads or writes a data store, which is done where the bridge is: use engine='local', or give what "
                "it reads as relations"
            )


def frames(replay: Replay) -> dict[str, DataFrame]:
    """The results of all queries."""
    return {name: replay.frame(name) for name in replay.script.queries}


def _slice_of(at: Column, bounds: Sequence[int]) -> Column:
    """The slice in which an instant is: a binary search, written out."""
    from pyspark.sql import functions as F  # noqa: N812

    def within(low: int, high: int) -> Column:
        if high - low == 1:
            return F.lit(low)
        middle = (low + high) // 2
        return F.when(at < bounds[middle], within(low, middle)).otherwise(within(middle, high))

    return within(0, len(bounds) - 1)


def _key(events: Events, columns: Sequence[str]) -> Column:
    """A number that rows of equal keys have in common, whatever the type of a number."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = []
    for name in columns:
        attribute = events.schema.find(name)
        assert attribute is not None
        value = F.col(events.column_of(attribute.name))
        parts.append(value.cast("double") + F.lit(0.0) if _is_number(attribute) else value)
    return F.xxhash64(*parts) if parts else F.lit(0).cast("long")


def _comparable(events: Events, name: str) -> bool:
    """Whether a column has the very kind of values that the attribute has."""
    attribute = events.schema.find(name)
    if attribute is None:
        return False
    kind = events.frame.schema[events.column_of(attribute.name)].dataType.typeName()
    if _is_number(attribute):
        return kind in ("byte", "short", "integer", "long", "float", "double", "decimal")
    return {"VARCHAR": "string", "BOOLEAN": "boolean", "DATE": "date"}.get(attribute.type) == kind


def _is_number(attribute: Attribute) -> bool:
    kind = arrow_type(attribute.type)
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _history(frames: Sequence[DataFrame], end: int | None) -> History:
    """The number of events, their first and last time, and times between which there are equally many."""
    from pyspark.sql import functions as F  # noqa: N812

    times = frames[0].select(TIME)
    for frame in frames[1:]:
        times = times.unionByName(frame.select(TIME))
    shares = [place / 1000 for place in range(1000)]
    found = times.agg(F.count(TIME), F.min(TIME), F.max(TIME), F.percentile_approx(TIME, shares, 20_000)).first()
    assert found is not None
    count, first, last, quantiles = found
    last = max(last if last is not None else end or 0, end if end is not None else last or 0)
    return History(count, first if first is not None else last, last, tuple(quantiles or ()))


def _result_schema(cep: Bridge, name: str) -> pa.Schema:
    """The columns of a query's results, in the types that the database gives where the query says none."""
    entry = cep._catalogue.query_entry(name)
    given = cep.database.arrow(entry.texts[0])
    whole = arrow_table(entry.fields, [])
    if given is None:
        return whole.schema
    fields = [
        (f.name, g.type if pa.types.is_null(f.type) else f.type)
        for f, g in zip(whole.schema, given.schema, strict=True)
    ]
    return pa.schema([(n, pa.string() if pa.types.is_null(kind) else kind) for n, kind in fields])


def spark_schema(schema: pa.Schema) -> Any:
    """An Arrow schema in Spark's types; a time without a zone stays one."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _as_table(name: str, data: Any) -> pa.Table:
    """A relation as Arrow: it goes to every executor."""
    on_spark = type(data).__module__.startswith("pyspark.") and hasattr(data, "toArrow")
    return whole_table(name, data.toArrow() if on_spark else data)
