"""COUNT(*) of sliding windows in large pushes, where a database may search a sorted array; and answers column by column."""

from __future__ import annotations

import bisect
import datetime
import decimal
import math
from random import Random
from typing import Any

import pytest

from tests.support.databases import DATABASES, Database, one_of

database = one_of(DATABASES)
duck = one_of(DATABASES[:1])
SIZES = (1, 7, 40)


@pytest.mark.parametrize("gaps", [(0, 0, 1, 2, 5, 60), (0, 0, 1, 1, 2)], ids=["far", "close"])
def test_a_count_is_that_of_the_rows_that_are_still_valid(database: Database, gaps: tuple[int, ...]) -> None:
    """Several events of one time, gaps longer than a window, purges between the pushes, and a filter below the window."""
    rng = Random(len(gaps))
    ts, events = 0, []
    for _ in range(150):
        ts += rng.choice(gaps)
        events.append((ts, rng.randrange(4)))
    kept = [(ts, a) for ts, a in events if a > 0]
    with database.connect() as cep:
        cep.register_stream("s", "a INTEGER")
        found: dict[int, list[tuple[int, int, int]]] = {size: [] for size in SIZES}
        for size in SIZES:
            text = f"select count(*) as n, a from s(a > 0)#time({size} msec)"  # EPL also tells the event's own values
            cep.create_query(f"q{size}", text, language="epl")
            cep.add_output_processor(
                f"q{size}", lambda event, size=size: found[size].append((event.timestamp, *event.payload.values()))
            )
        assert ("places in a sorted array" in cep.explain("q7")) == (database.name == "postgresql")
        assert ("a list of their places among the rows" in cep.explain("q7")) == (database.name == "duckdb")
        pushed = 0
        while pushed < len(events):
            size = rng.choice([1, 20, 40])
            cep.push_events("s", [({"a": a}, ts) for ts, a in events[pushed : pushed + size]])
            pushed += size
            if rng.random() < 0.5:
                cep.purge()
    for size, rows in found.items():
        assert rows == [
            (ts, sum(ts - size < other <= ts for other, _ in kept[: place + 1]), a)
            for place, (ts, a) in enumerate(kept)
        ]


@pytest.mark.parametrize("longest", [3, 40])
def test_counts_of_alike_queries_as_arrow_are_each_querys_own(database: Database, longest: int) -> None:
    """Enough events for Arrow, most queries' results in one statement; one is filtered, and so by itself."""
    rng = Random(longest)
    times, ts = [], 0
    for _ in range(2500):
        ts += rng.randrange(longest)
        times.append(ts)
    sizes = {"one": 30, "two": 100, "none": 1, "three": 1000}
    with database.connect() as cep:
        cep.register_stream("s", "a INTEGER")
        found: dict[str, list[tuple[int, int]]] = {name: [] for name in (*sizes, "odd")}
        texts = {name: f"SELECT COUNT(*) FROM s WINDOW(RANGE {size} MS)" for name, size in sizes.items()}
        texts["odd"] = "SELECT COUNT(*) FROM (SELECT * FROM s WHERE a = 1) WINDOW(RANGE 30 MS)"
        for name, text in texts.items():
            cep.create_query(name, text)
            cep.add_output_processor(name, lambda rows, name=name: found[name].extend(_pairs(rows)), batch=True)
        for start in (0, 1200, 2450):
            stop = {0: 1200, 1200: 2450}.get(start, len(times))
            cep.push_events("s", [({"a": at % 2}, times[at]) for at in range(start, stop)])
    for name, size in sizes.items():
        assert found[name] == _counts(times, size)
    assert found["odd"] == _counts(times[1::2], 30)


def test_an_asof_join_of_a_new_table_sorts(duck: Database) -> None:
    """DuckDB plans before it knows how many rows came: 100,000 events took a minute in a loop."""
    with duck.connect() as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("q", "SELECT COUNT(*) FROM s WINDOW(RANGE 30 MS)")
        assert cep.database.fetch("SELECT current_setting('asof_loop_join_threshold')") == [(0,)]
        found: list[Any] = []
        cep.add_output_processor("q", found.append, batch=True)
        cep.push_events("s", [((0,), ts) for ts in range(2_000)])
    assert _pairs(found[-1])[-1] == (1_999, 30)


def _counts(times: list[int], size: int) -> list[tuple[int, int]]:
    return [(ts, at + 1 - bisect.bisect(times, ts - size)) for at, ts in enumerate(times)]


def _pairs(rows: Any) -> list[tuple[int, int]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def test_results_as_arrow_are_those_of_single_events(database: Database) -> None:
    """Of every type, with NULL and without; sums of whole numbers, and of decimals."""
    schema = "a INTEGER, d DOUBLE, t VARCHAR, b BOOLEAN, n DECIMAL(9, 2), o DATE, w TIMESTAMP, none BIGINT"
    rng = Random(3)
    day = datetime.date(2024, 2, 29)
    rows = [
        (
            rng.randrange(-5, 5), rng.choice([0.1, -1e300, 2.0]), rng.choice(["", "ä'\\", None]), rng.random() < 0.5,
            decimal.Decimal(rng.randrange(-999, 999)) / 100, rng.choice([day, None]),
            datetime.datetime(2024, 2, 29, 1, 2, 3, rng.randrange(1_000_000)), None,
        )
        for _ in range(1200)
    ]  # fmt: skip
    with database.connect() as cep:
        cep.register_stream("s", schema)
        tables: list[Any] = []
        singly: list[tuple[Any, ...]] = []
        for name, take, batch in (("as_arrow", tables.append, True), ("as_rows", singly.append, False)):
            text = f"SELECT a + 0 AS {name}, a, d, t, b, n, o, w, none, a > 0 AS p, d * 2 AS dd FROM s WHERE a <> 3"
            cep.create_query(name, text)
            cep.add_output_processor(name, take, batch=batch)
        cep.create_query("sums", "SELECT SUM(a) AS s, AVG(a) AS m, SUM(n) AS u FROM s WINDOW(NOW)")
        sums: list[Any] = []
        cep.add_output_processor("sums", sums.append, batch=True)
        cep.push_events("s", [(row, ts) for ts, row in enumerate(rows)])
        types = [str(kind) for kind in tables[0].schema.types[2:9]]
        found = [row for table in tables for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
        total = [row for table in sums for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
    assert types == ["int32", "double", "string", "bool", "decimal128(9, 2)", "date32[day]", "timestamp[us]"]
    assert found == [(event.timestamp, *event.payload.values()) for event in singly]
    assert total == [(ts, row[0], float(row[0]), row[4]) for ts, row in enumerate(rows)]


def test_an_answer_of_no_rows_and_one_with_nan(database: Database) -> None:
    if database.name in ("sqlite", "mariadb"):
        pytest.skip("has no NaN")
    with database.connect() as cep:
        nan = "CAST('NaN' AS DOUBLE PRECISION)" if database.name == "postgresql" else "CAST('NaN' AS DOUBLE)"
        found = cep.database.fetch_arrow(f"SELECT {nan} AS v, 1.5e0 AS v, CAST(NULL AS BIGINT) AS w")
        none = cep.database.fetch_arrow("SELECT 1 AS v, 'x' AS w WHERE 1 = 0")
    assert found.column_names == ["v", "v", "w"] and math.isnan(found.column(0)[0].as_py())
    assert found.column(1).to_pylist() == [1.5] and found.column(2).to_pylist() == [None]
    assert (none.column_names, none.num_rows) == (["v", "w"], 0)
