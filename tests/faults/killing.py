"""A program with queries of every language that is killed again and again.

    python -m tests.faults.killing URL RUNS [--blocks B] [--queries all|NAME,NAME…] [--seed S] …

Each run is a process of its own, forked from this one after everything is imported. It does what a user's program
does: it connects, declares its queries, and pushes from where its source stands. It is killed (SIGKILL) at any moment.
After a block of RUNS each table of results must have the very rows that an undisturbed bridge gives for the events that
are in, and what the named processor has received must be these results in order, repeated only with the same id.

Each block begins with an empty database, and has events and a random mix of queries of its own, drawn from its seed. It
prints a line of JSON; the last line has the sums of all blocks. `--seed` with the seed of a block repeats that block.
"""

from __future__ import annotations

import argparse
import collections
import functools
import gc
import importlib
import json
import pathlib
import random
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import bridge
from tests.support.runs import PHASES, PLANNING, PUSHING, STARTING, WAITING, killed, phase, result_of

KEYS = ("ann", "bob", "eve")

STREAMS = {"s": "k VARCHAR, a INTEGER, v DOUBLE", "t": "k VARCHAR, b INTEGER"}


class Query(NamedTuple):
    """The text of a query. needs: the statements before it. tables: what a script writes; a query has a table of its name."""

    language: str
    text: str
    needs: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


STATEMENTS = {
    "least": Query("epl", "create variable integer least = 2"),
    "window": Query("epl", "create window recent#keepall as s"),
    "fill": Query("epl", "insert into recent select * from s"),
    "set": Query("epl", "on t(b = 0) set least = least + 1"),
    "table": Query("epl", "create table totals (k string primary key, n count(*))"),
    "count": Query("epl", "into table totals select k, count(*) as n from s group by k"),
    "forget": Query("epl", "on t(b = 1) as e delete from recent as r where r.k = e.k"),
    "by_key": Query("epl", "create context by_key partition by k from s"),
}
"""What queries need; these have no table of results."""

