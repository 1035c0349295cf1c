"""MATCH_RECOGNIZE over a stream: rule S4, live results are those on the bounded data, however the events are pushed."""

from __future__ import annotations

import dataclasses
import os
import random
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from bridge import query
from bridge.errors import Closed, DatabaseError, QueryError
from tests.support.refused_pushes import refused_push
from tests.support.row_pattern_generate import COLUMNS, Example, generate
from tests.support.row_patterns import NowhereError, recognize

if TYPE_CHECKING:
    from tests.support.databases import Database

V_SHAPE = """SELECT * FROM trades MATCH_RECOGNIZE (
    PARTITION BY symbol
    MEASURES FIRST(STRT.price) AS top, LAST(DOWN.price) AS bottom, LAST(UP.price) AS up, COUNT(*) AS n
    PATTERN (STRT DOWN+ UP+){within}
    DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))"""


class Watched:
    """A bridge with a stream of trades and what its queries told."""

    def __init__(self, cep: bridge.Bridge) -> None:
        self.cep = cep
        self.cep.register_stream("trades", "symbol VARCHAR, price DOUBLE")
        self.told: list[tuple[Any, ...]] = []

    def watch(self, name: str, text: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.cep.create_query(name, text)
        self.cep.add_output_processor(name, lambda e: self.told.append((e.timestamp, *e.payload.values())))

    def push(self, *prices: tuple[int, float], symbol: str = "A") -> list[tuple[Any, ...]]:
        for ts, price in prices:
            self.cep.push_event("trades", [symbol, price], ts)
        told, self.told = self.told, []
        return told

    def rest(self) -> list[tuple[Any, ...]]:
        told, self.told = self.told, []
        return told


@pytest.fixture
def live(database: Database) -> Iterator[Watched]:
    watched = Watched(database.connect())
    yield watched
    watched.cep.close()


def test_a_match_comes_out_when_no_later_row_can_change_it(live: Watched) -> None:
    live.watch("v", V_SHAPE.format(within=""))
    assert live.push((1, 10), (2, 8), (3, 6), (4, 7), (5, 9)) == []
    assert live.push((6, 5)) == [(6, "A", 10.0, 6.0, 9.0, 5)]


def test_what_is_open_comes_out_at_the_end(live: Watched) -> None:
    live.watch("v", V_SHAPE.format(within=""))
    assert live.push((1, 10), (2, 8), (3, 9)) == []
    live.cep.finish()
    assert live.rest() == [(3, "A", 10.0, 8.0, 9.0, 3)]
    with pytest.raises(Closed, match="no event is accepted"):
        live.push((4, 1))


def test_close_tells_the_rest_only_if_it_is_final() -> None:
    for final, count in ((False, 0), (True, 1)):
        live = Watched(bridge.connect("sqlite://"))
        live.watch("v", V_SHAPE.format(within=""))
        live.push((1, 10), (2, 8), (3, 9))
        live.cep.close(final=final)
        assert len(live.rest()) == count


def test_within_decides_at_its_very_time(live: Watched) -> None:
    live.watch("v", V_SHAPE.format(within=" WITHIN 10 MS"))
    assert live.push((1, 10), (2, 8), (3, 9)) == []
    live.cep.advance_time(10)
    assert live.rest() == []
    live.cep.advance_time(30)
    assert live.rest() == [(11, "A", 10.0, 8.0, 9.0, 3)]


def test_time_passes_with_the_events_of_other_partitions(live: Watched) -> None:
    live.watch("v", V_SHAPE.format(within=" WITHIN 10 MS"))
    assert live.push((1, 10), (2, 8), (3, 9)) == []
    assert live.push((40, 1), symbol="B") == [(11, "A", 10.0, 8.0, 9.0, 3)]


@pytest.mark.parametrize("at_once", [False, True])
def test_a_start_whose_time_is_over_waits_for_those_before_it(live: Watched, at_once: bool) -> None:
    """NEXT keeps the first start open beyond its time; the next one is told when it is reached, not at a time before."""
    live.watch(
        "n",
        """SELECT * FROM trades MATCH_RECOGNIZE (
            PARTITION BY symbol MEASURES FIRST(ts) AS first, COUNT(*) AS n AFTER MATCH SKIP TO NEXT ROW
            PATTERN (C{2,}) WITHIN 9 MS DEFINE C AS price <= NEXT(price))""",
    )
    events = [("A", 1, 85), ("A", 1, 86), ("A", 1, 90), ("B", 1, 95), ("A", 3, 112)]
    pushed = [("trades", [symbol, price], ts) for symbol, price, ts in events]
    for push in [pushed] if at_once else [[event] for event in pushed]:
        live.cep.push_all(push)
    assert live.rest() == [(112, "A", 85, 3), (112, "A", 86, 2)]


TIMED_OUT = """SELECT * FROM trades MATCH_RECOGNIZE (
    PARTITION BY symbol
    MEASURES MATCH_NUMBER() AS m, FIRST(price) AS a, LAST(price) AS b, CLASSIFIER() AS c
    ONE ROW PER MATCH WITH TIMED OUT MATCHES
    PATTERN (A B C) WITHIN 10 MS
    DEFINE B AS price > A.price, C AS price > 2 * A.price)"""


def test_partial_matches_come_out_when_their_time_is_over(live: Watched) -> None:
    live.watch("t", TIMED_OUT)
    assert live.push((1, 10), (2, 12)) == []
    assert live.push((3, 21)) == [(3, "A", 1, 10.0, 21.0, "C")]
    assert live.push((20, 10), (22, 11)) == []
    live.cep.advance_time(29)
    assert live.rest() == []
    live.cep.advance_time(50)
    assert live.rest() == [(30, "A", None, 10.0, 11.0, "B"), (32, "A", None, 11.0, 11.0, "A")]


def test_what_is_open_at_the_end_is_not_timed_out(live: Watched) -> None:
    live.watch("t", TIMED_OUT)
    live.push((1, 10), (2, 12))
    live.cep.finish()
    assert live.rest() == []


ABSENCE = """SELECT * FROM trades MATCH_RECOGNIZE (
    PARTITION BY symbol
    MEASURES MATCH_NUMBER() AS m, A.price AS a, COUNT(*) AS n
    PATTERN (A NOT B) WITHIN 10 MS
    DEFINE A AS price > 100, B AS price < A.price - 50)"""


def test_what_does_not_happen_in_time_is_a_match(live: Watched) -> None:
    live.watch("none", ABSENCE)
    assert live.push((1, 110), (2, 90), (5, 50)) == []  # 50 is the B of 110
    assert live.push((20, 120), (22, 115), (28, 90)) == []
    live.cep.advance_time(30)
    assert live.rest() == [(30, "A", 1, 120.0, 1)]
    assert live.push((31, 10)) == []  # the B of 115, in time
    live.cep.advance_time(90)
    assert live.rest() == []


def test_absence_needs_a_stream_and_within() -> None:
    from bridge.frontends.sql.statements import parse

    assert parse(str(parse(ABSENCE))) == parse(ABSENCE)
    with pytest.raises(QueryError, match="NOT needs WITHIN"):
        parse(ABSENCE.replace("WITHIN 10 MS", ""))
    with pytest.raises(QueryError, match="cannot be absent and in the pattern"):
        parse(ABSENCE.replace("NOT B", "B NOT B"))
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("trades", "symbol VARCHAR, price DOUBLE")
        with pytest.raises(QueryError, match="needs a stream, on which time passes"):
            cep.query(ABSENCE)


def test_a_window_over_matches(live: Watched) -> None:
    live.watch("v", V_SHAPE.format(within=""))
    live.watch("n", "SELECT COUNT(*) AS n, SUM(up - bottom) AS rise FROM v WINDOW(RANGE 100 MS)")
    live.push((1, 10), (2, 8), (3, 9))
    assert live.push((4, 8)) == [(4, "A", 10.0, 8.0, 9.0, 3), (4, 1, 1.0)]
    assert live.push((5, 7), (6, 9), (7, 1)) == [(7, "A", 8.0, 7.0, 9.0, 3), (7, 2, 3.0)]


def test_rows_before_the_query_are_not_seen(live: Watched) -> None:
    live.push((1, 10), (2, 8))
    live.watch("v", V_SHAPE.format(within=""))
    assert live.push((3, 9), (4, 8), (5, 9), (6, 1)) == [(6, "A", 9.0, 8.0, 9.0, 3)]


def test_a_filter_below_and_above(live: Watched) -> None:
    text = V_SHAPE.format(within="").replace("FROM trades", "FROM (SELECT * FROM trades WHERE price > 0)")
    live.watch("v", f"SELECT symbol, n FROM ({text}) WHERE up > 8")
    assert live.push((1, 10), (2, 8), (3, -5), (4, 9), (5, 7), (6, 8), (7, 1)) == [(5, "A", 3)]


def test_a_push_that_fails_leaves_the_matcher_where_it_was(live: Watched) -> None:
    live.watch("v", V_SHAPE.format(within=" WITHIN 1 S"))
    live.watch("fails", "SELECT CAST(symbol AS DOUBLE) + SQRT(price) AS x FROM trades WHERE price < -1")
    live.push((1, 10), (2, 8), (3, 6))
    if live.cep.database.dialect == "duckdb":
        for _ in range(2):
            with pytest.raises(DatabaseError):
                live.push((4, -7))
    else:
        refused_push(live.cep, lambda: live.push((4, 7)))
    assert live.push((4, 7), (5, 9), (6, 5)) == [(6, "A", 10.0, 6.0, 9.0, 5)]


def test_state_stays_small(live: Watched) -> None:
    live.watch("v", V_SHAPE.format(within=""))
    live.cep.push_events("trades", [(["A", float(7 * i % 11)], i) for i in range(3000)])
    live.cep.purge()
    (rows,) = live.cep.database.fetch("SELECT COUNT(*) FROM cep_rows_trades")
    (stands,) = live.cep.database.fetch("SELECT COUNT(*) FROM cep_progress_trades")
    assert rows[0] < 20
    assert stands == (1,)


@pytest.mark.parametrize("rises", ["price > A.price", "price > PREV(price)"])
def test_partitions_that_are_over_leave_nothing(live: Watched, rises: str) -> None:
    """Also where a condition reads the row before, which is in the match, too."""
    live.watch(
        "p",
        f"""SELECT * FROM trades MATCH_RECOGNIZE (PARTITION BY symbol MEASURES B.price AS b
        PATTERN (A B) WITHIN 5 MS DEFINE A AS price < 3, B AS {rises})""",
    )
    live.cep.push_events("trades", [([f"S{i // 3}", float(i % 3)], i) for i in range(3000)])
    assert [row[1:] for row in live.rest()] == [(f"S{key}", 1.0) for key in range(1000)]
    live.cep.advance_time(4000)
    live.cep.purge()
    for name in ("cep_rows_trades", "cep_progress_trades"):
        assert live.cep.database.fetch(f"SELECT COUNT(*) FROM {name}") == [(0,)]
    assert live.push((5000, 1.0), (5001, 2.0), symbol="S7") == [(5001, "S7", 2.0)]


@pytest.mark.parametrize("sizes", [[1] * 6, [6], [2, 1, 3]])
def test_nan_is_one_key(sizes: list[int]) -> None:
    """On SQLite and MariaDB there is no NaN."""
    found: list[int] = []
    with bridge.connect() as cep:
        cep.register_stream("s", "k DOUBLE, v INTEGER")
        clause = "PARTITION BY k MEASURES FIRST(v) AS f, LAST(v) AS l PATTERN (A B) DEFINE B AS v > A.v"
        cep.create_query("q", f"SELECT f, l FROM s MATCH_RECOGNIZE ({clause})")
        cep.add_output_processor("q", lambda event: found.append(event.payload["l"]))
        events = [([float("nan"), value], value) for value in range(6)]
        for size in sizes:
            cep._runner.resume(cep._runner.now, cep._runner.seq)
            cep.push_events("s", events[:size])
            events = events[size:]
    assert found == [1, 3, 5]


def test_events_out_of_order_are_matched_in_order() -> None:
    live = Watched(bridge.connect("sqlite://", lateness=5))
    live.watch("v", V_SHAPE.format(within=""))
    assert live.push((1, 10), (3, 6), (2, 8), (5, 9), (4, 7), (6, 5)) == []
    live.cep.finish()
    assert live.rest() == [(6, "A", 10.0, 6.0, 9.0, 5)]


def test_an_unbounded_end_is_warned_of() -> None:
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "a INTEGER")
        with pytest.warns(UserWarning, match="ends with a quantifier without bound") as warned:
            cep.create_query("q", "SELECT * FROM s MATCH_RECOGNIZE (MEASURES COUNT(*) AS n PATTERN (A B+))")
        assert [warning.filename for warning in warned] == [__file__]


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("ORDER BY a MEASURES COUNT(*) AS n PATTERN (A B)", "ORDER BY ts, or no ORDER BY"),
        ("ORDER BY ts DESC MEASURES COUNT(*) AS n PATTERN (A B)", "ORDER BY ts, or no ORDER BY"),
        ("MEASURES COUNT(*) AS n PATTERN (A B) DEFINE B AS nix > 1", "unknown column 'nix'"),
        ("MEASURES COUNT(*) AS ts PATTERN (A B)", "own name"),
        ("PARTITION BY a MEASURES COUNT(*) AS a PATTERN (A B)", "two columns are called"),
        ("PATTERN (A B)", "gives no column"),
        ("MEASURES COUNT(*) AS n PATTERN (A B) DEFINE B AS COUNT(DISTINCT a) > 1", "cannot stand in DEFINE"),
    ],
)
def test_what_a_stream_cannot_do_is_refused(clause: str, message: str) -> None:
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "a INTEGER")
        with pytest.raises(QueryError, match=message):
            cep.create_query("q", f"SELECT * FROM s MATCH_RECOGNIZE ({clause})")
        cep.create_query("q", "SELECT * FROM s")


