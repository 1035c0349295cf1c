"""The columns by which Spark cuts a history: the slice of an instant, a number of a key, and what is known beforehand."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from bridge.arrow import arrow_type
from bridge.spark.events import Events
from bridge.spark.order import PIECE, TIME
from windows.schema import Attribute

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


QUANTILES = [place / 1000 for place in range(1000)]
"""The shares of the events at whose times a history can be cut."""


@dataclasses.dataclass(frozen=True)
class History:
    """What is known of all events together, before any query runs."""

    count: int
    first: int
    last: int
    quantiles: tuple[int, ...]


def history_of(frames: Sequence[DataFrame], end: int | None) -> History:
    """The number of events, their first and last time, and times between which there are equally many."""
    from pyspark.sql import functions as F  # noqa: N812

    times = frames[0].select(TIME)
    for frame in frames[1:]:
        times = times.unionByName(frame.select(TIME))
    found = times.agg(F.count(TIME), F.min(TIME), F.max(TIME), F.percentile_approx(TIME, QUANTILES, 20_000)).first()
    assert found is not None
    count, first, last, quantiles = found
    last = max(last if last is not None else end or 0, end if end is not None else last or 0)
    return History(count, first if first is not None else last, last, tuple(quantiles or ()))


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


def key_of(events: Events, columns: Sequence[str]) -> Column:
    """A number that rows of equal keys have in common, whatever the type of a number."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = []
    for name in columns:
        attribute = events.schema.find(name)
        assert attribute is not None
        value = F.col(events.column_of(attribute.name))
        parts.append(value.cast("double") + F.lit(0.0) if is_number(attribute) else value)
    return F.xxhash64(*parts) if parts else F.lit(0).cast("long")


def comparable(events: Events, name: str) -> bool:
    """Whether a column has the very kind of values that the attribute has."""
    attribute = events.schema.find(name)
    if attribute is None:
        return False
    kind = events.frame.schema[events.column_of(attribute.name)].dataType.typeName()
    if is_number(attribute):
        return kind in ("byte", "short", "integer", "long", "float", "double", "decimal")
    return {"VARCHAR": "string", "BOOLEAN": "boolean", "DATE": "date"}.get(attribute.type) == kind


def is_number(attribute: Attribute) -> bool:
    kind = arrow_type(attribute.type)
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
