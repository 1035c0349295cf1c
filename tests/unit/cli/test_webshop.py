"""The web shop of examples/webshop, which another language writes, beside `cepbridge watch`: stopped, changed, started again."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.cli.test_watch import ROOT, Watch, until

EXAMPLE = ROOT / "examples" / "webshop"
DEADLINE = 1_500
"""Milliseconds in which an order is paid, or reported."""

QUERIES = (EXAMPLE / "queries.sql").read_text()


class WebShop:
    """The process of the shop."""

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        command = ["node", str(EXAMPLE / "shop.js"), str(file), "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.unpaid: set[int] = set()

    def ask(self, method: str, path: str) -> Any:
        with urllib.request.urlopen(urllib.request.Request(self.url + path, method=method), timeout=60) as answer:
            return json.loads(answer.read())

    def customers(self, number: int) -> None:
        """Some who order; every third does not pay."""
        for place in range(number):
            order = self.ask("POST", f"orders?amount={place + 1}")["id"]
            if place % 3:
                self.ask("POST", f"payments?order_id={order}")
            else:
                self.unpaid.add(order)

    @property
    def shown(self) -> list[int]:
        return [each["order_id"] for each in self.ask("GET", "unpaid")]

    def all_shown(self) -> bool:
        return self.unpaid <= set(self.shown)

    @property
    def overdue(self) -> list[int]:
        """The orders without a payment in time, by the rows of the shop: a slow machine may pay one too late."""
        in_time = f"""SELECT order_id FROM payments AS p WHERE order_id = o.id
            AND ROUND((julianday(p.created_at) - julianday(o.created_at)) * 86400000) <= {DEADLINE}"""
        with contextlib.closing(sqlite3.connect(self._file)) as database:
            return [each for (each,) in database.execute(f"SELECT id FROM orders AS o WHERE id NOT IN ({in_time})")]


@pytest.fixture
def shop(tmp_path: pathlib.Path) -> Iterator[WebShop]:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    made = WebShop(tmp_path / "shop.db")
    if not made.url:
        pytest.skip("node has neither the module node:sqlite nor the program sqlite3")
    yield made
    made.process.kill()
    made.process.wait()


def test_nothing_is_lost_when_the_watch_is_changed(shop: WebShop, tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    first = QUERIES.replace("30 S", f"{DEADLINE} MS")
    shop.customers(6)
    with Watch(tmp_path, url, first) as watch:
        watch.started()
        shop.customers(6)
        until(shop.all_shown)
        shop.customers(3)
        watch.end()
    shop.customers(3)
    with Watch(tmp_path, url, first.replace("step = 'paid')", "step = 'paid') WHERE amount > 0")) as watch:
        watch.started()
        assert "the query unpaid has changed" in watch.said
        shop.customers(6)
        until(shop.all_shown)
        time.sleep(0.5)
        watch.end()
    assert sorted(shop.shown) == sorted(shop.overdue)
