"""Windows in memory: what is aggregated in this process is what the database aggregates, however the events come."""

from __future__ import annotations

import importlib
import pathlib
import random
import re
from typing import TYPE_CHECKING, Any

import pyarrow
import pytest

import bridge
from bridge.engine.single_events import boundaries, one_event_planning, one_event_plans
from bridge.engine.single_events.memory import running_totals, totals_table, window_aggregates, window_rows
from bridge.engine.single_events.memory.window_aggregates import WindowAggregate
from bridge.rewrite.settings import Settings
from tests.support.some_events import push_some
from tests.support.traced import reads_and_writes, traced
from windows.databases import Refused
from windows.databases.python_aggregates import deviation_in_one_pass, median

if TYPE_CHECKING:
    from tests.support.databases import Database

embedded = pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
SCHEMA = "k VARCHAR, i INTEGER, b BIGINT, d DOUBLE, f BOOLEAN"
ITEMS = [
    "COUNT(*) AS n", "COUNT(DISTINCT i) AS ni", "COUNT(DISTINCT k) AS nk",
    "COUNT(d) AS m", "SUM(i) AS si", "SUM(b) AS sb", "SUM(d) AS sd", "AVG(i) AS ai", "AVG(d) AS ad",
    "AVG(b) AS ab", "MIN(i) AS li", "MAX(b) AS hb", "MIN(d) AS ld", "MAX(d) AS hd", "STDDEV(i) AS s", "STDDEV(b) AS t",
    "STDDEV(d) AS u", "MEDIAN(i) AS mi", "MEDIAN(d) AS md", "MIN(k) AS lk",
    "FIRST(i) AS fi", "LAST(d) AS nd", "LAST(k) AS nk2", "FIRST(f) AS ff", "LAST(b) AS nb",
]  # fmt: skip
KEYS = ["", "k", "f", "i", "k, f", "d"]
CONDITIONS = ["", "i > 0", "k = 'A' OR d IS NULL", "f", "b + 1 > 0"]
HAVINGS = ["", "COUNT(*) > 2", "MIN(i) < 3 AND COUNT(d) > 0", "SUM(d) > 1.55", "AVG(d) >= 1.049"]
WINDOWS = [
    "RANGE 4 MS",
    "RANGE 9 MS",
    "RANGE 9 MS",
    "UNBOUNDED",
    "ROWS 1",
    "ROWS 2",
    "ROWS 3",
    "PARTITION BY k ROWS 2",
    "PARTITION BY f ROWS 2",
    "PARTITION BY k, i ROWS 1",
    "RANGE 5 MS SLIDE 5 MS",
    "RANGE 9 MS SLIDE 4 MS",
    "RANGE 60 MS SLIDE 60 MS",
    "RANGE 20 MS SLIDE 20 MS OFFSET 3 MS",
    "ROWS 7 SLIDE 7",
    "ROWS 5 SLIDE 3 FULL",
    "SESSION 3 MS",
    "PARTITION BY k SESSION 4 MS",
    "PARTITION BY f, k SESSION 6 MS",
]
VALUES: list[list[Any]] = [
    ["A", "B", "", None],
    [0, 1, -1, 7, 2**31 - 1, None],
    [0, 1, 5, 2**62, 2**53 + 1, -(2**63) + 1, None],
    [0.0, -0.0, 0.1, 0.2, 0.3, 1e300, 1e-300, 7.5, None],
    [True, False, None],
]


def text_of(draw: random.Random) -> str:
    """A random aggregate, often one that Python computes as the database does."""
    key, where, having = draw.choice(KEYS), draw.choice(["", "", *CONDITIONS]), draw.choice(["", "", *HAVINGS])
    items = draw.sample(ITEMS[: -draw.choice((0, 1, 1, 1, 6)) or None], draw.randint(1, 3))
    window = draw.choice(WINDOWS)
    source = f"(SELECT * FROM s WHERE {where})" if where else "s"
    select = ", ".join([*([key] if key else []), *items])
    grouping = f" GROUP BY {key}" if key else ""
    return f"SELECT {select} FROM {source} WINDOW({window}){grouping}" + (f" HAVING {having}" if having else "")


def events_of(draw: random.Random, count: int, database: Database) -> list[tuple[str, list[Any], int]]:
    found, ts = [], 0
    others = [float("inf")] if database.name != "mariadb" else []
    nan = [float("nan")] if database.name == "duckdb" and draw.random() < 0.3 else []
    for _ in range(count):
        ts += draw.choice((0, 0, 1, 1, 2, 5))
        row = [draw.choice(values) for values in VALUES]
        if draw.random() < 0.03:
            row[3] = draw.choice([*others, *nan, None])
        if draw.random() < 0.7:
            row[2] = draw.randrange(100)
        found.append((draw.choice("ssst"), row, ts))
    return found


def shown(event: bridge.Event) -> str:
    """A result, with doubles to twelve digits: DuckDB adds those of a batch in an order that differs from run to run."""
    values = [f"{value:.12g}" if isinstance(value, float) else repr(value) for value in event.payload.values()]
    return f"{event.timestamp}: {', '.join(values)}"


def result_of(
    draw: random.Random,
    database: Database,
    texts: list[str],
    events: list[Any],
    language: str = "sql",
    fails: bool = True,
) -> tuple[list[Any], int]:
    """What the queries report of the events, pushed one by one and in batches, and how often no database was asked.

    `fails`: whether some pushes are refused; each must write something.
    """
    reported: list[Any] = []
    with database.connect(durable=False) as cep:
        cep._runner.network.settings = Settings(few=draw.choice((0, 5, 16)), in_process=draw.choice((0, 6, 200, 200)))
        cep.register_stream("s", SCHEMA)
        cep.register_stream("t", SCHEMA)
        for number, text in enumerate(texts):
            cep.create_query(f"q{number}", text, language=language)
            cep.add_output_processor(f"q{number}", lambda event, number=number: reported.append((number, shown(event))))
        place = in_process = 0
        while place < len(events):
            step, size = draw.random(), draw.choice((1, 1, 1, 1, 1, 1, 1, 3, 9, 25))
            some = events[place : place + size]
            place += len(some)
            before = cep._runner._postponed
            try:
                push_some(cep, some)
            except bridge.BridgeError as error:  # a sum beyond 64 bits
                reported.append(type(error))
            in_process += bool(before)
            now = cep._runner.now
            if step < 0.03 and now >= 0:
                cep.advance_time(now)
            elif step < 0.06:
                cep.purge()
            elif step < 0.09:
                reported.append(cep.query("SELECT COUNT(*) FROM s")[0])
            elif step < 0.11:
                cep._runner._forget_steps()
            elif step < 0.13:
                cep.create_query("more", "SELECT SUM(i) AS n FROM s WINDOW(RANGE 5 MS)")
                cep.remove_query("more")
            elif step < 0.14 and now > 0 and fails:
                vars(cep._runner._postponed)["add"] = _fail
                vars(cep._runner.database)["begin"] = _fail
                with pytest.raises(bridge.BridgeError):
                    cep.push_event("s", events[0][1], now)
                del vars(cep._runner._postponed)["add"], vars(cep._runner.database)["begin"]
    return reported, in_process