def test_a_window_below_is_refused() -> None:
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "a INTEGER")
        with pytest.raises(QueryError, match="not a window of it"):
            cep.create_query(
                "q", "SELECT * FROM s WINDOW(ROWS 5) MATCH_RECOGNIZE (MEASURES COUNT(*) AS n PATTERN (A B))"
            )


def test_the_text_of_a_query_gives_the_query_back() -> None:
    from bridge.frontends.sql.statements import parse

    node = parse(V_SHAPE.format(within=" WITHIN 10 S"))
    assert isinstance(node, query.MatchRecognize)
    assert parse(str(node)) == node


def test_explain_shows_the_statement_and_the_program(live: Watched) -> None:
    live.watch("v", V_SHAPE.format(within=""))
    text = live.cep.explain("v")
    assert "MATCH_RECOGNIZE (PARTITION BY" in text
    assert "LAG(" in text
    assert "match DOWN" in text


def test_the_pattern_is_drawn(live: Watched) -> None:
    live.watch("v", V_SHAPE.format(within=""))
    live.watch("none", ABSENCE)
    assert str(live.cep.graph("v")).splitlines()[1] == "0: STRT -> 1"
    assert 'B -> 2, "NOT B" -> 1' in str(live.cep.graph("none"))


# Random clauses, live and bounded -------------------------------------------------------------------------------------

