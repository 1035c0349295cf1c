"""The queries of `python -m benchmarks limits`, and the statements that give the same rows over tables of the events."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

EVENTS = {
    "ticks": "SELECT i::BIGINT AS ts, 'S' || (hash(8 * i + 1) % 100) AS symbol, "
    "(1 + hash(8 * i + 2) % 10000)::DOUBLE AS price, (hash(8 * i + 3) % 1000)::BIGINT AS size FROM range({events}) t(i)",
    "orders": "SELECT (20 * i)::BIGINT AS ts, 'S' || (hash(8 * i + 4) % 100) AS symbol, "
    "(1 + hash(8 * i + 5) % 10000)::DOUBLE AS price FROM range({events} // 20) t(i)",
}
"""The events of each stream, in DuckDB's SQL: a tick per millisecond, and an order for every twentieth."""

SCHEMAS = {
    "ticks": "ts BIGINT, symbol VARCHAR(10), price DOUBLE PRECISION, size BIGINT",
    "orders": "ts BIGINT, symbol VARCHAR(10), price DOUBLE PRECISION",
}
"""The columns of a table of the events."""


@dataclasses.dataclass(frozen=True)
class LimitQuery:
    """A query, and the best statement by hand that gives its rows, in the order of time, from tables of the events.

    `others`: the statement on databases where another one is faster, by sqlglot's name of their SQL. `index`: what is created
    before the statement on databases that have use for an index. `on_demand`: `cep.query` takes the text, too.
    """

    name: str
    text: str
    by_hand: str
    others: Mapping[str, str] = dataclasses.field(default_factory=dict)
    index: str | None = None
    on_demand: bool = False

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads."""
        return tuple(name for name in EVENTS if f"FROM {name}" in self.text or f", {name}" in self.text)

    def statement(self, dialect: str) -> str:
        """The statement by hand in this SQL. Only DuckDB divides whole numbers by `//`; the others do so by `/`."""
        text = self.others.get(dialect, self.by_hand)
        return text if dialect == "duckdb" else text.replace("//", "/")


QUERIES = (
    LimitQuery(
        "filter, 1 % pass",
        "SELECT symbol, price FROM ticks WHERE price > 9900",
        "SELECT ts, symbol, price FROM ticks WHERE price > 9900",
    ),
    LimitQuery(
        "projection",
        "SELECT symbol, price * size AS paid, price / 2 + size AS score FROM ticks",
        "SELECT ts, symbol, price * size AS paid, price / 2 + size AS score FROM ticks",
    ),
    LimitQuery(
        "COUNT(*), RANGE 500 MS",
        "SELECT COUNT(*) AS n FROM ticks WINDOW(RANGE 500 MS)",
        "SELECT ts, COUNT(*) OVER (ORDER BY ts RANGE BETWEEN 499 PRECEDING AND CURRENT ROW) AS n FROM ticks ORDER BY ts",
    ),
    LimitQuery(
        "AVG by symbol, RANGE 10 S",
        "SELECT symbol, AVG(price) AS m FROM ticks WINDOW(RANGE 10 S) GROUP BY symbol",
        "SELECT ts, symbol, AVG(price) OVER (PARTITION BY symbol ORDER BY ts RANGE BETWEEN 9999 PRECEDING AND CURRENT ROW) "
        "AS m FROM ticks ORDER BY ts",
    ),
    LimitQuery(
        "MAX by symbol, RANGE 10 S",
        "SELECT symbol, MAX(price) AS high FROM ticks WINDOW(RANGE 10 S) GROUP BY symbol",
        "SELECT ts, symbol, MAX(price) OVER (PARTITION BY symbol ORDER BY ts RANGE BETWEEN 9999 PRECEDING AND CURRENT ROW) "
        "AS high FROM ticks ORDER BY ts",
    ),
    LimitQuery(
        "SUM by symbol, ROWS 100",
        "SELECT symbol, SUM(size) AS s FROM ticks WINDOW(PARTITION BY symbol ROWS 100) GROUP BY symbol",
        "SELECT ts, symbol, CAST(SUM(size) OVER (PARTITION BY symbol ORDER BY ts ROWS BETWEEN 99 PRECEDING AND CURRENT ROW) "
        "AS BIGINT) AS s FROM ticks ORDER BY ts",
    ),
    LimitQuery(
        "SUM by symbol, RANGE 1 MIN SLIDE 1 MIN",
        "SELECT symbol, SUM(size) AS s FROM ticks WINDOW(RANGE 1 MIN SLIDE 1 MIN) GROUP BY symbol",
        "SELECT (ts // 60000 + 1) * 60000 AS ts, symbol, CAST(SUM(size) AS BIGINT) AS s FROM ticks "
        "WHERE ts < (SELECT MAX(ts) // 60000 * 60000 FROM ticks) GROUP BY 1, 2 ORDER BY 1",
    ),
    LimitQuery(
        "COUNT(DISTINCT), RANGE 10 S SLIDE 10 S",
        "SELECT COUNT(DISTINCT size) AS n FROM ticks WINDOW(RANGE 10 S SLIDE 10 S)",
        "SELECT (ts // 10000 + 1) * 10000 AS ts, COUNT(DISTINCT size) AS n FROM ticks "
        "WHERE ts < (SELECT MAX(ts) // 10000 * 10000 FROM ticks) GROUP BY 1 ORDER BY 1",
    ),
    LimitQuery(
        "LAST by symbol, RANGE 10 S SLIDE 10 S",
        "SELECT symbol, LAST(price) AS closing FROM ticks WINDOW(RANGE 10 S SLIDE 10 S) GROUP BY symbol",
        "SELECT (ts // 10000 + 1) * 10000 AS ts, symbol, arg_max(price, ts) AS closing FROM ticks "
        "WHERE ts < (SELECT MAX(ts) // 10000 * 10000 FROM ticks) GROUP BY 1, 2 ORDER BY 1",
        {
            "sqlite": "SELECT jump AS ts, symbol, price AS closing FROM (SELECT (ts / 10000 + 1) * 10000 AS jump, symbol, price, "
            "MAX(ts) FROM ticks WHERE ts < (SELECT MAX(ts) / 10000 * 10000 FROM ticks) GROUP BY 1, 2) ORDER BY 1",
            "postgres": "SELECT DISTINCT ON ((ts / 10000 + 1) * 10000, symbol) (ts / 10000 + 1) * 10000 AS ts, symbol, price "
            "FROM ticks WHERE ts < (SELECT MAX(ts) / 10000 * 10000 FROM ticks) "
            "ORDER BY (ts / 10000 + 1) * 10000, symbol, ticks.ts DESC",
        },
    ),
    LimitQuery(
        "correlation by symbol, RANGE 1 S",
        "SELECT o.symbol, o.price AS asked, t.price AS paid FROM orders WINDOW(RANGE 1 S) o, ticks WINDOW(RANGE 1 S) t "
        "WHERE o.symbol = t.symbol AND ABS(o.price - t.price) < 500",
        "SELECT greatest(o.ts, t.ts) AS ts, o.symbol, o.price AS asked, t.price AS paid "
        "FROM (SELECT *, unnest([ts // 1000 - 1, ts // 1000, ts // 1000 + 1]) AS second FROM orders) o "
        "JOIN ticks t ON o.symbol = t.symbol AND o.second = t.ts // 1000 AND t.ts BETWEEN o.ts - 999 AND o.ts + 999 "
        "WHERE ABS(o.price - t.price) < 500 ORDER BY 1",
        {
            "sqlite": "SELECT MAX(o.ts, t.ts) AS ts, o.symbol, o.price AS asked, t.price AS paid FROM orders o "
            "CROSS JOIN ticks t ON o.symbol = t.symbol AND t.ts BETWEEN o.ts - 999 AND o.ts + 999 "
            "WHERE ABS(o.price - t.price) < 500 ORDER BY 1",
            "postgres": "SELECT greatest(o.ts, t.ts) AS ts, o.symbol, o.price AS asked, t.price AS paid "
            "FROM (SELECT *, unnest(ARRAY[ts / 1000 - 1, ts / 1000, ts / 1000 + 1]) AS second FROM orders) o "
            "JOIN ticks t ON o.symbol = t.symbol AND o.second = t.ts / 1000 AND t.ts BETWEEN o.ts - 999 AND o.ts + 999 "
            "WHERE ABS(o.price - t.price) < 500 ORDER BY 1",
        },
        index="CREATE INDEX by_symbol ON ticks (symbol, ts, price)",
    ),
    LimitQuery(
        "A B within 10 s by symbol",
        "SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES A.price AS low, B.price AS high "
        "ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) WITHIN INTERVAL '10' SECOND "
        "DEFINE A AS price < 100, B AS price > 9900)",
        "SELECT until AS ts, symbol, price AS low, after AS high FROM (SELECT ts, symbol, price, "
        "LEAD(price) OVER w AS after, LEAD(ts) OVER w AS until FROM ticks WINDOW w AS (PARTITION BY symbol ORDER BY ts)) q "
        "WHERE price < 100 AND after > 9900 AND until - ts <= 10000 ORDER BY 1",
        on_demand=True,
    ),
    LimitQuery(
        "V shape by symbol",
        "SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts "
        "MEASURES A.price AS top, LAST(D.price) AS bottom, LAST(U.price) AS back "
        "ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A D+ U+) "
        "DEFINE D AS price < PREV(price), U AS price > PREV(price))",
        """\
