"""The order of events and of results: the columns that Spark sorts by."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa

from bridge.engine.bridge import Bridge
from bridge.engine.rows import arrow_table
from bridge.engine.session import session_of
from bridge.sources.relations import whole_table

PIECE, TIME, PLACE = "piece", "ts", "cep:row"
"""Columns of the events of a task: the piece's number, then what orders them."""

MOMENT = ("cep:time", PLACE)
"""What orders the events, as attributes of a stream."""

FIRST = ("cep:first time", "cep:first row")
"""A query's columns of the MOMENT of a match's first row, see `firsts`."""

FIRST_AT, FIRST_PLACE = "cep:first at", "cep:first"

ORDER = ("cep:at", "cep:place", FIRST_AT, FIRST_PLACE, "cep:turn")
"""Columns that order results of several pieces: time, the event that completed it, the first row of a match by its time
and PLACE, and which of these it was."""

SLICE, REPORT = "cep:slice", "cep:report"
"""Columns of the results of slices, see `slices`: which slice, and what it tells of itself."""

BY_TIME, AT_THE_END = -1, 2**63 - 1
"""The `place` of a result that time alone has brought, and of one that the end of the history has."""

STREAM_BITS, FILE_BITS = 54, 34
"""A PLACE has from these bits on the stream's number and the file's; below, the row's place in the file."""

MOST_STREAMS = 1 << 63 - STREAM_BITS
"""So many streams have numbers that fit."""


# Results and relations on Spark: their columns and types


def result_schema(cep: Bridge, name: str) -> pa.Schema:
    """The columns of a query's results, in the types that the database gives where the query says none."""
    entry = session_of(cep).catalogue.query_entry(name)
    given = cep.database.fetch_arrow(entry.results.any.text)
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


def as_table(name: str, data: Any) -> pa.Table:
    """A relation as Arrow: it goes to every executor."""
    on_spark = type(data).__module__.startswith("pyspark.") and hasattr(data, "toArrow")
    return whole_table(name, data.toArrow() if on_spark else data)


def arrow_type_of_spark(kind: Any) -> Any:
    """Arrow's type of one of Spark's, whose timestamps are of UTC: PySpark 4.1 takes that for granted, 4.3 is told so."""
    from pyspark.sql.pandas.types import to_arrow_type

    told: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}
    return to_arrow_type(kind, **told)
