"""Replay on Spark: history of any size in pieces, with the very rows that the live queries give.

    results = bridge.replay({"trades": "trades/*.parquet"}, queries, engine="spark")
    results["dip"].show()

Needs `pip install 'cep-bridge[spark]'` and Java 17 or later; executors need the same packages.
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
    """What `bridge.replay(..., engine="spark")` does; `options` are those of it that hold for Spark, too.

    `pieces` says into how many pieces the history is cut, where that is not to be found out. What the script writes is
    written before the results are there, once for each name of a `run`.
    """
    from bridge.history.script import Script
    from bridge.spark.continuation import go_live
    from bridge.spark.parquet import read, write
    from bridge.spark.pieces import Replay, frames
    from bridge.spark.write_back import write as write_letters
    from bridge.spark.writes import refuse, refuse_tables, run_name

    script = Script.of(queries)
    refuse_tables(script, ": engine='local'")
    if into is not None:
        refuse(script, "which a bridge that goes on live does itself: use engine='local'")
    found = Replay(source, script, spark=spark, open_end=into is not None, **options)
    if into is not None:
        go_live(found, into)
    if out is None:
        write_letters(found, run_name(run))
        return frames(found)
    write(found, out, run)
    return read(found, out)


__all__ = ["replay", "session"]
