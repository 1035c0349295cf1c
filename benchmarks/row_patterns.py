"""The workloads of MATCH_RECOGNIZE: the data, the query, and the expected rows, found without row patterns.

The data come from DuckDB's `hash`, so they are the same in every run of one DuckDB version. The expected rows come from a
regular expression over a text with one letter per row, from a loop over columns, or from a statement written by hand.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.crimes import CRIMES, CRIMES_CLAUSE, CRIMES_STATEMENT, past_last_row

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

ColumnValues = dict[str, list[Any]]


Expected = Callable[["duckdb.DuckDBPyConnection"], "pa.Table"]


@dataclasses.dataclass(frozen=True)
class Translation:
    """The query in another engine's language. `rows`: the largest number of rows that the engine gets.

    `expected`, `differs`: the rows that it gives, and how they differ, if they are not the standard's.
    """

    query: str
    rows: int | None = None
    expected: Expected | None = None
    differs: str | None = None


@dataclasses.dataclass(frozen=True)
class PatternWorkload:
    """A query over the table `t`."""

    name: str
    what: str
    rows: int
    quick: int
    data: str
    """A SELECT with `{rows}` for the number of rows."""
    clause: str
    """The text between the parentheses of MATCH_RECOGNIZE."""
    expected: Expected
    statement: str | None = None
    """The same query as a statement written by hand, which is measured, too."""
    pandas: Translation | None = None
    """For pandas-match-recognize: the clause."""
    flink: Translation | None = None
    """For Flink SQL: the SELECT."""
    esper: Translation | None = None
    """For Esper: the statement, whose first column is a time."""

    @property
    def query(self) -> str:
        return f"SELECT * FROM t MATCH_RECOGNIZE ({self.clause})"


def _random(what: str, salt: int) -> str:
    """A number from 0 to before 1 that depends on its input only. `hash(a, b)` would be too regular."""
    return f"((hash(8 * {what} + {salt}) >> 11) / 9007199254740992.0)"


# One column of letters ------------------------------------------------------------------------------------------------

LETTERS = f"""
    SELECT i AS id, chr((65 + floor(4 * {_random("i", 1)}))::INTEGER) AS cat,
           floor(1000 * {_random("i", 2)})::INTEGER AS v
    FROM range({{rows}}) AS t(i)"""


def _letters(name: str, pattern: str, measures: str) -> PatternWorkload:
    """A workload in which exactly one condition holds for each row, so `pattern` is a regular expression over letters."""
    define = ", ".join(f"{letter} AS cat = '{letter}'" for letter in "ABCD" if letter in pattern)
    clause = f"""ORDER BY id MEASURES {measures} ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
        PATTERN ({pattern}) DEFINE {define}"""
    return PatternWorkload(
        name=name,
        what=f"`{pattern.replace('|', chr(92) + '|')}`, conditions on one column",
        rows=2_000_000,
        quick=100_000,
        data=LETTERS,
        clause=clause,
        expected=functools.partial(_by_text, pattern.replace(" ", ""), measures),
        pandas=Translation(clause.replace("<>", "!=")),
    )


def _by_text(pattern: str, measures: str, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The expected rows. Measures are FIRST, LAST or COUNT of a variable's id, which is the position in the text."""
    functions_of = re.findall(r"(FIRST|LAST|COUNT)\((\w)\.id\) AS (\w+)", measures)
    text = "".join(letter for (letter,) in connection.execute("SELECT cat FROM t ORDER BY id").fetchall())
    functions = {"FIRST": _first, "LAST": _last, "COUNT": _count}
    found: ColumnValues = {name: [] for *_, name in functions_of}
    for match in re.finditer(pattern, text):
        for function, letter, name in functions_of:
            found[name].append(functions[function](text, letter, *match.span()))
    return _table(found)


def _first(text: str, letter: str, start: int, end: int) -> int | None:
    place = text.find(letter, start, end)
    return None if place < 0 else place


