"""Standard streaming SQL in a replay, on Spark and over restarts: the rows of the live query."""

from __future__ import annotations

import pathlib
import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.random.test_random_streaming_sql import END, OF_TWO_STREAMS, RULES, events_of
from tests.support.streaming_histories import History, covering, history_of, operators, pairs_of_operators, replayed
from tests.support.streaming_sql import Row, in_order
from tests.test_streaming_sql_conformance import RUN, expected, name_of

if TYPE_CHECKING:
    from tests.support.databases import Database

pytestmark = pytest.mark.filterwarnings("ignore:WITH", "ignore:an aggregate without a window")


def histories() -> dict[str, History]:
    """Each conformance case whose events a replay takes in their order, by its name."""
    found = {name_of(case): history_of(case, f"c{number}_") for number, case in enumerate(RUN)}
    del found["W23 interval join, equal times"]  # events of two streams, one after the other in turns
    return found


ALL = histories()
EXPECTED: dict[str, list[Row]] = {
    name_of(case): in_order(
        [ALL[name_of(case)].end if time == "finish" else time, *values] for time, *values in expected(case)
    )
    for case in RUN
    if name_of(case) in ALL
}
SOME = {name: ALL[name] for name in covering(ALL, pairs_of_operators)}
FEW = {name: ALL[name] for name in covering(ALL, operators)}


def random_histories(seeds: range) -> tuple[dict[str, History], dict[str, list[Row]]]:
    """Queries of the random test over random events, and what the rules give."""
    histories, results = {}, {}
    for seed in seeds:
        for rule in RULES:
            name = f"{rule.__name__}_{seed}_"
            by = random.Random(name)
            text, rows = rule(by)
            events = sorted(events_of(by), key=lambda event: (event.ts, event.stream))
            pushed = [event for event in events if event.stream == "s" or rule in OF_TWO_STREAMS]
            columns = {"k": "VARCHAR", "v": "INTEGER"}
            case = {
                "streams": dict.fromkeys("st" if rule in OF_TWO_STREAMS else "s", columns),
                "sql": text,
                "events": [*((one.stream, one.ts, {"k": one.k, "v": one.v}) for one in pushed), ("time", END)],
            }
            histories[name], results[name] = history_of(case, name), in_order(map(list, rows(pushed)))
    return histories, results


def test_replay() -> None:
    assert replayed(SOME) == {name: EXPECTED[name] for name in SOME}


def test_random_replay() -> None:
    histories, results = random_histories(range(2))
    assert replayed(histories) == results


def test_replay_on_spark(spark: Any, tmp_path: pathlib.Path) -> None:
    found = replayed(FEW, tmp_path / "out", engine="spark", spark=spark, pieces=2)
    assert found == {name: EXPECTED[name] for name in FEW}


@pytest.mark.one_in(2)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("name", SOME)
def test_restarts(name: str, embedded: Database, tmp_path: pathlib.Path) -> None:
    assert SOME[name].with_restarts(embedded.durable(tmp_path)) == EXPECTED[name]


@pytest.mark.some_databases(2)
def test_random_restarts(embedded: Database, tmp_path: pathlib.Path) -> None:
    histories, results = random_histories(range(2, 3))
    for name, history in histories.items():
        (tmp_path / name).mkdir()
        assert history.with_restarts(embedded.durable(tmp_path / name)) == results[name]


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 400, 10))
def test_random_replay_many_times(first: int, spark: Any, tmp_path: pathlib.Path) -> None:
    histories, results = random_histories(range(first, first + 10))
    assert replayed(histories) == results
    assert replayed(histories, tmp_path / "out", engine="spark", spark=spark, pieces=3) == results


@pytest.mark.long
def test_replay_of_all(spark: Any, tmp_path: pathlib.Path) -> None:
    wanted = {name: EXPECTED[name] for name in ALL}
    assert replayed(ALL) == wanted
    assert replayed(ALL, tmp_path / "out", engine="spark", spark=spark, pieces=3) == wanted


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_restarts_of_all(name: str, embedded: Database, tmp_path: pathlib.Path) -> None:
    assert ALL[name].with_restarts(embedded.durable(tmp_path)) == EXPECTED[name]
