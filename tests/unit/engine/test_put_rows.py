"""Tables of aggregates (EPL's into table) that no other query reads: their rows are written later, together."""

from __future__ import annotations

import random
from typing import Any

import pytest

import bridge
from bridge.rewrite.settings import Settings
from tests.support.traced import reads_and_writes, traced

SCHEMA = "k VARCHAR, i INTEGER, b BIGINT, d DOUBLE"
STATEMENTS = {
    "counts": ("k string primary key, n count(*)", "count(*) as n from s group by k"),
    "sums": ("k string primary key, a sum(int), m max(double)", "sum(i) as a, max(d) as m from s group by k"),
    "large sums": ("k string primary key, a sum(long)", "sum(b) as a from s group by k"),
    "of rows": (
        "k string primary key, m max(int), n count(*)",
        "max(i) as m, count(*) as n from s#length(3) group by k",
    ),
    "of time": ("k string primary key, n count(*)", "count(*) as n from s#time(9 msec) group by k"),
    "of some": ("k string primary key, a avg(double)", "avg(d) as a from s(i > 0) group by k"),
    "two keys": ("k string primary key, i int primary key, n count(*)", "count(*) as n from s group by k, i"),
    "one row": ("a sum(double), n count(*)", "sum(d) as a, count(*) as n from s"),
}


def connected(url: str, name: str, schema: str = SCHEMA) -> bridge.Bridge:
    cep = bridge.connect(url)
    cep.register_stream("s", schema)
    cep.register_stream("u", schema)
    columns, select = STATEMENTS[name]
    cep.create_query("table", f"create table T ({columns})", language="epl")
    cep.create_query("fill", f"into table T select {select}", language="epl")
    return cep


def event(draw: random.Random, ts: int) -> tuple[str, list[Any], int]:
    key = draw.choice(("A", "B", "C", None) if draw.random() < 0.2 else "ABC")
    large = 2**62 if draw.random() < 0.2 else draw.randrange(9)
    return draw.choice("sssu"), [key, draw.choice((0, 1, 2, None)), large, draw.choice((0.5, 1.5, -2.0, None))], ts


@pytest.mark.one_in(6)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("seed", range(3))
def test_the_rows_are_those_of_transactions(url: str, name: str, seed: int) -> None:
    found: list[list[Any]] = []
    for most in (200, 0):
        draw = random.Random(f"{name}/{seed}")
        found.append([])
        with connected(url, name) as cep:
            cep._runner.network.settings = Settings(in_process=most)
            ts = 0
            for _ in range(80):
                some = [event(draw, ts := ts + draw.choice((0, 1, 1, 4))) for _ in range(draw.choice((1, 1, 1, 1, 5)))]
                try:
                    cep.push_all(some)
                except bridge.DatabaseError as error:
                    found[-1].append(str(error))
                step = draw.random()
                if step < 0.05:
                    cep.purge()
                elif step < 0.1 and cep._runner.now > 0:
                    cep.advance_time(cep._runner.now + draw.choice((0, 12)))
                    ts = cep._runner.now
                elif step < 0.2:
                    found[-1].append(sorted(map(repr, cep.query("SELECT * FROM T"))))
                elif step < 0.25:
                    found[-1].append(sorted(map(repr, cep.database.fetch("SELECT * FROM T"))))
                ts = max(ts, cep._runner.now)
            found[-1].append(sorted(map(repr, cep.query("SELECT * FROM T"))))
    assert found[0] == found[1]
    assert len(found[0][-1]) > 0


@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - {"of time", "large sums"}))
def test_events_run_no_statement(url: str, name: str) -> None:
    if (url, name) == ("sqlite://", "of rows"):
        pytest.skip("the statement for many events could fail there")
    with connected(url, name, SCHEMA.replace("BIGINT", "INTEGER")) as cep:
        cep.create_query("other", "SELECT k, AVG(d) AS m FROM s WINDOW(RANGE 20 MS) GROUP BY k")
        found: list[bridge.Event] = []
        cep.add_output_processor("other", found.append)
        for ts, stream in enumerate("uussssssu"):
            cep.push_event(stream, ["A", 1, 1, 0.5], ts)
        statements = traced(cep)
        for ts in range(9, 40):
            cep.push_event("su"[ts % 2], ["AB"[ts % 3 == 0], 1, 1, 0.5], ts)
        assert reads_and_writes(statements) == []
        assert len(found) > 20
        counts = cep.query("SELECT * FROM T")
        assert len(counts) in (1, 2)


def test_a_push_writes_one_row_per_key() -> None:
    with connected("duckdb://", "counts") as cep:
        cep.push_events("s", [([key, 1, 1, 0.5], 1) for key in "AB"])
        statements = traced(cep)
        cep.push_events("s", [(["AB"[number % 2], 1, 1, 0.5], 2) for number in range(1000)])
        assert len([each for each in statements if each.startswith('UPDATE "T"')]) == 2
        assert sorted(cep.query("SELECT * FROM T")) == [("A", 501), ("B", 501)]


def test_an_event_without_a_key_is_refused_at_its_push() -> None:
    with connected("duckdb://", "counts") as cep:
        for ts in range(9):
            cep.push_event("s", ["A", 1, 1, 0.5], ts)
        with pytest.raises(bridge.DatabaseError, match="cannot be NULL"):
            cep.push_event("s", [None, 1, 1, 0.5], 9)
        cep.push_event("s", ["A", 1, 1, 0.5], 10)
        assert list(cep.query("SELECT * FROM T")) == [("A", 10)]