DRIVES = ("singly", "at once", "in batches", "restored")
"""How events are pushed; "restored": in batches, before each of which the machine forgets all that is not in its tables."""


def bounded(example: Example) -> list[dict[str, Any]]:
    """By the definition, the rows in the order of time."""
    from sqlglot import exp

    order = tuple(exp.Ordered(this=exp.column(name), nulls_first=True) for name in ("t", "u"))
    clause = dataclasses.replace(example.clause, order_by=order)
    found = recognize(clause, in_time(example), list(example.columns))
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def in_time(example: Example) -> list[dict[str, Any]]:
    rows = [dict(zip(example.columns, row, strict=True)) for row in example.rows]
    return sorted(rows, key=lambda row: (row["t"], row["u"]))


def told(example: Example, database: Database, drive: str) -> list[tuple[int, dict[str, Any]]]:
    """What the continuous query reports, in order."""
    found: list[tuple[int, dict[str, Any]]] = []
    chance = random.Random(drive)
    clause = dataclasses.replace(example.clause, order_by=())
    events = [({name: row[name] for name in COLUMNS}, row["t"]) for row in in_time(example)]
    with database.connect() as cep:
        cep.register_stream("s", ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()))
        cep.create_query("m", query.MatchRecognize(query.Stream("s"), clause))
        cep.add_output_processor("m", lambda e: found.append((e.timestamp, dict(e.payload))))
        while events:
            count = {"singly": 1, "at once": len(events)}.get(drive) or chance.randint(1, 4)
            if drive == "restored":
                cep._runner.resume(cep._runner.now, cep._runner.seq)
            cep.push_events("s", events[:count])
            events = events[count:]
        cep.finish()
    return found


