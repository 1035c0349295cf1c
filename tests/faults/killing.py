"""A program with queries of every language that is killed again and again: `python -m tests.faults.killing URL RUNS [SEED]`.

Each run is a process of its own, forked from this one after everything is imported. It does what a user's program
does: it connects, declares its queries, and pushes from where its source stands. It is killed (SIGKILL) at any moment.
Afterwards each table of results must have the very rows that an undisturbed bridge gives for the events that are in, and
what the named processor has received must be these results in order, repeated only with the same id.
"""

from __future__ import annotations

import collections
import functools
import gc
import importlib
import json
import os
import pathlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import bridge
from tests.support.runs import PUSHING, STARTING, WAITING, killed, phase

KEYS = ("ann", "bob", "eve")

STREAMS = {"s": "k VARCHAR, a INTEGER, v DOUBLE", "t": "k VARCHAR, b INTEGER"}

DECLARED = {
    "least": ("epl", "create variable integer least = 2"),
    "window": ("epl", "create window recent#keepall as s"),
    "fill": ("epl", "insert into recent select * from s"),
    "set": ("epl", "on t(b = 0) set least = least + 1"),
    "table": ("epl", "create table totals (k string primary key, n count(*))"),
    "count": ("epl", "into table totals select k, count(*) as n from s group by k"),
    "forget": ("epl", "on t(b = 1) as e delete from recent as r where r.k = e.k"),
    "by_key": ("epl", "create context by_key partition by k from s"),
    "billing": (
        "cpl",
        """
        CREATE WINDOW w ON TIME SIZE 40 MS ADVANCE 20 MS
        CREATE SQL charge AS UPDATE dues SET due = due + ? WHERE k = ?;
        CREATE SQL due_of AS SELECT due FROM dues WHERE k = ?;
        INSERT INTO costs SELECT k, a * 2 AS cost FROM s WHERE a > 1
        INSERT INTO bills SELECT k, SUM(cost) AS bill FROM costs ON WINDOW w GROUP BY k
        INSERT INTO charged SELECT k, bill, rows FROM bills ON SQL charge, c, bill, k, rows
        INSERT INTO owed SELECT k, b, debt.due FROM t ON SQL due_of, debt, k, due
        INSERT INTO TABLE of_charged SELECT * FROM charged
        INSERT INTO TABLE of_owed SELECT * FROM owed""",
    ),
}
"""What the queries read, and a script that writes tables; these have no table of results."""

TABLES = ("dues", "of_charged", "of_owed")
"""What the script writes."""

