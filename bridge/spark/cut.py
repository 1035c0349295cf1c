"""The columns by which Spark cuts a history: the slice of an instant, a number of a key, and what is known beforehand."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bridge.history.pieces import Path
from bridge.spark.columns import PIECE, PLACE, TIME
from bridge.spark.events import Events, column
from windows.arrow import arrow_type
from windows.schema import Schema
from windows.types import Struct, shape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


QUANTILES = f"percentile_approx(`{TIME}`, array({', '.join(f'{place / 1000}D' for place in range(1000))}), 20000)"
"""The times at which a history can be cut; as a text, since Python would send each share to the JVM by itself."""


SAMPLE = 200_000
"""Of so many rows quantiles are told, where there are more: of all they take ten times as long as the other figures."""


@dataclasses.dataclass(frozen=True)
class History:
    """What is known of all events together, before any query runs; of `timed` ones, times with equally many between them."""

    count: int
    first: int
    last: int
    quantiles: tuple[int, ...]


def history_of(frames: Sequence[DataFrame], end: int | None) -> History:
    """The number of events, their first and last time."""
    from pyspark.sql import functions as F  # noqa: N812

    found = _times(frames).agg(F.count(TIME), F.min(TIME), F.max(TIME)).first()
    assert found is not None
    count, first, last = found
    last = max(last if last is not None else end or 0, end if end is not None else last or 0)
    return History(count, first if first is not None else last, last, ())


def timed(history: History, frames: Sequence[DataFrame]) -> History:
    """The same with its quantiles, of a sample where there are many rows."""
    from pyspark.sql import functions as F  # noqa: N812

    times = _times(frames)
    if history.count > SAMPLE:
        times = times.sample(SAMPLE / history.count, 1)
    found = times.agg(F.expr(QUANTILES)).first()
    assert found is not None
    return dataclasses.replace(history, quantiles=(history.first, *(found[0] or ())[1:]))


def _times(frames: Sequence[DataFrame]) -> DataFrame:
    times = frames[0].select(TIME)
    for frame in frames[1:]:
        times = times.unionByName(frame.select(TIME))
    return times


def sampled(rows: int) -> str:
    """QUANTILES of about SAMPLE of so many rows, which have a TIME and a PLACE.

    >>> sampled(1_000_000).partition(" FILTER ")[2]
    '(WHERE pmod(xxhash64(`ts`, `cep:row`), 5) = 0)'
    """
    every = max(1, rows // SAMPLE)
    return f"{QUANTILES} FILTER (WHERE pmod(xxhash64(`{TIME}`, `{PLACE}`), {every}) = 0)"


def numbered(events: DataFrame, count: int) -> DataFrame:
    """PIECE, which is a number of the keys, as the number of one of so many pieces."""
    from pyspark.sql import functions as F  # noqa: N812

    return events.withColumn(PIECE, F.pmod(F.col(PIECE), F.lit(count)).cast("int"))


def slice_of(at: Column, bounds: Sequence[int]) -> Column:
    """The slice in which an instant is: a binary search, written out."""
    from pyspark.sql import functions as F  # noqa: N812

    def within(low: int, high: int) -> Column:
        if high - low == 1:
            return F.lit(low)
        middle = (low + high) // 2
        return F.when(at < bounds[middle], within(low, middle)).otherwise(within(middle, high))

    return within(0, len(bounds) - 1)


def key_of(events: Events, paths: Sequence[Path]) -> Column:
    """A number that rows of equal keys have in common, whatever the type of a number."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = []
    for path in paths:
        value = value_of(events, path)
        parts.append(value.cast("double") + F.lit(0.0) if is_number(type_at(events.schema, path)) else value)
    return F.xxhash64(*parts) if parts else F.lit(0).cast("long")


def comparable(events: Events, path: Path) -> bool:
    """Whether a column, or a part of it, has the very kind of values that the attribute has."""
    wanted = type_at(events.schema, path)
    kind: Any = events.frame.schema[events.column_of(path[0])].dataType if wanted is not None else None
    for name in path[1:]:
        kind = kind[name].dataType if kind is not None and name in getattr(kind, "names", ()) else None
    if wanted is None or kind is None:
        return False
    given = str(kind.typeName())
    if is_number(wanted):
        return given in ("byte", "short", "integer", "long", "float", "double", "decimal")
    return {"VARCHAR": "string", "BOOLEAN": "boolean", "DATE": "date"}.get(wanted) == given


def value_of(events: Events, path: Path, before: str = "") -> Column:
    """The column of an attribute, or a part of it; `before` stands before the names of the columns."""
    value = column(before + events.column_of(path[0]))
    for name in path[1:]:
        value = value.getField(name)
    return value


def type_at(schema: Schema, path: Path) -> str | None:
    """The type of an attribute, or of a part of it; None where there is none.

    >>> type_at(Schema.of("home STRUCT(city VARCHAR)"), ("home", "city"))
    'VARCHAR'
    """
    found = schema.find(path[0])
    kind = None if found is None else found.type
    for name in path[1:]:
        nested = shape(kind) if kind is not None else None
        named = nested.find(name) if isinstance(nested, Struct) else None
        kind = None if named is None else named[1]
    return kind


def is_number(kind: str | None) -> bool:
    """Whether an attribute type is one of numbers."""
    found = None if kind is None else arrow_type(kind)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return found is not None and any(test(found) for test in tests)