def _fail(*arguments: Any) -> None:
    raise Refused("no")


def leave_to_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on each event is a transaction, and nothing waits for a boundary."""
    monkeypatch.setattr(one_event_planning._Planning, "_in_process", lambda self, *arguments: None)
    monkeypatch.setattr(one_event_plans, "waiting_plan", lambda *arguments: None)
    monkeypatch.setattr(boundaries.NextBoundaries, "are_passed", lambda self, before, now, rows: True)


@pytest.mark.one_in(5)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", range(60))
def test_aggregates_are_what_the_database_makes_of_them(
    database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    texts = [text_of(draw) for _ in range(draw.choice((1, 1, 2)))]
    lacking = {"sqlite": "MEDIAN", "mariadb": "STDDEV|MEDIAN"}.get(database.name, "NONE")
    texts = [re.sub(rf"({lacking})\(", "MIN(", text) for text in texts]
    events = events_of(draw, 90, database)
    if draw.random() < 0.3:
        monkeypatch.setattr(window_aggregates, "MOST_OF_KEY", 3)
        monkeypatch.setattr(window_rows, "MOST_ROWS", 9)
        monkeypatch.setattr(running_totals, "MOST_ROWS", 9)
        monkeypatch.setattr(totals_table, "MOST_ROWS", 9)
        monkeypatch.setattr(window_rows, "SWEEP", 4)
        monkeypatch.setattr(window_rows, "RETRY", 7)
    found, in_process = result_of(random.Random(seed), database, texts, events)
    leave_to_the_database(monkeypatch)
    expected, _ = result_of(random.Random(seed), database, texts, events)
    assert found == expected, (texts, in_process)


def sub_queries_of(draw: random.Random) -> str:
    """A random statement of EPL with sub-queries over windows of its own stream or another one."""
    sources = draw.choice(["s", "s", "t", "t", "st"])
    views = ["#length(3)", "#time(9 msec)", "#lastevent", "#unique(k)", "#unique(f)", "#unique(k, i)", "#keepall"]
    conditions = ["", "", " where k = x.k", " where f = x.f and i = x.i", " where d = x.d", " where i > 0"]
    parts = []
    for number in range(draw.choice((1, 1, 1, 2))):
        item = draw.choice(["max(d)", "min(i)", "sum(i)", "avg(d)", "count(*)", "count(d)", "d", "k", "f"])
        source = f"{draw.choice(sources)}{draw.choice(views)}"
        parts.append(f"(select {item} from {source}{draw.choice(conditions)}) as m{number}")
    if draw.random() < 0.3:
        test, item = draw.choice([("exists", "*"), ("not exists", "i, d"), ("exists", "count(*)"), ("i in", "i")])
        source = f"{draw.choice(sources)}{draw.choice(views)}"
        parts.insert(0, f"{test} (select {item} from {source}{draw.choice(conditions)}) as found")
    having = draw.choice(["", "", " where i > 0", f" where d < (select avg(d) from {draw.choice(sources)}#length(3))"])
    if draw.random() < 0.1:
        having = f" where exists (select * from {draw.choice(sources)}{draw.choice(views)}{draw.choice(conditions)})"
    return f"select k, {', '.join(parts)} from s as x{having}"


@pytest.mark.one_in(5)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", range(40))
def test_sub_queries_are_what_the_database_makes_of_them(
    database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    texts = [sub_queries_of(draw) for _ in range(draw.choice((1, 1, 2)))]
    events = events_of(draw, 60, database)
    if draw.random() < 0.2:
        monkeypatch.setattr(window_rows, "MOST_ROWS", 9)
        monkeypatch.setattr(window_rows, "SWEEP", 4)
        monkeypatch.setattr(window_rows, "RETRY", 7)
    is_stored = any("from s#" in text for text in texts)
    found, in_process = result_of(random.Random(seed), database, texts, events, "epl", is_stored)
    monkeypatch.setattr(one_event_planning._Planning, "_in_process", lambda self, *arguments: None)
    monkeypatch.setattr(one_event_plans, "waiting_plan", lambda *arguments: None)
    expected, _ = result_of(random.Random(seed), database, texts, events, "epl", is_stored)
    assert found == expected, (texts, in_process)


@embedded
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("exists (select * from s#length(2) where i = x.i)", 4),
        ("not exists (select i, d from s#unique(k) where i > x.i)", 4),
        ("exists (select count(*) from s#length(2) where k = 'B')", 4),
        ("i in (select i from s#length(2))", 4),
        ("i in (select count(*) from s#length(2))", 1),
    ],
)
def test_sub_queries_that_are_no_values_are_left_to_the_database(url: str, condition: str, expected: int) -> None:
    with bridge.connect(url) as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", f"select i from s as x where {condition}", language="epl")
        found: list[Any] = []
        cep.add_output_processor("q", found.append)
        for number in range(4):
            cep.push_event("s", ["A", number, 1, 0.5, True], number)
        assert len(found) == expected


EVICTING = [
    "ROWS 3", "PARTITION BY k ROWS 2", "TRAILING 4 MS OF i", "TRAILING 40 MS OF b", "PARTITION BY k TRAILING 1 MS OF i",
    "TRAILING 9 MS ROWS 2 OF i", "TRAILING 4 MS", "SESSION 4 MS", "PARTITION BY k SESSION 3 MS", "ROWS 3 ORDER BY i, d DESC",
    "PARTITION BY f ROWS 2 ORDER BY b", "FIRST ROWS 4", "FIRST RANGE 20 MS", "RANGE 9 MS",
]  # fmt: skip
"""Windows whose changes `EMIT ON EVERY CHANGE` reports."""


def changes_of(draw: random.Random) -> tuple[str, str]:
    """The language and the text of a random query that reports also when rows leave its window."""
    key, items = draw.choice(["", "k", "k", "f", "i", "k, f"]), draw.sample(ITEMS[:16], draw.randint(1, 3))
    having = draw.choice(["", "", "", "COUNT(*) > 2", "MIN(i) < 3 AND COUNT(d) > 0", "COUNT(*) = 0"])
    select = ", ".join([*([key] if key else []), *items])
    grouping = (f" GROUP BY {key}" if key else "") + (f" HAVING {having}" if having else "")
    size, where = draw.choice((1, 4, 9, 40)), draw.choice(["", "", "", "i > 0", "k = 'A'"])
    if draw.random() < 0.5:
        source = f"(SELECT * FROM s WHERE {where})" if where else "s"
        if draw.random() < 0.5:
            window = draw.choice(EVICTING)
            return "sql", f"SELECT {select} FROM {source} WINDOW({window}){grouping} EMIT ON EVERY CHANGE"
        return "sql", f"SELECT {select} FROM {source} WINDOW(RANGE {size} MS){grouping} EMIT ON CHANGE"
    window = draw.choice([f"time({size} msec)"] * 3 + [f"length({size})"])
    return "epl", f"select {select} from s{f'({where})' if where else ''}#{window}{grouping}"


@pytest.mark.one_in(5)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", range(32))
def test_changes_are_what_the_database_makes_of_them(
    database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    language, text = changes_of(draw)
    texts = [text] if draw.random() < 0.6 else [text, changes_of(draw)[1]]
    texts = [each for each in texts if (" EMIT " in each) == (language == "sql")]
    events = events_of(draw, 90, database)
    if draw.random() < 0.3:
        monkeypatch.setattr(window_aggregates, "MOST_OF_KEY", 3)
        monkeypatch.setattr(window_rows, "MOST_ROWS", 9)
        monkeypatch.setattr(window_rows, "SWEEP", 4)
        monkeypatch.setattr(window_rows, "RETRY", 7)
    found, in_process = result_of(random.Random(seed), database, texts, events, language)
    leave_to_the_database(monkeypatch)
    expected, _ = result_of(random.Random(seed), database, texts, events, language)
    assert found == expected, (texts, in_process)


IN_MEMORY = {
    "change": ("sql", "SELECT k, SUM(i) AS m FROM s WINDOW(RANGE 1 S) GROUP BY k EMIT ON CHANGE"),
    "changes": ("epl", "select k, avg(d) as m from s#time(1 sec) group by k"),
    "changes of some": ("epl", "select sum(i) as m from s(i > 0)#time(1 sec)"),
    "changes by eviction": ("epl", "select k, max(d) as m from s#length(100) group by k"),
    "deviation": ("sql", "SELECT k, STDDEV(d) AS m FROM s WINDOW(RANGE 1 S) GROUP BY k"),
    "rows of all keys": ("sql", "SELECT k, AVG(d) AS m FROM s WINDOW(ROWS 3) GROUP BY k"),
    "unique": ("epl", "select sum(d) as m from s#unique(k)"),
    "session": ("sql", "SELECT i, SUM(d) AS m FROM s WINDOW(SESSION 1 S) GROUP BY i"),
    "sessions of each key": ("sql", "SELECT i, MAX(d) AS m FROM s WINDOW(PARTITION BY k SESSION 1 S) GROUP BY i, k"),
    "latest of a key by group": ("sql", "SELECT i, SUM(d) AS m FROM s WINDOW(PARTITION BY k ROWS 1) GROUP BY i"),
    "sub-query": ("epl", "select k, (select max(d) from s#length(100)) as m from s"),
    "sub-query of a key": ("epl", "select (select max(d) from s#time(1 sec) where k = x.k) as m from s as x"),
    "last event": ("epl", "select k, (select d from s#lastevent) as m from s"),
    "last event of another stream": ("epl", "select k, (select k from t#lastevent) as m from s"),
    "sub-query of a key of another stream": (
        "epl",
        "select (select k from t#unique(i) where i = x.i) as m from s as x",
    ),
    "values of the newest row": ("epl", "select k, i, sum(b) as t from s#length(4) having sum(i) > 0"),
    "the newest of a key": ("epl", "select k, d from s#unique(k) having sum(i) > 0"),
    "the oldest and the newest": (
        "sql",
        "SELECT k, FIRST(d) AS d, LAST(i) AS i FROM s WINDOW(PARTITION BY k SESSION 9 MS) GROUP BY k",
    ),
    "the newest of #expr": ("epl", "select k, i from s#expr(current_count <= 6) having count(*) > 0"),
    "whether another stream has rows": (
        "epl",
        "select k from s as x where not exists (select * from t#keepall where k = x.k)",
    ),
}


@embedded
@pytest.mark.parametrize("name", IN_MEMORY)
def test_aggregates_of_windows_in_memory_run_no_statement(url: str, name: str) -> None:
    language, text = IN_MEMORY[name]
    with bridge.connect(url) as cep:
        cep.register_stream("s", SCHEMA)
        cep.register_stream("t", SCHEMA)
        cep.create_query("q", text, language=language)
        found: list[Any] = []
        cep.add_output_processor("q", found.append)
        row = ["A", 1, 1, 0.5, True]
        for ts in (10, 11, 12):
            cep.push_event("t", ["B", *row[1:]], ts)
            cep.push_event("s", row, ts)
        statements = traced(cep)
        for ts in (13, 14):
            cep.push_event("t", ["B", *row[1:]], ts)
            cep.push_event("s", row, ts)
        cep.push_events("s", [(row, 20)] * 3)
        assert reads_and_writes(statements) == []
        assert len(found) == 8


@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, AVG(d) AS mean FROM s WINDOW(RANGE 9 MS) GROUP BY k",
        "SELECT k, b, SUM(i) AS n, MAX(d) AS most FROM s WINDOW(RANGE 9 MS) GROUP BY k, b HAVING COUNT(*) > 0",
        "SELECT COUNT(*) AS n FROM (SELECT k FROM s WHERE i > 0) WINDOW(UNBOUNDED)",
        "SELECT MAX(d) AS n FROM s WINDOW(ROWS 3)",
        "SELECT k, SUM(d) AS n FROM s WINDOW(PARTITION BY k ROWS 3) GROUP BY k",
    ],
)
def test_aggregates_run_no_statement(url: str, text: str) -> None:
    with bridge.connect(url) as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", text)
        found: list[Any] = []
        cep.add_output_processor("q", found.append)
        for ts in range(4):
            cep.push_event("s", ["A", 1, 1, 0.5, True], ts)
        statements = traced(cep)
        cep.push_event("s", ["A", 1, 1, 0.5, True], 5)
        cep.push_events("s", [(["A", 1, 1, 0.5, True], 6)] * 3)
        assert statements == []
        assert len(found) == 8
        assert cep.query("SELECT COUNT(*) FROM s WINDOW(RANGE 9 MS)" if "RANGE" in text else "SELECT 8") == [(8,)]


@embedded
@pytest.mark.parametrize("change", ["", "large push", "statement"])
def test_aggregates_of_all_rows_run_no_statement_however_many_there_are(
    url: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_rows, "MOST_ROWS", 9)
    monkeypatch.setattr(running_totals, "MOST_ROWS", 9)
    monkeypatch.setattr(totals_table, "MOST_ROWS", 9)
    monkeypatch.setattr(window_rows, "SWEEP", 4)
    text = "SELECT k, COUNT(*) AS n, SUM(i) AS t, AVG(d) AS m, MIN(d) AS l, MAX(i) AS h FROM s WINDOW(UNBOUNDED) GROUP BY k"
    draw = random.Random(1)
    rows = [
        [draw.choice("AB"), draw.choice((None, -3, 5)), 1, draw.choice((None, 0.5, 2.25)), True] for _ in range(3_100)
    ]
    expected = {key: [row for row in rows if row[0] == key] for key in "AB"}
    with bridge.connect(url) as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", text)
        found: list[Any] = []
        cep.add_output_processor("q", lambda event: found.append(event.payload))
        for ts, row in enumerate(rows[:40]):
            cep.push_event("s", row, ts)
        if change == "large push":
            cep.push_events("s", [(row, 40) for row in rows[40:3_000]])
        elif change == "statement":
            cep.database.execute("UPDATE cep_totals_s SET seq = seq")
        rest = rows[len(found) :][:30]
        for ts, row in enumerate(rest[:5], 50):
            cep.push_event("s", row, ts)
        statements = traced(cep)
        for ts, row in enumerate(rest[5:], 60):
            cep.push_event("s", row, ts)
        assert statements == []
        last = found[-1]
    own = expected[last["k"]]
    own = own[: sum(row[0] == last["k"] for row in rows[: len(found)])]
    whole, doubles = ([row[place] for row in own if row[place] is not None] for place in (1, 3))
    assert last == {
        "k": last["k"], "n": len(own), "t": sum(whole), "m": sum(doubles) / len(doubles), "l": min(doubles), "h": max(whole)
    }  # fmt: skip


MEAN = "SELECT COUNT(*) AS n, AVG(d) AS m FROM s WINDOW(RANGE 9 MS)"


def counted(cep: bridge.Bridge) -> list[Any]:
    """The counts of rows in the window, after four events that are computed in this process from the third one on."""
    cep.register_stream("s", SCHEMA)
    cep.create_query("q", MEAN)
    found: list[Any] = []
    cep.add_output_processor("q", lambda event: found.append(event.payload["n"]))
    for ts in range(4):
        cep.push_event("s", ["A", 1, 1, 0.5, True], ts)
    assert found == [1, 2, 3, 4]
    return found


@embedded
def test_tables_are_as_pushed_and_changes_count_where_a_program_has_the_connection(url: str) -> None:
    with bridge.connect(url) as cep:
        found = counted(cep)
        assert cep._runner._postponed
        database = cep.database
        for ts in range(4, 8):
            assert database.fetch("SELECT COUNT(*) FROM cep_window_s") == [(ts,)]
            cep.push_event("s", ["A", 1, 1, 0.5, True], ts)
        cep.push_events("s", [(["A", 1, 1, 0.5, True], 8)] * 30)
        assert database.fetch("SELECT COUNT(*) FROM cep_window_s") == [(38,)]
        database.execute("DELETE FROM cep_window_s WHERE ts < 8")
        cep.push_event("s", ["A", 1, 1, 0.5, True], 8)
        assert found[-1] == 31


@embedded
@pytest.mark.parametrize("is_early", [False, True])
def test_a_push_whose_tables_are_gone_is_refused(url: str, is_early: bool) -> None:
    with bridge.connect(url) as cep:
        database = cep.database if is_early else None
        found = counted(cep)
        (database or cep.database).execute("DROP TABLE cep_window_s")
        for _ in range(2):
            with pytest.raises(bridge.DatabaseError, match="cep_window_s"):
                cep.push_event("s", ["A", 1, 1, 0.5, True], 9)
        assert len(found) == 4


@pytest.mark.parametrize("library", ["duckdb", "sqlalchemy"])
def test_a_connection_of_the_caller_shows_each_push(library: str) -> None:
    """The caller may have it for other statements all the time."""
    known: Any = importlib.import_module(library)
    own = known.connect() if library == "duckdb" else known.create_engine("sqlite://", poolclass=known.StaticPool)
    with bridge.connect(own) as cep:
        counted(cep)
        assert not cep._runner._postponed


def test_what_the_library_reads_itself_leaves_the_path_on() -> None:
    with bridge.connect() as cep:
        rows = {"ts": [0], "k": ["A"], "i": [1], "b": [1], "d": [0.5], "f": [True]}
        bridge.replay({"s": pyarrow.table(rows)}, {"q": MEAN}, into=cep)
        cep.status(), cep.explain("q"), repr(cep), cep.next_deadline()
        cep.add_output_processor("q", lambda event: None)
        for ts in range(1, 5):
            cep.push_event("s", ["A", 1, 1, 0.5, True], ts)
        assert cep._runner._postponed


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("sql", "SELECT COUNT(DISTINCT i) AS n FROM s WINDOW(RANGE 300 MS)"),
        ("epl", "select sum(d) as m from s#unique(i)"),
        ("epl", "select (select max(d) from s#length(100) where k = x.k) as m from s as x"),
    ],
)
def test_large_batches_whose_events_sqlite_would_join_with_rows_run_no_statement(language: str, text: str) -> None:
    draw, found = random.Random(1), list[list[Any]]()
    events = [([draw.choice("AB"), draw.randrange(50), 1, float(draw.randrange(99)), True], ts) for ts in range(1500)]
    for most in (1_000, 0):
        with bridge.connect("sqlite://") as cep:
            cep._runner.network.settings = Settings(in_process=min(most, 200), in_process_quick=most)
            cep.register_stream("s", SCHEMA)
            cep.create_query("q", text, language=language)
            rows: list[Any] = []
            cep.add_output_processor("q", lambda event, rows=rows: rows.append((event.timestamp, event.payload)))
            for start in range(0, 1200, 300):
                cep.push_events("s", events[start : start + 300])
            statements = traced(cep)
            cep.push_events("s", events[1200:])
            assert any(sql.startswith("INSERT") for sql in statements) == (not most)
            found.append(rows)
    assert len(found[0]) == 1500
    assert found[0] == found[1]


@pytest.mark.parametrize(("key", "is_few"), [("i", True), ("k", False)])
@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
def test_large_batches_run_no_statement_where_each_key_has_few_rows(url: str, key: str, is_few: bool) -> None:
    """Of 300 rows in the window each of 50 keys has six, and each of two has 150."""
    draw, found = random.Random(1), list[list[Any]]()
    events = [([draw.choice("AB"), draw.randrange(50), 1, float(draw.randrange(99)), True], ts) for ts in range(3000)]
    for most in (1_000, 0):
        with bridge.connect(url) as cep:
            cep._runner.network.settings = Settings(in_process=min(most, 200), in_process_quick=most)
            cep.register_stream("s", SCHEMA)
            cep.create_query("q", f"SELECT {key} AS k, AVG(d) AS m FROM s WINDOW(RANGE 300 MS) GROUP BY {key}")
            rows: list[Any] = []
            cep.add_output_processor("q", lambda event, rows=rows: rows.append((event.timestamp, event.payload)))
            for start in range(0, 2700, 300):
                cep.push_events("s", events[start : start + 300])
            statements = traced(cep)
            cep.push_events("s", events[2700:])
            assert any("AVG(" in sql or "SUM(" in sql for sql in statements) == (not most or not is_few), statements
            found.append(rows)
    assert len(found[0]) == 3000
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(20))
def test_functions_in_python_give_what_duckdb_does_bit_by_bit(seed: int) -> None:
    draw = random.Random(seed)
    functions = {"stddev": deviation_in_one_pass, "median": median}
    with bridge.connect("duckdb://") as cep:
        for kind, values in {
            "BIGINT": [draw.randrange(-(2**63), 2**63) >> draw.randrange(60) for _ in range(draw.randrange(1, 60))],
            "DOUBLE": [draw.uniform(-1, 1) * 10 ** draw.randrange(-9, 30) for _ in range(draw.randrange(1, 60))],
        }.items():
            for name, function in functions.items():
                rows = ", ".join(f"({value!r}::{kind})" for value in values)
                ((expected,),) = cep.database.fetch(f"SELECT {name}(x) FROM (VALUES {rows}) AS t (x)")
                assert function([float(value) for value in values]) == expected


def test_keys_that_never_come_again_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_rows, "SWEEP", 10)
    with bridge.connect("sqlite://") as cep:
        cep.create_query("q", "SELECT k, COUNT(*) AS n FROM s[k INTEGER] WINDOW(RANGE 9 MS) GROUP BY k")
        cep.add_output_processor("q", lambda event: None)
        for ts in range(500):
            cep.push_event("s", [ts], ts)
        plan = cep._runner._one_event_plans.of(cep._catalogue.stream_entry("s"))
        assert plan is not None and plan.in_process is not None
        (window,) = (reader for _, reader in plan.in_process.readers if isinstance(reader, WindowAggregate))
        assert window.rows.is_loaded
        assert len(window.rows._rows) < 25


def test_rows_after_one_that_only_the_database_computes_count_once() -> None:
    """A batch that is written with its position goes to the database; a NaN in it makes the rows in memory invalid."""
    with bridge.connect("duckdb://") as cep:
        cep.create_query("q", "SELECT COUNT(v) AS n FROM s[v DOUBLE] WINDOW(RANGE 1 S)")
        counts: list[int] = []
        cep.add_output_processor("q", lambda event: counts.append(event.payload["n"]))
        for ts in range(0, 5000, 500):
            cep.push_event("s", [1.0], ts)
        cep.push_events("s", [([float("nan")], 10_000), ([5.0], 10_900)], source="file", position=1)
        for ts in range(11_050, 11_850, 100):
            cep.push_event("s", [1.0], ts)
    assert counts[-10:] == [1, 2, 2, 3, 4, 5, 6, 7, 8, 9]


PLAIN = ["A", 1, 1, 0.5]
LARGE = ["A", 1, 2**63 - 1, 0.5]


def outcomes(url: str, text: str, rows: list[list[Any]], change: str, others: tuple[str, ...], most: int) -> list[Any]:
    """What is reported or refused of events, between the fourth and fifth of which a statement of the program runs."""
    found: list[Any] = []
    with bridge.connect(url) as cep:
        cep._runner.network.settings = Settings(in_process=most)
        cep.register_stream("s", "k VARCHAR, i INTEGER, b BIGINT, d DOUBLE")
        for name, each in {"q": text, **{f"q{number}": each for number, each in enumerate(others)}}.items():
            cep.create_query(name, each)
        cep.add_output_processor("q", lambda event: found.append([repr(value) for value in event.payload.values()]))
        for ts, row in enumerate(rows):
            if change and ts == 4:
                cep.database.execute(change)
            try:
                cep.push_event("s", row, ts)
            except bridge.DatabaseError:
                found.append("refused")
        cep.purge()
        if change.startswith("SET"):  # a setting of the instance, which the next database may share
            cep.database.execute(f"RESET {change.removeprefix('SET ').partition('=')[0]}")
    return found


@pytest.mark.parametrize(
    ("url", "text", "rows", "change", "others"),
    [
        (
            "duckdb://",
            "SELECT COUNT(*) AS n FROM (SELECT b + b AS x FROM s) WINDOW(RANGE 9 MS)",
            [PLAIN, LARGE],
            "",
            (),
        ),
        (
            "duckdb://",
            "SELECT SUM(x) AS n FROM (SELECT b * 2 AS x FROM s) WINDOW(RANGE 9 MS SLIDE 9 MS)",
            [LARGE],
            "",
            (),
        ),
        (
            "duckdb://",
            "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 99 MS)",
            [PLAIN, PLAIN, PLAIN, LARGE],
            "",
            ("SELECT COUNT(*) AS n FROM (SELECT * FROM s WHERE b * b > 0) WINDOW(RANGE 9 MS)",),
        ),
        (
            "duckdb://",
            "SELECT i FROM s",
            [PLAIN, LARGE],
            "",
            ("SELECT SUM(x) AS n FROM (SELECT b * 2 AS x FROM s) WINDOW(RANGE 9 MS)",),
        ),
        (
            "duckdb://",
            "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 4 MS)",
            [PLAIN],
            "UPDATE cep_window_s SET ts = ts - 9 WHERE ts = 3",
            (),
        ),
        (
            "sqlite://",
            "SELECT COUNT(*) AS n FROM s WINDOW(UNBOUNDED)",
            [PLAIN],
            "UPDATE cep_totals_s SET seq = 1000",
            (),
        ),
        (
            "sqlite://",
            "SELECT SUM(b) AS n FROM s WINDOW(RANGE 99 MS)",
            [PLAIN],
            "UPDATE cep_window_s SET b = 'x' WHERE ts = 1",
            (),
        ),
        (
            "duckdb://",
            "SELECT k, COUNT(*) AS n FROM s WINDOW(RANGE 99 MS) GROUP BY k",
            [PLAIN, PLAIN, ["a", 1, 1, 0.5], ["a", 1, 1, 0.5]],
            "SET default_collation='nocase'",
            (),
        ),
        (
            "duckdb://",
            "SELECT MIN(d) AS l, MAX(d) AS h FROM s WINDOW(ROWS 3)",
            [["A", 1, 1, d] for d in (-0.0, -0.0, 0.0, -0.0)],
            "",
            (),
        ),
        (
            "sqlite://",
            "SELECT SUM(i) AS t FROM s WINDOW(UNBOUNDED)",
            [PLAIN],
            "CREATE TRIGGER t AFTER UPDATE ON cep_totals_s BEGIN UPDATE cep_totals_s SET _part0 = _part0 / 2; END",
            (),
        ),
        (
            "sqlite://",
            "SELECT SUM(i) AS t FROM s WINDOW(UNBOUNDED)",
            [PLAIN],
            "UPDATE cep_totals_s SET _part0 = 1.5",
            (),
        ),
        (
            "sqlite://",
            "SELECT COUNT(i) AS n, MIN(i) AS l FROM s WINDOW(UNBOUNDED)",
            [PLAIN],
            "UPDATE cep_totals_s SET _part1 = 'x'",
            (),
        ),
        (
            "sqlite://",
            "SELECT AVG(d) AS m FROM s WINDOW(UNBOUNDED)",
            [PLAIN],
            "UPDATE cep_totals_s SET _part0 = 9e999",
            (),
        ),
        (
            "sqlite://",
            "SELECT AVG(b) AS m, MAX(b) AS h FROM s WINDOW(UNBOUNDED)",
            [PLAIN, LARGE],
            "",
            (),
        ),
        (
            "duckdb://",
            "SELECT SUM(b) AS t FROM s WINDOW(UNBOUNDED)",
            [PLAIN, LARGE],
            "",
            (),
        ),
        (
            "duckdb://",
            "SELECT MIN(d) AS l, MAX(d) AS h FROM s WINDOW(UNBOUNDED)",
            [["A", 1, 1, d] for d in (-0.0, -0.0, 0.0, -0.0)],
            "",
            (),
        ),
        (
            "sqlite://",
            "SELECT SUM(d) AS s, AVG(d) AS a FROM s WINDOW(ROWS 3)",
            [["A", 1, 1, d] for d in (1e16, 1.0, -1e16, 0.1, 0.2, 0.3)],
            "",
            (),
        ),
    ],
)
def test_it_computes_and_refuses_as_the_database(
    url: str, text: str, rows: list[list[Any]], change: str, others: tuple[str, ...]
) -> None:
    """Nothing is reported that is refused later; what a program has changed counts."""
    rows = rows * (12 // len(rows))
    assert outcomes(url, text, rows, change, others, 200) == outcomes(url, text, rows, change, others, 0)


def test_compensated_sums_are_those_of_newer_versions_of_sqlite() -> None:
    assert window_aggregates._compensated([1e16, 1.0, -1e16]) == 1.0
    assert window_aggregates._compensated([0.1, 0.2, 0.3]) == 0.6


JUMPING = {
    "sums": ("sql", "SELECT k, SUM(i) AS n FROM s WINDOW(RANGE 100 MS SLIDE 100 MS) GROUP BY k"),
    "rows": ("sql", "SELECT k, i FROM s WINDOW(RANGE 300 MS SLIDE 100 MS OFFSET 7 MS) WHERE i > 0"),
    "from the first": ("epl", "select k, sum(i) as n from s#time_batch(100 msec) group by k"),
    "snapshot": ("epl", "select k, sum(i) as n from s#time(1 sec) group by k output snapshot every 100 msec"),
    "snapshot without groups": (
        "epl",
        "select max(k) as k, sum(i) as n from s#length(20) output snapshot every 100 msec",
    ),
}
COUNTED = {
    "length batch": ("epl", "select sum(i) as n from s#length_batch(9)"),
    "of a key": ("epl", "select k, sum(i) as n from s#groupwin(k)#length_batch(9) group by k"),
    "of some": ("epl", "select sum(i) as n from s(k = 'A')#length_batch(9)"),
    "full": ("sql", "SELECT SUM(i) AS n FROM s WINDOW(ROWS 9 SLIDE 4)"),
    "doubles": ("epl", "select sum(d) as n from s#length(5) output every 9 events"),
    "whole numbers": ("epl", "select sum(i) as n from s#length(5) output last every 9 events"),
    "all rows": ("epl", "select sum(i) as n from s output last every 9 events"),
    "averages of keys": ("epl", "select k, avg(d) as n from s(k = 'A') group by k output last every 9 events"),
}
OF_AGGREGATES = {
    "last": ("epl", "select sum(d) as n, count(*) as c from s#length(5) output last every 100 msec"),
    "every": ("epl", "select sum(i) as n, max(d) as m from s#length(7) output every 100 msec"),
    "of a group": (
        "sql",
        "SELECT * FROM (SELECT k, AVG(d) AS m FROM s WINDOW(ROWS 9) GROUP BY k) WINDOW(RANGE 100 MS SLIDE 100 MS)",
    ),
}

WAITING = {
    "last of a group": ("epl", "select k, sum(i) as n from s#time(1 sec) group by k output last every 100 msec"),
    "all groups": ("epl", "select k, sum(i) as n from s#time(1 sec) group by k output all every 100 msec"),
    "some groups": (
        "epl",
        "select k, max(d) as n from s#time(30 msec) group by k having count(*) > 1 output every 100 msec",
    ),
    "of all rows": ("epl", "select sum(i) as n, count(k) as m from s#time(250 msec) output last every 100 msec"),
    "distinct": ("epl", "select distinct k, d as n from s#length(3) output every 100 msec"),
    "join": (
        "epl",
        "select s.k as k, o.a as n from s#time(80 msec) as s, other#length(2) as o output last every 100 msec",
    ),
}
"""Queries whose events wait for the next output, unless what they add is known in this process."""


@embedded
@pytest.mark.parametrize("name", COUNTED)
def test_rows_before_the_one_at_which_a_window_jumps_run_no_statement(url: str, name: str) -> None:
    language, text = COUNTED[name]
    with bridge.connect(url) as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", text, language=language)
        found: list[Any] = []
        cep.add_output_processor("q", found.append)
        row = ["A", 1, 1, 0.5, True]
        for ts in range(4):
            cep.push_event("s", row, ts)
        found.clear()  # of ROWS 9 SLIDE 4
        statements = traced(cep)
        cep.push_event("s", row, 4)
        cep.push_events("s", [(row, 5), (row, 5)])
        assert statements == []
        for ts in range(7, 9):
            cep.push_event("s", row, ts)
        assert len(found) == (9 if name == "doubles" else 1)
        statements.clear()
        cep.push_event("s", row, 9)
        assert statements == []


@embedded
@pytest.mark.parametrize(
    ("window", "column"),
    [("WINDOW(ROWS 7)", "k"), ("WINDOW(ROWS 7 SLIDE 7)", "k"), ("WINDOW(UNBOUNDED) GROUP BY k", "_key0")],
)
def test_a_query_that_changes_the_rows_of_a_window_counts(url: str, window: str, column: str) -> None:
    """Its own table has the rows of the window, or totals per key in place of them."""
    tables = ("cep_raw_s", "cep_window_s", "cep_totals_s")
    found: list[list[Any]] = []
    for most in (200, 0):
        with bridge.connect(url) as cep:
            cep._runner.network.settings = Settings(in_process=most)
            cep.register_stream("s", SCHEMA)
            cep.register_stream("left", "k VARCHAR")
            cep.create_query("q", f"SELECT SUM(i) AS n, COUNT(*) AS m FROM s {window}")
            reported: list[Any] = []
            cep.add_output_processor("q", lambda event, reported=reported: reported.append(shown(event)))
            for ts in range(40):
                if ts == 10:
                    rows = next(each for each in tables if each in cep.database.table_names())
                    delete = bridge.UpdateSQL(bridge.Stream("left"), f"DELETE FROM {rows} WHERE {column} = ?", ["k"])
                    cep.create_query("deleted", delete)
                cep.push_event("s", ["AB"[ts % 2], ts, 1, 0.5, True], ts)
                if ts % 9 == 0 and ts > 10:
                    cep.push_event("left", ["A"], ts)
            found.append(reported)
    assert found[0] == found[1]


@pytest.mark.parametrize("durable", [True, False])
def test_rows_that_are_not_counted_do_not_change_what_waits_for_a_time(tmp_path: pathlib.Path, durable: bool) -> None:
    """After `cep.database.connection` nothing is in memory."""
    url = f"sqlite:///{tmp_path / 'state.db'}" if durable else "sqlite://"
    with bridge.connect(url) as cep:
        assert cep.database.connection
        cep.register_stream("s", SCHEMA)
        for name, (language, text) in {"times": JUMPING["sums"], "rows": COUNTED["length batch"]}.items():
            cep.create_query(name, text, language=language)
            cep.add_output_processor(name, print)
        statements = traced(cep)
        for ts in range(10, 15):
            statements.clear()
            cep.push_event("s", ["A", 1, 1, 0.5, True], ts)
        assert len([each for each in statements if '"cep_raw_s"' in each]) == 1  # the INSERT


@embedded
@pytest.mark.parametrize("name", OF_AGGREGATES)
def test_aggregates_before_the_next_output_run_no_statement(url: str, name: str) -> None:
    language, text = OF_AGGREGATES[name]
    with bridge.connect(url) as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", text, language=language)
        cep.add_output_processor("q", print)
        for ts in range(4):
            cep.push_event("s", ["A", 400, 1, 0.5, True], ts)
        statements = traced(cep)
        cep.push_event("s", ["A", 400, 1, 0.5, True], 4)
        cep.push_events("s", [(["A", 400, 1, 0.5, True], 5)] * 3)
        assert statements == []


@embedded
@pytest.mark.parametrize("name", JUMPING)
def test_events_before_the_next_boundary_run_no_statement(url: str, name: str) -> None:
    language, text = JUMPING[name]
    with bridge.connect(url) as cep:
        cep.register_stream("s", SCHEMA)
        cep.register_stream("other", "a INTEGER")
        cep.create_query("q", text, language=language)
        found: list[tuple[Any, ...]] = []
        cep.add_output_processor("q", lambda event: found.append((*event.payload.values(), event.timestamp)))
        for ts in (10, 11, 12):
            cep.push_event("s", ["A", 1, 1, 0.5, True], ts)
            cep.push_event("other", [1], ts)
        statements = traced(cep)
        for ts in (13, 14):
            cep.push_event("s", ["A", 1, 1, 0.5, True], ts)
            cep.push_event("other", [1], ts)
        cep.push_events("s", [(["A", 1, 1, 0.5, True], 20)] * 3)
        assert reads_and_writes(statements) == []
        assert found == []
        boundary = {"sums": 100, "rows": 107}.get(name, 110)
        assert cep.next_deadline() == boundary
        cep.push_event("s", ["A", 5, 1, 0.5, True], boundary - 1)
        cep.push_event("s", ["B", 9, 1, 0.5, True], boundary)
        ones = [("A", 1, boundary)] * 8
        assert found == ([*ones, ("A", 5, boundary)] if name == "rows" else [("A", 13, boundary)])


@embedded
@pytest.mark.parametrize("name", WAITING)
def test_events_wait_for_the_next_output(url: str, name: str) -> None:
    language, text = WAITING[name]
    with bridge.connect(url) as cep:
        cep.register_stream("s", SCHEMA.replace("BIGINT", "INTEGER"))
        cep.register_stream("other", "a INTEGER")
        cep.create_query("q", text, language=language)
        cep.add_output_processor("q", print)
        for ts in (10, 11, 12):
            cep.push_event("s", ["A", 1, 1, 0.5, True], ts)
            cep.push_event("other", [1], ts)
        statements = traced(cep)
        for ts in (13, 14):
            cep.push_event("s", ["A", 1, 1, 0.5, True], ts)
            cep.push_event("other", [1], ts)
        cep.push_events("s", [(["A", 1, 1, 0.5, True], 20)] * 3)
        assert reads_and_writes(statements) == []
        assert list(cep.query("SELECT COUNT(*) AS n FROM s")) == [(3,)]


@pytest.mark.parametrize(
    "text",
    [
        "select k, sum(b + i) as n from s#time(1 sec) group by k output last every 100 msec",
        "select k, sum(i) as n from s(10 / i > 1)#time(1 sec) group by k output last every 100 msec",
        "select k, sum(cast(k, int)) as n from s#time(1 sec) group by k output last every 100 msec",
    ],
)
@embedded
def test_an_event_that_could_fail_does_not_wait(url: str, text: str) -> None:
    with bridge.connect(url) as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", text, language="epl")
        cep.add_output_processor("q", print)
        for ts in (10, 11, 12):
            cep.push_event("s", ["1", 1, 1, 0.5, True], ts)
        statements = traced(cep)
        cep.push_event("s", ["1", 1, 1, 0.5, True], 13)
        assert reads_and_writes(statements) != []


@pytest.mark.one_in(2)
@pytest.mark.some_databases(2)
@embedded
@pytest.mark.parametrize("seed", range(4))
def test_queries_side_by_side_report_what_each_push_as_a_transaction_does(url: str, seed: int) -> None:
    """Queries whose events wait, or are computed in this process, or need statements, with events of two streams."""
    others = {"means": ("sql", MEAN), "others": ("sql", "SELECT SUM(a) AS n FROM other WINDOW(ROWS 5)")}
    known = JUMPING | COUNTED | OF_AGGREGATES | WAITING | others
    found: list[list[Any]] = []
    for most in (200, 0):
        draw = random.Random(seed)
        found.append([])
        with bridge.connect(url) as cep:
            cep._runner.network.settings = Settings(in_process=most)
            cep.register_stream("s", SCHEMA.replace("BIGINT", "INTEGER"))
            cep.register_stream("other", "a INTEGER")
            for place, name in enumerate([draw.choice([*WAITING]), *draw.sample([*known], draw.randrange(3))]):
                cep.create_query(f"q{place}", known[name][1], language=known[name][0])
                cep.add_output_processor(
                    f"q{place}", lambda event, place=place: found[-1].append((place, shown(event)))
                )
            ts = 7
            for number in range(70):
                ts += draw.choice((0, 1, 3, 30, 100, 350)) if draw.random() < 0.3 else 1
                if draw.random() < 0.3:
                    cep.push_event("other", [number], ts)
                else:
                    cep.push_event("s", [draw.choice("AB"), number, 1, draw.choice((0.5, None)), True], ts)
                match draw.randrange(20):
                    case 0:
                        found[-1].append(cep.next_deadline())
                    case 1:
                        ts += draw.choice((0, 5, 100))
                        cep.advance_time(ts)
                    case 2:
                        found[-1].append(list(cep.query("SELECT k, i FROM s")))
                    case 3:
                        cep.create_query(f"more{number}", MEAN)
            cep.finish()
    assert len(found[0]) > 5
    assert found[0] == found[1]


@pytest.mark.one_in(5)
@pytest.mark.some_databases(2)
@embedded
@pytest.mark.parametrize("name", [*JUMPING, *COUNTED, *OF_AGGREGATES])
def test_jumping_windows_report_what_each_push_as_a_transaction_does(url: str, name: str) -> None:
    """Events at, just before and long after boundaries, with failures, time alone, and statements of the program."""
    language, text = (JUMPING | COUNTED | OF_AGGREGATES)[name]
    found: list[list[Any]] = []
    for most in (200, 0):
        draw = random.Random(name)
        found.append([])
        with bridge.connect(url) as cep:
            cep._runner.network.settings = Settings(in_process=most)
            cep.register_stream("s", SCHEMA)
            cep.create_query("q", text, language=language)
            cep.add_output_processor("q", lambda event: found[-1].append((*event.payload.values(), event.timestamp)))
            ts = -250
            for number in range(150):
                ts += draw.choice((0, 1, 3, 30, 99, 100, 101, 350)) if draw.random() < 0.4 else 1
                ts += draw.choice((0, 0, 0, -ts % 100))
                row = [draw.choice("AB"), number, 1, 0.5, True]
                if draw.random() < 0.1:
                    cep.push_events("s", [(row, ts)] * draw.randrange(1, 12))
                else:
                    cep.push_event("s", row, ts)
                match draw.randrange(30):
                    case 0:
                        found[-1].append(cep.next_deadline())
                    case 1:
                        cep.advance_time(ts + draw.choice((0, 5, 100)))
                        ts = cep._runner.now
                    case 2:
                        tables = sorted(cep.database.table_names())
                        found[-1].append(tables)
                        kept = next(each for each in ("cep_raw_s", "cep_window_s", "cep_raw") if each in tables)
                        cep.database.execute(f"DELETE FROM {kept} WHERE seq % 2 = 0")
                    case 3:
                        cep.purge()
            cep.finish()
            assert not most or cep._runner._one_event_plans.of(cep._catalogue.stream_entry("s")).in_process
    assert len(found[0]) > 20
    assert found[0] == found[1]
