"""A frame of the caller by its name in FROM of an on-demand query."""

from __future__ import annotations

import asyncio
import datetime
import importlib
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bridge
from tests.support.databases import Database

ROWS = {
    "k": ["a", "b", None],
    "v": [1, 2, 3],
    "d": [0.5, None, 1.5],
    "at": [datetime.datetime(2024, 1, day) for day in (1, 2, 3)],
}
GLOBAL = pa.table({"g": [7]})


def values(rows: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows]


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "arrow", "batch", "reader", "duckdb"])
def test_a_local_frame_is_a_table(database: Database, kind: str) -> None:
    if database.variable and kind not in ("pandas", "arrow"):
        pytest.skip("all kinds are Arrow tables by then")
    table = pa.table(ROWS)
    makes: dict[str, Any] = {
        "pandas": table.to_pandas, "polars": lambda: pl.DataFrame(ROWS), "lazy": lambda: pl.LazyFrame(ROWS),
        "arrow": lambda: table, "batch": lambda: table.to_batches()[0], "reader": table.to_reader,
        "duckdb": lambda: duckdb.from_arrow(table),
    }  # fmt: skip
    orders = makes[kind]()
    with database.connect() as cep:
        found = values(cep.query("SELECT k, v, d FROM orders WHERE v > 1 ORDER BY v"))
        assert [tuple(None if value != value else value for value in row) for row in found] == [
            ("b", 2, None),
            (None, 3, 1.5),
        ]
        with pytest.raises(bridge.QueryError):
            cep.query("SELECT * FROM no_orders")
    assert orders is not None


def test_rows_of_a_frame_match_and_join(database: Database) -> None:
    orders = pd.DataFrame(ROWS)
    with database.connect() as cep:
        cep.register_stream("s", "v INTEGER, name VARCHAR")
        cep.push_event("s", [2, "two"], 1000)
        assert values(cep.query("SELECT o.k, s.name FROM s, orders o WHERE o.v = s.v")) == [("b", "two")]
        matches = cep.query(
            "SELECT * FROM orders MATCH_RECOGNIZE (ORDER BY at MEASURES A.v AS a, B.v AS b PATTERN (A B) DEFINE B AS B.v > A.v)"
        )
        assert values(matches) == [(1, 2)]
    assert len(orders) == 3


def test_what_the_bridge_knows_comes_first(embedded: Database) -> None:
    s = t = pa.table({"v": [100]})
    with embedded.connect() as cep:
        cep.register_stream("s", "v INTEGER")
        cep.push_event("s", [1], 1000)
        cep.database.execute("CREATE TABLE t (v INTEGER)")
        cep.database.execute("INSERT INTO t VALUES (2)")
        assert values(cep.query("SELECT s.v, t.v FROM s, t")) == [(1, 2)]
        assert values(cep.query("WITH s AS (SELECT 5 AS v) SELECT v FROM s")) == [(5,)]
        assert values(cep.query("SELECT g FROM GLOBAL")) == [(7,)]
        cep.database.execute("DROP TABLE t")
        assert values(cep.query("SELECT v FROM t")) == [(100,)]
    assert s is t


def test_an_untrusted_query_reads_no_frame(embedded: Database) -> None:
    secrets = pa.table({"v": [100]})
    with embedded.connect() as cep, pytest.raises(bridge.QueryError, match="secrets"):
        cep.query("SELECT v FROM secrets", untrusted=True)
    assert secrets.num_rows == 1


def test_explain_and_why_of_a_frame(database: Database) -> None:
    orders = pd.DataFrame(ROWS)
    matching = "SELECT * FROM orders MATCH_RECOGNIZE (ORDER BY v MEASURES A.v AS a PATTERN (A B) DEFINE B AS B.v > 2)"
    with database.connect() as cep:
        assert "PATTERN (A B)" in cep.explain(matching)
        assert [match.number for match in cep.why(matching, ts=3).matches] == [1]
        with pytest.raises(bridge.QueryError, match="'orders'"):
            cep.explain(matching, untrusted=True)
    assert orders is not None


def test_a_frame_of_a_task() -> None:
    async def found() -> Any:
        orders = pd.DataFrame(ROWS)
        async with bridge.aio.connect() as cep:
            assert "FROM orders" in await cep.explain("SELECT v FROM orders")
            assert orders is not None
            return await cep.query("SELECT SUM(v) AS total FROM orders")

    assert values(asyncio.run(found())) == [(6,)]
    assert importlib.import_module("bridge.aio") is bridge.aio