WITH steps AS (  -- the direction of each row: -1 down, 0 level, 1 up, and NULL for the first
    SELECT ts, symbol, price, ROW_NUMBER() OVER w AS place, LEAD(ts) OVER w AS next_ts, LEAD(price) OVER w AS next_price,
           sign(price - LAG(price) OVER w) AS way, sign(LEAD(price) OVER w - price) AS next_way
    FROM ticks WINDOW w AS (PARTITION BY symbol ORDER BY ts)
), runs AS (  -- the last row of each run of one direction, and the runs beside it
    SELECT ts, symbol, price, way, place - LAG(place) OVER w AS length, LAG(price) OVER w AS before,
           LAG(next_price) OVER w AS first, LAG(way) OVER w AS way_before, LAG(way, 2) OVER w AS way_before_that,
           LEAD(way) OVER w AS way_after, LEAD(price) OVER w AS back, LEAD(next_ts) OVER w AS decided
    FROM steps WHERE way IS NULL OR next_way IS NULL OR way <> next_way WINDOW w AS (PARTITION BY symbol ORDER BY ts)
), valleys AS (  -- a run down and a run up; `linked`: the run up of another valley is right before it
    SELECT *, way_before = 1 AND way_before_that = -1 AS linked,
           SUM(CASE WHEN way_before = 1 AND way_before_that = -1 AND length = 1 THEN 0 ELSE 1 END) OVER w AS chain
    FROM runs WHERE way = -1 AND way_after = 1 WINDOW w AS (PARTITION BY symbol ORDER BY ts)
), places AS (  -- of linked valleys with one row down, every second one lacks the row that the match before it took
    SELECT *, ROW_NUMBER() OVER (PARTITION BY symbol, chain ORDER BY ts) % 2 AS found FROM valleys
), found_before AS (
    SELECT *, LAG(found) OVER (PARTITION BY symbol ORDER BY ts) AS taken FROM places
)
SELECT COALESCE(decided, (SELECT MAX(ts) FROM ticks)) AS ts, symbol,
       CASE WHEN linked AND taken = 1 THEN first ELSE before END AS top, price AS bottom, back
FROM found_before WHERE found = 1 ORDER BY 1""",
        on_demand=True,
    ),
)
"""The first twelve that people write: without state, over sliding and jumping windows, a correlation, and row patterns."""
