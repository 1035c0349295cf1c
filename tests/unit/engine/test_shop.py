"""The web shop of examples/shop under twelve threads, killed and changed while it runs."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys
import time
from typing import Any

import pytest

import bridge
from examples.shop.shop import QUERIES, open_shop
from tests.faults.shop import DEADLINE, queries
from tests.support.databases import Database


@pytest.mark.parametrize("runs", [2, pytest.param(10, marks=pytest.mark.long)])
def test_every_unpaid_order_is_reported_once(tmp_path: pathlib.Path, runs: int) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    for run in range(runs):
        before = size_of(tmp_path)
        with subprocess.Popen([sys.executable, "-m", "tests.faults.shop", url, str(tmp_path), str(run)]) as child:
            while size_of(tmp_path) == before:
                time.sleep(0.01)
                assert child.poll() is None
            time.sleep(random.Random(run).uniform(0.5, 1.5))
            child.kill()
    with open_shop(url, queries(runs)) as cep:
        began = time.monotonic()
        orders = [line.split() for log in tmp_path.glob("*.log") for line in log.read_text().splitlines()]
        time.sleep(DEADLINE + 0.5)
        found = [result.payload["id"] for result in cep.results("unpaid")]
        unpaid = {name for name, state, *done in orders if state == "open" and done}
        assert unpaid <= set(found), "an unpaid order is not reported a second after the restart"
        assert len(found) == len(set(found))
        assert len(unpaid) > 10 * runs
        assert time.monotonic() - began < 10
        cep.drop()


def size_of(folder: pathlib.Path) -> int:
    """The size of all journals."""
    return sum(path.stat().st_size for path in folder.glob("*.log"))


def test_the_queries_are_those_of_the_example(database: Database, tmp_path: pathlib.Path) -> None:
    with bridge.connect(database.durable(tmp_path)) as cep:
        cep.register_stream("orders", "id VARCHAR, customer VARCHAR, amount DOUBLE")
        cep.register_stream("payments", "order_id VARCHAR")
        cep.register_stream("logins", "name VARCHAR, ok BOOLEAN")
        for name, (language, text) in QUERIES.items():
            cep.create_query(name, text, language=language)
        received: list[Any] = []
        cep.add_output_processor("unpaid", received.append)
        cep.push_event("orders", ["a", "ann", 5.0], 1000)
        cep.push_event("orders", ["b", "ann", 5.0], 1000)
        cep.push_event("payments", ["a"], 20_000)
        cep.advance_time(40_000)
        assert [(event.payload["id"], event.timestamp) for event in received] == [("b", 31_000)]
        cep.drop()