QUERIES = {
    "filtered": ("sql", "SELECT k, a FROM s WHERE a > 3"),
    "mean": ("sql", "SELECT k, AVG(a) AS mean, COUNT(*) AS n FROM s WINDOW(RANGE 30 MS) GROUP BY k"),
    "jumping": ("sql", "SELECT COUNT(*) AS n, MAX(a) AS top FROM s WINDOW(RANGE 20 MS SLIDE 20 MS)"),
    "rows": ("sql", "SELECT SUM(a) AS total FROM s WINDOW(ROWS 7)"),
    "joined": (
        "sql",
        "SELECT x.k AS k, x.a AS a, y.b AS b FROM s WINDOW(RANGE 15 MS) AS x JOIN t WINDOW(RANGE 15 MS) AS y ON x.k = y.k",
    ),
    "matched": (
        "sql",
        "SELECT z FROM s MATCHING(PATTERN ab WITHIN 30 MS MEASURES z:Integer DEFINE a AS a > 2 DO z = a, b AS a < z)",
    ),
    "rising": (
        "sql",
        "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.a AS first_a, LAST(B.a) AS last_a "
        "ONE ROW PER MATCH PATTERN (A B+ C) WITHIN INTERVAL '60' MILLISECOND "
        "DEFINE B AS B.a > PREV(B.a), C AS C.a < PREV(C.a) AND NEXT(C.a) > 1) AS m",
    ),
    "followed": (
        "epl",
        "select x.k as k, y.a as a from pattern [every x=s(a = 1) -> y=s(k = x.k, a > 3) where timer:within(50 msec)]",
    ),
    "absent": (
        "epl",
        "select x.k as k from pattern [every x=s(a = 5) -> (timer:interval(25 msec) and not t(k = x.k))]",
    ),
    "batched": ("epl", "select k, sum(a) as total from s#time_batch(25 msec) group by k"),
    "limited": ("epl", "select k, count(*) as n from s group by k output last every 10 events"),
    "recently": ("epl", "select k, count(*) as n from recent group by k"),
    "above": ("epl", "select k, a from s where a > least"),
    "known": ("epl", "select s.k as k, r.n as n from s unidirectional, totals as r where r.k = s.k"),
    "sub": ("epl", "select k, (select max(b) from t#length(3)) as top from s"),
    "distinct": ("epl", "select k, a from s#unique(k) having sum(a) > 5"),
    "steps": (
        "epl",
        "select * from s match_recognize (partition by k measures A.a as x, B.a as y pattern (A B) "
        "define A as A.a < 3, B as B.a > 3)",
    ),
    "union": ("sql", "SELECT k, a FROM s WHERE a > 4 UNION ALL SELECT k, b AS a FROM t WHERE b > 1"),
    "compared": (
        "sql",
        "SELECT x.k AS k, y.b AS b FROM s WINDOW(RANGE 12 MS) AS x JOIN t WINDOW(ROWS 3) AS y ON x.a > y.b",
    ),
    "session": (
        "sql",
        "SELECT k, COUNT(*) AS n, LAST(a) AS newest FROM s WINDOW(PARTITION BY k SESSION 9 MS) GROUP BY k",
    ),
    "sorted": ("epl", "select irstream k, a from s#sort(4, a desc)"),
    "ranked": ("epl", "select k, a from s#rank(k, 2, a desc)"),
    "changed": ("epl", "select irstream k, sum(a) as total from s#length(5) group by k"),
    "removed": ("epl", "select rstream k, a from s#time(20 msec)"),
    "before": ("epl", "select k, a - prev(1, a) as step, prior(2, a) as third from s#length(6)"),
    "first": ("epl", "select k, sum(a) as total from s#keepall group by k output first every 30 msec"),
    "last": ("epl", "select k, max(a) as top from s#length(6) group by k output last every 40 msec"),
    "snapshot": ("epl", "select k, a from s#length(3) output snapshot every 30 msec"),
    "expiring": (
        "epl",
        "select k, a from s#expr(oldest_timestamp > newest_timestamp - 20 and current_count <= 6) having count(*) > 2",
    ),
    "gathered": ("epl", "select irstream k, a from s#time_accum(12 msec)"),
    "grouped": ("epl", "select k, sum(a) as total from s#groupwin(k)#length(3) group by k"),
    "lowest": ("epl", "select k, min(v) as low from s#time(25 msec) group by k having count(*) > 1"),
    "repeated": ("epl", "select x[0].k as k, y.b as b from pattern [every (x=s(a = 6) until y=t(b > 1))]"),
    "in_context": ("epl", "context by_key select k, count(*) as n, sum(a) as total from s#length(4)"),
}
"""Each has a table of results of its name. No result depends on the order in which doubles are added."""

OF_DECLARED = ("recently", "above", "known", "in_context")
"""Queries that read what statements change, or are in a context."""

PLAIN = {name: query for name, query in QUERIES.items() if name not in OF_DECLARED}
"""Queries beside which several events are one push."""

if os.environ.get("PLAIN"):
    QUERIES, DECLARED = PLAIN, {}

LONGEST = float(os.environ.get("LONGEST", "1.5"))
"""Seconds after which a run is killed at the latest."""


def event(number: int) -> tuple[str, tuple[Any, ...], int]:
    """The event of this number: its stream, payload and timestamp."""
    draw = random.Random(number)
    ts = number * 3 + draw.randrange(3)
    if draw.random() < 0.2:
        return "t", (draw.choice(KEYS), draw.randrange(4)), ts
    return "s", (draw.choice(KEYS), draw.randrange(7), draw.random()), ts


def declare(cep: bridge.Bridge, tables: bool = True) -> None:
    """The streams and queries, as a program declares them each time that it starts."""
    if DECLARED:
        cep.database.execute("CREATE TABLE IF NOT EXISTS dues (k VARCHAR(10) PRIMARY KEY, due BIGINT)")
        there = {k for (k,) in cep.database.fetch("SELECT k FROM dues")}
        cep.database.insert("dues", 2, [(k, 0) for k in KEYS if k not in there])
    for name, schema in STREAMS.items():
        cep.register_stream(name, schema)
    for name, (language, text) in DECLARED.items():
        cep.create_query(name, text, language=language)
    for name, (language, text) in QUERIES.items():
        cep.create_query(name, text, language=language, into=f"of_{name}" if tables else None)


