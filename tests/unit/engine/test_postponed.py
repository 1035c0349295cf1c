"""Events of which only machines keep rows are stored later, together: whatever happens in between, the rows are the same."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from tests.support.some_events import push_some
from tests.support.traced import traced
from windows.databases import Refused

if TYPE_CHECKING:
    from tests.support.databases import Database

SCHEMA = "symbol VARCHAR, price DOUBLE"
MATCH = """SELECT * FROM {0} MATCH_RECOGNIZE (PARTITION BY symbol MEASURES A.price AS a, COUNT(*) AS n {2}
    PATTERN ({1}) WITHIN 20 MS DEFINE A AS price > 60, B AS price < 40)"""
QUERIES = {
    "a b": ("sql", MATCH.format("s", "A B", "")),
    "a not b": ("sql", MATCH.format("s", "A NOT B", "")),
    "numbered": ("sql", MATCH.format("s", "A Z*? B", ", MATCH_NUMBER() AS k")),
    "unmatched": ("sql", MATCH.format("s", "A B+", "ALL ROWS PER MATCH WITH UNMATCHED ROWS")),
    "of some": ("sql", MATCH.format("(SELECT symbol, price * 2 - 50 AS price FROM s WHERE price > 20)", "A B", "")),
    "falls": ("sql", MATCH.format("s", "A C+", "").replace("B AS price < 40", "C AS price < PREV(price)")),
    "falls by much": ("sql", MATCH.format("s", "A C+", "").replace("B AS price < 40", "C AS price < 2 * PREV(price, 2)")),
    "every": ("epl", "select a.price as p, b.price as q from pattern [every a=s(price > 60) -> b=s(symbol = a.symbol)]"),
    "both": ("epl", "select a.price as p, b.price as q from pattern [every (a=s(price > 60) -> b=t(price < a.price))]"),
    "late": ("epl", "select a.price as p from pattern [every a=s(price > 60) -> (timer:interval(7 msec) and not s(price < 20))]"),
    "eager": ("epl", """select * from s match_recognize (partition by symbol measures A.price as a, last(B.price) as b
        pattern (A B* C) define A as A.price > 60, B as B.price < A.price, C as C.price < 20)"""),
}  # fmt: skip
READER = "SELECT symbol, COUNT(*) AS n FROM {} GROUP BY symbol"


def reported(cep: bridge.Bridge, names: list[str]) -> dict[str, list[Any]]:
    """What each query reports, in order."""
    cep.register_stream("s", SCHEMA)
    cep.register_stream("t", SCHEMA)
    found: dict[str, list[Any]] = {}
    for number, name in enumerate(names):
        language, text = QUERIES[name]
        rows = found[name] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cep.create_query(f"q{number}", text, language=language)
        cep.add_output_processor(
            f"q{number}", lambda event, rows=rows: rows.append((event.timestamp, repr(event.payload)))
        )
    return found


def events_of(draw: random.Random, count: int) -> list[tuple[str, list[Any], int]]:
    found, ts = [], 0
    for _ in range(count):
        ts += draw.choice((0, 1, 1, 2, 3, 9))
        price = draw.choice((None, 10.0, 30.0, 70.0, 90.0, float(draw.randrange(100))))
        found.append((draw.choice("ssst"), [draw.choice(("A", "B", None)), price], ts))
    return found


def failing(cep: bridge.Bridge, draw: random.Random, push: Callable[[], object]) -> None:
    """A push in which something fails or is interrupted, so that it does not take effect."""
    runner, database = cep._runner, cep._runner.database
    places = [(database, "begin"), (database, "append"), (database, "fetch_bound"), (runner._postponed, "add")]
    place, name = draw.choice(places)
    error = draw.choice((Refused("no"), KeyboardInterrupt()))

    def fail(*arguments: Any) -> None:
        raise error

    before = cep._runner.seq
    vars(place)[name], usual = fail, vars(place).get(name)
    try:
        with pytest.raises((bridge.BridgeError, KeyboardInterrupt)):
            push()
            raise KeyboardInterrupt  # it has not come to this
    finally:
        if usual is None:
            del vars(place)[name]
        else:
            vars(place)[name] = usual
    if cep._runner.seq == before:
        push()


@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_of_one_push(database: Database, seed: int) -> None:
    draw = random.Random(seed)
    names = draw.sample(list(QUERIES), 3)
    events = events_of(draw, 150)
    with database.connect(durable=False) as cep:
        expected = reported(cep, names)
        cep.push_all(events)
        cep.advance_time(events[-1][2] + 100)
    with database.connect(durable=False) as cep:
        found, place, postponed = reported(cep, names), 0, False
        while place < len(events):
            step = draw.random()
            size = draw.randint(2, 9) if step < 0.05 or step > 0.8 else 1
            some = events[place : place + size]
            if step > 0.8:  # of one stream
                some = list(itertools.takewhile(lambda event, first=some[0]: event[0] == first[0], some))
            place += len(some)

            def push(some: list[Any] = some) -> None:
                push_some(cep, some)

            if 0.05 < step < 0.15:
                failing(cep, draw, push)
            else:
                push()
            postponed |= bool(cep._runner._postponed)
            if 0.15 < step < 0.2:
                cep.advance_time(some[-1][2])
            elif 0.2 < step < 0.25:
                cep.purge()
            elif 0.25 < step < 0.3:
                cep.query("SELECT * FROM s")
            elif 0.3 < step < 0.35:
                cep._runner._forget_steps()
            elif 0.35 < step < 0.4:
                cep.create_query("more", READER.format("s WINDOW(RANGE 5 MS)"))
                cep.remove_query("more")
        plan = cep._runner._one_event_plans.of(cep._catalogue.stream_entry("s"))
        cep.advance_time(events[-1][2] + 100)
    assert found == expected
    assert any(expected.values())
    assert postponed or plan is None or plan.can_fail


@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
@pytest.mark.parametrize("name", ["a b", "a not b", "every", "late", "eager", "falls", "falls by much"])
def test_events_that_no_query_reads_run_no_statement(url: str, name: str) -> None:
    """They only pass time, and the events between them are still stored later."""
    with bridge.connect(url) as cep:
        found = reported(cep, [name])
        events = [("st"[ts % 2], ["A", (70.0, 65.0, 30.0, 10.0)[ts // 2 % 4]], ts) for ts in range(60)]
        for stream, row, ts in events[:20]:
            cep.push_event(stream, row, ts)
        statements = traced(cep)
        for stream, row, ts in events[20:]:
            cep.push_event(stream, row, ts)
        assert [sql for sql in statements if "cep_inbox_t" in sql] == []
        assert (len(found[name]) > 2) == (name not in ("a not b", "late"))


def test_a_push_alone_runs_at_most_two_statements() -> None:
    for name in ("a b", "a not b", "every", "eager", "falls", "falls by much"):
        with bridge.connect("duckdb://") as cep:
            reported(cep, [name])
            for ts in range(10):
                cep.push_event("s", ["A", 50.0], ts)
            statements = traced(cep)
            cep.push_event("s", ["A", 50.0], 10)
            assert len(statements) <= 2


def test_rows_of_postponed_events_are_counted_and_read() -> None:
    with bridge.connect("duckdb://") as cep:
        reported(cep, ["a b"])
        for ts in range(5):
            cep.push_event("s", ["A", 70.0], ts)
        assert cep._runner._postponed
        assert cep.query("SELECT symbol, price FROM s") == [("A", 70.0)]
        assert not cep._runner._postponed
        assert cep.database.fetch("SELECT COUNT(*) FROM cep_rows_s") == [(5,)]


@pytest.mark.parametrize("name", ["a b", "a not b", "every", "unmatched", "falls"])
@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
def test_matches_are_read_without_the_database(url: str, name: str) -> None:
    found = []
    for is_computed in (True, False):
        with bridge.connect(url) as cep:
            rows = reported(cep, [name])
            statements: list[str] = []
            for symbol, price, ts in [("A", 70.0, 1), ("B", 90.0, 1), ("A", 25.0, 2), ("A", 70.0, 5), ("B", 25.0, 90)]:
                if not is_computed:
                    for plan in cep._runner._one_event_plans.known:
                        object.__setattr__(plan, "in_process", None)
                cep.push_event("s", [symbol, price], ts)
                if ts == 1:  # after the first events the plan is known
                    cep.add_tracer(lambda sql, seconds, rows, statements=statements: statements.append(sql))
            assert any("cep_matches" in sql for sql in statements) == (not is_computed)
            found.append(rows)
    assert found[0] == found[1]
    assert any(found[0].values())


def test_what_another_query_reads_of_matches_is_written() -> None:
    for url in ("duckdb://", "sqlite://"):
        with bridge.connect(url) as cep:
            found = reported(cep, ["a b"])
            cep.create_query("n", "SELECT COUNT(*) AS n FROM q0 WINDOW(RANGE 9 MS)")
            counts: list[Any] = []
            cep.add_output_processor("n", lambda event, counts=counts: counts.append(event.payload["n"]))
            for ts in range(8):
                cep.push_event("s", ["A", 10.0 if ts % 2 else 70.0], ts)
            assert counts == [1, 2, 3, 4]
            assert len(found["a b"]) == 4
            assert cep.query("SELECT a FROM q0 WINDOW(RANGE 9 MS)") == [(70.0,)] * 4


@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
def test_time_begins_with_the_first_event_that_waits(url: str) -> None:
    """A query that nobody listens to is processed when it is asked."""
    with bridge.connect(url) as cep:
        cep.create_query("q", "SELECT k, COUNT(*) AS n FROM s[k INTEGER] WINDOW(FIRST RANGE 3 MS) GROUP BY k")
        for ts in range(5, 12):
            cep.push_event("s", [ts % 2], ts)
        assert sorted(cep.query("SELECT k, n FROM q")) == [(0, 1), (1, 2)]
