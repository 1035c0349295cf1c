"""A crash after every statement of a push: what is pushed again afterwards gives what it would have given (rules D1, D2)."""

from __future__ import annotations

import pathlib

import pytest

import bridge
from tests.faults.killing import ALL
from tests.support.crashes import Crash, crash_after, die
from tests.support.databases import Database
from tests.support.runs import figures_of


@pytest.mark.some_databases(2)
def test_crashes_after_some_statements(embedded: Database, tmp_path: pathlib.Path) -> None:
    check_crashes(embedded.durable(tmp_path), events=4, first=40, step=113)


@pytest.mark.long
@pytest.mark.parametrize("first", [40, 80])
def test_a_crash_after_each_statement(database: Database, tmp_path: pathlib.Path, first: int) -> None:
    check_crashes(database.durable(tmp_path), events=26, first=first, step=1)


def check_crashes(url: str, events: int, first: int, step: int) -> None:
    """One event in three is pushed with a crash at a later statement each time, until it is through."""
    cep = opened(url)
    crashes = 0
    for place, number in enumerate(range(1, events + 1)):
        calls = place % step if place % 3 == 0 else None
        while int(cep.position("events") or 0) < number:
            stream, payload, ts = ALL.event(first + number)
            left = crash_after(cep, calls) if calls is not None else [0]
            try:
                cep.push_all([(stream, payload, ts)], source="events", position=number)
            except Crash:
                crashes += 1
                die(cep)
                cep = opened(url)
                calls = None if calls is None else calls + step
            left[0] = 10**9
    assert crashes >= events
    found = ALL.rows(cep)
    cep.drop()
    with bridge.connect("sqlite://") as undisturbed:
        ALL.declare(undisturbed)
        for number in range(1, events + 1):
            undisturbed.push_all([ALL.event(first + number)])
        assert found == ALL.rows(undisturbed)
        assert sum(map(len, found.values())) > events


def opened(url: str) -> bridge.Bridge:
    cep = bridge.connect(url)
    ALL.declare(cep)
    return cep


KILLING = "tests.faults.killing"


@pytest.mark.parametrize(("runs", "blocks"), [(6, 3), pytest.param(100, 20, marks=pytest.mark.long)])
def test_a_program_that_is_killed(tmp_path: pathlib.Path, runs: int, blocks: int) -> None:
    url = f"sqlite:///{tmp_path}/killed.db"
    found = figures_of(KILLING, url, runs, "--blocks", blocks, "--folder", tmp_path, within=60 + 5 * runs * blocks)
    assert found["blocks"] == blocks
    assert found["results"] > 0


@pytest.mark.long
def test_a_program_with_all_queries_that_is_killed(database: Database, tmp_path: pathlib.Path) -> None:
    url = database.durable(tmp_path)
    found = figures_of(KILLING, url, 200, "--queries", "all", "--folder", tmp_path, within=2_000)
    assert found["results"] > 0


@pytest.mark.long
def test_a_program_that_is_killed_on_other_databases(database: Database, tmp_path: pathlib.Path) -> None:
    if database.name == "sqlite":
        pytest.skip("see the first test")
    url = database.durable(tmp_path)
    found = figures_of(KILLING, url, 50, "--blocks", 10, "--folder", tmp_path, within=4_000)
    assert found["results"] > 0
