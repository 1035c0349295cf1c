"""Tables of totals: what they hold, which aggregates have one, and what becomes of them."""

from __future__ import annotations

import itertools
import pathlib
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import bridge
from bridge.rewrite.aggregates.totals import Totals
from bridge.rewrite.settings import Settings
from tests.support.databases import tables_of
from tests.support.traced import traced

if TYPE_CHECKING:
    from tests.support.databases import Database

pytestmark = pytest.mark.some_databases(2)

SCHEMA = "k INTEGER, i BIGINT, d DOUBLE, t VARCHAR"
QUERY = "SELECT k, SUM(i) AS s, AVG(d) AS a, MAX(t) AS m, COUNT(*) AS n FROM s WINDOW(UNBOUNDED) GROUP BY k"


def state_of(cep: Any) -> dict[str, int]:
    """The number of rows of each table that keeps rows or totals, by the kind of table."""
    names = [name for name in tables_of(cep.database) if name.startswith(("cep_window", "cep_totals"))]
    counts = {name: cep.query(f"SELECT COUNT(*) FROM {name}")[0][0] for name in names}
    return {name.split("_")[1]: count for name, count in counts.items()}


def row(ts: int) -> tuple[list[Any], int]:
    return [(None, 1, 2)[ts % 3], ts, ts / 2, "x" * (ts % 5)], ts


@pytest.mark.parametrize("sizes", [(1,) * 9, (30, 1, 2, 40), (1_001, 1, 1_001)])
def test_the_state_is_one_row_per_group(sizes: tuple[int, ...], database: Database) -> None:
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", QUERY)
        found: list[Any] = []
        cep.add_output_processor("q", lambda event: found.append(tuple(event.payload.values())))
        ts = 0
        for size in sizes:
            cep.push_events("s", [row(ts + place) for place in range(size)])
            ts += size
            assert state_of(cep) == {"totals": min(ts, 3)}
        last = [row(each)[0] for each in range(ts) if each % 3 == (ts - 1) % 3]
        halves = [each[2] for each in last]
        assert len(found) == ts
        assert found[-1] == (
            last[0][0], sum(each[1] for each in last), pytest.approx(sum(halves) / len(halves)),
            max(each[3] for each in last), len(last),
        )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(DISTINCT k) AS n FROM s WINDOW(UNBOUNDED)",
        "SELECT k, LAST(i) AS i FROM s WINDOW(UNBOUNDED) GROUP BY k",
        "SELECT COUNT(*) AS n FROM s WINDOW(UNBOUNDED) EMIT ON CHANGE",
    ],
)
def test_what_totals_do_not_suffice_for_keeps_the_rows(text: str, database: Database) -> None:
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", text)
        cep.push_events("s", [row(ts) for ts in range(7)])
        assert state_of(cep).get("window") == 7


def test_queries_of_equal_aggregates_share_a_table(database: Database) -> None:
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("one", "SELECT k, SUM(i) AS s FROM s WINDOW(UNBOUNDED) GROUP BY k")
        cep.create_query("two", "SELECT SUM(i) + 1 AS t FROM s WINDOW(UNBOUNDED) GROUP BY k HAVING SUM(i) > 3")
        cep.create_query("rows", "SELECT x.i FROM s WINDOW(UNBOUNDED) x, s WINDOW(NOW) y WHERE x.k = y.k AND x.i < y.i")
        cep.push_events("s", [row(ts) for ts in range(7)])
        assert state_of(cep) == {"totals": 3, "window": 7}
        assert cep.query("SELECT t FROM two ORDER BY t") == [(6,), (8,), (10,)]


def test_the_content_of_a_query_is_read_from_the_totals(database: Database) -> None:
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", QUERY + " HAVING COUNT(*) > 1")
        assert cep.query("SELECT * FROM q") == []
        cep.push_events("s", [row(ts) for ts in range(5)])
        found = cep.query("SELECT ts, k, s, a, n FROM q ORDER BY s")
        assert found == [(4, None, 3, 0.75, 2), (4, 1, 5, 1.25, 2)]


def test_a_refused_push_leaves_the_totals(database: Database) -> None:
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", QUERY)
        cep.create_query("fails", "SELECT i + 9223372036854775800 AS i FROM s")
        found: list[Any] = []
        cep.add_output_processor("q", lambda event: found.append(event.payload["n"]))
        cep.add_output_processor("fails", lambda event: None)
        cep.push_event("s", [1, 1, 0.5, "a"], 1)
        for events in ([([1, 50, 0.5, "b"], 2)], [([1, 2, 0.5, "b"], 2), ([1, 50, 0.5, "b"], 3)]):
            with pytest.raises(bridge.DatabaseError):
                cep.push_events("s", events)
        cep.push_event("s", [1, 1, 0.5, "a"], 4)
        cep.push_events("s", [([1, 1, 0.5, "a"], 5)] * 2)
        assert found == [1, 2, 3, 4]


