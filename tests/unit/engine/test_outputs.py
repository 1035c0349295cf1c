"""Tables of results that are filled event by event have the rows, the ids and the numbers that they get in batches."""

from __future__ import annotations

import pathlib
import random
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from tests.support.crashes import die
from tests.support.traced import reads_and_writes, traced

if TYPE_CHECKING:
    from tests.support.databases import Database

QUERIES = {
    "filter": "SELECT k, v * 2 AS twice FROM s WHERE v > 3",
    "aggregate": "SELECT k, SUM(v) AS total, AVG(w) AS mean, COUNT(*) AS n FROM s WINDOW(RANGE 9 MS) GROUP BY k",
    "extremes": "SELECT MIN(k) AS first, MAX(w) AS top FROM s WINDOW(ROWS 4)",
    "all": "SELECT k, COUNT(*) AS n FROM s WINDOW(UNBOUNDED) GROUP BY k",
    "session": "SELECT k, SUM(v) AS total FROM s WINDOW(PARTITION BY k SESSION 4 MS) GROUP BY k",
    "pairs": "SELECT x.v AS x, y.v AS y FROM s WINDOW(RANGE 6 MS) AS x JOIN t WINDOW(RANGE 6 MS) AS y ON x.k = y.k",
    "jumping": "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 5 MS SLIDE 5 MS)",
    "rises": "SELECT m.x, m.y FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS x, B.v AS y "
    "PATTERN (A B) DEFINE B AS B.v > A.v) AS m",
}


def events(count: int, seed: int) -> list[tuple[str, list[Any], int]]:
    chance, ts, found = random.Random(seed), 1000, []
    for _ in range(count):
        ts += chance.choice((0, 1, 1, 2, 5))
        found.append((chance.choice("sst"), [chance.choice("ab"), chance.randrange(8), chance.randrange(16) / 8], ts))
    return found


def opened(url: str, names: list[str], into: bool = True) -> bridge.Bridge:
    cep = bridge.connect(url)
    for stream in "st":
        cep.register_stream(stream, "k VARCHAR, v INTEGER, w DOUBLE")
    for name in names:
        cep.create_query(name, QUERIES[name], into=f"of_{name}" if into else None)
    return cep


def tables(cep: bridge.Bridge, names: list[str]) -> dict[str, list[Any]]:
    """The rows of the tables, in the order of time, number and place."""
    found = {}
    for name in names:
        rows = cep._runner.database.fetch(f"SELECT * FROM of_{name}")
        found[name] = sorted(rows, key=lambda row: list(map(int, row[0].split("/")[1:])))
    return found


def drop(cep: bridge.Bridge, names: list[str]) -> None:
    for name in names:
        cep.database.execute(f"DROP TABLE of_{name}")
    cep.drop()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("names", [*([name] for name in QUERIES), list(QUERIES)], ids="_".join)
@pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "file"])
def test_event_by_event_as_in_a_batch(
    embedded: Database, tmp_path: pathlib.Path, names: list[str], is_durable: bool
) -> None:
    given = events(60, seed=len(names))
    with opened(embedded.fresh(), names) as batch:
        batch.push_all(given)
        wanted = tables(batch, names)
    cep = opened(embedded.durable(tmp_path) if is_durable else embedded.fresh(), names)
    for event in given:
        cep.push_event(*event)
    assert tables(cep, names) == wanted
    assert all(wanted.values())
    drop(cep, names)


@pytest.mark.parametrize("name", ["aggregate", "session", "all"])
def test_an_event_takes_one_insert_per_table(embedded: Database, tmp_path: pathlib.Path, name: str) -> None:
    for url, journal in ((embedded.fresh(), []), (embedded.durable(tmp_path), ['"cep_journal_s"'])):
        cep = opened(url, [name])
        for number in range(8):
            cep.push_event("s", ["a", 5, 0.5], 1000 + number)
        statements = traced(cep)
        cep.push_event("s", ["a", 6, 0.5], 1010)
        inserted = [text.split()[2] for text in reads_and_writes(statements)]
        assert inserted == [f'"of_{name}"', *journal]
        drop(cep, [name])


def test_named_processors_get_results_once_and_in_order(embedded: Database, tmp_path: pathlib.Path) -> None:
    url, given = embedded.durable(tmp_path), events(80, seed=3)
    names = ["filter", "aggregate", "all"]
    received: dict[str, list[Any]] = {name: [] for name in names}
    for first in range(0, 80, 16):
        cep = opened(url, names, into=False)
        for name in names:
            cep.add_output_processor(name, received[name].append, name="mailer")
        for event in given[first : first + 16]:
            cep.push_event(*event)
        die(cep)
    wanted: dict[str, list[Any]] = {name: [] for name in names}
    with opened(embedded.fresh(), names, into=False) as batch:
        for name in names:
            batch.add_output_processor(name, wanted[name].append, name="mailer")
        batch.push_all(given)
    assert received == wanted
    bridge.connect(url).drop()


@pytest.mark.one_in(2)
def test_after_a_crash_no_result_is_in_its_table_twice(embedded: Database, tmp_path: pathlib.Path) -> None:
    url, given, names = embedded.durable(tmp_path), events(90, seed=4), list(QUERIES)
    cep = opened(url, names)
    for place, event in enumerate(given):
        if place % 13 == 12:
            die(cep)
            cep = opened(url, names)
        cep.push_event(*event)
    with opened(embedded.fresh(), names) as batch:
        batch.push_all(given)
        wanted = tables(batch, names)
    assert tables(cep, names) == wanted
    drop(cep, names)


def test_a_table_that_refuses_a_result_refuses_the_event(embedded: Database, tmp_path: pathlib.Path) -> None:
    cep = bridge.connect(embedded.durable(tmp_path))
    cep.register_stream("s", "k VARCHAR, v INTEGER, w DOUBLE")
    cep.database.execute("CREATE TABLE of_filter (ts BIGINT, twice BIGINT CHECK (twice < 20), k VARCHAR(9))")
    cep.create_query("filter", QUERIES["filter"], into="of_filter")
    cep.create_query("all", QUERIES["all"])
    for number in range(4):
        cep.push_event("s", ["a", 4, 0.5], 1000 + number)
    with pytest.raises(bridge.DatabaseError):
        cep.push_event("s", ["a", 11, 0.5], 1010)
    cep.push_event("s", ["a", 5, 0.5], 1011)
    assert cep.query("SELECT * FROM all")[0][-1] == 5
    assert cep.database.fetch("SELECT ts, twice, k FROM of_filter ORDER BY ts")[-1] == (1011, 10, "a")
    drop(cep, ["filter"])


def test_names_that_look_like_values(embedded: Database) -> None:
    """Statements are texts in which `cep_value_0_cep` stands for a value; names of tables and columns stay what they are."""
    with bridge.connect(embedded.fresh()) as cep:
        cep.register_stream("s", "k VARCHAR, v INTEGER, w DOUBLE")
        text = "SELECT k, SUM(v) AS cep_value_0_cep FROM s WINDOW(ROWS 3) GROUP BY k"
        cep.create_query("q", text, into='cep_value_1_cep "quoted"')
        for number in range(5):
            cep.push_event("s", ["a", 4, 0.5], 1000 + number)
        rows = cep.database.fetch('SELECT k, cep_value_0_cep FROM "cep_value_1_cep ""quoted""" ORDER BY ts')
        assert rows == [("a", 4), ("a", 8), ("a", 12), ("a", 12), ("a", 12)]