def work(url: str, log: pathlib.Path, seed: int, pushed: Callable[[], object] = int, **options: Any) -> None:
    """Pushes without end, from where the source stands, events one by one and several at a time.

    `pushed` is called after each push; `options` are those of `connect`.
    """
    draw = random.Random(seed)
    cep = bridge.connect(url, **options)
    declare(cep)
    with log.open("a") as received:

        def receive(result: Any) -> None:
            received.write(f"{result.id}\n")
            received.flush()

        cep.add_output_processor("mean", receive, name="log")
        number = int(cep.position("events") or 0) + 1
        while True:
            count = draw.choice((1, 1, 1, 2, 5, 30))
            phase[0] = PUSHING
            cep.push_all(
                [event(each) for each in range(number, number + count)], source="events", position=number + count - 1
            )
            phase[0] = WAITING
            pushed()
            number += count
            time.sleep(draw.random() * 0.004)


def rows_of(cep: bridge.Bridge) -> dict[str, list[Any]]:
    """The rows of the tables that queries write, in order."""
    tables = [*(f"of_{name}" for name in QUERIES), *(TABLES if DECLARED else ())]
    return {table: sorted(cep.database.fetch(f"SELECT * FROM {table}"), key=repr) for table in tables}


def expected(count: int, url: str) -> dict[str, list[Any]]:
    """The rows that an undisturbed bridge gives for the first events, pushed in batches."""
    with bridge.connect(url, fresh=True) as cep:
        declare(cep)
        for first in range(1, count + 1, 500):
            cep.push_all([event(number) for number in range(first, min(first + 500, count + 1))])
        found = rows_of(cep)
        cep.drop()
        return found


def check(url: str, log: pathlib.Path, undisturbed: str) -> dict[str, int]:
    """Compares what is there with what an undisturbed bridge on the database `undisturbed` gives; raises on a difference."""
    with bridge.connect(url) as cep:
        declare(cep)
        received = log.read_text().split() if log.exists() else []
        cep.add_output_processor("mean", lambda result: received.append(result.id), name="log")
        count = int(cep.position("events") or 0)
        found = rows_of(cep)
    wanted = expected(count, undisturbed)
    for name in wanted:
        if found[name] != wanted[name]:
            lost = collections.Counter(map(repr, wanted[name])) - collections.Counter(map(repr, found[name]))
            more = collections.Counter(map(repr, found[name])) - collections.Counter(map(repr, wanted[name]))
            raise SystemExit(f"{name} after {count} events: lost {list(lost)[:5]}, too many {list(more)[:5]}")
    ids = [row[0] for row in sorted(wanted["of_mean"], key=lambda row: (row[1], int(row[0].split("/")[2])))]
    first = list(dict.fromkeys(received))
    if first != ids:
        raise SystemExit(f"the processor has received {len(first)} of {len(ids)} results, or in another order")
    return {"events": count, "results": sum(map(len, wanted.values())), "repeated": len(received) - len(first)}


def import_all(url: str) -> None:
    """Imports all that a run needs: what is imported when it is needed takes longer than a run lives."""
    importlib.import_module(f"windows.databases.{url.partition(':')[0].partition('+')[0]}")
    with bridge.connect("sqlite://") as cep:
        declare(cep, tables=False)
        for number in range(1, 100):
            cep.push_all([event(number)])
    gc.collect()
    gc.freeze()  # else each run would visit all of it once


def main(url: str, runs: int, seed: int = 0, folder: str = ".", undisturbed: str = "") -> None:
    """Prints how many runs were killed while starting, waiting and pushing, and what was compared."""
    log = pathlib.Path(folder) / "received.log"
    import_all(url)
    doing = collections.Counter(
        killed(functools.partial(work, url, log, each), each, LONGEST, waits=each % 4 > 0)
        for each in range(seed, seed + runs)
    )
    counts = {"starting": doing[STARTING], "waiting": doing[WAITING], "pushing": doing[PUSHING]}
    print(json.dumps({**counts, **check(url, log, undisturbed or "sqlite://" if "sqlite" in url else "duckdb://")}))


def _arguments() -> Iterator[Any]:
    url, runs, *rest = sys.argv[1:]
    yield url
    yield int(runs)
    yield from (int(each) if each.isdigit() else each for each in rest)


if __name__ == "__main__":
    main(*_arguments())
