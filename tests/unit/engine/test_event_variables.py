"""Variables that events set, in memory: results and values are those of transactions."""

from __future__ import annotations

import contextlib
import functools
import itertools
import pathlib
import random
from collections.abc import Callable
from typing import Any

import pytest

import bridge
from bridge.rewrite.settings import Settings
from tests.support.crashes import Crash, crash_after, die
from tests.support.traced import reads_and_writes, traced
from windows.databases import Refused

SCHEMA = "k VARCHAR, a INTEGER, d DOUBLE"
VARIABLES = (
    "create variable int least = 2",
    "create variable double level = 1",
    "create variable string name = 'A'",
    "create variable boolean is_on = true",
    "create variable long n = 0",
)
SETTERS = {
    "from an event": "on u(a > 1) set least = a",
    "from itself": "on u set n = n + 1",
    "own stream": "on s(a > least) set least = least + 1",
    "several": "on u set least = least + 1, n = least, n = n + least",
    "a text": "on u set name = k, level = d",
    "literals": "on u(a = 0) set name = 'B', least = 1, level = 0.5, is_on = false",
    "truth": "on u set is_on = a > 0",
    "a filter": "on s(is_on) set n = n + a",
    "twice": "on s set least = least - 1",
    "by the database": "on u set n = (n * 3 + 1) % 7",
    "another type": "on u set level = a, least = n",
    "a timer": "on pattern [every timer:interval(7 msec)] set least = least + 1, n = n - 1",
    "a pattern": "on pattern [every x=s(a > 2) -> y=u(a > least)] set least = y.a, n = x.a",
    "large": "on u set n = n + n + 2000000000",
}
TRUTH = ("literals", "truth", "a filter")
READERS = {
    "filter": "select k, a from s(a > least)",
    "value": "select k, least, n, name from s",
    "where over a window": "select k, least from s#length(3) where a >= least and is_on",
    "two variables": "select k, a from s where a > least or d < level",
    "a text": "select a from s(k = name)",
    "filtered window": "select k, sum(a) as t, count(*) as c from s(a > least)#length(3) group by k",
    "filtered time": "select k, max(d) as m from s(d > level)#time(9 msec) group by k",
    "all rows": "select k, count(*) as c from s(a > least) group by k",
    "having": "select k, count(*) as c, n from s#length(4) group by k having count(*) > least",
    "having over all": "select k, count(*) as c, least from s group by k having count(*) > least",
    "beside aggregates": "select sum(a) as t, n, name from s#unique(k)",
    "over time": "select k, sum(a) + n as t from s#time(9 msec) group by k having sum(a) > least",
    "pattern": "select x.k as k, n from pattern [every x=s(a > least) -> y=u(a > least)]",
    "pattern of filters": "select x.k as k from pattern [every x=s(a > least) -> y=u(a > 1)]",
    "rows of filters": "select * from s(a >= least) match_recognize (measures A.k as k pattern (A B+) define B as B.a > A.a)",
    "next to each other": "select * from s match_recognize (measures A.k as k pattern (A B) define B as B.a > A.a)",
    "other stream": "select least, n from u",
    "jumping": "select count(*) as c from s(a > least)#length_batch(3)",
    "what is set": "select * from setter0",
}
Found = list[Any]


def declare(cep: bridge.Bridge, setters: list[str], readers: list[str], found: Found) -> None:
    for stream in "su":
        cep.register_stream(stream, SCHEMA)
    texts = {f"variable{place}": text for place, text in enumerate(VARIABLES)}
    texts["set all"] = "on s(k = 'none') set least = 9, n = 9, level = 9.5, name = 'N'"
    if cep.database.dialect == "duckdb":  # SQLite has no truth values
        texts["set all"] += ", is_on = false"
    texts |= {f"setter{place}": SETTERS[name] for place, name in enumerate(setters)}
    texts |= {f"reader{place}": READERS[name] for place, name in enumerate(readers)}
    for name, text in texts.items():
        try:
            cep.create_query(name, text, language="epl")
        except bridge.QueryError as error:  # time alone drives two statements that use one variable
            found.append(error.message)
            continue
        if name.startswith("reader") or name == "setter1":
            cep.add_output_processor(name, functools.partial(note, found, name))


