"""Whether the executors of a session can run the bridge."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from bridge import __version__
from bridge.errors import BridgeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REASONS = (
    (r"worker has different version: ([\d.]+)", "run Python {0}, and this process another version"),
    (r"No module named '([\w.]+)'", "have no package {0!r}"),
    (r"(\w+) >= \S+ must be installed; however", "have no package {0!r}"),
    (r"Cannot run program \"([^\"]+)\"", "cannot start Python: there is no {0}"),
)
"""Patterns in an error of Spark, and their meaning for the executors."""

_checked: set[str] = set()
"""The Spark applications whose executors were found to be able to run the bridge."""


def check_executors(spark: SparkSession) -> None:
    """Raises BridgeError if executors lack a package or run another Python. A session is checked once."""
    context = spark.sparkContext
    if context.applicationId in _checked:
        return
    tasks = max(1, context.defaultParallelism)
    try:
        rows = spark.range(0, tasks, 1, tasks).mapInArrow(_versions, "version string").collect()
        others = sorted({row[0] for row in rows} - {__version__})
        reason = f"have cep-bridge {others[0]}, and this process {__version__}" if others else None
    except Exception as error:
        if (reason := reason_of(str(error))) is None:
            raise
    if reason is not None:
        raise BridgeError(
            f"the executors {reason}: install cep-bridge[spark] {__version__} on them, for Python {sys.version_info[0]}."
            f"{sys.version_info[1]}, and name that Python in PYSPARK_PYTHON (or spark.pyspark.python) before the session "
            f"starts; this process runs {sys.executable}"
        )
    _checked.add(context.applicationId)


def reason_of(text: str) -> str | None:
    """The reason why executors cannot run the bridge, from an error of Spark; None for any other error.

    >>> reason_of("ModuleNotFoundError: No module named 'bridge'")
    "have no package 'bridge'"
    >>> reason_of("java.lang.OutOfMemoryError")
    """
    for pattern, words in _REASONS:
        if found := re.search(pattern, text):
            return words.format(found[1])
    return None


def _versions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Loads the packages that a task needs; returns the version of cep-bridge once per row."""
    import duckdb  # noqa: F401

    import bridge.spark.task  # noqa: F401

    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([__version__] * batch.num_rows)], names=["version"])