def shape(row: dict[str, Any]) -> str:
    numbers = {k: float(v) if isinstance(v, (int, float)) and not isinstance(v, bool) else v for k, v in row.items()}
    return repr(sorted(numbers.items()))


def check(seed: int, database: Database) -> None:
    example = generate(seed)
    try:
        expected = bounded(example)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first, *others = (told(example, database, drive) for drive in DRIVES)
    except NowhereError:
        return  # SKIP leads nowhere: refused in either way, told by other tests
    except QueryError as error:
        assert "cannot stand in DEFINE over a stream" in str(error), example.text
        return
    assert sorted(shape(row) for _, row in first) == sorted(map(shape, expected)), (seed, example.text)
    for drive, other in zip(DRIVES[1:], others, strict=True):
        assert other == first, (seed, drive, example.text)


@pytest.mark.one_in(2)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("block", range(3))
def test_live_is_bounded(block: int, database: Database) -> None:
    first = int(os.environ.get("CEP_SEEDS", "0").split(":")[0])
    for seed in range(first + 10 * block, first + 10 * block + 10):
        check(seed, database)


@pytest.mark.long
@pytest.mark.parametrize("block", range(50))
def test_live_is_bounded_for_long(block: int, database: Database) -> None:
    for seed in range(10_000 + 100 * block, 10_000 + 100 * block + 100):
        check(seed, database)
