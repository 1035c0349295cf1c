"""Results and relations on Spark: their columns and types."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa

from bridge.engine import Bridge
from bridge.rows import arrow_table
from bridge.sources.relations import whole_table


def result_schema(cep: Bridge, name: str) -> pa.Schema:
    """The columns of a query's results, in the types that the database gives where the query says none."""
    entry = cep._catalogue.query_entry(name)
    given = cep.database.arrow(entry.emissions["many"].text)
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
