"""The cutting of a history into pieces: its figures, the slices of time, the hashes of keys, and the events of each piece."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bridge.history.pieces import Path
from bridge.spark.columns import FILE_BITS, PIECE, PLACE, STREAM_BITS, TIME
from bridge.spark.events import FILE, ROW, Events, column
from windows.arrow import arrow_type
from windows.schema import Schema
from windows.types import Struct, shape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

QUANTILE_COUNT = 1000
"""The number of equal parts into which a history can be cut."""

_SHARES = ", ".join(f"{place / QUANTILE_COUNT}D" for place in range(QUANTILE_COUNT))

QUANTILES = f"percentile_approx(`{TIME}`, array({_SHARES}), 20000)"
"""SQL for the timestamps at which a history can be cut into equal parts. If it were built from columns in Python, each
number in the list would be a call to the JVM.
"""


SAMPLE = 200_000
"""The number of rows in the sample for quantiles. Quantiles of all rows take ten times as long as the other figures."""


@dataclasses.dataclass(frozen=True)
class History:
    """Figures of all events: their number, the first and the last timestamp, and, after `with_quantiles`, the
    timestamps that divide them into equal parts.
    """

    count: int
    first: int
    last: int
    quantiles: tuple[int, ...]


def history_of(frames: Sequence[DataFrame], end: int | None) -> History:
    """The number of events, and the first and last timestamp. `end`: the timestamp to which time advances."""
    from pyspark.sql import functions as F  # noqa: N812

    row = _times(frames).agg(F.count(TIME), F.min(TIME), F.max(TIME)).first()
    assert row is not None
    count, first, last = row
    last = max(last if last is not None else end or 0, end if end is not None else last or 0)
    return History(count, first if first is not None else last, last, ())


def with_quantiles(history: History, frames: Sequence[DataFrame]) -> History:
    """The same figures with quantiles, which are those of a sample if there are many rows."""
    from pyspark.sql import functions as F  # noqa: N812

    times = _times(frames)
    if history.count > SAMPLE:
        times = times.sample(SAMPLE / history.count, 1)
    row = times.agg(F.expr(QUANTILES)).first()
    assert row is not None
    return dataclasses.replace(history, quantiles=(history.first, *(row[0] or ())[1:]))


def _times(frames: Sequence[DataFrame]) -> DataFrame:
    times = frames[0].select(TIME)
    for frame in frames[1:]:
        times = times.unionByName(frame.select(TIME))
    return times


def sample_quantiles(rows: int) -> str:
    """An SQL expression for QUANTILES over a sample of about SAMPLE rows, of `rows` rows.

    >>> sample_quantiles(1_000_000).partition(" FILTER ")[2]
    '(WHERE pmod(xxhash64(`ts`, `cep:row`), 5) = 0)'
    """
    every = max(1, rows // SAMPLE)
    return f"{QUANTILES} FILTER (WHERE pmod(xxhash64(`{TIME}`, `{PLACE}`), {every}) = 0)"


def with_piece_numbers(events: DataFrame, count: int) -> DataFrame:
    """The same events, with the number of one of `count` pieces as PIECE instead of a key's hash."""
    from pyspark.sql import functions as F  # noqa: N812

    return events.withColumn(PIECE, F.pmod(F.col(PIECE), F.lit(count)).cast("int"))


def slice_of(at: Column, bounds: Sequence[int]) -> Column:
    """The number of the slice that contains the timestamp `at`, by a binary search in SQL."""
    from pyspark.sql import functions as F  # noqa: N812

    def within(low: int, high: int) -> Column:
        if high - low == 1:
            return F.lit(low)
        middle = (low + high) // 2
        return F.when(at < bounds[middle], within(low, middle)).otherwise(within(middle, high))

    return within(0, len(bounds) - 1)


def key_of(events: Events, paths: Sequence[Path]) -> Column:
    """The hash of a key. Equal numbers have the same hash, whatever their types."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = []
    for path in paths:
        value = value_of(events, path)
        parts.append(value.cast("double") + F.lit(0.0) if is_number(type_at(events.schema, path)) else value)
    return F.xxhash64(*parts) if parts else F.lit(0).cast("long")


def is_comparable(events: Events, path: Path) -> bool:
    """Whether Spark compares the values at `path` as the bridge does, as they are of the attribute's kind."""
    declared = type_at(events.schema, path)
    kind: Any = events.frame.schema[events.column_of(path[0])].dataType if declared is not None else None
    for name in path[1:]:
        kind = kind[name].dataType if kind is not None and name in getattr(kind, "names", ()) else None
    if declared is None or kind is None:
        return False
    name = str(kind.typeName())
    if is_number(declared):
        return name in ("byte", "short", "integer", "long", "float", "double", "decimal")
    return {"VARCHAR": "string", "BOOLEAN": "boolean", "DATE": "date"}.get(declared) == name