def note(found: Found, name: str, event: bridge.Event) -> None:
    found.append((name, event.timestamp, event.payload))


def push(cep: bridge.Bridge, draw: random.Random, found: Found, steps: int, again: Callable[[], bridge.Bridge]) -> None:
    ts = 0
    for _ in range(steps):
        some = [event(draw, ts := ts + draw.choice((0, 1, 1, 4))) for _ in range(draw.choice((1, 1, 1, 1, 5)))]
        of_one = [(payload, at) for stream, payload, at in some if stream == some[0][0]]
        try:
            cep.push_events(some[0][0], of_one) if draw.random() < 0.1 else cep.push_all(some)
        except bridge.DatabaseError as error:  # a number is too large for a variable
            found.append(str(error))
        step = draw.random()
        if step < 0.03:
            cep.purge()
        elif step < 0.08:
            cep.advance_time(max(cep.now or 0, ts) + draw.choice((0, 12)))
        elif step < 0.13:
            found.append(list(cep.query("SELECT least, level, name, n FROM least, level, name, n")))
        elif step < 0.16:
            found.append(cep.database.fetch("SELECT least, n FROM least, n"))
        elif step < 0.18:
            cep.database.execute("UPDATE least SET least = least - 1")
        elif step < 0.22:
            try:
                found.append(sorted(map(repr, cep.query("SELECT * FROM reader0"))))
            except bridge.QueryError as error:
                found.append(str(error))
        elif step < 0.25:
            cep = again()
        ts = max(ts, cep.now or 0)
    found.append(list(cep.query("SELECT least, level, name, n FROM least, level, name, n")))
    cep.close()


def event(draw: random.Random, ts: int) -> tuple[str, list[Any], int]:
    number = draw.choice((0.5, 1.5, -2.0, None))
    return draw.choice("sssu"), [draw.choice(("A", "B", None)), draw.choice((0, 1, 2, 3, None)), number], ts


def in_process(cep: bridge.Bridge, most: int) -> bridge.Bridge:
    cep._runner.network.settings = Settings(in_process=most)
    return cep


def outcome(url: str, seed: int, most: int, file: pathlib.Path) -> Found:
    """All that a random program finds. With a file, the process ends now and then."""
    draw, found = random.Random(seed), Found()
    setters = draw.sample([name for name in SETTERS if name not in TRUTH or "duckdb" in url], draw.randint(1, 3))
    readers = draw.sample(list(READERS), draw.randint(1, 3))
    opened = list[bridge.Bridge]()

    def again() -> bridge.Bridge:
        if opened and "///" not in url:
            return opened[-1]
        if opened and draw.random() < 0.5:
            opened[-1].close()
        elif opened:
            die(opened[-1])
        opened.append(in_process(bridge.connect(url), most))
        declare(opened[-1], setters, readers, found)
        return opened[-1]

    file.unlink(missing_ok=True)
    push(again(), draw, found, 36, again)
    return [(setters, readers), *map(repr, found)]


