"""Random scripts of EPL over history: the rows of the live statements in their order, locally, in pieces, and on Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import bridge
from bridge.errors import QueryError
from bridge.history.script import ReplayScript
from tests.support import epl_histories
from tests.support.epl_rows import Row
from tests.support.generate import Case
from tests.unit.spark.test_spark_pieces import History

Told = dict[str, list[dict[str, Any]]]
Events = list[tuple[str, Row]]


def made(seed: int, statements: int, count: int) -> tuple[str, Events]:
    """A script, and events for it."""
    chance = random.Random(f"replay/{seed}")
    several = [epl_histories.asked(chance) for _ in range(statements)]
    return epl_histories.script(several), epl_histories.events(chance, count)


def end_of(events: Events) -> int:
    """Time passes until then."""
    return events[-1][1][0] + 5_000


def live(text: str, events: Events) -> Told:
    """What the statements tell of events pushed one by one."""
    read = ReplayScript.of(text, language="epl")
    told: Told = {name: [] for name in read.queries}
    with bridge.connect("sqlite://") as cep:
        read.install(cep, {})
        for name, rows in told.items():
            cep.add_output_processor(name, lambda e, rows=rows: rows.append({"ts": e.timestamp, **e.payload}))
        for stream, row in events:
            cep.push_event(stream, list(row[1:]), row[0])
        cep.advance_time(end_of(events))
    return told


def source(text: str, events: Events) -> dict[str, Any]:
    """The tables that the script reads."""
    reads = ReplayScript.of(text, language="epl").reads
    return {stream: table for stream, table in epl_histories.tables(events).items() if stream in reads}


def compared(text: str, events: Events, **options: Any) -> int:
    """How many rows the statements give, live and in replay."""
    told = live(text, events)
    found = bridge.replay(source(text, events), text, language="epl", end=end_of(events), **options)
    for name, rows in told.items():
        table = found[name].toArrow() if "engine" in options else found[name]
        assert table.to_pylist() == rows, (name, text)
    return sum(map(len, told.values()))


def pieces(seed: int) -> int:
    """In how many ways a statement was cut into pieces, each with the rows of the whole."""
    text, events = made(seed, 1, 24)
    queries = {name: node for name, (node, _) in ReplayScript.of(text, language="epl").queries.items()}
    schemas = dict.fromkeys(epl_histories.STREAMS, epl_histories.SCHEMA)
    history = History(Case(schemas, queries, tuple((stream, row[1:], row[0]) for stream, row in events)))
    whole, way = history.whole()["q0"], history.ways["q0"]
    if way.look_back is not None:
        assert history.sliced("q0", way.look_back, random.Random(seed)) == whole, text
    if way.keys:
        assert history.keyed("q0", way.keys) == whole, (text, way.keys)
    return (way.look_back is not None) + bool(way.keys)


@pytest.mark.parametrize("seed", range(4))
def test_a_replay_gives_the_live_rows(seed: int) -> None:
    assert compared(*made(seed, 6, 16)) > 5


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_a_replay_gives_the_live_rows_many_times(block: int) -> None:
    assert sum(compared(*made(seed, 6, 16)) for seed in range(100 + block * 50, 150 + block * 50)) > 1_000


def test_pieces_give_the_rows_of_the_whole() -> None:
    assert sum(map(pieces, (26, 41, 55))) >= 3


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_pieces_give_the_rows_of_the_whole_many_times(block: int) -> None:
    assert sum(map(pieces, range(1_000 + block * 100, 1_100 + block * 100))) > 5


def test_spark_gives_the_live_rows(spark: Any, tmp_path: Path) -> None:
    assert compared(*made(0, 2, 12), engine="spark", spark=spark, pieces=2, out=tmp_path) > 3


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10_000, 11_000))
def test_spark_gives_the_live_rows_many_times(seed: int, spark: Any, tmp_path: Path) -> None:
    compared(*made(seed, 6, 24), engine="spark", spark=spark, pieces=3, out=tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "create table T (k string primary key, n long); on S as s merge T as t where t.k = s.k "
        "when not matched then insert select s.k as k, 1 as n",
        "create table T (k string primary key, n count(*)); into table T select count(*) as n from S group by k",
    ],
)
def test_a_table_that_statements_share_is_refused_on_spark(text: str) -> None:
    history = epl_histories.tables([("S", (1, "E1", 1, "x"))])
    script = f"{epl_histories.DECLARED[0]}; {text}"
    assert len(bridge.replay({"S": history["S"]}, script, language="epl")) == 1
    with pytest.raises(QueryError, match="not supported on Spark"):
        bridge.replay({"S": history["S"]}, script, "spark", language="epl")
