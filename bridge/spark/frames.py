"""The events of a job as frames: with their PLACE, and cut into pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bridge.history.pieces import Path
from bridge.spark.columns import FILE_BITS, PIECE, PLACE, STREAM_BITS, TIME
from bridge.spark.cut import key_of, slice_of, with_piece_numbers
from bridge.spark.events import FILE, ROW, Events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
