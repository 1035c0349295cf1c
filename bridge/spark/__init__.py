"""Replay on Spark: histories of any size, computed in pieces, with the results of the continuous queries.

    results = bridge.replay({"trades": "trades/*.parquet"}, queries, engine="spark")
    results["dip"].show()

Needs `pip install '.[spark]'` and Java 17 or later; executors need the same packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridge.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bridge.engine.bridge import Bridge


def replay(
    source: Mapping[str, Any],
    queries: Any,
    *,
    out: str | None = None,
    into: Bridge | None = None,
    spark: SparkSession | None = None,
    run: str | None = None,
    **options: Any,
) -> dict[str, DataFrame]:
    """`bridge.replay` with `engine="spark"`; see there for the arguments.

    The script's writes are executed before the results are returned, once per name of a `run`.
    """
    from bridge.history.script import ReplayScript
    from bridge.spark.continuation import go_live
    from bridge.spark.parquet import read, write
    from bridge.spark.piecewise import Replay, frames
    from bridge.spark.write_back import write as write_back
    from bridge.spark.writes import refuse, refuse_tables, run_name

    script = ReplayScript.of(queries)
    refuse_tables(script, ": engine='local'")
    if into is not None:
        refuse(script, "which does not go with into= on Spark: use engine='local'")
    replay = Replay(source, script, spark=spark, open_end=into is not None, **options)
    if into is not None:
        go_live(replay, into)
    if out is None:
        write_back(replay, run_name(run))
        return frames(replay)
    write(replay, out, run)
    return read(replay, out)


__all__ = ["replay", "session"]
