"""A process that reads tables is killed while others write them: every committed row is an event once."""

from __future__ import annotations

import pathlib

import pytest

from tests.support.databases import DATABASES, Database, one_of
from tests.support.runs import figures_of

shared = one_of([database for database in DATABASES if database.name != "duckdb"])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kills", [2, pytest.param(200, marks=pytest.mark.long)])
def test_rows_of_eight_writers(shared: Database, tmp_path: pathlib.Path, kills: int) -> None:
    rows = 800 * kills
    url = shared.durable(tmp_path)
    found = figures_of("tests.faults.watching", "rows", url, kills, rows, within=120 + 10 * kills)
    assert found["kills"] >= kills / 2
    assert found["further"] >= (kills - 2) / 4
    assert found["events"] >= rows


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.long)])
def test_changes_of_a_table(shared: Database, tmp_path: pathlib.Path, kills: int) -> None:
    url = shared.durable(tmp_path)
    found = figures_of("tests.faults.watching", "changes", url, kills, 600 * kills, within=120 + 10 * kills)
    assert found["events"] > 0