def test_rows_of_a_former_layout_are_read_on(database: Database, tmp_path: pathlib.Path) -> None:
    url = database.durable(tmp_path)
    found: list[Any] = []
    with mock.patch.object(Totals, "of", return_value=None), bridge.connect(url, fresh=True) as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", QUERY)
        cep.push_events("s", [row(ts) for ts in range(6)])
        assert state_of(cep) == {"window": 6}
    for ts in (6, 7):
        with bridge.connect(url) as cep:
            cep.add_output_processor("q", lambda event: found.append((event.payload["s"], event.payload["n"])))
            cep.push_events("s", [row(ts)])
            assert state_of(cep) == {"window": ts + 1}
    with bridge.connect(url) as cep:
        cep.create_query("new", QUERY)
        cep.push_events("s", [row(8)])
        assert state_of(cep) == {"window": 9, "totals": 1}
    assert found == [(9, 3), (12, 3)]


def test_a_query_that_replaces_another_takes_over_its_totals(database: Database) -> None:
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", QUERY)
        cep.push_events("s", [row(ts) for ts in range(6)])
        cep.create_query("q", "SELECT k, SUM(i) / COUNT(*) AS m FROM s WINDOW(UNBOUNDED) GROUP BY k", replace=True)
        found: list[Any] = []
        cep.add_output_processor("q", lambda event: found.append(event.payload))
        cep.push_events("s", [row(6)])
        assert found == [{"k": None, "m": 3.0}]


@pytest.mark.parametrize("size", [1, 2, 20])
def test_sums_that_pass_64_bits_on_the_way_are_those_of_single_events(size: int, database: Database) -> None:
    values = [-(2**63) + 1, 2**62, 2**62, None, 5, -(2**62), 2**62, 2**40, -7]
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", "SELECT SUM(i) AS s, AVG(i) AS a FROM s WINDOW(UNBOUNDED)")
        cep.create_query("mapped", "SELECT SUM(j) AS s FROM (SELECT i + 1 AS j FROM s) AS s WINDOW(UNBOUNDED)")
        found: list[Any] = []
        for name in ("q", "mapped"):
            cep.add_output_processor(name, lambda event: found.append(event.payload["s"]))
        for first in range(0, len(values), size):
            cep.push_events("s", [([1, i, 0.5, "x"], first + n) for n, i in enumerate(values[first : first + size])])
        numbers = [i or 0 for i in values]
        sums = [sum(numbers[: n + 1]) for n in range(len(values))]
        mapped = [total + n - (n >= 3) + 1 for n, total in enumerate(sums)]
        assert sorted(found) == sorted(sums + mapped)


@pytest.mark.parametrize("size", [1, 2])
def test_totals_of_decimals_are_exact(size: int, database: Database) -> None:
    """Also on SQLite, which adds doubles: the total is rounded at each push, so it is exact to 15 digits."""
    values = [Decimal("8999999999999.01"), *[Decimal("0.13")] * 59]
    with database.connect() as cep:
        cep.register_stream("s", "m DECIMAL(15, 2)")
        cep.create_query("q", "SELECT SUM(m) AS s FROM s WINDOW(UNBOUNDED)")
        found: list[Any] = []
        cep.add_output_processor("q", lambda event: found.append(event.payload["s"]))
        for first in range(0, len(values), size):
            cep.push_events("s", [([m], first + n) for n, m in enumerate(values[first : first + size])])
    assert found == list(itertools.accumulate(values))


def test_an_event_of_a_known_group_takes_one_statement_less(database: Database) -> None:
    """The INSERT of new groups runs only where the UPDATE has found none."""
    with database.connect(Settings(in_process=0)) as cep:
        cep.register_stream("s", "k INTEGER, v INTEGER")
        cep.create_query("q", "SELECT k, SUM(v) AS t FROM s WINDOW(UNBOUNDED) GROUP BY k")
        found: list[tuple[int, int]] = []
        cep.add_output_processor("q", lambda event: found.append((event.payload["k"], event.payload["t"])))
        for ts in range(3):
            cep.push_event("s", [1, 5], ts)
        statements = traced(cep)
        cep.push_event("s", [1, 5], 3)
        cep.push_event("s", [2, 7], 4)
        words = [text.split()[0] for text in statements if "totals" in text]
    assert words == ["UPDATE", "SELECT", "UPDATE", "INSERT", "SELECT"]
    assert found == [(1, 5), (1, 10), (1, 15), (1, 20), (2, 7)]