@pytest.mark.one_in(6)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("kind", ["duckdb://", "sqlite://", "duckdb:///", "sqlite:///"])
@pytest.mark.parametrize("seed", range(5))
def test_results_and_values_are_those_of_transactions(kind: str, seed: int, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "state.db"
    url = f"{kind}{file}" if kind.endswith("///") else kind
    assert outcome(url, seed, 200, file) == outcome(url, seed, 0, file)


COMPUTED = [
    ("duckdb://", "truth", "filter"),
    ("duckdb://", "a filter", "filter"),
    ("duckdb://", "literals", "filter"),
    *itertools.product(
        ("duckdb://", "sqlite://"),
        ("from an event", "from itself", "own stream", "several", "a text", "twice", "another type"),
        ("filter",),
    ),
    *itertools.product(
        ("duckdb://", "sqlite://"),
        ("from itself",),
        (
            "value",
            "where over a window",
            "two variables",
            "a text",
            "filtered window",
            "all rows",
            "having",
            "having over all",
            "beside aggregates",
            "what is set",
        ),
    ),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("url", "setter", "reader"), COMPUTED)
def test_events_run_no_statement(url: str, setter: str, reader: str) -> None:
    with bridge.connect(url) as cep:
        declare(cep, [setter], [reader], [])
        for ts in range(1, 13):
            if ts == 10:
                statements = traced(cep)
            cep.push_event("su"[ts % 2], ["A", ts % 4, 0.5], ts)
        assert not reads_and_writes(statements)


@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
def test_events_that_no_such_query_reads_run_no_statement(url: str) -> None:
    """Beside a table that one query writes and another one reads."""
    with bridge.connect(url) as cep:
        for stream in "sv":
            cep.register_stream(stream, SCHEMA)
        cep.create_query("table", "create table T (k string primary key, n count(*))", language="epl")
        cep.create_query("fill", "into table T select k, count(*) as n from s group by k", language="epl")
        cep.create_query("read", "select s.k as k, T.n as n from s unidirectional, T where T.k = s.k", language="epl")
        cep.create_query("mean", "SELECT AVG(d) AS mean FROM v WINDOW(RANGE 5 S)")
        found = Found()
        cep.add_output_processor("mean", found.append)
        for ts in range(1, 13):
            cep.push_event("s", ["A", 1, 0.5], ts)
        for ts in range(13, 23):
            if ts == 20:
                statements = traced(cep)
            cep.push_event("v", ["A", ts % 4, 0.5], ts)
        assert len(found) == 10
        assert not reads_and_writes(statements)


def counting(url: str, found: Found) -> bridge.Bridge:
    """A bridge with a variable that counts the events of `u`, and reports it at those of `s`."""
    cep = bridge.connect(url)
    declare(cep, ["from itself"], ["value"], found)
    return cep


@pytest.mark.parametrize("url", ["duckdb:///", "sqlite:///"])
def test_a_push_whose_commit_fails_sets_nothing(
    url: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Found()
    with counting(f"{url}{tmp_path / 'state.db'}", found) as cep:
        for ts in range(1, 9):
            cep.push_event("u", ["A", 1, 0.5], ts)
        with monkeypatch.context() as patched:
            patched.setattr(cep._runner.database, "commit", refuse)
            with pytest.raises(bridge.DatabaseError, match="the disk is full"):
                cep.push_event("u", ["A", 1, 0.5], 9)
        assert list(cep.query("SELECT n FROM n")) == [(8,)]
        cep.push_event("u", ["A", 1, 0.5], 9)
        cep.push_event("s", ["A", 1, 0.5], 10)
    assert [payload["n"] for _, _, payload in found] == [9]


def refuse() -> None:
    raise Refused("the disk is full")


@pytest.mark.parametrize("url", ["duckdb:///", "sqlite:///"])
@pytest.mark.parametrize("calls", range(4))
def test_a_process_that_ends_within_a_push_has_set_all_or_nothing(url: str, calls: int, tmp_path: pathlib.Path) -> None:
    url, found = f"{url}{tmp_path / 'state.db'}", Found()
    cep = counting(url, found)
    for ts in range(1, 9):
        cep.push_event("u", ["A", 1, 0.5], ts)
    crash_after(cep, calls)
    with contextlib.suppress(Crash):
        cep.push_event("u", ["A", 1, 0.5], 9)
    die(cep)
    with counting(url, found) as cep:
        pushed = cep.now
        cep.push_event("s", ["A", 1, 0.5], 10)
    assert pushed in (8, 9)
    assert [payload["n"] for _, _, payload in found] == [pushed]
