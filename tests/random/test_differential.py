"""The bridge against the reference: random queries over random events, however they are pushed, on every database.

CEP_SEEDS="start:stop" chooses other seeds for the normal run.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from bridge.engine.session import session_of
from bridge.rewrite.settings import Settings
from tests.support.cases_format import declared
from tests.support.generate import Case, print_case, random_case, shrink
from tests.support.reference import Results
from windows.databases.postgresql import PostgreSQL
from windows.databases.sqlite import SQLite
from windows.schema import Schema

if TYPE_CHECKING:
    from tests.support.databases import Database

SEEDS = range(*map(int, os.environ.get("CEP_SEEDS", "0:32").split(":")))
ON_SERVERS = 15
"""So many seeds a server: what is rewritten is the same, and a statement takes longer there."""
LONG = 10_000
BLOCK = 100


@pytest.mark.one_in(4)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_bridge_agrees_with_the_reference(seed: int, embedded: Database):
    check(seed, embedded)


@pytest.mark.one_in(4)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("seed", SEEDS[:ON_SERVERS])
def test_a_bridge_on_a_server_agrees_with_the_reference(seed: int, server: Database):
    check(seed, server)


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, LONG, BLOCK))
def test_the_bridge_agrees_on_many_seeds(start: int, database: Database):
    for seed in range(start, start + BLOCK):
        check(seed, database)


def check(seed: int, database: Database) -> None:
    """Fails with the smallest case found that still differs in the same way."""
    case = random_case(seed)
    for drive in (*DRIVES, as_replay) if seed % 2 else DRIVES:
        kind, _ = difference(case, database, drive, seed)
        if kind is not None:
            small = shrink(case, lambda smaller: difference(smaller, database, drive, seed)[0] == kind)  # noqa: B023
            _, told = difference(small, database, drive, seed)
            pytest.fail(
                f"seed {seed}, {database.name}, {drive.__name__}: {told}\n{print_case(small, f'seed {seed}')}", False
            )


def difference(case: Case, database: Database, drive: Any, seed: int) -> tuple[str | None, str]:
    """The kind of difference between the bridge and the reference, and its words; None where there is none."""
    # Statements for many events are tried on few, too, and panes are short.
    settings = Settings(
        few=(0, 3, Settings.few)[seed % 3],
        many=(5, Settings.many)[seed % 2],
        brief=(0, Settings.brief)[seed % 2],
        long_rows=2,
        bulk_events=(2, Settings.bulk_events)[drive is not as_replay],
        is_replay=drive is as_replay,
    )
    try:
        with (
            mock.patch.object(SQLite, "pane_sizes", (2, 5, 9)),
            mock.patch.object(PostgreSQL, "pane_sizes", (2, 5)),
        ):
            actual, names = results(case, database, partial(drive, rng=Random(seed)), settings)
    except Exception as error:
        return " ".join([type(error).__name__, *str(error).split()[:2]]), f"{type(error).__name__}: {error}"
    for query, expected in case.expected().items():
        columns = case.columns()[query]
        if any(found != columns for found in names[query]):
            return "columns", f"{query} has the columns {names[query][0]}, not {columns}"
        if not same_rows(expected, actual[query]):
            return "rows", f"{query} gives\n" + "\n".join(f"    {ts} {values}" for ts, values in actual[query])
    return None, ""


# Driving the bridge ---------------------------------------------------------------------------------------------------


def results(
    case: Case, database: Database, drive: Any, settings: Settings
) -> tuple[Results, dict[str, list[list[str]]]]:
    """What the bridge hands to output processors: rows as the reference has them, and the names in each payload."""
    rows: Results = {name: [] for name in case.queries}
    names: dict[str, list[list[str]]] = {name: [] for name in case.queries}
    with database.connect(settings) as cep:
        prepare(cep, case)
        with session_of(cep).of_replay() if settings.is_replay else contextlib.nullcontext():
            for name, node in case.queries.items():
                cep.create_query(name, node)
        for name in case.queries:
            cep.add_output_processor(name, partial(collect, rows[name], names[name]))
        drive(cep, list(case.events))
        if case.end is not None:
            cep.advance_time(case.end)
    return rows, names


def prepare(cep: Any, case: Case) -> None:
    for name, schema in case.schemas.items():
        cep.register_stream(name, schema)
    for name, (schema, rows) in case.relations.items():
        columns = ", ".join(f'"{a.name}" {declared(a.type, cep.database)}' for a in Schema.of(schema))
        cep.database.execute(f"CREATE TABLE {name} ({columns})")
        for row in rows:
            cep.database.execute(f"INSERT INTO {name} VALUES ({', '.join(map(literal, row))})")


def literal(value: Any) -> str:
    return "NULL" if value is None else repr(value)


def collect(rows: list, names: list, event: Any) -> None:
    rows.append((event.timestamp, tuple(event.payload.values())))
    names.append(list(event.payload))


def singly(cep: Any, events: list, rng: Random) -> None:
    """One push an event, now and then a purge."""
    for event in events:
        cep.push_event(*event)
        if rng.random() < 0.2:
            cep.purge()


def in_batches(cep: Any, events: list, rng: Random) -> None:
    """Batches of random sizes, also of none; between them purges, and time passing to the next event (T3)."""
    for batch in batches(events, rng):
        if batch and rng.random() < 0.2:
            cep.advance_time(batch[0][2])
        cep.push_all(batch)
        if rng.random() < 0.3:
            cep.purge()


def all_at_once(cep: Any, events: list, rng: Random) -> None:
    cep.push_all(events)
    cep.purge()


def as_replay(cep: Any, events: list, rng: Random) -> None:
    """Batches of random sizes into a bridge that keeps nothing for on-demand queries."""
    for batch in batches(events, rng):
        cep.push_all(batch)


DRIVES = (singly, in_batches, all_at_once)


def batches(events: list, rng: Random) -> Iterator[list]:
    while events:
        size = rng.choice([0, 1, 1, 2, 3, 5, 8, 20])
        yield events[:size]
        events = events[size:]


# Comparing ------------------------------------------------------------------------------------------------------------


def same_rows(expected: list, actual: list) -> bool:
    """The same rows in the same order."""
    return len(expected) == len(actual) and all(
        ts == found_ts and len(values) == len(found) and all(map(same_value, values, found))
        for (ts, values), (found_ts, found) in zip(expected, actual, strict=True)
    )


def same_value(expected: Any, actual: Any) -> bool:
    """Equal and of one type; a DOUBLE may differ in its last digits."""
    if isinstance(expected, float) and isinstance(actual, float):
        return math.isclose(expected, actual, rel_tol=1e-9, abs_tol=1e-9)
    return type(expected) is type(actual) and expected == actual