QUERIES = {
    "billing": Query(
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
        tables=("dues", "of_charged", "of_owed"),
    ),
    "filtered": Query("sql", "SELECT k, a FROM s WHERE a > 3"),
    "mean": Query("sql", "SELECT k, AVG(a) AS mean, COUNT(*) AS n FROM s WINDOW(RANGE 30 MS) GROUP BY k"),
    "jumping": Query("sql", "SELECT COUNT(*) AS n, MAX(a) AS top FROM s WINDOW(RANGE 20 MS SLIDE 20 MS)"),
    "rows": Query("sql", "SELECT SUM(a) AS total FROM s WINDOW(ROWS 7)"),
    "joined": Query(
        "sql",
        "SELECT x.k AS k, x.a AS a, y.b AS b FROM s WINDOW(RANGE 15 MS) AS x JOIN t WINDOW(RANGE 15 MS) AS y ON x.k = y.k",
    ),
    "matched": Query(
        "sql",
        "SELECT z FROM s MATCHING(PATTERN ab WITHIN 30 MS MEASURES z:Integer DEFINE a AS a > 2 DO z = a, b AS a < z)",
    ),
    "rising": Query(
        "sql",
        "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.a AS first_a, LAST(B.a) AS last_a "
        "ONE ROW PER MATCH PATTERN (A B+ C) WITHIN INTERVAL '60' MILLISECOND "
        "DEFINE B AS B.a > PREV(B.a), C AS C.a < PREV(C.a) AND NEXT(C.a) > 1) AS m",
    ),
    "followed": Query(
        "epl",
        "select x.k as k, y.a as a from pattern [every x=s(a = 1) -> y=s(k = x.k, a > 3) where timer:within(50 msec)]",
    ),
    "absent": Query(
        "epl",
        "select x.k as k from pattern [every x=s(a = 5) -> (timer:interval(25 msec) and not t(k = x.k))]",
    ),
    "batched": Query("epl", "select k, sum(a) as total from s#time_batch(25 msec) group by k"),
    "limited": Query("epl", "select k, count(*) as n from s group by k output last every 10 events"),
    "recently": Query("epl", "select k, count(*) as n from recent group by k", needs=("window", "fill", "forget")),
    "above": Query("epl", "select k, a from s where a > least", needs=("least", "set")),
    "known": Query(
        "epl", "select s.k as k, r.n as n from s unidirectional, totals as r where r.k = s.k", needs=("table", "count")
    ),
    "sub": Query("epl", "select k, (select max(b) from t#length(3)) as top from s"),
    "distinct": Query("epl", "select k, a from s#unique(k) having sum(a) > 5"),
    "steps": Query(
        "epl",
        "select * from s match_recognize (partition by k measures A.a as x, B.a as y pattern (A B) "
        "define A as A.a < 3, B as B.a > 3)",
    ),
    "union": Query("sql", "SELECT k, a FROM s WHERE a > 4 UNION ALL SELECT k, b AS a FROM t WHERE b > 1"),
    "compared": Query(
        "sql",
        "SELECT x.k AS k, y.b AS b FROM s WINDOW(RANGE 12 MS) AS x JOIN t WINDOW(ROWS 3) AS y ON x.a > y.b",
    ),
    "session": Query(
        "sql",
        "SELECT k, COUNT(*) AS n, LAST(a) AS newest FROM s WINDOW(PARTITION BY k SESSION 9 MS) GROUP BY k",
    ),
    "sorted": Query("epl", "select irstream k, a from s#sort(4, a desc)"),
    "ranked": Query("epl", "select k, a from s#rank(k, 2, a desc)"),
    "changed": Query("epl", "select irstream k, sum(a) as total from s#length(5) group by k"),
    "removed": Query("epl", "select rstream k, a from s#time(20 msec)"),
    "before": Query("epl", "select k, a - prev(1, a) as step, prior(2, a) as third from s#length(6)"),
    "first": Query("epl", "select k, sum(a) as total from s#keepall group by k output first every 30 msec"),
    "last": Query("epl", "select k, max(a) as top from s#length(6) group by k output last every 40 msec"),
    "snapshot": Query("epl", "select k, a from s#length(3) output snapshot every 30 msec"),
    "expiring": Query(
        "epl",
        "select k, a from s#expr(oldest_timestamp > newest_timestamp - 20 and current_count <= 6) having count(*) > 2",
    ),
    "gathered": Query("epl", "select irstream k, a from s#time_accum(12 msec)"),
    "grouped": Query("epl", "select k, sum(a) as total from s#groupwin(k)#length(3) group by k"),
    "lowest": Query("epl", "select k, min(v) as low from s#time(25 msec) group by k having count(*) > 1"),
    "repeated": Query("epl", "select x[0].k as k, y.b as b from pattern [every (x=s(a = 6) until y=t(b > 1))]"),
    "in_context": Query(
        "epl", "context by_key select k, count(*) as n, sum(a) as total from s#length(4)", needs=("by_key",)
    ),
}
"""No result depends on the order in which doubles are added."""

LONGEST = {"sqlite": 0.03, "duckdb": 0.2}
"""By database, seconds per query after which a run is killed at the latest; most runs then push some dozens of events."""

SINCE = (STARTING, PLANNING, *[WAITING] * 6)
"""Every eighth run is killed that long after its start, every eighth after it has begun its first push, others after that."""


