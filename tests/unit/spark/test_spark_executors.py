"""Executors that cannot run the bridge are one clear error, before anything is computed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import bridge
from bridge.errors import BridgeError
from bridge.spark import sessions
from bridge.spark.sessions import check_executors, reason_of, session

WITHOUT_BRIDGE = """
import sys


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "bridge":
            raise ModuleNotFoundError("No module named 'bridge'", name=name)


sys.meta_path.insert(0, Hidden())
"""


def test_a_python_without_the_package_is_named_with_what_to_set(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
):
    """The tasks of the session are run by another Python, which has not been checked."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_BRIDGE)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    monkeypatch.setattr(sessions, "_checked", set())
    with pytest.raises(BridgeError) as refused:
        bridge.replay({"s": pa.table({"ts": [1], "a": [2]})}, {"q": "SELECT a FROM s"}, engine="spark", spark=spark)
    assert str(refused.value).startswith("the executors have no package 'bridge': install cep-bridge[spark]")
    assert "PYSPARK_PYTHON (or spark.pyspark.python) before the session starts" in str(refused.value)


def test_a_python_that_is_set_before_the_session_starts_stays(monkeypatch: pytest.MonkeyPatch):
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", "another/python")
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: 1 / 0)
    with pytest.raises(BridgeError, match="Spark does not start: division by zero"):
        session()
    assert os.environ["PYSPARK_PYTHON"] == "another/python"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark",
            "run Python 3.9, and this process another version",
        ),
        (
            "[PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must be installed; however, it was not found.",
            "have no package 'PyArrow'",
        ),
        ('java.io.IOException: Cannot run program "python3": error=2', "cannot start Python: there is no python3"),
        ("org.apache.spark.SparkException: Job aborted", None),
    ],
)
def test_the_reason_is_in_the_error_of_spark(text: str, reason: str | None):
    assert reason_of(text) == reason


class _Session:
    """A session whose executors give these versions of the package."""

    def __init__(self, *versions: str) -> None:
        self.sparkContext = SimpleNamespace(applicationId=f"app of {versions}", defaultParallelism=2)
        self._versions = versions

    def range(self, *_: int) -> _Session:
        return self

    mapInArrow = range  # noqa: N815 (as in PySpark)

    def collect(self) -> list[tuple[str]]:
        return [(version,) for version in self._versions]


def test_another_version_of_the_package_is_refused():
    spark: Any = _Session(bridge.__version__, "0.0.7")
    with pytest.raises(BridgeError, match=r"the executors have cep-bridge 0\.0\.7, and this process"):
        check_executors(spark)


def test_other_errors_of_spark_stay_as_they_are():
    spark: Any = _Session(bridge.__version__)
    spark.collect = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        check_executors(spark)
