"""Random programs whose process ends again and again: what they give is what a bridge in memory gives that nobody disturbs.

Queries of all languages stand beside each other, are removed, replaced and asked; processes are closed, dropped, or end within a
call of the database (rules D1 to D7).
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from bridge.rewrite.settings import Settings
from tests.support.lives import difference, shrink
from tests.support.programs import Program, computed_program, program

if TYPE_CHECKING:
    from tests.support.databases import Database

SETTINGS = (
    Settings(),
    Settings(checkpoint_rows=3),
    Settings(checkpoint_rows=1, few=3, long_rows=2),
    Settings(checkpoint_rows=5, few=0, in_process=0),
)


@pytest.mark.one_in(2)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", range(8))
def test_a_program_goes_on_where_it_ended(seed: int, embedded: Database, tmp_path: pathlib.Path) -> None:
    check(seed, embedded, tmp_path, most=20)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(6))
def test_a_program_that_is_computed_goes_on_where_it_ended(
    seed: int, embedded: Database, tmp_path: pathlib.Path
) -> None:
    check(seed, embedded, tmp_path, most=150, make=computed_program)


@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", range(2))
def test_a_program_goes_on_where_it_ended_on_a_server(seed: int, server: Database, tmp_path: pathlib.Path) -> None:
    check(seed, server, tmp_path, most=20)


@pytest.mark.long
@pytest.mark.parametrize("start", range(10_000, 12_000, 20))
def test_many_programs_go_on_where_they_ended(start: int, embedded: Database, tmp_path: pathlib.Path) -> None:
    for seed in range(start, start + (20 if embedded.name == "sqlite" else 4)):
        check(seed, embedded, tmp_path, most=300 if embedded.name == "sqlite" else 60)


@pytest.mark.long
@pytest.mark.parametrize("start", range(30_000, 32_000, 20))
def test_many_programs_that_are_computed_go_on_where_they_ended(
    start: int, embedded: Database, tmp_path: pathlib.Path
) -> None:
    for seed in range(start, start + (20 if embedded.name == "sqlite" else 4)):
        check(seed, embedded, tmp_path, most=600, make=computed_program)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20_000, 20_200))
def test_many_programs_go_on_where_they_ended_on_a_server(seed: int, server: Database, tmp_path: pathlib.Path) -> None:
    check(seed, server, tmp_path, most=60)


def check(
    seed: int,
    database: Database,
    folder: pathlib.Path,
    most: int,
    make: Callable[[int, int], Program] = program,
) -> None:
    """Fails with a small program that still gives something else. `most`: its events."""
    settings, keeps = SETTINGS[seed % len(SETTINGS)], seed % 3 == 0

    def url() -> str:
        for file in folder.iterdir():
            file.unlink()
        return database.durable(folder)

    def found(one: Program) -> str:
        return difference(one, url, database.fresh, settings, keeps)

    asked = make(seed, most)
    told = found(asked)
    if told:
        small = shrink(asked, lambda one: found(one)[:12] == told[:12])
        pytest.fail(f"seed {seed}, {database.name}: {found(small)}\n{small}", pytrace=False)
