"""Rows of a table that lies in order are brought together by partition as the database would sort them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import bridge
from bridge.patterns import rows
from bridge.patterns.members import Members

ROWS = 400

KEYS = {"VARCHAR": "['b', 'é', NULL, 'a', '']", "BIGINT": "[-1, NULL, 3, 2]", "BOOLEAN": "[true, false, NULL]"}
"""Types of keys, with values."""

TIMES = {
    "BIGINT": "i // 2",
    "TIMESTAMP": "TIMESTAMP '2024-01-01' + to_milliseconds(i)",
    "DOUBLE": "i / 3",
    "DATE": "DATE '2024-01-01' + i::INTEGER",
}

CLAUSE = """
    SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts, n MEASURES A.n AS first_n, LAST(B.d) AS d, COUNT(B.n) AS c
        {per_match} PATTERN (A B+) DEFINE B AS n > PREV(n) OR d IS NULL)
"""
"""With a second term of order, or, to have the table gathered, without."""


@pytest.fixture
def cep() -> Iterator[bridge.Bridge]:
    with bridge.connect() as opened:
        yield opened


def make(cep: bridge.Bridge, key: str, time: str, order: str = "i") -> None:
    cep.database.execute(f"""
        CREATE TABLE t AS
        SELECT ({KEYS[key]}::{key}[])[1 + (hash(i) % 5)::INTEGER] AS k, ({TIMES[time]})::{time} AS ts,
               (hash(i + 7) % 10)::INTEGER AS n, CASE WHEN hash(i + 3) % 4 > 0 THEN i / 2 END AS d, hash(i + 5) % 2 = 0 AS flag
        FROM range({ROWS}) AS r(i) ORDER BY {order}""")


def gathers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each clause's rows were gathered, as it is noted from here on."""
    noted: list[bool] = []
    gather = rows.SortedRows._read_partitioned

    def noting(self: rows.SortedRows) -> Any:
        found = gather(self)
        noted.append(found is not None)
        return found

    monkeypatch.setattr(rows.SortedRows, "_read_partitioned", noting)
    return noted


@pytest.mark.parametrize("per_match", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"])
@pytest.mark.parametrize("time", ["TIMESTAMP", "DOUBLE", "DATE"])
@pytest.mark.parametrize("key", KEYS)
def test_rows_gathered_are_the_rows_sorted(
    key: str, time: str, per_match: str, cep: bridge.Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is of one column without ties, so there is one answer."""
    make(cep, key, time)
    query = CLAUSE.format(per_match=per_match)
    sorted_by_both = cep.query(query).to_arrow()
    noted = gathers(monkeypatch)
    assert cep.query(query.replace("ts, n", "ts")).to_arrow().to_pylist() == sorted_by_both.to_pylist()
    assert noted == [True]
    assert sorted_by_both.num_rows > 20


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("out of order", "UPDATE t SET ts = ts + 9000 WHERE rowid = 3"),
        ("a time is missing", "UPDATE t SET ts = NULL WHERE rowid = 3"),
        ("no rows", "DELETE FROM t"),
        ("other types", "ALTER TABLE t ALTER n TYPE HUGEINT"),
    ],
)
def test_other_tables_are_sorted(what: str, change: str, cep: bridge.Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    make(cep, "VARCHAR", "BIGINT")
    cep.database.execute(change)
    query = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES MAX(A.ts) AS m, SUM(A.n) AS s PATTERN (A+))"
    noted = gathers(monkeypatch)
    found = cep.query(query).to_arrow().to_pylist()
    expected = "SELECT k, MAX(ts) AS m, SUM(n) AS s FROM t GROUP BY k ORDER BY k NULLS FIRST"
    assert [tuple(row.values()) for row in found] == cep.database.fetch(expected), what
    assert noted == [False]


@pytest.mark.parametrize("collation", ["nocase", "noaccent", "nfc"])
def test_keys_that_are_equal_by_collation(collation: str, cep: bridge.Bridge) -> None:
    cep.database.execute(f"CREATE TABLE t (k VARCHAR COLLATE {collation}, ts BIGINT)")
    cep.database.execute("INSERT INTO t VALUES ('e', 1), ('E', 2), ('\u00e9', 3), ('e\u0301', 4)")
    found = cep.query(
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A+))"
    )
    expected = "SELECT COUNT(*) AS n FROM t GROUP BY k ORDER BY n"
    assert sorted((row["n"],) for row in found.to_arrow().to_pylist()) == cep.database.fetch(expected)


def test_many_partitions(cep: bridge.Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than numbers of two bytes tell apart."""
    cep.database.execute(
        "CREATE TABLE t AS SELECT (hash(i) % 70000)::INTEGER AS k, i AS ts FROM range(300_000) AS r(i)"
    )
    noted = gathers(monkeypatch)
    found = cep.query(
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A+))"
    )
    expected = "SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY k NULLS FIRST"
    assert [tuple(row.values()) for row in found.to_arrow().to_pylist()] == cep.database.fetch(expected)
    assert noted == [True]


def test_what_is_lent_is_taken_back(cep: bridge.Bridge) -> None:
    """Also after an error."""
    make(cep, "VARCHAR", "BIGINT")
    clause = "PARTITION BY k ORDER BY ts MEASURES A.n AS a {skip} PATTERN (A B?) DEFINE B AS n > 4"
    query = f"SELECT * FROM t MATCH_RECOGNIZE ({clause})"
    cep.query(query.format(skip="")).to_arrow()
    with pytest.raises(bridge.BridgeError):
        cep.query(query.format(skip="AFTER MATCH SKIP TO FIRST A")).to_arrow()
    assert not cep.database.fetch("SELECT view_name FROM duckdb_views() WHERE view_name LIKE '_cep%'")


def test_an_answer_takes_nothing_with_it(cep: bridge.Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was computed for its measures is kept no longer than the answer is made."""
    made: list[weakref.ref[Members]] = []
    init = Members.__init__

    def noting(self: Members, *given: Any) -> None:
        init(self, *given)
        made.append(weakref.ref(self))

    monkeypatch.setattr(Members, "__init__", noting)
    make(cep, "VARCHAR", "BIGINT")
    clause = "PARTITION BY k ORDER BY ts MEASURES COUNT(B.n) AS c PATTERN (A B+ C) DEFINE B AS n > 3, C AS n < 3"
    cep.query(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})").to_arrow()
    gc.collect()
    assert [kept() for kept in made] == [None]


@pytest.mark.parametrize("seed", range(5))
def test_random_order(seed: int, cep: bridge.Bridge) -> None:
    """A few rows that stand elsewhere, in the beginning or the end."""
    rng = Random(seed)
    make(cep, "VARCHAR", "TIMESTAMP", f"CASE WHEN i = {rng.randrange(ROWS)} THEN {rng.randrange(ROWS)} ELSE i END")
    query = CLAUSE.format(per_match="ONE ROW PER MATCH")
    assert cep.query(query).to_arrow().to_pylist() == cep.query(query.replace("ts, n", "ts")).to_arrow().to_pylist()
