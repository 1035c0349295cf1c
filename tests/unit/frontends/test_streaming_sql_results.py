"""Standard streaming SQL: the rows of texts that have no other spelling in this SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from bridge.errors import QueryError

if TYPE_CHECKING:
    from tests.support.databases import Database

Row = tuple[object, ...]


class Event(NamedTuple):
    """An event of `s` or `t`."""

    stream: str
    ts: int
    k: str | None
    v: int


def tumbled(stream: str) -> str:
    """The windows of 10 seconds of a stream."""
    return f"TUMBLE(TABLE {stream}, DESCRIPTOR(ts), INTERVAL '10' SECOND)"


def counted(stream: str) -> str:
    """The groups of these windows."""
    return f"(SELECT k, window_end, COUNT(*) AS n FROM {tumbled(stream)} GROUP BY window_end, k)"


OVER_ROWS = "(SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS 1 PRECEDING) AS r FROM s)"
NUMBERED = f"""(SELECT window_end, k, v, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC) AS r
                FROM {tumbled("s")})"""
SAME_WINDOW = "a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end"
EVENTS = [
    Event("s", 1000, "x", 1),
    Event("s", 1000, "x", 1),
    Event("t", 1000, "x", 1),
    Event("t", 3000, "x", 2),
    Event("s", 5000, "x", 3),
    Event("t", 12000, "y", 4),
    Event("s", 15000, "y", 5),
]
END = 60000

RESULTS: dict[str, list[Row]] = {
    # ts is a column for DISTINCT, UNION and INTERSECT
    "SELECT DISTINCT ts, k FROM s": [(1000, "x"), (5000, "x"), (15000, "y")],
    "SELECT DISTINCT * FROM (SELECT k, ts FROM s WHERE v > 1)": [(5000, "x"), (15000, "y")],
    "SELECT DISTINCT k FROM (SELECT k, ts FROM s)": [(1000, "x"), (15000, "y")],
    "SELECT DISTINCT ts, k, MAX(v) OVER (ORDER BY ts ROWS 1 PRECEDING) AS m FROM s": [
        (1000, "x", 1), (5000, "x", 3), (15000, "y", 5),
    ],
    "SELECT ts, k FROM s UNION SELECT ts, k FROM t": [
        (1000, "x"), (3000, "x"), (5000, "x"), (12000, "y"), (15000, "y"),
    ],
    "SELECT ts, k FROM s INTERSECT SELECT ts, k FROM t": [(1000, "x")],
    # in a join of windows the times are those of the rows
    f"SELECT a.v, a.ts AS one, b.v AS w, b.ts AS other FROM {tumbled('s')} a JOIN {tumbled('t')} b ON {SAME_WINDOW}": [
        (10000, 1, 1000, 1, 1000), (10000, 1, 1000, 1, 1000), (10000, 1, 1000, 2, 3000), (10000, 1, 1000, 2, 3000),
        (10000, 3, 5000, 1, 1000), (10000, 3, 5000, 2, 3000), (20000, 5, 15000, 4, 12000),
    ],
    f"SELECT a.v, b.v AS w FROM {tumbled('s')} a JOIN {tumbled('t')} b ON {SAME_WINDOW} AND a.ts < b.ts": [
        (10000, 1, 2), (10000, 1, 2),
    ],
    f"SELECT a.v, b.v AS w FROM {tumbled('s')} a JOIN {tumbled('t')} b ON {SAME_WINDOW} WHERE b.ts - a.ts < 0": [
        (10000, 3, 1), (10000, 3, 2), (20000, 5, 4),
    ],
    f"SELECT a.v, a.ts AS one, b.v AS w FROM {tumbled('s')} a FULL JOIN {tumbled('t')} b ON {SAME_WINDOW} AND a.ts < b.ts": [
        (10000, 1, 1000, 2), (10000, 1, 1000, 2), (10000, 3, 5000, None), (10000, None, None, 1),
        (20000, 5, 15000, None), (20000, None, None, 4),
    ],
    f"SELECT b.v, COUNT(*) AS c FROM {tumbled('s')} a JOIN {tumbled('t')} b ON {SAME_WINDOW} GROUP BY b.v, a.ts": [
        (10000, 1, 1), (10000, 1, 2), (10000, 2, 1), (10000, 2, 2), (10000, 1, 1), (10000, 2, 1), (20000, 4, 1),
    ],
    # a condition of a join with versions is asked of the newest version of a key: no older one steps in
    "SELECT s.v, t.v AS w FROM s LEFT JOIN t FOR SYSTEM_TIME AS OF s.ts ON s.k = t.k AND t.v = 1": [
        (1000, 1, None), (1000, 1, None), (5000, 3, None), (15000, 5, None),
    ],
    # in an outer join, too, a group of a window function finds partners as long as the times of the join say
    f"""SELECT a.n, t.v FROM (SELECT window_end, COUNT(*) AS n FROM {tumbled('s')} GROUP BY window_end) a
        LEFT JOIN t ON t.ts BETWEEN a.ts - INTERVAL '9' SECOND AND a.ts + INTERVAL '20' SECOND""": [
        (10000, 3, 1), (10000, 3, 2), (12000, 3, 4), (20000, 1, 4),
    ],
    # FILTER reads the keys that a set leaves out
    f"SELECT k, COUNT(*) FILTER (WHERE k = 'x') AS n FROM {tumbled('s')} GROUP BY window_end, ROLLUP (k)": [
        (10000, "x", 3), (10000, None, 3), (20000, "y", 0), (20000, None, 0),
    ],
    # groups and rows with values OVER others stay what they are when the next one comes
    f"SELECT k, SUM(n) AS n FROM {counted('t')} GROUP BY k": [(10000, "x", 2), (20000, "y", 1)],
    f"SELECT COUNT(*) AS groups FROM {counted('t')} WHERE n > 0": [(10000, 1), (20000, 2)],
    f"SELECT COUNT(*) AS c, SUM(r) AS r FROM {OVER_ROWS}": [(1000, 1, 1), (1000, 2, 3), (5000, 3, 7), (15000, 4, 12)],
    f"SELECT a.r, t.v FROM {OVER_ROWS} a JOIN t ON t.ts BETWEEN a.ts AND a.ts + INTERVAL '9' SECOND": [
        (1000, 1, 1), (1000, 2, 1), (3000, 1, 2), (3000, 2, 2), (12000, 4, 4),
    ],
    # the bounds of windows are known through numbers and values OVER others
    f"SELECT window_end, COUNT(*) AS c, MIN(v) AS v FROM {NUMBERED} WHERE r <= 2 GROUP BY window_end": [
        (10000, 10000, 2, 1), (20000, 20000, 1, 5),
    ],
    f"""SELECT window_end, SUM(r) AS r FROM (SELECT window_end, SUM(n) OVER (ORDER BY ts ROWS 1 PRECEDING) AS r
        FROM (SELECT v, window_end, COUNT(*) AS n FROM {tumbled('s')} GROUP BY window_end, v)) GROUP BY window_end""": [
        (10000, 10000, 5), (20000, 20000, 2),
    ],
    # groups of one window come together: a row with its partner is there once
    f"SELECT a.n FROM {counted('s')} a WHERE EXISTS (SELECT 1 FROM {counted('t')} b WHERE b.k = a.k AND b.ts = a.ts)": [
        (10000, 3), (20000, 1),
    ],
    # several partners of EXISTS come with one event, or with the end of a window
    """SELECT v FROM s WHERE EXISTS (SELECT 1 FROM (SELECT k FROM t UNION ALL SELECT k FROM t) b
       WHERE b.k = s.k AND b.ts > s.ts AND b.ts < s.ts + INTERVAL '9' SECOND)""": [(3000, 1), (3000, 1)],
    f"""SELECT v FROM s WHERE k IN (SELECT k FROM (SELECT k, v FROM {tumbled('t')} GROUP BY window_end, k, v) b
        WHERE b.ts BETWEEN s.ts - INTERVAL '9' SECOND AND s.ts + INTERVAL '9' SECOND)""": [
        (10000, 1), (10000, 1), (10000, 3), (20000, 5),
    ],
    """SELECT v FROM s WINDOW(UNBOUNDED)
       WHERE k IN (SELECT k FROM (SELECT k FROM t UNION ALL SELECT k FROM t) WINDOW(UNBOUNDED))""": [
        (1000, 1), (1000, 1), (5000, 3), (15000, 5),
    ],
    # the pairs of a join of windows come where these end, so they are grouped whole
    f"""SELECT window_end, k, COUNT(*) AS n FROM (SELECT a.window_start, a.window_end, a.k FROM {tumbled("s")} a
        JOIN {tumbled("t")} b ON {SAME_WINDOW}) GROUP BY window_start, window_end, k""": [
        (10000, 10000, "x", 6), (20000, 20000, "y", 1),
    ],
    f"""SELECT e, COUNT(*) AS n, COUNT(w) AS m FROM (SELECT a.window_end AS e, b.v AS w FROM {tumbled("s")} a
        LEFT JOIN {tumbled("t")} b ON a.v = b.v AND {SAME_WINDOW}) GROUP BY e HAVING COUNT(*) > 1""": [
        (10000, 10000, 3, 2),
    ],
    f"""SELECT e, COUNT(*) AS n FROM (SELECT b.window_end AS e, b.v AS w FROM {tumbled("s")} a
        FULL JOIN {tumbled("t")} b ON a.v = b.v AND {SAME_WINDOW} WHERE b.v > 0) GROUP BY e""": [
        (10000, 10000, 3), (20000, 20000, 1),
    ],
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("together", [False, True], ids=["singly", "together"])
@pytest.mark.parametrize("text", RESULTS, ids=range(len(RESULTS)))
def test_results(text: str, together: bool, embedded: Database) -> None:
    found: list[Row] = []
    with embedded.connect() as cep:
        for name in ("s", "t"):
            cep.register_stream(name, "k VARCHAR, v INTEGER")
        cep.create_query("q", text)
        cep.add_output_processor("q", lambda event: found.append((event.timestamp, *event.payload.values())))
        events = [(event.stream, [event.k, event.v], event.ts) for event in EVENTS]
        for part in [events] if together else [[event] for event in events]:
            cep.push_all(part)
        cep.advance_time(END)
    assert sorted(found, key=str) == sorted(RESULTS[text], key=str)
    assert [row[0] for row in found] == [row[0] for row in RESULTS[text]]


def test_groups_directly_over_a_join_of_windows_are_refused(embedded: Database) -> None:
    text = f"SELECT COUNT(*) AS n FROM {tumbled('s')} a JOIN {tumbled('t')} b ON {SAME_WINDOW} GROUP BY a.window_end"
    with embedded.connect() as cep:
        for name in ("s", "t"):
            cep.register_stream(name, "k VARCHAR, v INTEGER")
        with pytest.raises(QueryError, match="put the join into FROM") as caught:
            cep.create_query("q", text)
        assert text[caught.value.position or 0 :].startswith("a.window_end")


COLLISIONS = {
    "rows_before": "SELECT k FROM s QUALIFY ROW_NUMBER() OVER (PARTITION BY rows_before ORDER BY v DESC) <= 1",
    "ROWS_BEFORE": "SELECT k FROM s QUALIFY ROW_NUMBER() OVER (PARTITION BY ROWS_BEFORE ORDER BY v DESC) <= 1",
    "over_1": "SELECT over_1, SUM(v) OVER (ORDER BY ts) AS total FROM s",
    "Has_Partner": "SELECT k FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.k = s.k AND t.ts = s.ts)",
}
"""Columns called as rows that a query looks up, and the query."""


@pytest.mark.parametrize("name", COLLISIONS)
def test_columns_with_names_that_are_taken_are_refused(name: str, embedded: Database) -> None:
    with embedded.connect() as cep:
        cep.register_stream("s", f"k VARCHAR, v INTEGER, {name} INTEGER")
        cep.register_stream("t", "k VARCHAR")
        with pytest.raises(QueryError, match=f"'{name}' is the name of a column and of the rows that are looked up"):
            cep.create_query("q", COLLISIONS[name])
