"""An error of the driver at any call of a push: the same push again gives what it would have given (rules D1, D2)."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import bridge
from tests.support.databases import DATABASES, Database
from tests.support.failures import Failures

KEYS = ("ann", "bob", "eve")
STREAMS = {"s": "k VARCHAR, a INTEGER, v DOUBLE", "t": "k VARCHAR, b INTEGER"}
BILLS = """
CREATE SQL due_of AS SELECT due FROM bills WHERE k = ?;
CREATE SQL add AS UPDATE bills SET due = due + ? WHERE k = ?;
INSERT INTO added SELECT * FROM t ON SQL add, a, b, k;
INSERT INTO after SELECT k, due FROM added ON SQL due_of, b, k, due
"""
QUERIES: dict[str, dict[str, tuple[str, str]]] = {
    "filter": {"q": ("sql", "SELECT k, a FROM s WHERE a > 3")},
    "average": {"q": ("sql", "SELECT k, AVG(v) AS mean, COUNT(*) AS n FROM s WINDOW(RANGE 30 MS) GROUP BY k")},
    "rows": {"q": ("sql", "SELECT SUM(a) AS total, MIN(k) AS first FROM s WINDOW(ROWS 7)")},
    "jumping": {"q": ("sql", "SELECT COUNT(*) AS n, MAX(a) AS top FROM s WINDOW(RANGE 20 MS SLIDE 20 MS)")},
    "join": {
        "q": (
            "sql",
            "SELECT x.k AS k, x.a AS a, y.b AS b FROM s WINDOW(RANGE 15 MS) AS x JOIN t WINDOW(ROWS 3) AS y ON x.k = y.k",
        )
    },
    "within": {
        "q": (
            "sql",
            "SELECT z FROM s MATCHING(PATTERN ab WITHIN 30 MS MEASURES z:Integer DEFINE a AS a > 2 DO z = a, b AS a < z)",
        ),
        "r": (
            "epl",
            "select x.k as k, y.a as a from pattern [every x=s(a = 1) -> y=s(k = x.k, a > 3) where timer:within(50 msec)]",
        ),
    },
    "not": {
        "q": ("epl", "select x.k as k from pattern [every x=s(a = 5) -> (timer:interval(25 msec) and not t(k = x.k))]"),
    },
    "quantifier": {
        "q": (
            "sql",
            "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.a AS first_a, LAST(B.a) AS last_a "
            "ONE ROW PER MATCH PATTERN (A B+ C) WITHIN INTERVAL '60' MILLISECOND "
            "DEFINE B AS B.a > PREV(B.a), C AS C.a < PREV(C.a) AND NEXT(C.a) > 1) AS m",
        ),
    },
    "last_every": {"q": ("epl", "select k, count(*) as n from s group by k output last every 10 events")},
    "time_batch": {"q": ("epl", "select k, sum(a) as total from s#time_batch(25 msec) group by k")},
    "unique": {"q": ("epl", "select k, a from s#unique(k) having sum(a) > 5")},
    "sub_query": {"q": ("epl", "select k, (select max(b) from t#length(3)) as top from s")},
    "sql": {"q": ("cpl", BILLS)},
    "named_window": {
        "recent": ("epl", "create window recent#keepall as s"),
        "fill": ("epl", "insert into recent select * from s"),
        "forget": ("epl", "on t(b = 1) as e delete from recent as r where r.k = e.k"),
        "q": ("epl", "select k, count(*) as n from recent group by k"),
        "r": ("sql", "SELECT COUNT(*) AS n, SUM(a) AS total FROM s WINDOW(SESSION 4 MS)"),
    },
}
"""Statements by their names, of which all that report are listened to; 14 kinds of state."""
NOT_REPORTED = ("recent", "fill", "forget")
ALL = {
    f"{kind}_{name}" if name in "qr" else name: text
    for kind, own in QUERIES.items()
    for name, text in own.items()
    if kind != "sql"
}
"""All in one bridge, but those that make each event a push of its own."""


class Step(NamedTuple):
    """A push: `kind` says how, `ts` to which time."""

    kind: str
    events: list[tuple[str, tuple[Any, ...], int]]
    ts: int


def steps(seed: int = 0) -> Iterator[Step]:
    """Pushes of each kind in turn: of one event, of a few, of a table, of nothing but time."""
    draw = random.Random(seed)
    ts = 1_000

    def event(stream: str | None = None) -> tuple[str, tuple[Any, ...], int]:
        nonlocal ts
        ts += draw.randrange(1, 5)
        if (stream or draw.choice("ssst")) == "t":
            return "t", (draw.choice(KEYS), draw.randrange(4)), ts
        return "s", (draw.choice(KEYS), draw.randrange(7), draw.randrange(40) / 4), ts

    for kind in itertools.cycle(("one", "other", "few", "table", "time")):
        if kind == "time":
            ts += draw.randrange(10, 60)
            yield Step(kind, [], ts)
            continue
        streams = {"one": ["s"], "other": ["t"], "few": [None] * 4, "table": ["s"] * TABLE_ROWS}[kind]
        events = [event(stream) for stream in streams]
        yield Step(kind, events, ts)


KINDS = 5
TABLE_ROWS = 220
"""From 200 rows on PostgreSQL copies them, from 64 on DuckDB registers them."""


def push(cep: Any, step: Step, position: int | None = None) -> None:
    """Pushes what the step has; with a `position`, so that a push again is dropped if the first is in."""
    options: dict[str, Any] = {} if position is None else {"source": "steps", "position": position}
    match step.kind:
        case "time":
            cep.advance_time(step.ts)
        case "table":
            _, payloads, times = zip(*step.events, strict=True)
            k, a, v = zip(*payloads, strict=True)
            cep.push_events("s", pa.table({"ts": times, "k": k, "a": a, "v": v}), **options)
        case "few":
            cep.push_all(step.events, **options)
        case _ if position is not None:
            cep.push_all(step.events, **options)
        case _:
            cep.push_event(*step.events[0])


class Run:
    """A bridge with queries, and the rows that these have reported, by their names."""

    def __init__(self, cep: Any, queries: dict[str, tuple[str, str]]) -> None:
        self.cep = cep
        self.rows: dict[str, list[Any]] = {}
        text = "VARCHAR(20)" if cep.database.dialect == "mariadb" else "TEXT"
        cep.database.execute("DROP TABLE IF EXISTS bills")
        cep.database.execute(f"CREATE TABLE bills (k {text}, due INTEGER)")
        cep.database.execute("INSERT INTO bills VALUES ('ann', 0), ('bob', 0)")
        for name, schema in STREAMS.items():
            cep.register_stream(name, schema)
        for name, (language, definition) in queries.items():
            cep.create_query(name, definition, language=language)
        for name in set(cep.queries) - set(NOT_REPORTED):
            rows = self.rows[name] = []
            cep.add_output_processor(
                name, lambda event, rows=rows: rows.append((event.timestamp, tuple(event.payload.values())))
            )

    def counts(self) -> dict[str, int]:
        return {name: len(rows) for name, rows in self.rows.items()}


Error = type[BaseException] | None


def check(open_bridge: Callable[[], Any], queries: dict[str, tuple[str, str]], error: Error, stride: int = 1) -> int:
    """Each push fails once, before or after its next call of the driver, and is repeated; gives the number of failures.

    Ends when each kind of push has failed at each of its calls, or at each one in `stride`. An `error` that is an
    interruption may come after the push has taken effect, so that it is repeated with its position.
    """
    failed: list[tuple[int, str]] = []
    with open_bridge() as cep:
        disturbed = Run(cep, queries)
        failures = Failures(cep)
        count = 0
        places = dict.fromkeys(range(KINDS), 0)
        for number, step in enumerate(steps()):
            kind, position = number % KINDS, number if error else None
            count += 1
            if number < 2 * KINDS or kind not in places:
                push(cep, step, position)
                if not places:
                    break
                continue
            call, after = divmod(places[kind], 2)
            places[kind] += stride
            raised = fail(
                failures, call, bool(after), error, lambda step=step, position=position: push(cep, step, position)
            )
            if not failures.has_failed:
                assert raised is None
                del places[kind]
                continue
            when = "after" if after else "before"
            failed.append((number, f"{step.kind}, {when} call {call}, {failures.calls[-1]}: {raised!r:.100}"))
            if raised is not None:
                push(cep, step, position)
    with open_bridge() as cep:
        undisturbed = Run(cep, queries)
        counts = []
        for step in itertools.islice(steps(), count):
            push(cep, step)
            counts.append(undisturbed.counts())
    for name, rows in undisturbed.rows.items():
        compare(name, disturbed.rows[name], rows, [each[name] for each in counts], failed)
    return len(failed)


def fail(failures: Failures, call: int, after: bool, error: Error, push: Callable[[], None]) -> BaseException | None:
    """Pushes with an error at one call of the driver; gives what the push raised."""
    try:
        with failures.at(call, after, error):
            push()
    except (bridge.BridgeError, KeyboardInterrupt) as raised:
        return raised
    return None


def compare(name: str, found: list[Any], rows: list[Any], counts: list[int], failed: list[tuple[int, str]]) -> None:
    """Says at which push the first difference is, and which failures were before it."""
    if found == rows:
        return
    pairs = enumerate(itertools.zip_longest(found, rows))
    place = next(place for place, (one, other) in pairs if one != other)
    number = next((number for number, count in enumerate(counts) if count > place), len(counts))
    near = [what for what in failed if what[0] <= number][-4:]
    pytest.fail(f"{name}, push {number}: {found[place : place + 3]} for {rows[place : place + 3]}; failures: {near}")


def opener(database: Database, folder: pathlib.Path, *, durable: bool, lateness: Any = 0) -> Callable[[], Any]:
    def opened() -> Any:
        url = database.durable(folder) if durable else database.fresh()
        return bridge.connect(url, durable=durable, fresh=True, lateness=lateness)

    return opened


def test_pushes_that_are_interrupted_at_some_calls(tmp_path: pathlib.Path) -> None:
    sqlite = next(database for database in DATABASES if database.name == "sqlite")
    assert check(opener(sqlite, tmp_path, durable=True), ALL, KeyboardInterrupt, stride=151) > 5


@pytest.mark.some_databases(2)
@pytest.mark.parametrize("kind", ["average", "quantifier"])
def test_pushes_that_fail_at_a_call(database: Database, tmp_path: pathlib.Path, kind: str) -> None:
    assert check(opener(database, tmp_path, durable=True), QUERIES[kind], None, stride=5) > 5


@pytest.mark.parametrize("error", [None, KeyboardInterrupt], ids=["error", "interruption"])
def test_reordered_pushes_that_fail_at_a_call(tmp_path: pathlib.Path, error: Error) -> None:
    sqlite = next(database for database in DATABASES if database.name == "sqlite")
    assert check(opener(sqlite, tmp_path, durable=False, lateness="10 MS"), QUERIES["average"], error) > 50


@pytest.mark.parametrize("lateness", [0, "10 MS"], ids=["in order", "reordered"])
@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.long)])
def test_an_end_that_fails_is_repeated(tmp_path: pathlib.Path, lateness: Any, stride: int) -> None:
    """`finish` after an error, or an interruption, at any of its calls."""
    sqlite = next(database for database in DATABASES if database.name == "sqlite")
    ends: list[list[Any]] = []
    has_failed = True
    for call in itertools.count(0, stride):
        if not has_failed:
            break
        for after, error in ((False, None), (True, KeyboardInterrupt)):
            with opener(sqlite, tmp_path, durable=False, lateness=lateness)() as cep:
                run = Run(cep, QUERIES["quantifier"] | {"jumps": QUERIES["jumping"]["q"]})
                failures = Failures(cep)
                for step in itertools.islice(steps(), 3):
                    push(cep, step)
                raised = fail(failures, call, after, error, cep.finish)
                has_failed = failures.has_failed
                if raised is not None:
                    with contextlib.suppress(bridge.BridgeError):  # it may be done
                        cep.finish()
                    cep.deliver()
                ends.append([rows for _, rows in sorted(run.rows.items())])
    assert len(ends) > 4
    assert all(rows == ends[-1] for rows in ends)


@pytest.mark.long
@pytest.mark.parametrize("error", [None, KeyboardInterrupt], ids=["error", "interruption"])
@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
@pytest.mark.parametrize("kind", [*QUERIES, "all"])
def test_pushes_that_fail_at_each_call(
    database: Database, tmp_path: pathlib.Path, kind: str, durable: bool, error: Error
) -> None:
    assert check(opener(database, tmp_path, durable=durable), QUERIES.get(kind, ALL), error) > 20