class Mix(NamedTuple):
    """Some of the queries, and the seed of the events. The named processor receives the results of `mean`."""

    names: Collection[str] = tuple(QUERIES)
    seed: int = 0

    @classmethod
    def drawn(cls, seed: int) -> Mix:
        """A random mix of four to eight queries."""
        draw = random.Random(f"mix {seed}")
        others = draw.sample([name for name in QUERIES if name != "mean"], draw.randrange(3, 8))
        return cls([name for name in QUERIES if name == "mean" or name in others], seed)

    @property
    def tables(self) -> list[str]:
        """The tables that its queries write."""
        return [table for name in self.names for table in QUERIES[name].tables or (f"of_{name}",)]

    def event(self, number: int) -> tuple[str, tuple[Any, ...], int]:
        """The event of this number: its stream, payload and timestamp."""
        draw = random.Random((self.seed << 32) + number)
        ts = number * 3 + draw.randrange(3)
        if draw.random() < 0.2:
            return "t", (draw.choice(KEYS), draw.randrange(4)), ts
        return "s", (draw.choice(KEYS), draw.randrange(7), draw.random()), ts

    def events(self, numbers: Iterable[int]) -> list[tuple[str, tuple[Any, ...], int]]:
        """The events of these numbers."""
        return [self.event(number) for number in numbers]

    def declare(self, cep: bridge.Bridge, tables: bool = True) -> None:
        """The streams and queries, as a program declares them each time that it starts."""
        if "dues" in self.tables:
            cep.database.execute("CREATE TABLE IF NOT EXISTS dues (k VARCHAR(10) PRIMARY KEY, due BIGINT)")
            there = {k for (k,) in cep.database.fetch("SELECT k FROM dues")}
            cep.database.insert("dues", 2, [(k, 0) for k in KEYS if k not in there])
        for name, schema in STREAMS.items():
            cep.register_stream(name, schema)
        needed = {need for name in self.names for need in QUERIES[name].needs}
        for name, statement in STATEMENTS.items():
            if name in needed:
                cep.create_query(name, statement.text, language=statement.language)
        for name in self.names:
            query = QUERIES[name]
            into = f"of_{name}" if tables and not query.tables else None
            cep.create_query(name, query.text, language=query.language, into=into)

    def rows(self, cep: bridge.Bridge) -> dict[str, list[Any]]:
        """The rows of the tables that its queries write, in order."""
        return {table: sorted(cep.database.fetch(f"SELECT * FROM {table}"), key=repr) for table in self.tables}

    def expected(self, count: int, url: str) -> dict[str, list[Any]]:
        """The rows that an undisturbed bridge gives for the first events, pushed in batches."""
        with bridge.connect(url, fresh=True) as cep:
            self.declare(cep)
            for first in range(1, count + 1, 500):
                cep.push_all(self.events(range(first, min(first + 500, count + 1))))
            found = self.rows(cep)
            cep.drop()
            return found


ALL = Mix()


def work(
    url: str, log: pathlib.Path, seed: int, mix: Mix = ALL, pushed: Callable[[], object] = int, **options: Any
) -> None:
    """Pushes without end, from where the source stands, events one by one and several at a time.

    `pushed` is called after each push; `options` are those of `connect`.
    """
    draw = random.Random(seed)
    cep = bridge.connect(url, **options)
    mix.declare(cep)
    with log.open("a") as received:

        def receive(result: Any) -> None:
            received.write(f"{result.id}\n")
            received.flush()

        cep.add_output_processor("mean", receive, name="log")
        number = int(cep.position("events") or 0) + 1
        doing = PLANNING
        while True:
            count = draw.choice((1, 1, 1, 2, 5, 30))
            phase[0], doing = doing, PUSHING
            cep.push_all(mix.events(range(number, number + count)), source="events", position=number + count - 1)
            phase[0] = WAITING
            pushed()
            number += count
            time.sleep(draw.random() * 0.004)


