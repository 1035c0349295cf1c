"""The columns that identify and order events and results on Spark, and conversions between types of Arrow and Spark."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa

from bridge.engine.bridge import Bridge
from bridge.engine.result_set import arrow_table
from bridge.engine.session import session_of
from bridge.sources.relations import whole_table

PIECE, TIME, PLACE = "piece", "ts", "cep:row"
"""Columns of the events of a task: the number of the piece, then the order of the events."""

EVENT_ID = ("cep:time", PLACE)
"""TIME and PLACE of an event as attributes of its stream; together they identify it and order all events."""

FIRST_ID = ("cep:first time", "cep:first row")
"""Columns of a query with the EVENT_ID of a match's first row, see `first_rows`."""

FIRST_AT, FIRST_PLACE = "cep:first at", "cep:first"

ORDER = ("cep:at", "cep:place", FIRST_AT, FIRST_PLACE, "cep:turn")
"""Columns that order the results of several pieces: the time of a result, the PLACE of the event that completed it, the
TIME and the PLACE of a match's first row, and the number of the result among equal ones."""

SLICE, REPORT = "cep:slice", "cep:report"
"""Columns of the results of slices (see `slices`): the number of the slice, and its SliceReport."""

BY_TIME, AT_THE_END = -1, 2**63 - 1
"""The PLACE of a result that is reported without an event: because time has passed, or at the end of the history."""

STREAM_BITS, FILE_BITS = 54, 34
"""A PLACE has the number of the stream from the first bit on, that of the file from the second, and the row below."""

MOST_STREAMS = 1 << 63 - STREAM_BITS
"""The number of streams that fit into a PLACE."""


def result_schema(cep: Bridge, name: str) -> pa.Schema:
    """The Arrow schema of a query's results. A column without a type in the query has the database's type."""
    entry = session_of(cep).catalogue.query_entry(name)
    result = session_of(cep).database.fetch_arrow(entry.results.any.text)
    whole = arrow_table(entry.fields, [])
    if result is None:
        return whole.schema
    fields = [
        (f.name, g.type if pa.types.is_null(f.type) else f.type)
        for f, g in zip(whole.schema, result.schema, strict=True)
    ]
    return pa.schema([(n, pa.string() if pa.types.is_null(kind) else kind) for n, kind in fields])


def spark_schema(schema: pa.Schema) -> Any:
    """An Arrow schema in Spark's types. Timestamps stay without a zone."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def as_table(name: str, data: Any) -> pa.Table:
    """A relation as an Arrow table, which every executor gets."""
    on_spark = type(data).__module__.startswith("pyspark.") and hasattr(data, "toArrow")
    return whole_table(name, data.toArrow() if on_spark else data)


def arrow_type_of_spark(kind: Any) -> Any:
    """The Arrow type for a type of Spark. Timestamps are UTC: PySpark 4.1 always assumes it, 4.3 has a parameter."""
    from pyspark.sql.pandas.types import to_arrow_type

    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}
    return to_arrow_type(kind, **zone)