def _last(text: str, letter: str, start: int, end: int) -> int | None:
    place = text.rfind(letter, start, end)
    return None if place < 0 else place


def _count(text: str, letter: str, start: int, end: int) -> int:
    return text.count(letter, start, end)


def _rising(overlap: bool, greedy: bool, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The expected rows of `A+ B` where B is more than the last A: a run of A ends before the last row, or the first, that is B.

    With `overlap` B may have the letter A, too, and a row of the run can be B; without, only the row after the run.
    """
    letters, values = _columns(connection, "SELECT cat, v FROM t ORDER BY id")
    found: ColumnValues = {"first_a": [], "last_a": [], "b": []}
    start = 0
    while start < len(letters):
        end = start
        while end < len(letters) and letters[end] == "A":
            end += 1
        places = range(start + 1 if overlap else end, min(end + 1, len(letters)) if end > start else 0)
        after = [b for b in places if values[b] > values[b - 1]]
        if after:
            _append(found, start, (b := after[-1] if greedy else after[0]) - 1, b)
            start = b + 1
        else:
            start = max(end, start + 1)
    return _table(found)


def _register(name: str, what: str, overlap: bool) -> PatternWorkload:
    condition = "B.v > LAST(A.v)" if overlap else "B.cat <> 'A' AND B.v > LAST(A.v)"
    clause = f"""ORDER BY id MEASURES FIRST(A.id) AS first_a, LAST(A.id) AS last_a, LAST(B.id) AS b
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ B) DEFINE A AS cat = 'A', B AS {condition}"""
    return PatternWorkload(
        name=name,
        what=what,
        rows=200_000,
        quick=20_000,
        data=LETTERS,
        clause=clause,
        expected=functools.partial(_rising, overlap, True),
        pandas=Translation(
            clause.replace("<>", "!="),
            expected=functools.partial(_rising, overlap, False) if overlap else None,
            differs="answers `A+? B` for `A+ B`" if overlap else None,
        ),
    )


# Ticks of many symbols ------------------------------------------------------------------------------------------------

TICKS = f"""
    SELECT 'S' || (i % 100) AS symbol, (i // 100) * 100 + i % 100 AS ts,
           floor(1 + 10000 * {_random("i", 1)})::DOUBLE AS price
    FROM range({{rows}}) AS t(i)"""
"""One tick of each of 100 symbols every 100 ms, with prices uniform from 1 to 10,000."""


def _partitions(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, Sequence[int], Sequence[float]]]:
    rows = connection.execute(
        "SELECT symbol, list(ts ORDER BY ts), list(price ORDER BY ts) FROM t GROUP BY symbol"
    ).fetchall()
    yield from rows


def _v_shapes(first_up: bool, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The expected rows of the V shape. With `first_up` a match ends with the first row that is up."""
    found: ColumnValues = {"symbol": [], "top": [], "bottom": [], "up": []}
    for symbol, _, price in _partitions(connection):
        start, last = 0, len(price) - 1
        while start < last:
            bottom = start
            while bottom < last and price[bottom + 1] < price[bottom]:
                bottom += 1
            end = bottom
            while end < (min(last, bottom + 1) if first_up else last) and price[end + 1] > price[end]:
                end += 1
            if start < bottom < end:
                _append(found, symbol, price[start], price[bottom], price[end])
                start = end + 1
            else:
                start = bottom + 1
    return _table(found)


def _above_then_below(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The expected rows. No row is both B and C, so B+ is the whole run above A, and the row after the run decides."""
    found: ColumnValues = {"symbol": [], "a": [], "b": [], "c": []}
    for symbol, ts, price in _partitions(connection):
        start = 0
        while start < len(price):
            after, level, deadline = start + 1, price[start], ts[start] + 10_000
            while after < len(price) and price[after] > level and ts[after] < deadline:
                after += 1
            inside = start + 1 < after < len(price) and ts[after] < deadline
            if inside and price[after] < level * 0.9:
                _append(found, symbol, ts[start], ts[after - 1], ts[after])
                start = after + 1
            else:
                start += 1
    return _table(found)


def _above_then_below_at_once(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The rows of an engine that reports a match when it is complete, though matches that began before may be open.

    All rows after an open start are above it. So the open starts rise, and a row ends the latest ones first.
    """
    found: ColumnValues = {"symbol": [], "a": [], "b": [], "c": []}
    for symbol, ts, price in _partitions(connection):
        started: list[int] = []
        for row in range(len(price)):
            started = [start for start in started if ts[row] - ts[start] < 10_000]
            over = bisect.bisect_left(started, price[row], key=price.__getitem__)
            ended = started[over:]
            ends = next((a for a in ended if a + 1 < row and price[row] < price[a] * 0.9), None)
            if ends is not None:
                _append(found, symbol, ts[ends], ts[row - 1], ts[row])
            started = [] if ends is not None else [*started[:over], row]
    return _table(found)


V_SHAPE = """PARTITION BY symbol ORDER BY ts
        MEASURES FIRST(STRT.price) AS top, LAST(DOWN.price) AS bottom, LAST(UP.price) AS up
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (STRT DOWN+ UP+)
        DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)"""

ABOVE_THEN_BELOW = """PARTITION BY symbol ORDER BY ts MEASURES A.ts AS a, LAST(B.ts) AS b, C.ts AS c
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C){within}
        DEFINE B AS B.price > A.price, C AS C.price < A.price * 0.9{and_}"""

V_SHAPE_FLINK = """SELECT symbol, top, bottom, up FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY rt
        MEASURES STRT.price AS top, LAST(DOWN.price) AS bottom, UP.price AS up
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (STRT DOWN+ UP)
        DEFINE DOWN AS (LAST(DOWN.price, 1) IS NULL AND DOWN.price < STRT.price) OR DOWN.price < LAST(DOWN.price, 1),
               UP AS UP.price > LAST(DOWN.price))"""
"""Flink has no PREV, and no greedy variable at the end of a pattern."""

ABOVE_THEN_BELOW_FLINK = """SELECT symbol, a, b, c FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY rt
        MEASURES A.ts AS a, LAST(B.ts) AS b, C.ts AS c
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) WITHIN INTERVAL '10' SECOND
        DEFINE B AS B.price > A.price, C AS C.price < A.price * 0.9)"""

V_SHAPE_ESPER = """select * from t match_recognize (partition by symbol
        measures UP.ts as ts, STRT.symbol as symbol, STRT.price as top, last(DOWN.price) as bottom, UP.price as up
        pattern (STRT DOWN+ UP)
        define DOWN as DOWN.price < prev(DOWN.price, 1), UP as UP.price > prev(UP.price, 1))"""

ABOVE_THEN_BELOW_ESPER = """select * from t match_recognize (partition by symbol
        measures C.ts as ts, A.symbol as symbol, A.ts as a, last(B.ts) as b, C.ts as c pattern (A B+ C)
        define B as B.price > A.price and B.ts - A.ts < 10000, C as C.price < A.price * 0.9 and C.ts - A.ts < 10000)"""

DOWN_UP_UP = """PARTITION BY symbol ORDER BY ts MEASURES A.ts AS a, B.price AS b, C.price AS c
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B C)
        DEFINE A AS price < PREV(price), B AS price > PREV(price), C AS price > PREV(price)"""
"""No row is both A and B, or both A and C. So no two matches overlap, and a statement without SKIP is right."""

DOWN_UP_UP_STATEMENT = """
    SELECT symbol, ts AS a, b, c
    FROM (SELECT symbol, ts, price, lag(price) OVER w AS before, lead(price) OVER w AS b, lead(price, 2) OVER w AS c
          FROM t WINDOW w AS (PARTITION BY symbol ORDER BY ts))
    WHERE price < before AND b > price AND c > b"""


# All workloads --------------------------------------------------------------------------------------------------------


def _by_statement(statement: str, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    found: pa.Table = connection.sql(statement).to_arrow_table()
    return found


def _columns(connection: duckdb.DuckDBPyConnection, statement: str) -> list[list[Any]]:
    return [column.to_pylist() for column in connection.sql(statement).to_arrow_table().columns]


def _append(columns: ColumnValues, *row: Any) -> None:
    for column, value in zip(columns.values(), row, strict=True):
        column.append(value)


def _table(columns: ColumnValues) -> pa.Table:
    import pyarrow as pa

    return pa.table(columns)


IDS = "FIRST(A.id) AS first_a, LAST({last}.id) AS last_{last}, COUNT({count}.id) AS n"

WORKLOADS = (
    _letters("w1-runs", "A+ B+", IDS.format(last="B", count="A")),
    _letters("w1-between", "A (B|C)+ D", IDS.format(last="D", count="C")),
    _letters("w1-bounded", "A{1,5} B* C+", IDS.format(last="C", count="B")),
    _letters("w1-optional", "A+ B? C*", IDS.format(last="A", count="C")),
    _letters("w1-nested", "(A|B)+ (C{1,3} D*)+", IDS.format(last="C", count="D")),
    _register("w1-register", "`A+ B`, B more than the last A and no A", overlap=False),
    _register("w1-overlap", "`A+ B`, B more than the last A", overlap=True),
    PatternWorkload(
        name="w2-v-shape",
        what="`STRT DOWN+ UP+` of 100 symbols",
        rows=5_000_000,
        quick=200_000,
        data=TICKS,
        clause=V_SHAPE,
        expected=functools.partial(_v_shapes, False),
        pandas=Translation(V_SHAPE),
        flink=Translation(V_SHAPE_FLINK, 2_000_000, functools.partial(_v_shapes, True), "is asked `STRT DOWN+ UP`"),
        esper=Translation(V_SHAPE_ESPER, None, functools.partial(_v_shapes, True), "is asked `STRT DOWN+ UP`"),
    ),
    PatternWorkload(
        name="w3-within",
        what="`A B+ C` within 10 s, compared with A, of 100 symbols",
        rows=5_000_000,
        quick=200_000,
        data=TICKS,
        clause=ABOVE_THEN_BELOW.format(within=" WITHIN INTERVAL '10' SECOND", and_=""),
        expected=_above_then_below,
        pandas=Translation(ABOVE_THEN_BELOW.format(within="", and_=" AND C.ts - A.ts < 10000"), 50_000),
        flink=Translation(ABOVE_THEN_BELOW_FLINK, 200_000),
        esper=Translation(
            ABOVE_THEN_BELOW_ESPER, 1_000_000, _above_then_below_at_once, "reports what is complete first"
        ),
    ),
    PatternWorkload(
        name="w4-crimes",
        what="`R Z* B Z* M` within 30 minutes nearby, TO NEXT ROW",
        rows=7_200_000,
        quick=300_000,
        data=CRIMES,
        clause=CRIMES_CLAUSE.format(skip="TO NEXT ROW"),
        expected=functools.partial(_by_statement, CRIMES_STATEMENT),
        statement=CRIMES_STATEMENT,
    ),
    PatternWorkload(
        name="w4-crimes-past",
        what="the same, PAST LAST ROW",
        rows=7_200_000,
        quick=300_000,
        data=CRIMES,
        clause=CRIMES_CLAUSE.format(skip="PAST LAST ROW"),
        expected=past_last_row,
    ),
    PatternWorkload(
        name="w5-fixed",
        what="`A B C`, each compared with the row before, of 100 symbols",
        rows=10_000_000,
        quick=500_000,
        data=TICKS,
        clause=DOWN_UP_UP,
        expected=functools.partial(_by_statement, DOWN_UP_UP_STATEMENT),
        statement=DOWN_UP_UP_STATEMENT,
        pandas=Translation(DOWN_UP_UP, 2_000_000),
    ),
)