def check(url: str, log: pathlib.Path, undisturbed: str, mix: Mix = ALL) -> dict[str, int]:
    """Compares what is there with what an undisturbed bridge on the database `undisturbed` gives; raises on a difference."""
    with bridge.connect(url) as cep:
        mix.declare(cep)
        received = log.read_text().split() if log.exists() else []
        cep.add_output_processor("mean", lambda result: received.append(result.id), name="log")
        count = int(cep.position("events") or 0)
        found = mix.rows(cep)
    wanted = mix.expected(count, undisturbed)
    for name in wanted:
        if found[name] != wanted[name]:
            lost = collections.Counter(map(repr, wanted[name])) - collections.Counter(map(repr, found[name]))
            more = collections.Counter(map(repr, found[name])) - collections.Counter(map(repr, wanted[name]))
            raise SystemExit(f"{name} after {count} events: lost {list(lost)[:5]}, too many {list(more)[:5]}: {mix}")
    ids = [row[0] for row in sorted(wanted["of_mean"], key=lambda row: (row[1], int(row[0].split("/")[2])))]
    first = list(dict.fromkeys(received))
    if first != ids:
        raise SystemExit(f"the processor has received {len(first)} of {len(ids)} results, or in another order: {mix}")
    return {"events": count, "results": sum(map(len, wanted.values())), "repeated": len(received) - len(first)}


def clear(url: str, log: pathlib.Path) -> None:
    """Removes what an earlier block has left."""
    log.unlink(missing_ok=True)
    with bridge.connect(url, fresh=True) as cep:
        for table in ALL.tables:
            cep.database.execute(f"DROP TABLE IF EXISTS {table}")
        cep.drop()


def import_all(url: str) -> None:
    """Imports all that a run needs: what is imported when it is needed takes longer than a run lives."""
    importlib.import_module(f"windows.databases.{url.partition(':')[0].partition('+')[0]}")
    with bridge.connect("sqlite://") as cep:
        ALL.declare(cep, tables=False)
        for number in range(1, 100):
            cep.push_all([ALL.event(number)])
    gc.collect()
    gc.freeze()  # else each run would visit all of it once


def kill(url: str, runs: int, mix: Mix, log: pathlib.Path, undisturbed: str, longest: float) -> dict[str, int]:
    """A block: how many runs were killed while doing what, and what was compared."""
    result_of(functools.partial(clear, url, log))  # in a process of its own, as a database may start threads
    doing = collections.Counter(
        killed(functools.partial(work, url, log, each, mix), each, longest, SINCE[each % len(SINCE)])
        for each in range(mix.seed, mix.seed + runs)
    )
    counts = {name: doing[number] for number, name in enumerate(PHASES)}
    return counts | result_of(functools.partial(check, url, log, undisturbed, mix))


def main() -> None:
    """Prints the figures of each block, and their sums."""
    given = _arguments()
    import_all(given.url)
    total, blocks = collections.Counter[str](), collections.Counter[str]()
    for seed in range(given.seed, given.seed + given.blocks * given.runs, given.runs):
        chosen = tuple(QUERIES) if given.queries == "all" else given.queries.split(",")
        mix = Mix(chosen, seed) if given.queries else Mix.drawn(seed)
        longest = given.longest or LONGEST.get(given.url.partition(":")[0], 0.1) * len(mix.names)
        began = time.monotonic()
        found = kill(given.url, given.runs, mix, given.folder / "received.log", given.undisturbed, longest)
        found["seconds"] = round(time.monotonic() - began)
        total.update(found)
        blocks.update(mix.names)
        print(json.dumps({"seed": seed, "queries": list(mix.names), **found}), flush=True)
    print(json.dumps({"blocks": given.blocks, "blocks of each query": blocks, **total}), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.killing")
    parser.add_argument("url", help="the database")
    parser.add_argument("runs", type=int, help="the number of kills per block")
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--queries", default="", help="all, or some names; by default each block draws a mix")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first block")
    parser.add_argument("--longest", type=float, help="seconds after which a run is killed at the latest")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(), help="where results are noted")
    parser.add_argument("--undisturbed", default="sqlite://", help="the database of the undisturbed bridge")
    return parser.parse_args()


if __name__ == "__main__":
    main()
