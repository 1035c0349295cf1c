"""What happens to programs: a full disk, a lock of somebody else, a processor that hangs, a connection lost on delivery."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import bridge
from bridge import DatabaseError
from bridge.engine.stored_status import stored_status
from tests.support.databases import Database
from tests.unit.engine.test_resume import cut
from windows.databases import open_database

QUERIES = {
    "total": "SELECT k, COUNT(*) AS n FROM s WINDOW(RANGE 1 H) GROUP BY k",
    "rising": "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES A.a AS x, B.a AS y PATTERN (A B) "
    "WITHIN INTERVAL '1' HOUR DEFINE B AS B.a > A.a) AS m",
}


def start(url: str) -> bridge.Bridge:
    cep = bridge.connect(url)
    cep.register_stream("s", "k VARCHAR, a INTEGER")
    for name, text in QUERIES.items():
        cep.create_query(name, text, into=f"of_{name}")
    return cep


def rows(cep: bridge.Bridge) -> list[Any]:
    return [cep.database.fetch(f"SELECT * FROM of_{name} ORDER BY ts") for name in QUERIES]


def undisturbed(count: int, text: str) -> list[Any]:
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "k VARCHAR, a INTEGER")
        for name, query in QUERIES.items():
            cep.create_query(name, query, into=f"of_{name}")
        cep.push_events("s", [([text, a], 1000 + a) for a in range(count)])
        return rows(cep)


def test_a_full_disk_refuses_pushes_until_there_is_room(tmp_path: pathlib.Path) -> None:
    url, text, refused = f"sqlite:///{tmp_path / 'full.db'}", "x" * 3_000, 0
    cep = start(url)
    ((pages,),) = cep.database.fetch("PRAGMA page_count")
    cep.database.fetch(f"PRAGMA max_page_count = {pages + 30}")
    for a in range(100):
        try:
            cep.push_event("s", [text, a], 1000 + a)
        except DatabaseError as error:
            assert "full" in str(error)
            refused += 1
            if refused == 2:
                cep.close()
                cep = start(url)
            else:
                cep.database.fetch("PRAGMA max_page_count = 100000")
            cep.push_event("s", [text, a], 1000 + a)
    assert refused >= 1
    found = rows(cep)
    cep.drop()
    assert found == undisturbed(100, text)


@contextlib.contextmanager
def locked_by_another(database: Database, url: str, cep: bridge.Bridge) -> Iterator[None]:
    """Somebody else has a lock on the clock of a bridge, which waits a second for it at most."""
    waits, locks = {
        "sqlite": ("PRAGMA busy_timeout = 100", "SELECT 1"),
        "postgresql": ("SET lock_timeout = '200ms'", "LOCK TABLE cep_clock IN ACCESS EXCLUSIVE MODE"),
        "mariadb": ("SET innodb_lock_wait_timeout = 1", "SELECT * FROM cep_clock FOR UPDATE"),
    }[database.name]
    (cep.database.fetch if waits.startswith("PRAGMA") else cep.database.execute)(waits)
    other = open_database(url)
    other.begin()
    other.execute(locks)
    if database.name == "postgresql":
        other.fetch("SELECT 1")  # the queue is sent
    try:
        yield
    finally:
        other.rollback()
        other.close()


def test_a_lock_of_somebody_else_refuses_the_push_and_changes_nothing(
    database: Database, tmp_path: pathlib.Path
) -> None:
    if database.name == "duckdb":
        pytest.skip("no other process can open the file")
    url = database.durable(tmp_path)
    cep = start(url)
    for a in range(3):
        cep.push_event("s", ["x", a], 1000 + a)
    with locked_by_another(database, url, cep), pytest.raises(DatabaseError):
        cep.push_event("s", ["x", 3], 1003)
    cep.push_event("s", ["x", 3], 1003)
    assert [[tuple(row) for row in each] for each in rows(cep)] == undisturbed(4, "x")
    cep.drop()


HANGING = """
import sys, time
from tests.unit.engine.test_production import start
cep = start(sys.argv[1])
cep.add_output_processor("total", lambda result: (print("called", flush=True), time.sleep(60)), name="mailer")
cep.push_event("s", ["x", 1], 1000)
"""


def test_what_a_processor_that_never_returns_has_got_is_not_lost(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path / 'hanging.db'}"
    with subprocess.Popen([sys.executable, "-c", HANGING, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "called\n"
        assert stored_status(url).seq == 1  # the push is in
        process.kill()
    received: list[Any] = []
    with start(url) as cep:
        cep.add_output_processor("total", received.append, name="mailer")
        assert [result.id for result in received] == ["total/1000/1/0"]
        assert len(cep.database.fetch("SELECT * FROM of_total")) == 1


def test_a_result_is_delivered_once_though_the_connection_is_lost_meanwhile(
    server: Database, tmp_path: pathlib.Path
) -> None:
    url = server.durable(tmp_path)
    cep = start(url)
    received: list[int] = []

    def lose(event: Any) -> None:
        received.append(event.payload["n"])
        if len(received) == 1:
            cut(cep, url)

    named: list[int] = []
    cep.add_output_processor("total", lose)
    cep.add_output_processor("total", lambda result: named.append(result.payload["n"]), name="mailer")
    for a in range(3):
        cep.push_event("s", ["x", a], 1000 + a)
    assert (received, named) == ([1, 2, 3], [1, 2, 3])
    cep.drop()
