"""Arrow tables of events, converted to the types and the column order of a stream's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridge.engine.catalogue import StreamEntry
from bridge.errors import OrderError, SchemaError
from bridge.sources.arrow import milliseconds
from windows.arrow import arrow_type, conformed_to, single_chunk
from windows.schema import Attribute, TypeMismatch
from windows.types import is_nested

if TYPE_CHECKING:
    import pyarrow as pa


def _conformed(stream: StreamEntry, table: pa.Table, timestamp: str, before: int = 0, ordered: bool = True) -> pa.Table:
    """The columns `ts` and the attributes, in the schema's types and order. Raises SchemaError and OrderError.

    `before`: the number of rows of the push before this table, for errors. `ordered`: time must not go back.
    """
    import pyarrow as pa

    names = table.column_names
    if timestamp not in names:
        raise SchemaError(f"no column {timestamp!r} with the timestamps; there are {names} (timestamp= names it)")
    for name in names:
        if name != timestamp and name not in stream.schema.names:
            raise SchemaError(f"unknown attribute {name!r}; the schema of {stream.name!r} is ({stream.schema})")
    columns = [_times(table.column(timestamp), timestamp, before, ordered)]
    for attribute in stream.schema:
        if attribute.name in names:
            columns.append(cast_column(table.column(attribute.name), attribute, before))
        else:
            columns.append(pa.nulls(table.num_rows, arrow_type(attribute.type)))
    return pa.table(columns, names=[f"c{place}" for place in range(len(columns))])


def cast_column(column: Any, attribute: Attribute, before: int) -> Any:
    """The column in the type of an attribute. Raises SchemaError with the number of the first wrong row."""
    import pyarrow as pa

    target = arrow_type(attribute.type)
    column = _decoded(column)
    kind = column.type
    if is_nested(attribute.type) or pa.types.is_nested(kind):
        return _nested(column, attribute, before)
    families = (_is_text, pa.types.is_boolean, pa.types.is_temporal)
    if not pa.types.is_null(kind) and any(test(kind) != test(target) for test in families):
        raise SchemaError(f"attribute {attribute.name!r} is {attribute.type}, the column is {kind}")
    try:
        return _converted(column, target)
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(f"attribute {attribute.name!r} is {attribute.type}: {error}") from None
    except pa.ArrowInvalid:
        wrong = _first_unfit(column, target)
    try:
        return _converted(column.slice(wrong, 1), target)
    except pa.ArrowInvalid as error:
        row = before + wrong + 1
        raise SchemaError(f"row {row}: attribute {attribute.name!r} is {attribute.type}: {error}") from None


def _nested(column: Any, attribute: Attribute, before: int) -> Any:
    """The column in a nested type. Raises SchemaError with the number of the wrong row."""
    try:
        return conformed_to(column, attribute)
    except TypeMismatch:
        for place in range(len(column)):
            try:
                conformed_to(column.slice(place, 1), attribute)
            except TypeMismatch as error:
                raise SchemaError(f"row {before + place + 1}: {error}") from None
        raise


def _converted(column: Any, target: Any) -> Any:
    """The column in another Arrow type. Raises ArrowInvalid where that would change a value."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_decimal(target) and pa.types.is_integer(kind):
        column = column.cast(pa.decimal128(38, target.scale))  # Arrow needs this width in between
    if kind == target:
        return column
    cast = column.cast(target)
    rounds = pa.types.is_decimal(target) and pa.types.is_floating(kind)
    cuts = pa.types.is_date(target) and pa.types.is_timestamp(kind)
    if (rounds or cuts) and not cast.cast(kind).equals(column):
        raise pa.ArrowInvalid(f"there are values of {kind} that it does not hold exactly")
    return cast


def _first_unfit(column: Any, target: Any) -> int:
    """The row of the first value that cannot be converted; there must be such a value."""
    import pyarrow as pa

    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _converted(column.slice(low, middle - low), target)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _decoded(column: Any) -> Any:
    """The column, decoded from a dictionary."""
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view")


def _times(column: Any, name: str, before: int, ordered: bool) -> Any:
    """The timestamps in milliseconds. Raises SchemaError if one is missing, OrderError if `ordered` time goes back."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _decoded(column)
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = pc.floor_temporal(column, unit="millisecond") if kind.unit in ("us", "ns") else column
        column = column.cast(pa.timestamp("ms", kind.tz)).cast(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or (pa.types.is_null(kind))):
        raise SchemaError(f"the timestamps in {name!r} are {kind}: whole milliseconds or Arrow timestamps are expected")
    try:
        column = column if column.type == pa.int64() else column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(f"the timestamps in {name!r} are not whole milliseconds: {error}") from None
    if column.null_count:
        row = before + pc.index(pc.is_null(column), True).as_py() + 1
        raise SchemaError(f"row {row}: the timestamp in {name!r} is missing")
    if len(column) == 0:
        return column
    combined = single_chunk(column)
    times = combined.to_numpy()
    back = times[1:] < times[:-1]
    if ordered and back.any():
        wrong = int(back.argmax())
        raise OrderError(
            f"row {before + wrong + 2}: time does not go back: {times[wrong + 1]} is before {times[wrong]}"
        )
    for extreme in (times.min(), times.max()):
        milliseconds(extreme)
    return combined
