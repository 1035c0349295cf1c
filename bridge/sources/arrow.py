"""The timestamps and tables of events: whole milliseconds, and Arrow."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bridge.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa


EARLIEST, LATEST = -(2**53), 2**53
"""The range of timestamps in milliseconds since 1970, about 285,000 years before and after."""


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def milliseconds(timestamp: Any) -> int:
    """A timestamp in milliseconds since 1970, from a whole number or a datetime with a time zone.

    Raises SchemaError for anything else, and for a timestamp out of range.

    >>> milliseconds(datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC))
    1000
    """
    if isinstance(timestamp, datetime.datetime):
        if timestamp.tzinfo is None:
            raise SchemaError(f"the timestamp {timestamp} has no time zone: add one, or give milliseconds")
        return (timestamp - _EPOCH) // datetime.timedelta(milliseconds=1)
    try:
        ts = operator.index(timestamp)
    except TypeError:
        ts = None
    if ts is None or isinstance(timestamp, bool):
        raise SchemaError(f"a timestamp is whole milliseconds or an aware datetime, not {timestamp!r}")
    if not EARLIEST <= ts <= LATEST:
        raise SchemaError(f"the timestamp {ts} is out of range ({EARLIEST} to {LATEST} ms)")
    return ts


def as_arrow(events: Any) -> Iterator[pa.Table] | None:
    """The Arrow tables of a table, record batches, a pandas or polars frame (also a lazy one), or a DuckDB relation.

    None for any other object.
    """
    module = type(events).__module__.split(".")[0]
    if module not in ("pyarrow", "pandas", "polars", "duckdb", "_duckdb"):
        return None
    import pyarrow as pa

    if module == "pandas" and hasattr(events, "columns"):
        try:
            return iter([pa.Table.from_pandas(_with_index(events), preserve_index=False)])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            reason = "; ".join(str(part) for part in reversed(error.args))
            raise SchemaError(f"a column of the frame has values of several types: {reason}") from None
        except ValueError as error:  # two columns have the same name
            raise SchemaError(f"the frame cannot be read: {error}") from None
    if type(events).__name__ == "LazyFrame":
        events = events.collect()
    if module == "polars" and hasattr(events, "to_arrow") and hasattr(events, "columns"):
        return iter([events.to_arrow()])
    if module in ("duckdb", "_duckdb") and hasattr(events, "__arrow_c_stream__"):
        return iter([pa.table(events)])  # read at once: its connection may be the bridge's own
    if isinstance(events, pa.Table):
        return iter([events])
    if isinstance(events, pa.RecordBatch):
        return iter([pa.Table.from_batches([events])])
    if isinstance(events, pa.RecordBatchReader):
        return (pa.Table.from_batches([batch]) for batch in events)
    name = f"{module}.{type(events).__name__}"
    raise SchemaError(f"push_events takes an Arrow table, a record batch, a reader or a frame, not {name}")


def _with_index(frame: Any) -> Any:
    """A pandas frame with its index as a column, if that has a name or contains times; named as by `reset_index`."""
    index = frame.index
    levels = [level for level, name in enumerate(index.names) if name is not None and name not in frame.columns]
    if index.nlevels == 1 and index.name is None and index.dtype.kind == "M":
        levels = [0]
    return frame.reset_index(level=levels) if levels else frame
