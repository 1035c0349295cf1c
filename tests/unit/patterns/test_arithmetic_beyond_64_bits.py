"""Arithmetic of conditions on other rows: exact or an error, in every strategy, over tables and streams."""

from __future__ import annotations

import pytest
from sqlglot import parse_one

import bridge
from bridge.errors import BridgeError
from bridge.patterns.evaluate.python import scalar

PATTERNS = ("A B", "A B+", "A B+?", "A C* B")


def over_table(cep: bridge.Bridge, pattern: str, condition: str) -> list[tuple[object, ...]]:
    sql = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY o MEASURES COUNT(*) AS n PATTERN ({pattern}) DEFINE B AS {condition})"
    return [tuple(row) for row in cep.query(sql)]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("condition", ["x * A.x > 1000", "x + A.x + A.x + A.x > 1000", "x * LAST(x, 1) > 1000"])
def test_whole_numbers_never_wrap(pattern: str, condition: str):
    with bridge.connect() as cep:
        cep.database.execute("CREATE TABLE t (o INTEGER, x BIGINT)")
        cep.database.execute("INSERT INTO t VALUES (1, 4000000000000000000), (2, 4000000000000000001)")
        try:
            assert over_table(cep, pattern, condition) == [(2,)]
        except BridgeError as error:
            assert "Overflow" in str(error)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_difference_of_timestamps_is_not_a_number(pattern: str):
    with bridge.connect() as cep:
        cep.database.execute("CREATE TABLE t (o INTEGER, x TIMESTAMP)")
        cep.database.execute("INSERT INTO t VALUES (1, '2024-01-01'), (2, '2024-01-01 00:00:01')")
        with pytest.raises(BridgeError, match="INTERVAL"):
            over_table(cep, pattern, "x - A.x < 5000")
        assert over_table(cep, pattern, "x - A.x < INTERVAL '5 seconds'") == [(2,)]


@pytest.mark.parametrize("at_once", [False, True])
def test_a_stream_one_by_one_and_at_once(at_once: bool):
    with bridge.connect() as cep:
        cep.register_stream("s", "x BIGINT")
        clause = "MEASURES COUNT(*) AS n PATTERN (A B+) WITHIN 10 S DEFINE B AS x * A.x > 1000"
        cep.create_query("m", f"SELECT * FROM s MATCH_RECOGNIZE ({clause})")
        events = [([4_000_000_000 + place], 1000 + place) for place in range(1200)]
        with pytest.raises(BridgeError, match="Overflow"):
            if at_once:
                cep.push_events("s", events)
            else:
                for payload, ts in events[:3]:
                    cep.push_event("s", payload, ts)


@pytest.mark.parametrize(("left", "right"), [("a", 3), (True, 1), (2**62, 4)])
def test_values_that_only_the_database_computes(left: object, right: object):
    compute = scalar(parse_one("_v0 * _v1"), 2)
    assert compute is not None
    with pytest.raises((TypeError, OverflowError)):
        compute(left, right)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("rows", [1, 1200])
def test_infinite_times_are_never_within(pattern: str, rows: int):
    with bridge.connect() as cep:
        cep.database.execute("CREATE TABLE t (o TIMESTAMP)")
        cep.database.execute("INSERT INTO t VALUES ('-infinity'), ('2024-01-01'), ('infinity')")
        sql = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY o MEASURES COUNT(*) AS n PATTERN ({pattern}) WITHIN 5 S)"
        cep.database.execute(
            f"INSERT INTO t SELECT '2025-01-01'::TIMESTAMP + INTERVAL 1 HOUR * i FROM range({rows}) r(i)"
        )
        assert [tuple(row) for row in cep.query(sql)] == []