def value_of(events: Events, path: Path, before: str = "") -> Column:
    """The column at `path`, or the part of one. `before`: the prefix of the columns' names."""
    value = column(before + events.column_of(path[0]))
    for name in path[1:]:
        value = value.getField(name)
    return value


def type_at(schema: Schema, path: Path) -> str | None:
    """The type of the attribute at `path`, or of a part of one; None if there is none.

    >>> type_at(Schema.of("home STRUCT(city VARCHAR)"), ("home", "city"))
    'VARCHAR'
    """
    attribute = schema.find(path[0])
    kind = None if attribute is None else attribute.type
    for name in path[1:]:
        nested = shape(kind) if kind is not None else None
        part = nested.find(name) if isinstance(nested, Struct) else None
        kind = None if part is None else part[1]
    return kind


def is_number(kind: str | None) -> bool:
    """Whether an attribute type is a number."""
    arrow = None if kind is None else arrow_type(kind)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return arrow is not None and any(test(arrow) for test in tests)


def events_of_stream(events: Events, number: int, key: Sequence[Path] | None) -> DataFrame:
    """The events of the stream with this number: PIECE, TIME, PLACE, and its columns with the prefix `s<number>`.

    PIECE is the hash of the key; 0 without a key.
    """
    from pyspark.sql import functions as F  # noqa: N812

    file, row = F.col(FILE).cast("long"), F.col(ROW)
    high, low = F.shiftright(row, 33), row.bitwiseAND(F.lit((1 << 33) - 1))
    numbered_by_spark = row >= (1 << FILE_BITS)  # the upper half of such a number is the number of Spark's partition
    place = F.lit(number << STREAM_BITS) + F.when(numbered_by_spark, F.shiftleft(high, FILE_BITS) + low).otherwise(
        F.shiftleft(file, FILE_BITS) + row
    )
    piece = F.lit(0) if key is None else key_of(events, key)
    columns = [F.col(c).alias(f"s{number}{c}") for c in events.columns]
    return events.frame.select(piece.alias(PIECE), F.col(TIME), place.alias(PLACE), *columns)


def events_of_streams(
    events: Sequence[Events], numbers: Iterable[int], keys: Mapping[str, tuple[Path, ...]] | None
) -> DataFrame:
    """The events of several streams in one frame; see `events_of_stream`. `keys`: the keys of each stream."""
    frames = [
        events_of_stream(events[number], number, None if keys is None else keys.get(events[number].stream.lower(), ()))
        for number in numbers
    ]
    whole = frames[0]
    for other in frames[1:]:
        whole = whole.unionByName(other, allowMissingColumns=True)
    return whole


def cut_by_time(events: DataFrame, bounds: Sequence[int], back: int) -> DataFrame:
    """The events in slices of time between `bounds`, each with the events of the `back` milliseconds before it."""
    from pyspark.sql import functions as F  # noqa: N812

    first, last = (slice_of(F.col(TIME) + more, bounds) for more in (0, back + 1))
    others = [c for c in events.columns if c != PIECE]
    return _in_order(events.select(F.explode(F.sequence(first, last)).alias(PIECE), *others), len(bounds) - 1)


def cut_by_key(events: DataFrame, count: int, without: Sequence[int]) -> DataFrame:
    """The events in `count` pieces by the hash of their key, without the keys with the hashes `without`."""
    from pyspark.sql import functions as F  # noqa: N812

    rest = events.where(~F.col(PIECE).isin(list(without))) if without else events
    return _in_order(with_piece_numbers(rest, count), count)


def _in_order(events: DataFrame, count: int) -> DataFrame:
    """Each piece in one partition of Spark, in the order of its events."""
    from pyspark.sql import functions as F  # noqa: N812

    return events.repartitionById(count, F.col(PIECE)).sortWithinPartitions(PIECE, TIME, PLACE)
